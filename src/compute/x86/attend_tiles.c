/* attend_tiles.c -- attention's products in tiles of bf16; see attend_tiles.h.
 *
 * Four tiles of sums, one of rows, two of keys or values in turn: five loads for four products. A tile of sums starts
 * at zero and not at the outputs, so a row that sees nothing of a step keeps its bits, denormals among them.
 */
#include "compute/x86/attend_tiles.h"

#include "compute/kernel/kv.h"
#include "compute/x86/tiles.h"

enum {
    STEP = 64,
    PAIRS = 16,               /* rows of a tile of keys or values */
    TILE = PAIRS * TILE_BYTES,
    HALF = TILE / 2,          /* 16 keys of a tile of values */
    SUMS = 4,                 /* tiles */
};

void sp_tiles_open(void)
{
    tiles_begin();
}

void sp_tiles_close(void)
{
    tiles_end();
}

/* -- rounding ---------------------------------------------------------------------------------- */

INLINE vec floats_of_words(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i *)p)));
}

/* Rounds n lines of words, and prefetches the same lines at `next`. */
INLINE void round_lines(const uint8_t *from, const uint8_t *next, int n, uint8_t *to)
{
    for (int i = 0; i < n; i++, from += TILE_BYTES, next += TILE_BYTES, to += TILE_BYTES) {
        vec_prefetch(next);
        _mm512_storeu_si512((void *)to, bf16_of(floats_of_words(from), floats_of_words(from + TILE_BYTES / 2)));
    }
}

static void open_keys(const sp_tile_step *s, int b, uint8_t *to)
{
    const int lines = s->width / 2, all = SP_ROUND_UP(lines, PAIRS);
    int n = 0;
    if (b < s->n_blocks) {
        n = lines;
        round_lines(s->key_block[b] + SP_Q16_SCALES, s->next[b] + SP_Q16_SCALES, n, to);
    }
    memset(to + n * TILE_BYTES, 0, (size_t)((all - n) * TILE_BYTES));
}

static void open_values(const sp_tile_step *s, int b, uint8_t *to)
{
    for (int p = 0; p < s->width / 16; p++, to += TILE) {
        const size_t at = SP_Q16_SCALES + (size_t)p * HALF;
        if (b >= s->n_blocks)
            memset(to, 0, HALF);
        else
            round_lines(s->value_block[b] + at, s->next[b] + (s->value_block[b] - s->key_block[b]) + at,
                        PAIRS / 2, to);
    }
}

void sp_tile_step_open(const sp_tile_step *s)
{
    const int to_key = SP_DIV_UP(s->width, 32) * TILE, to_value = s->width / 16 * TILE;
    for (int b = 0; b < SP_STEP_BLOCKS; b++) {
        open_keys(s, b, (uint8_t *)s->keys + b * to_key);
        open_values(s, b, (uint8_t *)s->values + b / 2 * to_value + b % 2 * HALF);
    }
}

void sp_bf16_of_query(float *row, int width)
{
    uint8_t *to = (uint8_t *)row;
    for (int d = 0; d < width; d += 32, to += TILE_BYTES) {
        const vec high = d + VL < width ? vec_load(row + d + VL) : vec_zero();
        _mm512_storeu_si512((void *)to, bf16_of(vec_load(row + d), high));
    }
}

float sp_bf16_of_probs(float *prob, const float *scale, uint64_t mask)
{
    vec all = vec_zero(), even = vec_zero(), odd = vec_zero();
    uint8_t *to = (uint8_t *)prob;
    for (int k = 0; k < STEP; k += 2 * VL, to += TILE_BYTES) {
        vec p[2];
        for (int v = 0; v < 2; v++) {
            const int at = k + v * VL;
            p[v] = vec_select((unsigned)(mask >> at), vec_mul(vec_load(prob + at), vec_load(scale + at)), vec_zero());
            all = vec_add(all, p[v]);
        }
        const __m512i rounded = bf16_of(p[0], p[1]);
        even = vec_add(even, bf16_even(rounded));
        odd = vec_add(odd, bf16_odd(rounded));
        _mm512_storeu_si512((void *)to, rounded);
    }
    const float sum = vec_sum(vec_add(even, odd));
    return sum == 0 ? 0 : vec_sum(all) / sum;
}

