/* host_kv.h -- keys and values in a smaller type while they are in the host tier.
 *
 * A block is decoded and encoded token by token, as the type's definition says (compute/kv_convert.h):
 * what comes back differs from what was put by the rounding of the smaller type. Path copies are kept as
 * they are: what is found by path stays exact. */
#ifndef SP_SERVE_HOST_KV_H
#define SP_SERVE_HOST_KV_H

#include "kv/pool.h"
#include "store/host/tier.h"

/* One layer of a block, on the device and on the host. */
typedef struct sp_host_kv {
    sp_kv_view device, host; /* without a base */
    sp_kv_packing packing; /* its user is this */
} sp_host_kv;

/* sp_host_kv_init -- for the blocks of a pool, and the name of a type. *packing is NULL when that is the
 * pool's own, or there is no name; else it is in *kv, which must stay where it is. Errors: SP_E_ARG names
 * the type. */
sp_err sp_host_kv_init(sp_host_kv *kv, const sp_kv_shape *shape, const char *name,
                       const sp_kv_packing **packing) SP_MUST_CHECK;

#endif
