/* roofline_avx512.c -- what 512-bit instructions reach: the loops of roofline_avx2.c, twice as wide,
 * with vpdpbusd where the CPU has AVX512-VNNI. */
#if defined(__x86_64__)
#include <immintrin.h>

#include "compute/roofline_int.h"

enum { SUMS = 12, FEW = 6 };

static uint32_t fold(__m512i v)
{
    return (uint32_t)_mm512_reduce_or_epi32(v);
}

static uint32_t fp32_turns(int64_t n)
{
    __m512 sum[SUMS], x = _mm512_set1_ps(0.5f), y = _mm512_set1_ps(0.25f), all = y;
    for (int i = 0; i < SUMS; i++) sum[i] = _mm512_set1_ps((float)i);
    for (int64_t t = 0; t < n; t++)
        for (int i = 0; i < SUMS; i++) sum[i] = _mm512_fmadd_ps(sum[i], x, y);
    for (int i = 0; i < SUMS; i++) all = _mm512_add_ps(all, sum[i]);
    return fold(_mm512_castps_si512(all));
}

static uint32_t int8_turns(int64_t n)
{
    const __m512i ones = _mm512_set1_epi16(1), y = _mm512_set1_epi8(3);
    __m512i sum[FEW], x = _mm512_set1_epi8(5), all = ones;
    for (int i = 0; i < FEW; i++) sum[i] = _mm512_setzero_si512();
    for (int64_t t = 0; t < n; t++)
        for (int i = 0; i < FEW; i++) {
            __m512i pairs = _mm512_maddubs_epi16(x, y);
            sum[i] = _mm512_add_epi32(sum[i], _mm512_madd_epi16(pairs, ones));
            SP_ROOF_CHANGES(x);
        }
    for (int i = 0; i < FEW; i++) all = _mm512_xor_si512(all, sum[i]);
    return fold(all);
}

__attribute__((target("avx512vnni"))) static uint32_t int8_vnni_turns(int64_t n)
{
    __m512i sum[SUMS], x = _mm512_set1_epi8(5), y = _mm512_set1_epi8(3), all = y;
    for (int i = 0; i < SUMS; i++) sum[i] = _mm512_setzero_si512();
    for (int64_t t = 0; t < n; t++)
        for (int i = 0; i < SUMS; i++) sum[i] = _mm512_dpbusd_epi32(sum[i], x, y);
    for (int i = 0; i < SUMS; i++) all = _mm512_xor_si512(all, sum[i]);
    return fold(all);
}

static uint32_t read_all(const void *p, size_t n_bytes)
{
    const __m512i *v = p;
    __m512i sum[8];
    for (int k = 0; k < 8; k++) sum[k] = _mm512_setzero_si512();
    for (size_t i = 0; i < n_bytes / sizeof *v; i += 8)
        for (int k = 0; k < 8; k++) sum[k] = _mm512_xor_si512(sum[k], _mm512_load_si512(v + i + k));
    for (int k = 1; k < 8; k++) sum[0] = _mm512_xor_si512(sum[0], sum[k]);
    return fold(sum[0]);
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static bool has_avx512vnni(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512vnni");
}

const sp_roof_loop sp_roof_fp32_avx512 = {SP_ROOF_FP32, "avx512 fma", 2 * 16 * SUMS,
                                          fp32_turns,   NULL,         has_avx512};
const sp_roof_loop sp_roof_int8_avx512 = {SP_ROOF_INT8, "avx512 maddubs", 2 * 64 * FEW, int8_turns,
                                          NULL,         has_avx512};
const sp_roof_loop sp_roof_int8_avx512vnni = {SP_ROOF_INT8,    "avx512-vnni", 2 * 64 * SUMS,
                                              int8_vnni_turns, NULL,          has_avx512vnni};
const sp_roof_loop sp_roof_read_avx512 = {SP_ROOF_READ, "avx512", 0, NULL, read_all, has_avx512};
#endif
