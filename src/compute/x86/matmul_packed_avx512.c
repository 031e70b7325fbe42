#if defined(__x86_64__)
#pragma GCC optimize("no-tree-reassoc") /* as in matmul_packed_avx2.c */
#define SP_VL   16
#define SP_STEP 2 /* vpmaddwd on 16 bits */
#include "compute/x86/matmul_packed_body.h"
#endif
