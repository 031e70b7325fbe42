/* attend_floats.h -- a step of span attention over keys and values of a type that is not Q16.
 *
 * Many rows: the step is first decoded to f32 panels. Up to eight rows (decode): elements are decoded
 * in registers. attend.c has the essay and the invariants. Each file that includes this compiles the
 * step for two types, to keep each object's compile time short.
 */
#ifndef SP_COMPUTE_SIMD_ATTEND_FLOATS_H
#define SP_COMPUTE_SIMD_ATTEND_FLOATS_H

#include "compute/simd/attend_step.h"

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

INLINE void step_of(sp_dtype type, const state *t, step *x, int32_t at)
{
    const bool direct = t->n_rows <= DIRECT_ROWS && t->head == t->width;
    open_stream(t, x, direct, &x->ahead);
    if (direct) {
        step_direct(type, t, x, at);
    } else {
        step_panels(type, t, x, at);
    }
}

#define STEP_OF(type)                                                                              \
    static void step_##type(const state *t, step *x, int32_t at)                                   \
    {                                                                                              \
        step_of(SP_##type, t, x, at);                                                              \
    }

#endif
