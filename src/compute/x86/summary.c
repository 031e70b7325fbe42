/* summary.c -- scores of block summaries: eight query heads against one block after the other; and the
 * sum of what these heads would give to each block.
 *
 * A block's centres and half-widths are read once; vectors of 32 channels are multiplied with eight
 * rows. VNNI multiplies bytes without a sign with signed ones: the centres are stored + 128, which
 * is subtracted from the sum. AVX2 has such products in 16 bits only, where |q| times the centre with
 * the sign of q does not overflow: 2 * 127 * 127 < 2^15. Vectors of 256 bits in every variant: the
 * rows of a block are short. */
#include <math.h>
#include <string.h>

#include "compute/kernel/summary.h"
#include "compute/simd/vec.h"

enum { B = SP_BLOCK_TOKENS, ROWS = SP_PICK_ROWS, LINE = 32, AHEAD = 4 };

#if SP_DOT && SP_VL == 16 && !SP_EMULATE
#define DOT_BYTES(sum, w, x) _mm256_dpbusd_epi32(sum, w, x)
#elif SP_DOT
#define DOT_BYTES(sum, w, x) _mm256_dpbusd_avx_epi32(sum, w, x)
#endif

INLINE __m256i load(const void *p)
{
    return _mm256_loadu_si256(p);
}

/* The sums of the lanes of eight vectors. */
INLINE __m256i sum_lanes(const __m256i v[ROWS])
{
    const __m256i ab = _mm256_hadd_epi32(v[0], v[1]), cd = _mm256_hadd_epi32(v[2], v[3]);
    const __m256i ef = _mm256_hadd_epi32(v[4], v[5]), gh = _mm256_hadd_epi32(v[6], v[7]);
    const __m256i low = _mm256_hadd_epi32(ab, cd), high = _mm256_hadd_epi32(ef, gh);
    return _mm256_add_epi32(_mm256_permute2x128_si256(low, high, 0x20),
                            _mm256_permute2x128_si256(low, high, 0x31));
}

/* sum[r] += q . middle + size . half of 32 channels. VNNI: 128 sum(q) too much. */
INLINE void add_channels(__m256i sum[ROWS], const sp_pick_query *x, int d, __m256i middle,
                         __m256i half)
{
#if !SP_DOT
    const __m256i one = _mm256_set1_epi16(1);
    middle = _mm256_xor_si256(middle, _mm256_set1_epi8(-128));
#endif
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++) {
        const __m256i q = load(x->q[r] + d), size = load(x->size[r] + d);
#if SP_DOT
        sum[r] = DOT_BYTES(sum[r], middle, q);
        sum[r] = DOT_BYTES(sum[r], half, size);
#else
        const __m256i a = _mm256_maddubs_epi16(_mm256_abs_epi8(q), _mm256_sign_epi8(middle, q));
        const __m256i b = _mm256_maddubs_epi16(half, size);
        sum[r] = _mm256_add_epi32(
            sum[r], _mm256_add_epi32(_mm256_madd_epi16(a, one), _mm256_madd_epi16(b, one)));
#endif
    }
}

void SP_VARIANT(sp_score_bounds)(const sp_score_args *a)
{
    const sp_summary_view *s = a->summary;
    const sp_pick_query *x = a->query;
    const int width = sp_summary_width(s->head);
    const size_t first = (size_t)a->kv_head * (size_t)s->n_blocks, bytes = 2 * (size_t)width;
    const __m256 scale = _mm256_loadu_ps(x->scale);
#if SP_DOT
    const __m256i excess = _mm256_slli_epi32(load(x->sum), 7);
#else
    const __m256i excess = _mm256_setzero_si256();
#endif
    for (int i = 0; i < a->n; i++) {
        const size_t at = first + a->block[i];
        const uint8_t *middle = s->base + at * bytes, *half = middle + width;
        const uint8_t *next = s->base + (first + a->block[SP_MIN(i + AHEAD, a->n - 1)]) * bytes;
        __m256i sum[ROWS];
        for (int r = 0; r < ROWS; r++) sum[r] = _mm256_setzero_si256();
        for (int d = 0; d < width; d += LINE) {
            _mm_prefetch((const char *)next + 2 * d, _MM_HINT_T0);
            add_channels(sum, x, d, load(middle + d), load(half + d));
        }
        const __m256 sums = _mm256_cvtepi32_ps(_mm256_sub_epi32(sum_lanes(sum), excess));
        const __m256 one = _mm256_mul_ps(_mm256_set1_ps(s->scale[at]), scale);
        _mm256_storeu_ps(a->out + (size_t)i * ROWS, _mm256_mul_ps(sums, one));
    }
}

INLINE int least_distance(const uint64_t *code, const uint64_t *query, int words)
{
    int least = words * 64;
    for (int t = 0; t < B; t++) {
        int n = 0;
        for (int w = 0; w < words; w++) n += __builtin_popcountll(code[t * words + w] ^ query[w]);
        least = SP_MIN(least, n);
    }
    return least;
}

