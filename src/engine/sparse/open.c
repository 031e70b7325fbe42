/* open.c -- what a request may choose from, found once when its decoding begins: the blocks that are
 * always read, the candidates, how many of them a step reads, and the summaries that it needs.
 *
 *   spans         | chunk 1    | chunk 2  | question | answer ...
 *   blocks         0  1  2  3   4  5  6    7  8       numbered over all spans
 *   keep           0                       7  8       sink, recent
 *   candidates        1  2  3   4  5                  (6: all of its keys are stale, never read)
 */
#include "engine/sparse/sparse_int.h"

#include <math.h>
#include <string.h>

#include "engine/sparse/summaries.h"

enum { B = SP_BLOCK_TOKENS };

typedef enum role { ROLE_NEVER, ROLE_KEEP, ROLE_CANDIDATE } role;

/* What open knows about the plan. */
typedef struct opening {
    sp_engine *e;
    const sp_plan *plan;
    const sp_todo *query;
    uint8_t *roles; /* [n_blocks] */
    int32_t n_blocks, n_kept_keys, n_keys;
} opening;

static bool in_sight(const sp_plan *p, int sight, int span)
{
    const sp_sight *see = &p->sights[sight];
    if (!see->list) return span < see->n;
    for (int i = 0; i < see->n; i++)
        if (see->list[i] == span) return true;
    return false;
}

static int32_t pos_of(const sp_span *s, int32_t i)
{
    return (s->pos ? s->pos[i] : s->at + i) + s->shift;
}

/* n_live -- keys of block b (of n) that are not stale. */
static int n_live(const sp_span *s, int32_t b, int n)
{
    unsigned live = (1u << n) - 1;
    if (s->stale) live &= ~(unsigned)(s->stale[b / 4] >> (b % 4 * B));
    return __builtin_popcount(live);
}

static int keys_of(const sp_sparse_part *part, int32_t b)
{
    return b == part->n - 1 ? part->n_last : B;
}

static void add_part(sp_sparse *s, opening *o, int i)
{
    const sp_span *span = &o->plan->spans[i];
    sp_sparse_part *part = &s->parts[i];
    const bool grows = i == o->query->span;
    const int32_t n = grows ? o->query->index / B * B : span->n;
    *part = (sp_sparse_part){.first = o->n_blocks,
                             .n = SP_DIV_UP(n, B),
                             .n_last = n - (SP_DIV_UP(n, B) - 1) * B,
                             .whole = !in_sight(o->plan, o->query->see, i)};
    if (span->n > 0 && pos_of(span, span->n - 1) > o->query->pos) part->whole = true;
    if (span->joined) part->whole = true; /* shorter than a step */
    if (!part->whole) o->n_blocks += part->n;
}

/* set_roles -- of the blocks of a span. */
static void set_roles(const sp_sparse *s, opening *o, int i)
{
    const sp_span *span = &o->plan->spans[i];
    const sp_sparse_part *part = &s->parts[i];
    for (int32_t b = 0; b < part->n && !part->whole; b++) {
        const int keys = keys_of(part, b), live = n_live(span, b, keys);
        const int32_t from = pos_of(span, b * B), to = pos_of(span, b * B + keys - 1);
        const bool keep = from < SP_SPARSE_SINK || to > o->query->pos - SP_SPARSE_RECENT;
        o->roles[part->first + b] = live == 0 ? ROLE_NEVER : keep ? ROLE_KEEP : ROLE_CANDIDATE;
        o->n_keys += live;
        o->n_kept_keys += keep ? live : 0;
    }
}

float sp_sparse_refine(const sp_engine *e, const sp_sparse_opts *o)
{
    const bool leaves = o->source.want || e->offload; /* its memory is counted */
    if (o->kind == SP_SUMMARY_KEYS4) return 1;
    return o->refine != 0 ? o->refine : leaves ? 1 : SP_SPARSE_REFINE;
}

/* choose_k -- the blocks to pick: what the kept ones leave of the budget. */
static void choose_k(sp_sparse *s, const opening *o)
{
    int64_t keys = s->o.tokens ? s->o.tokens : (int64_t)(s->o.share * (float)o->n_keys + 0.5f);
    int64_t k = SP_DIV_UP(SP_MAX(0, keys - o->n_kept_keys), B);
    if (keys >= o->n_keys) k = s->n; /* part full blocks */
    s->k = (int32_t)SP_MIN(s->n, k);
    const float refine = sp_sparse_refine(o->e, &s->o);
    const bool refines = refine > 1 && s->k > 0 && s->k < s->n;
    const double proposed = ceil((double)refine * s->k);
    s->n_proposed = refines ? (int32_t)SP_MIN(proposed, s->n) : 0;
}

