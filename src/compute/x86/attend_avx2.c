#if defined(__x86_64__)
#define SP_VL 8
#include "compute/x86/attend_body.h"
#endif
