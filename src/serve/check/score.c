/* score.c -- logits of every position of a text: the plain forward pass, for checks and
 * perplexity. */
#include "base/need.h"
#include "serve/request/context.h"

#define SCORE_ROWS 32 /* rows of logits held at a time unless the caller asks for other pieces */

static sp_err run_pieces(sp_context *c, sp_plan *plan, int piece, float *logits, sp_logits_fn *fn,
                         void *user)
{
    int n_vocab = c->model->hp.n_vocab;
    for (int from = 0; from < plan->n_todo; from += piece) {
        int n = SP_MIN(piece, plan->n_todo - from);
        sp_slice slice = {
            .plan = plan, .from = from, .n = n, .want = SP_WANT_ALL, .logits = logits};
        SP_TRY(sp_engine_step(c->engine, &slice, 1));
        for (int i = 0; i < n; i++)
            SP_TRY(fn(from + i, logits + (size_t)i * (size_t)n_vocab, n_vocab, user));
    }
    return SP_OK;
}

/* free_up -- frees blocks, also of copies that are pinned until they are written to the store. */
static bool free_up(sp_context *c, int64_t n_blocks)
{
    if (sp_ledger_free_up(c->ledger, n_blocks)) return true;
    if (!c->tiers) return false;
    sp_tiers_drain(c->tiers);
    return sp_ledger_free_up(c->ledger, n_blocks);
}

static sp_err bind_alone(sp_context *c, sp_plan *plan)
{
    if (!free_up(c, c->reserved + sp_plan_n_fresh(plan)))
        return sp_fail(SP_E_NOKV,
                       "the text needs %lld blocks of KV memory; %lld of %lld are available",
                       (long long)sp_plan_n_fresh(plan), (long long)sp_kv_pool_n_free(c->pool),
                       (long long)sp_kv_pool_n_blocks(c->pool));
    return sp_plan_bind(plan);
}

typedef struct score_args {
    const int32_t *ids;
    size_t n;
    int piece;
    sp_logits_fn *fn;
    void *user;
} score_args;

static sp_err score(sp_context *c, void *arg)
{
    const score_args *a = arg;
    const size_t n = a->n;
    int piece = a->piece;
    if (n < 1) return sp_fail(SP_E_ARG, "the text is empty");
    if (n > (size_t)c->limits.n_ctx)
        return sp_fail(SP_E_CONTEXT, "a text of %zu tokens does not fit the context of %d", n,
                       c->limits.n_ctx);
    if (piece < 0) return sp_fail(SP_E_ARG, "piece: %d is negative", piece);
    piece = SP_MIN(piece ? piece : SCORE_ROWS, c->limits.n_batch);
    float *logits = sp_alloc((size_t)piece * (size_t)c->model->hp.n_vocab, sizeof *logits);
    if (!logits)
        return sp_fail_nomem("logits");
    sp_segment seg = {.kind = SP_SEG_TEXT, .tokens = a->ids, .n = (int32_t)n};
    sp_plan plan;
    sp_plan_init(&plan, c->pool);
    sp_found found = {0};
    sp_plan_role role;
    sp_reuse_input in = {.segs = &seg, .n_segs = 1, .n_head = 1, .found = &found};
    sp_err err = sp_reuse_off.next_plan(&in, &plan, &role);
    if (err == SP_OK) err = bind_alone(c, &plan);
    if (err == SP_OK) err = run_pieces(c, &plan, piece, logits, a->fn, a->user);
    sp_plan_fini(&plan);
    sp_free(logits);
    return err;
}

sp_err sp_tokens_score(sp_context *c, const int32_t *ids, size_t n, int piece, sp_logits_fn *fn,
                       void *user)
{
    SP_NEED(c);
    SP_NEED(fn);
    if ((!ids && n) || !fn) return sp_fail(SP_E_ARG, "score: token ids or callback are NULL");
    score_args a = {.ids = ids, .n = n, .piece = piece, .fn = fn, .user = user};
    return sp_driver_call(c, score, &a);
}
