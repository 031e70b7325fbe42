/* account.c -- what a request says of itself afterwards: what was reused, what was recomputed, and
 * how far its keys and values are from those of another. */
#include "serve/request_int.h"

/* count_recomputed -- tokens of each segment that the answer's plan computes although a cached copy
 * has them: those in spans after the segments' own. out [n_segs]. */
static void count_recomputed(const sp_request *r, int32_t *out)
{
    const sp_plan *p = &r->plan;
    if (r->role != SP_PLAN_ANSWER) return;
    int seg = 0;
    int32_t end = r->segs[0].n; /* todo is in ascending positions */
    for (int t = 0; t < p->n_todo; t++) {
        while (p->todo[t].pos >= end && seg + 1 < r->n_segs) end += r->segs[++seg].n;
        out[seg] += p->todo[t].span >= r->n_segs && p->todo[t].span != r->answer_span;
    }
}

/* n_had -- tokens of segment i that were cached when the request came. */
static int32_t n_had(const sp_request *r, int i)
{
    return r->found[i].source == SP_FROM_NOWHERE ? 0 : r->found[i].n_known;
}

static const char *source_name(uint8_t source)
{
    static const char *const names[] = {[SP_FROM_NOWHERE] = "",
                                        [SP_FROM_MEMORY] = "memory",
                                        [SP_FROM_HOST] = "host",
                                        [SP_FROM_DISK] = "disk"};
    return names[source];
}

static const char *miss_name(uint8_t miss)
{
    static const char *const names[] = {
        [SP_MISS_NONE] = "",
        [SP_MISS_NEVER_SEEN] = "never seen",
        [SP_MISS_EDITED] = "edited",
        [SP_MISS_EVICTED] = "evicted",
        [SP_MISS_OTHER_HEAD] = "other system prompt",
        [SP_MISS_UNMEASURED] = "not measured",
        [SP_MISS_OTHER_MODEL] = "other model",
        [SP_MISS_NO_ROOM] = "no room",
        [SP_MISS_DAMAGED] = "damaged",
        [SP_MISS_LATE] = "late",
    };
    return names[miss];
}

static sp_segment_report report_of(const sp_request *r, int i, int32_t n_recomputed)
{
    int32_t had = n_had(r, i), recomputed = had ? n_recomputed : 0;
    return (sp_segment_report){.kind = sp_segment_kind_name(r->segs[i].kind),
                               .n_tokens = r->segs[i].n,
                               .n_reused = had - recomputed,
                               .n_recomputed = recomputed,
                               .from = had ? source_name(r->found[i].source) : "",
                               .missed = had ? "" : miss_name(r->found[i].miss)};
}

/* Without memory for the reports the sums count nothing as recomputed. */
void sp_request_report(sp_request *r)
{
    size_t n = (size_t)r->n_segs;
    sp_segment_report *rep = sp_arena_take(&r->arena, n, sizeof *rep);
    int32_t *recomputed = sp_arena_take(&r->arena, n, sizeof *recomputed);
    if (recomputed) count_recomputed(r, recomputed);
    for (int i = 0; i < r->n_segs; i++) {
        sp_segment_report one = report_of(r, i, recomputed ? recomputed[i] : 0);
        r->result.n_reused += one.n_reused;
        r->result.n_recomputed += one.n_recomputed;
        if (rep) rep[i] = one;
    }
    r->result.n_computed = r->n_prompt - r->result.n_reused;
    r->result.policy = r->reuse.policy->name;
    r->result.recompute = r->reuse.policy->recomputes ? r->reuse.recompute : 0;
    r->result.segments = rep;
    r->result.n_segments = rep ? r->n_segs : 0;
}

/* decode_report_of -- lists and keys are counted for each layer and KV head. */
static sp_decode_report decode_report_of(const sp_sparse_account *a, const sp_kv_pool *pool)
{
    static const char *const full[] = {[SP_SPARSE_IS_ACTIVE] = "",
                                       [SP_SPARSE_SHORT] = "short",
                                       [SP_SPARSE_ALL] = "all",
                                       [SP_SPARSE_NOMEM] = "no memory"};
    const sp_kv_shape *shape = sp_kv_pool_shape(pool);
    const double n_lists = (double)(a->n_chosen + a->n_reused);
    const int64_t block = (int64_t)sp_kv_pool_layer_block_bytes(pool) / shape->n_heads;
    const int64_t lists_a_step = (int64_t)shape->n_layers * shape->n_heads;
    return (sp_decode_report){.full = full[a->full],
                              .n_sparse = (int)a->n_steps,
                              .keys_read = a->n_keys ? (double)a->n_read / (double)a->n_keys : 1,
                              .kv_bytes = a->n_read * block / SP_BLOCK_TOKENS,
                              .full_bytes = a->n_keys * block / SP_BLOCK_TOKENS,
                              .choice_bytes = (int64_t)a->choice_bytes * a->n_chosen / lists_a_step,
                              .choose_us = a->choose_us,
                              .lists_reused = n_lists > 0 ? (double)a->n_reused / n_lists : 0,
                              .summarize_us = a->summarize_us,
                              .summary_bytes = a->summary_bytes};
}

void sp_request_report_decode(sp_request *r)
{
    if (!r->sparse) return;
    const sp_sparse_account a = sp_sparse_account_of(r->sparse);
    r->result.decode = decode_report_of(&a, r->ctx->pool);
    if (!r->ctx->offload) return;
    const sp_offload_stats now = sp_offload_stats_of(r->ctx->offload), then = r->offload_then;
    const int64_t n_wanted = now.n_wanted - then.n_wanted;
    r->result.decode.file_bytes = (now.n_fetched - then.n_fetched) * (int64_t)now.record_bytes;
    r->result.decode.found = n_wanted ? (double)(now.n_found - then.n_found) / (double)n_wanted : 0;
    r->result.decode.file_us = now.wait_us - then.wait_us;
}

/* -- distance of keys and values ------------------------------------------------------------- */

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
