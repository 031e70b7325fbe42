/* sweep.h -- a walk over a tier that drops the copies of some segments, and copies that were computed after one of
 * them.
 *
 *   sync ---> list ---> headers, some at a time ---> drops, some at a time ---> overwrite ---> done
 *
 * A sweep runs on threads of the tier and owns everything that it uses, so its caller may stop
 * waiting at any time. If a header cannot be read, the sweep fails and the copy stays: sweep
 * again. A copy with a damaged header counts as missing; overwriting erases its bytes.
 * Thread: any. */
#ifndef SP_STORE_SWEEP_H
#define SP_STORE_SWEEP_H

#include "kv/copy_facts.h"
#include "store/tier.h"

typedef struct sp_sweep sp_sweep;

typedef struct sp_sweep_opts {
    const sp_digest *ids; /* [n] segments, sorted by their bytes; copied */
    size_t n;
    bool keep;      /* keep the plain and fused copies of `ids` and drop all others */
    unsigned after; /* set of 1 << kind: also drop copies of these kinds that were computed after a
                       dropped segment. Their headers are read */
    bool overwrite;   /* then overwrite the space of all dropped copies (SP_TIER_ERASE) */
    bool all_or_none; /* drop nothing unless all headers can be read */
    void (*done)(void *user); /* the last callback, on a thread of the tier; NULL: none */
    void *user;
} sp_sweep_opts;

/* sp_sweep_begin -- Errors: SP_E_NOMEM. Owns: sp_sweep_release, which neither waits nor cancels. Cost: a walk
 * over the tier's keys, a read for each copy of the kinds in `after`, and with `overwrite` the sync of each
 * segment file that has dropped copies. */
sp_err sp_sweep_begin(sp_tier *t, const sp_sweep_opts *o, sp_sweep **out) SP_MUST_CHECK;
/* sp_sweep_wait -- waits until it is done; false: the tier has made no progress for patience_us. */
bool sp_sweep_wait(sp_sweep *s, int64_t patience_us);
/* sp_sweep_cancel -- asks it to end early. */
void sp_sweep_cancel(sp_sweep *s);
/* sp_sweep_result -- the result of a finished sweep; records the detail for this thread. Errors: SP_E_IO, SP_E_NOMEM,
 * SP_E_CANCELED, after trying all copies unless all_or_none. */
sp_err sp_sweep_result(const sp_sweep *s) SP_MUST_CHECK;
/* sp_sweep_gone -- the copies that a finished sweep has dropped: [*n], valid until its release. */
const sp_tier_key *sp_sweep_gone(const sp_sweep *s, size_t *n);
void sp_sweep_release(sp_sweep *s);

/* sp_sweep_run -- begins a sweep and waits for it without a limit. *n_gone may be NULL. */
sp_err sp_sweep_run(sp_tier *t, const sp_sweep_opts *o, int64_t *n_gone) SP_MUST_CHECK;

/* sp_digest_among -- binary search in a sorted list. sp_digests_sort -- by their bytes. */
bool sp_digest_among(const sp_digest *id, const sp_digest *sorted, size_t n);
void sp_digests_sort(sp_digest *ids, size_t n);

/* sp_copy_depends -- the copy is of one of these segments, was computed after one, or over a copy that depends on one.
 * ids: sorted by their bytes. */
bool sp_copy_depends(const sp_copy_facts *f, const sp_digest *ids, size_t n);

#endif
