/* attend_body.h -- span attention: tiles of queries meet one block of 16 keys after another.
 *
 * A unit of work is (request, tile of queries, KV head). The tile's rows are its queries times the
 * query heads that share the KV head, so that a block is decoded once for all of them:
 *
 *     for span in sight            query rotated for p - shift, unless the last span had that shift
 *       for block of 16 keys       decoded to f32 [D][16] and [16][D]
 *         scores    [rows][16]     = query . key, 16 keys beside each other in vectors
 *         softmax   a row at a time: maximum, rescaling, exp, sum
 *         outputs   [rows][D]      += probability * value
 *
 * Invariants:
 *   A1  Every sum of a row is a chain of its own in a fixed order: over d for a score, over keys in
 *       ascending order for an output. Tiling the rows only interleaves chains.
 *   A2  A row and a block meet under a mask of 16 bits: the keys that are not stale and not after
 * the row's query. A row whose mask is empty is not touched by the block. A3  A score outside the
 * mask is replaced, never calculated with; a value outside it is not read for that row. Free slots
 * may hold anything. From A1-A3: what a row gets depends on its query and its spans only.
 *
 * Rows of a tile stand in ascending order of their positions, so the rows that see nothing of a
 * block are the first ones.
 */
#include <string.h>

#include "compute/attend_int.h"
#include "compute/ops_int.h"
#include "compute/quant_int.h"
#include "compute/x86/vec.h"

enum {
    B = SP_BLOCK_TOKENS,
    LANES = SP_VL == 8 ? 4 : 8 /* rows whose chains run beside each other: 8 accumulators */
};

typedef struct state {
    const sp_attend_args *a;
    const sp_attend_req *req;
    int kv_head, group, n_rows;
    int head, width; /* D, and D rounded up to 16: the stride of rows */
    /* scratch, see sp_attend_scratch_bytes */
    float *query, *turned; /* [rows][width] times scale; the same, rotated */
    float *out;            /* [rows][width] sum of exp(score - max) * value */
    float *score;          /* [rows][B] scores, then exp(score - max) */
    float *max, *sum;      /* [rows] */
    float *span_sum;       /* [rows] part of sum from this span */
    float *span_max;       /* [n_spans][rows] max when the span was done */
    int32_t *visible;      /* [rows] keys of this span that the row may see */
    unsigned *mask;        /* [rows] A2 */
    float *keys, *values;  /* [D][B], [B][width] */
} state;

INLINE int64_t query_of(const state *t, const sp_tile *tile, int row)
{
    return tile->first + row / t->group;
}

/* Index of a row in the caller's [m, H]. */
INLINE int64_t head_of(const state *t, const sp_tile *tile, int row)
{
    return query_of(t, tile, row) * t->a->n_heads + t->kv_head * t->group + row % t->group;
}

/* -- decoding a block -------------------------------------------------------------------------- */

/* n floats, as many as whole vectors hold; n a multiple of VL. */
INLINE void decode_run(sp_dtype type, const uint8_t *p, float *out, int n)
{
    for (int i = 0; i < n; i += VL) {
        vec_store(out + i, type == SP_F16 ? vec_load_f16(p + 2 * i) : vec_load_bf16(p + 2 * i));
    }
}

static const float *decode_keys(const state *t, uint32_t block)
{
    const sp_kv_view *kv = t->a->kv;
    const uint8_t *p = sp_kv_keys(kv, block, t->kv_head);
    switch (kv->type) {
    case SP_F32:
        return (const float *)p;
    case SP_F16:
        decode_run(SP_F16, p, t->keys, t->head * B);
        break;
    case SP_BF16:
        decode_run(SP_BF16, p, t->keys, t->head * B);
        break;
    default: /* Q8_0: a scale for each slot, then 32 channels */
        for (int d = 0; d < t->head; d += 32, p += 34 * B) {
            for (int v = 0; v < V16; v++) {
                vec scale = vec_load_f16(p + 2 * v * VL);
                const uint8_t *q = p + 2 * B + v * VL;
                for (int i = 0; i < 32; i++) {
                    vec_store(t->keys + (d + i) * B + v * VL,
                              vec_mul(scale, vec_load_i8(q + i * B)));
                }
            }
        }
    }
    return t->keys;
}

