/* tree.h -- the knowledge tree: KV of segments by the path of segments before them. Exact reuse.
 *
 *   (root)
 *     +-- system prompt A                a node = a segment with its tokens and KV blocks,
 *     |     +-- chunk 1                  computed behind exactly the segments of its path
 *     |     |     +-- chunk 2
 *     |     |           +-- question
 *     |     +-- chunk 2                  the same chunk behind another path is another node
 *     +-- system prompt B
 *
 * A match walks from the root as long as the next segment's id (and then its tokens) is a child,
 * in O(segments); where it ends, the child that shares most leading whole blocks with the next
 * segment gives a partial match, which serves flat prompts whose last message has grown.
 *
 * Invariants
 *  I1  a node's blocks are sealed, and the tree holds one reference on each.
 *  I2  a node with children or pins is never evicted; so a pinned path is safe to its root.
 *  I3  n_blocks, the sum over nodes, is at most max_blocks.
 *
 * Source: RAGCache, section 5.1 (rows R1, R4). Thread: one owner, the scheduler. */
#ifndef SP_CACHE_TREE_H
#define SP_CACHE_TREE_H

#include "base/mem.h"
#include "kv/pool.h"
#include "kv/segment.h"

typedef struct sp_tree sp_tree;
typedef struct sp_node sp_node;

typedef struct sp_tree_stats {
    int64_t n_nodes, n_blocks, max_blocks;
    int64_t n_lookups; /* segments looked up */
    int64_t n_hits;    /* segments found whole */
    int64_t tokens_looked_up, tokens_hit;
    int64_t n_evicted; /* nodes */
} sp_tree_stats;

/* What a prompt finds: a path of whole segments, then perhaps a piece of the next one. A snapshot
 * for policies; pinned until sp_tree_release. */
typedef struct sp_match {
    const sp_node **path; /* [n_path] nodes of segments 0 .. n_path-1; in the caller's arena */
    int n_path;
    const sp_node *partial; /* shares the first n_partial tokens of segment n_path; or NULL */
    int32_t n_partial;      /* tokens, whole blocks */
    sp_node *tip;           /* deepest node of the path (the root when empty): pinned */
} sp_match;

/* sp_tree_create -- evict: name of a replacement policy ("lru"). Errors: SP_E_ARG, SP_E_NOMEM. */
sp_err sp_tree_create(sp_kv_pool *pool, int64_t max_blocks, const char *evict,
                      sp_tree **out) SP_MUST_CHECK;
void sp_tree_destroy(sp_tree *t);

/* sp_tree_match -- the longest known prefix of a prompt. `now` is the logical time of this use.
 * Nothing found is an empty match, not an error. Errors: SP_E_NOMEM (arena). */
sp_err sp_tree_match(sp_tree *t, const sp_segment *segs, int n_segs, int64_t now, sp_arena *arena,
                     sp_match *out) SP_MUST_CHECK;
/* sp_tree_order -- the order of a prompt's segments in which the tree knows the longest path: the
 * head (the first n_head) as it is, then those chunks that form the path, then the others in their
 * order; out [n_segs] indices. Looks at 4,096 nodes at most. Source: Set-Cache, Cache-Craft section
 * 5.1.4 (row C11). Errors: SP_E_NOMEM. */
sp_err sp_tree_order(const sp_tree *t, const sp_segment *segs, int n_segs, int n_head,
                     int32_t *out) SP_MUST_CHECK;
/* sp_tree_release -- unpins what the match pinned. */
void sp_tree_release(sp_tree *t, sp_match *m);

/* sp_tree_extend -- adds the next segment under the tip of the match, which becomes the new tip.
 * Evicts to stay within the budget; a segment that cannot find room is not added and `*added` is
 * false: later ones of this prompt are then not added either. A child that exists already is
 * walked to.
 * Pre: blocks [ceil(n/B)] sealed. The tree takes its own references and copies the tokens. */
sp_err sp_tree_extend(sp_tree *t, sp_match *m, const sp_segment *seg, const uint32_t *blocks,
                      int64_t now, bool *added) SP_MUST_CHECK;

/* sp_tree_evict_one -- drops the unpinned leaf that the policy gives up first; false when there is
 * none. */
bool sp_tree_evict_one(sp_tree *t);
/* sp_tree_oldest -- logical time of that leaf's last use; INT64_MAX when there is none. */
int64_t sp_tree_oldest(const sp_tree *t);
/* sp_tree_clear -- drops everything that is not pinned. */
void sp_tree_clear(sp_tree *t);
sp_tree_stats sp_tree_stats_of(const sp_tree *t);

/* What policies may read of a node. Borrowed: valid while pinned. */
const uint32_t *sp_node_blocks(const sp_node *n);
int32_t sp_node_n(const sp_node *n);  /* tokens */
int32_t sp_node_at(const sp_node *n); /* position of its first token */

#endif
