/* tier.h -- the one interface of all tiers below the device: put, get, drop and list copies.
 *
 * A tier keeps copies under keys and gives back what was put, or nothing. It may be local or remote,
 * fast or slow, and it may go away: so every operation is asynchronous.
 *
 *     submit ---> queued ---> running ---> done: sp_tier_op_wait, or `done` on the tier's thread
 *                   |  |         |
 *                   |  |         +-- cancel ---> done soon, with SP_E_CANCELED unless it had ended
 *                   |  +-- withdraw ---> done with SP_E_CANCELED, at once, on the thread that withdraws
 *                   +-- cancel, its deadline passes ---> done with SP_E_CANCELED, SP_E_IO when its turn comes
 *
 * Only sp_tier_run and sp_tier_op_wait wait. A tier is a sp_tier_type (tier_type.h): how it runs
 * operations. Several that are submitted together wait one after another, so that a tier that is far away can
 * send them in one message.
 *
 * Invariants
 *  I1  a copy is found only when it was put whole; in a tier that lasts, also after a crash.
 *  I2  what a sink gets was verified: the header before the first layer, each layer by its own
 *      checksum. A copy that is damaged is a miss (SP_E_FORMAT), and is not found again.
 *  I3  every submitted operation is done once, whatever happens; its callbacks are not called
 *      afterwards.
 * Thread: any, for all functions but close.
 */
#ifndef SP_STORE_TIER_H
#define SP_STORE_TIER_H

#include "store/record.h"

typedef struct sp_tier sp_tier;
typedef struct sp_tier_op sp_tier_op;

/* The name of a copy: one of each kind is kept for each segment and head; of placed copies one for all that they were
 * computed after. */
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
    int64_t bytes;  /* that it takes in the tier */
    unsigned facts; /* set of sp_tier_fact */
    int64_t n_uses; /* since it was put */
    float cost_us;  /* time that computing it took; 0: unknown */
} sp_tier_info;

/* What a copy is known to be, or to have. */
typedef enum sp_tier_fact {
    SP_FACT_EXACT = 1, /* equals a plain forward pass after `before` */
    SP_FACT_STATS = 2, /* attention to `before`: sp_record.inter, order, cci */
    SP_FACT_HEAVY = 4, /* attention received: sp_record.heavy */
} sp_tier_fact;

unsigned sp_tier_facts_of(const sp_record *r);

typedef enum sp_tier_verb {
    SP_TIER_PUT,   /* in place of an older copy of this key. Done: it is durable */
    SP_TIER_GET,   /* the header, then layers [first, first + n_layers) in order */
    SP_TIER_DROP,  /* a missing copy is no error */
    SP_TIER_LIST,  /* `each` for every copy, least recently used first */
    SP_TIER_ERASE, /* overwrites what dropped copies left; done: nothing of them is in the tier */
    SP_TIER_TRIM, /* drops the least recently used until the files have at most max_bytes; once, not a budget */
    SP_TIER_SYNC, /* done when all puts and drops submitted before it are */
} sp_tier_verb;

/* One operation. Callbacks run on a thread of the tier, one at a time, and must not wait for the tier.
 * Everything it points to is borrowed until the operation is done. An error of a callback ends the
 * operation with that error. A get may start again, with `head`, when the copy was replaced meanwhile. */
typedef struct sp_tier_job {
    sp_tier_verb verb;
    bool urgent;     /* before operations that are not urgent */
    int64_t deadline_us; /* sp_clock_us: if it has not begun by then, it ends with SP_E_IO; 0: none */
    sp_tier_key key; /* get, drop */
    void *user;      /* of all callbacks */

    const sp_record *record;                           /* put; its checksums are not read */
    sp_err (*source)(void *user, int layer, void *to); /* put: one layer and its notes */
    const sp_tier_key *after; /* [n_after] put: copies that this one continues, in order: without
                                 one of them it ends with SP_E_NOTFOUND. The last stays until the
                                 put is done, and leaves the tier after the copy */
    int n_after;

    int first, n_layers;                               /* get; n_layers 0: the header alone */
    sp_err (*head)(void *user, const sp_record *head); /* get: may be NULL; valid for the call */
    sp_err (*sink)(void *user, int layer,
                   const void *from); /* get: a verified layer, and its notes: zeros if damaged */

    sp_err (*each)(void *user, const sp_tier_info *info); /* list: must not submit */

    int64_t max_bytes; /* trim */

    void (*done)(void *user, sp_tier_op *op); /* any verb: the last call; NULL: none */
} sp_tier_job;

/* sp_tier_submit -- Errors: SP_E_NOMEM; SP_E_ARG (an invalid record); nothing was
 * submitted then. Owns: release *out once it is no longer needed; that neither waits nor cancels. out
 * may be NULL. */