static void decode_value(const state *t, const uint8_t *p, float *out)
{
    const int whole = t->head / VL * VL;
    switch (t->a->kv->type) {
    case SP_F32:
        memcpy(out, p, (size_t)t->head * sizeof(float));
        return;
    case SP_F16:
        decode_run(SP_F16, p, out, whole);
        break;
    case SP_BF16:
        decode_run(SP_BF16, p, out, whole);
        break;
    default:
        for (int d = 0; d < t->head; d += 32, p += 34) {
            vec scale = vec_all(_cvtsh_ss(sp_load_u16(p)));
            for (int i = 0; i < 32; i += VL) {
                vec_store(out + d + i, vec_mul(scale, vec_load_i8(p + 2 + i)));
            }
        }
        return;
    }
    sp_row_to_f32(t->a->kv->type, p + 2 * whole, out + whole, t->head - whole);
}

/* Only the values of keys in `mask`, which some row of the tile sees. */
static const float *decode_values(const state *t, uint32_t block, unsigned mask)
{
    const sp_kv_view *kv = t->a->kv;
    const uint8_t *p = sp_kv_values(kv, block, t->kv_head);
    const size_t row_bytes = sp_row_bytes(kv->type, t->head);
    if (kv->type == SP_F32 && t->head == t->width) return (const float *)p;
    for (; mask; mask &= mask - 1) {
        int k = __builtin_ctz(mask);
        decode_value(t, p + (size_t)k * row_bytes, t->values + k * t->width);
    }
    return t->values;
}

/* -- scores ------------------------------------------------------------------------------------ */

INLINE void score_rows(const state *t, int rows, int r, const float *keys)
{
    const float *q = t->turned + r * t->width;
    vec acc[LANES][V16];
    for (int j = 0; j < rows; j++) {
        for (int v = 0; v < V16; v++) acc[j][v] = vec_zero();
    }
    for (int d = 0; d < t->head; d++) {
        vec k[V16];
        for (int v = 0; v < V16; v++) k[v] = vec_load(keys + d * B + v * VL);
        for (int j = 0; j < rows; j++) {
            vec x = vec_all(q[j * t->width + d]);
            for (int v = 0; v < V16; v++) acc[j][v] = vec_fma(x, k[v], acc[j][v]);
        }
    }
    for (int j = 0; j < rows; j++) {
        for (int v = 0; v < V16; v++) vec_store(t->score + (r + j) * B + v * VL, acc[j][v]);
    }
}

static void scores(const state *t, int from, const float *keys)
{
    int r = from;
    for (; r + LANES <= t->n_rows; r += LANES) score_rows(t, LANES, r, keys);
    if (LANES > 4 && r + 4 <= t->n_rows) score_rows(t, 4, r, keys), r += 4;
    if (r + 2 <= t->n_rows) score_rows(t, 2, r, keys), r += 2;
    if (r < t->n_rows) score_rows(t, 1, r, keys);
}

/* -- softmax ----------------------------------------------------------------------------------- */

static void softmax_row(const state *t, int r)
{
    float *score = t->score + r * B;
    vec s[V16], largest = vec_all(t->max[r]), total = vec_zero();
    for (int v = 0; v < V16; v++) {
        s[v] = vec_select(t->mask[r] >> (v * VL), vec_load(score + v * VL), vec_all(-INFINITY));
        largest = vec_max(largest, s[v]);
    }
    float max = vec_largest(largest);
    if (max > t->max[r]) { /* from -inf, all that is rescaled is 0 */
        float factor = exp_one(t->max[r] - max), *out = t->out + r * t->width;
        t->max[r] = max;
        t->sum[r] *= factor;
        t->span_sum[r] *= factor;
        for (int d = 0; d < t->width; d += VL) {
            vec_store(out + d, vec_mul(vec_load(out + d), vec_all(factor)));
        }
    }
    for (int v = 0; v < V16; v++) {
        vec p = vec_exp(vec_sub(s[v], vec_all(t->max[r])));
        vec_store(score + v * VL, p);
        total = vec_add(total, p);
    }
    float sum = vec_sum(total);
    t->sum[r] += sum;
    t->span_sum[r] += sum;
}

/* -- outputs ----------------------------------------------------------------------------------- */

