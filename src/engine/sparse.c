/* sparse.c -- which blocks a request may choose from, and how its choice becomes a span list.
 *
 *   spans         | chunk 1    | chunk 2  | question | answer ...
 *   blocks         0  1  2  3   4  5  6    7  8       numbered over all spans, when decoding begins
 *   keep           0                       7  8       sink, recent
 *   candidates        1  2  3   4  5                  (6: all of its keys are stale, never read)
 *   picked            .  2  .   4  .                  of one KV head and layer
 *   rewritten     | 0 2        | 4        | 7 8      | answer as it is
 */
#include "engine/sparse_int.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/summaries.h"

enum { B = SP_BLOCK_TOKENS };

sp_err sp_sparse_create(const sp_sparse_opts *o, sp_sparse **out)
{
    const bool by_share = o->share > 0 && o->share <= 1 && o->tokens == 0;
    const bool by_tokens = o->tokens > 0 && o->share == 0;
    if (!by_share && !by_tokens)
        return sp_fail(SP_E_ARG, "sparse decoding: a share of %g and %d tokens", (double)o->share,
                       o->tokens);
    if (!(o->eta >= -1 && o->eta <= 1))
        return sp_fail(SP_E_ARG, "sparse decoding: a threshold of %g", (double)o->eta);
    sp_sparse *s = SP_NEW(sp_sparse);
    if (!s) return sp_fail_nomem(sizeof *s, "sparse decoding");
    s->o = *o;
    sp_arena_init(&s->arena);
    *out = s;
    return SP_OK;
}

static void close(sp_sparse *s)
{
    sp_mirror_free(&s->candidates);
    sp_mirror_free(&s->picked);
    sp_mirror_free(&s->hits);
    sp_mirror_free(&s->guess);
    sp_mirror_free(&s->tau);
    sp_mem_free(&s->labels);
    sp_arena_fini(&s->arena);
    sp_arena_init(&s->arena);
    s->account.summary_bytes = s->account.choice_bytes = 0;
    s->active = false;
}

void sp_sparse_destroy(sp_sparse *s)
{
    if (!s) return;
    close(s);
    sp_arena_fini(&s->arena);
    sp_free(s);
}

sp_sparse_account sp_sparse_account_of(const sp_sparse *s)
{
    return s->account;
}

sp_sparse *sp_sparse_of(const sp_slice *slice)
{
    sp_sparse *s = slice->plan->sparse;
    return s && slice->n == 1 && s->active && s->plan == slice->plan ? s : NULL;
}

/* -- open: the blocks of the prompt ---------------------------------------------------------- */

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

