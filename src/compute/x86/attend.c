/* attend.c -- span attention: tiles of queries against steps of 64 keys.
 *
 * attend_int.h describes how the work is divided. For a unit, a tile and a KV head:
 *
 *     for piece of the walk                        max = -inf, sum = 0, out = 0
 *       for run of spans in the piece              queries rotated for p - shift
 *         for step of 64 keys    scores   [rows][64]  = query . key
 *                                softmax  a row at a time: maximum, rescaling, exp, sum
 *                                outputs  [rows][D]   += probability * value
 *       total += piece, both rescaled to the larger maximum
 *     out = total / sum
 *
 * A tile's rows are its queries times the query heads that share the KV head, so each block is read
 * once for all of them. Many rows: the step is first decoded to f32 panels; a product takes six
 * rows at a time, and 24 rows finish the step together, so that their scores stay in L1. Up to
 * eight rows (decode): elements are decoded in registers (attend_product.h). Q16: blocks already
 * are panels of integers, for any number of rows (attend_words.h).
 *
 * A step of joined spans (attend_int.h) is gathered into blocks of the same layout, unless it is in
 * such blocks already (attend_join.h).
 *
 * Different threads compute the pieces of a divided tile. Each stores its result; the thread that
 * finishes the last piece combines all of them, in the order of the walk.
 *
 * Scores are in bits: the query is also scaled by log2(e), so exp becomes a power of two.
 *
 * Invariants:
 *   A1  Each sum of a row has one fixed order: over d for a score; over keys in ascending order for
 *       an output within a piece (Q16: over steps; within a step in integers, where order does not
 *       matter); over pieces in ascending order for the result. Pieces follow from the sight, not
 *       from the tile (attend_int.h). So each row and step has one maximum, whatever the other
 *       rows.
 *   A2  Each row and step has a mask of 64 bits: the keys that are neither stale nor after the
 *       row's query. A step or piece with an empty mask leaves the row unchanged to the bit: masked
 *       keys add a probability of +0, and a piece without keys is not added.
 *   A3  A score outside the mask is replaced, never used in arithmetic; a value outside it is not
 *       read for that row, or is multiplied by 0 as an integer. Free slots may hold anything.
 *   A4  A piece has the same result whether it is stored or added to the total at once, and
 *       whichever thread computes it.
 * From A1-A4: the result of a row depends only on its query and the spans in its sight.
 *
 * The rows of a tile are in ascending order of position. So the rows that see nothing of a step
 * come first, and the keys that a row sees are the first of those that a later row sees.
 */
#include <string.h>

#include "base/mem.h"
#include "compute/ops_int.h"
#include "compute/x86/attend_join.h"
#include "compute/x86/attend_math.h"
#include "compute/x86/attend_product.h"
#include "compute/x86/attend_words.h"

/* Sums of rows: max [rows], sum [rows], out [rows][width] = sum of exp(score - max) * value. */
typedef struct sums {
    float *max, *sum, *out;
} sums;

typedef struct state {
    const sp_attend_args *a;
    const sp_tile *tile;
    const sp_attend_req *req;
    int kv_head, group, n_rows;
    int head, width;              /* D, and D rounded up to 16: the stride of rows */
    size_t head_bytes, row_bytes; /* the keys, or the values, of a head in a block; one value */
    sums piece, total;
    /* position in the walk: the run that begins with span next_span, and the number of its first step */
    int next_span;
    int64_t next_step;
    sp_run run;       /* n_spans 0: not known yet */
    bool is_measured; /* `visible` is of this run */
    /* joined spans: the first span that the next step needs, and the keys of the run before it */
    int join_span;
    int32_t join_key;
    int32_t shift; /* the shift that `rotated` was computed for */
    bool is_rotated;
    /* scratch, see sp_attend_scratch_bytes */
    sums own;               /* sums of a piece that is not stored */
    float *query, *rotated; /* [rows][width] query * scale * log2(e); the same, rotated */
    float *score;           /* [rows][STEP] scores, then exp(score - max) of live keys */
    float *query_word; /* [rows] Q16: the value of 1 in the words of `rotated` and of `score` */
    float *prob_word;
    float *span_sum;      /* [rows] this span's part of the piece's sum */
    float *span_max;      /* [n_spans][rows] the maximum that a mass is relative to */
    int32_t *visible;     /* [rows] number of keys of this run at or before the query */
    int32_t *n_seen;      /* [rows] number of keys of this step in the mask */
    float *keys, *values; /* panels: [STEP_BLOCKS][D][16]; [width/16][STEP][16] of live keys */
    uint8_t *joined;      /* [STEP_BLOCKS] keys and values of a head in a block */
} state;

