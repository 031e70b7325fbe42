/* ledger_int.h -- what the ledger and its two indices share. */
#ifndef SP_CACHE_LEDGER_INT_H
#define SP_CACHE_LEDGER_INT_H

#include "base/mem.h"
#include "cache/chains.h"
#include "cache/evict.h"
#include "cache/ghosts.h"
#include "cache/ledger.h"
#include "cache/order.h"

#define SP_MOST_WORTH 100.0f /* of one use: CFO may be 0 */

struct sp_ledger {
    sp_kv_pool *pool;
    SP_VEC(sp_copy *) all;
    sp_evict ready; /* READY copies in order of use, and the replacement policy */
    sp_evict free;  /* FREE copies, in the order in which they became FREE */
    sp_chains path_by_id, path_by_start; /* by_path.c */
    sp_chains content;                   /* by_content.c */
    sp_ghosts *ghosts;
    sp_order host; /* stand-ins of the copies in the host tier */
    sp_ledger_tiers tiers;
    uint32_t *n_holders; /* of each block of the pool: copies that have it */
    int64_t now_us; /* sp_ledger_tick */
    bool keeps; /* evicted copies may be kept in a lower tier */
    int64_t max_placed;
    int32_t max_variants;
    sp_ledger_stats stats;
};

/* sp_ledger_own -- a writable pointer to a copy that was handed out as read-only. */
static inline sp_copy *sp_ledger_own(const sp_ledger *l, const sp_copy *c)
{
    assert(c->index.slot < l->all.n && l->all.v[c->index.slot] == c);
    return l->all.v[c->index.slot];
}

/* sp_ledger_name -- the hash by which policies remember the copy; it covers the whole path of a path copy. Never 0. */
uint64_t sp_ledger_name(const sp_copy *c);
/* sp_ledger_nobody -- the placeholder tenant of an adopted copy. No prompt has it, so no prompt finds a path copy by
 * its first tokens alone. */
uint64_t sp_ledger_nobody(const sp_digest *id);
/* sp_ledger_touch -- marks a READY copy, its base and its ancestors as used. */
void sp_ledger_touch(sp_ledger *l, sp_copy *c, int64_t now);

/* -- states of copies (ledger.c, ledger_add.c) ---------------------------------------------- */

/* sp_ledger_enter -- adds a new copy to the list of all: FREE, in no index yet. Pre: sp_vec_reserve. */
void sp_ledger_enter(sp_ledger *l, sp_copy *c);
/* sp_ledger_enter_path, sp_ledger_leave_path -- adds to or removes from the path index and the parent's children. */
void sp_ledger_enter_path(sp_ledger *l, sp_copy *c);
void sp_ledger_leave_path(sp_ledger *l, sp_copy *c);
/* sp_ledger_unplace -- a copy loses places below the device; tell: the tiers still have its bytes and may drop
 * them. */
void sp_ledger_unplace(sp_ledger *l, sp_copy *c, unsigned places, bool tell);
/* sp_ledger_settle -- removes a copy that nobody pins and no tier has; then perhaps its parent. */
void sp_ledger_settle(sp_ledger *l, sp_copy *c);
/* sp_ledger_count -- adds (1) or subtracts (-1) the copy's own blocks from the sums. */
void sp_ledger_count(sp_ledger *l, const sp_copy *c, int sign);
const uint32_t *sp_ledger_own_blocks(const sp_copy *c);
/* sp_ledger_become_ready -- token_cost: as in sp_evict_add. Pre: its blocks are sealed and counted, and it is in no
 * list. */
void sp_ledger_become_ready(sp_ledger *l, sp_copy *c, double token_cost, int64_t now);
void sp_ledger_drop_pin(sp_ledger *l, sp_copy *c);
/* sp_ledger_become_free -- a READY copy, or one whose load has failed, loses its blocks; the pointer is invalid
 * afterwards unless the copy is pinned. */
void sp_ledger_become_free(sp_ledger *l, sp_copy *c);
/* sp_ledger_make_room -- evicts until n_blocks more fit the budgets (I4, I5); false if they cannot fit, or pins
 * prevent it. */
bool sp_ledger_make_room(sp_ledger *l, int64_t n_blocks, sp_copy_kind kind);
/* sp_ledger_forget_oldest -- I6; pinned ones stay. */
void sp_ledger_forget_oldest(sp_ledger *l);
/* sp_ledger_new_copy -- memory for it, and room in the list and in the indices. */
sp_err sp_ledger_new_copy(sp_ledger *l, sp_copy_kind kind, sp_copy **out) SP_MUST_CHECK;

