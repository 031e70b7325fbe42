#if defined(__x86_64__)
#define SP_VL   8
#define SP_STEP 4 /* x in 8 bits */
#include "compute/x86/quantize_body.h"
#endif
