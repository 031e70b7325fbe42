/* quant.h -- helpers for quantized layouts that the definition and the kernels share. */
#ifndef SP_COMPUTE_KERNEL_QUANT_H
#define SP_COMPUTE_KERNEL_QUANT_H

#include <math.h>
#include <string.h>

#include "compute/dtype.h"

/* Weights are read in place from the file, so they may be unaligned. */
static inline uint16_t sp_load_u16(const void *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint32_t sp_load_u32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void sp_store_u16(void *p, uint16_t v)
{
    memcpy(p, &v, sizeof v);
}

/* sp_k_scales -- unpacks the eight 6-bit scales and minima of a Q4_K or Q5_K block from 12 bytes.
 * The low six bits of bytes 0-3 and 4-7 are scales and minima 0-3; their top two bits are the top
 * bits of scales and minima 4-7, whose low four bits are the nibbles of bytes 8-11. */
static inline void sp_k_scales(const uint8_t *p, uint8_t scale[8], uint8_t min[8])
{
    uint32_t a = sp_load_u32(p), b = sp_load_u32(p + 4), c = sp_load_u32(p + 8);
    uint32_t word[4] = {
        a & 0x3f3f3f3f,
        (c & 0x0f0f0f0f) | (a >> 2 & 0x30303030),
        b & 0x3f3f3f3f,
        (c >> 4 & 0x0f0f0f0f) | (b >> 2 & 0x30303030),
    };
    memcpy(scale, word, 8);
    memcpy(min, word + 2, 8);
}

/* sp_q3_scales -- the sixteen scales of a Q3_K block, less 32, from 12 bytes: the low four bits of scale k are a
 * nibble of byte k % 8, the high two are in byte 8 + k % 4. */
static inline void sp_q3_scales(const uint8_t *p, int8_t scale[16])
{
    for (int k = 0; k < 16; k++) {
        const int low = p[k % 8] >> (k / 8 * 4) & 15, high = p[8 + k % 4] >> (k / 4 * 2) & 3;
        scale[k] = (int8_t)((low | high << 4) - 32);
    }
}

/* sp_q3_code -- element i of a Q3_K block, -4 to 3: bit i / 32 of byte i % 32 is the high bit. */
static inline int sp_q3_code(const uint8_t *block, int i)
{
    const int low = block[32 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
    return low - (block[i % 32] >> (i / 32) & 1 ? 0 : 4);
}

/* sp_iq4_scale -- scale s of an IQ4_XS block, -32 to 31. */
static inline int sp_iq4_scale(const uint8_t *block, int s)
{
    const int low = block[4 + s / 2] >> (s % 2 * 4) & 15,
              high = sp_load_u16(block + 2) >> (2 * s) & 3;
    return (low | high << 4) - 32;
}

/* The values of codes: of IQ4_NL and IQ4_XS; of MXFP4 doubled, so that the four-bit floats become integers. */
static const int8_t sp_iq4_levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                         1,    13,   25,  38,  53,  69,  89,  113};
static const int8_t sp_mxfp4_steps[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* sp_q8_round -- rounds to the nearest int8, halves away from zero like GGUF writers; NaN gives
 * -127. */
static inline int8_t sp_q8_round(float x)
{
    return (int8_t)roundf(x > -127 ? (x < 127 ? x : 127) : -127);
}

#endif
