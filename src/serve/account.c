/* account.c -- what a request says of itself afterwards: what was reused, what was computed again,
 * and how far its keys and values are from those of another. */
#include "serve/context_int.h"

/* count_again -- tokens of each segment that the answer's plan computes beside a cached copy: they
 * stand in a span of their own behind those of the segments. out [n_segs]. */
static void count_again(const sp_request *r, int32_t *out)
{
    const sp_plan *p = &r->plan;
    if (r->stage != SP_STAGE_ANSWER || !r->reuse.policy->uses_chunks || r->fuse) return;
    int seg = 0;
    int32_t end = r->segs[0].n; /* todo is in ascending positions */
    for (int t = 0; t < p->n_todo; t++) {
        while (p->todo[t].pos >= end && seg + 1 < r->n_segs) end += r->segs[++seg].n;
        out[seg] += p->todo[t].span >= r->n_segs && p->todo[t].span != r->answer_span;
    }
}

static const char *source_name(sp_source s)
{
    static const char *const names[] = {"", "memory", "disk"};
    return names[s];
}

static const char *miss_name(const sp_request *r, int i)
{
    static const char *const names[] = {"never seen",          "edited",       "evicted",
                                        "other system prompt", "not measured", "other model"};
    bool looked = r->reuse.policy->uses_chunks && r->segs[i].kind == SP_SEG_CHUNK;
    return looked && r->had[i] == 0 ? names[r->misses[i]] : "";
}

void sp_request_report(sp_request *r)
{
    size_t n = (size_t)r->n_segs;
    sp_segment_report *rep = sp_arena_take(&r->arena, n, sizeof *rep);
    int32_t *again = sp_arena_take(&r->arena, n, sizeof *again);
    if (!rep || !again) rep = NULL, again = NULL;
    if (again) count_again(r, again);
    for (int i = 0; i < r->n_segs; i++) {
        int32_t mended = again && r->had[i] ? again[i] : 0, reused = r->had[i] - mended;
        r->result.n_reused += reused;
        r->result.n_recomputed += mended;
        if (rep)
            rep[i] = (sp_segment_report){
                .kind = sp_segment_kind_name(r->segs[i].kind),
                .n_tokens = r->segs[i].n,
                .n_reused = reused,
                .n_recomputed = mended,
                .from = source_name(r->had[i] ? SP_MAX(r->sources[i], SP_FROM_MEMORY)
                                              : SP_FROM_NOWHERE),
                .missed = miss_name(r, i)};
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
        *out = sp_span_slot(span, i);
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

sp_err sp_request_kv_deviation(const sp_request *r, const sp_request *reference, float *out)
{
    if (!r->holds_kv || !reference->holds_kv)
        return sp_fail(SP_E_ARG, "KV deviation: the requests were not run with keep_kv");
    if (!same_prompt(r, reference))
        return sp_fail(SP_E_ARG, "KV deviation: the requests have different prompts");
    size_t n = (size_t)r->n_prompt;
    sp_kv_slot *slots = sp_alloc(2 * n, sizeof *slots);
    if (!slots) return sp_fail_nomem(2 * n * sizeof *slots, "KV deviation");
    sp_kv_pairs pairs = {.a = slots, .b = slots + n};
    pairs.n = chunk_slots(r, reference, slots, slots + n);
    sp_err err = SP_OK;
    for (int l = 0; l < r->ctx->model->hp.n_layers && err == SP_OK; l++)
        err = sp_engine_kv_distance(r->ctx->engine, l, &pairs, &out[l]);
    sp_free(slots);
    return err;
}
