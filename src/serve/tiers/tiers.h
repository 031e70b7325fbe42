/* tiers.h -- moves copies between the device and the tiers below it, in the background.
 *
 *   load    FREE -> LOADING: blocks, and a get of the fastest tier that has the copy (loads.c);
 *           READY once it has filled them; otherwise the next tier, or a miss
 *   store   a READY plain, fused or path copy, pinned until it is written to disk (writes.c)
 *   leave   a copy that the device evicts goes to the host tier, unless it is there already; copies of
 *           chunks that are on disk, too: the host is faster (swap.c)
 *   share   a plain or fused copy goes to the remote tier, and copies of others become known (remote.c)
 *   sweep   copies of unwanted segments leave all tiers (sweeps.c)
 *
 * All of them take one road: an operation of a tier (store/tier.h), on a thread of the tier; its end comes back
 * as a post (posts.h). When a context opens, every name in the store becomes a FREE copy in the ledger.
 * Thread: the engine's, unless a function says otherwise. No function waits for a tier without a limit. */
#ifndef SP_SERVE_TIERS_H
#define SP_SERVE_TIERS_H

#include "base/mem.h"
#include "cache/cost.h"
#include "cache/ledger.h"
#include "serve/tiers/posts.h"
#include "store/sweep.h"

typedef struct sp_tiers sp_tiers;

typedef struct sp_tiers_opts {
    const char *dir;     /* of the store; NULL: none */
    int64_t host_bytes;  /* budget of the host tier; 0: none */
    const char *remote;     /* URL of the remote tier (store/remote/redis/redis.h); NULL: none */
    const char *remote_key; /* file of its key; NULL: none */
    const char *remote_ca;  /* sp_tls_connect */
    int64_t remote_ttl_s;   /* 0: none */
    const char *remote_kv;  /* type that copies have there: "q8_0"; NULL: as on the device */
    int remote_compress;    /* level of zstd; 0: none */
    bool remote_must;       /* opening waits for its server */
    const sp_digest *remote_space; /* `space`, and whatever else makes the KV of two processes differ */
    const char *host_kv; /* type that keys and values have there: "q8_0"; NULL: as on the device */
    int64_t max_bytes;   /* of all copies in the folder; 0: what it holds and half of what is free */
    const char *store_evict; /* which copy leaves the store: a name of cache/evict.h; NULL: "lru" */
    const sp_cost *cost;     /* borrowed: what computing tokens costs; NULL: default */
    int64_t timeout_us;      /* of a load or a write: sp_tiers_expire */
    bool admit_cheaper;      /* sp_tiers_admits */
    bool by_layers;          /* the first layers of all copies come before the last ones of any */
    const sp_digest *space;
    const char *salt; /* borrowed; or NULL */
    sp_kv_pool *pool;
    sp_ledger *ledger;
    /* Called before a copy whose load failed becomes FREE again. */
    void (*load_failed)(void *user, const sp_copy *copy, sp_miss why);
    void *user;
} sp_tiers_opts;

/* sp_tiers_check_remote -- url, kv: NULL, or the options. Errors: SP_E_ARG names the option of the remote tier that no
 * server could have. */
sp_err sp_tiers_check_remote(const char *url, const char *kv, int compress) SP_MUST_CHECK;
/* sp_tiers_open -- Pre: sp_tiers_check_remote. Errors: SP_E_IO names the folder, SP_E_NOMEM. */
sp_err sp_tiers_open(const sp_tiers_opts *o, sp_tiers **out) SP_MUST_CHECK;
/* sp_tiers_close -- Pre: sp_tiers_end. NULL is allowed. */
void sp_tiers_close(sp_tiers *t);
/* sp_tiers_has_store -- there is a disk tier: functions that name the store need one. */
bool sp_tiers_has_store(const sp_tiers *t);

/* A copy in a tier: its segment, and the segments before the first chunk. */
typedef struct sp_tiers_key {
    const sp_copy *copy;
    const sp_segment *seg;
    const sp_digest *head; /* [n_head] */
    int n_head;
    int64_t patience_us; /* of loads: a disk that takes less is used, however fast computing is */
} sp_tiers_key;

/* sp_tiers_load -- begins to load a FREE copy, leaving `spare` blocks of the pool free. is_ahead: the request is
 * not the next one: the copy is loaded whole, after the copies of the next one; otherwise in pieces, the first
 * layers of all copies before the others. Errors: SP_E_NOKV, SP_E_NOMEM, SP_E_IO (its tier does not answer: a load
 * from there has timed out and not ended); the copy stays FREE. If the load fails later, the copy becomes FREE without
 * a place. */
sp_err sp_tiers_load(sp_tiers *t, const sp_tiers_key *key, bool is_ahead, int64_t spare,
                     int64_t now) SP_MUST_CHECK;

/* sp_tiers_expire -- gives up loads that have brought no layer for timeout_us: their copies become FREE and are
 * missed (SP_MISS_LATE). Their blocks are released when the tier is done with them; late data is not read. A
 * write without progress for as long keeps its copy pinned until it ends; writes that wait for it are given
 * up and counted as failed, and no other begins. */
