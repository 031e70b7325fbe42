/* roofline.c -- the list of loops that this build contains. */
#include "compute/kernel/roofline.h"

static const sp_roof_loop *const loops[] = {
    &sp_roof_fp32_ref,    &sp_roof_int8_ref,    &sp_roof_read_ref,
#if SP_HAVE_X86
    &sp_roof_fp32_avx2,   &sp_roof_int8_avx2,   &sp_roof_read_avx2,   &sp_roof_int8_avxvnni,
    &sp_roof_fp32_avx512, &sp_roof_int8_avx512, &sp_roof_read_avx512, &sp_roof_int8_vnni,
    &sp_roof_bf16_tiles,  &sp_roof_bf16_vectors,
#elif SP_HAVE_ARM64
    &sp_roof_fp32_neon,   &sp_roof_int8_neon,   &sp_roof_read_neon,   &sp_roof_int8_i8mm,
#endif
};

const sp_roof_loop *const *sp_roof_loops(int *n)
{
    *n = (int)SP_COUNT(loops);
    return loops;
}
