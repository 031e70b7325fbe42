/* tree.h -- relation paths as text, and as dependency trees: entities and relations merged by common
 * prefix, in pre-order. The functions on trees and their types are public: include/spolia.h. */
#ifndef SP_RETRIEVE_GRAPH_TREE_H
#define SP_RETRIEVE_GRAPH_TREE_H

#include "base/mem.h"
#include "spolia.h"

/* sp_path_n_segments -- entities and relations of a path, alternating: 2 n_hops + 1. */
static inline int sp_path_n_segments(const sp_graph_path *p)
{
    return 2 * p->n_hops + 1;
}

/* sp_path_segment -- appends the text of segment i (SP_GRAPH_TRIPLETS: only of a path of one hop). The segments of a
 * path concatenated are its text; each but the first begins with a blank or a comma, so each can be tokenized alone.
 * The text of a segment depends only on the segments before it. */
sp_err sp_path_segment(const sp_graph_path *p, sp_graph_style style, int i,
                       sp_bytes *out) SP_MUST_CHECK;

/* sp_path_text -- appends the whole text. */
sp_err sp_path_text(const sp_graph_path *p, sp_graph_style style, sp_bytes *out) SP_MUST_CHECK;

#endif
