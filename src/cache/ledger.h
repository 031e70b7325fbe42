/* ledger.h -- the ledger of copies: the only owner of every copy, its state and the block budget.
 *
 *   find (by_path.h, by_content.h)      returns pinned copies
 *   add                                 a copy that was just computed: READY
 *   adopt                               a copy that a tier already has: FREE
 *   load_begin, load_end                FREE -> LOADING -> READY (the picture is in copy.h)
 *   pin, unpin, use                     readers, and how much a use was worth
 *   free_up                             evicts until the pool has room
 *
 * Ownership
 *  - A request pins every copy that it found until it lets go. A pinned READY copy keeps its blocks;
 *    a pinned FREE copy may become LOADING and READY, by its own load or by another's.
 *  - A load pins the copy it fills; a patch pins its base; a path copy protects its parent through
 *    n_children.
 *  - Indices and replacement policies hold nothing: the ledger notifies them of every copy that is
 *    added or dropped.
 *
 * Invariants
 *  I1  the blocks of a READY copy are sealed, and the ledger holds one reference on each.
 *  I2  a path copy is exact, or a node that moves (kv/segment.h), which its id records:
 *      sp_ledger_add refuses any other.
 *  I3  a copy that is pinned or has children keeps its blocks.
 *  I4  n_blocks, the blocks of all copies, each counted once, is at most max_blocks. A plain copy that is
 *      read by path has a path copy with the same blocks (by_path.c).
 *  I5  at most max_placed copies on the device are placed, and at most max_variants of a chunk after a head in all
 *      tiers; the one of least worth is dropped.
 *  I6  a FREE copy has a place below the device, or is pinned, or one of its descendants does or is; at most
 *      SP_LEDGER_MAX_FREE unpinned ones that are only on disk are remembered; the ends of paths are forgotten first.
 *  I7  the parent of a path copy is READY or LOADING while the path copy is, and known to the ledger
 *      while the path copy is. Source: RAGCache section 5.1 (R3).
 *
 * Time is a parameter (`now`: logical, each request is one tick), so a simulator can drive the
 * ledger. The same calls with the same times always leave the same copies.
 * Thread: one owner, the engine thread. Source: RAGCache section 5.1 (R1, R4), Cache-Craft sections
 * 3.3 and 3.4.3 (C1, C7), FusionRAG sections 2.2.1, 3.1 and 4.1 (F1, F3, F5).
 */
#ifndef SP_CACHE_LEDGER_H
#define SP_CACHE_LEDGER_H

#include "cache/copy.h"

enum { SP_LEDGER_MAX_FREE = 65536 };

typedef struct sp_ledger sp_ledger;

typedef struct sp_ledger_opts {
    sp_kv_pool *pool;       /* borrowed */
    int64_t max_blocks;     /* I4 */
    int64_t max_placed;     /* I5 */
    int32_t max_variants;   /* I5; 0: no limit */
    const char *evict;      /* name of a replacement policy (cache/evict.h); NULL: "lru" */
    const char *host_evict; /* replacement policy of the host tier (cache/order.h); NULL: "lru" */
    const struct sp_evict_policy *policy; /* instead of a name; NULL: by name */
    void *user;                           /* of `policy` */
    const struct sp_cost *cost;           /* borrowed: the cost of computing tokens; NULL: default */
} sp_ledger_opts;

/* Callbacks to the tiers below, on the ledger's thread. */
typedef struct sp_ledger_tiers {
    /* A READY copy is about to lose its blocks: the last chance to read them. May call
     * sp_ledger_placed, sp_ledger_host_victim, and sp_ledger_unplaced of that victim. NULL: none. */
    void (*leaving)(void *user, const sp_copy *c);
    /* These tiers (a set of sp_place) may drop what they have of the copy. NULL: none. */
    void (*useless)(void *user, const sp_copy *c, unsigned places);
    void *user;
} sp_ledger_tiers;

/* Why no copy serves a segment. */
typedef enum sp_miss {
    SP_MISS_NONE,        /* a copy serves it, or none was looked for */
    SP_MISS_NEVER_SEEN,  /* no such chunk was cached, as far as is remembered */
    SP_MISS_EDITED,      /* a chunk that begins with the same tokens was cached */
    SP_MISS_EVICTED,     /* exactly this chunk was cached */
    SP_MISS_OTHER_HEAD,  /* it is cached after another system prompt */
    SP_MISS_UNMEASURED,  /* it is cached after this head, without statistics that the policy needs */
    SP_MISS_OTHER_MODEL, /* the store has it for another model or KV type; only serve/ can tell */
    SP_MISS_POLICY,      /* the store has a copy of the chunk, but the policy reuses prefixes only */
    SP_MISS_NO_ROOM,     /* the device had no room to load it, or to keep it beside what the prompt computes */
    SP_MISS_DAMAGED,     /* a lower tier had it, but it is damaged or cannot be read */
    SP_MISS_LATE,        /* a lower tier has it, but does not answer, or loading took longer than computing */
} sp_miss;

