/* ops.h -- every implementation of every operation, for the tables in dispatch.c. */
#ifndef SP_COMPUTE_KERNEL_OPS_H
#define SP_COMPUTE_KERNEL_OPS_H

#include "compute/kernels.h"

#if defined(__x86_64__) && !SP_PORTABLE
#define SP_HAVE_X86 1
#endif
#if defined(__aarch64__) && !SP_PORTABLE
#define SP_HAVE_ARM64 1
#endif

#define SP_DECLARE_OP(op)                                                                          \
    void sp_##op##_ref(const sp_##op##_args *a, int part, int n_parts);                            \
    void sp_##op##_avx2(const sp_##op##_args *a, int part, int n_parts);                           \
    void sp_##op##_avx512(const sp_##op##_args *a, int part, int n_parts);                         \
    void sp_##op##_neon(const sp_##op##_args *a, int part, int n_parts)

/* of SP_ACT_SWIGLU_OAI */
#define SP_OAI_ALPHA 1.702f
#define SP_OAI_LIMIT 7.0f

SP_DECLARE_OP(matmul);
SP_DECLARE_OP(embed);
SP_DECLARE_OP(rmsnorm);
SP_DECLARE_OP(layernorm);
SP_DECLARE_OP(act_mul);
SP_DECLARE_OP(blend);
SP_DECLARE_OP(take);
SP_DECLARE_OP(spread);
SP_DECLARE_OP(kv_store);
SP_DECLARE_OP(columns);
SP_DECLARE_OP(kv_differ);

/* Integer products, for each variant that has them. */
#define SP_DECLARE_ATTEND(variant)                                                                 \
    void sp_attend_##variant(const sp_attend_args *a, int part, int n_parts)
#define SP_DECLARE_LAYOUT(variant)                                                                 \
    int sp_x_bits_##variant(sp_dtype weights);                                                     \
    size_t sp_pack_bytes_##variant(const sp_mat *w);                                               \
    void sp_pack_##variant(const sp_pack_args *a, int part, int n_parts)
#define SP_DECLARE_PACKED(variant)                                                                 \
    SP_DECLARE_LAYOUT(variant);                                                                    \
    size_t sp_quantized_bytes_##variant(int64_t n);                                                \
    void sp_quantize_##variant(const sp_quantize_args *a, int part, int n_parts);                  \
    void sp_matmul_packed_##variant(const sp_matmul_packed_args *a, int part, int n_parts)

SP_DECLARE_ATTEND(ref);
SP_DECLARE_ATTEND(avx2);
SP_DECLARE_ATTEND(avx512);
SP_DECLARE_ATTEND(avxvnni);
SP_DECLARE_ATTEND(vnni);
SP_DECLARE_ATTEND(amx);
SP_DECLARE_ATTEND(neon);
SP_DECLARE_ATTEND(i8mm);

SP_DECLARE_PACKED(avx2);
SP_DECLARE_PACKED(avx512);
SP_DECLARE_PACKED(avxvnni);
SP_DECLARE_PACKED(vnni);
SP_DECLARE_PACKED(amx);
SP_DECLARE_LAYOUT(amx_f16);
SP_DECLARE_PACKED(neon);
SP_DECLARE_PACKED(i8mm);

#undef SP_DECLARE_OP
#undef SP_DECLARE_ATTEND
#undef SP_DECLARE_LAYOUT
#undef SP_DECLARE_PACKED

#endif
