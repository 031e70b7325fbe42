/* pick.c -- the candidates that each KV head reads, from the scores of their summaries.
 *
 *   sp_pick_score   pieces of the candidates of each request and head: scores of up to eight query
 *                   heads, or nothing on a hit
 *   sp_pick_take    when all scores are there, for each request and head: its best k candidates, or
 *                   those that it proposes to the second stage
 *   sp_pick_fine_*  the same for the proposed ones
 *
 * Groups of more than eight heads are scored eight at a time. Equal scores: the earlier candidate. */
#include <math.h>
#include <string.h>

#include "compute/kernel/summary.h"

enum { ROWS = SP_PICK_ROWS, PIECE = 512, BINS = 2048 };

#define LOG2_E 0x1.715476p+0f

static int n_sets(int group)
{
    return SP_DIV_UP(group, ROWS);
}

/* As head_scratch. */
size_t sp_pick_scratch(int64_t n, int n_heads, int n_kv_heads)
{
    const int sets = n_sets(n_heads / n_kv_heads);
    return (size_t)n * (size_t)n_kv_heads * (size_t)(sets * ROWS + 3);
}

/* -- similarity -------------------------------------------------------------------------------- */

float sp_head_similarity(const float *sim, const float *weight, int n)
{
    float least = 1, sum = 0, parts = 0;
    for (int i = 0; i < n; i++) least = SP_MIN(least, sim[i]);
    if (!weight) return least;
    for (int i = 0; i < n; i++) {
        if (weight[i] <= 0) continue;
        if (!(sim[i] > 0)) return least;
        sum += weight[i];
        parts += weight[i] / sim[i];
    }
    return sum > 0 ? sum / parts : least;
}

/* rotate -- the query of one head at its own position. */
static void rotate(const sp_pick_args *a, const sp_pick_req *r, int h, float *out)
{
    const int head = a->summary->head;
    memcpy(out, r->q + h * head, (size_t)head * sizeof *out);
    sp_rope_rotate(a->rope, out, r->pos);
}

static float cosine(const float *x, const float *y, int n)
{
    double xy = 0, xx = 0, yy = 0;
    for (int d = 0; d < n; d++) {
        xy += (double)x[d] * y[d];
        xx += (double)x[d] * x[d];
        yy += (double)y[d] * y[d];
    }
    return xx > 0 && yy > 0 ? (float)(xy / sqrt(xx * yy)) : 0;
}

/* is_hit -- whether the list of KV head g serves the query. */
static bool is_hit(const sp_pick_args *a, const sp_pick_req *r, int g)
{
    const int head = a->summary->head, group = a->n_heads / a->summary->n_heads;
    float query[SP_HEAD_MAX], sim[SP_HEAD_MAX];
    if (!r->tau || r->hit[g] == 2) return false;
    assert(group <= SP_HEAD_MAX);
    for (int i = 0; i < group; i++) {
        const int h = g * group + i;
        rotate(a, r, h, query);
        sim[i] = cosine(query, r->label + h * head, head);
    }
    return sp_head_similarity(sim, r->weight ? r->weight + g * group : NULL, group) > r->tau[g];
}

static void replace_label(const sp_pick_args *a, const sp_pick_req *r, int g)
{
    const int head = a->summary->head, group = a->n_heads / a->summary->n_heads;
    if (!r->tau || r->is_guess) return;
    for (int h = g * group; h < (g + 1) * group; h++) rotate(a, r, h, r->label + h * head);
}

/* -- scores ------------------------------------------------------------------------------------ */

/* width_of -- the weight of half-widths. */
static float width_of(sp_summary_kind kind, int head)
{
    return kind == SP_SUMMARY_QUEST ? 1 : SP_MIN(1, 2 / sqrtf((float)head));
}