/* `rows` rows from r on, of one mask, by `columns` times 16 channels. */
INLINE void weigh(const state *t, int rows, int columns, int r, int d, const float *values,
                  const uint8_t *live, int n_live)
{
    vec acc[LANES][4 * V16];
    const int n = columns * V16;
    for (int j = 0; j < rows; j++) {
        const float *out = t->out + (r + j) * t->width + d;
        for (int v = 0; v < n; v++) acc[j][v] = vec_load(out + v * VL);
    }
    for (int i = 0; i < n_live; i++) {
        const float *value = values + live[i] * t->width + d, *p = t->score + r * B + live[i];
        for (int v = 0; v < n; v++) {
            vec x = vec_load(value + v * VL);
            for (int j = 0; j < rows; j++) acc[j][v] = vec_fma(vec_all(p[j * B]), x, acc[j][v]);
        }
    }
    for (int j = 0; j < rows; j++) {
        float *out = t->out + (r + j) * t->width + d;
        for (int v = 0; v < n; v++) vec_store(out + v * VL, acc[j][v]);
    }
}

/* Rows from..to-1, all with the mask of the first. */
static void weigh_rows(const state *t, int from, int to, const float *values)
{
    uint8_t live[B];
    int n_live = 0, r = from;
    for (unsigned m = t->mask[from]; m; m &= m - 1) live[n_live++] = (uint8_t)__builtin_ctz(m);
    for (; r + LANES <= to; r += LANES) {
        for (int d = 0; d < t->width; d += 16) weigh(t, LANES, 1, r, d, values, live, n_live);
    }
    for (; r + 2 <= to; r += 2) {
        int d = 0;
        for (; d + 32 <= t->width; d += 32) weigh(t, 2, 2, r, d, values, live, n_live);
        if (d < t->width) weigh(t, 2, 1, r, d, values, live, n_live);
    }
    if (r < to) {
        int d = 0;
        for (; d + 64 <= t->width; d += 64) weigh(t, 1, 4, r, d, values, live, n_live);
        for (; d < t->width; d += 16) weigh(t, 1, 1, r, d, values, live, n_live);
    }
}

/* -- spans ------------------------------------------------------------------------------------- */

static void turn_queries(const state *t, const sp_tile *tile, int32_t shift)
{
    const sp_rope *rope = t->a->rope;
    memcpy(t->turned, t->query, (size_t)(t->n_rows * t->width) * sizeof(float));
    if (rope->n_rot == 0) return;
    for (int r = 0; r < t->n_rows; r++) {
        int64_t at = (int64_t)t->req->pos[query_of(t, tile, r)] - shift;
        /* A query outside the table sees no key of a span with this shift. */
        if (at >= 0 && at < rope->n_pos) {
            sp_rope_rotate(rope, t->turned + r * t->width, (int32_t)at);
        }
    }
}

/* Keys 16b .. 16b+15 of a span: returns the union of the rows' masks, and the first row that has
 * one. */
static unsigned block_masks(const state *t, const sp_span *s, int32_t b, int *first)
{
    const unsigned live = sp_span_live(s, b);
    int from = 0;
    while (t->visible[from] <= b * B)
        from++; /* the last row sees something: the caller saw to it */
    for (int r = from; r < t->n_rows; r++) {
        int n = SP_MIN(B, t->visible[r] - b * B);
        t->mask[r] = live & ((1u << n) - 1);
    }
    while (from < t->n_rows && t->mask[from] == 0) from++;
    *first = from;
    return t->mask[t->n_rows - 1];
}

static void meet_block(const state *t, const sp_span *s, int32_t b)
{
    int from;
    unsigned mask = block_masks(t, s, b, &from);
    if (mask == 0) return;
    scores(t, from, decode_keys(t, s->blocks[b]));
    const float *values = decode_values(t, s->blocks[b], mask);
    for (int r = from; r < t->n_rows; r++) softmax_row(t, r);
    for (int r = from, next; r < t->n_rows; r = next) {
        for (next = r + 1; next < t->n_rows && t->mask[next] == t->mask[r];) next++;
        weigh_rows(t, r, next, values);
    }
}

static void meet_span(const state *t, const sp_tile *tile, int index)
{
    const sp_span *s = &t->req->spans[index];
    for (int r = 0; r < t->n_rows; r += t->group) {
        int32_t n = sp_span_visible(s, t->req->pos[query_of(t, tile, r)]);
        for (int h = 0; h < t->group; h++) t->visible[r + h] = n;
    }
    memset(t->span_sum, 0, (size_t)t->n_rows * sizeof(float));
    int32_t n = t->visible[t->n_rows - 1];
    for (int32_t b = 0; b * B < n; b++) meet_block(t, s, b);
    if (!t->req->mass) return;
    for (int r = 0; r < t->n_rows; r++) {
        t->req->mass[head_of(t, tile, r) * t->req->n_spans + index] = t->span_sum[r];
        t->span_max[index * t->n_rows + r] = t->max[r];
    }
}

