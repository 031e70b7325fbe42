#if defined(__x86_64__)
#define SP_VL   8
#define SP_VNNI 0
#include "compute/x86/quantize_body.h"
#endif
