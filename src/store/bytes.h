/* bytes.h -- numbers in the files of the store: little endian, unaligned. */
#ifndef SP_STORE_BYTES_H
#define SP_STORE_BYTES_H

#include <stdint.h>
#include <string.h>

static inline void put32(uint8_t *p, uint32_t v)
{
    memcpy(p, &v, sizeof v);
}

static inline uint32_t get32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t get64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void put64(uint8_t *p, uint64_t v)
{
    memcpy(p, &v, sizeof v);
}

static inline float get_float(const uint8_t *p)
{
    float v;
    memcpy(&v, p, sizeof v);
    return v;
}

#endif
