/* sparse.c -- a sparse step: in each layer each KV head chooses blocks, and the plan's span list is rewritten
 * accordingly. open.c found the candidates when decoding began.
 *
 *   spans         | chunk 1    | chunk 2  | question | answer ...
 *   blocks         0  1  2  3   4  5  6    7  8
 *   keep           0                       7  8
 *   picked            .  2  .   4  .                  of the candidates, for one KV head and layer
 *   rewritten     | 0 2        | 4        | 7 8      | answer as it is
 */
#include "engine/sparse/sparse_int.h"

#include <limits.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

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
    if (!s) return sp_fail_nomem("sparse decoding");
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

sp_err sp_sparse_renew(sp_sparse **s)
{
    sp_sparse *fresh;
    SP_TRY(sp_sparse_create(&(*s)->o, &fresh));
    sp_sparse_destroy(*s);
    *s = fresh;
    return SP_OK;
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

/* -- begin ----------------------------------------------------------------------------------- */

/* begin -- begins decoding of a plan; out of memory, with full attention, which needs none. */
static sp_err begin(sp_sparse *s, sp_engine *e, const sp_plan *p, const sp_todo *query)
{
    close(s);
    s->plan = p;
    if (sp_sparse_open(s, e, query) != SP_OK) {
        sp_log(SP_LOG_WARN, "decoding with full attention: %s", sp_error_detail());
        close(s);
        s->account.full = SP_SPARSE_NOMEM;
    }
    const int64_t start = sp_clock_us();
    if (s->active) SP_TRY(sp_sparse_summarize(s, e));
    s->account.summarize_us += sp_clock_us() - start;
    return SP_OK;
}

sp_err sp_sparse_begin(sp_engine *e, const sp_slice *slices, int n_slices)
{
    for (int i = 0; i < n_slices; i++) {
        const sp_plan *p = slices[i].plan;
        sp_sparse *s = p->sparse;
        if (!s || slices[i].n != 1) continue;
        if (s->plan != p) SP_TRY(begin(s, e, p, &p->todo[slices[i].from]));
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

sp_pick_req sp_sparse_query(const sp_slice *slice, const float *q)
{
    const sp_sparse *s = slice->plan->sparse;
    return (sp_pick_req){.q = q,
                         .pos = slice->plan->todo[slice->from].pos,
                         .runs = s->runs,
                         .n_runs = s->n_runs,
                         .block = s->candidates.dev,
                         .n = s->n,
                         .k = s->k,
                         .n_proposed = s->n_proposed};
}

void sp_sparse_reuses(const sp_engine *e, const sp_sparse *s, int layer, sp_pick_req *r)
{
    const sp_hparams *hp = &e->o.model->hp;
    const size_t lists = (size_t)layer * (size_t)s->n_heads, heads = (size_t)layer * (size_t)hp->n_heads;
    const float *tau = s->tau.dev;
    if (!tau) return;
    r->label = (float *)s->labels.p + heads * (size_t)hp->head;
    r->tau = tau + lists;
    if (!s->o.least) r->weight = tau + s->n_layers * s->n_heads + heads;
}

/* pick_req -- with the lists, labels and thresholds of the layer. */
static sp_pick_req pick_req(const sp_engine *e, const sp_slice *slice, int i, int layer)
{
    const sp_sparse *s = slice->plan->sparse;
    const size_t lists = (size_t)layer * (size_t)s->n_heads;
    sp_pick_req r = sp_sparse_query(slice, e->reqs[i].q);
    r.picked = (uint32_t *)s->picked.dev + lists * (size_t)s->k;
    r.hit = (uint8_t *)s->hits.dev + lists;
    sp_sparse_reuses(e, s, layer, &r);
    return r;
}

/* pull -- copies the layer's lists and hits to the host. */
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
                                              .rope = sp_engine_rope(e, layer),
                                              .n_heads = e->o.model->hp.n_heads,
                                              .scale = e->o.model->hp.attn_scale,
                                              .reqs = reqs,
                                              .n_reqs = n_reqs});
}

/* chooser -- slice i if it chooses with this selector in this step, or NULL. */
static sp_sparse *chooser(const sp_engine *e, const sp_slice *slices, int i, sp_summary_kind kind)
{
    sp_sparse *s = sp_sparse_of(&slices[i]);
    return s && s->o.kind == kind && e->reqs[i].m ? s : NULL;
}

static sp_err pick_kind(sp_engine *e, sp_summary_kind kind, const sp_slice *slices, int n_slices,
                        int layer)
{
    int n = 0;
    sp_event last = {0};
    for (int i = 0; i < n_slices; i++)
        if (chooser(e, slices, i, kind)) e->picks[n++] = pick_req(e, &slices[i], i, layer);
    if (n == 0) return SP_OK;
    sp_sparse_pick_blocks(e, kind, layer, e->picks, n);
    for (int i = 0; i < n_slices; i++) {
        sp_sparse *s = chooser(e, slices, i, kind);
        if (s) last = pull(e, s, layer);
    }
    SP_TRY(sp_device_wait(e->device, last));
    for (int i = 0; i < n_slices; i++) {
        sp_sparse *s = chooser(e, slices, i, kind);
        if (s) count_hits(s, layer);
    }
    return SP_OK;
}

void sp_sparse_chose(const sp_slice *slices, int n_slices, int64_t us)
{
    for (int i = 0; i < n_slices; i++) {
        sp_sparse *s = sp_sparse_of(&slices[i]);
        if (s) s->account.choose_us += us;
    }
}

sp_err sp_sparse_pick(sp_engine *e, const sp_slice *slices, int n_slices, int layer)
{
    const int64_t start = sp_clock_us();
    for (int kind = 0; kind < SP_SUMMARY_N; kind++)
        SP_TRY(pick_kind(e, (sp_summary_kind)kind, slices, n_slices, layer));
    sp_sparse_chose(slices, n_slices, sp_clock_us() - start);
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
                .blocks = s->rewritten.blocks + (size_t)kv_head * s->rewritten.cap_blocks,
                .stale = s->rewritten.stale + (size_t)kv_head * s->rewritten.cap_words};
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
