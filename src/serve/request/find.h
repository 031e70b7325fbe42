/* find.h -- finds a copy for each segment, as the policy decides; copies stay pinned until the request lets go. */
#ifndef SP_SERVE_FIND_H
#define SP_SERVE_FIND_H

#include "base/mem.h"
#include "reuse/reuse.h"
#include "spolia.h"

typedef struct sp_request_lookup {
    sp_found *found; /* [n_segs] */
    int64_t at;      /* the ledger's n_added at the look-up; -1: not looked up */
    sp_arena arena;  /* scratch of the last look-up */
} sp_request_lookup;

/* sp_request_input -- the request as policies see it. */
sp_reuse_input sp_request_input(const sp_request *r);
/* sp_request_scratch -- zeroed memory for an object of each segment, until the next call or look-up; or NULL. */
void *sp_request_scratch(sp_request *r, size_t size);
/* sp_request_peek_chunk -- the copy that its policy may take for segment i at any position, or NULL. Pins nothing. */
const sp_copy *sp_request_peek_chunk(const sp_request *r, int i);
/* sp_request_find -- finds and pins the copies that serve its segments. Does nothing if the ledger has no new copies
 * since the last look-up. */
sp_err sp_request_find(sp_request *r) SP_MUST_CHECK;
/* sp_request_find_again -- a newer look-up replaces found[], but the report keeps where copies were, or why they were
 * missing, when the request arrived. computed: new copies are its own. */
sp_err sp_request_find_again(sp_request *r, bool ready_only, bool computed) SP_MUST_CHECK;
/* sp_request_look -- what it would find now, pinned, in found [n_segs]: a preview that does not count as a use.
 * sp_request_unpin ends it. */
sp_err sp_request_look(sp_request *r, sp_found *found) SP_MUST_CHECK;
void sp_request_unpin(sp_request *r, sp_found *found);
/* sp_request_let_go -- releases its plans and its pins. */
void sp_request_let_go(sp_request *r);

#endif
