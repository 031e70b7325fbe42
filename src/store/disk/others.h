/* others.h -- what a store's folder holds for other models and KV types: enough to say that a
 * chunk is there, and nothing to use.
 *
 * A content id is a hash over namespace, salt and tokens, so the ids of another namespace can be
 * computed here, and looked up in its index. What other tenants keep cannot be found that way, since
 * their salt is not known; nor can a text that another model's tokenizer cuts otherwise. Indices are
 * read once, at open. */
#ifndef SP_STORE_DISK_OTHERS_H
#define SP_STORE_DISK_OTHERS_H

#include "kv/segment.h"

typedef struct sp_others sp_others;

/* sp_others_open -- reads the index of each namespace but `own`, 64 at most. What cannot be read is
 * not there. Errors: SP_E_NOMEM. */
sp_err sp_others_open(const char *dir, const sp_digest *own, sp_others **out) SP_MUST_CHECK;
void sp_others_close(sp_others *o);
/* sp_others_have -- the folder holds a copy of any of the n_kinds first kinds for another namespace whose tokens
 * are the same. For reporting only; never loaded. Thread: any. Cost: for each namespace the hash of these tokens. */
typedef struct sp_others_query {
    const sp_segment *seg;
    const sp_segment *head; /* [n_head] */
    int n_head;
    const char *salt;
    uint32_t n_kinds;
} sp_others_query;
bool sp_others_have(const sp_others *o, const sp_others_query *q);

#endif
