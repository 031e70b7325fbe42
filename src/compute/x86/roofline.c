/* roofline.c -- the loops of roofline.h for x86: the peak rate of the instructions of one width.
 *
 *   fp32   vfmadd                       one for SP_VL multiply-adds, two a cycle at most
 *   int8   vpmaddubsw vpmaddwd vpaddd   three for 4 SP_VL: without VNNI no exact way is shorter,
 *                                       because the first instruction adds only pairs, in 16 bits
 *   int8   vpdpbusd (VNNI)              one for 4 SP_VL
 *
 * A kernel whose products are small can add several in 16 bits before it widens them, and so exceed
 * the second rate slightly.
 *
 * The sums are named variables, not an array, so that they stay in registers. SP_ROOF_CHANGES hides
 * the value that each starts with, or the compiler would merge them into one sum. */
#include "compute/kernel/roofline.h"
#include "compute/x86/cpu.h"
#include "compute/simd/vec.h"

#if SP_VL == 8
typedef __m256i ivec;
#define BITS(op) _mm256_##op##_si256
#else
typedef __m512i ivec;
#define BITS(op) _mm512_##op##_si512
#endif

/* Twelve sums hide a latency of 4 or 5 cycles at two instructions a cycle and leave registers for
 * the operands. Six are enough where only an addition depends on the sum. */
#define EACH6(X)  X(0) X(1) X(2) X(3) X(4) X(5)
#define EACH8(X)  EACH6(X) X(6) X(7)
#define EACH12(X) EACH8(X) X(8) X(9) X(10) X(11)

#define BEGIN(i)                                                                                   \
    ivec s##i = BITS(setzero)();                                                                   \
    SP_ROOF_CHANGES(s##i);
#define TOTAL(i) all = OF(add_epi32)(all, s##i);

/* add_lanes -- the sum of all lanes. */
INLINE uint32_t add_lanes(ivec v)
{
    uint32_t x[SP_VL], all = 0;
    BITS(storeu)((void *)x, v);
    for (int i = 0; i < SP_VL; i++) all += x[i];
    return all;
}

#if SP_DOT

static uint32_t int8_turns(int64_t n)
{
    ivec x = OF(set1_epi8)(5), y = OF(set1_epi8)(3), all = BITS(setzero)();
#if SP_VL == 8
#define TURN_INT8(i) s##i = _mm256_dpbusd_avx_epi32(s##i, x, y);
#else
#define TURN_INT8(i) s##i = _mm512_dpbusd_epi32(s##i, x, y);
#endif
    EACH12(BEGIN)
    for (int64_t t = 0; t < n; t++) {
        EACH12(TURN_INT8)
    }
    EACH12(TOTAL)
    return add_lanes(all);
}

enum { INT8_OPS = 12 * 2 * 4 * SP_VL };

const sp_roof_loop SP_VARIANT(sp_roof_int8) = {
    .kind = SP_ROOF_INT8,
    .name = SP_VL == 8 ? "avx-vnni" : "avx512-vnni",
    .ops = INT8_OPS,
    .turns = int8_turns,
    .runs_here = SP_VL == 8 ? cpu_has_avxvnni : cpu_has_vnni,
};

#else

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
    return add_lanes(all);
}

static uint32_t read_all(const void *p, size_t n_bytes)
{
    const ivec *v = p;
    ivec all = BITS(setzero)();
#define READ(i) s##i = BITS(xor)(s##i, BITS(load)(v + at + (i)));
#define FOLD(i) all = BITS(xor)(all, s##i);
    EACH8(BEGIN)
    for (size_t at = 0; at < n_bytes / sizeof *v; at += 8) {
        EACH8(READ)
    }
    EACH8(FOLD)
    return add_lanes(all);
}

enum { FP32_OPS = 12 * 2 * SP_VL, INT8_OPS = 6 * 2 * 4 * SP_VL };

#define RUNS_HERE (SP_VL == 8 ? cpu_has_avx2 : cpu_has_avx512)

const sp_roof_loop SP_VARIANT(sp_roof_fp32) = {
    .kind = SP_ROOF_FP32,
    .name = SP_VL == 8 ? "avx2 fma" : "avx512 fma",
    .ops = FP32_OPS,
    .turns = fp32_turns,
    .runs_here = RUNS_HERE,
};
const sp_roof_loop SP_VARIANT(sp_roof_int8) = {
    .kind = SP_ROOF_INT8,
    .name = SP_VL == 8 ? "avx2 maddubs" : "avx512 maddubs",
    .ops = INT8_OPS,
    .turns = int8_turns,
    .runs_here = RUNS_HERE,
};
const sp_roof_loop SP_VARIANT(sp_roof_read) = {
    .kind = SP_ROOF_READ,
    .name = SP_VL == 8 ? "avx2" : "avx512",
    .read = read_all,
    .runs_here = RUNS_HERE,
};

#endif
