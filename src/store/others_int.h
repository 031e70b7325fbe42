/* others_int.h -- what a store's folder holds for other models and KV types: enough to say that a
 * chunk is there, and nothing to use.
 *
 * A content id is a hash over namespace, salt and tokens, so the ids of another namespace can be
 * computed here, and a file be asked for by its name. What other tenants keep cannot be found that
 * way, since their salt is not known; nor can a text that another model's tokenizer cuts otherwise.
 * Namespaces are those that held a copy at open; whether a file is there is asked each time. */
#ifndef SP_STORE_OTHERS_INT_H
#define SP_STORE_OTHERS_INT_H

#include "base/mem.h"
#include "kv/segment.h"

typedef struct sp_others {
    char *dir; /* of all namespaces */
    SP_VEC(sp_digest) spaces;
} sp_others;

#define SP_SPACE_BYTES 16 /* of a namespace, in its folder's name */

/* sp_others_init -- reads the fixed part of one file of each namespace but `own`, 64 at most. What
 * cannot be read is not there. Errors: SP_E_NOMEM; sp_others_fini is due in any case. */
sp_err sp_others_init(sp_others *o, const char *dir, const sp_digest *own) SP_MUST_CHECK;
void sp_others_fini(sp_others *o);
/* sp_others_have -- see sp_disk_has_elsewhere. */
bool sp_others_have(const sp_others *o, const sp_segment *seg, const sp_segment *head, int n_head,
                    const char *salt);

#endif
