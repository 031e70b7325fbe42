/* tree.h -- the copies of one tenant as a tree, for inspection of the cache: the parent of a copy is what it was
 * computed after.
 *
 *   (none)
 *     +-- head, a path copy
 *     |     +-- chunk, path             path copies continue path copies, as in by_path.h
 *     |     |     +-- chunk, path
 *     |     +-- chunk, plain            plain, fused and placed copies are below the end of their head
 *     |     +-- chunk, placed
 *     +-- chunk, plain                  ... or at the top, if no path copy is their head
 *
 * A page is `limit` copies, most used first, equal ones by name. A copy that is used between two pages may be missed.
 *
 * The tenant of a copy that has been on the device is known. An adopted copy below a path copy has the same tenant,
 * since ids include the salt; for an adopted path copy at the top, the id is recomputed from its tokens and the
 * reader's salt. Copies whose tenant cannot be shown are not listed. Source: RAGCache section 5.1 (the knowledge
 * tree). */
#ifndef SP_CACHE_TREE_H
#define SP_CACHE_TREE_H

#include "cache/ledger.h"

/* The reader. Borrowed for the call. */
typedef struct sp_tree_reader {
    const sp_digest *space; /* of content ids */
    const char *salt;       /* NULL: none */
    uint64_t tenant;        /* sp_segment.tenant of this salt */
} sp_tree_reader;

/* Where a page begins: after the copy of this name with this many uses. Name 0: at the first. */
typedef struct sp_tree_place {
    int64_t n_uses;
    uint64_t name;
} sp_tree_place;

typedef struct sp_tree_query {
    sp_tree_reader reader;
    const sp_copy *parent; /* of sp_tree_find; NULL: none */
    sp_tree_place after;
    int limit; /* >= 1 */
} sp_tree_query;

typedef struct sp_tree_node {
    const sp_copy *copy; /* valid until the ledger changes */
    int64_t n_below;     /* copies directly below it */
} sp_tree_node;

/* sp_tree_list -- nodes [limit], *n of them; *more: further ones exist. Pins and uses nothing.
 * Errors: SP_E_NOMEM. Cost: O(copies); at the top level, times their depth. */
sp_err sp_tree_list(const sp_ledger *l, const sp_tree_query *q, sp_tree_node *nodes, int *n, bool *more) SP_MUST_CHECK;

/* sp_tree_find -- the reader's path copy of this name (sp_copy.name), or NULL. Cost: O(copies). */
const sp_copy *sp_tree_find(const sp_ledger *l, const sp_tree_reader *reader, uint64_t name);

#endif
