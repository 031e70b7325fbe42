/* order.h -- which copy a tier below the device drops next: a replacement policy (cache/evict.h) over stand-ins of the
 * tier's copies. The host tier (ledger_tiers.c) and the disk tier (serve/tiers/disk_order.c) each have one.
 *
 *   tier                 order      policy
 *   a copy is added      add        add
 *   a request reads it   use        use
 *   it is dropped        drop       drop; its parent may be dropped next
 *   room is needed       victim     victim: not pinned, and without children in this tier
 *
 * A stand-in is an sp_copy owned by the tier: always READY, with the facts that policies read (kind, id, n, at,
 * cost, uses, worth, name). Its parent, children and pins are those of the order, not those of the copy.
 */
#ifndef SP_CACHE_ORDER_H
#define SP_CACHE_ORDER_H

#include "base/mem.h"
#include "cache/evict.h"

typedef struct sp_order {
    sp_evict evict;
    SP_VEC(sp_copy *) aside; /* scratch */
} sp_order;

/* sp_order_init -- Errors: SP_E_ARG lists the policies, SP_E_NOMEM; fini cleans up after both. */
sp_err sp_order_init(sp_order *o, const sp_evict_opts *evict) SP_MUST_CHECK;
void sp_order_fini(sp_order *o);
/* sp_order_reserve -- makes room for one more. Errors: SP_E_NOMEM. */
sp_err sp_order_reserve(sp_order *o) SP_MUST_CHECK;

/* sp_order_add -- Pre: sp_order_reserve, and the stand-in is in no order. Owns: borrowed until sp_order_drop. */
void sp_order_add(sp_order *o, sp_copy *c, int64_t now);
void sp_order_use(sp_order *o, sp_copy *c, int64_t now);
/* sp_order_touch -- makes it the most recently used without counting a use. */
void sp_order_touch(sp_order *o, sp_copy *c);
void sp_order_drop(sp_order *o, sp_copy *c);

/* sp_order_follow -- c continues `parent`, which is not dropped before c. Does nothing if parent is NULL or c. */
void sp_order_follow(sp_order *o, sp_copy *c, sp_copy *parent);
void sp_order_pin(sp_copy *c);
void sp_order_unpin(sp_order *o, sp_copy *c);

/* sp_order_victim -- the next victim among copies for which may_go is true (NULL: all), or NULL; it stays in the
 * order. Cost: a victim of the policy for each that may not be dropped. */
sp_copy *sp_order_victim(sp_order *o, bool (*may_go)(const sp_copy *c));

#endif
