/* columns.c -- attention by key. A part takes every n_parts-th block of keys, so one part sums each
 * column, over queries and heads in order. */
#include <math.h>
#include <string.h>

#include "compute/kernel/attend.h"
#include "compute/kernel/ops.h"

enum { B = SP_BLOCK_TOKENS };

size_t sp_columns_scratch(int64_t m, int n_heads, int head)
{
    return (size_t)m * (size_t)n_heads * (size_t)head + (size_t)head * B;
}

/* Copies the queries rotated for a span with this shift; those that see none of it stay
 * unrotated. */
static void rotate_queries(const sp_columns_args *a, const sp_span *s, float *rotated)
{
    const int head = a->kv->head;
    memcpy(rotated, a->req->q, (size_t)a->req->m * (size_t)(a->n_heads * head) * sizeof *rotated);
    for (int64_t q = 0; q < a->req->m; q++) {
        if (sp_span_visible(s, a->req->pos[q]) == 0) continue;
        for (int h = 0; h < a->n_heads; h++)
            sp_rope_rotate(a->rope, rotated + (q * a->n_heads + h) * head,
                           a->req->pos[q] - s->shift);
    }
}

/* One block of keys of one KV head, and the columns of its tokens. */
typedef struct block_of_keys {
    const float *keys; /* [D][B], decoded */
    unsigned live;
    float *column; /* [B] */
} block_of_keys;

/* Adds the probabilities that one query of one head gives to keys from .. n-1, stale ones
 * excepted. */
static void add_row(const sp_columns_args *a, const float *query, float lse, const block_of_keys *x,
                    int from, int n)
{
    float score[B] = {0};
    for (int d = 0; d < a->kv->head; d++)
        for (int k = 0; k < B; k++) score[k] += query[d] * x->keys[d * B + k];
    for (int k = from; k < n; k++) {
        if (!(x->live >> k & 1)) continue;
        float s = score[k] * a->scale;
        if (a->cap > 0) s = a->cap * tanhf(s / a->cap);
        x->column[k] += expf(s - lse);
    }
}

static void add_block(const sp_columns_args *a, const sp_span *s, int32_t b, const float *rotated,
                      float *keys, float *column)
{
    const int head = a->kv->head, group = a->n_heads / a->kv->n_heads;
    const block_of_keys x = {.keys = keys, .live = sp_span_live(s, b), .column = column + b * B};
    for (int g = 0; g < a->kv->n_heads && x.live; g++) {
        sp_kv_read_keys(a->kv, s->blocks[b], g, keys);
        for (int64_t q = 0; q < a->req->m; q++) {
            const int n = SP_MIN(B, sp_span_visible(s, a->req->pos[q]) - b * B);
            const int32_t hidden = sp_span_hidden(s, a->req->pos[q], a->window);
            const int from = (int)SP_MAX(0, hidden - b * B);
            for (int h = g * group; h < (g + 1) * group && from < n; h++) {
                int64_t qh = q * a->n_heads + h;
                add_row(a, rotated + qh * head, a->req->lse[qh], &x, from, n);
            }
        }
    }
}

static bool in_sight(const sp_attend_req *req, int span)
{
    const sp_sight *sight = &req->sights[req->see[0]];
    for (int i = 0; i < sight->n; i++)
        if (sp_sight_at(sight, i) == span) return true;
    return false;
}

void sp_columns_ref(const sp_columns_args *a, int part, int n_parts)
{
    const sp_attend_req *req = a->req;
    size_t n = sp_columns_scratch(req->m, a->n_heads, a->kv->head);
    float *rotated = a->scratch + (size_t)part * n, *keys = rotated + n - a->kv->head * B;
    int64_t unit = 0;
    for (int s = 0; s < req->n_spans && req->m; s++) {
        const sp_span *span = &req->spans[s];
        if (!a->columns[s] || !in_sight(req, s)) continue;
        assert(span->first == 0); /* no probe has joined spans */
        rotate_queries(a, span, rotated);
        for (int32_t b = 0; b * B < span->n; b++)
            if (unit++ % n_parts == part) add_block(a, span, b, rotated, keys, a->columns[s]);
    }
}