/* take_thresholds -- of the heads whose choices may be reused. */
static sp_err take_thresholds(sp_sparse *s, sp_engine *e)
{
    const sp_hparams *hp = &e->o.model->hp;
    const size_t n_kv = (size_t)(s->n_layers * s->n_heads), n = (size_t)(s->n_layers * hp->n_heads);
    const float eta = s->o.eta != 0 ? s->o.eta : SP_SPARSE_ETA;
    const float power = s->o.power != 0 ? s->o.power : SP_SPARSE_POWER;
    const char *what = "sparse decoding";
    if (!s->o.reuse) return SP_OK;
    SP_TRY(sp_mirror_alloc(e->device, (n_kv + n) * sizeof(float), what, &s->tau));
    SP_TRY(sp_mem_alloc(e->device, n * (size_t)hp->head * sizeof(float), what, &s->labels));
    float *tau = s->tau.host, *weight = tau + n_kv;
    const sp_heads *h = s->o.heads;
    for (int i = 0; i < (int)n_kv; i++)
        tau[i] = h && power > 0 ? sp_heads_tau(h, i / s->n_heads, i % s->n_heads, eta, power) : eta;
    for (size_t i = 0; i < n; i++) weight[i] = h ? h->importance[i] : 1;
    sp_mirror_push(&s->tau, (n_kv + n) * sizeof(float));
    return SP_OK;
}

static sp_err take_lists(sp_sparse *s, const opening *o)
{
    const size_t n = (size_t)o->n_blocks, heads = (size_t)s->n_heads;
    size_t tail = 0;
    for (int i = 0; i < o->plan->n_spans; i++)
        if (i == o->query->span) tail = (size_t)sp_blocks_for(o->plan->slots[i].room);
    s->rewritten.cap_blocks = (size_t)(s->k + s->n_keep) + tail;
    s->rewritten.cap_words = s->rewritten.cap_blocks / 4 + (size_t)o->plan->n_spans + 1;
    s->keep = sp_arena_take(&s->arena, n, sizeof *s->keep);
    s->block_of = sp_arena_take(&s->arena, n, sizeof *s->block_of);
    s->runs = sp_arena_take(&s->arena, (size_t)o->plan->n_spans, sizeof *s->runs);
    s->rewritten.blocks = sp_arena_take(&s->arena, heads * s->rewritten.cap_blocks, sizeof *s->rewritten.blocks);
    s->rewritten.stale = sp_arena_take(&s->arena, heads * s->rewritten.cap_words, sizeof *s->rewritten.stale);
    if (!s->keep || !s->block_of || !s->runs || !s->rewritten.blocks || !s->rewritten.stale)
        return sp_fail_nomem("sparse decoding");
    sp_device *d = o->e->device;
    const size_t lists = (size_t)s->n_layers * heads;
    const char *what = "sparse decoding";
    SP_TRY(sp_mirror_alloc(d, (size_t)s->n * sizeof(uint32_t), what, &s->candidates));
    SP_TRY(sp_mirror_alloc(d, lists * (size_t)s->k * sizeof(uint32_t), what, &s->picked));
    SP_TRY(sp_mirror_alloc(d, lists, what, &s->hits));
    if (s->o.ahead && s->o.source.ahead)
        SP_TRY(sp_mirror_alloc(d, heads * ((size_t)s->k * sizeof(uint32_t) + 1), what, &s->guess));
    memset(s->hits.host, 2, lists);
    sp_mirror_push(&s->hits, lists);
    return take_thresholds(s, o->e);
}

/* -- summaries ------------------------------------------------------------------------------- */

/* The kinds of summaries that the request reads. */
static int n_kinds(const sp_sparse *s)
{
    return s->n_proposed ? 2 : 1;
}

static sp_summary_kind kind_of(const sp_sparse *s, int i)
{
    return i == 0 ? s->o.kind : SP_SUMMARY_KEYS4;
}

static sp_err take_summaries(sp_sparse *s, sp_engine *e)
{
    for (int i = 0; i < n_kinds(s); i++) {
        sp_summaries **own = &e->summaries[kind_of(s, i)];
        if (!*own) SP_TRY(sp_summaries_create(e->o.pool, kind_of(s, i), own));
        const size_t bytes = sp_summaries_block_bytes(*own);
        s->account.summary_bytes += (size_t)s->n * bytes;
        s->account.choice_bytes += (size_t)(i == 0 ? s->n : s->n_proposed) * bytes;
    }
    return SP_OK;
}

sp_err sp_sparse_summarize(sp_sparse *s, const sp_engine *e)
{
    for (int i = 0; i < n_kinds(s); i++) {
        int64_t n = 0;
        SP_TRY(sp_summaries_make(e->summaries[kind_of(s, i)], e->offload, &n));
        s->account.n_summarized = SP_MAX(s->account.n_summarized, n);
    }
    return SP_OK;
}