typedef struct step {
    const uint8_t *keys[STEP_BLOCKS];
    int n_blocks;                     /* blocks that some row sees */
    const uint8_t *next[STEP_BLOCKS]; /* of the next step */
    int n_next;
    uint64_t live;     /* keys that some row sees */
    value_rows values; /* of the live keys */
    int first;         /* first row with a mask that is not empty */
    stream ahead;
} step;

INLINE int64_t query_of(const state *t, int row)
{
    return t->tile->first + row / t->group;
}

/* The index of a row in the caller's [m, H]. */
INLINE int64_t head_of(const state *t, int row)
{
    return query_of(t, row) * t->a->n_heads + t->kv_head * t->group + row % t->group;
}

INLINE uint64_t first_bits(int n)
{
    return n >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1;
}

/* -- scores ------------------------------------------------------------------------------------ */

INLINE void scores_direct(sp_dtype type, const state *t, step *x)
{
    const int n_vecs = x->n_blocks * V16;
#define CASE(n)                                                                                    \
    case n:                                                                                        \
        direct_scores_rows(type, n, n_vecs, &s);                                                   \
        break
    for (int r = x->first, n; r < t->n_rows; r += n) {
        const direct_score s = {.q = t->rotated + r * t->width,
                                .head = t->head,
                                .width = t->width,
                                .blocks = x->keys,
                                .score = t->score + r * STEP,
                                .ahead = &x->ahead};
        n = direct_group(t->n_rows - r);
        switch (n) {
            CASE(1);
            CASE(2);
            CASE(3);
            CASE(4);
            CASE(5);
        }
    }
#undef CASE
}

/* Rows from .. to-1, six at a time against panels that stay in L1. */
static void scores_panels(const state *t, step *x, int from, int to)
{
    const panel_product p = {.a = t->rotated,
                             .panel = t->keys,
                             .c = t->score,
                             .a_step = (size_t)t->width,
                             .c_step = STEP,
                             .next = (size_t)t->head * B,
                             .to = t->head};
    for (int b = 0; b < x->n_blocks; b += PANEL_COLUMNS) {
        const int end = SP_MIN(b + PANEL_COLUMNS, x->n_blocks);
        for (int r = from; r < to; r += PANEL_ROWS) {
            stream_on(&x->ahead);
            panel_rows(&p, SP_MIN(PANEL_ROWS, to - r), (size_t)r, b, end);
        }
    }
}

/* -- softmax ----------------------------------------------------------------------------------- */

static void rescale(const state *t, int r, float factor)
{
    float *out = t->piece.out + r * t->width;
    t->piece.sum[r] *= factor;
    t->span_sum[r] *= factor;
    for (int d = 0; d < t->width; d += VL) {
        vec_store(out + d, vec_mul(vec_load(out + d), vec_all(factor)));
    }
}

/* Scores of rows r .. r+n-1, at most four, become probabilities. */
static void weigh_rows(const state *t, int r, int n)
{
    float lanes[4 * VL], sum[4];
#pragma GCC unroll 1
    for (int j = 0; j < n; j++) {
        vec_store(lanes + j * VL, weigh_scores(t->score + (r + j) * STEP, t->piece.max[r + j]));
    }
    for (int j = n; j < 4; j++) vec_store(lanes + j * VL, vec_zero());
    _mm_storeu_ps(sum, vec_sum4(vec_load(lanes), vec_load(lanes + VL), vec_load(lanes + 2 * VL),
                                vec_load(lanes + 3 * VL)));
    for (int j = 0; j < n; j++) {
        t->piece.sum[r + j] += sum[j];
        t->span_sum[r + j] += sum[j];
    }
}

/* `max` is a reference score that no score exceeds by more than HEADROOM bits. It need not be the
 * largest, so a piece is rarely rescaled. */
