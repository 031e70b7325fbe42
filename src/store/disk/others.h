/* others.h -- what a store's folder has for other models and KV types: only whether it has a chunk, to explain misses.
 *
 * A content id is a hash over namespace, salt and tokens, so the ids of another namespace can be
 * computed here and looked up in its index. Copies of other tenants cannot be found that way, since
 * their salt is unknown; neither can a text that another model tokenizes differently. Indices are
 * read once, when it is opened. */
#ifndef SP_STORE_DISK_OTHERS_H
#define SP_STORE_DISK_OTHERS_H

#include "kv/segment.h"

typedef struct sp_others sp_others;

/* sp_others_open -- reads the index of each namespace except `own`, at most 64. Unreadable ones are skipped. Errors:
 * SP_E_NOMEM. */
sp_err sp_others_open(const char *dir, const sp_digest *own, sp_others **out) SP_MUST_CHECK;
void sp_others_close(sp_others *o);
/* sp_others_have -- whether the folder has a copy of these tokens, of any of the first n_kinds kinds, in another
 * namespace. For reporting only; never loaded. Thread: any. Cost: a hash of these tokens for each namespace. */
typedef struct sp_others_query {
    const sp_segment *seg;
    const sp_segment *head; /* [n_head] */
    int n_head;
    const char *salt;
    uint32_t n_kinds;
} sp_others_query;
bool sp_others_have(const sp_others *o, const sp_others_query *q);

#endif
