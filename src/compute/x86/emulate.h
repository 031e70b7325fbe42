/* emulate.h -- AVX-512 and VNNI in portable C, for tests: SIMDe in place of <immintrin.h>.
 *
 * Files compiled with SP_EMULATE compute what the instructions would, on any CPU with AVX2. This
 * tests neither their speed nor the code that a compiler generates for the real instructions. */
#ifndef SP_COMPUTE_X86_EMULATE_H
#define SP_COMPUTE_X86_EMULATE_H

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>
#include <string.h>

/* Functions that SIMDe 0.7.4 lacks, composed of halves that AVX2 computes. */
#define EMULATE_HALVES(name, to, to_half, from, from_half, half_of)                                \
    static inline to name(from a)                                                                  \
    {                                                                                              \
        from_half in[2];                                                                           \
        to_half out[2];                                                                            \
        to all;                                                                                    \
        memcpy(in, &a, sizeof in);                                                                 \
        for (int i = 0; i < 2; i++) out[i] = half_of(in[i]);                                       \
        memcpy(&all, out, sizeof all);                                                             \
        return all;                                                                                \
    }
EMULATE_HALVES(emulate_cvtph_ps, __m512, __m256, __m256i, __m128i, _mm256_cvtph_ps)
EMULATE_HALVES(emulate_cvtps_epi32, __m512i, __m256i, __m512, __m256, _mm256_cvtps_epi32)
EMULATE_HALVES(emulate_cvtepi32_ps, __m512, __m256, __m512i, __m256i, _mm256_cvtepi32_ps)
EMULATE_HALVES(emulate_cvtepu16_epi32, __m512i, __m256i, __m256i, __m128i, _mm256_cvtepu16_epi32)
EMULATE_HALVES(emulate_cvtepi16_epi32, __m512i, __m256i, __m256i, __m128i, _mm256_cvtepi16_epi32)

static inline __m512i emulate_cvtepi8_epi32(__m128i a)
{
    __m256i halves[2] = {_mm256_cvtepi8_epi32(a), _mm256_cvtepi8_epi32(_mm_srli_si128(a, 8))};
    __m512i all;
    memcpy(&all, halves, sizeof all);
    return all;
}

static inline __m256i emulate_cvtps_ph(__m512 a, int rounding)
{
    __m256 x[2];
    memcpy(x, &a, sizeof x);
    (void)rounding; /* always to nearest */
    return _mm256_setr_m128i(_mm256_cvtps_ph(x[0], 0), _mm256_cvtps_ph(x[1], 0));
}

static inline __m256i emulate_cvtsepi32_epi16(__m512i a)
{
    __m256i x[2];
    memcpy(x, &a, sizeof x);
    return _mm256_permute4x64_epi64(_mm256_packs_epi32(x[0], x[1]), 0xd8);
}

static inline __m512 emulate_fmaddsub_ps(__m512 a, __m512 b, __m512 c)
{
    __m256 x[2], y[2], z[2];
    memcpy(x, &a, sizeof x);
    memcpy(y, &b, sizeof y);
    memcpy(z, &c, sizeof z);
    for (int i = 0; i < 2; i++) x[i] = _mm256_fmaddsub_ps(x[i], y[i], z[i]);
    memcpy(&a, x, sizeof a);
    return a;
}

static inline __m512 emulate_permute_ps(__m512 a, int from)
{
    float in[16], out[16];
    memcpy(in, &a, sizeof in);
    for (int i = 0; i < 16; i++) out[i] = in[i / 4 * 4 + (from >> i % 4 * 2 & 3)];
    memcpy(&a, out, sizeof a);
    return a;
}

static inline __m256 emulate_extractf32x8_ps(__m512 a, int half)
{
    __m256 halves[2];
    memcpy(halves, &a, sizeof halves);
    return halves[half];
}

/* To bf16, nearest even, denormals as zeros; words 0 .. 15 are of `low`. */
static inline __m512i emulate_cvtne2ps_pbh(__m512 high, __m512 low)
{
    uint32_t in[32];
    uint16_t out[32];
    __m512i all;
    memcpy(in, &low, sizeof low);
    memcpy(in + 16, &high, sizeof high);
    for (int i = 0; i < 32; i++) {
        const uint32_t size = in[i] & 0x7fffffff;
        if (size > 0x7f800000)
            out[i] = (uint16_t)(in[i] >> 16 | 0x40);
        else if (size < 0x00800000)
            out[i] = (uint16_t)(in[i] >> 16 & 0x8000);
        else
            out[i] = (uint16_t)((in[i] + 0x7fff + (in[i] >> 16 & 1)) >> 16);
    }
    memcpy(&all, out, sizeof all);
    return all;
}

static inline __m512i emulate_cvtepu8_epi32(__m128i a)
{
    __m256i halves[2] = {_mm256_cvtepu8_epi32(a), _mm256_cvtepu8_epi32(_mm_srli_si128(a, 8))};
    __m512i all;
    memcpy(&all, halves, sizeof all);
    return all;
}

#define _mm512_cvtph_ps       emulate_cvtph_ps
#define _mm512_cvtps_ph       emulate_cvtps_ph
#define _mm512_cvtepi8_epi32  emulate_cvtepi8_epi32
#define _mm512_cvtepu16_epi32 emulate_cvtepu16_epi32
#define _mm512_cvtepu8_epi32  emulate_cvtepu8_epi32
#undef _mm512_cvtepi16_epi32
#define _mm512_cvtepi16_epi32 emulate_cvtepi16_epi32
#define _mm512_cvtps_epi32    emulate_cvtps_epi32
#define _mm512_cvtepi32_ps    emulate_cvtepi32_ps
#undef _mm512_cvtsepi32_epi16
#define _mm512_cvtsepi32_epi16 emulate_cvtsepi32_epi16
#define _mm512_fmaddsub_ps     emulate_fmaddsub_ps
#undef _mm512_permute_ps /* macros in builds without optimization */
#undef _mm512_extractf32x8_ps
#define _mm512_permute_ps      emulate_permute_ps
#define _mm512_extractf32x8_ps emulate_extractf32x8_ps
#undef _mm512_madd_epi16 /* SIMDe's takes four arguments */
#define _mm512_madd_epi16       simde_mm512_madd_epi16
#define _mm256_dpbusd_avx_epi32 simde_mm256_dpbusd_epi32
#define _mm256_dpwssd_avx_epi32 simde_mm256_dpwssd_epi32

#endif
