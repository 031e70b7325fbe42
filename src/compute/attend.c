/* attend.c -- the parts of span attention that do not depend on the instruction set. */
#include "base/mem.h"
#include "compute/attend_int.h"

size_t sp_kv_head_bytes(sp_dtype type, int head)
{
    return SP_BLOCK_TOKENS * sp_row_bytes(type, head);
}

int32_t sp_span_visible(const sp_span *s, int32_t p)
{
    int64_t at = (int64_t)p - s->shift; /* the last visible "at" */
    if (!s->pos) {
        int64_t n = at - s->at + 1;
        return (int32_t)SP_MAX(0, SP_MIN(n, s->n));
    }
    int32_t from = 0, to = s->n;
    while (from < to) {
        int32_t mid = from + (to - from) / 2;
        if (s->pos[mid] <= at) {
            from = mid + 1;
        } else {
            to = mid;
        }
    }
    return from;
}

bool sp_tile_next(const sp_attend_args *a, int max_queries, sp_tile *t)
{
    int64_t first = t->req ? t->first + t->n : 0;
    while (t->i_req < a->n_reqs) {
        const sp_attend_req *req = &a->reqs[t->i_req];
        if (first < req->m) {
            int n = 1;
            while (n < max_queries && first + n < req->m &&
                   req->see[first + n] == req->see[first]) {
                n++;
            }
            t->req = req;
            t->first = first;
            t->n = n;
            return true;
        }
        t->i_req++;
        first = 0;
    }
    return false;
}

/* Rows hold the query (as given and rotated), the output so far and the scores of one block; a
 * block of keys and one of values are decoded to f32; each span keeps the maximum of each row at
 * its end. */
size_t sp_attend_scratch_bytes(int n_heads, int n_kv_heads, int head, int max_spans)
{
    size_t rows = (size_t)SP_MAX(SP_TILE_ROWS, n_heads / n_kv_heads);
    size_t width = SP_ROUND_UP((size_t)head, 16);
    size_t floats =
        rows * (3 * width + SP_BLOCK_TOKENS + 8 + (size_t)max_spans) + 2 * SP_BLOCK_TOKENS * width;
    return SP_ROUND_UP(floats * sizeof(float), SP_CACHE_LINE);
}