/* -- the host tier's order (ledger_tiers.c) -------------------------------------------------- */

/* sp_ledger_host_use -- counts a use for the copy's stand-in, if it has one. */
void sp_ledger_host_use(sp_ledger *l, const sp_copy *c, int64_t now);
/* sp_ledger_host_leave -- the host tier no longer has the copy. */
void sp_ledger_host_leave(sp_ledger *l, sp_copy *c);

/* -- contents of a copy (copy.c) ------------------------------------------------------------ */

/* sp_copy_fill -- fills a copy from the spec, except head and parent; arrays are copied into one allocation. Pre:
 * empty. Errors: SP_E_NOMEM, and the copy stays empty. */
sp_err sp_copy_fill(sp_copy *c, const sp_copy_spec *spec) SP_MUST_CHECK;
/* sp_copy_move_contents -- from one copy to another that is empty. Kind and id move too. */
void sp_copy_move_contents(sp_copy *to, sp_copy *from);
/* sp_copy_known -- what a measured content copy keeps while FREE: before and stats without their order, in memory of
 * its own; NULL: out of memory. sp_copy_fade -- empties the copy except for that; memory NULL: completely. */
void *sp_copy_known(const sp_copy_facts *f, sp_copy_facts *out);
void sp_copy_fade(sp_copy *c, void *memory, const sp_copy_facts *known);
/* sp_copy_empty -- keeps only kind, id, head and the ledger's fields. */
void sp_copy_empty(sp_copy *c);
/* sp_copy_says -- whether the copy is of this segment: compares the tokens, not only the id. */
bool sp_copy_says(const sp_copy *c, const sp_segment *seg);

/* -- path index (by_path.c) ----------------------------------------------------------------- */

sp_err sp_by_path_init(sp_ledger *l) SP_MUST_CHECK;
void sp_by_path_fini(sp_ledger *l);
sp_err sp_by_path_reserve(sp_ledger *l) SP_MUST_CHECK;
void sp_by_path_add(sp_ledger *l, sp_copy *c);
void sp_by_path_drop(sp_ledger *l, sp_copy *c);
/* sp_by_path_after -- the exact copy, in any state, of a chunk that directly follows a head [n], or NULL. */
sp_copy *sp_by_path_after(const sp_ledger *l, const sp_digest *head, int n, const sp_segment *seg);
/* sp_by_path_can_serve -- it has blocks, or (without ready_only) can be loaded. */
bool sp_by_path_can_serve(const sp_copy *c, bool ready_only);
/* sp_by_path_child -- the copy of `seg` that continues `parent` (NULL: begins a path), or NULL. */
sp_copy *sp_by_path_child(const sp_ledger *l, const sp_copy *parent, const sp_segment *seg);

/* -- content index (by_content.c) ----------------------------------------------------------- */

sp_err sp_by_content_init(sp_ledger *l) SP_MUST_CHECK;
void sp_by_content_fini(sp_ledger *l);
sp_err sp_by_content_reserve(sp_ledger *l) SP_MUST_CHECK;
void sp_by_content_add(sp_ledger *l, sp_copy *c);
void sp_by_content_drop(sp_ledger *l, sp_copy *c);
/* sp_by_content_first -- the first copy of the chain for an id; it holds other ids too. */
sp_copy *sp_by_content_first(const sp_ledger *l, const sp_digest *id);
/* sp_by_content_same -- the READY copy that was added with an equal spec, or NULL. */
sp_copy *sp_by_content_same(const sp_ledger *l, const sp_copy_spec *spec);
/* sp_by_content_plain -- the READY plain copy that equals, bit for bit, segment i computed after all segments before
 * it; or NULL. */
const sp_copy *sp_by_content_plain(const sp_ledger *l, const sp_segment *segs, int i);
/* sp_by_content_named -- a copy of this name (sp_copy_key_head) other than `not`; READY and LOADING
 * before FREE; or NULL. */
sp_copy *sp_by_content_named(const sp_ledger *l, const sp_adopted *name, const sp_copy * not );
/* sp_by_content_variants -- the number of placed copies of a chunk after this head; *least: the evictable one of least
 * worth, or NULL. */
int sp_by_content_variants(const sp_ledger *l, const sp_digest *id, uint64_t head, sp_copy **least);

#endif
