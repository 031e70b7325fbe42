/* attend_int.h -- what a query may see of a span, and how attention is cut into units of work. */
#ifndef SP_COMPUTE_ATTEND_INT_H
#define SP_COMPUTE_ATTEND_INT_H

#include "compute/kv_int.h"

/* Rows of a tile: a row is one query of one head. All heads of a group are always in one tile. */
#define SP_TILE_ROWS 32

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

/* A tile is a run of queries of one request that see the same spans. The walk visits every tile of
 * every request in a fixed order; start it zeroed. */
typedef struct sp_tile {
    const sp_attend_req *req; /* NULL before the first */
    int i_req;
    int64_t first; /* queries first .. first+n-1 */
    int n;
} sp_tile;

/* sp_tile_next -- steps to the next tile of at most max_queries; false at the end. */
bool sp_tile_next(const sp_attend_args *a, int max_queries, sp_tile *t);

/* sp_tile_queries -- queries of a tile when `group` query heads share a KV head. */
static inline int sp_tile_queries(int group)
{
    return group < SP_TILE_ROWS ? SP_TILE_ROWS / group : 1;
}

#endif
