/* offload.h -- contexts larger than memory: sealed blocks of a pool leave it for a file.
 *
 *   pool        near: in memory                   away: in the file (store/aio/pages.h)
 *               sealed blocks beyond the budget --write, then drop--> away
 *
 *   full reader   (prefill, summaries, a full decode step) a layer's away blocks are read into their own
 *                 memory for that layer, and dropped before the next one: the *window*
 *   sparse reader what a KV head reads is loaded into *seats*, blocks of the pool that hold one record
 *                 for each layer and KV head. A seat keeps its record until another record needs it.
 *                 If there are too few seats, near blocks leave to make room.
 *
 *   resident      KV heads whose records stay in memory although their blocks are away: those that
 *                 reuse least, as many as fit into a part of the budget. As more blocks leave, heads stop
 *                 being resident, the easiest first. Source: LiteCache section 4.4 (L6).
 *
 * So exact attention over a context on disk yields the same bits as in memory, and sparse decoding
 * reads from the file only what earlier steps did not read.
 *
 * A failed read, or one with a wrong checksum, is repeated; if that fails, too, the step ends with SP_E_IO, and
 * sp_offload_take_damage names the lost block. No token is computed from bytes that did not arrive.
 *
 * Thread: the engine's, except for the file's reader and writer inside. */
#ifndef SP_ENGINE_OFFLOAD_OFFLOAD_H
#define SP_ENGINE_OFFLOAD_OFFLOAD_H

#include "engine/sparse/sparse.h"
#include "kv/pool.h"

typedef struct sp_offload sp_offload;

typedef struct sp_offload_opts {
    sp_kv_pool *pool; /* borrowed; all of its blocks are free */
    int64_t n_blocks; /* of contexts; the pool has sp_offload_n_extra more, for seats. 0: all, seats included */
    const char *dir;  /* the folder whose disk holds blocks */
    const char *io;   /* as sp_aio_open; NULL: the best */
    size_t max_bytes; /* of memory: near blocks, seats, windows and summaries */
    int32_t n_seats;  /* most seats of each layer and KV head; 0: what near blocks leave free */
    size_t resident_bytes; /* of max_bytes: for resident heads */
} sp_offload_opts;

typedef struct sp_offload_stats {
    int64_t n_wanted,
        n_found; /* records of away blocks that sparse steps read; in a seat or resident */
    int64_t n_fetched, n_ahead; /* records read from the file; those read before their layer asked */
    int64_t n_windowed;         /* blocks of a layer that were read into a window */
    int64_t n_left;             /* blocks that left */
    int64_t n_retried;          /* fetches that failed and were repeated */
    int64_t n_damaged;          /* records read whose checksum was wrong */
    int64_t wait_us, window_us; /* the engine waited for fetches; for windows */
    int64_t leave_us;           /* the engine spent on blocks that leave */
    int n_resident;             /* KV heads of layers */
    size_t record_bytes, max_bytes, seat_bytes;
} sp_offload_stats;

/* sp_offload_n_extra -- blocks that a pool needs in addition to n_blocks of contexts. */
int64_t sp_offload_n_extra(const sp_kv_shape *shape, int64_t n_blocks, const sp_offload_opts *o);

/* sp_offload_create -- Errors: SP_E_ARG if max_bytes has no room for a few blocks and their summaries;
 * SP_E_UNSUPPORTED (sp_kv_pool_let_leave); SP_E_NOKV, SP_E_NOMEM; SP_E_IO names the folder. */
sp_err sp_offload_create(const sp_offload_opts *o, sp_offload **out) SP_MUST_CHECK;
/* sp_offload_destroy -- Pre: no step runs, no plan names blocks. NULL is allowed. */
void sp_offload_destroy(sp_offload *o);

/* sp_offload_rank -- sets how hard reuse is for each KV head [L, G]: the hardest stay resident longest. By default
 * those of the first layer do. The number of resident heads does not change; new ones are read from the
 * file (a failure leaves none resident). Thread: the engine's, before a step's first layer. */
void sp_offload_rank(sp_offload *o, const float *difficulty);
bool sp_offload_is_resident(const sp_offload *o, int layer, int kv_head);

/* sp_offload_begin_step -- begins to describe the next step. sp_offload_add_slice -- the step also computes *n tokens
 * of a plan; *n is reduced if the blocks that they fill would leave no room for a layer's window. False, and nothing
 * is added, if the windows of this plan and of those added so far exceed the budget together; the first plan is always
 * added. */
void sp_offload_begin_step(sp_offload *o);
bool sp_offload_add_slice(sp_offload *o, const sp_plan *p, int *n);

/* sp_offload_turn -- before a step: makes blocks leave, so that near blocks, seats and the step's needs fit the
 * budget. Waits for the file only while they exceed it. If the file cannot be written, blocks stay near and it is
 * logged. */
void sp_offload_turn(sp_offload *o);
/* sp_offload_is_full -- whether near blocks fill their part of the budget: load nothing for now. */
bool sp_offload_is_full(const sp_offload *o);

/* sp_offload_want -- sparse: KV head g of a layer is about to read these blocks. Ids of blocks that are
 * away are replaced by the seats that will hold them; without a free seat an id stays, for a window. */
void sp_offload_want(sp_offload *o, int layer, int kv_head, uint32_t *blocks, int32_t n);
/* sp_offload_ahead -- the same for a layer to come, as a guess: no id changes. */
void sp_offload_ahead(sp_offload *o, int layer, int kv_head, const uint32_t *blocks, int32_t n);
/* sp_offload_wait -- until the wanted records of a layer are in their seats. Errors: SP_E_IO. */
sp_err sp_offload_wait(sp_offload *o, int layer) SP_MUST_CHECK;
/* sp_offload_source -- for sp_sparse_opts. All requests share the seats, so the policy of the last source
 * applies. With SP_SEATS_FORGET a step finds nothing that earlier steps read, only what was fetched ahead
 * (InfiniGen). */
sp_block_source sp_offload_source(sp_offload *o, sp_seat_policy policy);

/* sp_offload_max_context -- more blocks than these cannot be read by one token: those of a layer exceed the budget,
 * near ones and resident heads left out. */
int64_t sp_offload_max_context(const sp_offload *o);

/* sp_offload_window -- reads those of these blocks that are away into their memory for one layer, and adds
 * them to the window; a window of another layer is dropped first. Errors: SP_E_IO, SP_E_NOKV if the
 * layer's blocks exceed the budget. */
sp_err sp_offload_window(sp_offload *o, int layer, const uint32_t *blocks, int64_t n) SP_MUST_CHECK;
void sp_offload_window_drop(sp_offload *o);
/* sp_offload_bring_back -- makes blocks near again, in all layers. Errors: SP_E_IO. */
sp_err sp_offload_bring_back(sp_offload *o, const uint32_t *blocks, int64_t n) SP_MUST_CHECK;

/* sp_offload_take_damage -- whether a read of an away block has finally failed since the last call; *block: which. */
bool sp_offload_take_damage(sp_offload *o, uint32_t *block);

/* sp_offload_leave -- writes sealed near blocks now and waits; for benchmarks and tests. */
sp_err sp_offload_leave(sp_offload *o, const uint32_t *blocks, int64_t n) SP_MUST_CHECK;

sp_offload_stats sp_offload_stats_of(const sp_offload *o);

#endif
