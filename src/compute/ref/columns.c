/* columns.c -- attention by key. A part takes every n-th block of keys, so each column is summed
 * by one part, over queries and heads in their order. */
#include <math.h>
#include <string.h>

#include "compute/attend_int.h"
#include "compute/ops_int.h"

enum { B = SP_BLOCK_TOKENS };

size_t sp_columns_scratch(int64_t m, int n_heads, int head)
{
    return (size_t)m * (size_t)n_heads * (size_t)head + (size_t)head * B;
}

/* Queries turned to meet a span of this shift; those that see nothing of it are left alone. */
static void turn_queries(const sp_columns_args *a, const sp_span *s, float *turned)
{
    const int head = a->kv->head;
    memcpy(turned, a->req->q, (size_t)a->req->m * (size_t)(a->n_heads * head) * sizeof *turned);
    for (int64_t q = 0; q < a->req->m; q++) {
        if (sp_span_visible(s, a->req->pos[q]) == 0) continue;
        for (int h = 0; h < a->n_heads; h++)
            sp_rope_rotate(a->rope, turned + (q * a->n_heads + h) * head,
                           a->req->pos[q] - s->shift);
    }
}

/* One query of one head against a decoded block: its probabilities of the first n live keys. */
static void add_row(const sp_columns_args *a, const float *query, const float *keys, unsigned live,
                    int n, float lse, float *column)
{
    float score[B] = {0};
    for (int d = 0; d < a->kv->head; d++)
        for (int k = 0; k < B; k++) score[k] += query[d] * keys[d * B + k];
    for (int k = 0; k < n; k++)
        if (live >> k & 1) column[k] += expf(score[k] * a->scale - lse);
}

static void add_block(const sp_columns_args *a, const sp_span *s, int32_t b, const float *turned,
                      float *keys, float *column)
{
    const int head = a->kv->head, group = a->n_heads / a->kv->n_heads;
    const unsigned live = sp_span_live(s, b);
    for (int g = 0; g < a->kv->n_heads && live; g++) {
        sp_kv_read_keys(a->kv, s->blocks[b], g, keys);
        for (int64_t q = 0; q < a->req->m; q++) {
            int n = SP_MIN(B, sp_span_visible(s, a->req->pos[q]) - b * B);
            for (int h = g * group; h < (g + 1) * group && n > 0; h++) {
                int64_t qh = q * a->n_heads + h;
                add_row(a, turned + qh * head, keys, live, n, a->req->lse[qh], column + b * B);
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
    float *turned = a->scratch + (size_t)part * n, *keys = turned + n - a->kv->head * B;
    int64_t unit = 0;
    for (int s = 0; s < req->n_spans && req->m; s++) {
        const sp_span *span = &req->spans[s];
        if (!a->columns[s] || !in_sight(req, s)) continue;
        turn_queries(a, span, turned);
        for (int32_t b = 0; b * B < span->n; b++)
            if (unit++ % n_parts == part) add_block(a, span, b, turned, keys, a->columns[s]);
    }
}
