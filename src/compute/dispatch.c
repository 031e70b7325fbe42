/* dispatch.c -- which implementation of each operation a CPU gets: one line per operation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/kernel/ops.h"
#if SP_HAVE_X86
#include "compute/x86/cpu.h"
#elif SP_HAVE_ARM64
#include "compute/arm64/cpu.h"
#endif

static const sp_ops ref = {
    .name = "ref",
    .matmul = sp_matmul_ref,
    .embed = sp_embed_ref,
    .rmsnorm = sp_rmsnorm_ref,
    .layernorm = sp_layernorm_ref,
    .act_mul = sp_act_mul_ref,
    .blend = sp_blend_ref,
    .take = sp_take_ref,
    .spread = sp_spread_ref,
    .kv_store = sp_kv_store_ref,
    .attend = sp_attend_ref,
    .columns = sp_columns_ref,
    .kv_differ = sp_kv_differ_ref,
};

static bool always(void)
{
    return true;
}

#if SP_HAVE_X86 || SP_HAVE_ARM64

/* Operations that are bound by memory or rare stay the reference ones; what multiplies integers
 * gains from dot products, and nothing else does. */
#define TABLE_OF(variant, said, width, attention, products, bf16)                                  \
    static const sp_ops variant = {                                                                \
        .name = said,                                                                              \
        .matmul = sp_matmul_##width,                                                               \
        .embed = sp_embed_ref,                                                                     \
        .rmsnorm = sp_rmsnorm_##width,                                                             \
        .layernorm = sp_layernorm_##width,                                                         \
        .act_mul = sp_act_mul_##width,                                                             \
        .blend = sp_blend_ref,                                                                     \
        .take = sp_take_ref,                                                                       \
        .spread = sp_spread_ref,                                                                   \
        .kv_store = sp_kv_store_##width,                                                           \
        .attend = sp_attend_##attention,                                                           \
        .columns = sp_columns_ref,                                                                 \
        .kv_differ = sp_kv_differ_ref,                                                             \
        .x_bits = sp_x_bits_##variant,                                                             \
        .rounds_weights = bf16,                                                                    \
        .pack_bytes = sp_pack_bytes_##variant,                                                     \
        .quantized_bytes = sp_quantized_bytes_##products,                                          \
        .pack = sp_pack_##variant,                                                                 \
        .quantize = sp_quantize_##products,                                                        \
        .matmul_packed = sp_matmul_packed_##products,                                              \
    }
#define TABLE(variant, width) TABLE_OF(variant, #variant, width, variant, variant, false)

#endif

static bool never(void)
{
    return false;
}

#define HERE(variant)      {#variant, &variant, cpu_has_##variant, false}
#define ELSEWHERE(variant) {#variant, NULL, never, false}

#if SP_HAVE_X86
TABLE(avx2, avx2);
TABLE(avxvnni, avx2);
TABLE(avx512, avx512);
TABLE(vnni, avx512);
/* "amx" and "amx-f16" differ in what they pack. The other two also round what attention multiplies. */
TABLE_OF(amx, "amx", avx512, vnni, amx, true);
TABLE_OF(amx_f16, "amx-f16", avx512, vnni, amx, true);
#define sp_x_bits_amx_attend         sp_x_bits_amx
#define sp_pack_bytes_amx_attend     sp_pack_bytes_amx
#define sp_pack_amx_attend           sp_pack_amx
#define sp_x_bits_amx_f16_attend     sp_x_bits_amx_f16
#define sp_pack_bytes_amx_f16_attend sp_pack_bytes_amx_f16
#define sp_pack_amx_f16_attend       sp_pack_amx_f16
TABLE_OF(amx_attend, "amx-attend", avx512, amx, amx, true);
TABLE_OF(amx_f16_attend, "amx-f16-attend", avx512, amx, amx, true);
#define X86(variant) HERE(variant)
#define AMX                                                                                        \
    {"amx", &amx, cpu_has_amx, true}, {"amx-f16", &amx_f16, cpu_has_amx, true},                    \
        {"amx-attend", &amx_attend, cpu_has_amx, true},                                            \
        {"amx-f16-attend", &amx_f16_attend, cpu_has_amx, true}
#else
#define X86(variant) ELSEWHERE(variant)
#define AMX                                                                                        \
    {"amx", NULL, never, false}, {"amx-f16", NULL, never, false}, {"amx-attend", NULL, never, false}, \
        {"amx-f16-attend", NULL, never, false}
#endif

#if SP_HAVE_ARM64
TABLE(neon, neon);
TABLE(i8mm, neon);
#define ARM64(variant) HERE(variant)
#else
#define ARM64(variant) ELSEWHERE(variant)
#endif

/* From the plainest to the best; every build knows all names. */
static const struct {
    const char *name;
    const sp_ops *ops; /* NULL: not in this build */
    bool (*runs_here)(void);
    bool is_asked_for; /* never chosen by itself: AMX reads prompts faster, but answers slower with 4-bit weights */
} variants[] = {{"ref", &ref, always, false}, X86(avx2), X86(avxvnni), X86(avx512), X86(vnni),
                AMX,             ARM64(neon), ARM64(i8mm)};

const char *sp_ops_amx(const char *name, bool f16, bool attend)
{
    if (f16) return attend ? "amx-f16-attend" : "amx-f16";
    return attend ? "amx-attend" : name;
}

static sp_err fail_unknown(const char *name)
{
    char names[128] = "";
    for (size_t i = 0, n = 0; i < SP_COUNT(variants) && n < sizeof names; i++)
        if (variants[i].ops)
            n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "", variants[i].name);
    return sp_fail(SP_E_ARG, "CPU variant '%s' is unknown: %s", name, names);
}

sp_err sp_ops_select(const char *name, const sp_ops **out)
{
    if (!name) name = getenv("SPOLIA_CPU");
    if (!name || !*name) {
        size_t best = SP_COUNT(variants) - 1;
        while (variants[best].is_asked_for || !variants[best].runs_here()) best--;
        *out = variants[best].ops;
        return SP_OK;
    }
    for (size_t i = 0; i < SP_COUNT(variants); i++) {
        if (strcmp(name, variants[i].name) != 0) continue;
        if (!variants[i].ops)
            return sp_fail(SP_E_UNSUPPORTED, "CPU variant '%s' is not part of this program", name);
        if (!variants[i].runs_here()) {
            return sp_fail(SP_E_UNSUPPORTED, "CPU variant '%s' does not run on this machine", name);
        }
        *out = variants[i].ops;
        return SP_OK;
    }
    return fail_unknown(name);
}
