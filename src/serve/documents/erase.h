/* erase.h -- erases copies from every tier, and pins copies by content. */
#ifndef SP_SERVE_ERASE_H
#define SP_SERVE_ERASE_H

#include "serve/request/context.h"

/* Erasing has two steps; each may be called from any thread (driver.h). Until the second one leaves nothing pending,
 * no copy that depends on one of the segments is written to a tier. ids [n] are sorted by their bytes. */

/* sp_context_erase_tiers -- drops from the tiers below the device all copies of these segments and copies computed
 * after one of them (paths through them, copies fused with them), and overwrites their space. *n_store counts them.
 * Waits for the tiers on the caller's thread while steps continue. Errors: SP_E_IO (also: a tier does not answer, or a
 * header cannot be read), SP_E_NOMEM; the rest is erased: call again. */
sp_err sp_context_erase_tiers(sp_context *c, const sp_digest *ids, size_t n,
                              int64_t *n_store) SP_MUST_CHECK;

typedef struct sp_erased {
    int64_t n_device;  /* copies that were on the device */
    int64_t n_pending; /* copies that requests still read, and requests whose prompt has a segment: call again later */
} sp_erased;

/* sp_context_erase_device -- the same on the device, placed copies included. Blocks are zeroed before they are reused.
 * Errors: SP_E_IO, SP_E_NOMEM; the rest is erased. */
sp_err sp_context_erase_device(sp_context *c, const sp_digest *ids, size_t n,
                               sp_erased *out) SP_MUST_CHECK;

/* Where copies of segments are. */
typedef struct sp_presence {
    int64_t n_device, n_store; /* ids with a copy there */
} sp_presence;

/* sp_context_presence -- ids [n] sorted. */
sp_err sp_context_presence(sp_context *c, const sp_digest *ids, size_t n,
                           sp_presence *out) SP_MUST_CHECK;

/* sp_context_hold -- pins the READY content copies of these segments, up to `share` of the pool in all, in
 * `held`, and releases those no longer named; n 0 releases all. */
typedef SP_VEC(const sp_copy *) sp_held;
sp_err sp_context_hold(sp_context *c, const sp_digest *ids, size_t n, float share,
                       sp_held *held) SP_MUST_CHECK;

#endif
