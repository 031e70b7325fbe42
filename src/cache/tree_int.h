/* tree_int.h -- what the files of the knowledge tree share. */
#ifndef SP_CACHE_TREE_INT_H
#define SP_CACHE_TREE_INT_H

#include "cache/node_int.h"

/* sp_tree_root -- where every path begins; no node of any segment. */
const sp_node *sp_tree_root(const sp_tree *t);
/* sp_tree_child -- the child that says what seg says, or NULL. */
sp_node *sp_tree_child(const sp_tree *t, const sp_node *parent, const sp_segment *seg);

#endif
