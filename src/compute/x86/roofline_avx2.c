/* roofline_avx2.c -- what 256-bit instructions reach.
 *
 *   fp32      vfmadd                     one instruction for  8 multiply-adds, 2 a cycle (Zen, Core)
 *   int8      vpmaddubsw vpmaddwd vpaddd three for 32: without VNNI there is no shorter exact way,
 *                                        since only 16-bit pairs are summed by the first
 *   int8      vpdpbusd (AVX-VNNI)        one for 32
 *
 * A kernel whose products are small may sum several in 16 bits before it widens, and pass the
 * second line by a little. */
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#include "compute/roofline_int.h"

/* Sums in flight: latency 4 or 5, two a cycle, and the operands take the other registers. Where the
 * chain is the addition alone, few are enough. */
enum { SUMS = 12, FEW = 6 };

static uint32_t fold(__m256i v)
{
    __m128i h = _mm_xor_si128(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    return (uint32_t)(_mm_extract_epi32(h, 0) ^ _mm_extract_epi32(h, 1) ^ _mm_extract_epi32(h, 2) ^
                      _mm_extract_epi32(h, 3));
}

static uint32_t fp32_turns(int64_t n)
{
    __m256 sum[SUMS], x = _mm256_set1_ps(0.5f), y = _mm256_set1_ps(0.25f), all = y;
    for (int i = 0; i < SUMS; i++) sum[i] = _mm256_set1_ps((float)i);
    for (int64_t t = 0; t < n; t++)
        for (int i = 0; i < SUMS; i++) sum[i] = _mm256_fmadd_ps(sum[i], x, y);
    for (int i = 0; i < SUMS; i++) all = _mm256_add_ps(all, sum[i]);
    return fold(_mm256_castps_si256(all));
}

static uint32_t int8_turns(int64_t n)
{
    const __m256i ones = _mm256_set1_epi16(1), y = _mm256_set1_epi8(3);
    __m256i sum[FEW], x = _mm256_set1_epi8(5), all = ones;
    for (int i = 0; i < FEW; i++) sum[i] = _mm256_setzero_si256();
    for (int64_t t = 0; t < n; t++)
        for (int i = 0; i < FEW; i++) {
            __m256i pairs = _mm256_maddubs_epi16(x, y);
            sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(pairs, ones));
            SP_ROOF_CHANGES(x);
        }
    for (int i = 0; i < FEW; i++) all = _mm256_xor_si256(all, sum[i]);
    return fold(all);
}

__attribute__((target("avxvnni"))) static uint32_t int8_vnni_turns(int64_t n)
{
    __m256i sum[SUMS], x = _mm256_set1_epi8(5), y = _mm256_set1_epi8(3), all = y;
    for (int i = 0; i < SUMS; i++) sum[i] = _mm256_setzero_si256();
    for (int64_t t = 0; t < n; t++)
        for (int i = 0; i < SUMS; i++) sum[i] = _mm256_dpbusd_avx_epi32(sum[i], x, y);
    for (int i = 0; i < SUMS; i++) all = _mm256_xor_si256(all, sum[i]);
    return fold(all);
}

static uint32_t read_all(const void *p, size_t n_bytes)
{
    const __m256i *v = p;
    __m256i sum[8];
    for (int k = 0; k < 8; k++) sum[k] = _mm256_setzero_si256();
    for (size_t i = 0; i < n_bytes / sizeof *v; i += 8)
        for (int k = 0; k < 8; k++) sum[k] = _mm256_xor_si256(sum[k], _mm256_load_si256(v + i + k));
    for (int k = 1; k < 8; k++) sum[0] = _mm256_xor_si256(sum[0], sum[k]);
    return fold(sum[0]);
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

/* Leaf 7, subleaf 1; not every compiler has a word for it. */
static bool has_avxvnni(void)
{
    unsigned a, b, c, d;
    return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}

const sp_roof_loop sp_roof_fp32_avx2 = {SP_ROOF_FP32, "avx2 fma", 2 * 8 * SUMS,
                                        fp32_turns,   NULL,       has_avx2};
const sp_roof_loop sp_roof_int8_avx2 = {SP_ROOF_INT8, "avx2 maddubs", 2 * 32 * FEW,
                                        int8_turns,   NULL,           has_avx2};
const sp_roof_loop sp_roof_int8_avxvnni = {SP_ROOF_INT8,    "avx-vnni", 2 * 32 * SUMS,
                                           int8_vnni_turns, NULL,       has_avxvnni};
const sp_roof_loop sp_roof_read_avx2 = {SP_ROOF_READ, "avx2", 0, NULL, read_all, has_avx2};
#endif
