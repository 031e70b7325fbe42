#if defined(__x86_64__)
#define SP_VL   16
#define SP_VNNI 0
#include "compute/x86/matmul_packed_body.h"
#endif
