/* chains.h -- a hash table of copies, chained through a field of sp_copy; the indices consist of such tables. It owns
 * its slots, never a copy. Chains are newest first, also after the table has grown. */
#ifndef SP_CACHE_CHAINS_H
#define SP_CACHE_CHAINS_H

#include "cache/copy.h"

typedef struct sp_chains {
    sp_copy **slots;                    /* [n_slots] */
    size_t n_slots;                     /* power of two */
    size_t n;                           /* copies */
    size_t link;                        /* offset of the link in sp_copy */
    uint64_t (*hash)(const sp_copy *c); /* of fields that do not change while the copy is here */
} sp_chains;

/* sp_chains_init -- Errors: SP_E_NOMEM. */
sp_err sp_chains_init(sp_chains *t, size_t link, uint64_t (*hash)(const sp_copy *)) SP_MUST_CHECK;
void sp_chains_fini(sp_chains *t);
/* sp_chains_reserve -- grows the table if one more copy would make it too full. Errors: SP_E_NOMEM. */
sp_err sp_chains_reserve(sp_chains *t) SP_MUST_CHECK;
void sp_chains_add(sp_chains *t, sp_copy *c);
void sp_chains_drop(sp_chains *t, sp_copy *c);
/* sp_chains_first -- the first copy of the chain for a hash; it holds other hashes too. */
sp_copy *sp_chains_first(const sp_chains *t, uint64_t hash);

#endif
