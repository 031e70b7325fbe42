/* tier.h -- the interface of all tiers below the device: put, get, drop and list copies.
 *
 * A tier keeps copies under keys and returns what was put, or nothing. It may be local or remote, fast
 * or slow, and it may become unavailable, so every operation is asynchronous.
 *
 *     submit ---> queued ---> running ---> done: sp_tier_op_wait, or `done` on the tier's thread
 *                   |  |         |
 *                   |  |         +-- cancel ---> done soon, with SP_E_CANCELED unless it had ended
 *                   |  +-- withdraw ---> done at once with SP_E_CANCELED, on the withdrawing thread
 *                   +-- cancel, its deadline passes ---> done with SP_E_CANCELED, SP_E_IO when its turn comes
 *
 * Only sp_tier_run and sp_tier_op_wait wait. A tier is a sp_tier_type (tier_type.h): how it runs
 * operations. Operations submitted together are adjacent in the queue, so that a remote tier can send them in
 * one message.
 *
 * Invariants
 *  I1  a copy is found only after it was put completely; in a persistent tier, also after a crash.
 *  I2  what a sink gets was verified: the header before the first layer, each layer by its own
 *      checksum. A damaged copy is a miss (SP_E_FORMAT) and is not found again.
 *  I3  every submitted operation ends once, whatever happens; its callbacks are not called
 *      afterwards.
 * Thread: any, for all functions but close.
 */
#ifndef SP_STORE_TIER_H
#define SP_STORE_TIER_H

#include "store/record.h"

typedef struct sp_tier sp_tier;
typedef struct sp_tier_op sp_tier_op;

/* The name of a copy: one copy of each kind is kept for each segment and head; for placed copies, `head` covers all
 * segments that they were computed after. */
typedef struct sp_tier_key {
    sp_digest id;  /* content id of the segment */
    uint64_t head; /* sp_copy_key_head */
    uint32_t kind; /* the caller's */
} sp_tier_key;

sp_tier_key sp_tier_key_of(const sp_record *r);

/* What a tier knows of a copy without reading it. */
typedef struct sp_tier_info {
    sp_tier_key key;
    int32_t n;      /* tokens */
    int64_t bytes;  /* in the tier */
    unsigned facts; /* set of sp_tier_fact */
    int64_t n_uses; /* since it was put */
    float cost_us;  /* time to compute it; 0: unknown */
} sp_tier_info;

/* Known properties of a copy. */
typedef enum sp_tier_fact {
    SP_FACT_EXACT = 1, /* equals a plain forward pass after `before` */
    SP_FACT_STATS = 2, /* attention to `before`: sp_record.inter, order, cci */
    SP_FACT_HEAVY = 4, /* attention received: sp_record.heavy */
} sp_tier_fact;

unsigned sp_tier_facts_of(const sp_record *r);

typedef enum sp_tier_verb {
    SP_TIER_PUT,   /* replaces an older copy of this key. Done: it is durable */
    SP_TIER_GET,   /* the header, then layers [first, first + n_layers) in order */
    SP_TIER_DROP,  /* a missing copy is no error */
    SP_TIER_LIST,  /* `each` for every copy, least recently used first */
    SP_TIER_ERASE, /* overwrites the space of dropped copies; done: nothing of them is left in the tier */
    SP_TIER_TRIM, /* drops the least recently used until the files have at most max_bytes; once, not a budget */
    SP_TIER_SYNC, /* done when all puts and drops submitted before it are done */
} sp_tier_verb;

/* One operation. Callbacks run on a thread of the tier, one at a time, and must not wait for the tier.
 * Everything it points to is borrowed until the operation is done. An error of a callback ends the
 * operation with that error. A get may start again, with `head`, when the copy was replaced meanwhile. */
typedef struct sp_tier_job {
    sp_tier_verb verb;
    bool urgent;     /* runs before operations that are not urgent */
    int64_t deadline_us; /* sp_clock_us: if it has not begun by then, it ends with SP_E_IO; 0: none */
    sp_tier_key key; /* get, drop */
    void *user;      /* of all callbacks */

    const sp_record *record;                           /* put; its checksums are not read */
    sp_err (*source)(void *user, int layer, void *to); /* put: one layer and its notes */
    const sp_tier_key *after; /* [n_after] put: copies that this one continues, in order. If one is
                                 missing, it ends with SP_E_NOTFOUND. The last one is not dropped
                                 before the put is done, nor evicted before the copy */
    int n_after;

    int first, n_layers;                               /* get; n_layers 0: the header alone */
    sp_err (*head)(void *user, const sp_record *head); /* get: may be NULL; valid for the call */
    sp_err (*sink)(void *user, int layer,
                   const void *from); /* get: a verified layer, and its notes: zeros if damaged */

    sp_err (*each)(void *user, const sp_tier_info *info); /* list: must not submit */

    int64_t max_bytes; /* trim */

    void (*done)(void *user, sp_tier_op *op); /* any verb: the last call; NULL: none */
} sp_tier_job;

/* sp_tier_submit -- Errors: SP_E_NOMEM; SP_E_ARG (an invalid record); then nothing was submitted. Owns: release *out
 * once it is no longer needed, which neither waits nor cancels. out may be NULL. */
sp_err sp_tier_submit(sp_tier *t, const sp_tier_job *job, sp_tier_op **out) SP_MUST_CHECK;
/* sp_tier_submit_all -- submits several adjacent operations, or none. Errors: as sp_tier_submit. Owns: ops [n], as
 * *out. */