/* -- products ---------------------------------------------------------------------------------- */

/* A product of 16 rows with four tiles for each of n groups. */
typedef struct product {
    const uint8_t *rows; /* a group: 64 bytes */
    size_t stride;
    const uint8_t *w[SUMS];
    size_t to_next; /* from a group of w to the next */
    int n;
} product;

/* Tiles of sums 0 .. 3. */
INLINE void multiply(const product *p)
{
    tile_zero(0);
    tile_zero(1);
    tile_zero(2);
    tile_zero(3);
    for (int g = 0; g < p->n; g++) {
        const size_t at = (size_t)g * p->to_next;
        tile_load(4, p->rows + g * TILE_BYTES, p->stride);
        tile_load(5, p->w[0] + at, TILE_BYTES);
        tile_dot(0, 4, 5);
        tile_load(6, p->w[1] + at, TILE_BYTES);
        tile_dot(1, 4, 6);
        tile_load(5, p->w[2] + at, TILE_BYTES);
        tile_dot(2, 4, 5);
        tile_load(6, p->w[3] + at, TILE_BYTES);
        tile_dot(3, 4, 6);
    }
}

/* Of emulated tiles as of real ones: denormals are zeros. */
static __attribute__((noinline)) void multiply_to(const product *p, float *to, size_t stride)
{
#if SP_EMULATE
    const unsigned state = flush();
#endif
    multiply(p);
    tile_store(0, to, stride);
    tile_store(1, to + 16, stride);
    tile_store(2, to + 32, stride);
    tile_store(3, to + 48, stride);
#if SP_EMULATE
    _mm_setcsr(state);
#endif
}

void sp_tile_scores(const sp_tile_step *s, const float *query, float *score)
{
    const int n = SP_DIV_UP(s->width, 32);
    product p = {.rows = (const uint8_t *)query, .stride = (size_t)s->width * 4, .to_next = TILE, .n = n};
    for (int b = 0; b < SUMS; b++) p.w[b] = (const uint8_t *)s->keys + b * n * TILE;
    multiply_to(&p, score, STEP * 4);
    for (int b = 0; b < s->n_blocks; b++) {
        const vec scale = vec_load((const float *)s->key_block[b]);
        for (float *x = score + b * 16; x < score + SP_STEP_ROWS * STEP; x += STEP)
            vec_store(x, vec_mul(vec_load(x), scale));
    }
}

void sp_tile_outputs(const sp_tile_step *s, const float *weight, const float *factor, int from, int to, float *out)
{
    const int panels = s->width / 16;
    _Alignas(64) float sums[SP_STEP_ROWS][STEP];
    product p = {.rows = (const uint8_t *)weight,
                 .stride = STEP * 4,
                 .to_next = (size_t)panels * TILE,
                 .n = SP_DIV_UP(s->n_blocks, 2)};
    for (int first = 0; first < panels; first += SUMS) {
        const int n = SP_MIN(SUMS, panels - first); /* after the last panel: the last again */
        for (int i = 0; i < SUMS; i++) p.w[i] = (const uint8_t *)s->values + (first + SP_MIN(i, n - 1)) * TILE;
        multiply_to(&p, sums[0], sizeof sums[0]);
        for (int r = from; r < to; r++) {
            const vec f = vec_all(factor[r]);
            float *o = out + r * s->width + first * 16;
            for (int i = 0; i < n * 16; i += VL) vec_store(o + i, vec_fma(vec_load(sums[r] + i), f, vec_load(o + i)));
        }
    }
}