/* choose_k -- the blocks to pick: what the kept ones leave of the budget. */
static void choose_k(sp_sparse *s, const opening *o)
{
    int64_t keys = s->o.tokens ? s->o.tokens : (int64_t)(s->o.share * (float)o->n_keys + 0.5f);
    int64_t k = SP_DIV_UP(SP_MAX(0, keys - o->n_kept_keys), B);
    if (keys >= o->n_keys) k = s->n; /* part full blocks */
    s->k = (int32_t)SP_MIN(s->n, k);
    const bool leaves = s->o.source.want || o->e->offload; /* its memory is counted */
    const float refine = s->o.refine != 0 ? s->o.refine : leaves ? 1 : SP_SPARSE_REFINE;
    const double proposed = ceil((double)refine * s->k);
    const bool refines = refine > 1 && s->k > 0 && s->o.kind != SP_SUMMARY_KEYS4 && s->k < s->n;
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
    s->cap_blocks = (size_t)(s->k + s->n_keep) + tail;
    s->cap_words = s->cap_blocks / 4 + (size_t)o->plan->n_spans + 1;
    s->keep = sp_arena_take(&s->arena, n, sizeof *s->keep);
    s->block_of = sp_arena_take(&s->arena, n, sizeof *s->block_of);
    s->runs = sp_arena_take(&s->arena, (size_t)o->plan->n_spans, sizeof *s->runs);
    s->blocks = sp_arena_take(&s->arena, heads * s->cap_blocks, sizeof *s->blocks);
    s->stale = sp_arena_take(&s->arena, heads * s->cap_words, sizeof *s->stale);
    if (!s->keep || !s->block_of || !s->runs || !s->blocks || !s->stale)
        return sp_fail_nomem(n * sizeof *s->keep, "sparse decoding");
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

/* The kinds of summaries that the request reads. */
static int n_kinds(const sp_sparse *s)
{
    return s->n_proposed ? 2 : 1;
}

static sp_summary_kind kind_of(const sp_sparse *s, int i)
{
    return i == 0 ? s->o.kind : SP_SUMMARY_KEYS4;
}

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

static sp_err make_summaries(sp_sparse *s, const sp_engine *e)
{
    for (int i = 0; i < n_kinds(s); i++) {
        int64_t n = 0;
        SP_TRY(sp_summaries_make(e->summaries[kind_of(s, i)], e->offload, &n));
        s->account.n_summarized = SP_MAX(s->account.n_summarized, n);
    }
    return SP_OK;
}

static sp_err open(sp_sparse *s, opening *o)
{
    const sp_hparams *hp = &o->e->o.model->hp;
    const int n_spans = o->plan->n_spans;
    const int depth = s->o.min_depth ? s->o.min_depth : SP_SPARSE_MIN_DEPTH;
    s->n_layers = hp->n_layers;
    s->n_heads = hp->n_kv_heads;
    s->parts = sp_arena_take(&s->arena, (size_t)n_spans, sizeof *s->parts);
    if (!s->parts) return sp_fail_nomem((size_t)n_spans * sizeof *s->parts, "sparse decoding");
    for (int i = 0; i < n_spans; i++) add_part(s, o, i);
    o->roles = sp_arena_take(&s->arena, (size_t)o->n_blocks, 1);
    if (!o->roles) return sp_fail_nomem((size_t)o->n_blocks, "sparse decoding");
    for (int i = 0; i < n_spans; i++) set_roles(s, o, i);
    count_roles(s, o);
    if (o->n_keys < depth || s->n == 0 || (depth >= 0 && s->k == s->n)) return SP_OK;
    if (o->e->offload && !s->o.source.want) s->o.source = sp_offload_source(o->e->offload, !s->o.forgets);
    SP_TRY(take_lists(s, o));
    SP_TRY(take_summaries(s, o->e));
    SP_TRY(list(s, o));
    s->active = true;
    return SP_OK;
}

sp_err sp_sparse_begin(sp_engine *e, const sp_slice *slices, int n_slices)
{
    for (int i = 0; i < n_slices; i++) {
        const sp_plan *p = slices[i].plan;
        sp_sparse *s = p->sparse;
        if (!s || slices[i].n != 1) continue;
        if (s->plan != p) {
            close(s);
            s->plan = p;
            opening o = {.e = e, .plan = p, .query = &p->todo[slices[i].from]};
            if (open(s, &o) != SP_OK) { /* no memory: full attention needs none */
                sp_log(SP_LOG_WARN, "decoding with full attention: %s", sp_error_detail());
                close(s);
            }
            const int64_t start = sp_clock_us();
            if (s->active) SP_TRY(make_summaries(s, e));
            s->account.summarize_us += sp_clock_us() - start;
        }
        s->account.n_steps += s->active;
        s->account.n_full += !s->active;
    }
    return SP_OK;
}

/* -- pick ------------------------------------------------------------------------------------ */

size_t sp_sparse_floats(const sp_engine *e, const sp_slice *slices, int n_slices)
{
    const sp_hparams *hp = &e->o.model->hp;
    size_t n = 0;
    for (int i = 0; i < n_slices; i++) {
        const sp_sparse *s = sp_sparse_of(&slices[i]);
        if (s) n += sp_pick_scratch(s->n, hp->n_heads, hp->n_kv_heads);
    }
    return n;
}

static sp_pick_req pick_req(const sp_engine *e, const sp_slice *slice, int i, int layer)
{
    const sp_sparse *s = slice->plan->sparse;
    const sp_hparams *hp = &e->o.model->hp;
    const size_t lists = (size_t)layer * (size_t)s->n_heads;
    const size_t heads = (size_t)layer * (size_t)hp->n_heads;
    const float *tau = s->tau.dev;
    return (sp_pick_req){.q = e->reqs[i].q,
                         .pos = slice->plan->todo[slice->from].pos,
                         .runs = s->runs,
                         .n_runs = s->n_runs,
                         .block = s->candidates.dev,
                         .n = s->n,
                         .k = s->k,
                         .n_proposed = s->n_proposed,
                         .picked = (uint32_t *)s->picked.dev + lists * (size_t)s->k,
                         .label = tau ? (float *)s->labels.p + heads * (size_t)hp->head : NULL,
                         .hit = (uint8_t *)s->hits.dev + lists,
                         .tau = tau ? tau + lists : NULL,
                         .weight =
                             tau && !s->o.least ? tau + s->n_layers * s->n_heads + heads : NULL};
}

/* pull -- the layer's lists and hits come to the host. */
static sp_event pull(sp_engine *e, sp_sparse *s, int layer)
{
    const size_t heads = (size_t)s->n_heads, row = heads * (size_t)s->k * sizeof(uint32_t);
    const size_t at = (size_t)layer * row, hit = (size_t)layer * heads;
    sp_device_copy_out(e->device, (uint8_t *)s->picked.host + at, (uint8_t *)s->picked.dev + at,
                       row);
    return sp_device_copy_out(e->device, (uint8_t *)s->hits.host + hit,
                              (uint8_t *)s->hits.dev + hit, heads);
}

static void count_hits(sp_sparse *s, int layer)
{
    const uint8_t *hit = (const uint8_t *)s->hits.host + layer * s->n_heads;
    for (int g = 0; g < s->n_heads; g++) {
        s->account.n_reused += hit[g];
        s->account.n_chosen += !hit[g];
    }
}

void sp_sparse_pick_blocks(sp_engine *e, sp_summary_kind kind, int layer, const sp_pick_req *reqs,
                           int n_reqs)
{
    const sp_summary_view view = sp_summaries_layer(e->summaries[kind], layer);
    const bool has_fine = e->summaries[SP_SUMMARY_KEYS4] && kind != SP_SUMMARY_KEYS4;
    sp_summary_view fine;
    if (has_fine) fine = sp_summaries_layer(e->summaries[SP_SUMMARY_KEYS4], layer);
    sp_device_pick(e->device, &(sp_pick_args){.summary = &view,
                                              .fine = has_fine ? &fine : NULL,
                                              .rope = &e->rope,
                                              .n_heads = e->o.model->hp.n_heads,
                                              .scale = e->o.model->hp.attn_scale,
                                              .reqs = reqs,
                                              .n_reqs = n_reqs});
}

static sp_err pick_kind(sp_engine *e, sp_summary_kind kind, const sp_slice *slices, int n_slices,
                        int layer)
{
    int n = 0;
    sp_event last = {0};
    for (int i = 0; i < n_slices; i++) {
        const sp_sparse *s = sp_sparse_of(&slices[i]);
        if (s && s->o.kind == kind && e->reqs[i].m)
            e->picks[n++] = pick_req(e, &slices[i], i, layer);
    }
    if (n == 0) return SP_OK;
    sp_sparse_pick_blocks(e, kind, layer, e->picks, n);
    for (int i = 0; i < n_slices; i++) {
        sp_sparse *s = sp_sparse_of(&slices[i]);
        if (s && s->o.kind == kind && e->reqs[i].m) last = pull(e, s, layer);
    }
    SP_TRY(sp_device_wait(e->device, last));
    for (int i = 0; i < n_slices; i++) {
        sp_sparse *s = sp_sparse_of(&slices[i]);
        if (s && s->o.kind == kind && e->reqs[i].m) count_hits(s, layer);
    }
    return SP_OK;
}

sp_err sp_sparse_pick(sp_engine *e, const sp_slice *slices, int n_slices, int layer)
{
    for (int kind = 0; kind < SP_SUMMARY_N; kind++)
        SP_TRY(pick_kind(e, (sp_summary_kind)kind, slices, n_slices, layer));
    return SP_OK;
}

/* -- rewrite --------------------------------------------------------------------------------- */

/* A position in keep and picked, and what is free of the head's memory. */
typedef struct cursor {
    const uint32_t *picked; /* [k] */
    int32_t i_keep, i_pick;
    uint32_t *blocks;
    uint64_t *stale;
} cursor;

/* next_block -- the next block before `end` that is read, or -1. */
static int32_t next_block(const sp_sparse *s, cursor *c, int32_t end)
{
    const int32_t a = c->i_keep < s->n_keep ? s->keep[c->i_keep] : INT_MAX;
    const int32_t b = c->i_pick < s->k ? s->block_of[c->picked[c->i_pick]] : INT_MAX;
    if (SP_MIN(a, b) >= end) return -1;
    if (a < b)
        c->i_keep++;
    else
        c->i_pick++;
    return SP_MIN(a, b);
}

static void put_block(const sp_span *from, int32_t b, cursor *c, int32_t at)
{
    c->blocks[at] = from->blocks[b];
    if (!from->stale) return;
    if (at % 4 == 0) c->stale[at / 4] = 0;
    c->stale[at / 4] |= (from->stale[b / 4] >> (b % 4 * B) & 0xffff) << (at % 4 * B);
}

static void rewrite_span(const sp_sparse *s, const sp_sparse_part *part, cursor *c, sp_span *span)
{
    const sp_span from = *span;
    const int32_t end = part->first + part->n, n_all = sp_blocks_for(from.n);
    int32_t n = 0, last = -1;
    for (int32_t b; (b = next_block(s, c, end)) >= 0; last = b)
        put_block(&from, b - part->first, c, n++);
    int32_t keys = n * B - (last == end - 1 && last >= 0 ? B - part->n_last : 0);
    if (from.n > (part->n - 1) * B + part->n_last || part->n == 0) { /* the answer's */
        for (int32_t b = part->n; b < n_all; b++) put_block(&from, b, c, n++);
        keys += from.n - part->n * B;
    }
    span->blocks = c->blocks;
    span->n = keys;
    span->at = from.pos ? from.pos[0] : from.at; /* all of them are visible */
    span->pos = NULL;
    c->blocks += n;
    if (!from.stale) return;
    span->stale = c->stale;
    c->stale += SP_DIV_UP(n, 4);
}

void sp_sparse_rewrite(sp_sparse *s, int layer, int kv_head, sp_span *spans)
{
    const size_t at = (size_t)(layer * s->n_heads + kv_head) * (size_t)s->k;
    cursor c = {.picked = (const uint32_t *)s->picked.host + at,
                .blocks = s->blocks + (size_t)kv_head * s->cap_blocks,
                .stale = s->stale + (size_t)kv_head * s->cap_words};
    uint32_t *first = c.blocks;
    for (int i = 0; i < s->plan->n_spans; i++) {
        s->account.n_keys += spans[i].n;
        if (!s->parts[i].whole) rewrite_span(s, &s->parts[i], &c, &spans[i]);
        s->account.n_read += spans[i].n;
    }
    if (s->o.source.want)
        s->o.source.want(s->o.source.user, layer, kv_head, first, (int32_t)(c.blocks - first));
}

sp_err sp_sparse_arrive(const sp_slice *slices, int n_slices, int layer)
{
    for (int i = 0; i < n_slices; i++) {
        const sp_sparse *s = sp_sparse_of(&slices[i]);
        if (s && s->o.source.wait) SP_TRY(s->o.source.wait(s->o.source.user, layer));
    }
    return SP_OK;
}
