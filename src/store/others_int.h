/* others_int.h -- what a store's folder holds for other models and KV types: enough to say that a
 * chunk is there, and nothing to use.
 *
 * A content id is a hash over namespace, salt and tokens, so the ids of another namespace can be
 * computed here, and looked up in its index. What other tenants keep cannot be found that way, since
 * their salt is not known; nor can a text that another model's tokenizer cuts otherwise. Indices are
 * read once, at open. */
#ifndef SP_STORE_OTHERS_INT_H
#define SP_STORE_OTHERS_INT_H

#include "kv/segment.h"
#include "store/table_int.h"

typedef struct sp_other {
    sp_digest space;
    sp_table table;
    uint32_t first; /* of the list of all its entries */
} sp_other;

typedef struct sp_others {
    SP_VEC(sp_other) list;
} sp_others;

/* sp_others_init -- reads the index of each namespace but `own`, 64 at most. What cannot be read is
 * not there. Errors: SP_E_NOMEM; sp_others_fini is due in any case. */
sp_err sp_others_init(sp_others *o, const char *dir, const sp_digest *own) SP_MUST_CHECK;
void sp_others_fini(sp_others *o);
/* sp_others_have -- see sp_disk_has_elsewhere; a copy of any of the n_kinds first kinds. */
typedef struct sp_others_query {
    const sp_segment *seg;
    const sp_segment *head; /* [n_head] */
    int n_head;
    const char *salt;
    uint32_t n_kinds;
} sp_others_query;
bool sp_others_have(const sp_others *o, const sp_others_query *q);

#endif
