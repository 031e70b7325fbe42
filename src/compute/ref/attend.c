/* attend.c -- the definition of span attention: one query of one head at a time, in two passes.
 *
 * The first pass finds the largest score, the second weights the values with exp(score - largest).
 * Sums are in double. Scores are computed in both passes rather than stored.
 */
#include <math.h>
#include <string.h>

#include "compute/kernel/attend.h"
#include "compute/kernel/ops.h"

enum { B = SP_BLOCK_TOKENS };

typedef struct row {
    const sp_attend_args *a;
    const sp_attend_req *req;
    const float *query; /* as given */
    int32_t pos;
    int head, kv_head;
    float *mass; /* [n_spans] or NULL */
    float *lse;  /* or NULL */
    double max, sum, out[SP_HEAD_MAX];
} row;

/* Calls see(r, span index, slot of the key, score) for each key that the row may see. */
typedef void see_fn(row *r, int span, const sp_kv_slot *at, double score);

static double capped(const sp_attend_args *a, double score)
{
    return a->cap > 0 ? (double)a->cap * tanh(score / (double)a->cap) : score;
}

static void visit_span(row *r, int index, see_fn *see)
{
    const sp_kv_view *kv = r->a->kv;
    const sp_span *s = &sp_req_spans(r->req, r->kv_head)[index];
    const int32_t n = sp_span_visible(s, r->pos);
    const int32_t hidden = sp_span_hidden(s, r->pos, r->a->window);
    float query[SP_HEAD_MAX];
    if (n == 0) return;
    memcpy(query, r->query, (size_t)kv->head * sizeof(float));
    sp_rope_rotate(r->a->rope, query, r->pos - s->shift);
    for (int32_t i = hidden; i < n; i++) {
        const int32_t j = s->first + i;
        const int slot = j % B;
        if (!(sp_span_live(s, i / B) >> i % B & 1)) continue;
        const sp_kv_slot at = {.block = s->blocks[j / B], .slot = (uint8_t)slot};
        double score = 0;
        float key[SP_HEAD_MAX];
        sp_kv_get_key(kv->type, kv->head, sp_kv_keys(kv, at.block, r->kv_head), slot, key);
        for (int d = 0; d < kv->head; d++) score += (double)query[d] * key[d];
        see(r, index, &at, capped(r->a, score * (double)r->a->scale));
    }
}

static void see_max(row *r, int span, const sp_kv_slot *at, double score)
{
    SP_UNUSED(span);
    SP_UNUSED(at);
    r->max = fmax(r->max, score);
}

static void see_value(row *r, int span, const sp_kv_slot *at, double score)
{
    const sp_kv_view *kv = r->a->kv;
    float v[SP_HEAD_MAX];
    double p = exp(score - r->max);
    sp_kv_get_value(kv->type, kv->head, sp_kv_values(kv, at->block, r->kv_head), at->slot, v);
    for (int d = 0; d < kv->head; d++) r->out[d] += p * v[d];
    r->sum += p;
    if (r->mass) r->mass[span] += (float)p;
}

static void attend_row(row *r, const sp_sight *sight, float *out)
{
    const int head = r->a->kv->head;
    r->max = r->a->sinks ? (double)r->a->sinks[r->head] : -INFINITY;
    r->sum = 0;
    memset(r->out, 0, sizeof r->out);
    if (r->mass) memset(r->mass, 0, (size_t)r->req->n_spans * sizeof(float));
    for (int i = 0; i < sight->n; i++) visit_span(r, sp_sight_at(sight, i), see_max);
    for (int i = 0; i < sight->n; i++) visit_span(r, sp_sight_at(sight, i), see_value);
    if (r->a->sinks) r->sum += exp((double)r->a->sinks[r->head] - r->max);
    double inverse = r->sum > 0 ? 1 / r->sum : 0;
    for (int d = 0; d < head; d++) out[d] = (float)(r->out[d] * inverse);
    for (int s = 0; r->mass && s < r->req->n_spans; s++) r->mass[s] *= (float)inverse;
    if (r->lse) *r->lse = (float)(r->max + log(r->sum));
}

void sp_attend_ref(const sp_attend_args *a, int part, int n_parts)
{
    const int head = a->kv->head, group = a->n_heads / a->kv->n_heads;
    assert(head <= SP_HEAD_MAX && a->n_heads % a->kv->n_heads == 0);
    for (int i = 0; i < a->n_reqs; i++) {
        const sp_attend_req *req = &a->reqs[i];
        int64_t from, to;
        sp_part(req->m * a->n_heads, 1, part, n_parts, &from, &to);
        for (int64_t qh = from; qh < to; qh++) {
            int64_t q = qh / a->n_heads;
            int h = (int)(qh % a->n_heads);
            row r = {
                .a = a,
                .req = req,
                .query = req->q + qh * head,
                .pos = req->pos[q],
                .head = h,
                .kv_head = h / group,
                .mass = req->mass ? req->mass + qh * req->n_spans : NULL,
                .lse = req->lse ? req->lse + qh : NULL,
            };
            attend_row(&r, &req->sights[req->see[q]], req->out + qh * head);
        }
    }
}
