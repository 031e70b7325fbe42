/* disk_order.h -- which copy leaves a full store: an order (cache/order.h) of the names of the copies that
 * the disk tier has.
 *
 *   disk tier          order             policy
 *   a copy is there    add               add; one that is replaced or moved keeps its uses
 *   a request reads it use               use
 *   a put begins       what its copy continues is pinned until it is over
 *   it has left        remove            drop; its parent may be dropped next
 *   room is needed     victim            victim: no held copy, no copy that another one continues
 *
 * Time is the number of uses of all copies. Uses last from one process to the next, worth does not: it
 * begins with the uses.
 * Memory: sizeof(sp_copy) + 56 bytes an entry, 8 to 16 of slots, and what the policy remembers.
 * Thread: any. The hooks run while the tier holds its lock, so nothing here calls the tier. */
#ifndef SP_SERVE_DISK_ORDER_H
#define SP_SERVE_DISK_ORDER_H

#include "cache/cost.h"
#include "kv/segment.h"
#include "store/tier.h"

typedef struct sp_disk_order sp_disk_order;

/* sp_disk_order_create -- evict: the name of a policy; NULL: the default. cost: borrowed, may be NULL.
 * Errors: SP_E_ARG lists the names, SP_E_NOMEM. */
sp_err sp_disk_order_create(const char *evict, const sp_cost *cost,
                            sp_disk_order **out) SP_MUST_CHECK;
/* sp_disk_order_destroy -- Pre: the tier is closed. NULL is allowed. */
void sp_disk_order_destroy(sp_disk_order *o);
/* sp_disk_order_hooks -- for the tier whose copies these are. */
sp_tier_evict sp_disk_order_hooks(sp_disk_order *o);

/* sp_disk_order_worth -- what the next use of the copy says (sp_copy.worth). */
void sp_disk_order_worth(sp_disk_order *o, const sp_tier_key *key, float worth);
/* sp_disk_order_looks_ahead -- whether the policy reads what is expected. */
bool sp_disk_order_looks_ahead(const sp_disk_order *o);
/* sp_disk_order_look, sp_disk_order_expect -- a new look at the waiting requests; one of them will read the copy. */
void sp_disk_order_look(sp_disk_order *o);
void sp_disk_order_expect(sp_disk_order *o, const sp_tier_key *key, float weight);
/* sp_disk_order_follows -- the copy continues another; does nothing unless both are there. */
void sp_disk_order_follows(sp_disk_order *o, const sp_tier_key *key, const sp_tier_key *parent);
/* sp_disk_order_hold -- copies of these segments stay, now and later, in place of those held before.
 * ids: sorted by their bytes. Errors: SP_E_NOMEM, never for n 0. */
sp_err sp_disk_order_hold(sp_disk_order *o, const sp_digest *ids, size_t n) SP_MUST_CHECK;

#endif
