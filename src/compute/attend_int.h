/* attend_int.h -- how span attention is cut: keys into steps and pieces, queries into tiles, and
 * tiles into units of work that threads take.
 *
 *   walk     steps of the spans in sight, numbered through      0 1 2 3 4 5 6 7 | 8 9 ...
 *   step     64 keys of one span: 4 blocks, a word of `stale`   a span begins a new one
 *   piece    8 steps of the walk                                |---- piece 0 --| 1
 *   tile     queries of one request with one sight, times the heads that share a KV head
 *   unit     a tile and a KV head: all its pieces, or one of them where a tile is divided
 *
 * Steps and pieces decide which sums are taken, so they follow from a sight alone: never from the
 * queries beside a query, nor from the number of threads. Tiles and units only decide who computes
 * what, and follow from both.
 */
#ifndef SP_COMPUTE_ATTEND_INT_H
#define SP_COMPUTE_ATTEND_INT_H

#include "compute/kv_int.h"

#define SP_STEP_TOKENS 64
#define SP_PIECE_STEPS 8
#define SP_TURNS_BYTES 640 /* of the scratch, at its start: counters that all parts share */

/* sp_span_visible -- keys of a span at positions <= p: always the first ones. */
int32_t sp_span_visible(const sp_span *s, int32_t p);

/* sp_sight_at -- index of the i-th span in sight. */
static inline int sp_sight_at(const sp_sight *sight, int i)
{
    return sight->list ? sight->list[i] : i;
}

/* sp_span_live -- bit i: key i of block b is not stale. */
static inline unsigned sp_span_live(const sp_span *s, int32_t b)
{
    return s->stale ? ~(unsigned)(s->stale[b / 4] >> (b % 4 * 16)) & 0xffff : 0xffff;
}

/* sp_step_live -- bit i: key i of a span's step is not stale. */
static inline uint64_t sp_step_live(const sp_span *s, int32_t step)
{
    return s->stale ? ~s->stale[step] : ~(uint64_t)0;
}

/* Queries first .. first+n-1 of a request. */
typedef struct sp_tile {
    const sp_attend_req *req;
    int64_t first;
    int n;
    int64_t n_steps; /* of the walk, up to the last that its last query sees */
    int64_t work;    /* rows times steps that the last query sees */
} sp_tile;

typedef struct sp_unit {
    sp_tile tile;
    int kv_head;
    int64_t piece, n_pieces; /* this one of them; all of them where the tile is not divided */
    bool divided;
    int slot;     /* of a divided tile and head: which counter is its own */
    size_t share; /* and where the results of its pieces lie, in floats of the shared scratch */
} sp_unit;

/* sp_deal -- the units of one call in a fixed order, the same for every part: whole tiles from the
 * last queries to the first, so that the long ones come early; then pieces of divided tiles, which
 * are small and fill the end. A tile is divided when it would keep one thread busy for long beside
 * the others' share, and the shared scratch has room. Kept by each part for itself. */
typedef struct sp_deal {
    const sp_attend_args *a;
    int group, max_queries;
    int64_t big;           /* tiles of more work are divided; 0: none is */
    size_t room;           /* of the shared scratch, in floats */
    sp_tile tile;          /* where the walk stands */
    int i_req, pass;       /* pass 0 deals whole tiles, 1 pieces */
    int64_t end;           /* queries of i_req before this one are still to come; -1: all */
    int64_t base, n_units; /* the tile's units */
    int slots;             /* taken by divided tiles so far */
    size_t share;
    int tile_slot; /* of the tile, when it is divided */
    size_t tile_share;
} sp_deal;

void sp_deal_open(sp_deal *d, const sp_attend_args *a, int n_parts);
/* sp_deal_unit -- the unit of an index, which only grows from call to call; false: there is none.
 */
bool sp_deal_unit(sp_deal *d, int64_t index, sp_unit *out);

/* sp_turns_next -- takes the next index that nobody has taken. */
int64_t sp_turns_next(const sp_attend_args *a);
/* sp_turns_piece_done -- whether this was the last piece of a divided tile: what the others stored
 * can now be read. */
bool sp_turns_piece_done(const sp_attend_args *a, const sp_unit *u);
/* sp_turns_close -- a part has found nothing left; the last one leaves the counters zeroed. */
void sp_turns_close(const sp_attend_args *a, int n_parts);

/* sp_tile_rows -- rows (a query of one head each) of a tile at most. All query heads of a KV head
 * are always in one tile. Sized so that its queries, scores and outputs stay in the second cache
 * beside the keys of a step. */
static inline int sp_tile_rows(int group, int head)
{
    return SP_MAX(group, SP_MAX(24, SP_MIN(192, 12288 / head)));
}

/* sp_attend_own -- scratch of one part. */
void *sp_attend_own(const sp_attend_args *a, int part);
/* sp_attend_share -- scratch for the results of pieces: a row's largest score, sum, [width] out. */
float *sp_attend_share(const sp_attend_args *a, int n_parts);

#endif
