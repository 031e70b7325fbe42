/* by_path.h -- the path index: exact copies by the path of segments before them (RAGCache's
 * knowledge tree).
 *
 *   (root)
 *     +-- system prompt A                a node is a path copy: a segment computed after exactly
 *     |     +-- chunk 1                  the segments of its path
 *     |     |     +-- chunk 2
 *     |     |           +-- question
 *     |     +-- chunk 2                  the same chunk after another path is another copy
 *     +-- system prompt B
 *
 * The path of a segment is its ancestors. In a list these are all segments before it: a match walks
 * from the root while the next segment is a child. Trees in a prompt are matched branch by branch: a
 * node is found wherever its ancestors are, whatever else the prompt has; so all questions over an entity
 * share its nodes. Segments that look at everything before them have no path. A copy serves only
 * the positions it was computed for, unless its segment moves (kv/segment.h). Cost: O(segments). Where a
 * match ends, the child that shares most leading whole blocks with the next segment gives a partial match, for
 * flat prompts whose last message has grown. Look-ups go by hash and compare tokens.
 * The index owns nothing. Source: RAGCache section 5.1 (R1, R4), DepCache section 4.1 (D4).
 */
#ifndef SP_CACHE_BY_PATH_H
#define SP_CACHE_BY_PATH_H

#include "cache/ledger.h"

typedef struct sp_path_match {
    int n;                  /* leading segments found whole; nodes after them may be found too */
    const sp_copy *partial; /* shares the first n_partial tokens of segment n; or NULL */
    int32_t n_partial;      /* tokens, whole blocks */
} sp_path_match;

typedef struct sp_path_query {
    const sp_segment *segs;
    int n_segs;
    bool ready_only;
} sp_path_query;

/* sp_by_path_match -- the cached part of a prompt: the longest prefix of a list, the nodes of trees;
 * out [n_segs]: the copy of each segment, or NULL. Pins these copies and `partial`, and uses those that
 * are READY. Without `ready_only` some may be LOADING, or FREE and loadable. */
sp_path_match sp_by_path_match(sp_ledger *l, const sp_path_query *q, int64_t now,
                               const sp_copy **out);
/* sp_by_path_find -- sp_by_path_match with ready_only. */
sp_path_match sp_by_path_find(sp_ledger *l, const sp_segment *segs, int n_segs, int64_t now,
                              const sp_copy **out);

/* sp_by_path_peek -- the copies that serve whole segments; out [n_segs], or NULL. Pins and uses
 * nothing: valid until the ledger changes. */
void sp_by_path_peek(const sp_ledger *l, const sp_segment *segs, int n_segs, const sp_copy **out);

/* sp_by_path_at -- the copy, in any state, at the end of a path of segments, root first; NULL: unknown. Pins and uses
 * nothing. */
const sp_copy *sp_by_path_at(const sp_ledger *l, const sp_digest *ids, int n);

/* sp_by_path_order -- the order of a prompt's segments with the longest cached path: the head (the first n_head)
 * unchanged, then the chunks of that path, then the others in their old order; out [n_segs] indices. Looks at no more
 * than 4,096 copies. Pins and uses nothing.
 * Errors: SP_E_NOMEM. Source: Set-Cache, Cache-Craft section 5.1.4 (C11). */
sp_err sp_by_path_order(const sp_ledger *l, const sp_segment *segs, int n_segs, int n_head,
                        int32_t *out) SP_MUST_CHECK;

#endif
