/* node_int.h -- a node of the knowledge tree, and what a replacement policy does with it. */
#ifndef SP_CACHE_NODE_INT_H
#define SP_CACHE_NODE_INT_H

#include "cache/tree.h"

struct sp_node {
    sp_digest id;
    int32_t *tokens;  /* [n] */
    uint32_t *blocks; /* [ceil(n / B)] */
    int32_t n;
    int32_t at; /* position of the first token: where the parent ends */
    sp_node *parent;
    int n_children, n_pins;
    sp_node *next_same_id;    /* chain of the table by (parent, id) */
    sp_node *next_same_start; /* chain of the table by (parent, first block) */
    sp_node *newer, *older;   /* the policy's list */
    int64_t last_used;        /* logical time */
    int64_t n_uses;
};

/* A replacement policy decides which evictable node goes first. One file a policy.
 * Source of the interface: RAGCache rows R2, R4. */
typedef struct sp_evict_state {
    sp_node *newest, *oldest;
} sp_evict_state;

typedef struct sp_evict_policy {
    const char *name;
    /* the node was inserted or used at time `now`; ancestors are touched after their descendants */
    void (*touch)(sp_evict_state *s, sp_node *n, int64_t now);
    void (*forget)(sp_evict_state *s, sp_node *n);
    /* the evictable node (no children, no pins) to drop next, or NULL */
    sp_node *(*victim)(const sp_evict_state *s);
} sp_evict_policy;

/* Two policies of one name cannot be linked: the ledger has its own. */
#define sp_evict_lru sp_tree_evict_lru
extern const sp_evict_policy sp_evict_lru;

static inline bool sp_node_evictable(const sp_node *n)
{
    return n->n_children == 0 && n->n_pins == 0;
}

#endif
