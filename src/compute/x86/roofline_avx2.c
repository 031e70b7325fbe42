#if defined(__x86_64__)
#include <cpuid.h>

#define SP_VL 8
#include "compute/x86/roofline_body.h"

#define DPBUSD _mm256_dpbusd_avx_epi32
__attribute__((target("avxvnni"))) static uint32_t vnni_turns(int64_t n)
{
    VNNI_TURNS(n)
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

/* Leaf 7, subleaf 1, EAX bit 4; not every compiler has a word for it. */
static bool has_avxvnni(void)
{
    unsigned a, b, c, d;
    return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}

const sp_roof_loop sp_roof_fp32_avx2 = {SP_ROOF_FP32, "avx2 fma", FP32_OPS,
                                        fp32_turns,   NULL,       has_avx2};
const sp_roof_loop sp_roof_int8_avx2 = {SP_ROOF_INT8, "avx2 maddubs", INT8_OPS,
                                        int8_turns,   NULL,           has_avx2};
const sp_roof_loop sp_roof_int8_avxvnni = {SP_ROOF_INT8, "avx-vnni", VNNI_OPS,
                                           vnni_turns,   NULL,       has_avxvnni};
const sp_roof_loop sp_roof_read_avx2 = {SP_ROOF_READ, "avx2", 0, NULL, read_all, has_avx2};
#endif
