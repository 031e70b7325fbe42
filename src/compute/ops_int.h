/* ops_int.h -- every implementation of every operation, for the tables in dispatch.c. */
#ifndef SP_COMPUTE_OPS_INT_H
#define SP_COMPUTE_OPS_INT_H

#include "compute/ops.h"

#if defined(__x86_64__)
#define SP_HAVE_X86 1
#endif

#define SP_DECLARE_OP(op)                                                                          \
    void sp_##op##_ref(const sp_##op##_args *a, int part, int n_parts);                            \
    void sp_##op##_avx2(const sp_##op##_args *a, int part, int n_parts);                           \
    void sp_##op##_avx512(const sp_##op##_args *a, int part, int n_parts)

SP_DECLARE_OP(matmul);
SP_DECLARE_OP(embed);
SP_DECLARE_OP(rmsnorm);
SP_DECLARE_OP(silu_mul);
SP_DECLARE_OP(kv_store);
SP_DECLARE_OP(attend);
SP_DECLARE_OP(columns);
SP_DECLARE_OP(kv_differ);

#undef SP_DECLARE_OP

#endif