enum { HEADROOM = 8 };

/* One loop after the other, so that the rows of each loop are independent. */
static void softmax(const state *t, const step *x, int32_t at, int from, int to)
{
    for (int r = from; r < to; r++) {
        const uint64_t mask = x->live & first_bits(t->visible[r] - at);
        if (SP_UNLIKELY(mask != ~(uint64_t)0)) hide_scores(t->score + r * STEP, mask);
        const vec large = largest_scores(t->score + r * STEP);
        t->n_seen[r] = __builtin_popcountll(mask);
        if (SP_LIKELY(!vec_any_above(large, t->piece.max[r] + HEADROOM))) continue;
        const float max = vec_largest(large);
        if (t->piece.max[r] != -INFINITY) rescale(t, r, exp2_one(t->piece.max[r] - max));
        t->piece.max[r] = max;
    }
    for (int r = from; r < to; r += 4) weigh_rows(t, r, SP_MIN(4, to - r));
}

/* Moves the probabilities of live keys together, in the order of step.values. */
static void compact_probs(const state *t, const step *x, int32_t at, int from, int to)
{
    const bool gaps = (x->live & (x->live + 1)) != 0;
    for (int r = from; gaps && r < to; r++) {
        compact(t->score + r * STEP, x->live & first_bits(t->visible[r] - at));
    }
}

/* -- outputs ----------------------------------------------------------------------------------- */

typedef struct range {
    int from, to; /* from .. to-1 */
} range;

/* A range of rows with a range of the live keys. */
INLINE void outputs_direct_rows(sp_dtype type, const state *t, step *x, range rows, range keys)
{
#define CASE(n)                                                                                    \
    case n:                                                                                        \
        direct_outputs_rows(type, n, o, keys.from, keys.to);                                       \
        break
    for (int r = rows.from, n; r < rows.to; r += n) {
        const direct_output o = {.out = t->piece.out + r * t->width,
                                 .width = t->width,
                                 .values = &x->values,
                                 .prob = t->score + r * STEP,
                                 .ahead = &x->ahead};
        n = direct_group(rows.to - r);
        switch (n) {
            CASE(1);
            CASE(2);
            CASE(3);
            CASE(4);
            CASE(5);
        }
    }
#undef CASE
}

INLINE void outputs_direct(sp_dtype type, const state *t, step *x)
{
    const int common = t->n_seen[x->first];
    if (type == SP_Q8_0) open_scales(&x->values, t->head);
    outputs_direct_rows(type, t, x, (range){x->first, t->n_rows}, (range){0, common});
    for (int r = x->first + 1; r < t->n_rows; r++) {
        if (t->n_seen[r] > common)
            outputs_direct_rows(type, t, x, (range){r, r + 1}, (range){common, t->n_seen[r]});
    }
}

/* Rows first .. last-1, six at a time: first the keys that the first row of six sees, then the
 * further keys that the other rows see. */
static void outputs_panels(const state *t, step *x, int first, int last)
{
    panel_product p = {.a = t->score,
                       .panel = t->values,
                       .c = t->piece.out,
                       .a_step = STEP,
                       .c_step = (size_t)t->width,
                       .next = STEP * 16,
                       .add = true};
    const int n_panels = t->width / 16;
    for (int b = 0; b < n_panels; b += 4) {
        const int end = SP_MIN(b + 4, n_panels);
        for (int r = first; r < last; r += PANEL_ROWS) {
            const int rows = SP_MIN(PANEL_ROWS, last - r), common = t->n_seen[r];
            stream_on(&x->ahead);
            p.from = 0;
            p.to = common;
            panel_rows(&p, rows, (size_t)r, b, end);
            if (t->n_seen[r + rows - 1] == common) continue;
            for (int j = r; j < r + rows; j++) {
                p.from = common;
                p.to = t->n_seen[j];
                if (p.to > common) panel_rows(&p, 1, (size_t)j, b, end);
            }
        }
    }
}

/* -- steps ------------------------------------------------------------------------------------- */

INLINE const uint8_t *keys_of(const state *t, uint32_t block)
{
    return t->a->kv->base + block * t->a->kv->block_bytes + 2 * (size_t)t->kv_head * t->head_bytes;
}

