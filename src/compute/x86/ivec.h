/* ivec.h -- one vector of SP_VL sums of integer products, and how a variant makes them.
 *
 *   SP_STEP 2   x and weights int16, vpmaddwd:   a sum takes 2 columns an instruction
 *   SP_STEP 4   x int8, weights uint8, vpdpbusd: a sum takes 4
 *
 * x is one 32-bit word of a row for all lanes: 2 or 4 columns.
 */
#ifndef SP_COMPUTE_X86_IVEC_H
#define SP_COMPUTE_X86_IVEC_H

#include "compute/x86/vec.h"

#if SP_VL == 8
typedef __m256i ivec;
#define IOF(op)  _mm256_##op
#define IVEC(op) _mm256_##op##_si256
#else
typedef __m512i ivec;
#define IOF(op)  _mm512_##op
#define IVEC(op) _mm512_##op##_si512
#endif

INLINE ivec ivec_load(const void *p)
{
    return IVEC(loadu)(p);
}

INLINE ivec ivec_all(int32_t x)
{
    return IOF(set1_epi32)(x);
}

/* sum + w . x in every lane */
INLINE ivec ivec_dot(ivec sum, ivec w, ivec x)
{
#if SP_STEP == 2 && SP_EMULATE
    return IOF(add_epi32)(sum, IOF(madd_epi16)(w, x));
#elif SP_STEP == 2
    /* By hand: a compiler regroups the additions of several steps, and runs out of registers. */
    __asm__("vpaddd %1, %0, %0" : "+v"(sum) : "v"(IOF(madd_epi16)(w, x)));
    return sum;
#elif SP_VL == 8
    return _mm256_dpbusd_avx_epi32(sum, w, x);
#else
    return _mm512_dpbusd_epi32(sum, w, x);
#endif
}

INLINE vec ivec_to_vec(ivec a)
{
    return IOF(cvtepi32_ps)(a);
}

#endif
