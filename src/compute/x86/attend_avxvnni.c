#if defined(__x86_64__)
#define SP_VL   8
#define SP_VNNI 1
#include "compute/x86/attend_body.h"
#endif
