#if defined(__x86_64__)
#define SP_VL 16
#include "compute/x86/kv_store_body.h"
#endif
