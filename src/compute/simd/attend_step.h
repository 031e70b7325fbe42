/* attend_step.h -- what the two halves of span attention share: a tile, a step of 64 keys, its softmax.
 *
 *   attend.c          the walk over spans and pieces; steps of Q16, whose products depend on VNNI
 *   attend_floats.h   the other types, compiled once a width of vectors (attend_f16.c, attend_f32.c)
 */
#ifndef SP_COMPUTE_SIMD_ATTEND_STEP_H
#define SP_COMPUTE_SIMD_ATTEND_STEP_H

#include "base/mem.h"
#include "compute/kernel/ops.h"
#include "compute/simd/attend_math.h"
#include "compute/simd/attend_product.h"

/* Sums of rows: max [rows], sum [rows], out [rows][width] = sum of exp(score - max) * value. */
typedef struct sums {
    float *max, *sum, *out;
} sums;

/* A tile, and where its walk is. */
typedef struct state {
    const sp_attend_args *a;
    const sp_tile *tile;
    const sp_attend_req *req;
    int kv_head, group, n_rows;
    int head, width;              /* D, and D rounded up to 16: the stride of rows */
    size_t head_bytes, row_bytes; /* the keys, or the values, of a head in a block; one value */
    size_t to_head;               /* from a head of a block to the next */
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
    int32_t *hidden;      /* [rows] number of them before the query's window */
    int32_t *n_seen;      /* [rows] number of live keys of this step at or before the query */
    float *keys, *values; /* panels: [STEP_BLOCKS][D][16]; [width/16][STEP][16] of live keys */
    uint8_t *joined;      /* [STEP_BLOCKS] keys and values of a head in a block */
} state;

/* What the rows of a tile see of 64 keys. */
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

/* mask_of -- the keys that a row sees of the step whose first key is `at`. */
INLINE uint64_t mask_of(const state *t, uint64_t live, int32_t at, int r)
{
    return live & first_bits(t->visible[r] - at) & ~first_bits(SP_MAX(0, t->hidden[r] - at));
}

/* Scores, softmax and outputs of a step whose first key is `at`. */
typedef void step_fn(const state *t, step *x, int32_t at);
step_fn SP_WIDTH(sp_attend_f16); /* F16, BF16 */
step_fn SP_WIDTH(sp_attend_f32); /* F32, Q8_0 */

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
        const float max = t->piece.max[r + j]; /* -inf: the row has seen nothing yet, nor now */
        vec_store(lanes + j * VL,
                  weigh_scores(t->score + (r + j) * STEP, max == -INFINITY ? 0 : max));
    }
    for (int j = n; j < 4; j++) vec_store(lanes + j * VL, vec_zero());
    quad_store(sum, vec_sum4(vec_load(lanes), vec_load(lanes + VL), vec_load(lanes + 2 * VL),
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
        const uint64_t mask = mask_of(t, x->live, at, r);
        if (SP_UNLIKELY(t->a->cap > 0)) cap_scores(t->score + r * STEP, t->a->cap);
        if (SP_UNLIKELY(mask != ~(uint64_t)0)) hide_scores(t->score + r * STEP, mask);
        const vec large = largest_scores(t->score + r * STEP);
        t->n_seen[r] = __builtin_popcountll(x->live & first_bits(t->visible[r] - at));
        if (SP_LIKELY(!vec_any_above(large, t->piece.max[r] + HEADROOM))) continue;
        const float max = vec_largest(large);
        if (t->piece.max[r] != -INFINITY) rescale(t, r, exp2_one(t->piece.max[r] - max));
        t->piece.max[r] = max;
    }
    for (int r = from; r < to; r += 4) weigh_rows(t, r, SP_MIN(4, to - r));
}

#endif
