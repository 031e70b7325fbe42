/* tiers_int.h -- what loading, writing, swapping out and sweeping share. */
#ifndef SP_SERVE_TIERS_INT_H
#define SP_SERVE_TIERS_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "serve/tiers/disk_order.h"
#include "serve/tiers/host_kv.h"
#include "serve/tiers/tiers.h"
#include "store/moves.h"
#include "store/disk/others.h"

typedef struct sp_load sp_load;   /* loads.c */
typedef struct sp_write sp_write; /* writes.c */
typedef struct sp_sharing sp_sharing; /* remote.c */

/* A tier below the device. */
typedef struct sp_level {
    sp_place place;
    sp_tier *tier;   /* NULL: none */
    const char *name; /* of the tier: "host" */
    int n_abandoned; /* loads that have timed out, and are not over: it does not answer */
    double byte_us;  /* time that reading a byte took lately; 0: not known */
    int64_t slow_us; /* loads.c: when one from there was last begun although it was slow ... */
    int64_t slow_pause_us; /* ... and until the next one */
    int64_t late_since_us; /* when the abandoned loads began ... */
    double late_bytes;     /* ... and what those that have ended have read */
    double gap_us, gap_dev_us; /* the remote tier's: the longest silence of lately, and how it varies; 0: not known */
    int64_t busy_since_us; /* when the first of the loads under way began */
    double busy_bytes;     /* that were loaded since */
    double busy_asked;     /* bytes that they and those under way have asked for: of the remote tier (loads.c) */
    double busy_limit_us;  /* that they may take: likewise */
    double busy_cost_us;   /* computing them would take: likewise */
} sp_level;

enum { SP_LEVELS = SP_N_TIERS - 1 }; /* all but the device: tiers.c */

/* Loads (loads.c). */
typedef struct sp_load_list {
    sp_load *first;       /* in progress */
    sp_load *abandoned;   /* timed out: the tier uses their memory until they end */
    int piece;            /* layers of a get; 0: all */
    pthread_mutex_t lock; /* with `more`: a layer has arrived, or a get has ended */
    pthread_cond_t more;
    _Atomic int64_t heard_us; /* when the remote tier's last layer arrived, or the last load from it began ... */
    _Atomic int64_t gap_us;   /* ... and the longest time between two of these */
    void (*failed)(void *user, const sp_copy *copy, sp_miss why);
    void *user;
} sp_load_list;

/* Writes to the disk tier (writes.c). */
typedef struct sp_write_list {
    sp_write *first;
    int64_t n_failed;
    int64_t n_given_up;      /* those of them that waited for a write that hangs */
    bool full;               /* the last write found no room */
    bool stuck;              /* a write hangs: no progress for timeout_us */
    _Atomic int64_t n_taken; /* layers that the tier has taken ... */
    int64_t n_seen;          /* ... their number at the last check ... */
    int64_t took_us;         /* ... and when it last changed */
} sp_write_list;

/* Puts to the remote tier (remote.c). */
typedef struct sp_share_list {
    sp_sharing *first;
    int n;
    int64_t n_blocks;        /* that they hold */
    int64_t yields_since_us; /* when a request first needed these blocks; 0: none does */
    int64_t n_failed;
} sp_share_list;

/* Sweeps (sweeps.c). */
typedef struct sp_sweep_list {
    SP_VEC(sp_digest) erasing; /* sorted: sp_tiers_erasing */
    int n_left;                /* sweeps whose caller has stopped waiting */
} sp_sweep_list;

struct sp_tiers {
    sp_posts *posts;
    sp_level levels[SP_LEVELS]; /* the fastest first */
    sp_disk_order *order;       /* of the disk tier; NULL: none */
    sp_others *others;          /* what its folder has for other models */
    sp_host_kv host_kv, remote_kv;
    sp_kv_pool *pool;
    sp_ledger *ledger;
    sp_digest space;
    const char *salt;
    int64_t timeout_us; /* of loads and writes */
    bool admit_cheaper;
    sp_load_list loads;
    sp_write_list writes;
    sp_share_list shares;
    sp_sweep_list sweeps;
    sp_err err;             /* of the last write or put that failed */
    char detail[256];       /* its explanation */
    SP_VEC(sp_digest) path; /* scratch of swap.c: segments of a path */
};

/* -- levels (tiers.c) ------------------------------------------------------------------------ */

/* sp_tiers_level -- Pre: a tier below the device. */
sp_level *sp_tiers_level(const sp_tiers *t, sp_place place);
/* sp_tiers_highest -- the fastest tier that has the copy, of all or of those below a level; NULL: none. */
sp_level *sp_tiers_highest(sp_tiers *t, const sp_copy *c, const sp_level *below);