void sp_tiers_expire(sp_tiers *t);
/* sp_tiers_until_expiry -- time until the next load or write can expire, us; a long time when there is none. */
int64_t sp_tiers_until_expiry(const sp_tiers *t);
/* sp_tiers_poll -- acknowledges operations that have ended. Call it before a step. */
void sp_tiers_poll(sp_tiers *t);
/* sp_tiers_yield -- a request lacks memory. Puts in the remote tier that hold some are given up if they have taken
 * long since this was first said. true: blocks may be free now. */
bool sp_tiers_yield(sp_tiers *t);
/* sp_tiers_is_busy -- loads, writes or sweeps are under way. */
bool sp_tiers_is_busy(const sp_tiers *t);
/* sp_tiers_wait_for -- waits until one of them ends, a layer arrives, sp_tiers_poke is called or `us` elapse; then
 * polls. */
void sp_tiers_wait_for(sp_tiers *t, int64_t us);
/* sp_tiers_poke -- ends such a wait, or the next one. t may be NULL. Thread: any. */
void sp_tiers_poke(sp_tiers *t);
/* sp_tiers_wait -- waits until a load or a write has ended or timed out. Pre: one is under way. */
void sp_tiers_wait(sp_tiers *t);
/* sp_tiers_drain -- waits until no load or write is under way; those that time out no longer count. */
void sp_tiers_drain(sp_tiers *t);
/* sp_tiers_end -- before closing: ends loads and waits for writes; false: a tier has not answered for timeout_us,
 * and still has memory of the pool. */
bool sp_tiers_end(sp_tiers *t);
/* sp_tiers_lose -- the device has lost its memory: loads and writes are cancelled. Waits for them like sp_tiers_end;
 * operations still under way then keep their own blocks and are not acknowledged. */
void sp_tiers_lose(sp_tiers *t);

/* sp_tiers_n_there -- layers of a LOADING copy that can be read, and with the first what sp_ledger_load_head
 * says; -1: the header has not arrived. left_us: estimated time for the rest, from recent loads; 0: unknown. NULL is
 * allowed. */
int sp_tiers_n_there(sp_tiers *t, const sp_copy *c, double *left_us);
/* sp_tiers_await -- waits until a layer of a LOADING copy can be read; false: it did not arrive by
 * `deadline_us` (sp_clock_us), or the load failed. */
bool sp_tiers_await(sp_tiers *t, const sp_copy *c, int layer, int64_t deadline_us);

/* sp_tiers_admits -- loading the copy from there (SP_AT_HOST, SP_AT_DISK) is expected to cost less than
 * computing it did; true while one of the two is unknown, and unless admit_cheaper is set. */
bool sp_tiers_admits(const sp_tiers *t, const sp_copy *c, sp_place to);

/* sp_tiers_replicate -- copies a frequently used path copy near the root to the host tier while it is on the
 * device, so that its descendants survive a loss of the device. Source: RAGCache section 6 (R8). */
void sp_tiers_replicate(sp_tiers *t, const sp_copy *c);

/* sp_tiers_store -- begins to write a READY copy; does nothing if a write is under way. Errors:
 * SP_E_NOMEM. A failed write is logged and counted. */
sp_err sp_tiers_store(sp_tiers *t, const sp_tiers_key *key) SP_MUST_CHECK;
/* sp_tiers_store_path -- the same for a path copy, after its parent. Does nothing if the store has the copy,
 * lacks its parent or is written by another process, or if more than max_blocks would wait. */
sp_err sp_tiers_store_path(sp_tiers *t, const sp_copy *copy, int64_t max_blocks) SP_MUST_CHECK;
/* sp_tiers_share -- begins to put a READY plain or fused copy into the remote tier, unless it is there, there is none,
 * or much is under way. Errors: SP_E_NOMEM. A put that fails is a line of the debug log. */
sp_err sp_tiers_share(sp_tiers *t, const sp_tiers_key *key) SP_MUST_CHECK;
/* sp_tiers_is_sharing -- the copy is on its way to the remote tier. */
bool sp_tiers_is_sharing(const sp_tiers *t, const sp_copy *copy);
/* sp_tiers_share_rest -- the same for all copies that the tier lacks, as many as may be under way. To be called again
 * until none is left. Errors: SP_E_IO (a put has failed since the first call), SP_E_NOMEM. */
typedef struct sp_tiers_rest {
    bool began;
    int64_t n_left, n_failed; /* that the tier lacks still; puts that had failed before */
} sp_tiers_rest;
sp_err sp_tiers_share_rest(sp_tiers *t, sp_tiers_rest *rest) SP_MUST_CHECK;
/* sp_tiers_use -- a request reads this copy: the order in which the store drops copies is updated. */
void sp_tiers_use(sp_tiers *t, const sp_copy *copy);
/* sp_tiers_looks_ahead -- whether the store's policy reads which copies waiting requests will use. */
bool sp_tiers_looks_ahead(const sp_tiers *t);
/* sp_tiers_look, sp_tiers_expect -- as sp_ledger_look and sp_ledger_expect, for the store. t may be NULL. */
void sp_tiers_look(sp_tiers *t);
void sp_tiers_expect(sp_tiers *t, const sp_copy *copy, float weight);
/* sp_tiers_hold -- copies of these segments stay in the store; replaces the previous list. ids:
 * sorted by their bytes. Errors: SP_E_NOMEM, never for n 0. */
