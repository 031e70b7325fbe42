/* dtype.c -- the table of element types, and the definition of what their bytes mean.
 *
 * Layouts are those of GGUF, little-endian, without padding; `d` and `m` are f16:
 *
 *   type  elements  bytes  layout                                       value
 *   Q8_0    32        34   d, int8 q[32]                                d*q
 *   Q4_0    32        18   d, u4 q[32]                                  d*(q-8)
 *   Q4_1    32        20   d, m, u4 q[32]                               d*q + m
 *   Q5_0    32        22   d, u32 high, u4 q[32]                        d*(q-16)
 *   Q5_1    32        24   d, m, u32 high, u4 q[32]                     d*q + m
 *   Q2_K   256        84   u4 scale[16], u4 min[16], u2 q[256], d, m    d*scale*q - m*min
 *   Q3_K   256       110   u1 high[256], u2 q[256], u6 scale[16], d     d*(scale-32)*(q-4)
 *   Q4_K   256       144   d, m, u6 (scale, min)[8], u4 q[256]          d*scale*q - m*min
 *   Q5_K   256       176   d, m, u6 (scale, min)[8], u1 high[256], u4   d*scale*q - m*min
 *   Q6_K   256       210   u4 q[256], u2 high[256], int8 scale[16], d   d*scale*(q-32)
 *
 *   IQ4_NL  32        18   d, u4 q[32]                                  d*level[q]
 *   IQ4_XS 256       136   d, u6 scale[8], u4 q[256]                    d*(scale-32)*level[q]
 *   MXFP4   32        17   u8 e, u4 q[32]                               2^(e-128)*step[q]
 *
 * A group of 32 stores element i in the low nibble of byte i and element i + 16 in its high nibble.
 * The K types do the same in runs of 64 (Q6_K: 128) elements: the low nibbles hold the first half
 * of a run; Q2_K and Q3_K have four elements in a byte, 32 apart. Vector kernels have decoders of their own;
 * tests/kernel compares them with this file.
 */
#include <math.h>
#include <string.h>

#include "compute/dtype.h"
#include "compute/kernel/quant.h"

static const sp_dtype_info types[SP_DTYPE_END] = {
    [SP_F32] = {"f32", 1, 4, 0},          [SP_F16] = {"f16", 1, 2, 1},
    [SP_BF16] = {"bf16", 1, 2, 30},       [SP_Q8_0] = {"q8_0", 32, 34, 8},
    [SP_Q4_0] = {"q4_0", 32, 18, 2},      [SP_Q4_1] = {"q4_1", 32, 20, 3},
    [SP_Q5_0] = {"q5_0", 32, 22, 6},      [SP_Q5_1] = {"q5_1", 32, 24, 7},
    [SP_Q2_K] = {"q2_k", 256, 84, 10},    [SP_Q3_K] = {"q3_k", 256, 110, 11},
    [SP_IQ4_NL] = {"iq4_nl", 32, 18, 20}, [SP_IQ4_XS] = {"iq4_xs", 256, 136, 23},
    [SP_MXFP4] = {"mxfp4", 32, 17, 39},   [SP_Q4_K] = {"q4_k", 256, 144, 12},
    [SP_Q5_K] = {"q5_k", 256, 176, 13},   [SP_Q6_K] = {"q6_k", 256, 210, 14},
    [SP_Q16] = {"q16", 1, 2, -1},
};

const sp_dtype_info *sp_dtype_of(sp_dtype type)
{
    assert((unsigned)type < SP_DTYPE_END && types[type].name);
    return &types[type];
}

size_t sp_row_bytes(sp_dtype type, int64_t n)
{
    const sp_dtype_info *info = sp_dtype_of(type);
    assert(n >= 0 && n % info->n_group == 0);
    return (size_t)(n / info->n_group) * (size_t)info->group_bytes;
}

/* -- 16-bit floats ----------------------------------------------------------------------------- */

static float from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint32_t to_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

float sp_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t exponent = (h >> 10) & 31, mantissa = h & 0x3ff;
    if (exponent == 31) { /* infinity, or a NaN, which becomes quiet */
        return from_bits(sign | 0x7f800000 | mantissa << 13 | (mantissa ? 0x400000 : 0));
    }
    if (exponent == 0) { /* zero and denormals: mantissa * 2^-24 is exact in f32 */
        return from_bits(sign | to_bits((float)mantissa * 0x1p-24f));
    }
    return from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t sp_f32_to_f16(float f)
{
    uint32_t u = to_bits(f), sign = (u >> 16) & 0x8000, magnitude = u & 0x7fffffff;
    if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00 | ((magnitude >> 13) & 0x1ff));
    if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* 65520 and up */
    if (magnitude < 0x38800000) { /* below 2^-14: adding 1/2 rounds to a multiple of 2^-24 */
        return (uint16_t)(sign | (to_bits(from_bits(magnitude) + 0.5f) - to_bits(0.5f)));
    }
    uint32_t odd = (magnitude >> 13) & 1;
    return (uint16_t)(sign | (((magnitude - (112u << 23)) + 0xfff + odd) >> 13));
}