/* A copy to add: what was computed. Borrowed for the call; the ledger copies what it keeps. */
typedef struct sp_copy_spec {
    const sp_segment *seg;
    sp_copy_facts
        facts; /* id and head follow from seg and `before`. before, n_head: for content copies; at: for
                              these and for nodes that move (other path copies begin where the parent ends) */
    const sp_copy *parent; /* path: the READY copy of the preceding segment; NULL: the first */
    const uint32_t *blocks;       /* [ceil((first + n) / B)] sealed; of a patch: those of its base */
    int32_t first;                /* path copies: slot of the first token in blocks[0] */
    const sp_copy *base;          /* content copies: the READY copy that the patch is stored over */
    sp_copy_patch patch;          /* its blocks are sealed */
    /* Tokens that the request found and computed, this copy included: policies derive its cost from them. 0, 0: it was
     * computed alone, after the `at` tokens before it. */
    int32_t n_cached, n_fresh;
} sp_copy_spec;

typedef struct sp_ledger_stats {
    int64_t n_copies, n_free, n_placed; /* all; of those FREE; of those placed */
    int64_t n_blocks, max_blocks;
    int64_t n_lookups, n_hits;            /* segments looked up; found whole, in any state */
    int64_t tokens_looked_up, tokens_hit; /* partial matches included */
    int64_t n_evicted;
    int64_t n_added; /* READY or FREE ones: changes whenever a look-up may find more */
} sp_ledger_stats;

/* sp_ledger_create -- Errors: SP_E_ARG (unknown replacement policy), SP_E_NOMEM. */
sp_err sp_ledger_create(const sp_ledger_opts *o, sp_ledger **out) SP_MUST_CHECK;
/* sp_ledger_destroy -- Pre: nothing is pinned, nothing is loading. NULL is allowed. */
void sp_ledger_destroy(sp_ledger *l);

/* sp_ledger_add -- adds a READY copy. If a READY copy of the same content computed after the same segments exists, it
 * is kept (and used) instead, unless only the new one is measured. A FREE copy of the same name becomes READY with
 * these blocks; an older fused copy after the same head is replaced. *out, which is not pinned, is NULL if the copy
 * cannot fit; that is not an error.
 * Errors: SP_E_NOMEM; SP_E_ARG (I2: a path copy that is not exact, that is a patch, or whose parent
 * is not a READY path copy; a head longer than `before`). */
sp_err sp_ledger_add(sp_ledger *l, const sp_copy_spec *spec, int64_t now,
                     const sp_copy **out) SP_MUST_CHECK;

/* sp_ledger_set_tiers -- sets the callbacks; zeroed: none. */
void sp_ledger_set_tiers(sp_ledger *l, const sp_ledger_tiers *tiers);

/* The name of a copy in a lower tier. */
typedef struct sp_adopted {
    sp_copy_facts facts; /* kind, id, head, exact, cost; before and stats if known (a placed copy needs them) */
    int32_t n;           /* tokens */
    sp_place place;      /* below the device */
    bool measured;       /* it has sp_copy_facts.stats there */
    bool heavy;          /* it has sp_copy_facts.heavy there */
    int64_t n_uses;      /* so far */
} sp_adopted;

/* sp_ledger_adopt -- a tier has a copy of this name: adds it as FREE, its tokens unknown until it is loaded. A copy
 * that the ledger already knows gets the place and the measured facts. Errors: SP_E_NOMEM; SP_E_ARG (kind, place, a
 * placed copy without `before`). */
sp_err sp_ledger_adopt(sp_ledger *l, const sp_adopted *a) SP_MUST_CHECK;
/* A path copy in a lower tier, as its header describes it. Borrowed for the call. */
typedef struct sp_adopted_path {
    const sp_segment *seg; /* id and tokens; `tenant` is not read: the id has it */
    const sp_copy *parent; /* path copy in any state; NULL: it begins a path */
    sp_copy_facts facts;   /* at, exact, cost: the rest is not read */
    sp_place place;
    int64_t n_uses; /* so far */
} sp_adopted_path;

/* sp_ledger_adopt_path -- adopts a path copy, after its parent. One that begins a path is found only as a whole, not
 * in part: its tenant is unknown until it is computed again. Errors: SP_E_NOMEM; SP_E_ARG (place); SP_E_FORMAT: it is
 * exact, but does not begin where its parent ends. */
sp_err sp_ledger_adopt_path(sp_ledger *l, const sp_adopted_path *a) SP_MUST_CHECK;
/* sp_ledger_placed, sp_ledger_unplaced -- a tier has written the copy, or no longer has it. A FREE copy without a
 * place is removed (the pointer becomes invalid) unless it is pinned, and so are the path copies that continue it. */
void sp_ledger_placed(sp_ledger *l, const sp_copy *c, sp_place place);
void sp_ledger_unplaced(sp_ledger *l, const sp_copy *c, sp_place place);

/* sp_ledger_host_victim -- the copy that the host tier's replacement policy drops next: unpinned, and without children
 * there that depend on it, so that upper nodes of the tree stay longest. NULL: none may be dropped. */
