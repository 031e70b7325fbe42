/* roofline.c -- the loops of roofline.h in plain C, for CPUs that have no variant. */
#include "compute/kernel/roofline.h"

enum { SUMS = 32 };

static uint32_t fp32_turns(int64_t n)
{
    float sum[SUMS], x = 0.5f, y = 0.25f, all = 0;
    for (int i = 0; i < SUMS; i++) sum[i] = (float)i;
    for (int64_t t = 0; t < n; t++)
        for (int i = 0; i < SUMS; i++) sum[i] = sum[i] * x + y;
    for (int i = 0; i < SUMS; i++) all += sum[i];
    return (uint32_t)all;
}

static uint32_t int8_turns(int64_t n)
{
    uint32_t sum[SUMS] = {0}, all = 0;
    int8_t x[SUMS], y[SUMS];
    for (int i = 0; i < SUMS; i++) x[i] = 5, y[i] = 3;
    for (int64_t t = 0; t < n; t++) {
        for (int i = 0; i < SUMS; i++) sum[i] += (uint32_t)(x[i] * y[i]);
        SP_ROOF_CHANGES_MEMORY(x);
    }
    for (int i = 0; i < SUMS; i++) all += sum[i];
    return all;
}

static uint32_t read_all(const void *p, size_t n_bytes)
{
    const uint64_t *v = p;
    uint64_t sum[8] = {0}, all = 0;
    for (size_t i = 0; i < n_bytes / sizeof *v; i += 8)
        for (int k = 0; k < 8; k++) sum[k] ^= v[i + k];
    for (int k = 0; k < 8; k++) all ^= sum[k];
    return (uint32_t)(all ^ all >> 32);
}

static bool always(void)
{
    return true;
}

const sp_roof_loop sp_roof_fp32_ref = {SP_ROOF_FP32, "plain C", 2 * SUMS, fp32_turns, NULL, always};
const sp_roof_loop sp_roof_int8_ref = {SP_ROOF_INT8, "plain C", 2 * SUMS, int8_turns, NULL, always};
const sp_roof_loop sp_roof_read_ref = {SP_ROOF_READ, "plain C", 0, NULL, read_all, always};
