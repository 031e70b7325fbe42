#if defined(__x86_64__)
#define SP_VL 16
#include "compute/x86/matmul_body.h"
#endif
