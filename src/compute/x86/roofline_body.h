/* roofline_body.h -- what instructions of one width reach; SP_VL floats (vec.h).
 *
 *   fp32   vfmadd                      one instruction for SP_VL multiply-adds, two a cycle at best
 *   int8   vpmaddubsw vpmaddwd vpaddd  three for 4 SP_VL: without VNNI there is no shorter exact
 *                                      way, since the first sums pairs only, in 16 bits
 *   int8   vpdpbusd (VNNI)             one for 4 SP_VL
 *
 * A kernel whose products are small may sum several in 16 bits before it widens, and pass the
 * second line by a little.
 *
 * The sums have names, not an array, so that they stay in registers; and each begins with a value
 * of its own as far as the compiler can see, or it would find that they are all the same sum. */
#include "compute/roofline_int.h"
#include "compute/x86/vec.h"

#if SP_VL == 8
typedef __m256i ivec;
#define BITS(op) _mm256_##op##_si256
#else
typedef __m512i ivec;
#define BITS(op) _mm512_##op##_si512
#endif

/* Latency 4 or 5, two a cycle, and the operands take the other registers. Where the chain is the
 * addition alone, six are enough. */
#define EACH6(X)  X(0) X(1) X(2) X(3) X(4) X(5)
#define EACH12(X) EACH6(X) X(6) X(7) X(8) X(9) X(10) X(11)

#define BEGIN(i)                                                                                   \
    ivec s##i = BITS(setzero)();                                                                   \
    SP_ROOF_CHANGES(s##i);
#define TOTAL(i) all = OF(add_epi32)(all, s##i);

/* lanes -- their sum. */
INLINE uint32_t lanes(ivec v)
{
    uint32_t x[SP_VL], all = 0;
    BITS(storeu)((void *)x, v);
    for (int i = 0; i < SP_VL; i++) all += x[i];
    return all;
}

static uint32_t fp32_turns(int64_t n)
{
    vec x = vec_all(0.5f), y = vec_all(0.25f), all = y;
#define BEGIN_FP32(i)                                                                              \
    vec f##i = vec_all(i);                                                                         \
    SP_ROOF_CHANGES(f##i);
#define TURN_FP32(i)  f##i = vec_fma(f##i, x, y);
#define TOTAL_FP32(i) all = vec_add(all, f##i);
    EACH12(BEGIN_FP32)
    for (int64_t t = 0; t < n; t++) {
        EACH12(TURN_FP32)
    }
    EACH12(TOTAL_FP32)
    return (uint32_t)vec_sum(all);
}

static uint32_t int8_turns(int64_t n)
{
    const ivec ones = OF(set1_epi16)(1), y = OF(set1_epi8)(3);
    ivec x = OF(set1_epi8)(5), all = BITS(setzero)();
#define TURN_INT8(i)                                                                               \
    s##i = OF(add_epi32)(s##i, OF(madd_epi16)(OF(maddubs_epi16)(x, y), ones));                     \
    SP_ROOF_CHANGES(x);
    EACH6(BEGIN)
    for (int64_t t = 0; t < n; t++) {
        EACH6(TURN_INT8)
    }
    EACH6(TOTAL)
    return lanes(all);
}

/* VNNI_TURNS -- the body of a function that may use the instruction. */
#define TURN_VNNI(i) s##i = DPBUSD(s##i, x, y);
#define VNNI_TURNS(n)                                                                              \
    ivec x = OF(set1_epi8)(5), y = OF(set1_epi8)(3), all = BITS(setzero)();                        \
    EACH12(BEGIN)                                                                                  \
    for (int64_t t = 0; t < (n); t++) {                                                            \
        EACH12(TURN_VNNI)                                                                          \
    }                                                                                              \
    EACH12(TOTAL)                                                                                  \
    return lanes(all);

static uint32_t read_all(const void *p, size_t n_bytes)
{
    const ivec *v = p;
    ivec all = BITS(setzero)();
#define READ(i) s##i = BITS(xor)(s##i, BITS(load)(v + at + (i)));
#define FOLD(i) all = BITS(xor)(all, s##i);
    EACH6(BEGIN) BEGIN(6) BEGIN(7)
    for (size_t at = 0; at < n_bytes / sizeof *v; at += 8) {
        EACH6(READ) READ(6) READ(7)
    }
    EACH6(FOLD) FOLD(6) FOLD(7)
    return lanes(all);
}

enum { FP32_OPS = 12 * 2 * SP_VL, INT8_OPS = 6 * 2 * 4 * SP_VL, VNNI_OPS = 12 * 2 * 4 * SP_VL };
