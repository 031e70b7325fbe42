/* attend.c -- the parts of span attention that do not depend on the instruction set: which keys a
 * query sees, and which thread computes what.
 *
 * The scratch of all parts; the counters are zero between calls:
 *
 *   | counters | part 0 | counters (unused) | part 1 | ... | results of pieces (n_parts shares) |
 */
#include <stdatomic.h>

#include "base/mem.h"
#include "compute/kernel/attend.h"

#define SHARE_BYTES ((size_t)512 << 10)
#define N_SLOTS     64 /* (divided tile, KV head) pairs at most */
#define TURNS       8  /* least units for a thread, so that all finish together */

typedef struct turns {
    _Atomic int64_t next;
    _Atomic int n_closed;            /* parts that found no unit left */
    _Atomic int64_t n_done[N_SLOTS]; /* finished pieces of each divided tile */
} turns;

_Static_assert(sizeof(turns) <= SP_TURNS_BYTES && SP_TURNS_BYTES % SP_CACHE_LINE == 0,
               "the counters exceed SP_TURNS_BYTES");

size_t sp_kv_head_bytes(sp_dtype type, int head)
{
    if (type == SP_Q16) return SP_Q16_HEAD_BYTES((size_t)SP_ROUND_UP(head, 16));
    return SP_BLOCK_TOKENS * sp_row_bytes(type, head);
}

int32_t sp_span_visible(const sp_span *s, int32_t p)
{
    int64_t at = (int64_t)p - s->shift; /* the last visible "at" */
    if (!s->pos) {
        int64_t n = at - s->at + 1;
        return (int32_t)SP_MAX(0, SP_MIN(n, s->n));
    }
    int32_t from = 0, to = s->n;
    while (from < to) {
        int32_t mid = from + (to - from) / 2;
        if (s->pos[mid] <= at) {
            from = mid + 1;
        } else {
            to = mid;
        }
    }
    return from;
}

sp_run sp_run_at(const sp_attend_req *req, const sp_span *spans, const sp_sight *sight, int i)
{
    const sp_span *s = &spans[sp_sight_at(sight, i)];
    sp_run run = {.n_spans = 1, .n = s->n};
    const int32_t shift = s->shift;
    if (!s->joined || req->mass) return run;
    for (int k = i + 1; k < sight->n; k++, run.n_spans++) {
        s = &spans[sp_sight_at(sight, k)];
        if (!s->joined || s->shift != shift) break;
        run.n += s->n;
    }
    return run;
}

int32_t sp_run_visible(const sp_span *spans, const sp_sight *sight, int i, const sp_run *run,
                       int32_t p)
{
    int32_t seen = 0;
    for (int k = i; k < i + run->n_spans; k++) {
        const sp_span *s = &spans[sp_sight_at(sight, k)];
        const int32_t n = sp_span_visible(s, p);
        seen += n;
        if (n < s->n) break;
    }
    return seen;
}

/* -- scratch ----------------------------------------------------------------------------------- */

/* A row needs the query (as given and rotated), the outputs of a piece and of all pieces, the
 * scores of a step and eleven scalars. A step's keys and values are decoded to f32; those of joined
 * spans are gathered first. For masses, each span keeps the maximum that its sum is relative to. */
size_t sp_attend_scratch_bytes(int n_heads, int n_kv_heads, int head, int max_spans)
{
    const int group = n_heads / n_kv_heads;
    const size_t rows = SP_ROUND_UP((size_t)sp_tile_rows(group, head), 16);
    const size_t width = SP_ROUND_UP((size_t)head, 16);
    size_t floats =
        rows * (4 * width + SP_STEP_TOKENS + 11 + (size_t)max_spans) + 4 * SP_STEP_TOKENS * width;
    return SP_TURNS_BYTES + SP_ROUND_UP(floats * sizeof(float), (size_t)SP_CACHE_LINE) +
           SHARE_BYTES;
}

void *sp_attend_own(const sp_attend_args *a, int part)
{
    return (uint8_t *)a->scratch + (size_t)part * (a->scratch_bytes - SHARE_BYTES) + SP_TURNS_BYTES;
}

float *sp_attend_share(const sp_attend_args *a, int n_parts)
{
    return (float *)((uint8_t *)a->scratch + (size_t)n_parts * (a->scratch_bytes - SHARE_BYTES));
}

/* -- turns ------------------------------------------------------------------------------------- */

int64_t sp_turns_next(const sp_attend_args *a)
{
    turns *t = a->scratch;
    return atomic_fetch_add_explicit(&t->next, 1, memory_order_relaxed);
}

bool sp_turns_piece_done(const sp_attend_args *a, const sp_unit *u)
{
    turns *t = a->scratch;
    if (atomic_fetch_add_explicit(&t->n_done[u->slot], 1, memory_order_acq_rel) + 1 < u->n_pieces)
        return false;
    atomic_store_explicit(&t->n_done[u->slot], 0, memory_order_relaxed);
    return true;
}

void sp_turns_close(const sp_attend_args *a, int n_parts)
{
    turns *t = a->scratch;
    if (atomic_fetch_add_explicit(&t->n_closed, 1, memory_order_acq_rel) + 1 < n_parts) return;
    atomic_store_explicit(&t->next, 0, memory_order_relaxed);
    atomic_store_explicit(&t->n_closed, 0, memory_order_relaxed);
}

/* -- tiles ------------------------------------------------------------------------------------- */

/* Fills in how far the tile's last query sees in a span list. Where KV heads have lists of their
 * own, the longest walk decides: pieces after the end of a shorter one are empty. */
