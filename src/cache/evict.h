/* evict.h -- replacement policies: which copy leaves the device next.
 *
 * The order of use is kept here, for every policy: a list of all READY copies from newest to oldest.
 * A policy is one file with one sp_evict_policy, and a line in the table in evict.c. It reads the
 * copies' fields (last_used, n_uses, worth, cost_us, size) and that order.
 */
#ifndef SP_CACHE_EVICT_H
#define SP_CACHE_EVICT_H

#include "cache/copy.h"

typedef struct sp_evict {
    const struct sp_evict_policy *policy;
    sp_copy *newest, *oldest; /* order of use */
    int64_t n;
    int64_t look; /* looks at the waiting queue so far: sp_ledger_look */
} sp_evict;

/* The first three hooks may be NULL. `now` is logical time. */
typedef struct sp_evict_policy {
    const char *name, *help;
    bool looks_ahead; /* reads sp_copy.expected */
    void (*add)(sp_evict *e, sp_copy *c, int64_t now); /* it became READY */
    void (*use)(sp_evict *e, sp_copy *c, int64_t now); /* ancestors are used after descendants */
    void (*drop)(sp_evict *e, sp_copy *c);             /* it leaves the device */
    sp_copy *(*victim)(const sp_evict *e);             /* an evictable copy; NULL: there is none */
} sp_evict_policy;

/* Least recently used. */
extern const sp_evict_policy sp_evict_lru;
/* Locality-aware (LACR): uses, and expected uses by waiting requests. */
extern const sp_evict_policy sp_evict_lacr;
/* Placed copies of least worth. Keeps I5 of the ledger, whichever policy runs; not in the table. */
extern const sp_evict_policy sp_evict_fr;

/* sp_evict_find -- by name; NULL: the default. Errors: SP_E_ARG lists the names. */
sp_err sp_evict_find(const char *name, const sp_evict_policy **out) SP_MUST_CHECK;

/* sp_evict_add, sp_evict_use, sp_evict_drop -- called by the ledger: update the order of use, then
 * run the policy's hook. */
void sp_evict_add(sp_evict *e, sp_copy *c, int64_t now);
void sp_evict_use(sp_evict *e, sp_copy *c, int64_t now);
void sp_evict_drop(sp_evict *e, sp_copy *c);

/* sp_evict_link, sp_evict_unlink -- the list alone: `c` enters as the newest, or leaves. */
void sp_evict_link(sp_evict *e, sp_copy *c);
void sp_evict_unlink(sp_evict *e, sp_copy *c);

#endif
