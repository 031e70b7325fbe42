#if defined(__x86_64__)
#include "compute/x86/cpu.h"

#define SP_VL 16
#include "compute/x86/roofline_body.h"

#define DPBUSD _mm512_dpbusd_epi32
__attribute__((target("avx512vnni"))) static uint32_t vnni_turns(int64_t n)
{
    VNNI_TURNS(n)
}

const sp_roof_loop sp_roof_fp32_avx512 = {SP_ROOF_FP32, "avx512 fma", FP32_OPS,
                                          fp32_turns,   NULL,         cpu_has_avx512};
const sp_roof_loop sp_roof_int8_avx512 = {SP_ROOF_INT8, "avx512 maddubs", INT8_OPS, int8_turns,
                                          NULL,         cpu_has_avx512};
const sp_roof_loop sp_roof_int8_avx512vnni = {SP_ROOF_INT8, "avx512-vnni", VNNI_OPS,
                                              vnni_turns,   NULL,          cpu_has_vnni};
const sp_roof_loop sp_roof_read_avx512 = {SP_ROOF_READ, "avx512", 0,
                                          NULL,         read_all, cpu_has_avx512};
#endif
