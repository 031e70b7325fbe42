/* ivec.h -- the operations of simd/ivec.h in AVX2 and AVX-512, with and without VNNI.
 *
 *   words   vpmaddwd
 *   bytes   SP_DOT: vpdpbusd adds 4 columns to a sum. Without it, vpmaddubsw gives 4 columns as two
 *           16-bit sums. These hold `fold` products before they must be folded into a 32-bit sum:
 *           2 * 127 * fold * largest weight < 2^15
 */
#ifndef SP_COMPUTE_X86_IVEC_H
#define SP_COMPUTE_X86_IVEC_H

#include "compute/simd/vec.h"

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

/* Additions are in assembly: compilers reorder the additions of several steps and then run out of
 * registers. */
#if SP_EMULATE
#define IVEC_ADD(bits, sum, x) IOF(add_epi##bits)(sum, x)
#else
INLINE ivec ivec_add_16(ivec sum, ivec x)
{
    __asm__("vpaddw %1, %0, %0" : "+v"(sum) : "v"(x));
    return sum;
}

INLINE ivec ivec_add_32(ivec sum, ivec x)
{
    __asm__("vpaddd %1, %0, %0" : "+v"(sum) : "v"(x));
    return sum;
}
#define IVEC_ADD(bits, sum, x) ivec_add_##bits(sum, x)
#endif

/* Words of weights, as products take them, and a word of x in all lanes. */
typedef ivec ivec_words, ivec_word;

INLINE ivec_words ivec_load_words(const void *p)
{
    return ivec_load(p);
}
INLINE ivec_word ivec_word_all(int32_t x)
{
    return ivec_all(x);
}

/* w . x, words */
INLINE ivec ivec_dot_words(ivec w, ivec x)
{
    return IOF(madd_epi16)(w, x);
}

/* sum + w . x, words */
INLINE ivec ivec_add_words(ivec sum, ivec_words w, ivec_word x)
{
#if SP_DOT && SP_VL == 8
    return _mm256_dpwssd_avx_epi32(sum, w, x);
#elif SP_DOT
    return _mm512_dpwssd_epi32(sum, w, x);
#else
    return IVEC_ADD(32, sum, ivec_dot_words(w, x));
#endif
}

/* sum[v] += late[v], the products of the previous call, then late[v] = w[v] . x, words. So no
 * addition waits for the multiplication just before it. */
INLINE void ivec_add_late_dots(ivec sum[2], ivec late[2], const ivec w[2], ivec x)
{
#if SP_EMULATE
    for (int v = 0; v < 2; v++) {
        sum[v] = IOF(add_epi32)(sum[v], late[v]);
        late[v] = ivec_dot_words(w[v], x);
    }
#else
    ivec first;
    __asm__("vpmaddwd %4, %2, %3\n\t"
            "vpmaddwd %5, %2, %2\n\t"
            "vpaddd %6, %0, %0\n\t"
            "vpaddd %7, %1, %1"
            : "+&v"(sum[0]), "+v"(sum[1]), "+&v"(x), "=&v"(first)
            : "v"(w[0]), "v"(w[1]), "v"(late[0]), "v"(late[1]));
    late[0] = first;
    late[1] = x;
#endif
}

#if SP_DOT
enum { DOT_OFFSET = 128 };

/* sum + w . x, bytes */
INLINE ivec ivec_dot_bytes(ivec sum, ivec w, ivec x)
{
#if SP_VL == 8
    return _mm256_dpbusd_avx_epi32(sum, w, x);
#else
    return _mm512_dpbusd_epi32(sum, w, x);
#endif
}
#else
enum { DOT_OFFSET = 0 };

/* w . x as pairs of 16-bit sums */
INLINE ivec ivec_pairs(ivec w, ivec x)
{
    return IOF(maddubs_epi16)(w, x);
}

INLINE ivec ivec_add_pairs(ivec pairs, ivec w, ivec x)
{
    return IVEC_ADD(16, pairs, ivec_pairs(w, x));
}

/* Adds the two sums of each pair. */
INLINE ivec ivec_fold(ivec pairs)
{
    return IOF(madd_epi16)(pairs, IOF(set1_epi16)(1));
}
#endif

/* Rounds 16 floats to words, to nearest even. */
INLINE void ivec_store_words(void *to, const vec x[V16])
{
#if SP_VL == 8
    const __m256i w = _mm256_packs_epi32(_mm256_cvtps_epi32(x[0]), _mm256_cvtps_epi32(x[1]));
    _mm256_storeu_si256(to, _mm256_permute4x64_epi64(w, 0xd8));
#else
    _mm256_storeu_si256(to, _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(x[0])));
#endif
}

INLINE vec ivec_to_vec(ivec a)
{
    return IOF(cvtepi32_ps)(a);
}

#endif
