/* copy.h -- a copy: the cached KV of one segment, and everything known about it.
 *
 * A node of the knowledge tree, a chunk usable at any position and a record on disk are all copies.
 * They differ in what they were computed after, where their bytes are, and how they are found:
 *
 *   kind     computed after                        found by
 *   path     its whole path of segments; exact     path       (cache/by_path.h); as a plain copy after a head
 *   plain    the head (system prompt) alone        content    (cache/by_content.h)
 *   fused    the head and similar chunks           content
 *   placed   what preceded it in some prompt       content
 *
 * Keys stay rotated for `at`; a span shifts them to any position. A patch stores only recomputed
 * tokens over a base copy, so many copies of one chunk cost little more than one.
 */
#ifndef SP_CACHE_COPY_H
#define SP_CACHE_COPY_H

#include "kv/copy_facts.h"
#include "kv/pool.h"
#include "kv/segment.h"

/* The tiers, the fastest first, as requests name them. serve/tiers/tiers.c opens them. */
#define SP_TIERS(X) X(DEVICE, "memory") X(HOST, "host") X(DISK, "disk") X(REMOTE, "remote")

#define X(name, text) SP_TIER_##name,
enum { SP_TIERS(X) SP_N_TIERS };
#undef X

/* Where the bytes of a copy are: a set of tiers. */
#define X(name, text) SP_AT_##name = 1 << SP_TIER_##name,
typedef enum sp_place { SP_AT_NONE, SP_TIERS(X) } sp_place;
#undef X

#define SP_BELOW_DEVICE (~(unsigned)SP_AT_DEVICE)

/* sp_place_fastest -- of a set; SP_AT_NONE of none. */
static inline sp_place sp_place_fastest(unsigned places)
{
    return (sp_place)(places & -places);
}

/* sp_place_name -- "disk"; "" of SP_AT_NONE. */
const char *sp_place_name(sp_place place);
/* sp_copy_kind_name -- "plain", "fused", "path", "placed". */
const char *sp_copy_kind_name(sp_copy_kind kind);

/*   sp_ledger_adopt                                        sp_ledger_add
 *        |                                                       |
 *        v      sp_ledger_load_begin        sp_ledger_load_end   v
 *      FREE ------------------------> LOADING ---------------> READY
 *      | ^ ^                             |                       |
 *      | | +-----------------------------+                       |
 *      | |          load failed                                  |
 *      | +-------------------------------------------------------+
 *      v            evicted from the device
 *     removed, when no tier has it and nobody pins it
 *
 * sp_ledger_add also turns a FREE copy of the same name into a READY one. Tiers store a patch and its base as one
 * whole copy, which it is when it returns. A path copy has blocks while a copy that continues it has some; when it is
 * removed, those are, too. */
typedef enum sp_copy_state {
    SP_COPY_FREE,    /* no blocks on the device; a lower tier has it (places is 0: had it) */
    SP_COPY_LOADING, /* has open blocks that a tier fills: nobody reads them */
    SP_COPY_READY,   /* has sealed blocks */
} sp_copy_state;

typedef struct sp_copy sp_copy;

/* Where a copy is in a rank (cache/rank.h). */
typedef struct sp_rank_place {
    double priority;
    size_t slot; /* 1 + index in the heap; 0: not in it */
} sp_rank_place;

/* Recomputed tokens, stored over another copy. */
typedef struct sp_copy_patch {
    int32_t n;
    const int32_t *tokens;  /* [n] ascending token indices */
    const uint32_t *blocks; /* [ceil(n / B)] keys rotated for at + tokens[k] */
} sp_copy_patch;