/* sp_tiers_until_yield -- how long sp_tiers_yield leaves the puts alone (remote.c); INT64_MAX: nobody has asked. */
int64_t sp_tiers_until_yield(const sp_tiers *t);

/* -- names (swap.c) -------------------------------------------------------------------------- */

/* sp_tiers_key_of -- the name of a copy in a tier, also of a FREE one; uses t->path. Errors: SP_E_NOMEM. */
sp_err sp_tiers_key_of(sp_tiers *t, const sp_copy *c, sp_tier_key *out) SP_MUST_CHECK;
/* sp_tiers_move_of -- what a copy is in a tier. head: of a plain or fused copy; a path copy's own path is in
 * t->path until the next call. Errors: SP_E_NOMEM. */
sp_err sp_tiers_move_of(sp_tiers *t, const sp_copy *c, const sp_digest *head, int n_head,
                        sp_move *out) SP_MUST_CHECK;
/* sp_tiers_n_head -- how many of the segments before a content copy are its head. */
int sp_tiers_n_head(const sp_copy *c);
/* sp_tiers_record_of -- the record that a tier writes for a move; borrows from both. */
void sp_tiers_record_of(const sp_move *m, const sp_copy *c, sp_record *out);

/* -- paths.c -------------------------------------------------------------------------------- */

enum { SP_MOST_HEADERS = 16384 };
/* sp_tiers_adopt_headers -- adopts as FREE those of the store's copies whose headers must be known: path copies,
 * placed ones, and what was measured of the others; if there are more than `most`, the most recently used. Errors:
 * SP_E_NOMEM, SP_E_IO. Cost: a read for each. */
sp_err sp_tiers_adopt_headers(sp_tiers *t, size_t most) SP_MUST_CHECK;
/* sp_tiers_drop_path -- drops a path copy from the store, unless the store has its whole path. */
void sp_tiers_drop_path(sp_tiers *t, const sp_copy *c);
/* sp_tiers_drop_placed -- drops a placed copy from the store. */
void sp_tiers_drop_placed(sp_tiers *t, const sp_copy *c);

/* -- writes.c ------------------------------------------------------------------------------- */

/* sp_tiers_n_storing_blocks -- of copies that are being written. */
int64_t sp_tiers_n_storing_blocks(const sp_tiers *t);
/* sp_tiers_expire_writes -- gives up the writes that wait for one that hangs. */
void sp_tiers_expire_writes(sp_tiers *t);
/* sp_tiers_until_write_expiry -- time until the next write can expire, us; a long time when there is none. */
int64_t sp_tiers_until_write_expiry(const sp_tiers *t);
/* sp_tiers_cancel_writes -- all of them; sp_tiers_cancel_erased: those of what is being erased. */
void sp_tiers_cancel_writes(sp_tiers *t);
void sp_tiers_cancel_erased(sp_tiers *t);

/* -- remote.c ------------------------------------------------------------------------------- */

/* sp_tiers_open_remote -- Errors: SP_E_IO, SP_E_ARG name the key's file or the URL. */
sp_err sp_tiers_open_remote(sp_tiers *t, const sp_tiers_opts *o, sp_tier **out) SP_MUST_CHECK;
/* sp_tiers_cancel_shares -- all of them; sp_tiers_cancel_erased_shares: those of what is being erased. */
void sp_tiers_cancel_shares(sp_tiers *t);
void sp_tiers_cancel_erased_shares(sp_tiers *t);

/* -- sweeps.c ------------------------------------------------------------------------------- */

/* sp_tiers_is_erasing -- the copy has seen something that is being erased. */
bool sp_tiers_is_erasing(const sp_tiers *t, const sp_copy *c);

/* -- swap.c --------------------------------------------------------------------------------- */

/* sp_tiers_open_host -- Errors: SP_E_ARG (host_kv), SP_E_NOMEM. */
sp_err sp_tiers_open_host(sp_tiers *t, const sp_tiers_opts *o, sp_tier **out) SP_MUST_CHECK;
/* sp_tiers_leaving, sp_tiers_useless -- hooks of sp_ledger_tiers; user: the sp_tiers. */
void sp_tiers_leaving(void *user, const sp_copy *c);
void sp_tiers_useless(void *user, const sp_copy *c, unsigned places);

/* -- loads.c -------------------------------------------------------------------------------- */

/* sp_tiers_cancel_loads -- of all that is under way. */
void sp_tiers_cancel_loads(sp_tiers *t);

#endif
