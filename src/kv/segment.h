/* segment.h -- a prompt is a list of segments, each tokenized on its own.
 *
 * A segment's id is its content: SHA-256 over a namespace (model, KV type), the tenant's salt and
 * the token ids. The segments before it are never part of the id. Before cached KV is used for a segment, its tokens
 * are compared, too.
 *
 * Segments form a list, in which each one looks at all before it, or a tree, in which each one
 * looks at its ancestors and may share its positions with other branches. In a list, `parent` and `place` are 0.
 *
 *   system     question       0 system     A-C and D are trees after the system prompt (dependency
 *      |          |           5 A   5 D    attention, DepCache section 3.1): B and C do not see each
 *    A    D       | all       7 B          other, nor D. The question has no single parent: it sees
 *   / \           |           7 C          all segments before it, and its position is after the
 *  B   C                      12 question  largest of theirs.
 *
 * Nodes that move (`origin` is not 0) have consecutive positions in prompt order (DepCache section
 * 4.1). A copy of such a node serves after the same path at any position: its span is shifted. It is
 * approximate: in another prompt its distance to what it sees may differ. Their ids have their own namespace,
 * so nodes at exact positions never find them.
 */
#ifndef SP_KV_SEGMENT_H
#define SP_KV_SEGMENT_H

#include "base/hash.h"

enum { SP_JOIN_MAX = 64 }; /* tokens; number of keys that attention processes together */

typedef enum sp_segment_kind {
    SP_SEG_SYSTEM,
    SP_SEG_CHUNK,
    SP_SEG_QUESTION,
    SP_SEG_TEXT,
    SP_SEG_NODE /* of a dependency tree */
} sp_segment_kind;

/* sp_segment.parent of a segment that looks at all before it, whatever their parents are. Its
 * `place` is set. */
#define SP_PARENT_ALL (-1)

typedef struct sp_segment {
    sp_segment_kind kind;
    const int32_t *tokens; /* [n] borrowed from the prompt */
    int32_t n;             /* tokens, at least 1 */
    sp_digest id;
    uint64_t
        tenant;     /* a hash of the salt in the id; 0: none. Tables keyed by tokens include it, too */
    int32_t parent; /* 1 + index of an earlier segment; 0: the preceding one; SP_PARENT_ALL */
    int32_t place;  /* 1 + position of its first token; 0: after its parent */
    int32_t
        origin; /* of a node that moves: 1 + position that its keys are rotated for; 0: `place` */
} sp_segment;

/* sp_segment_parent -- index of the parent of segment i; -1: it is the first. For SP_PARENT_ALL, the
 * preceding one. */
int sp_segment_parent(const sp_segment *segs, int i);
/* sp_segment_joins -- whether the segment is a short node of a tree: its KV may share blocks with that
 * of other nodes, and its span is joined to theirs (compute/ops.h). Its id has a namespace of its own. */
bool sp_segment_joins(const sp_segment *seg);
/* sp_segment_on_path -- whether the KV of segment i depends only on its ancestors (given that theirs does): it does
 * not look at all segments, and its positions continue its parent's. Only then is a copy of it exact by its path. */
bool sp_segment_on_path(const sp_segment *segs, int i);
/* sp_segment_at -- position of the first token of segment i. Cost: O(its ancestors). */
int32_t sp_segment_at(const sp_segment *segs, int i);
/* sp_segments_end -- the position after the largest of all segments. */
int32_t sp_segments_end(const sp_segment *segs, int n);
/* sp_segment_n_seen -- number of segments that segment i looks at, itself included. */
int sp_segment_n_seen(const sp_segment *segs, int i);
/* sp_segment_sight -- the segments that segment i looks at, itself the last, ascending:
 * list [sp_segment_n_seen]. Returns how many. */
int sp_segment_sight(const sp_segment *segs, int i, uint16_t *list);

/* sp_segment_id -- the content id of tokens in a namespace. salt may be NULL (no tenant). */
sp_err sp_segment_id(const sp_digest *space, const char *salt, const int32_t *tokens, int32_t n,
                     sp_digest *out) SP_MUST_CHECK;

/* sp_head_key -- a hash of the segments before the first chunk. With the id of a chunk it names a copy in tables and
 * files; where the ids of the head are known, they are compared. */
uint64_t sp_head_key(const sp_digest *head, int n_head);

const char *sp_segment_kind_name(sp_segment_kind k);

#endif