/* Keys key .. key+n-1 of joined spans, at most a block, as a block: the one that they are in, or
 * gathered into `to`. */
INLINE const uint8_t *join_block(sp_dtype type, state *t, int32_t key, int n, uint8_t *to)
{
    const sp_sight *sight = &t->req->sights[t->req->see[t->tile->first]];
    const sp_span *spans = sp_req_spans(t->req, t->kv_head);
    join_part part[B];
    int n_parts = 0;
    for (int got = 0; got < n;) {
        const sp_span *s = &spans[sp_sight_at(sight, t->join_span)];
        const int32_t i = key + got - t->join_key;
        if (i >= s->n) {
            t->join_key += s->n;
            t->join_span++;
            continue;
        }
        const int32_t j = s->first + i;
        const join_part next = {keys_of(t, s->blocks[j / B]), j % B,
                                SP_MIN(n - got, SP_MIN(s->n - i, B - j % B))};
        n_parts = join_add(part, n_parts, &next);
        got += next.n;
    }
    if (n_parts == 1 && part[0].slot == 0) return part[0].keys;
    join_gather(type, &(join_shape){t->head, t->width, t->head_bytes, t->row_bytes}, part, n_parts,
                to);
    return to;
}

/* Finds what the rows see of a step; false: nothing. */
INLINE bool open_step(sp_dtype type, state *t, const sp_span *s, int32_t index, step *x)
{
    const int32_t from = index * STEP;
    x->live = sp_step_live(s, index) & first_bits(t->visible[t->n_rows - 1] - from);
    if (!x->live) return false;
    const int32_t least = from + __builtin_ctzll(x->live), n = 64 - __builtin_clzll(x->live);
    for (x->first = 0; t->visible[x->first] <= least;) x->first++;
    x->n_blocks = SP_DIV_UP(n, B);
    for (int b = 0; b < x->n_blocks; b++) {
        x->keys[b] = s->joined ? join_block(type, t, from + b * B, SP_MIN(B, n - b * B),
                                            t->joined + (size_t)b * 2 * t->head_bytes)
                               : keys_of(t, s->blocks[index * STEP_BLOCKS + b]);
    }
    return true;
}

/* Lists the blocks of step `next`, to prefetch them: of joined spans those of every 16th key. */
INLINE void open_next(const state *t, const sp_span *s, int32_t next, step *x)
{
    const int32_t n_keys = s->joined ? t->run.n : s->n;
    x->n_next = SP_MAX(0, SP_MIN(STEP_BLOCKS, SP_DIV_UP(n_keys, B) - next * STEP_BLOCKS));
    if (!s->joined) {
        for (int b = 0; b < x->n_next; b++) {
            x->next[b] = keys_of(t, s->blocks[next * STEP_BLOCKS + b]);
        }
        return;
    }
    const sp_sight *sight = &t->req->sights[t->req->see[t->tile->first]];
    const sp_span *spans = sp_req_spans(t->req, t->kv_head);
    int32_t index = t->join_span, from = t->join_key;
    for (int b = 0; b < x->n_next; b++) {
        const int32_t key = next * STEP + b * B;
        s = &spans[sp_sight_at(sight, index)];
        for (; key - from >= s->n; s = &spans[sp_sight_at(sight, index)]) {
            from += s->n;
            index++;
        }
        x->next[b] = keys_of(t, s->blocks[(s->first + key - from) / B]);
    }
}

/* Lists the values of the live keys. */
INLINE void open_values(const state *t, step *x)
{
    x->values.n = 0;
    for (int b = 0; b < x->n_blocks; b++) {
        const uint8_t *value = x->keys[b] + t->head_bytes;
        const uint8_t **row = x->values.row + x->values.n;
        unsigned live = (unsigned)(x->live >> (b * B)) & 0xffff;
        x->values.n += __builtin_popcount(live);
        if (SP_LIKELY(live == 0xffff)) {
#pragma GCC unroll 16
            for (int k = 0; k < B; k++) row[k] = value + (size_t)k * t->row_bytes;
        } else {
            for (; live; live &= live - 1) {
                *row++ = value + (size_t)__builtin_ctz(live) * t->row_bytes;
            }
        }
    }
}