INLINE void score_hash(const sp_score_args *a, int words)
{
    const sp_summary_view *s = a->summary;
    const sp_pick_query *x = a->query;
    uint64_t code[B * SP_HASH_BITS_MAX / 64];
    const size_t bytes = (size_t)(B * words) * sizeof *code;
    for (int i = 0; i < a->n; i++) {
        const size_t at = (size_t)a->kv_head * (size_t)s->n_blocks + a->block[i];
        memcpy(code, s->base + at * bytes, bytes);
        for (int r = 0; r < ROWS; r++)
            a->out[i * ROWS + r] = (float)(words * 64 - 2 * least_distance(code, x->code[r], words)) *
                                   (s->scale[at] * x->scale[r]);
    }
}

#if SP_VL == 16 && SP_DOT && !SP_EMULATE
#define COUNTS_BITS __attribute__((target("avx512f,avx512bw,avx512vl,avx512vpopcntdq")))

/* The least of eight counts of 64 bits each. */
COUNTS_BITS static inline int least_of(__m512i n)
{
    n = _mm512_min_epu64(n, _mm512_shuffle_i64x2(n, n, 0x4e));
    n = _mm512_min_epu64(n, _mm512_shuffle_i64x2(n, n, 0xb1));
    n = _mm512_min_epu64(n, _mm512_permutex_epi64(n, 0xb1));
    return (int)_mm_cvtsi128_si64(_mm512_castsi512_si128(n));
}

/* Distances of four codes of 128 bits, or of two of 256, in all the lanes of a code. */
COUNTS_BITS static inline __m512i distances(__m512i codes, __m512i query, int words)
{
    __m512i n = _mm512_popcnt_epi64(_mm512_xor_si512(codes, query));
    n = _mm512_add_epi64(n, _mm512_permutex_epi64(n, 0xb1));
    return words == 2 ? n : _mm512_add_epi64(n, _mm512_permutex_epi64(n, 0x4e));
}

/* score_hash_counted -- score_hash, with an instruction that counts the bits of eight words. */
COUNTS_BITS static void score_hash_counted(const sp_score_args *a, int words)
{
    const sp_summary_view *s = a->summary;
    const int n_vecs = B * words / 8;
    const size_t bytes = (size_t)n_vecs * sizeof(__m512i);
    __m512i query[ROWS], code[B * SP_HASH_BITS_MAX / 512];
    for (int r = 0; r < ROWS; r++) {
        uint64_t q[8];
        for (int w = 0; w < 8; w++) q[w] = a->query->code[r][w % words];
        query[r] = _mm512_loadu_si512(q);
    }
    for (int i = 0; i < a->n; i++) {
        const size_t at = (size_t)a->kv_head * (size_t)s->n_blocks + a->block[i];
        for (int v = 0; v < n_vecs; v++)
            code[v] = _mm512_loadu_si512(s->base + at * bytes + (size_t)v * sizeof(__m512i));
        for (int r = 0; r < ROWS; r++) {
            __m512i least = distances(code[0], query[r], words);
            for (int v = 1; v < n_vecs; v++)
                least = _mm512_min_epu64(least, distances(code[v], query[r], words));
            a->out[i * ROWS + r] = (float)(words * 64 - 2 * least_of(least)) *
                                   (s->scale[at] * a->query->scale[r]);
        }
    }
}
#endif

void SP_VARIANT(sp_score_hash)(const sp_score_args *a)
{
#if SP_VL == 16 && SP_DOT && !SP_EMULATE
    if (__builtin_cpu_supports("avx512vpopcntdq")) {
        score_hash_counted(a, sp_hash_bits(a->summary->kind) / 64);
        return;
    }
#endif
    if (a->summary->kind == SP_SUMMARY_HASH128)
        score_hash(a, 2);
    else
        score_hash(a, 4);
}

/* -- keys in 4 bits ---------------------------------------------------------------------------- */

enum { HALF = ROWS / 2 };

/* sum += products of 4 channels of 8 keys, a lane each. */
INLINE __m256i add_keys(__m256i sum, __m256i keys, __m256i query)
{
#if SP_DOT
    return DOT_BYTES(sum, keys, query);
#else
    const __m256i two = _mm256_maddubs_epi16(keys, query);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(two, _mm256_set1_epi16(1)));
#endif
}

/* The largest of eight lanes. */
INLINE int32_t most_of(__m256i v)
{
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
    return _mm_cvtsi128_si32(m);
}

