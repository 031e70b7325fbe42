/* measure.c -- measured requests: forced answers, logits, KV that is kept. The measurements are added to a request
 * before it joins the queue. */
#include "serve/check/measure.h"

#include <string.h>

#include "serve/request/request.h"

static sp_err check(const sp_context *c, const sp_measure *m)
{
    if (m->n_forced < 0 || (m->n_forced && !m->forced))
        return sp_fail(SP_E_ARG, "forced: %d tokens", m->n_forced);
    for (int i = 0; i < m->n_forced; i++)
        if (m->forced[i] < 0 || m->forced[i] >= c->model->hp.n_vocab)
            return sp_fail(SP_E_ARG, "forced: token %d, id %d, is not in the vocabulary of %d", i,
                           m->forced[i], c->model->hp.n_vocab);
    return SP_OK;
}

/* check_rewind -- refuses what keeps state of the steps that a rewind removes. */
static sp_err check_rewind(const sp_request *r)
{
    const int n = r->measure.n_forced, room = r->answer.max_tokens;
    if (n < 1 || n > room) return sp_fail(SP_E_ARG, "rewinds: %d forced tokens, and room for %d", n, room);
    if (r->answer.sparse || r->ctx->offload || r->o.grammar)
        return sp_fail(SP_E_ARG, "rewinds: not with sparse decoding, contexts in a file, or a grammar");
    return SP_OK;
}

static sp_err copy_measure(sp_request *r, const sp_measure *m)
{
    size_t n = (size_t)m->n_forced;
    int32_t *forced = sp_arena_take(&r->arena, n, sizeof *forced);
    if (!forced) return sp_fail_nomem("forced tokens");
    if (n) memcpy(forced, m->forced, n * sizeof *forced);
    r->measure = *m;
    r->measure.forced = forced;
    return m->rewinds ? check_rewind(r) : SP_OK;
}

static sp_err swap_out(sp_context *c, void *arg)
{
    SP_UNUSED(arg);
    if (!c->tiers || !sp_tiers_host(c->tiers)) return sp_fail(SP_E_ARG, "the context has no host tier");
    sp_tiers_drain(c->tiers);
    while (sp_ledger_free_up(c->ledger, sp_kv_pool_n_free(c->pool) + 1)) {
    }
    return SP_OK;
}

sp_err sp_measure_swap_out(sp_context *c)
{
    return sp_driver_call(c, swap_out, NULL);
}

sp_err sp_measure_heads(sp_context *c, const sp_heads *h)
{
    const size_t n = (size_t)h->n_layers * (size_t)h->n_heads;
    if (!c->heads) SP_TRY(sp_heads_create(h->n_layers, h->n_heads, h->n_kv_heads, &c->heads));
    memcpy(c->heads->importance, h->importance, n * sizeof *h->importance);
    memcpy(c->heads->similarity, h->similarity, n * sizeof *h->similarity);
    return SP_OK;
}

void sp_measure_sights(const sp_request *r, int *n_had, int *n_saw)
{
    *n_had = r->account.n_had;
    *n_saw = r->account.n_saw;
}

sp_err sp_measure_submit(sp_context *c, const sp_prompt *p, const sp_request_opts *o,
                         const sp_measure *m, sp_request **out)
{
    sp_request *r = NULL;
    SP_TRY(check(c, m));
    SP_TRY(sp_request_create(c, p, o, NULL, &r));
    sp_err err = copy_measure(r, m);
    if (err != SP_OK) {
        sp_request_discard(r);
        return err;
    }
    sp_driver_submit(c, r);
    *out = r;
    return SP_OK;
}