static void round_query(const float *x, sp_summary_kind kind, int head, int row, sp_pick_query *out)
{
    const float weight = width_of(kind, head);
    const int width = sp_summary_width(head);
    float most = 0;
    for (int d = 0; d < head; d++) most = SP_MAX(most, fabsf(x[d]));
    out->scale[row] = most > 0x1p-100f && most < 0x1p100f ? most / 127 : 0;
    out->sum[row] = 0;
    memset(out->q[row], 0, (size_t)width);
    memset(out->size[row], 0, (size_t)width);
    if (out->scale[row] == 0) return;
    for (int d = 0; d < head; d++) {
        const int q = (int)lrintf(x[d] / out->scale[row]);
        out->q[row][d] = (int8_t)q;
        out->size[row][d] = (int8_t)lrintf(weight * fabsf((float)q));
        out->sum[row] += q;
    }
}

static void hash_query(const float *x, int head, int bits, int row, sp_pick_query *out)
{
    float keys[SP_HEAD_MAX * SP_BLOCK_TOKENS] = {0}, norm = 0;
    uint64_t code[SP_BLOCK_TOKENS * SP_HASH_BITS_MAX / 64];
    for (int d = 0; d < head; d++) {
        keys[d * SP_BLOCK_TOKENS] = x[d];
        norm += x[d] * x[d];
    }
    sp_hash_keys(keys, head, 1, bits, code);
    memcpy(out->code[row], code, (size_t)bits / 8);
    out->scale[row] = norm < 0x1p100f ? sqrtf(norm) / (float)bits : 0;
}

/* Candidates of one KV head: numbers from .. to-1 of a list of some, or of all of them. */
typedef struct score_job {
    const sp_pick_args *a;
    const sp_pick_req *r;
    const sp_summary_view *view;
    const sp_summary_ops *ops;
    const uint32_t *list;  /* candidates, ascending; NULL: all */
    const uint32_t *block; /* of each in the list */
    int g, from, to;
    float *out;
} score_job;

/* The queries of a set of rows for keys of one shift. */
static void prepare(const score_job *j, int first, int n, int32_t shift, sp_pick_query *out)
{
    const sp_summary_view *s = j->view;
    float x[SP_HEAD_MAX];
    out->n = n;
    for (int row = 0; row < ROWS; row++) {
        memset(x, 0, sizeof x);
        if (row < n) {
            memcpy(x, j->r->q + (first + row) * s->head, (size_t)s->head * sizeof *x);
            sp_rope_rotate(j->a->rope, x, j->r->pos - shift);
        }
        if (sp_is_hash(s->kind))
            hash_query(x, s->head, sp_hash_bits(s->kind), row, out);
        else
            round_query(x, s->kind, s->head, row, out);
    }
}

static void score_blocks(const score_job *j, const sp_pick_query *query, int from, int to)
{
    const sp_score_args x = {.summary = j->view,
                             .kv_head = j->g,
                             .query = query,
                             .block = j->block + from,
                             .n = to - from,
                             .out = j->out + (size_t)from * ROWS};
    if (sp_is_bounds(j->view->kind))
        j->ops->score_bounds(&x);
    else if (sp_is_hash(j->view->kind))
        j->ops->score_hash(&x);
    else
        j->ops->score_keys4(&x);
}

/* before -- the numbers from `at` on whose candidates are before `end` end here. */
static int before(const score_job *j, int at, int32_t end)
{
    if (!j->list) return SP_MAX(at, SP_MIN(j->to, end));
    while (at < j->to && (int32_t)j->list[at] < end) at++;
    return at;
}

static void score_set(const score_job *j, int set)
{
    const int group = j->a->n_heads / j->view->n_heads, rows = SP_MIN(ROWS, group - set * ROWS);
    sp_pick_query query;
    int32_t shift = 0;
    bool ready = false;
    for (int i = 0, at = j->from, to; i < j->r->n_runs; i++, at = to) {
        const sp_pick_run *run = &j->r->runs[i];
        to = before(j, at, run->first + run->n);
        if (at == to) continue;
        if (!ready || run->shift != shift)
            prepare(j, j->g * group + set * ROWS, rows, run->shift, &query);
        ready = true;
        shift = run->shift;
        score_blocks(j, &query, at, to);
    }
}

static int64_t pieces_of(int32_t n)
{
    return SP_DIV_UP(n, PIECE);
}

