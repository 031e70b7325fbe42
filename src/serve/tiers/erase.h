/* erase.h -- removes copies from every tier so that nothing of them is left, and pins copies by content. */
#ifndef SP_SERVE_ERASE_H
#define SP_SERVE_ERASE_H

#include "serve/context_int.h"

typedef struct sp_erased {
    int64_t n_device;  /* copies that were on the device */
    int64_t n_store;   /* copies that were in the store */
    int64_t n_pending; /* copies that requests still read: call again later */
} sp_erased;

/* sp_context_erase -- the copies of these segments, and those conditioned on one of them: paths through
 * them, copies fused with or placed after them. Their blocks are zeroed before others get them. ids [n]
 * sorted by their bytes. Waits for the store. Errors: SP_E_IO, SP_E_NOMEM; what could be erased is. Thread:
 * any, as all commands (driver.h). */
sp_err sp_context_erase(sp_context *c, const sp_digest *ids, size_t n,
                        sp_erased *out) SP_MUST_CHECK;

/* Where copies of segments are. */
typedef struct sp_presence {
    int64_t n_device, n_store; /* ids with a copy there */
} sp_presence;

/* sp_context_presence -- ids [n] sorted. */
sp_err sp_context_presence(sp_context *c, const sp_digest *ids, size_t n,
                           sp_presence *out) SP_MUST_CHECK;

/* sp_context_hold -- pins the READY content copies of these segments, up to `share` of the pool in all, in
 * `held`, and lets go of those that are not named any more; n 0 lets go of all. */
typedef SP_VEC(const sp_copy *) sp_held;
sp_err sp_context_hold(sp_context *c, const sp_digest *ids, size_t n, float share,
                       sp_held *held) SP_MUST_CHECK;

#endif