/* How a copy was used: what replacement policies read. */
typedef struct sp_copy_uses {
    int64_t last;    /* logical time */
    int64_t n;       /* requests that used it, the one that added or loaded it included */
    float worth;     /* f_r of Cache-Craft section 3.3: 1 + sum of 1 / CFO over its uses */
    float mean_cost; /* cost of one of its tokens, mean over the requests that computed it */
    int32_t n_costs; /* requests in that mean, as far as they are remembered */
    double recent;   /* log2 of its uses, weighted by age with a half-life (cache/evict.h) */
} sp_copy_uses;

/* Outside cache/ a copy is read-only and borrowed: valid while pinned. */
struct sp_copy {
    /* -- what it is: constant while READY. A FREE copy has only kind, id, head and cost; if it is measured, also
     *    before and stats without their order; if it is a path copy, also tokens, position and parent. */
    sp_copy_facts facts;
    uint64_t tenant;       /* of the segment; sp_ledger_nobody for an adopted copy until it has blocks */
    const int32_t *tokens; /* [n]; NULL while FREE, unless it is a path copy */
    int32_t n;             /* tokens; 0 without `tokens` */
    sp_copy *parent;       /* path: the copy of the preceding segment; NULL: the first */

    /* -- its KV on the device: READY (and, unreadable, LOADING) */
    const uint32_t *blocks;       /* [ceil((first + n) / B)]; of a patched copy: the blocks of its base */
    int32_t first;                /* slot of token 0 in blocks[0]; above 0 for a node that shares a block */
    const sp_copy *base;          /* what the patch is stored over; NULL: the copy is whole */
    sp_copy_patch patch;

    /* -- for the ledger, which alone writes it; replacement policies read it */
    sp_copy_state state;
    unsigned places; /* set of sp_place */
    struct {
        bool stats, heavy, exact; /* whether the copy in lower tiers has (is) these */
        int32_t n;                /* tokens there; 0: unknown */
    } stored;
    int64_t retained_until; /* microseconds; until then others are evicted first: sp_ledger_retain */
    int n_pins;           /* users, the load that fills it, and patches over it */
    bool has_head;        /* LOADING: the header has arrived, so facts are complete */
    struct {
        int n;          /* path copies with blocks that continue this one */
        sp_copy *first; /* path copies in any state that continue this one ... */
    } children;
    struct {
        sp_copy *next, *previous;
    } sibling;         /* ... and others with the same parent */
    sp_copy_uses uses;
    struct {
        float uses;   /* by waiting requests, sooner ones weigh more; valid for the look ... */
        int64_t look; /* ... of this number (cache/evict.h) */
        bool aside;   /* the current look expects it: it is in no rank */
    } expected;
    uint64_t name;         /* hash of kind, path or head, and id: its name for policies and readers (tree.h) */
    struct {
        sp_copy *newer, *older;
        int64_t order;     /* ascending */
    } used;                /* order of use, of all READY copies or of all FREE ones */
    sp_rank_place rank[2]; /* cache/rank.h: by the policy's priority; placed copies by worth */
    sp_copy *host;         /* its stand-in in the host tier's order (cache/order.h), or NULL */
    struct {
        sp_copy *by_id;    /* the next one in the chains of the indices ... */
        sp_copy *by_start; /* ... of path copies of a block or more */
        size_t slot;       /* in the ledger's list of all copies */
    } index;
    void *memory;          /* one allocation: all arrays that the pointers above own */
};

/* sp_copy_n_own_blocks -- blocks that it does not share with its base: those of a patch, or all. */
static inline int32_t sp_copy_n_own_blocks(const sp_copy *c)
{
    return sp_blocks_for(c->base ? c->patch.n : c->first + c->n);
}

/* sp_copy_evictable -- it may be evicted from the device now. */
static inline bool sp_copy_evictable(const sp_copy *c)
{
    return c->state == SP_COPY_READY && c->n_pins == 0 && c->children.n == 0;
}

/* sp_copy_loadable -- it has no blocks, but a lower tier has it. */
static inline bool sp_copy_loadable(const sp_copy *c)
{
    return c->state == SP_COPY_FREE && c->places != 0;
}

#endif
