/* plan.c -- plans, and the KV memory that they take: reserved for the whole request before it
 * starts, and bound plan by plan. */
#include <assert.h>

#include "base/clock.h"
#include "serve/request/request.h"

static sp_err make_plan(sp_request *r)
{
    int64_t start = sp_clock_us();
    sp_reuse_input in = sp_request_input(r);
    sp_plan_init(&r->plans.now, r->ctx->pool);
    r->plans.next_todo = 0;
    sp_err err = r->reuse.policy->next_plan(&in, &r->plans.now, &r->plans.role);
    r->plans.answer_span = r->plans.now.n_spans - 1;
    if (err == SP_OK) sp_request_cite_prompt(r);
    r->plans.us += sp_clock_us() - start;
    return err;
}

sp_err sp_request_plan_first(sp_request *r)
{
    return r->plans.now.n_spans ? SP_OK : make_plan(r);
}

/* -- KV memory ------------------------------------------------------------------------------- */

/* set_aside -- n blocks (or -n back) for the request: I2. */
static void set_aside(sp_request *r, int64_t n)
{
    r->plans.reserved += n;
    r->ctx->reserved += n;
    assert(r->plans.reserved >= 0);
}

void sp_request_took_block(sp_request *r)
{
    set_aside(r, -1);
}

void sp_request_gave_blocks(sp_request *r, int32_t n)
{
    set_aside(r, n);
}

void sp_request_unreserve(sp_request *r)
{
    set_aside(r, -r->plans.reserved);
}

/* room_of -- an upper bound on the blocks of all plans: segments that were not found, plus the whole prompt if tokens
 * are recomputed. Those of each segment may have blocks of their own. */
static int64_t room_of(const sp_reuse_input *in, bool recomputes)
{
    int64_t n = sp_reuse_n_missing(in);
    for (int i = 0; i < in->n_segs && recomputes; i++) n += sp_blocks_for(in->segs[i].n);
    return n;
}

/* blocks_needed -- for all plans of the request and its answer, at most; what is found is pinned
 * already. */
static int64_t blocks_needed(const sp_request *r)
{
    const sp_reuse_policy *p = r->reuse.policy;
    sp_reuse_input in = sp_request_input(r);
    int64_t answer = sp_blocks_for(r->answer.max_tokens);
    if (r->plans.role == SP_PLAN_ANSWER) return sp_plan_n_fresh(&r->plans.now) + answer; /* its only plan */
    const bool recomputes = in.recompute > 0 || r->plans.role == SP_PLAN_PROBE;
    return answer + (p->room ? p->room(&in) : room_of(&in, recomputes));
}

/* bind -- the plan takes its blocks out of what is set aside. */
static sp_err bind(sp_request *r)
{
    int64_t n = sp_plan_n_fresh(&r->plans.now);
    SP_TRY(sp_plan_bind(&r->plans.now));
    set_aside(r, -n);
    return sp_plan_check(&r->plans.now);
}

sp_err sp_request_fail_to_fit(const sp_request *r, int64_t n_blocks)
{
    const int64_t all = sp_kv_pool_n_blocks(r->ctx->pool);
    return sp_fail(SP_E_CONTEXT,
                   "prompt of %d tokens and an answer of up to %d take %lld tokens of the KV memory, which holds "
                   "%lld: raise --kv-memory, or lower max_tokens",
                   r->prompt.n_tokens, r->answer.max_tokens, (long long)n_blocks * SP_BLOCK_TOKENS,
                   (long long)all * SP_BLOCK_TOKENS);
}

/* fail_to_reserve -- no other request holds memory: all of it is too little, or copies have the rest, which may leave
 * later. */
static sp_err fail_to_reserve(const sp_request *r, int64_t need)
{
    const sp_kv_pool *pool = r->ctx->pool;
    const int64_t all = sp_kv_pool_n_blocks(pool);
    if (need > all) return sp_request_fail_to_fit(r, need);
    return sp_fail(SP_E_NOKV,
                   "prompt and answer need %lld blocks of KV memory; %lld of %lld are available: pinned copies have "
                   "the others",
                   (long long)need, (long long)sp_kv_pool_n_free(pool), (long long)all);
}

/* take_room -- reserves what the request needs and binds its first plan, if copies that nobody uses leave room. */
static sp_err take_room(sp_request *r, bool *fits)
{
    sp_context *c = r->ctx;
    const int64_t need = blocks_needed(r);
    *fits = sp_ledger_free_up(c->ledger, c->reserved + need);
    if (!*fits && sp_tiers_yield(c->tiers)) *fits = sp_ledger_free_up(c->ledger, c->reserved + need);
    if (!*fits) return SP_OK;
    set_aside(r, need);
    return bind(r);
}

/* forgo -- releases the copies that were found; false: there were none. */
static bool forgo(sp_request *r)
{
    bool any = false;
    for (int i = 0; i < r->prompt.n_segs; i++) {
        sp_found *f = &r->look.found[i];
        if (!f->copy) continue;
        sp_ledger_unpin(r->ctx->ledger, f->copy);
        *f = (sp_found){.miss = SP_MISS_NO_ROOM};
        any = true;
    }
    return any;
}

/* retry -- another first plan, and its room. */
static sp_err retry(sp_request *r, bool *fits)
{
    sp_plan_fini(&r->plans.now);
    SP_TRY(make_plan(r));
    return take_room(r, fits);
}

sp_err sp_request_reserve(sp_request *r, bool *fits)
{
    sp_context *c = r->ctx;
    SP_TRY(take_room(r, fits));
    const bool others_hold = c->n_running > 0 || sp_tiers_is_busy(c->tiers);
    if (*fits || others_hold) return SP_OK;
    if (forgo(r)) SP_TRY(retry(r, fits));
    if (!*fits && r->reuse.policy->recomputes && r->answer.max_tokens) { /* chunks alone, and then in the prompt */
        r->reuse.policy = sp_reuse_policy_default();
        SP_TRY(retry(r, fits));
    }
    return *fits ? SP_OK : fail_to_reserve(r, blocks_needed(r));
}

/* end_last -- sets aside again the blocks of the last plan that no copy has kept. */
static void end_last(sp_request *r)
{
    int64_t n_free = sp_kv_pool_n_free(r->ctx->pool);
    sp_plan_fini(&r->plans.last);
    set_aside(r, sp_kv_pool_n_free(r->ctx->pool) - n_free);
}

sp_err sp_request_plan_next(sp_request *r)
{
    r->plans.last = r->plans.now;
    r->plans.now = (sp_plan){0};
    SP_TRY(make_plan(r));
    end_last(r);
    return bind(r);
}
