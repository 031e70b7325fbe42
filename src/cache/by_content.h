/* by_content.h -- the content index: copies of chunks by their text, usable at any position.
 *
 *   content id --> plain, fused and placed copies, and patches over them, computed after any head
 *
 * A chunk is found by its tokens and by the head (the segments before the first chunk), never by the
 * chunks that preceded it: those are facts of the copy. Look-ups go by hash and compare tokens; of a
 * FREE copy only the name is known, so the load compares them. The index owns nothing.
 */
#ifndef SP_CACHE_BY_CONTENT_H
#define SP_CACHE_BY_CONTENT_H

#include "base/mem.h"
#include "cache/ledger.h"

typedef struct sp_content_query {
    const sp_segment *seg;
    const sp_digest *head; /* [n_head] segments before the first chunk */
    int n_head;
    bool ready_only; /* leave out copies that would have to be loaded */
    bool heavy;      /* leave out copies without sp_copy_facts.heavy */
    bool no_path;    /* leave out path copies: see sp_by_content_find */
} sp_content_query;

/* sp_by_content_find -- the whole copy of a chunk after this head, or NULL. kind SP_COPY_PLAIN: one computed after the
 * head alone, which a path copy directly after the head is, too (the alternative path); SP_COPY_FUSED: the newest.
 * Prefers READY to LOADING to FREE, and plain to path. Pins the copy, and uses it if it is READY. Source: FusionRAG
 * section 4.1 (F5). */
const sp_copy *sp_by_content_find(sp_ledger *l, const sp_content_query *q, sp_copy_kind kind,
                                  int64_t now);
/* sp_by_content_peek -- what sp_by_content_find would return, without pinning, using or counting: valid until the
 * ledger changes. */
const sp_copy *sp_by_content_peek(const sp_ledger *l, const sp_content_query *q, sp_copy_kind kind);
/* sp_by_content_peek_measured -- one of those that sp_by_content_all would find, in the best state, or NULL; unfused:
 * no fused one. Pins and uses nothing. */
const sp_copy *sp_by_content_peek_measured(const sp_ledger *l, const sp_content_query *q, bool unfused);
/* sp_by_content_all -- every measured copy after this head, in any tier; READY ones alone with `ready_only`. *out [n]
 * in the arena, pinned. Counts no use: see sp_ledger_use. Errors: SP_E_NOMEM, and nothing is pinned. */
sp_err sp_by_content_all(sp_ledger *l, const sp_content_query *q, sp_arena *arena,
                         const sp_copy ***out, int *n) SP_MUST_CHECK;
/* sp_by_content_why -- why nothing was found. The last 65,536 chunks are remembered (cache/ghosts.h); older ones count
 * as never seen. */
sp_miss sp_by_content_why(const sp_ledger *l, const sp_content_query *q);

#endif
