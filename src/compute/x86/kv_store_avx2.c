#if defined(__x86_64__)
#define SP_VL 8
#include "compute/x86/kv_store_body.h"
#endif
