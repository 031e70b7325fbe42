/* kv_distance.c -- how far the keys and values of two runs of one prompt are apart. */
#include "serve/check/measure.h"
#include "serve/request/request.h"

/* live_slot -- where the KV is that the answer has read at a position: in the last span that holds
 * the position and does not mark it stale. */
static bool live_slot(const sp_plan *p, int32_t pos, sp_kv_slot *out)
{
    for (int s = p->n_spans - 1; s >= 0; s--) {
        const sp_span *span = &p->spans[s];
        int32_t at = pos - span->shift, i = at - span->at;
        if (span->pos) {
            for (i = 0; i < span->n && span->pos[i] != at; i++) {
            }
        }
        if (i < 0 || i >= span->n) continue;
        if (span->stale && (span->stale[i / 64] >> (i % 64) & 1)) continue;
        *out = sp_span_slot(span, i);
        return true;
    }
    return false;
}

static bool same_prompt(const sp_request *a, const sp_request *b)
{
    if (a->ctx != b->ctx || a->prompt.n_segs != b->prompt.n_segs) return false;
    for (int i = 0; i < a->prompt.n_segs; i++)
        if (!sp_digest_eq(&a->prompt.segs[i].id, &b->prompt.segs[i].id)) return false;
    return true;
}

/* chunk_slots -- both copies of every chunk token, in prompt order; returns how many. */
static int64_t chunk_slots(const sp_request *r, const sp_request *reference, sp_kv_slot *a,
                           sp_kv_slot *b)
{
    int64_t n = 0;
    int32_t place = 0;
    for (int i = 0; i < r->prompt.n_segs; place += r->prompt.segs[i].n, i++)
        for (int32_t t = 0; r->prompt.segs[i].kind == SP_SEG_CHUNK && t < r->prompt.segs[i].n; t++)
            n += live_slot(&r->plans.now, place + t, &a[n]) &&
                 live_slot(&reference->plans.now, place + t, &b[n]);
    return n;
}

sp_err sp_request_kv_deviation(const sp_request *r, const sp_request *reference, float *out)
{
    if (!r->holds_kv || !reference->holds_kv)
        return sp_fail(SP_E_ARG, "KV deviation: the requests were not run with keep_kv");
    if (!same_prompt(r, reference))
        return sp_fail(SP_E_ARG, "KV deviation: the requests have different prompts");
    size_t n = (size_t)r->prompt.n_tokens;
    sp_kv_slot *slots = sp_alloc(2 * n, sizeof *slots);
    if (!slots) return sp_fail_nomem("KV deviation");
    sp_kv_pairs pairs = {.a = slots, .b = slots + n};
    pairs.n = chunk_slots(r, reference, slots, slots + n);
    sp_err err = SP_OK;
    for (int l = 0; l < r->ctx->model->hp.n_layers && err == SP_OK; l++)
        err = sp_engine_kv_distance(r->ctx->engine, l, &pairs, &out[l]);
    sp_free(slots);
    return err;
}