float sp_bf16_to_f32(uint16_t h)
{
    return from_bits((uint32_t)h << 16);
}

uint16_t sp_f32_to_bf16(float f)
{
    uint32_t u = to_bits(f);
    if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

static float load_f16(const uint8_t *p)
{
    return sp_f16_to_f32(sp_load_u16(p));
}

/* -- decoding: n counts groups ----------------------------------------------------------------- */

static void decode_f16(const uint8_t *p, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = load_f16(p + 2 * i);
}

static void decode_bf16(const uint8_t *p, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = sp_bf16_to_f32(sp_load_u16(p + 2 * i));
}

static void decode_q8_0(const uint8_t *p, float *y, int64_t n)
{
    for (; n > 0; n--, p += 34, y += 32) {
        float d = load_f16(p);
        for (int i = 0; i < 32; i++) y[i] = d * (float)(int8_t)p[2 + i];
    }
}

static void decode_q4_0(const uint8_t *p, float *y, int64_t n)
{
    for (; n > 0; n--, p += 18, y += 32) {
        float d = load_f16(p);
        for (int i = 0; i < 16; i++) {
            y[i] = d * (float)((p[2 + i] & 15) - 8);
            y[i + 16] = d * (float)((p[2 + i] >> 4) - 8);
        }
    }
}

static void decode_q4_1(const uint8_t *p, float *y, int64_t n)
{
    for (; n > 0; n--, p += 20, y += 32) {
        float d = load_f16(p), m = load_f16(p + 2);
        for (int i = 0; i < 16; i++) {
            y[i] = d * (float)(p[4 + i] & 15) + m;
            y[i + 16] = d * (float)(p[4 + i] >> 4) + m;
        }
    }
}

/* Bit 4 of element i of a group. */
static int fifth(uint32_t high, int i)
{
    return (int)(high >> i & 1) << 4;
}

static void decode_q5_0(const uint8_t *p, float *y, int64_t n)
{
    for (; n > 0; n--, p += 22, y += 32) {
        float d = load_f16(p);
        uint32_t high = sp_load_u32(p + 2);
        for (int i = 0; i < 16; i++) {
            y[i] = d * (float)(((p[6 + i] & 15) | fifth(high, i)) - 16);
            y[i + 16] = d * (float)(((p[6 + i] >> 4) | fifth(high, i + 16)) - 16);
        }
    }
}

static void decode_q5_1(const uint8_t *p, float *y, int64_t n)
{
    for (; n > 0; n--, p += 24, y += 32) {
        float d = load_f16(p), m = load_f16(p + 2);
        uint32_t high = sp_load_u32(p + 4);
        for (int i = 0; i < 16; i++) {
            y[i] = d * (float)((p[8 + i] & 15) | fifth(high, i)) + m;
            y[i + 16] = d * (float)((p[8 + i] >> 4) | fifth(high, i + 16)) + m;
        }
    }
}

/* Bits 2 k, 2 k + 1 of a byte belong to element 32 k of a run of 128. */
static int two_bits(const uint8_t *q, int i)
{
    return q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

static void decode_q2_k(const uint8_t *p, float *y, int64_t n)
{
    for (; n > 0; n--, p += 84, y += 256) {
        float d = load_f16(p + 80), m = load_f16(p + 82);
        for (int i = 0; i < 256; i++) {
            const uint8_t factors = p[i / 16];
            y[i] =
                d * (float)(factors & 15) * (float)two_bits(p + 16, i) - m * (float)(factors >> 4);
        }
    }
}

static void decode_q3_k(const uint8_t *p, float *y, int64_t n)
{
    for (; n > 0; n--, p += 110, y += 256) {
        float d = load_f16(p + 108);
        int8_t scale[16];
        sp_q3_scales(p + 96, scale);
        for (int i = 0; i < 256; i++) y[i] = d * (float)scale[i / 16] * (float)sp_q3_code(p, i);
    }
}

static void decode_iq4_nl(const uint8_t *p, float *y, int64_t n)
{
    for (; n > 0; n--, p += 18, y += 32) {
        float d = load_f16(p);
        for (int i = 0; i < 16; i++) {
            y[i] = d * (float)sp_iq4_levels[p[2 + i] & 15];
            y[i + 16] = d * (float)sp_iq4_levels[p[2 + i] >> 4];
        }
    }
}

static void decode_iq4_xs(const uint8_t *p, float *y, int64_t n)
{
    for (; n > 0; n--, p += 136, y += 256) {
        float d = load_f16(p);
        for (int s = 0; s < 8; s++) { /* sub-block of 32 */
            float ds = d * (float)sp_iq4_scale(p, s);
            const uint8_t *q = p + 8 + 16 * s;
            for (int i = 0; i < 16; i++) {
                y[s * 32 + i] = ds * (float)sp_iq4_levels[q[i] & 15];
                y[s * 32 + i + 16] = ds * (float)sp_iq4_levels[q[i] >> 4];
            }
        }
    }
}

static void decode_mxfp4(const uint8_t *p, float *y, int64_t n)
{
    for (; n > 0; n--, p += 17, y += 32) {
        float d = ldexpf(1, p[0] - 128);
        for (int i = 0; i < 16; i++) {
            y[i] = d * (float)sp_mxfp4_steps[p[1 + i] & 15];
            y[i + 16] = d * (float)sp_mxfp4_steps[p[1 + i] >> 4];
        }
    }
}

static void decode_q4_k(const uint8_t *p, float *y, int64_t n)
{
    for (; n > 0; n--, p += 144, y += 256) {
        float d = load_f16(p), m = load_f16(p + 2);
        uint8_t scale[8], min[8];
        sp_k_scales(p + 4, scale, min);
        for (int s = 0; s < 8; s++) { /* sub-block of 32 */
            const uint8_t *q = p + 16 + s / 2 * 32;
            float ds = d * (float)scale[s], ms = m * (float)min[s];
            for (int i = 0; i < 32; i++) {
                y[s * 32 + i] = ds * (float)(q[i] >> (s % 2 * 4) & 15) - ms;
            }
        }
    }
}

static void decode_q5_k(const uint8_t *p, float *y, int64_t n)
{
    for (; n > 0; n--, p += 176, y += 256) {
        float d = load_f16(p), m = load_f16(p + 2);
        uint8_t scale[8], min[8];
        sp_k_scales(p + 4, scale, min);
        const uint8_t *high = p + 16; /* bit s of byte i belongs to element i of sub-block s */
        for (int s = 0; s < 8; s++) {
            const uint8_t *q = p + 48 + s / 2 * 32;
            float ds = d * (float)scale[s], ms = m * (float)min[s];
            for (int i = 0; i < 32; i++) {
                int v = (q[i] >> (s % 2 * 4) & 15) | (high[i] >> s & 1) << 4;
                y[s * 32 + i] = ds * (float)v - ms;
            }
        }
    }
}

static void decode_q6_k(const uint8_t *p, float *y, int64_t n)
{
    for (; n > 0; n--, p += 210, y += 256) {
        float d = load_f16(p + 208);
        for (int i = 0; i < 256; i++) {
            int run = i / 128, quarter = i % 128 / 32, k = i % 32;
            int low = p[run * 64 + quarter % 2 * 32 + k] >> (quarter / 2 * 4) & 15;
            int high = p[128 + run * 32 + k] >> (quarter * 2) & 3;
            y[i] = d * (float)(int8_t)p[192 + i / 16] * (float)((low | high << 4) - 32);
        }
    }
}

void sp_row_to_f32(sp_dtype type, const void *src, float *dst, int64_t n)
{
    static void (*const decode[SP_DTYPE_N])(const uint8_t *, float *, int64_t) = {
        [SP_F16] = decode_f16,       [SP_BF16] = decode_bf16,     [SP_Q8_0] = decode_q8_0,
        [SP_Q4_0] = decode_q4_0,     [SP_Q4_1] = decode_q4_1,     [SP_Q5_0] = decode_q5_0,
        [SP_Q5_1] = decode_q5_1,     [SP_Q4_K] = decode_q4_k,     [SP_Q5_K] = decode_q5_k,
        [SP_Q6_K] = decode_q6_k,     [SP_Q2_K] = decode_q2_k,     [SP_Q3_K] = decode_q3_k,
        [SP_IQ4_NL] = decode_iq4_nl, [SP_IQ4_XS] = decode_iq4_xs, [SP_MXFP4] = decode_mxfp4,
    };
    const sp_dtype_info *info = sp_dtype_of(type);
    assert(n >= 0 && n % info->n_group == 0);
    if (n == 0) return;
    if (type == SP_F32) {
        memcpy(dst, src, (size_t)n * sizeof(float));
    } else {
        decode[type](src, dst, n / info->n_group);
    }
}

/* -- encoding ---------------------------------------------------------------------------------- */

static void encode_q8_0(const float *x, uint8_t *p, int64_t n)
{
    for (; n > 0; n--, p += 34, x += 32) {
        float max = 0;
        for (int i = 0; i < 32; i++) max = fmaxf(max, fabsf(x[i]));
        float d = max / 127, inverse = d > 0 ? 1 / d : 0;
        sp_store_u16(p, sp_f32_to_f16(d));
        for (int i = 0; i < 32; i++) p[2 + i] = (uint8_t)sp_q8_round(x[i] * inverse);
    }
}

void sp_row_from_f32(sp_dtype type, const float *src, void *dst, int64_t n)
{
    uint8_t *p = dst;
    assert(n >= 0 && n % sp_dtype_of(type)->n_group == 0);
    if (n == 0) return;
    switch (type) {
    case SP_F32:
        memcpy(p, src, (size_t)n * sizeof(float));
        break;
    case SP_F16:
        for (int64_t i = 0; i < n; i++) sp_store_u16(p + 2 * i, sp_f32_to_f16(src[i]));
        break;
    case SP_BF16:
        for (int64_t i = 0; i < n; i++) sp_store_u16(p + 2 * i, sp_f32_to_bf16(src[i]));
        break;
    case SP_Q8_0:
        encode_q8_0(src, p, n / 32);
        break;
    default:
        assert(!"read-only type");
    }
}