sp_err sp_tier_submit_all(sp_tier *t, const sp_tier_job *jobs, size_t n,
                          sp_tier_op **ops) SP_MUST_CHECK;
/* sp_tier_run -- submits and waits; a tier may run the operation on the calling thread, before queued
 * ones. Errors: those of sp_tier_op_result. */
sp_err sp_tier_run(sp_tier *t, const sp_tier_job *job) SP_MUST_CHECK;

bool sp_tier_op_is_done(sp_tier_op *op);
/* sp_tier_op_wait -- waits until it is done or timeout_us elapse (negative: no limit); false: it is not done. */
bool sp_tier_op_wait(sp_tier_op *op, int64_t timeout_us);
/* sp_tier_op_cancel -- asks the operation to end early; it is done when its turn comes, not at once. The remote tier
 * receives what it has asked for (store/remote/tier.h I5). */
void sp_tier_op_cancel(sp_tier_op *op);
/* sp_tier_op_withdraw -- as cancel, without that exception; a queued operation is done when this returns. */
void sp_tier_op_withdraw(sp_tier_op *op);
/* sp_tier_op_result -- the result of a finished operation; records the detail for this thread.
 * SP_E_NOTFOUND    no such copy; put: a copy that it continues is missing
 * SP_E_FORMAT      it was damaged, and is no longer found
 * SP_E_UNSUPPORTED it has another version or namespace
 * SP_E_IO          the tier could not read or write, or its deadline passed; put, drop: or another process is the
 *                  writer
 * SP_E_LIMIT       a put larger than the tier
 * SP_E_CANCELED, SP_E_NOMEM, or what a callback returned */
sp_err sp_tier_op_result(sp_tier_op *op) SP_MUST_CHECK;
void sp_tier_op_release(sp_tier_op *op);

/* sp_tier_knows -- whether the tier is known to have a copy of this key; a get may still miss. Cost: a
 * look-up in memory, never a read or a message. */
bool sp_tier_knows(sp_tier *t, const sp_tier_key *key);

/* sp_tier_answers -- false: the tier is unavailable, and operations would end with SP_E_IO. Cost: reads a flag. */
bool sp_tier_answers(sp_tier *t);

/* sp_tier_takes -- the tier is delivering data that its store has sent, so a pause is not the store's. */
bool sp_tier_takes(sp_tier *t);

/* sp_tier_is_writer -- whether this process may put and drop; fixed when the tier is opened. */
bool sp_tier_is_writer(sp_tier *t);

/* sp_tier_has_news -- whether other processes put copies into it; its news then report all copies, older ones
 * included. */
bool sp_tier_has_news(const sp_tier *t);
/* sp_tier_news -- calls `each` for the news since the last call, on the caller's thread. Cost without news: reads a
 * flag. Errors: those of each. */
sp_err sp_tier_news(sp_tier *t, sp_err (*each)(void *user, const sp_tier_info *info), void *user) SP_MUST_CHECK;

/* sp_tier_use -- counts a use of a copy that was served by a higher tier. Cost: a
 * look-up in memory. */
void sp_tier_use(sp_tier *t, const sp_tier_key *key);
/* sp_tier_touch -- the copy becomes the most recently used, without counting a use. Cost: as sp_tier_use. */
void sp_tier_touch(sp_tier *t, const sp_tier_key *key);

typedef struct sp_tier_stats {
    int64_t n_copies, bytes_live;               /* copies and their bytes */
    int64_t bytes_used, bytes_max;              /* with space to be reclaimed; budget, 0: none */
    int64_t n_put, n_got, n_dropped, n_evicted; /* since open */
    int64_t n_missed;                           /* gets of missing copies */
    int64_t n_damaged;                          /* copies found damaged, and quarantined */
    int64_t n_failed;                           /* operations that ended with another error */
    int64_t bytes_read, bytes_written;          /* of copies */
    int64_t bytes_moved;                        /* written a second time to reclaim space */
    int64_t index_bytes;                        /* memory of the index */
} sp_tier_stats;

sp_tier_stats sp_tier_stats_of(sp_tier *t);
/* sp_tier_name -- "host", "disk". */
const char *sp_tier_name(const sp_tier *t);
/* sp_tier_close -- finishes all operations, then closes. Pre: no further submissions. NULL is
 * allowed. */
void sp_tier_close(sp_tier *t);

/* Replacement in a tier with a budget: choices and notifications. All are called on a thread of the tier and must not
 * call the tier; all may be NULL. */
typedef struct sp_tier_evict {
    /* The copy that the replacement policy drops next; false: none may be dropped. If it is NULL or returns a
     * copy that the tier does not have, the tier drops the least recently used. */
    bool (*victim)(void *user, sp_tier_key *out);
    void (*dropped)(void *user, const sp_tier_key *key); /* the tier made room */

    /* Notifications for a policy. Only the disk tier calls these, under its lock, from opening on. */
    void (*added)(void *user, const sp_tier_info *info); /* also: replaced, or its bytes have moved */
    void (*used)(void *user, const sp_tier_key *key, bool counts); /* sp_tier_use, or _touch */
    void (*removed)(void *user, const sp_tier_key *key);           /* for any reason */
    /* A put that continues `after` begins, or has ended (both NULL); one at a time. */
    void (*coming)(void *user, const sp_tier_key *key, const sp_tier_key *after);
    void *user;
} sp_tier_evict;

#endif
