/* roofline.h -- the loops of all variants, for the list in roofline.c. */
#ifndef SP_COMPUTE_KERNEL_ROOFLINE_H
#define SP_COMPUTE_KERNEL_ROOFLINE_H

#include "compute/kernel/ops.h"
#include "compute/roofline.h"

/* Makes the compiler treat a value as changed in every turn, or it would compute a product of
 * constants only once. Costs no instruction. */
#if defined(__aarch64__)
#define SP_ROOF_CHANGES(reg) __asm__ volatile("" : "+w"(reg))
#else
#define SP_ROOF_CHANGES(reg) __asm__ volatile("" : "+x"(reg))
#endif
#define SP_ROOF_CHANGES_MEMORY(mem) __asm__ volatile("" : "+m"(mem))

extern const sp_roof_loop sp_roof_fp32_ref, sp_roof_int8_ref, sp_roof_read_ref;
extern const sp_roof_loop sp_roof_fp32_avx2, sp_roof_int8_avx2, sp_roof_read_avx2;
extern const sp_roof_loop sp_roof_int8_avxvnni;
extern const sp_roof_loop sp_roof_fp32_avx512, sp_roof_int8_avx512, sp_roof_read_avx512;
extern const sp_roof_loop sp_roof_int8_vnni;
extern const sp_roof_loop sp_roof_bf16_tiles, sp_roof_bf16_vectors;
extern const sp_roof_loop sp_roof_fp32_neon, sp_roof_int8_neon, sp_roof_read_neon, sp_roof_int8_i8mm;

#endif
