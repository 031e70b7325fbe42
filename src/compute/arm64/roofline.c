/* roofline.c -- the loops of roofline.h for 64-bit ARM: the peak rate of its instructions.
 *
 *   fp32   fmla     4 multiply-adds
 *   int8   sdot     16 multiply-adds of bytes
 *   int8   smmla    32 (i8mm)
 *
 * The sums are named variables, not an array, so that they stay in registers. SP_ROOF_CHANGES hides
 * the value that each starts with, or the compiler would merge them into one sum. */
#include "compute/arm64/cpu.h"
#include "compute/kernel/roofline.h"
#include "compute/simd/ivec.h"

/* Sixteen sums hide a latency of 4 cycles at four instructions a cycle. */
#define EACH8(X)  X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define EACH16(X) EACH8(X) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)

#define BEGIN(i)                                                                                   \
    int32x4_t s##i = vdupq_n_s32(0);                                                               \
    SP_ROOF_CHANGES(s##i);
#define TOTAL(i) all = vaddq_s32(all, s##i);

static uint32_t int8_turns(int64_t n)
{
    const int8x16_t x = vdupq_n_s8(5), y = vdupq_n_s8(3);
    int32x4_t all = vdupq_n_s32(0);
#if SP_MMLA
#define TURN_INT8(i) s##i = vmmlaq_s32(s##i, x, y);
#else
#define TURN_INT8(i) s##i = vdotq_s32(s##i, x, y);
#endif
    EACH16(BEGIN)
    for (int64_t t = 0; t < n; t++) {
        EACH16(TURN_INT8)
    }
    EACH16(TOTAL)
    return (uint32_t)vaddvq_s32(all);
}

#if SP_MMLA

const sp_roof_loop SP_VARIANT(sp_roof_int8) = {
    .kind = SP_ROOF_INT8,
    .name = "neon smmla",
    .ops = 16 * 2 * 32,
    .turns = int8_turns,
    .runs_here = cpu_has_i8mm,
};

#else

static uint32_t fp32_turns(int64_t n)
{
    const float32x4_t x = vdupq_n_f32(0.5f), y = vdupq_n_f32(0.25f);
    float32x4_t all = y;
#define BEGIN_FP32(i)                                                                              \
    float32x4_t f##i = vdupq_n_f32(i);                                                             \
    SP_ROOF_CHANGES(f##i);
#define TURN_FP32(i)  f##i = vfmaq_f32(f##i, x, y);
#define TOTAL_FP32(i) all = vaddq_f32(all, f##i);
    EACH16(BEGIN_FP32)
    for (int64_t t = 0; t < n; t++) {
        EACH16(TURN_FP32)
    }
    EACH16(TOTAL_FP32)
    return (uint32_t)vaddvq_f32(all);
}

static uint32_t read_all(const void *p, size_t n_bytes)
{
    const int32_t *v = p;
    int32x4_t all = vdupq_n_s32(0);
#define READ(i) s##i = veorq_s32(s##i, vld1q_s32(v + at + 4 * (i)));
#define FOLD(i) all = veorq_s32(all, s##i);
    EACH8(BEGIN)
    for (size_t at = 0; at < n_bytes / sizeof *v; at += 32) {
        EACH8(READ)
    }
    EACH8(FOLD)
    return (uint32_t)vaddvq_s32(all);
}

const sp_roof_loop SP_VARIANT(sp_roof_fp32) = {
    .kind = SP_ROOF_FP32,
    .name = "neon fmla",
    .ops = 16 * 2 * 4,
    .turns = fp32_turns,
    .runs_here = cpu_has_neon,
};
const sp_roof_loop SP_VARIANT(sp_roof_int8) = {
    .kind = SP_ROOF_INT8,
    .name = "neon sdot",
    .ops = 16 * 2 * 16,
    .turns = int8_turns,
    .runs_here = cpu_has_neon,
};
const sp_roof_loop SP_VARIANT(sp_roof_read) = {
    .kind = SP_ROOF_READ,
    .name = "neon",
    .read = read_all,
    .runs_here = cpu_has_neon,
};

#endif
