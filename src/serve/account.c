/* account.c -- what a request says of itself afterwards: what was reused, what was computed again,
 * and how far its keys and values are from those of another. */
#include <math.h>

#include "serve/context_int.h"

/* n_stale -- tokens of segment i that were cached and yet computed again. */
static int32_t n_stale(const sp_request *r, int i)
{
    if (r->stage != SP_STAGE_ANSWER || i >= r->plan.n_spans || !r->plan.spans[i].stale) return 0;
    int32_t n = 0;
    for (int32_t w = 0; w < SP_DIV_UP(r->segs[i].n, 64); w++)
        n += __builtin_popcountll(r->plan.spans[i].stale[w]);
    return n;
}

void sp_request_report(sp_request *r)
{
    sp_segment_report *rep = sp_arena_take(&r->arena, (size_t)r->n_segs, sizeof *rep);
    for (int i = 0; i < r->n_segs; i++) {
        int32_t again = n_stale(r, i), reused = SP_MAX(0, r->had[i] - again);
        r->result.n_reused += reused;
        r->result.n_recomputed += again;
        if (rep)
            rep[i] = (sp_segment_report){.kind = sp_segment_kind_name(r->segs[i].kind),
                                         .n_tokens = r->segs[i].n,
                                         .n_reused = reused,
                                         .n_recomputed = again};
    }
    r->result.n_computed = r->n_prompt - r->result.n_reused;
    r->result.segments = rep;
    r->result.n_segments = rep ? r->n_segs : 0;
}

/* -- distance of keys and values ------------------------------------------------------------- */

/* live_slot -- where the copy of token `index` of segment i lies that the answer has read: the
 * last span that holds its position and does not call it stale. */
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
        *out = (sp_kv_slot){.block = span->blocks[i / SP_BLOCK_TOKENS],
                            .slot = (uint8_t)(i % SP_BLOCK_TOKENS),
                            .rot = at};
        return true;
    }
    return false;
}

static bool same_prompt(const sp_request *a, const sp_request *b)
{
    if (a->ctx != b->ctx || a->n_segs != b->n_segs) return false;
    for (int i = 0; i < a->n_segs; i++)
        if (!sp_digest_eq(&a->segs[i].id, &b->segs[i].id)) return false;
    return true;
}

/* chunk_slots -- both copies of every chunk token, in prompt order; returns how many. */
static int64_t chunk_slots(const sp_request *r, const sp_request *reference, sp_kv_slot *a,
                           sp_kv_slot *b)
{
    int64_t n = 0;
    int32_t place = 0;
    for (int i = 0; i < r->n_segs; place += r->segs[i].n, i++)
        for (int32_t t = 0; r->segs[i].kind == SP_SEG_CHUNK && t < r->segs[i].n; t++)
            n += live_slot(&r->plan, place + t, &a[n]) &&
                 live_slot(&reference->plan, place + t, &b[n]);
    return n;
}

/* layer_deviation -- |KV - KV'| / |KV'| over n tokens in one layer. */
static float layer_deviation(sp_context *c, int layer, const sp_kv_slot *a, const sp_kv_slot *b,
                             int64_t n, float *out)
{
    sp_kv_view kv = sp_kv_pool_layer(c->pool, layer);
    float k[SP_HEAD_MAX], v[SP_HEAD_MAX];
    double differ = 0, norm = 0;
    c->ops->kv_differ(
        &(sp_kv_differ_args){
            .kv = &kv, .rope = sp_engine_rope(c->engine), .a = a, .b = b, .m = n, .out = out},
        0, 1);
    for (int64_t i = 0; i < n; i++) {
        differ += (double)out[i];
        for (int h = 0; h < kv.n_heads; h++) {
            sp_kv_read(&kv, &b[i], h, k, v);
            for (int d = 0; d < kv.head; d++) norm += (double)k[d] * k[d] + (double)v[d] * v[d];
        }
    }
    return norm > 0 ? (float)sqrt(differ / norm) : 0;
}

sp_err sp_request_kv_deviation(const sp_request *r, const sp_request *reference, float *out)
{
    if (!r->holds_kv || !reference->holds_kv)
        return sp_fail(SP_E_ARG, "KV deviation: the requests were not run with keep_kv");
    if (!same_prompt(r, reference))
        return sp_fail(SP_E_ARG, "KV deviation: the requests have different prompts");
    size_t n = (size_t)r->n_prompt;
    sp_kv_slot *slots = sp_alloc(2 * n, sizeof *slots);
    float *differ = sp_alloc(n, sizeof *differ);
    sp_err err = slots && differ ? SP_OK : sp_fail_nomem(2 * n * sizeof *slots, "KV deviation");
    if (err == SP_OK) {
        int64_t m = chunk_slots(r, reference, slots, slots + n);
        for (int l = 0; l < r->ctx->model->hp.n_layers; l++)
            out[l] = layer_deviation(r->ctx, l, slots, slots + n, m, differ);
    }
    sp_free(slots);
    sp_free(differ);
    return err;
}
