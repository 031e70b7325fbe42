/* pack.c -- answers over scattered nodes of trees, which were loaded from a lower tier or computed for other
 * questions. Attention gathers their keys in each step; packed together, they are read in place (kv/pack.h).
 *
 * The length of an answer is not known in advance, and packing costs about as much as PACK_AFTER steps of gathering.
 * So nodes are packed after that many tokens: short answers pay nothing, long ones at most twice the minimum. The new
 * blocks belong to the request and are released with its plan. */
#include "base/clock.h"
#include "base/log.h"
#include "engine/pack.h"
#include "serve/request/request.h"

enum {
    PACK_AFTER = 8, /* tokens of the answer, with as many to come */
    SHARE = 8       /* of KV memory: 1 / SHARE of it for the nodes of a request */
};

/* may_pack -- sparse decoding remembers blocks, and blocks of an offload may be away. */
static bool may_pack(const sp_request *r)
{
    const int32_t n = (int32_t)r->answer.tokens.n;
    return n == PACK_AFTER && r->answer.max_tokens - n >= PACK_AFTER && !r->answer.sparse &&
           !r->ctx->offload;
}

void sp_request_pack(sp_request *r)
{
    sp_context *c = r->ctx;
    if (!may_pack(r)) return;
    const int64_t start = sp_clock_us();
    const sp_packing what = sp_plan_packing(&r->plans.now);
    if (!what.n_tokens || what.n_blocks > sp_kv_pool_n_blocks(c->pool) / SHARE) return;
    if (!sp_ledger_free_up(c->ledger, c->reserved + what.n_blocks)) return;
    sp_err err = sp_engine_pack(c->engine, &r->plans.now, &what);
    if (err != SP_OK) {
        sp_log(SP_LOG_WARN, "the nodes of a tree were not packed: %s", sp_error_detail());
        return;
    }
    r->account.result.decode.n_packed = what.n_tokens;
    r->account.result.decode.pack_us = sp_clock_us() - start;
}
