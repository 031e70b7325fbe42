#if defined(__x86_64__)
#define SP_VL   16
#define SP_STEP 4 /* vpdpbusd on 8 bits */
#include "compute/x86/matmul_packed_body.h"
#endif
