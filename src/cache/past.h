/* past.h -- uses and costs of dropped copies, by name.
 *
 * A hash table of fixed size, in buckets of four; a full bucket forgets the least recently used
 * entry. Only the order of replacement depends on it.
 */
#ifndef SP_CACHE_PAST_H
#define SP_CACHE_PAST_H

#include "cache/copy.h"

typedef struct sp_past_copy {
    uint64_t name; /* 0: an empty slot */
    sp_copy_uses uses;
} sp_past_copy;

typedef struct sp_past {
    sp_past_copy *slots;
    size_t n_buckets; /* power of two */
} sp_past;

/* sp_past_init -- room for about n copies, at most 4 million. Errors: SP_E_NOMEM. */
sp_err sp_past_init(sp_past *p, int64_t n) SP_MUST_CHECK;
void sp_past_fini(sp_past *p);
/* sp_past_find -- NULL if it is not remembered. Valid until the next sp_past_put. */
const sp_past_copy *sp_past_find(const sp_past *p, uint64_t name);
void sp_past_put(sp_past *p, const sp_past_copy *c);

#endif
