/* order.h -- in which order copies leave the host tier: a rank of the copies there, by a score that use
 * can only raise.
 *
 * The rank holds the score that a copy had when it was last looked at. A copy that comes to the top
 * is scored anew, and sinks if it was used since; so a use costs nothing, and a victim O(log n). */
#ifndef SP_CACHE_ORDER_H
#define SP_CACHE_ORDER_H

#include "cache/rank.h"

typedef struct sp_order_policy {
    const char *name, *help;
    double (*score)(const sp_copy *c); /* the lowest leaves first; never falls */
} sp_order_policy;

typedef struct sp_order {
    const sp_order_policy *policy;
    sp_rank rank;
    SP_VEC(sp_copy *) aside; /* scratch */
} sp_order;

/* sp_order_init -- by the name of a policy; NULL: the default. Errors: SP_E_ARG lists the names. */
sp_err sp_order_init(sp_order *o, const char *policy) SP_MUST_CHECK;
void sp_order_fini(sp_order *o);
/* sp_order_reserve -- memory for n copies in all. Errors: SP_E_NOMEM. */
sp_err sp_order_reserve(sp_order *o, size_t n) SP_MUST_CHECK;
/* sp_order_add -- nothing happens when it is there. Pre: memory for it is reserved. */
void sp_order_add(sp_order *o, sp_copy *c);
/* sp_order_drop -- nothing happens when it is not there. */
void sp_order_drop(sp_order *o, sp_copy *c);
/* sp_order_victim -- the copy of the lowest score that `may_go`; it stays in the order. NULL: none.
 * Cost: O(log n), and as much again for each copy of a lower score that may not go. */
sp_copy *sp_order_victim(sp_order *o, bool (*may_go)(const sp_copy *c));

#endif