sp_err sp_tiers_hold(sp_tiers *t, const sp_digest *ids, size_t n) SP_MUST_CHECK;
/* sp_tiers_has_all -- the store has the copy, with all that was measured of it. */
bool sp_tiers_has_all(const sp_copy *copy);
/* sp_tiers_is_storing -- the copy is being written, and the store answers. */
bool sp_tiers_is_storing(const sp_tiers *t, const sp_copy *copy);
/* sp_tiers_stored -- after a write: SP_OK when the store has the copy (without one: the remote tier); else why the
 * last write failed. */
sp_err sp_tiers_stored(const sp_tiers *t, const sp_copy *copy) SP_MUST_CHECK;
int64_t sp_tiers_n_failed(const sp_tiers *t);
/* sp_tiers_has_missed -- the store answers again, and did not get all copies while it did not answer. */
bool sp_tiers_has_missed(const sp_tiers *t);
/* sp_tiers_tier -- the store itself: statistics, lists; NULL: none. */
sp_tier *sp_tiers_tier(const sp_tiers *t);

/* sp_tiers_has -- the store is known to have a copy of this name and kind. Thread: any. */
bool sp_tiers_has(const sp_tiers *t, const sp_tiers_key *key, sp_copy_kind kind);
/* sp_tiers_keeps -- the same of the store or, without one, of the remote tier. */
bool sp_tiers_keeps(const sp_tiers *t, const sp_tiers_key *key, sp_copy_kind kind);
/* sp_tiers_writes -- this process writes the store. */
bool sp_tiers_writes(const sp_tiers *t);
/* A segment that no copy serves. */
typedef struct sp_tiers_miss {
    const sp_segment *segs;
    const sp_digest *ids; /* of segs; the first n_head are the head */
    int i, n_head;
    bool unread; /* the policy does not look for copies of chunks */
    sp_miss why; /* as far as the ledger knows */
} sp_tiers_miss;

/* sp_tiers_explain -- why it is missed, from what the store has: copies that the policy does not look for, or copies
 * for another model or KV type. t may be NULL. */
sp_miss sp_tiers_explain(const sp_tiers *t, const sp_tiers_miss *m);
/* sp_tiers_before -- what the stored fused copy was computed after, [*n] in the arena; *n is 0 when
 * the store (without one: the remote tier) has none that can be read. Waits for it. Errors: SP_E_NOMEM; SP_E_IO: it
 * does not answer in time. */
sp_err sp_tiers_before(sp_tiers *t, const sp_tiers_key *key, sp_arena *arena,
                       const sp_digest **before, int *n) SP_MUST_CHECK;

/* -- sweeps ---------------------------------------------------------------------------------- */

/* sp_copy_has_seen -- the copy depends on one of these segments (sp_copy_depends), or continues a path with one.
 * ids: sorted by their bytes. */
bool sp_copy_has_seen(const sp_copy *c, const sp_digest *ids, size_t n);

/* sp_tiers_erasing -- copies that have seen these segments are not written to a tier until the next call; n 0: all
 * are. ids: sorted by their bytes. Errors: SP_E_NOMEM, never for n 0. */
sp_err sp_tiers_erasing(sp_tiers *t, const sp_digest *ids, size_t n) SP_MUST_CHECK;

/* sp_tiers_sweep_begin -- of the tiers in `places`; `done` of the options is not read. Errors: SP_E_IO (a tier
 * does not answer), SP_E_NOMEM. Owns: sp_tiers_sweep_end, in any case. */
typedef struct sp_tiers_sweep sp_tiers_sweep;
sp_err sp_tiers_sweep_begin(sp_tiers *t, const sp_sweep_opts *o, unsigned places,
                            sp_tiers_sweep **out) SP_MUST_CHECK;
/* sp_tiers_sweep_wait -- waits until it is done, or a tier makes no progress for the time-out of loads. Thread:
 * any but the engine's. */
void sp_tiers_sweep_wait(sp_tiers_sweep *s);
/* sp_tiers_sweep_end -- the ledger forgets the places of dropped plain and fused copies; adds their number to
 * *n_gone (a copy in two tiers counts twice). Errors: those of sp_sweep_result; SP_E_IO: it is not done and
 * continues alone. */
sp_err sp_tiers_sweep_end(sp_tiers_sweep *s, int64_t *n_gone) SP_MUST_CHECK;

/* sp_tiers_host -- NULL: none. */
sp_tier *sp_tiers_host(const sp_tiers *t);
sp_tier *sp_tiers_remote(const sp_tiers *t);

#endif