/* Plans the prefetch of the next step's keys, then its values, spread over this step's products. */
INLINE void open_stream(const state *t, const step *at, bool direct, stream *x)
{
    const int n = at->n_next;
    const int rows = t->n_rows, panels = t->width / 16;
    *x = (stream){.n = 2 * n, .bytes = t->head_bytes};
    for (int b = 0; b < n; b++) {
        x->p[b] = at->next[b];
        x->p[n + b] = x->p[b] + t->head_bytes;
    }
    int products = (STEP_BLOCKS + panels) * SP_DIV_UP(rows, PANEL_ROWS);
    if (direct) products = 2 * panels * (V16 * STEP / 8) * rows / 8;
    const int turns = 2 * n * (int)SP_DIV_UP(t->head_bytes, (size_t)STREAM_BYTES);
    x->turns = SP_DIV_UP(turns, products);
}

/* Up to eight rows: decodes elements in registers. */
INLINE void step_direct(sp_dtype type, const state *t, step *x, int32_t at)
{
    open_values(t, x);
    scores_direct(type, t, x);
    softmax(t, x, at, x->first, t->n_rows);
    compact_probs(t, x, at, x->first, t->n_rows);
    outputs_direct(type, t, x);
}

/* Many rows: NEAR_ROWS at a time finish the step, so that their data stay in L1. */
INLINE void step_panels(sp_dtype type, const state *t, step *x, int32_t at)
{
    const size_t panel = (size_t)t->head * B;
    open_values(t, x);
    for (int b = 0; b < x->n_blocks; b++) {
        keys_to_f32(type, x->keys[b], t->head, t->keys + (size_t)b * panel);
    }
    for (int k = 0; k < x->values.n; k++) {
        value_to_f32(type, x->values.row[k], t->head, t->values + k * 16, STEP * 16);
    }
    for (int r = x->first; r < t->n_rows; r += NEAR_ROWS) {
        const int end = SP_MIN(r + NEAR_ROWS, t->n_rows);
        scores_panels(t, x, r, end);
        softmax(t, x, at, r, end);
        compact_probs(t, x, at, r, end);
        outputs_panels(t, x, r, end);
    }
}

/* Q16: blocks are panels of words, for any number of rows. The first rows prefetch the next step;
 * the others prefetch what is already there. */
static void open_words(const state *t, const step *x, word_step *w)
{
    w->n_blocks = x->n_blocks;
    w->width = t->width;
    for (int b = 0; b < x->n_blocks; b++) {
        w->keys[b] = x->keys[b];
        w->values[b] = x->keys[b] + t->head_bytes;
        w->next_keys[b] = b < x->n_next ? x->next[b] : x->keys[b];
        w->next_values[b] = w->next_keys[b] + t->head_bytes;
    }
}

static void step_words(const state *t, step *x, int32_t index)
{
    const int32_t at = index * STEP;
    _Alignas(64) float scale[STEP];
    word_step w;
    open_words(t, x, &w);
    for (int b = 0; b < x->n_blocks; b++) memcpy(scale + b * B, w.values[b], SP_Q16_SCALES);
    for (int k = x->n_blocks * B; k < STEP; k++) scale[k] = 0;
    for (int near = x->first; near < t->n_rows; near += NEAR_ROWS) {
        const int end = SP_MIN(near + NEAR_ROWS, t->n_rows);
        for (int r = near, n; r < end; r += n) {
            n = word_group(end - r);
            score_words_of[n](&w, t->rotated + r * t->width, t->query_word + r,
                              t->score + r * STEP);
            memcpy(w.next_keys, w.keys, sizeof w.keys);
        }
        softmax(t, x, at, near, end);
        for (int r = near; r < end; r++) {
            t->prob_word[r] = words_of_probs(t->score + r * STEP, scale,
                                             x->live & first_bits(t->visible[r] - at));
        }
        for (int r = near, n; r < end; r += n) {
            n = word_group(end - r);
            output_words_of[n](&w, t->score + r * STEP, t->prob_word + r,
                               t->piece.out + r * t->width);
            memcpy(w.next_values, w.values, sizeof w.values);
        }
    }
}

