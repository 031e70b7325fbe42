/* dispatch.c -- which implementation of each operation a CPU gets: one line per operation. */
#include <stdlib.h>
#include <string.h>

#include "compute/ops_int.h"

static const sp_ops ref = {
    .name = "ref",
    .matmul = sp_matmul_ref,
    .embed = sp_embed_ref,
    .rmsnorm = sp_rmsnorm_ref,
    .silu_mul = sp_silu_mul_ref,
    .kv_store = sp_kv_store_ref,
    .attend = sp_attend_ref,
    .columns = sp_columns_ref,
    .kv_differ = sp_kv_differ_ref,
};

static bool always(void)
{
    return true;
}

#if SP_HAVE_X86

/* Operations that are bound by memory or rare stay the reference ones. */
#define PACKED(variant, bits)                                                                      \
    .x_bits = bits, .pack_bytes = sp_pack_bytes_##variant,                                         \
    .quantized_bytes = sp_quantized_bytes_##variant, .pack = sp_pack_##variant,                    \
    .quantize = sp_quantize_##variant, .matmul_packed = sp_matmul_packed_##variant

static const sp_ops avx2 = {
    .name = "avx2",
    .matmul = sp_matmul_avx2,
    .embed = sp_embed_ref,
    .rmsnorm = sp_rmsnorm_avx2,
    .silu_mul = sp_silu_mul_avx2,
    .kv_store = sp_kv_store_ref,
    .attend = sp_attend_avx2,
    .columns = sp_columns_ref,
    .kv_differ = sp_kv_differ_ref,
    PACKED(avx2, 15),
};

static const sp_ops avx512 = {
    .name = "avx512",
    .matmul = sp_matmul_avx512,
    .embed = sp_embed_ref,
    .rmsnorm = sp_rmsnorm_avx512,
    .silu_mul = sp_silu_mul_avx512,
    .kv_store = sp_kv_store_ref,
    .attend = sp_attend_avx512,
    .columns = sp_columns_ref,
    .kv_differ = sp_kv_differ_ref,
};

/* The features that the Makefile's flags for *_avx2.c and *_avx512.c let the compiler use. F16C is
 * not asked for: clang has no word for it, and no CPU has AVX2 without it. */
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

#endif

/* From the plainest to the best. */
static const struct {
    const sp_ops *ops;
    bool (*runs_here)(void);
} variants[] = {
    {&ref, always},
#if SP_HAVE_X86
    {&avx2, has_avx2},
    {&avx512, has_avx512},
#endif
};

sp_err sp_ops_select(const char *name, const sp_ops **out)
{
    if (!name) name = getenv("SPOLIA_CPU");
    if (!name || !*name) {
        size_t best = SP_COUNT(variants) - 1;
        while (!variants[best].runs_here()) best--;
        *out = variants[best].ops;
        return SP_OK;
    }
    for (size_t i = 0; i < SP_COUNT(variants); i++) {
        if (strcmp(name, variants[i].ops->name) != 0) continue;
        if (!variants[i].runs_here()) {
            return sp_fail(SP_E_UNSUPPORTED, "CPU variant '%s' does not run on this machine", name);
        }
        *out = variants[i].ops;
        return SP_OK;
    }
    return sp_fail(SP_E_ARG, "unknown CPU variant '%s'", name);
}
