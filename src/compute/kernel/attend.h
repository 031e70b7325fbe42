/* attend.h -- how span attention is divided: keys into steps and pieces, queries into tiles,
 * and tiles into units of work that threads take.
 *
 *   walk     all steps of the spans in sight, numbered          0 1 2 3 4 5 6 7 | 8 9 ...
 *   run      a span, or joined spans with one shift             each run starts a new step
 *   step     64 keys of one run: 4 blocks, a word of `stale`
 *   piece    8 steps of the walk                                |---- piece 0 --| 1
 *   tile     queries of one request with one sight, times the heads that share a KV head
 *   unit     a tile and a KV head: all its pieces, or one piece of a divided tile
 *
 * Steps and pieces determine the order of sums, so they depend on the sight alone, never on the
 * other queries or the number of threads. Tiles and units only determine which thread computes what
 * and may depend on both.
 */
#ifndef SP_COMPUTE_KERNEL_ATTEND_H
#define SP_COMPUTE_KERNEL_ATTEND_H

#include "compute/kernel/kv.h"

#define SP_STEP_TOKENS 64
#define SP_PIECE_STEPS 8
#define SP_TURNS_BYTES 640 /* at the start of the scratch: counters that all parts share */

/* sp_span_visible -- how many keys of a span are at positions <= p; they are always its first. */
int32_t sp_span_visible(const sp_span *s, int32_t p);
/* sp_span_hidden -- how many of its first keys are before the window of a query at p. */
static inline int32_t sp_span_hidden(const sp_span *s, int32_t p, int32_t window)
{
    return window ? sp_span_visible(s, p - window) : 0;
}

/* sp_sight_at -- the index of the i-th span in sight. */
static inline int sp_sight_at(const sp_sight *sight, int i)
{
    return sight->list ? sight->list[i] : i;
}

/* Spans in sight that are walked as one. */
typedef struct sp_run {
    int n_spans;
    int32_t n; /* keys */
} sp_run;

/* sp_run_at -- the run that begins with the i-th span in sight. */
sp_run sp_run_at(const sp_attend_req *req, const sp_span *spans, const sp_sight *sight, int i);
/* sp_run_visible -- how many keys of that run are at positions <= p; they are its first. */
int32_t sp_run_visible(const sp_span *spans, const sp_sight *sight, int i, const sp_run *run,
                       int32_t p);

/* sp_span_live -- bit i: key i of block b is not stale. */
static inline unsigned sp_span_live(const sp_span *s, int32_t b)
{
    return s->stale ? ~(unsigned)(s->stale[b / 4] >> (b % 4 * 16)) & 0xffff : 0xffff;
}

/* sp_step_live -- bit i: key i of a step is not stale. */
static inline uint64_t sp_step_live(const sp_span *s, int32_t step)
{
    return s->stale ? ~s->stale[step] : ~(uint64_t)0;
}

/* Queries first .. first+n-1 of a request. */
typedef struct sp_tile {
    const sp_attend_req *req;
    int64_t first;
    int n;
    int64_t n_steps; /* of the walk, up to the last one that its last query sees */
    int64_t work;    /* rows times the steps that the last query sees */
} sp_tile;

typedef struct sp_unit {
    sp_tile tile;
    int kv_head;
    int64_t piece, n_pieces; /* the one to compute; not divided: all n_pieces */
    bool divided;
    int slot;     /* divided: the counter of this tile and head */
    size_t share; /* divided: offset of its results in the shared scratch, in floats */
} sp_unit;

/* sp_deal -- enumerates the units of one call in a fixed order, the same for every part: first
 * whole tiles from the last queries to the first, so that long ones start early; then the pieces of
 * divided tiles, which are small and balance the end. A tile is divided when it is much more than
 * one thread's share of the work and the shared scratch has room. Each part has its own. */
typedef struct sp_deal {
    const sp_attend_args *a;
    int group, max_queries;
    int64_t big;           /* tiles with more work are divided; 0: none */
    size_t room;           /* floats in the shared scratch */
    sp_tile tile;          /* the current tile */
    int i_req, pass;       /* pass 0 deals whole tiles, 1 pieces */
    int64_t end;           /* queries of i_req before this one remain; -1: all */
    int64_t base, n_units; /* index of the tile's first unit; its units */
    int slots;             /* used by divided tiles so far */
    size_t share;
    int tile_slot; /* of the current tile, if divided */
    size_t tile_share;
} sp_deal;

void sp_deal_open(sp_deal *d, const sp_attend_args *a, int n_parts);
/* sp_deal_unit -- the unit with this index; false past the last one. Indices must increase from
 * call to call. */
bool sp_deal_unit(sp_deal *d, int64_t index, sp_unit *out);

/* sp_turns_next -- takes the next unit index that no part has taken. */
int64_t sp_turns_next(const sp_attend_args *a);
/* sp_turns_piece_done -- counts a piece of a divided tile as done; true if it was the last one. The
 * caller can then read the results of all pieces. */
bool sp_turns_piece_done(const sp_attend_args *a, const sp_unit *u);
/* sp_turns_close -- called by each part when no unit is left; the last call zeroes the counters. */
void sp_turns_close(const sp_attend_args *a, int n_parts);

/* sp_tile_rows -- the most rows (one query of one head each) in a tile. All query heads of a KV
 * head are in one tile. Sized so that its queries, scores and outputs stay in L2 together with the
 * keys of a step. */
static inline int sp_tile_rows(int group, int head)
{
    return SP_MAX(group, SP_MAX(24, SP_MIN(192, 12288 / head)));
}

/* sp_attend_own -- the scratch of one part. */
void *sp_attend_own(const sp_attend_args *a, int part);
/* sp_attend_share -- scratch for the results of pieces: largest score, sum and out[width] of a
 * row. */
float *sp_attend_share(const sp_attend_args *a, int n_parts);

#endif