/* -- tiles ------------------------------------------------------------------------------------- */

static void open_rows(const state *t, const sp_tile *tile)
{
    const size_t bytes = (size_t)(t->n_rows * t->width) * sizeof(float);
    memset(t->query, 0, bytes);
    memset(t->out, 0, bytes);
    for (int r = 0; r < t->n_rows; r++) {
        int64_t qh = head_of(t, tile, r);
        const float *q = t->req->q + qh * t->head;
        for (int d = 0; d < t->head; d++) t->query[r * t->width + d] = q[d] * t->a->scale;
        t->max[r] = -INFINITY;
        t->sum[r] = 0;
        if (t->req->mass) {
            memset(t->req->mass + qh * t->req->n_spans, 0, (size_t)t->req->n_spans * sizeof(float));
        }
    }
}

static void close_rows(const state *t, const sp_tile *tile, const sp_sight *sight)
{
    for (int r = 0; r < t->n_rows; r++) {
        int64_t qh = head_of(t, tile, r);
        float *out = t->req->out + qh * t->head;
        float inverse = t->sum[r] > 0 ? 1 / t->sum[r] : 0;
        for (int d = 0; d < t->head; d++) out[d] = t->out[r * t->width + d] * inverse;
        if (!t->req->mass) continue;
        float *mass = t->req->mass + qh * t->req->n_spans;
        for (int i = 0; i < sight->n; i++) {
            int s = sp_sight_at(sight, i);
            /* span_sum is relative to the maximum of its time; 0 where nothing was seen yet */
            if (mass[s] > 0) {
                mass[s] *= inverse * exp_one(t->span_max[s * t->n_rows + r] - t->max[r]);
            }
        }
    }
}

static void attend_tile(state *t, const sp_tile *tile)
{
    const sp_sight *sight = &tile->req->sights[tile->req->see[tile->first]];
    t->req = tile->req;
    t->n_rows = tile->n * t->group;
    open_rows(t, tile);
    for (int i = 0; i < sight->n; i++) {
        int s = sp_sight_at(sight, i);
        int32_t shift = t->req->spans[s].shift;
        if (i == 0 || shift != t->req->spans[sp_sight_at(sight, i - 1)].shift) {
            turn_queries(t, tile, shift);
        }
        meet_span(t, tile, s);
    }
    close_rows(t, tile, sight);
}

/* Lays the scratch of one part out. */
static void lay_out(state *t, void *scratch)
{
    const size_t rows = (size_t)SP_MAX(SP_TILE_ROWS, t->group), width = (size_t)t->width;
    float *p = scratch;
#define TAKE(n) (p += (n), p - (n))
    t->query = TAKE(rows * width);
    t->turned = TAKE(rows * width);
    t->out = TAKE(rows * width);
    t->keys = TAKE(B * width);
    t->values = TAKE(B * width);
    t->score = TAKE(rows * B);
    t->max = TAKE(rows);
    t->sum = TAKE(rows);
    t->span_sum = TAKE(rows);
    t->visible = (int32_t *)TAKE(rows);
    t->mask = (unsigned *)TAKE(rows);
    t->span_max = p;
#undef TAKE
    memset(t->values, 0, B * width * sizeof(float)); /* the channels from D to width stay 0 */
}

void SP_VARIANT(sp_attend)(const sp_attend_args *a, int part, int n_parts)
{
    const int head = a->kv->head, group = a->n_heads / a->kv->n_heads;
    assert(head <= SP_HEAD_MAX && a->n_heads % a->kv->n_heads == 0);
    state t = {.a = a, .group = group, .head = head, .width = SP_ROUND_UP(head, 16)};
    lay_out(&t, (uint8_t *)a->scratch + (size_t)part * a->scratch_bytes);
    sp_tile tile = {0};
    for (int64_t unit = 0; sp_tile_next(a, sp_tile_queries(group), &tile);) {
        for (int g = 0; g < a->kv->n_heads; g++, unit++) {
            if (unit % n_parts != part) continue;
            t.kv_head = g;
            attend_tile(&t, &tile);
        }
    }
}
