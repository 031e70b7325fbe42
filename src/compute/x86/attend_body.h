/* attend_body.h -- span attention: tiles of queries meet one block of 16 keys after another.
 *
 * A unit of work is (request, tile of queries, KV head). The tile's rows are its queries times the
 * query heads that share the KV head, so that a block is read once for all of them:
 *
 *     for span in sight            queries rotated for p - shift, unless the last span had that
 * shift for block of 16 keys scores    [rows][16]     = query . key, 16 keys beside each other in
 * vectors softmax   a row at a time: maximum, rescaling, exp, sum outputs   [rows][D]      +=
 * probability * value
 *
 * Many rows: a block is decoded to f32 first. Up to LANES rows (decode): elements are decoded in
 * registers, as each is used once; and one or two rows meet several blocks in a strip, since a
 * single chain of additions would leave the CPU waiting.
 *
 * Invariants:
 *   A1  Every sum of a row is a chain of its own in a fixed order: over d for a score, over keys in
 *       ascending order for an output. Tiles and strips only interleave chains.
 *   A2  A row and a block meet under a mask of 16 bits: the keys that are not stale and not after
 * the row's query. A row whose mask is empty is not touched by the block. A3  A score outside the
 * mask is replaced, never calculated with; a value outside it is not read for that row. Free slots
 * may hold anything. From A1-A3: what a row gets depends on its query and its spans only.
 *
 * Rows of a tile stand in ascending order of their positions, so the rows that see nothing of a
 * block are the first ones, and the last row's mask holds every other's.
 */
#include <string.h>

#include "base/mem.h"
#include "compute/attend_int.h"
#include "compute/ops_int.h"
#include "compute/x86/kv_vec.h"

enum { LANES = SP_VL == 8 ? 4 : 8 }; /* rows times blocks whose chains run beside each other */

typedef struct state {
    const sp_attend_args *a;
    const sp_attend_req *req;
    int kv_head, group, n_rows;
    int head, width;   /* D, and D rounded up to 16: the stride of rows */
    size_t head_bytes; /* keys, or values, of a head in a block */
    /* scratch, see sp_attend_scratch_bytes */
    float *query, *turned; /* [rows][width] times scale; the same, rotated */
    float *out;            /* [rows][width] sum of exp(score - max) * value */
    float *score;          /* [strip][rows][B] scores, then exp(score - max) */
    unsigned *mask;        /* [strip][rows] A2 */
    float *max, *sum;      /* [rows] */
    float *span_sum;       /* [rows] part of sum from this span */
    float *span_max;       /* [n_spans][rows] max when the span was done */
    int32_t *visible;      /* [rows] keys of this span that the row may see */
    float *keys, *values;  /* [D][B], [B][width] of a decoded block */
} state;

/* A block that some row sees; in a strip of several, scores are taken of all rows. */
typedef struct block {
    const uint8_t *keys, *values;
    int first; /* row with a mask that is not empty */
} block;

INLINE int64_t query_of(const state *t, const sp_tile *tile, int row)
{
    return tile->first + row / t->group;
}

/* Index of a row in the caller's [m, H]. */
INLINE int64_t head_of(const state *t, const sp_tile *tile, int row)
{
    return query_of(t, tile, row) * t->a->n_heads + t->kv_head * t->group + row % t->group;
}

/* -- scores ------------------------------------------------------------------------------------ */

/* `rows` rows from r on meet n blocks, the strip's i-th and on; rows * n <= LANES. */
INLINE void score(sp_dtype type, const state *t, int rows, int n, int r, int i,
                  const uint8_t *const keys[])
{
    const float *q = t->turned + r * t->width;
    vec acc[LANES][V16], scale[LANES][V16];
    for (int j = 0; j < rows * n; j++) {
        for (int v = 0; v < V16; v++) acc[j][v] = vec_zero();
    }
    for (int from = 0; from < t->head; from += 32) {
        const int to = SP_MIN(t->head, from + 32);
        for (int b = 0; b < n; b++) {
            for (int v = 0; v < V16; v++) scale[b][v] = key_scale(type, keys[b], from, v);
        }
        for (int d = from; d < to; d++) {
            for (int b = 0; b < n; b++) {
                vec k[V16];
                for (int v = 0; v < V16; v++) k[v] = key_at(type, keys[b], d, v, scale[b][v]);
                for (int j = 0; j < rows; j++) {
                    vec x = vec_all(q[j * t->width + d]), *sum = acc[b * rows + j];
                    for (int v = 0; v < V16; v++) sum[v] = vec_fma(x, k[v], sum[v]);
                }
            }
        }
    }
    for (int b = 0; b < n; b++) {
        for (int j = 0; j < rows; j++) {
            float *out = t->score + ((i + b) * t->n_rows + r + j) * B;
            for (int v = 0; v < V16; v++) vec_store(out + v * VL, acc[b * rows + j][v]);
        }
    }
}