int64_t sp_pick_units(const sp_pick_args *a)
{
    int64_t n = 0;
    for (int i = 0; i < a->n_reqs; i++) n += pieces_of(a->reqs[i].n) * a->summary->n_heads;
    return n;
}

/* The scratch of KV head g of request i: scores [sets][n][ROWS], combined ones [n], the proposed
 * candidates [n] and their blocks [n]. */
typedef struct head_scratch {
    float *scores, *all;
    uint32_t *list, *block;
} head_scratch;

static head_scratch scratch_of(const sp_pick_args *a, int i, int g)
{
    const int n_kv = a->summary->n_heads;
    const size_t n = (size_t)a->reqs[i].n;
    size_t at = 0;
    for (int k = 0; k < i; k++) at += sp_pick_scratch(a->reqs[k].n, a->n_heads, n_kv);
    at += sp_pick_scratch(a->reqs[i].n, a->n_heads, n_kv) / (size_t)n_kv * (size_t)g;
    float *scores = a->scratch + at, *all = scores + (size_t)n_sets(a->n_heads / n_kv) * ROWS * n;
    uint32_t *list = (uint32_t *)(void *)(all + n);
    return (head_scratch){scores, all, list, list + n};
}

static void score_job_run(score_job *j, int64_t piece, int32_t n)
{
    j->from = (int)piece * PIECE;
    j->to = SP_MIN(n, j->from + PIECE);
    const int sets = n_sets(j->a->n_heads / j->view->n_heads);
    for (int set = 0; set < sets; set++, j->out += (size_t)n * ROWS) score_set(j, set);
}

void sp_pick_score(const sp_pick_args *a, const sp_summary_ops *ops, int part, int n_parts)
{
    const int n_kv = a->summary->n_heads;
    int64_t from, to, unit = 0;
    sp_part(sp_pick_units(a), 1, part, n_parts, &from, &to);
    for (int i = 0; i < a->n_reqs; i++) {
        const sp_pick_req *r = &a->reqs[i];
        const int64_t n = pieces_of(r->n);
        for (int64_t u = SP_MAX(0, from - unit); u < SP_MIN(n * n_kv, to - unit); u++) {
            const int g = (int)(u / n);
            if (is_hit(a, r, g)) continue;
            score_job j = {.a = a, .r = r, .view = a->summary, .ops = ops, .block = r->block};
            j.g = g;
            j.out = scratch_of(a, i, g).scores;
            score_job_run(&j, u % n, r->n);
        }
        unit += n * n_kv;
    }
}

/* -- lists ------------------------------------------------------------------------------------- */

static void combine(const sp_pick_args *a, const sp_summary_ops *ops, const head_scratch *x, int n)
{
    const int group = a->n_heads / a->summary->n_heads;
    for (int i = 0; i < n; i++) x->all[i] = 0;
    for (int set = 0; set < n_sets(group); set++)
        ops->combine(&(sp_combine_args){.scores = x->scores + (size_t)set * (size_t)n * ROWS,
                                        .n = n,
                                        .rows = SP_MIN(ROWS, group - set * ROWS),
                                        .scale = a->scale * LOG2_E,
                                        .out = x->all});
}

/* order_of -- integers in the order of the floats, which are sums of shares: none is negative. */
static uint32_t order_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The k-th largest order, and how many of exactly that order are among the k: 11, 11 and 10 bits at
 * a time. */
static uint32_t least_taken(const float *x, int n, int k, int *n_equal)
{
    uint32_t prefix = 0, mask = 0;
    for (int shift = 21; shift >= 0; shift -= shift == 21 ? 11 : 10) {
        int count[BINS] = {0}, bin = BINS - 1;
        for (int i = 0; i < n; i++) {
            const uint32_t o = order_of(x[i]);
            count[o >> shift & (BINS - 1)] += (o & mask) == prefix;
        }
        for (; k > count[bin]; bin--) k -= count[bin];
        prefix |= (uint32_t)bin << shift;
        mask |= (uint32_t)(BINS - 1) << shift;
    }
    *n_equal = k;
    return prefix;
}

