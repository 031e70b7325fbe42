/* tiers.h -- moves copies between the device and the tiers below it, in the background.
 *
 *   load    FREE -> LOADING: blocks, and a get of the fastest tier that has the copy (loads.c);
 *           when it has filled them, READY, else the next tier, else a miss
 *   store   a READY plain, fused or path copy, pinned until it is written to disk (writes.c)
 *   leave   a copy that the device evicts goes to the host tier, unless it is there already; copies of
 *           chunks that are on disk, too: the host is faster (swap.c)
 *   share   a plain or fused copy goes to the remote tier, and copies of others become known (remote.c)
 *   sweep   copies of segments that nobody wants any more leave all tiers (sweeps.c)
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
    const char *remote;     /* URL of the remote tier (store/remote/redis.h); NULL: none */
    const char *remote_key; /* file of its key; NULL: none */
    int64_t remote_ttl_s;   /* 0: none */
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
    /* Called before a copy that was loading becomes FREE again. */
    void (*load_failed)(void *user, const sp_copy *copy, sp_miss why);
    void *user;
} sp_tiers_opts;

/* sp_tiers_open -- Errors: SP_E_IO names the folder, SP_E_NOMEM. */
sp_err sp_tiers_open(const sp_tiers_opts *o, sp_tiers **out) SP_MUST_CHECK;
/* sp_tiers_close -- Pre: sp_tiers_end. NULL is fine. */
void sp_tiers_close(sp_tiers *t);
/* sp_tiers_has_store -- there is a disk tier: functions that name the store need one. */
bool sp_tiers_has_store(const sp_tiers *t);

/* A copy in a tier: its segment, and the segments before the first chunk. */
typedef struct sp_tiers_key {
    const sp_copy *copy;
    const sp_segment *seg;
    const sp_digest *head; /* [n_head] */
    int n_head;
} sp_tiers_key;

/* sp_tiers_load -- begins to load a FREE copy, leaving `spare` blocks of the pool free. Errors:
 * SP_E_NOKV, SP_E_NOMEM, SP_E_IO (its tier does not answer: a load from there timed out, and is not over),
 * and the copy is FREE as before. When the load fails later, the copy is FREE without a place. */
sp_err sp_tiers_load(sp_tiers *t, const sp_tiers_key *key, int64_t spare,
                     int64_t now) SP_MUST_CHECK;

/* sp_tiers_expire -- gives up loads that have brought no layer for timeout_us: their copies are FREE again, and
 * missed (SP_MISS_LATE). Their blocks are free once the tier is done with them: what arrives late is not
 * read. A write that has brought nothing for as long keeps its copy pinned until it is over; those that wait
 * for it are given up, counted as failed, and none begins. */
void sp_tiers_expire(sp_tiers *t);
/* sp_tiers_until_expiry -- how long until that may be, us; a long time when nothing loads. */
int64_t sp_tiers_until_expiry(const sp_tiers *t);
/* sp_tiers_poll -- acknowledges what has ended; before a step. */
void sp_tiers_poll(sp_tiers *t);
/* sp_tiers_is_busy -- loads, writes or sweeps are under way. */
bool sp_tiers_is_busy(const sp_tiers *t);
/* sp_tiers_wait_for -- until one of them has ended, a layer has come, or `us` have passed; then polls. */
void sp_tiers_wait_for(sp_tiers *t, int64_t us);
/* sp_tiers_wait -- waits until a load or a write has ended or timed out. Pre: one is under way. */
void sp_tiers_wait(sp_tiers *t);
/* sp_tiers_drain -- waits until nothing is loading or being written; what times out ends the wait, too. */
void sp_tiers_drain(sp_tiers *t);
/* sp_tiers_end -- before closing: ends loads and waits for writes; false: a tier has not answered for timeout_us,
 * and still has memory of the pool. */
bool sp_tiers_end(sp_tiers *t);
/* sp_tiers_lose -- the device has lost its memory: loads and writes are cancelled. Waits for them as sp_tiers_end;
 * what is left then uses blocks of its own, and is not acknowledged. */
void sp_tiers_lose(sp_tiers *t);

/* sp_tiers_n_there -- layers of a LOADING copy that can be read, and with the first what sp_ledger_load_head
 * says; -1: not even the header came. */
int sp_tiers_n_there(sp_tiers *t, const sp_copy *c);
/* sp_tiers_await -- waits until a layer of a LOADING copy can be read; false: not by `deadline_us`
 * (sp_clock_us), or never. */
bool sp_tiers_await(sp_tiers *t, const sp_copy *c, int layer, int64_t deadline_us);
/* sp_tiers_load_us -- how long the rest of a LOADING copy takes, as the last loads went; 0: unknown. */
double sp_tiers_load_us(sp_tiers *t, const sp_copy *c);

/* sp_tiers_admits -- loading the copy from there (SP_AT_HOST, SP_AT_DISK) is expected to cost less than
 * computing it did; true while one of the two is not known, and unless that was asked for. */
bool sp_tiers_admits(const sp_tiers *t, const sp_copy *c, sp_place to);

/* sp_tiers_replicate -- a path copy near the root that requests keep using is copied to the host tier while
 * it is on the device: what depends on it survives the device. Source: RAGCache section 6 (R8). */
