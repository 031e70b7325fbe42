/* quant_int.h -- helpers for quantized layouts that the definition and the kernels share. */
#ifndef SP_COMPUTE_QUANT_INT_H
#define SP_COMPUTE_QUANT_INT_H

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

/* sp_q8_round -- rounds to the nearest int8, halves away from zero like GGUF writers; NaN gives
 * -127. */
static inline int8_t sp_q8_round(float x)
{
    return (int8_t)roundf(x > -127 ? (x < 127 ? x : 127) : -127);
}

#endif
