#if defined(__x86_64__)
#include "compute/x86/cpu.h"

#define SP_VL 8
#include "compute/x86/roofline_body.h"

#define DPBUSD _mm256_dpbusd_avx_epi32
__attribute__((target("avxvnni"))) static uint32_t vnni_turns(int64_t n)
{
    VNNI_TURNS(n)
}

const sp_roof_loop sp_roof_fp32_avx2 = {SP_ROOF_FP32, "avx2 fma", FP32_OPS,
                                        fp32_turns,   NULL,       cpu_has_avx2};
const sp_roof_loop sp_roof_int8_avx2 = {SP_ROOF_INT8, "avx2 maddubs", INT8_OPS,
                                        int8_turns,   NULL,           cpu_has_avx2};
const sp_roof_loop sp_roof_int8_avxvnni = {SP_ROOF_INT8, "avx-vnni", VNNI_OPS,
                                           vnni_turns,   NULL,       cpu_has_avxvnni};
const sp_roof_loop sp_roof_read_avx2 = {SP_ROOF_READ, "avx2", 0, NULL, read_all, cpu_has_avx2};
#endif
