#if defined(__x86_64__)
#define SP_VL   8
#define SP_STEP 2 /* vpmaddwd on 16 bits */
#include "compute/x86/matmul_packed_body.h"
#endif