static void measure_spans(sp_tile *t, const sp_span *spans, int64_t rows)
{
    const sp_attend_req *req = t->req;
    const int64_t last = t->first + t->n - 1;
    const sp_sight *sight = &req->sights[req->see[last]];
    int64_t at = 0, seen = 0, n_steps = 0;
    sp_run run;
    for (int i = 0; i < sight->n; i += run.n_spans) {
        run = sp_run_at(req, spans, sight, i);
        int64_t n =
            SP_DIV_UP(sp_run_visible(spans, sight, i, &run, req->pos[last]), SP_STEP_TOKENS);
        if (n > 0) n_steps = at + n;
        seen += n;
        at += SP_DIV_UP(run.n, SP_STEP_TOKENS);
    }
    t->n_steps = SP_MAX(t->n_steps, n_steps);
    t->work = SP_MAX(t->work, seen * rows);
}

static void measure(sp_tile *t, int group, int n_kv_heads)
{
    const int n = t->req->spans_of_head ? n_kv_heads : 1;
    t->n_steps = t->work = 0;
    for (int h = 0; h < n; h++) measure_spans(t, sp_req_spans(t->req, h), (int64_t)t->n * group);
}

static void rewind_tiles(sp_deal *d)
{
    d->i_req = 0;
    d->end = -1;
    d->slots = 0;
    d->share = 0;
}

static bool next_tile(sp_deal *d)
{
    for (; d->i_req < d->a->n_reqs; d->i_req++, d->end = -1) {
        const sp_attend_req *req = &d->a->reqs[d->i_req];
        const int64_t end = d->end < 0 ? req->m : d->end;
        if (end == 0) continue;
        int64_t first = end - 1;
        while (first > 0 && end - first < d->max_queries &&
               req->see[first - 1] == req->see[end - 1]) {
            first--;
        }
        d->end = first;
        d->tile = (sp_tile){.req = req, .first = first, .n = (int)(end - first)};
        measure(&d->tile, d->group, d->a->kv->n_heads);
        return true;
    }
    return false;
}

/* Queries in a tile: fewer when there are few tiles for the threads, but enough to pay for decoding
 * their keys; a multiple of six, the rows that kernels process together. */
static int queries_of_tile(const sp_attend_args *a, int group, int n_parts)
{
    const int rows = sp_tile_rows(group, a->kv->head);
    const int most = rows / group, least = SP_MIN(most, SP_DIV_UP(24, group));
    int64_t n = 0;
    for (int i = 0; i < a->n_reqs; i++) n += a->reqs[i].m;
    n = n * a->kv->n_heads / (n_parts == 1 ? 1 : TURNS / 2 * n_parts);
    n = SP_MAX(least, SP_MIN(most, n));
    return (int)(n >= 6 ? n - n % 6 : n);
}

/* -- units ------------------------------------------------------------------------------------- */

void sp_deal_open(sp_deal *d, const sp_attend_args *a, int n_parts)
{
    const int group = a->n_heads / a->kv->n_heads;
    *d = (sp_deal){.a = a,
                   .group = group,
                   .max_queries = queries_of_tile(a, group, n_parts),
                   .room = (size_t)n_parts * SHARE_BYTES / sizeof(float)};
    rewind_tiles(d);
    if (n_parts == 1) return;
    int64_t work = 0;
    while (next_tile(d)) work += d->tile.work * a->kv->n_heads;
    rewind_tiles(d);
    d->big = SP_MAX(1, work / (TURNS * n_parts));
}

static int64_t pieces_of(const sp_tile *t)
{
    return SP_DIV_UP(t->n_steps, SP_PIECE_STEPS);
}

/* Floats that the results of a tile's pieces take, for one KV head. */
static size_t share_of(const sp_deal *d, const sp_tile *t)
{
    const size_t width = SP_ROUND_UP((size_t)d->a->kv->head, 16);
    return (size_t)pieces_of(t) * (size_t)(t->n * d->group) * (width + 2);
}

/* Decides whether to divide the tile; if so, allocates its slots and its share. A tile with masses
 * stays whole: each piece would have to store a sum for every span. */
static bool divide(sp_deal *d)
{
    const sp_tile *t = &d->tile;
    const int n_kv = d->a->kv->n_heads;
    if (d->big == 0 || t->work <= d->big || pieces_of(t) < 2 || t->req->mass) return false;
    size_t floats = share_of(d, t) * (size_t)n_kv;
    if (d->slots + n_kv > N_SLOTS || floats > d->room - d->share) return false;
    d->tile_slot = d->slots;
    d->tile_share = d->share;
    d->slots += n_kv;
    d->share += floats;
    return true;
}

static void fill_unit(const sp_deal *d, int64_t i, sp_unit *out)
{
    const int64_t n = pieces_of(&d->tile);
    const bool divided = d->pass == 1;
    const int kv_head = (int)(divided ? i / n : i);
    *out = (sp_unit){.tile = d->tile,
                     .kv_head = kv_head,
                     .piece = divided ? i % n : 0,
                     .n_pieces = n,
                     .divided = divided};
    if (!divided) return;
    out->slot = d->tile_slot + kv_head;
    out->share = d->tile_share + share_of(d, &d->tile) * (size_t)kv_head;
}

bool sp_deal_unit(sp_deal *d, int64_t index, sp_unit *out)
{
    while (index >= d->base + d->n_units) {
        d->base += d->n_units;
        d->n_units = 0;
        if (next_tile(d)) {
            bool divided = divide(d);
            if (divided == (d->pass == 1))
                d->n_units = d->a->kv->n_heads * (divided ? pieces_of(&d->tile) : 1);
        } else if (d->pass == 0 && d->big > 0) {
            d->pass = 1;
            rewind_tiles(d);
        } else {
            return false;
        }
    }
    fill_unit(d, index - d->base, out);
    return true;
}