INLINE void score_block(sp_dtype type, const state *t, int i, int r, const uint8_t *keys)
{
    for (; r + LANES <= t->n_rows; r += LANES) score(type, t, LANES, 1, r, i, &keys);
    if (LANES > 4 && r + 4 <= t->n_rows) score(type, t, 4, 1, r, i, &keys), r += 4;
    if (r + 2 <= t->n_rows) score(type, t, 2, 1, r, i, &keys), r += 2;
    if (r < t->n_rows) score(type, t, 1, 1, r, i, &keys);
}

/* Blocks in a strip: as many as fill the lanes. */
INLINE int strip_of(const state *t)
{
    return t->n_rows <= 2 ? LANES / t->n_rows : 1;
}

INLINE void scores(sp_dtype type, const state *t, const block *blocks, int n)
{
    const uint8_t *keys[LANES];
    for (int i = 0; i < n; i++) keys[i] = blocks[i].keys;
    if (t->n_rows > LANES) {
        const uint8_t *decoded = keys[0];
        if (type != SP_F32) {
            keys_to_f32(type, keys[0], t->head, t->keys);
            decoded = (const uint8_t *)t->keys;
        }
        score_block(SP_F32, t, 0, blocks[0].first, decoded);
    } else if (t->n_rows == 1 && n == LANES) {
        score(type, t, 1, LANES, 0, 0, keys);
    } else if (t->n_rows == 2 && n == LANES / 2) {
        score(type, t, 2, LANES / 2, 0, 0, keys);
    } else {
        for (int i = 0; i < n; i++) score_block(type, t, i, blocks[i].first, keys[i]);
    }
}

/* -- softmax ----------------------------------------------------------------------------------- */