sp_err sp_tier_submit(sp_tier *t, const sp_tier_job *job, sp_tier_op **out) SP_MUST_CHECK;
/* sp_tier_submit_all -- several, one after another. Errors: as sp_tier_submit; then none was submitted. Owns:
 * ops [n] as *out. */
sp_err sp_tier_submit_all(sp_tier *t, const sp_tier_job *jobs, size_t n,
                          sp_tier_op **ops) SP_MUST_CHECK;
/* sp_tier_run -- submits and waits; a tier may run the operation on the calling thread, before queued
 * ones. Errors: those of sp_tier_op_result. */
sp_err sp_tier_run(sp_tier *t, const sp_tier_job *job) SP_MUST_CHECK;

bool sp_tier_op_is_done(sp_tier_op *op);
/* sp_tier_op_wait -- until it is done, or timeout_us elapse (negative: no limit); false: it is not
 * done. */
bool sp_tier_op_wait(sp_tier_op *op, int64_t timeout_us);
/* sp_tier_op_cancel -- asks the operation to end early; it is done when its turn comes, not at once. The remote tier
 * receives what it has asked for (store/remote/tier.h I5). */
void sp_tier_op_cancel(sp_tier_op *op);
/* sp_tier_op_withdraw -- the same, without an exception; a queued operation is done when this returns. */
void sp_tier_op_withdraw(sp_tier_op *op);
/* sp_tier_op_result -- of one that is done; records the detail for this thread.
 * SP_E_NOTFOUND    no such copy; put: a copy that it continues is missing
 * SP_E_FORMAT      it was damaged, and is no longer found
 * SP_E_UNSUPPORTED it is of another version or namespace
 * SP_E_IO          the tier could not read or write, or was late; for a put or drop also: another process is the
 *                  writer
 * SP_E_LIMIT       a put larger than the tier
 * SP_E_CANCELED, SP_E_NOMEM, or what a callback returned */
sp_err sp_tier_op_result(sp_tier_op *op) SP_MUST_CHECK;
void sp_tier_op_release(sp_tier_op *op);

/* sp_tier_knows -- the tier is known to have a copy of this key; a get may still miss. Cost: a
 * look-up in memory, never a read or a message. */
bool sp_tier_knows(sp_tier *t, const sp_tier_key *key);

/* sp_tier_answers -- false: the tier is lost for now, operations would end with SP_E_IO. Cost: reads a flag. */
bool sp_tier_answers(sp_tier *t);

/* sp_tier_takes -- the tier is handing over what its store has sent: it is not the store that is silent. */
bool sp_tier_takes(sp_tier *t);

/* sp_tier_is_writer -- this process may put and drop; fixed when the tier is opened. */
bool sp_tier_is_writer(sp_tier *t);

/* sp_tier_has_news -- other processes put copies there, and news tell of all copies, also of those that were there
 * before it was opened. */
bool sp_tier_has_news(const sp_tier *t);
/* sp_tier_news -- `each` for the news since the last call, on the caller's thread. Cost: one look at a flag when there
 * are none. Errors: those of each. */
sp_err sp_tier_news(sp_tier *t, sp_err (*each)(void *user, const sp_tier_info *info), void *user) SP_MUST_CHECK;

/* sp_tier_use -- counts a use of a copy that was served by a higher tier. Cost: a
 * look-up in memory. */
void sp_tier_use(sp_tier *t, const sp_tier_key *key);
/* sp_tier_touch -- the copy becomes the most recently used, without counting a use. Cost: as sp_tier_use. */
void sp_tier_touch(sp_tier *t, const sp_tier_key *key);

typedef struct sp_tier_stats {
    int64_t n_copies, bytes_live;               /* copies, and the bytes that they take */
    int64_t bytes_used, bytes_max;              /* with space to be reclaimed; budget, 0: none */
    int64_t n_put, n_got, n_dropped, n_evicted; /* since open */
    int64_t n_missed;                           /* gets of what is not there */
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

/* How a tier that keeps to a budget chooses what to drop, and says what it dropped. All are called on a
 * thread of the tier and must not call it; all may be NULL. */
typedef struct sp_tier_evict {
    /* The copy that the replacement policy drops next; false: none may go. NULL, or a copy that is not
     * there: the tier drops the least recently used. */
    bool (*victim)(void *user, sp_tier_key *out);
    void (*dropped)(void *user, const sp_tier_key *key); /* the tier made room */

    /* What a policy must know. The disk tier alone calls these, under its lock, from opening on. */
    void (*added)(void *user, const sp_tier_info *info); /* or replaced, or its bytes have moved */
    void (*used)(void *user, const sp_tier_key *key, bool counts); /* sp_tier_use, or _touch */
    void (*removed)(void *user, const sp_tier_key *key);           /* for any reason */
    /* A put that continues `after` begins, or is over (both NULL); one at a time. */
    void (*coming)(void *user, const sp_tier_key *key, const sp_tier_key *after);
    void *user;
} sp_tier_evict;

#endif