void sp_tiers_replicate(sp_tiers *t, const sp_copy *c);

/* sp_tiers_store -- begins to write a READY copy; does nothing when that is under way. Errors:
 * SP_E_NOMEM. A write that fails is one log line, and counted. */
sp_err sp_tiers_store(sp_tiers *t, const sp_tiers_key *key) SP_MUST_CHECK;
/* sp_tiers_store_path -- the same of a path copy, after what it continues: does nothing when the store has
 * it, lacks its parent or is another process's to write, or when more than max_blocks would wait. */
sp_err sp_tiers_store_path(sp_tiers *t, const sp_copy *copy, int64_t max_blocks) SP_MUST_CHECK;
/* sp_tiers_share -- begins to put a READY plain or fused copy into the remote tier, unless it is there, there is none,
 * or much is under way. Errors: SP_E_NOMEM. A put that fails is a line of the debug log. */
sp_err sp_tiers_share(sp_tiers *t, const sp_tiers_key *key) SP_MUST_CHECK;
/* sp_tiers_use -- a request reads this copy: where the store drops copies, it is a newer one then. */
void sp_tiers_use(sp_tiers *t, const sp_copy *copy);
/* sp_tiers_hold -- copies of these segments do not leave the store, in place of those held before. ids:
 * sorted by their bytes. Errors: SP_E_NOMEM, never for n 0. */
sp_err sp_tiers_hold(sp_tiers *t, const sp_digest *ids, size_t n) SP_MUST_CHECK;
/* sp_tiers_has_all -- the store has the copy, with all that was measured of it. */
bool sp_tiers_has_all(const sp_copy *copy);
/* sp_tiers_is_storing -- the copy is being written, and the store answers. */
bool sp_tiers_is_storing(const sp_tiers *t, const sp_copy *copy);
/* sp_tiers_stored -- after a write: SP_OK when the store has the copy; else why the last write
 * failed. */
sp_err sp_tiers_stored(const sp_tiers *t, const sp_copy *copy) SP_MUST_CHECK;
int64_t sp_tiers_n_failed(const sp_tiers *t);
/* sp_tiers_has_missed -- the store answers, and has missed copies while it did not. */
bool sp_tiers_has_missed(const sp_tiers *t);
/* sp_tiers_tier -- the store itself: statistics, lists; NULL: none. */
sp_tier *sp_tiers_tier(const sp_tiers *t);

/* sp_tiers_has -- the store has a copy of this name and kind, as far as is known. Thread: any. */
bool sp_tiers_has(const sp_tiers *t, const sp_tiers_key *key, sp_copy_kind kind);
/* sp_tiers_writes -- this process is the one that writes the store. */
bool sp_tiers_writes(const sp_tiers *t);
/* sp_tiers_has_elsewhere -- sp_others_have: for another model or KV type. head: segments before the first
 * chunk. */
bool sp_tiers_has_elsewhere(const sp_tiers *t, const sp_segment *seg, const sp_segment *head,
                            int n_head);
/* sp_tiers_before -- what the stored fused copy was computed after, [*n] in the arena; *n is 0 when
 * the store has none. Waits for the store. Errors: SP_E_NOMEM; SP_E_IO: it does not answer in time. */
sp_err sp_tiers_before(sp_tiers *t, const sp_tiers_key *key, sp_arena *arena,
                       const sp_digest **before, int *n) SP_MUST_CHECK;
/* -- sweeps ---------------------------------------------------------------------------------- */

/* sp_tiers_erasing -- copies of these segments, and copies that were computed after one, are not written to a
 * tier until the next call; n 0: all are. ids: sorted by their bytes. Errors: SP_E_NOMEM, never for n 0. */
sp_err sp_tiers_erasing(sp_tiers *t, const sp_digest *ids, size_t n) SP_MUST_CHECK;

/* sp_tiers_sweep_begin -- of the tiers in `places`; `done` of the options is not read. Errors: SP_E_IO (a tier
 * does not answer), SP_E_NOMEM. Owns: sp_tiers_sweep_end, in any case. */
typedef struct sp_tiers_sweep sp_tiers_sweep;
sp_err sp_tiers_sweep_begin(sp_tiers *t, const sp_sweep_opts *o, unsigned places,
                            sp_tiers_sweep **out) SP_MUST_CHECK;
/* sp_tiers_sweep_wait -- until it is done, or a tier has done nothing for the time-out of loads. Thread: any, but
 * not the engine's between steps. */
void sp_tiers_sweep_wait(sp_tiers_sweep *s);
/* sp_tiers_sweep_end -- the ledger forgets the places of plain and fused copies that are gone; adds how many
 * are to *n_gone, one in two tiers twice. Errors: those of sp_sweep_result; SP_E_IO: it is not done, and left to
 * itself. */
sp_err sp_tiers_sweep_end(sp_tiers_sweep *s, int64_t *n_gone) SP_MUST_CHECK;

/* sp_tiers_host -- NULL: none. */
sp_tier *sp_tiers_host(const sp_tiers *t);
sp_tier *sp_tiers_remote(const sp_tiers *t);

#endif
