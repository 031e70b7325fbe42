/* tiers_int.h -- what storing, loading and swapping out share. */
#ifndef SP_SERVE_TIERS_INT_H
#define SP_SERVE_TIERS_INT_H

#include <pthread.h>

#include "serve/tiers/disk_order.h"
#include "serve/tiers/host_kv.h"
#include "serve/tiers/tiers.h"
#include "store/moves.h"

typedef struct sp_load sp_load; /* loads.c */

struct sp_tiers {
    sp_io *io;
    sp_disk *disk; /* the I/O thread's; here for what never changes after open. NULL: none */
    sp_disk_order *order; /* of the disk; NULL: none */
    sp_tier *host;        /* NULL: none */
    sp_host_kv host_kv;
    sp_kv_pool *pool;
    sp_ledger *ledger;
    sp_digest space;
    const char *salt;
    void (*load_failed)(void *user, const sp_copy *copy, sp_miss why);
    void *user;

    struct sp_storing *storing; /* tiers.c */
    int64_t n_failed;   /* writes */
    int64_t n_given_up; /* of those: they waited for one that hangs */
    bool full;          /* the last write found no room */
    bool stuck;         /* a write hangs: it has taken nothing in for timeout_us */
    int64_t n_put;      /* sp_disk_n_read when that was last looked at ... */
    int64_t put_us;     /* ... and since when it has been so */
    sp_err err;       /* of the last write that failed */
    char detail[256]; /* its explanation */

    sp_load *loading;     /* under way */
    sp_load *abandoned;   /* timed out: their blocks and memory are the tier's until they end */
    int n_abandoned[2];   /* by host, disk: the tier does not answer */
    int64_t timeout_us;
    int piece;            /* layers of a get; 0: all */
    pthread_mutex_t lock; /* with `more`: a layer has arrived, or a get has ended */
    pthread_cond_t more;
    int64_t busy_since_us; /* when the first of these began */
    double busy_bytes;     /* that were loaded since */
    bool admit_cheaper;
    double byte_us[2];      /* host, disk: time that reading a byte took lately; 0: not known */
    SP_VEC(sp_digest) path; /* scratch: sp_tiers_path_of */
};

/* sp_tiers_key_of -- the name of a copy in a tier, also of a FREE one; uses t->path. Errors: SP_E_NOMEM. */
sp_err sp_tiers_key_of(sp_tiers *t, const sp_copy *c, sp_tier_key *out) SP_MUST_CHECK;
/* sp_tiers_move_of -- what a copy is in a tier. head: of a content copy; a path copy's own path is in
 * t->path until the next call. Errors: SP_E_NOMEM. */
sp_err sp_tiers_move_of(sp_tiers *t, const sp_copy *c, const sp_digest *head, int n_head,
                        sp_move *out) SP_MUST_CHECK;

/* -- paths.c -------------------------------------------------------------------------------- */

/* sp_tiers_adopt_paths -- path copies in the store enter the ledger, FREE; of very many those that were
 * used last. Errors: SP_E_NOMEM, SP_E_IO. Cost: a read for each. */
sp_err sp_tiers_adopt_paths(sp_tiers *t) SP_MUST_CHECK;
/* sp_tiers_put_path -- sp_disk_put, after what the copy continues. Errors: SP_E_NOTFOUND: the store does not
 * have that. Thread: I/O. */
sp_err sp_tiers_put_path(const sp_tiers *t, const sp_disk_key *key, const sp_disk_copy *copy,
                         const uint32_t *blocks) SP_MUST_CHECK;
/* sp_tiers_drop_path -- drops a path copy from the store, unless the store has all that it continues. */
void sp_tiers_drop_path(sp_tiers *t, const sp_copy *c);

/* -- tiers.c -------------------------------------------------------------------------------- */

/* sp_tiers_n_storing_blocks -- of copies that are being written. */
int64_t sp_tiers_n_storing_blocks(const sp_tiers *t);

/* sp_tiers_expire_writes -- gives up the writes that wait for one that hangs. */
void sp_tiers_expire_writes(sp_tiers *t);
/* sp_tiers_until_write_expiry -- how long until that may be, us; a long time when nothing is written. */
int64_t sp_tiers_until_write_expiry(const sp_tiers *t);

/* -- swap.c --------------------------------------------------------------------------------- */

/* sp_tiers_open_host -- Errors: SP_E_ARG (host_kv), SP_E_NOMEM. */
sp_err sp_tiers_open_host(sp_tiers *t, const sp_tiers_opts *o) SP_MUST_CHECK;
/* sp_tiers_leaving, sp_tiers_useless -- hooks of sp_ledger_tiers; user: the sp_tiers. */
void sp_tiers_leaving(void *user, const sp_copy *c);
void sp_tiers_useless(void *user, const sp_copy *c, unsigned places);

/* -- loads.c -------------------------------------------------------------------------------- */

/* sp_tiers_cancel_loads -- of all that is under way. */
void sp_tiers_cancel_loads(sp_tiers *t);
/* sp_tiers_end_loads -- cancels what is under way, and waits for it. */
void sp_tiers_end_loads(sp_tiers *t);

#endif