INLINE void run_steps(sp_dtype type, state *t, const sp_span *s, int32_t from, int32_t to)
{
    const bool direct = t->n_rows <= DIRECT_ROWS && t->head == t->width;
    for (int32_t i = from; i < to; i++) {
        step x;
        if (!open_step(type, t, s, i, &x)) continue;
        open_next(t, s, i + 1, &x);
        if (type == SP_Q16) {
            step_words(t, &x, i);
            continue;
        }
        open_stream(t, &x, direct, &x.ahead);
        if (direct) {
            step_direct(type, t, &x, i * STEP);
        } else {
            step_panels(type, t, &x, i * STEP);
        }
    }
}

#define RUN_STEPS(type)                                                                            \
    static void run_steps_##type(state *t, const sp_span *s, int32_t from, int32_t to)             \
    {                                                                                              \
        run_steps(SP_##type, t, s, from, to);                                                      \
    }
RUN_STEPS(F32)
RUN_STEPS(F16)
RUN_STEPS(BF16)
RUN_STEPS(Q8_0)
RUN_STEPS(Q16)

/* -- spans ------------------------------------------------------------------------------------- */

static void rotate_queries(state *t, int first, int32_t shift)
{
    const sp_rope *rope = t->a->rope;
    const size_t row = (size_t)t->width;
    if (t->is_rotated && t->shift == shift) return;
    t->shift = shift;
    t->is_rotated = first == 0; /* rows before `first` may see keys of the next span */
    for (int r = first; r < t->n_rows; r += t->group) {
        /* A query outside the table sees no key of a span with this shift. */
        int64_t at = (int64_t)t->req->pos[query_of(t, r)] - shift;
        if (rope->n_rot > 0 && at >= 0 && at < rope->n_pos) {
            rotate_rows(rope, t->query + (size_t)r * row, t->rotated + (size_t)r * row, t->group,
                        t->width, (int32_t)at);
        } else {
            memcpy(t->rotated + (size_t)r * row, t->query + (size_t)r * row,
                   (size_t)t->group * row * sizeof(float));
        }
    }
    if (t->a->kv->type != SP_Q16) return;
    for (int r = first; r < t->n_rows; r++) {
        t->query_word[r] = words_of_query(t->rotated + (size_t)r * row, t->width);
    }
}

/* Adds this piece's part to a span's mass, which is relative to the maximum at that time. */
static void add_mass(const state *t, int index)
{
    float *span_max = t->span_max + (size_t)index * (size_t)t->n_rows;
    for (int r = 0; r < t->n_rows; r++) {
        float *mass = &t->req->mass[head_of(t, r) * t->req->n_spans + index];
        if (t->span_sum[r] == 0) continue;
        if (*mass == 0) {
            *mass = t->span_sum[r];
            span_max[r] = t->piece.max[r];
            continue;
        }
        const float max = SP_MAX(span_max[r], t->piece.max[r]);
        *mass =
            *mass * exp2_one(span_max[r] - max) + t->span_sum[r] * exp2_one(t->piece.max[r] - max);
        span_max[r] = max;
    }
}

/* How many keys of the run each row sees. */
static void measure_run(state *t, const sp_span *s)
{
    const sp_sight *sight = &t->req->sights[t->req->see[t->tile->first]];
    const sp_span *spans = sp_req_spans(t->req, t->kv_head);
    for (int r = 0; r < t->n_rows; r += t->group) {
        const int32_t p = t->req->pos[query_of(t, r)];
        const int32_t n = s->joined ? sp_run_visible(spans, sight, t->next_span, &t->run, p)
                                    : sp_span_visible(s, p);
        for (int h = 0; h < t->group; h++) t->visible[r + h] = n;
    }
}

/* Runs steps from .. to-1 of the run whose first span has this index. */
static void run_run(state *t, int index, int32_t from, int32_t to)
{
    static void (*const run[SP_DTYPE_END])(state *, const sp_span *, int32_t, int32_t) = {
        [SP_F32] = run_steps_F32,   [SP_F16] = run_steps_F16, [SP_BF16] = run_steps_BF16,
        [SP_Q8_0] = run_steps_Q8_0, [SP_Q16] = run_steps_Q16,
    };
    const sp_span *s = &sp_req_spans(t->req, t->kv_head)[index];
    int first = t->n_rows;
    while (first > 0 && t->visible[first - 1] > from * STEP) first -= t->group;
    if (first == t->n_rows) return;
    rotate_queries(t, first, s->shift);
    memset(t->span_sum, 0, (size_t)t->n_rows * sizeof(float));
    run[t->a->kv->type](t, s, from, SP_MIN(to, SP_DIV_UP(t->visible[t->n_rows - 1], STEP)));
    if (t->req->mass) add_mass(t, index);
}

/* -- pieces ------------------------------------------------------------------------------------ */

static void clear(const state *t, const sums *s)
{
    for (int r = 0; r < t->n_rows; r++) s->max[r] = -INFINITY;
    memset(s->sum, 0, (size_t)t->n_rows * sizeof(float));
    for (int i = 0; i < t->n_rows * t->width; i += VL) vec_store(s->out + i, vec_zero());
}

static void open_run(state *t, const sp_sight *sight, const sp_span *spans)
{
    t->run = sp_run_at(t->req, spans, sight, t->next_span);
    t->is_measured = false;
    t->join_span = t->next_span;
    t->join_key = 0;
}

/* Runs a piece of the walk, which must not be before the current position. */
static void run_piece(state *t, int64_t index)
{
    const sp_sight *sight = &t->req->sights[t->req->see[t->tile->first]];
    const sp_span *spans = sp_req_spans(t->req, t->kv_head);
    const int64_t from = index * SP_PIECE_STEPS, to = from + SP_PIECE_STEPS;
    clear(t, &t->piece);
    while (t->next_span < sight->n && t->next_step < to) {
        const int s = sp_sight_at(sight, t->next_span);
        if (t->run.n_spans == 0) open_run(t, sight, spans);
        const int64_t n = SP_DIV_UP(t->run.n, STEP);
        const int64_t first = SP_MAX(0, from - t->next_step), end = SP_MIN(n, to - t->next_step);
        if (first < end) {
            if (!t->is_measured) measure_run(t, &spans[s]);
            t->is_measured = true;
            run_run(t, s, (int32_t)first, (int32_t)end);
        }
        if (end < n) return; /* the run continues in the next piece */
        t->next_span += t->run.n_spans;
        t->next_step += n;
        t->run.n_spans = 0;
    }
}

/* Adds a piece's sums to the total. An empty total takes them unchanged: 2^0 is 1. */
static void add_piece(const state *t, const sums *piece)
{
    const sums *all = &t->total;
    for (int r = 0; r < t->n_rows; r++) {
        if (piece->max[r] == -INFINITY) continue;
        const float max = SP_MAX(all->max[r], piece->max[r]);
        const float old = exp2_one(all->max[r] - max), new = exp2_one(piece->max[r] - max);
        float *out = all->out + r * t->width;
        const float *more = piece->out + r * t->width;
        all->max[r] = max;
        all->sum[r] = all->sum[r] * old + piece->sum[r] * new;
        for (int d = 0; d < t->width; d += VL) {
            vec kept = vec_mul(vec_load(out + d), vec_all(old));
            vec_store(out + d, vec_fma(vec_load(more + d), vec_all(new), kept));
        }
    }
}

/* -- tiles ------------------------------------------------------------------------------------- */

static void open_rows(state *t)
{
    const float scale = t->a->scale * 0x1.715476p+0f; /* log2(e) */
    t->next_span = 0;
    t->next_step = 0;
    t->run.n_spans = 0;
    t->is_rotated = false;
    for (int r = 0; r < t->n_rows; r++) {
        const float *q = t->req->q + head_of(t, r) * t->head;
        float *query = t->query + r * t->width;
        for (int d = 0; d < t->head; d++) query[d] = q[d] * scale;
        for (int d = t->head; d < t->width; d++) query[d] = 0;
    }
}

static void clear_mass(const state *t)
{
    const size_t n = (size_t)t->req->n_spans;
    for (int r = 0; r < t->n_rows; r++) {
        memset(t->req->mass + (size_t)head_of(t, r) * n, 0, n * sizeof(float));
    }
}

static void close_rows(const state *t)
{
    for (int r = 0; r < t->n_rows; r++) {
        const int64_t qh = head_of(t, r);
        const float inverse = t->total.sum[r] > 0 ? 1 / t->total.sum[r] : 0;
        float *out = t->req->out + qh * t->head;
        for (int d = 0; d < t->head; d++) out[d] = t->total.out[r * t->width + d] * inverse;
        if (t->req->lse) {
            t->req->lse[qh] = t->total.max[r] * 0x1.62e43p-1f + logf(t->total.sum[r]);
        }
        if (!t->req->mass) continue;
        float *mass = t->req->mass + qh * t->req->n_spans;
        for (int s = 0; s < t->req->n_spans; s++) {
            if (mass[s] == 0) continue;
            float max = t->span_max[(size_t)s * (size_t)t->n_rows + (size_t)r];
            mass[s] *= inverse * exp2_one(max - t->total.max[r]);
        }
    }
}

/* The place of the result of a divided tile's piece. */
static sums stored_piece(const state *t, const sp_unit *u, float *share, int64_t piece)
{
    const size_t rows = (size_t)t->n_rows, width = (size_t)t->width;
    float *p = share + u->share + (size_t)piece * rows * (width + 2);
    return (sums){.max = p, .sum = p + rows, .out = p + 2 * rows};
}

static void attend_unit(state *t, const sp_unit *u, float *share)
{
    t->tile = &u->tile;
    t->req = u->tile.req;
    t->kv_head = u->kv_head;
    t->n_rows = u->tile.n * t->group;
    open_rows(t);
    if (u->divided) {
        t->piece = stored_piece(t, u, share, u->piece);
        run_piece(t, u->piece);
        if (!sp_turns_piece_done(t->a, u)) return;
        clear(t, &t->total);
        for (int64_t i = 0; i < u->n_pieces; i++) {
            sums piece = stored_piece(t, u, share, i);
            add_piece(t, &piece);
        }
    } else {
        if (t->req->mass) clear_mass(t);
        t->piece = t->own;
        clear(t, &t->total);
        for (int64_t i = 0; i < u->n_pieces; i++) {
            run_piece(t, i);
            add_piece(t, &t->piece);
        }
    }
    close_rows(t);
}

/* Divides up the scratch of one part. */
static void lay_out(state *t, float *p)
{
    const size_t rows = SP_ROUND_UP((size_t)sp_tile_rows(t->group, t->head), 16);
    const size_t width = (size_t)t->width;
#define TAKE(n) (p += (n), p - (n))
    t->query = TAKE(rows * width);
    t->rotated = TAKE(rows * width);
    t->own.out = TAKE(rows * width);
    t->total.out = TAKE(rows * width);
    t->keys = TAKE(STEP * width);
    t->values = TAKE(STEP * width);
    t->joined = (uint8_t *)TAKE(2 * STEP * width);
    t->score = TAKE(rows * STEP);
    t->own.max = TAKE(rows);
    t->own.sum = TAKE(rows);
    t->total.max = TAKE(rows);
    t->total.sum = TAKE(rows);
    t->span_sum = TAKE(rows);
    t->query_word = TAKE(rows);
    t->prob_word = TAKE(rows);
    t->visible = (int32_t *)TAKE(rows);
    t->n_seen = (int32_t *)TAKE(rows);
    t->span_max = p;
#undef TAKE
}

void SP_VARIANT(sp_attend)(const sp_attend_args *a, int part, int n_parts)
{
    const int head = a->kv->head;
    assert(head <= SP_HEAD_MAX && a->n_heads % a->kv->n_heads == 0);
    state t = {.a = a,
               .group = a->n_heads / a->kv->n_heads,
               .head = head,
               .width = SP_ROUND_UP(head, 16),
               .head_bytes = sp_kv_head_bytes(a->kv->type, head),
               .row_bytes = sp_row_bytes(a->kv->type, head)};
    lay_out(&t, sp_attend_own(a, part));
    sp_deal deal;
    sp_unit unit;
    sp_deal_open(&deal, a, n_parts);
    while (sp_deal_unit(&deal, sp_turns_next(a), &unit)) {
        attend_unit(&t, &unit, sp_attend_share(a, n_parts));
    }
    sp_turns_close(a, n_parts);
}
