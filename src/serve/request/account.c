/* account.c -- the account of a finished request: what was reused, what was recomputed, and
 * how far its keys and values are from those of another. */
#include "serve/request/request.h"

/* count_recomputed -- tokens of each segment that the answer's plan computes although a cached copy
 * has them: those in spans after the segments' own. out [n_segs]. */
static void count_recomputed(const sp_request *r, int32_t *out)
{
    const sp_plan *p = &r->plans.now;
    if (r->plans.role != SP_PLAN_ANSWER) return;
    int seg = 0;
    int32_t end = r->prompt.segs[0].n; /* todo is in ascending positions */
    for (int t = 0; t < p->n_todo; t++) {
        while (p->todo[t].pos >= end && seg + 1 < r->prompt.n_segs) end += r->prompt.segs[++seg].n;
        out[seg] += p->todo[t].span >= r->prompt.n_segs && p->todo[t].span != r->plans.answer_span;
    }
}

/* n_had -- tokens of segment i that were cached when the request came. */
static int32_t n_had(const sp_request *r, int i)
{
    return r->look.found[i].source == SP_AT_NONE ? 0 : r->look.found[i].n_known;
}

/* serves -- the copy of segment i that the account names: what was cached, or a fused copy that became ready while
 * this request computed the chunk, and served its answer instead. */
static const sp_copy *serves(const sp_request *r, int i)
{
    const sp_copy *copy = r->look.found[i].copy;
    if (n_had(r, i)) return copy;
    return r->look.found[i].n_known && copy && copy->facts.kind == SP_COPY_FUSED ? copy : NULL;
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
        [SP_MISS_POLICY] = "other policy",
        [SP_MISS_NO_ROOM] = "no room",
        [SP_MISS_DAMAGED] = "damaged",
        [SP_MISS_LATE] = "late",
    };
    return names[miss];
}

/* origin_of -- the same before and after a tier has made a patched copy whole. */
static uint64_t origin_of(const sp_copy_facts *f)
{
    const uint64_t parts[] = {(uint64_t)f->kind, f->exact, (uint64_t)f->at, f->head,
                              sp_hash64(f->before, (size_t)f->n_before * sizeof *f->before),
                              sp_hash64(f->below, (size_t)f->n_below * sizeof *f->below)};
    return sp_hash64(parts, sizeof parts);
}

static sp_segment_report report_of(const sp_request *r, int i, int32_t n_recomputed)
{
    const sp_found *f = &r->look.found[i];
    const sp_copy *copy = serves(r, i);
    int32_t had = n_had(r, i), recomputed = had ? n_recomputed : 0;
    return (sp_segment_report){.kind = sp_segment_kind_name(r->prompt.segs[i].kind),
                               .n_tokens = r->prompt.segs[i].n,
                               .n_reused = had - recomputed,
                               .n_recomputed = recomputed,
                               .from = had ? sp_place_name((sp_place)f->source) : "",
                               .missed = had ? "" : miss_name(f->miss),
                               .copy = copy ? sp_copy_kind_name(copy->facts.kind) : "",
                               .n_patched = copy ? copy->patch.n : 0,
                               .origin = copy ? origin_of(&copy->facts) : 0};
}

/* saw_another -- the copy of chunk i was computed after another chunk of this prompt. */
static bool saw_another(const sp_request *r, int i)
{
    const sp_found *f = &r->look.found[i];
    if (f->exact) return i > r->prompt.n_head;
    for (int b = f->copy->facts.n_head; b < f->copy->facts.n_before; b++)
        for (int k = r->prompt.n_head; k < r->prompt.n_segs; k++)
            if (k != i && sp_digest_eq(&f->copy->facts.before[b], &r->prompt.ids[k])) return true;
    return false;
}

static void count_sights(sp_request *r)
{
    for (int i = r->prompt.n_head; i < r->prompt.n_segs; i++) {
        if (r->prompt.segs[i].kind != SP_SEG_CHUNK || n_had(r, i) < r->prompt.segs[i].n) continue;
        r->account.n_had++;
        r->account.n_saw += saw_another(r, i);
    }
}

/* Without memory for the reports the sums count nothing as recomputed. */
void sp_request_report(sp_request *r)
{
    size_t n = (size_t)r->prompt.n_segs;
    sp_segment_report *rep = sp_arena_take(&r->arena, n, sizeof *rep);
    int32_t *recomputed = sp_arena_take(&r->arena, n, sizeof *recomputed);
    if (recomputed) count_recomputed(r, recomputed);
    for (int i = 0; i < r->prompt.n_segs; i++) {
        sp_segment_report one = report_of(r, i, recomputed ? recomputed[i] : 0);
        r->account.result.n_reused += one.n_reused;
        r->account.result.n_recomputed += one.n_recomputed;
        if (rep) rep[i] = one;
    }
    if (r->plans.role == SP_PLAN_ANSWER) r->account.result.n_dropped = r->plans.now.n_dropped;
    count_sights(r);
    r->account.result.n_computed = r->prompt.n_tokens - r->account.result.n_reused;
    r->account.result.policy = r->reuse.policy->name;
    r->account.result.recompute = r->reuse.policy->recomputes ? r->reuse.recompute : 0;
    r->account.result.segments = rep;
    r->account.result.n_segments = rep ? r->prompt.n_segs : 0;
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
    if (!r->answer.sparse) return;
    const sp_sparse_account a = sp_sparse_account_of(r->answer.sparse);
    r->account.result.decode = decode_report_of(&a, r->ctx->pool);
    if (!r->ctx->offload) return;
    const sp_offload_stats now = sp_offload_stats_of(r->ctx->offload),
                           then = r->answer.offload_then;
    const int64_t n_wanted = now.n_wanted - then.n_wanted;
    r->account.result.decode.file_bytes =
        (now.n_fetched - then.n_fetched) * (int64_t)now.record_bytes;
    r->account.result.decode.found =
        n_wanted ? (double)(now.n_found - then.n_found) / (double)n_wanted : 0;
    r->account.result.decode.file_us = now.wait_us - then.wait_us;
}