/* The largest products of a block's keys with four rows, still 8 sum(q) too much. */
INLINE void most_keys(const uint8_t *keys, const int8_t (*q)[SP_SUMMARY_WIDTH_MAX], int width,
                      int32_t most[HALF])
{
    const __m256i mask = _mm256_set1_epi8(15);
    __m256i sum[2][HALF];
    for (int r = 0; r < HALF; r++) sum[0][r] = sum[1][r] = _mm256_setzero_si256();
    for (int d = 0; d < width; d += 4) {
        const __m256i both = load(keys + d * 8);
        const __m256i low = _mm256_and_si256(both, mask);
        const __m256i high = _mm256_and_si256(_mm256_srli_epi16(both, 4), mask);
#pragma GCC unroll 4
        for (int r = 0; r < HALF; r++) {
            int32_t word;
            memcpy(&word, q[r] + d, sizeof word);
            const __m256i query = _mm256_set1_epi32(word);
            sum[0][r] = add_keys(sum[0][r], low, query);
            sum[1][r] = add_keys(sum[1][r], high, query);
        }
    }
    for (int r = 0; r < HALF; r++) most[r] = most_of(_mm256_max_epi32(sum[0][r], sum[1][r]));
}

void SP_VARIANT(sp_score_keys4)(const sp_score_args *a)
{
    const sp_summary_view *s = a->summary;
    const sp_pick_query *x = a->query;
    const int width = sp_summary_width(s->head);
    const size_t first = (size_t)a->kv_head * (size_t)s->n_blocks, bytes = 8 * (size_t)width;
    for (int i = 0; i < a->n; i++) {
        const size_t at = first + a->block[i];
        const uint8_t *keys = s->base + at * bytes;
        const uint8_t *next = s->base + (first + a->block[SP_MIN(i + AHEAD, a->n - 1)]) * bytes;
        for (size_t line = 0; line < bytes; line += 64)
            _mm_prefetch((const char *)next + line, _MM_HINT_T0);
        int32_t most[ROWS] = {0};
        most_keys(keys, x->q, width, most);
        if (x->n > HALF) most_keys(keys, x->q + HALF, width, most + HALF);
        for (int r = 0; r < ROWS; r++)
            a->out[i * ROWS + r] =
                (float)(most[r] - 8 * x->sum[r]) * (s->scale[at] * x->scale[r]);
    }
}

/* -- the sum over heads ------------------------------------------------------------------------ */

/* The sums of the lanes of eight vectors: by pairs, and pairs by pairs. */
INLINE __m256 sum_floats(const __m256 v[ROWS])
{
    const __m256 ab = _mm256_hadd_ps(v[0], v[1]), cd = _mm256_hadd_ps(v[2], v[3]);
    const __m256 ef = _mm256_hadd_ps(v[4], v[5]), gh = _mm256_hadd_ps(v[6], v[7]);
    const __m256 low = _mm256_hadd_ps(ab, cd), high = _mm256_hadd_ps(ef, gh);
    return _mm256_add_ps(_mm256_permute2f128_ps(low, high, 0x20),
                         _mm256_permute2f128_ps(low, high, 0x31));
}

/* powers -- the scores become powers of 2; returns 1 / their sums, 0 for rows that do not count. */
INLINE __m256 powers(const sp_combine_args *a)
{
    const __m256 scale = _mm256_set1_ps(a->scale), zero = _mm256_setzero_ps();
    __m256 most = _mm256_set1_ps(-INFINITY), sum = zero;
    float parts[ROWS];
    for (int i = 0; i < a->n; i++)
        most = _mm256_max_ps(most, _mm256_loadu_ps(a->scores + i * ROWS));
    for (int i = 0; i < a->n; i++) {
        float *x = a->scores + i * ROWS;
        const __m256 power = _mm256_mul_ps(_mm256_sub_ps(_mm256_loadu_ps(x), most), scale);
        const __m256 biased = _mm256_max_ps(_mm256_add_ps(power, _mm256_set1_ps(127)), zero);
        const __m256i bits = _mm256_cvttps_epi32(_mm256_mul_ps(biased, _mm256_set1_ps(0x1p23f)));
        sum = _mm256_add_ps(sum, _mm256_castsi256_ps(bits));
        _mm256_storeu_ps(x, _mm256_castsi256_ps(bits));
    }
    _mm256_storeu_ps(parts, sum);
    for (int r = 0; r < ROWS; r++) parts[r] = r < a->rows && parts[r] > 0 ? 1 / parts[r] : 0;
    return _mm256_loadu_ps(parts);
}

void SP_VARIANT(sp_combine)(const sp_combine_args *a)
{
    const __m256 part = powers(a);
    for (int i = 0; i < a->n; i += ROWS) {
        __m256 v[ROWS];
        float all[ROWS];
        const int n = SP_MIN(ROWS, a->n - i);
        for (int k = 0; k < ROWS; k++)
            v[k] = _mm256_mul_ps(_mm256_loadu_ps(a->scores + (i + SP_MIN(k, n - 1)) * ROWS), part);
        _mm256_storeu_ps(all, sum_floats(v));
        for (int k = 0; k < n; k++) a->out[i + k] += all[k];
    }
}