static void take(const float *x, int n, int k, uint32_t *picked)
{
    int n_equal = 0, at = 0;
    if (k == 0) return;
    const uint32_t least = least_taken(x, n, k, &n_equal);
    for (int i = 0; i < n; i++) {
        const uint32_t o = order_of(x[i]);
        if (o < least || (o == least && n_equal-- <= 0)) continue;
        assert(at < k);
        picked[at++] = (uint32_t)i;
    }
    assert(at == k);
}

static void take_head(const sp_pick_args *a, const sp_summary_ops *ops, int i, int g)
{
    const sp_pick_req *r = &a->reqs[i];
    const head_scratch x = scratch_of(a, i, g);
    const bool hit = is_hit(a, r, g);
    r->hit[g] = hit;
    if (hit) return;
    replace_label(a, r, g);
    combine(a, ops, &x, r->n);
    if (r->n_proposed)
        take(x.all, r->n, r->n_proposed, x.list);
    else
        take(x.all, r->n, r->k, r->picked + (size_t)g * (size_t)r->k);
}

void sp_pick_take(const sp_pick_args *a, const sp_summary_ops *ops, int part, int n_parts)
{
    const int n_kv = a->summary->n_heads;
    int64_t from, to;
    sp_part((int64_t)a->n_reqs * n_kv, 1, part, n_parts, &from, &to);
    for (int64_t u = from; u < to; u++) take_head(a, ops, (int)(u / n_kv), (int)(u % n_kv));
}

/* -- the second stage -------------------------------------------------------------------------- */

int64_t sp_pick_fine_units(const sp_pick_args *a)
{
    int64_t n = 0;
    for (int i = 0; i < a->n_reqs; i++) n += pieces_of(a->reqs[i].n_proposed) * a->summary->n_heads;
    return n;
}

static void score_proposed(const sp_pick_args *a, const sp_summary_ops *ops, int i, int64_t unit)
{
    const sp_pick_req *r = &a->reqs[i];
    const int64_t n = pieces_of(r->n_proposed), piece = unit % n;
    const int g = (int)(unit / n);
    const head_scratch x = scratch_of(a, i, g);
    if (r->hit[g]) return;
    for (int64_t at = piece * PIECE; at < SP_MIN(r->n_proposed, (piece + 1) * PIECE); at++)
        x.block[at] = r->block[x.list[at]];
    score_job j = {.a = a, .r = r, .view = a->fine, .ops = ops, .list = x.list, .block = x.block};
    j.g = g;
    j.out = x.scores;
    score_job_run(&j, piece, r->n_proposed);
}

void sp_pick_fine_score(const sp_pick_args *a, const sp_summary_ops *ops, int part, int n_parts)
{
    int64_t from, to, unit = 0;
    sp_part(sp_pick_fine_units(a), 1, part, n_parts, &from, &to);
    for (int i = 0; i < a->n_reqs; i++) {
        const int64_t n = pieces_of(a->reqs[i].n_proposed) * a->summary->n_heads;
        for (int64_t u = SP_MAX(0, from - unit); u < SP_MIN(n, to - unit); u++)
            score_proposed(a, ops, i, u);
        unit += n;
    }
}

static void take_proposed(const sp_pick_args *a, const sp_summary_ops *ops, int i, int g)
{
    const sp_pick_req *r = &a->reqs[i];
    const head_scratch x = scratch_of(a, i, g);
    uint32_t *picked = r->picked + (size_t)g * (size_t)r->k;
    if (r->hit[g] || !r->n_proposed) return;
    combine(a, ops, &x, r->n_proposed);
    take(x.all, r->n_proposed, r->k, picked);
    for (int32_t k = 0; k < r->k; k++) picked[k] = x.list[picked[k]];
}

void sp_pick_fine_take(const sp_pick_args *a, const sp_summary_ops *ops, int part, int n_parts)
{
    const int n_kv = a->summary->n_heads;
    int64_t from, to;
    sp_part((int64_t)a->n_reqs * n_kv, 1, part, n_parts, &from, &to);
    for (int64_t u = from; u < to; u++) take_proposed(a, ops, (int)(u / n_kv), (int)(u % n_kv));
}