const sp_copy *sp_ledger_host_victim(sp_ledger *l);

/* sp_ledger_load_begin -- FREE -> LOADING: takes the segment's tokens and open blocks for them, and
 * pins the copy for the load. Evicts if necessary, and leaves `spare` blocks of the pool free for
 * others. Pre: FREE, and the segment has the copy's id (not checked for path copies). Errors:
 * SP_E_NOKV (also: the parent of a path copy has no blocks), SP_E_NOMEM; the copy stays FREE. */
sp_err sp_ledger_load_begin(sp_ledger *l, const sp_copy *c, const sp_segment *seg,
                            int64_t spare) SP_MUST_CHECK;

/* sp_ledger_load_head -- the header of a LOADING copy has arrived, before its layers: sets `at`, `before` and
 * statistics, whose arrays then keep their addresses. A second call does nothing. Errors: SP_E_NOMEM; SP_E_FORMAT: it
 * is not the copy that was found. */
sp_err sp_ledger_load_head(sp_ledger *l, const sp_copy *c,
                           const sp_copy_facts *loaded) SP_MUST_CHECK;
/* sp_ledger_load_end -- ends a load and unpins the copy: LOADING -> READY; or, if `loaded` is NULL or lacks statistics
 * that the copy was adopted with, back to FREE without the place `from`. A copy that then has no place is removed once
 * nobody pins it.
 * Pre: the parent of a path copy is not LOADING. Errors: SP_E_NOMEM, and the copy is FREE with all its places;
 * SP_E_NOTFOUND: the parent of the path copy is gone, and the copy will be dropped with it. */
sp_err sp_ledger_load_end(sp_ledger *l, const sp_copy *c, const sp_copy_facts *loaded,
                          sp_place from, int64_t now) SP_MUST_CHECK;

void sp_ledger_pin(sp_ledger *l, const sp_copy *c);
void sp_ledger_unpin(sp_ledger *l, const sp_copy *c);
/* sp_ledger_use -- a request reads the copy: it, its base and its ancestors become the most recently used, and its
 * worth rises by 1 / cfo (at most 100). Source: Cache-Craft section 3.3. */
void sp_ledger_use(sp_ledger *l, const sp_copy *c, float cfo, int64_t now);

/* sp_ledger_retain -- until this time, all other copies are evicted before this one, whatever the policy.
 * sp_ledger_tick sets the current time. Both in microseconds of one clock. */
void sp_ledger_retain(sp_ledger *l, const sp_copy *c, int64_t until);
void sp_ledger_tick(sp_ledger *l, int64_t now_us);

/* sp_ledger_looks_ahead -- whether the replacement policy of the device or the host uses expected uses. */
bool sp_ledger_looks_ahead(const sp_ledger *l);
/* sp_ledger_look -- begins a new look at the waiting queue: forgets earlier expectations. */
void sp_ledger_look(sp_ledger *l);
/* sp_ledger_expect -- a waiting request will read the copy; weight 0 .. 1, higher for sooner. */
void sp_ledger_expect(sp_ledger *l, const sp_copy *c, float weight);

/* sp_ledger_free_up -- evicts until the pool has n_blocks free; false if nothing more can be evicted. */
bool sp_ledger_free_up(sp_ledger *l, int64_t n_blocks);
/* sp_ledger_clear -- drops everything that is not pinned from the device and the host. */
void sp_ledger_clear(sp_ledger *l);
/* sp_ledger_lose_device -- the device's memory is lost: every unpinned copy becomes FREE without being written to a
 * tier. */
void sp_ledger_lose_device(sp_ledger *l);
/* sp_ledger_lose_block -- the bytes of a block of the pool are lost: unpinned copies that read it, and those that
 * continue or patch them, become FREE. Cost: O(blocks of all copies). */
void sp_ledger_lose_block(sp_ledger *l, uint32_t block);
/* sp_ledger_lose_pinned -- as sp_ledger_lose_device, also for pinned copies. Pre: nobody reads them, none is
 * LOADING. */
void sp_ledger_lose_pinned(sp_ledger *l);
/* sp_ledger_drop -- removes the copy from the device and all lists; the caller removes it from lower tiers. Pre: READY
 * or FREE, unpinned, without children. */
void sp_ledger_drop(sp_ledger *l, const sp_copy *c);
/* sp_ledger_forget -- that a chunk was ever cached. */
void sp_ledger_forget(sp_ledger *l, const sp_digest *id);
/* sp_ledger_next -- walks all copies: NULL begins, NULL ends. Nothing may be added or dropped during the walk. */
const sp_copy *sp_ledger_next(const sp_ledger *l, const sp_copy *c);
sp_ledger_stats sp_ledger_stats_of(const sp_ledger *l);
/* sp_ledger_uncount -- look-ups since `before` were a preview: removes them from the statistics. */
void sp_ledger_uncount(sp_ledger *l, const sp_ledger_stats *before);

#endif
