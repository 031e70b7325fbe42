/* erase.h -- removes copies from a tier so that nothing of them is left in it. */
#ifndef SP_STORE_ERASE_H
#define SP_STORE_ERASE_H

#include "store/tier.h"

typedef struct sp_erase {
    const sp_digest *ids; /* [n] segments, sorted by their bytes */
    size_t n;
    uint32_t
        alone_kind; /* copies of this kind were computed after no chunk: their headers are not read */
    /* Called for every copy that is gone. May be NULL. */
    void (*gone)(void *user, const sp_tier_key *key);
    void *user;
} sp_erase;

/* sp_tier_erase -- drops all copies of these segments, and those that were computed after one of them;
 * then overwrites the space of everything that was ever dropped (SP_TIER_ERASE).
 * Errors: SP_E_IO, SP_E_NOMEM, after trying them all. Cost: a walk over the tier's keys, a read for each
 * copy of another kind than `alone_kind`, and the sync of each segment with dropped copies. */
sp_err sp_tier_erase(sp_tier *t, const sp_erase *e) SP_MUST_CHECK;

/* sp_tier_depends -- the copy was computed after one of these segments; false: or its header cannot be
 * read. Cost: a read. */
bool sp_tier_depends(sp_tier *t, const sp_tier_key *key, const sp_digest *sorted, size_t n);

/* sp_digest_among -- binary search in a sorted list. */
bool sp_digest_among(const sp_digest *id, const sp_digest *sorted, size_t n);

#endif