static void softmax_row(const state *t, int r, float *score, unsigned mask)
{
    vec s[V16], largest = vec_all(t->max[r]), total = vec_zero();
    for (int v = 0; v < V16; v++) {
        s[v] = vec_select(mask >> (v * VL), vec_load(score + v * VL), vec_all(-INFINITY));
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

/* Values of a block, as rows of `stride` bytes, and the keys of one mask. */
typedef struct value_rows {
    const uint8_t *p;
    size_t stride;
    uint8_t live[B];
    int n_live;
} value_rows;

/* `rows` rows from r on, of one mask, by `columns` times 16 channels from d on. */
INLINE void weigh(sp_dtype type, const state *t, int rows, int columns, int r, int d,
                  const float *score, const value_rows *values)
{
    vec acc[LANES][4 * V16];
    const int n = columns * V16;
    for (int j = 0; j < rows; j++) {
        const float *out = t->out + (r + j) * t->width + d;
        for (int v = 0; v < n; v++) acc[j][v] = vec_load(out + v * VL);
    }
    for (int i = 0; i < values->n_live; i++) {
        const uint8_t *row = values->p + values->live[i] * values->stride;
        const float *p = score + r * B + values->live[i];
        for (int v = 0; v < n; v++) {
            vec x = value_at(type, row, d + v * VL);
            for (int j = 0; j < rows; j++) acc[j][v] = vec_fma(vec_all(p[j * B]), x, acc[j][v]);
        }
    }
    for (int j = 0; j < rows; j++) {
        float *out = t->out + (r + j) * t->width + d;
        for (int v = 0; v < n; v++) vec_store(out + v * VL, acc[j][v]);
    }
}

/* Rows r .. end-1, all of one mask. */
INLINE void weigh_rows(sp_dtype type, const state *t, int r, int end, const float *score,
                       const value_rows *values)
{
    const int width = t->width;
    for (; r + LANES <= end; r += LANES) {
        for (int d = 0; d < width; d += 16) weigh(type, t, LANES, 1, r, d, score, values);
    }
    for (; r + 2 <= end; r += 2) {
        int d = 0;
        for (; d + 32 <= width; d += 32) weigh(type, t, 2, 2, r, d, score, values);
        if (d < width) weigh(type, t, 2, 1, r, d, score, values);
    }
    if (r < end) {
        int d = 0;
        for (; d + 64 <= width; d += 64) weigh(type, t, 1, 4, r, d, score, values);
        for (; d < width; d += 16) weigh(type, t, 1, 1, r, d, score, values);
    }
}

/* One block of the strip with its scores and masks, after softmax. */
INLINE void outputs(sp_dtype type, const state *t, const block *b, const float *score,
                    const unsigned *mask)
{
    value_rows values = {b->values, sp_row_bytes(type, t->head), {0}, 0};
    const bool whole = t->head == t->width; /* no vector reaches beyond a row */
    const bool decoded = !whole || (type != SP_F32 && t->n_rows > LANES);
    if (decoded) {
        for (unsigned m = mask[t->n_rows - 1]; m; m &= m - 1) {
            int k = __builtin_ctz(m);
            value_to_f32(type, b->values + (size_t)k * values.stride, t->head,
                         t->values + k * t->width);
        }
        values.p = (const uint8_t *)t->values;
        values.stride = (size_t)t->width * sizeof(float);
    }
    for (int r = b->first, end; r < t->n_rows; r = end) {
        for (end = r + 1; end < t->n_rows && mask[end] == mask[r];) end++;
        values.n_live = 0;
        for (unsigned m = mask[r]; m; m &= m - 1) {
            values.live[values.n_live++] = (uint8_t)__builtin_ctz(m);
        }
        if (decoded) {
            weigh_rows(SP_F32, t, r, end, score, &values);
        } else {
            weigh_rows(type, t, r, end, score, &values);
        }
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

/* Masks of the rows for keys 16b .. 16b+15 of a span. Returns the first row that sees any of them,
 * or n_rows. */
static int set_masks(const state *t, const sp_span *s, int32_t b, unsigned *mask)
{
    const unsigned live = sp_span_live(s, b);
    int first = t->n_rows;
    for (int r = t->n_rows - 1; r >= 0; r--) {
        int n = t->visible[r] - b * B;
        mask[r] = n >= B ? live : n > 0 ? live & ((1u << n) - 1) : 0;
        if (mask[r]) first = r;
    }
    return first;
}

/* Meets n blocks of a strip, whose masks are set. */
INLINE void meet_blocks(sp_dtype type, const state *t, const block *blocks, int n)
{
    scores(type, t, blocks, n);
    for (int i = 0; i < n; i++) {
        float *score = t->score + i * t->n_rows * B;
        const unsigned *mask = t->mask + i * t->n_rows;
        for (int r = blocks[i].first; r < t->n_rows; r++) {
            softmax_row(t, r, score + r * B, mask[r]);
        }
        outputs(type, t, &blocks[i], score, mask);
    }
}

/* Heads of a block lie far apart: the CPU would not guess where the next one is read. */
INLINE void fetch(const block *b, size_t head_bytes)
{
    for (size_t i = 0; i < head_bytes; i += SP_CACHE_LINE) {
        _mm_prefetch((const char *)b->keys + i, _MM_HINT_T0);
        _mm_prefetch((const char *)b->values + i, _MM_HINT_T0);
    }
}

INLINE block block_of(const state *t, uint32_t id)
{
    const uint8_t *keys =
        t->a->kv->base + id * t->a->kv->block_bytes + (size_t)t->kv_head * t->head_bytes;
    return (block){keys, keys + (size_t)t->a->kv->n_heads * t->head_bytes, 0};
}

INLINE void meet_span(sp_dtype type, const state *t, const sp_span *s)
{
    const int strip = strip_of(t);
    const int32_t n_visible = t->visible[t->n_rows - 1], n_blocks = SP_DIV_UP(n_visible, B);
    block blocks[LANES];
    int n = 0;
    for (int32_t b = 0; b < n_blocks; b++) {
        if (t->n_rows <= LANES && b + strip < n_blocks) {
            block ahead = block_of(t, s->blocks[b + strip]);
            fetch(&ahead, t->head_bytes);
        }
        int first = set_masks(t, s, b, t->mask + n * t->n_rows);
        if (first == t->n_rows) continue;
        blocks[n] = block_of(t, s->blocks[b]);
        blocks[n++].first = first;
        if (n < strip) continue;
        meet_blocks(type, t, blocks, n);
        n = 0;
    }
    if (n > 0) meet_blocks(type, t, blocks, n);
}

#define MEET_SPAN(type)                                                                            \
    static void meet_span_##type(const state *t, const sp_span *s)                                 \
    {                                                                                              \
        meet_span(SP_##type, t, s);                                                                \
    }
MEET_SPAN(F32)
MEET_SPAN(F16)
MEET_SPAN(BF16)
MEET_SPAN(Q8_0)

static void attend_span(const state *t, const sp_tile *tile, int index)
{
    static void (*const meet[SP_DTYPE_N])(const state *, const sp_span *) = {
        [SP_F32] = meet_span_F32,
        [SP_F16] = meet_span_F16,
        [SP_BF16] = meet_span_BF16,
        [SP_Q8_0] = meet_span_Q8_0,
    };
    const sp_span *s = &t->req->spans[index];
    for (int r = 0; r < t->n_rows; r += t->group) {
        int32_t n = sp_span_visible(s, t->req->pos[query_of(t, tile, r)]);
        for (int h = 0; h < t->group; h++) t->visible[r + h] = n;
    }
    memset(t->span_sum, 0, (size_t)t->n_rows * sizeof(float));
    meet[t->a->kv->type](t, s);
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
        if (t->req->lse) t->req->lse[qh] = t->max[r] + logf(t->sum[r]);
        if (t->req->lse) t->req->lse[qh] = t->max[r] + logf(t->sum[r]);
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
        attend_span(t, tile, s);
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
    state t = {.a = a,
               .group = group,
               .head = head,
               .width = SP_ROUND_UP(head, 16),
               .head_bytes = sp_kv_head_bytes(a->kv->type, head)};
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