/* -- open ------------------------------------------------------------------------------------- */

/* list -- keep, candidates and runs, in the order of the blocks; their summaries are wanted. */
static sp_err list(sp_sparse *s, const opening *o)
{
    uint32_t *ids = s->candidates.host;
    s->n_keep = s->n = s->n_runs = 0;
    for (int i = 0; i < o->plan->n_spans; i++) {
        const sp_span *span = &o->plan->spans[i];
        const sp_sparse_part *part = &s->parts[i];
        const int32_t first = s->n;
        for (int32_t b = 0; b < part->n && !part->whole; b++) {
            const int32_t at = part->first + b;
            if (o->roles[at] == ROLE_KEEP) s->keep[s->n_keep++] = at;
            if (o->roles[at] != ROLE_CANDIDATE) continue;
            s->block_of[s->n] = at;
            ids[s->n++] = span->blocks[b];
            for (int i_kind = 0; i_kind < n_kinds(s); i_kind++)
                SP_TRY(sp_summaries_want(o->e->summaries[kind_of(s, i_kind)], span->blocks[b],
                                         keys_of(part, b)));
        }
        if (s->n > first)
            s->runs[s->n_runs++] =
                (sp_pick_run){.first = first, .n = s->n - first, .shift = span->shift};
    }
    sp_mirror_push(&s->candidates, (size_t)s->n * sizeof *ids);
    return SP_OK;
}

/* With k = all, blocks without live keys are read too: the steps of attention are then those of full
 * attention. */
static void count_roles(sp_sparse *s, opening *o)
{
    s->n = s->n_keep = 0;
    for (int32_t b = 0; b < o->n_blocks; b++) s->n += o->roles[b] == ROLE_CANDIDATE;
    choose_k(s, o);
    for (int32_t b = 0; b < o->n_blocks; b++) {
        if (o->roles[b] == ROLE_NEVER && s->k == s->n) o->roles[b] = ROLE_KEEP;
        s->n_keep += o->roles[b] == ROLE_KEEP;
    }
}

/* take_roles -- of all blocks; the parts of the spans number them. */
static sp_err take_roles(sp_sparse *s, opening *o)
{
    const int n_spans = o->plan->n_spans;
    s->parts = sp_arena_take(&s->arena, (size_t)n_spans, sizeof *s->parts);
    if (!s->parts) return sp_fail_nomem("sparse decoding");
    for (int i = 0; i < n_spans; i++) add_part(s, o, i);
    o->roles = sp_arena_take(&s->arena, (size_t)o->n_blocks, 1);
    if (!o->roles) return sp_fail_nomem("sparse decoding");
    for (int i = 0; i < n_spans; i++) set_roles(s, o, i);
    count_roles(s, o);
    return SP_OK;
}

/* rank_heads -- which heads stay in memory when the context is in a file: the hardest by this request's thresholds. */
static sp_err rank_heads(sp_sparse *s, sp_engine *e)
{
    const size_t n = (size_t)(s->n_layers * s->n_heads);
    if (!e->offload || !s->o.heads || sp_offload_stats_of(e->offload).n_resident == 0) return SP_OK;
    float *difficulty = sp_arena_take(&s->arena, n, sizeof *difficulty);
    if (!difficulty) return sp_fail_nomem("resident heads");
    sp_heads_rank(s->o.heads, s->o.eta, s->o.power, difficulty);
    sp_offload_rank(e->offload, difficulty);
    return SP_OK;
}

sp_err sp_sparse_open(sp_sparse *s, sp_engine *e, const sp_todo *query)
{
    const sp_hparams *hp = &e->o.model->hp;
    const int depth = s->o.min_depth ? s->o.min_depth : SP_SPARSE_MIN_DEPTH;
    opening o = {.e = e, .plan = s->plan, .query = query};
    s->n_layers = hp->n_layers;
    s->n_heads = hp->n_kv_heads;
    SP_TRY(take_roles(s, &o));
    const bool all = s->n == 0 || (depth >= 0 && s->k == s->n);
    s->account.full = o.n_keys < depth ? SP_SPARSE_SHORT
                      : all            ? SP_SPARSE_ALL
                                       : SP_SPARSE_IS_ACTIVE;
    s->active = s->account.full == SP_SPARSE_IS_ACTIVE;
    if (!s->active) return SP_OK;
    if (e->offload && !s->o.source.want) s->o.source = sp_offload_source(e->offload, s->o.seats);
    SP_TRY(take_lists(s, &o));
    SP_TRY(rank_heads(s, e));
    SP_TRY(take_summaries(s, e));
    return list(s, &o);
}
