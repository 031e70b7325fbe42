/* offload_int.h -- shared by the parts of offload: leaving (offload.c), resident heads (resident.c),
 * seats (seats.c), windows (window.c). */
#ifndef SP_ENGINE_OFFLOAD_OFFLOAD_INT_H
#define SP_ENGINE_OFFLOAD_OFFLOAD_INT_H

#include <pthread.h>

#include "engine/offload/offload.h"
#include "store/aio/pages.h"

enum { SP_LEAVE_BATCH = 256 };

/* A seat: one record of a layer and KV head. */
typedef struct sp_seat {
    uint32_t block, birth; /* whose record; birth 0: none */
    uint32_t epoch;        /* when it was last wanted */
    bool used;             /* since the clock's hand passed */
    bool pending;          /* its fetch is in flight */
} sp_seat;

/* The seats of one layer and KV head. */
typedef struct sp_row {
    sp_seat *seats;    /* [n_seats + n_spare] */
    uint32_t *seat_of; /* [n_blocks] 1 + the seat that last had the block; to be checked */
    int32_t hand;
    int32_t n_spare; /* spare seats in use */
} sp_row;

typedef struct sp_pending {
    int32_t kv_head, seat;
} sp_pending;

/* Fetches of one layer. */
typedef struct sp_arrivals {
    sp_pages_group group;
    sp_pending *list; /* [G (n_seats + n_spare)] */
    int32_t n;
} sp_arrivals;

/* A plane of the pool: one KV head of a layer, or all; and how hard reuse is there. */
typedef struct sp_ranked_plane {
    float difficulty;
    int32_t plane; /* layer n_planes + plane */
} sp_ranked_plane;

/* Blocks being written, by a separate thread. */
typedef struct sp_leaving {
    uint32_t blocks[SP_LEAVE_BATCH];
    int32_t n;
    sp_err err;
    char why[256];
    bool busy, done, stop; /* with the lock held */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool has_thread;
} sp_leaving;

typedef struct sp_window {
    uint32_t *blocks; /* [n_blocks] the blocks in it */
    uint8_t *is_in;   /* [n_blocks] */
    int64_t n;
    int layer;
} sp_window;

/* What the next step reads and writes, at most. */
typedef struct sp_need {
    uint32_t *seen;           /* [n_blocks] the step that last counted the block */
    uint32_t step;
    int64_t n_read, n_fresh;  /* blocks of each layer that come into its window, at most; blocks it writes */
} sp_need;

/* Room for records of blocks that are away. */
typedef struct sp_offload_seats {
    uint32_t *blocks;  /* [n + n_spare] of the pool */
    int32_t n, n_open; /* usable while few blocks are near; usable now */
    int32_t n_spare;   /* further seats, only for the current layer */
    int spare_layer;
    bool lacked;    /* a step wanted more seats than were open */
    bool is_sparse; /* seats are in use: near blocks leave part of the budget to them */
    sp_seat_policy policy;
    sp_row *rows;          /* [L, G] */
    sp_arrivals *arrivals; /* [L] */
    uint32_t epoch;
    bool waited;
    _Atomic bool stale; /* a record of the file was overwritten */
} sp_offload_seats;

/* Planes whose records stay in memory. */
typedef struct sp_offload_resident {
    size_t bytes;
    sp_ranked_plane *rank; /* [L n_planes] planes, the hardest first */
    uint8_t *holds;        /* [L, n_planes] the first n of them */
    int n;
} sp_offload_resident;

struct sp_offload {
    sp_kv_pool *pool;
    sp_kv_shape shape;
    sp_pages *pages;
    int64_t n_blocks;           /* of the pool */
    int64_t n_budget, max_near; /* near blocks and open seats; near ones beside the seats */
    size_t record_bytes, max_bytes;
    int n_planes, n_cols; /* of a layer in the pool; heads of a plane */
    int64_t max_window; /* blocks of a layer */

    sp_offload_seats seats;
    int64_t damaged; /* 1 + a block that could not be read; 0: none */
    sp_offload_resident resident;

    sp_need need;
    sp_window window;
    sp_leaving leaving;
    uint32_t hand; /* where the search for blocks that leave continues */
    sp_offload_stats stats;
};

/* sp_offload_record -- of KV head g of a block in a layer: in the file as in the pool, plane by plane. */
static inline int64_t sp_offload_record(const sp_offload *o, int layer, uint32_t block, int kv_head)
{
    const int64_t plane = layer * o->n_planes + kv_head / o->n_cols;
    return (plane * o->n_blocks + block) * o->n_cols + kv_head % o->n_cols;
}

/* sp_offload_run -- of neighbouring blocks in a plane: a run of the file. In memory they are row_bytes apart. */
static inline sp_pages_run sp_offload_run(const sp_offload *o, sp_kv_run run, int plane, size_t row_bytes, uint8_t *at)
{
    return (sp_pages_run){.first = sp_offload_record(o, run.layer, run.first, plane * o->n_cols),
                          .n_rows = run.n,
                          .n_cols = o->n_cols,
                          .row_bytes = row_bytes,
                          .at = at};
}

/* sp_offload_run_here -- the same for blocks at their place in the pool. */
static inline sp_pages_run sp_offload_run_here(const sp_offload *o, sp_kv_run run, int plane)
{
    return sp_offload_run(o, run, plane, (size_t)o->n_cols * o->record_bytes,
                          sp_kv_pool_bytes_at(o->pool, run.layer, plane, run.first));
}

/* sp_offload_is_plane_resident -- whether the plane's records stay in memory. */
static inline bool sp_offload_is_plane_resident(const sp_offload *o, int layer, int plane)
{
    return o->resident.holds[layer * o->n_planes + plane];
}

/* sp_offload_drop -- drops the memory of a layer's away blocks, except planes that stay. */
static inline void sp_offload_drop(sp_offload *o, sp_kv_run run)
{
    for (int i = 0; i < o->n_planes; i++)
        if (!sp_offload_is_plane_resident(o, run.layer, i)) sp_kv_drop_plane(o->pool, run, i);
}

/* sp_need_blocks -- blocks of the budget that the next step needs for reading and writing. */
int64_t sp_need_blocks(const sp_offload *o);

sp_err sp_residents_create(sp_offload *o) SP_MUST_CHECK;
void sp_residents_destroy(sp_offload *o);
/* sp_residents_begin -- before blocks are marked away. */
void sp_residents_begin(sp_offload *o);
/* sp_residents_fit -- after blocks are marked away: drops heads that no longer fit. */
void sp_residents_fit(sp_offload *o);
/* sp_residents_forget -- makes no head resident. */
void sp_residents_forget(sp_offload *o);

sp_err sp_seats_create(sp_offload *o) SP_MUST_CHECK;
void sp_seats_destroy(sp_offload *o);
/* sp_seats_empty -- forgets all records except those of one layer (-1: all), and releases their memory. */
void sp_seats_empty(sp_offload *o, int but_layer);
/* sp_seats_open -- between steps: sets how many seats of each layer and KV head may be used. */
void sp_seats_open(sp_offload *o, int64_t n);

#endif
