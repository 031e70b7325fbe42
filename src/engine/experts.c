/* experts.c -- a mixture of experts: a router chooses a few feed-forwards for each row.
 *
 *   h [M, E] -- router --> logits [M, X], to the host: the best n_used of each row, and their weights
 *
 *   for each expert    its rows of h, taken together --> feed-forward --> spread over x, weighted
 *   shared expert      all rows                      --> feed-forward --> the same, behind a gate
 *
 * A row's sum is in the order of the experts' numbers, the shared one last: it does not depend on
 * other rows. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "engine/ffn.h"

sp_err sp_ffn_experts_create(sp_ffn *f, int max_rows)
{
    const char *what = "the scratch of experts";
    const sp_moe *moe = &f->hp->moe;
    const size_t m = (size_t)max_rows, chosen = m * (size_t)moe->n_used;
    sp_ffn_experts *x = &f->experts;
    x->max_rows = max_rows;
    SP_TRY(sp_mirror_alloc(f->device, m * (size_t)(moe->n + 1) * sizeof(float), what, &x->logits));
    SP_TRY(sp_mirror_alloc(f->device, chosen * 2 * sizeof(float), what, &x->rows));
    SP_TRY(sp_mirror_alloc(f->device, m * 2 * sizeof(float), what, &x->all));
    SP_TRY(sp_mem_alloc(f->device, m * (size_t)f->hp->n_embd * sizeof(float), what, &x->in));
    SP_TRY(sp_mem_alloc(f->device, m * (size_t)f->hp->n_embd * sizeof(float), what, &x->result));
    x->first = SP_NEW_N(int, (size_t)moe->n + 1);
    x->chosen = SP_NEW_N(int, chosen);
    x->weight = SP_NEW_N(float, chosen);
    x->scores = SP_NEW_N(float, 2 * (size_t)moe->n);
    if (!x->first || !x->chosen || !x->weight || !x->scores) return sp_fail_nomem(what);
    return SP_OK;
}

void sp_ffn_experts_destroy(sp_ffn *f)
{
    sp_ffn_experts *x = &f->experts;
    sp_mirror_free(&x->logits);
    sp_mirror_free(&x->rows);
    sp_mirror_free(&x->all);
    sp_mem_free(&x->in);
    sp_mem_free(&x->result);
    sp_free(x->first);
    sp_free(x->chosen);
    sp_free(x->weight);
    sp_free(x->scores);
}

/* -- choice --------------------------------------------------------------------------------- */

/* choose -- the largest logits of a row, in descending order; the first of equal ones. */
static void choose(const float *logits, int n, int *chosen, int n_used)
{
    for (int k = 0; k < n_used; k++) {
        chosen[k] = -1;
        for (int x = 0; x < n; x++) {
            bool taken = false;
            for (int j = 0; j < k; j++) taken |= chosen[j] == x;
            if (!taken && (chosen[k] < 0 || logits[x] > logits[chosen[k]])) chosen[k] = x;
        }
    }
}

/* weigh -- softmax over all experts, or over the chosen ones. */
static void weigh(const sp_moe *moe, const float *logits, const int *chosen, float *weight)
{
    const double most = (double)logits[chosen[0]];
    double sum = 0;
    for (int x = 0; x < moe->n && !moe->sum_to_1; x++) sum += exp((double)logits[x] - most);
    for (int k = 0; k < moe->n_used && moe->sum_to_1; k++)
        sum += exp((double)logits[chosen[k]] - most);
    for (int k = 0; k < moe->n_used; k++)
        weight[k] = (float)(exp((double)logits[chosen[k]] - most) / sum);
}

/* score -- weights of all experts before they are chosen: sigmoids, or a softmax. */
static void score(const sp_moe *moe, const float *logits, float *weight)
{
    double most = (double)logits[0], sum = 0;
    for (int x = 1; x < moe->n; x++) most = fmax(most, (double)logits[x]);
    for (int x = 0; x < moe->n && !moe->sigmoid; x++) sum += exp((double)logits[x] - most);
    for (int x = 0; x < moe->n; x++)
        weight[x] = (float)(moe->sigmoid ? 1 / (1 + exp(-(double)logits[x])) : exp((double)logits[x] - most) / sum);
}

/* leave_groups -- experts of all but the best groups, by the sum of their best two, are not chosen. */
static void leave_groups(const sp_moe *moe, float *rank)
{
    const int n = moe->n / moe->n_groups;
    for (int left = moe->n_groups - moe->n_groups_used; left > 0; left--) {
        float *worst = NULL, least = INFINITY;
        for (float *group = rank; group < rank + moe->n; group += n) {
            int best[2];
            if (group[0] == -INFINITY) continue; /* left */
            choose(group, n, best, 2);
            const float sum = group[best[0]] + group[best[1]];
            if (worst && sum > least) continue;
            worst = group;
            least = sum;
        }
        for (int x = 0; x < n && worst; x++) worst[x] = -INFINITY;
    }
}

/* choose_biased -- by weight and bias; the weights themselves have none. all: scratch [2 X].
 * Source: Auxiliary-Loss-Free Load Balancing (Wang et al. 2024); groups: DeepSeek-V3, section 2.1.2. */
static void choose_biased(const sp_moe *moe, float *all, const float *bias, const float *logits, int *chosen,
                          float *weight)
{
    float *rank = all + moe->n;
    double sum = 0;
    score(moe, logits, all);
    for (int x = 0; x < moe->n; x++) rank[x] = all[x] + (bias ? bias[x] : 0);
    if (moe->n_groups) leave_groups(moe, rank);
    choose(rank, moe->n, chosen, moe->n_used);
    for (int k = 0; k < moe->n_used; k++) sum += (double)all[chosen[k]];
    const double factor = (moe->scale != 0 ? (double)moe->scale : 1) / (moe->sum_to_1 ? sum + 1e-20 : 1);
    for (int k = 0; k < moe->n_used; k++) weight[k] = (float)((double)all[chosen[k]] * factor);
}

/* list_rows -- which rows each expert computes, in ascending order, and their weights. */
static void list_rows(sp_ffn *f, const sp_layer *w, int64_t m)
{
    const sp_moe *moe = &f->hp->moe;
    sp_ffn_experts *x = &f->experts;
    const float *logits = x->logits.host;
    int32_t *rows = x->rows.host;
    float *weights = (float *)(rows + (size_t)moe->n_used * (size_t)x->max_rows);
    memset(x->first, 0, ((size_t)moe->n + 1) * sizeof *x->first);
    for (int64_t i = 0; i < m; i++) {
        int *chosen = x->chosen + i * moe->n_used;
        float *weight = x->weight + i * moe->n_used;
        const float *own = logits + i * moe->n;
        if (w->b_choice || moe->sigmoid || moe->n_groups || moe->scale != 0) {
            choose_biased(moe, x->scores, w->b_choice, own, chosen, weight);
        } else {
            choose(own, moe->n, chosen, moe->n_used);
            weigh(moe, own, chosen, weight);
        }
        for (int k = 0; k < moe->n_used; k++) x->first[chosen[k] + 1]++;
    }
    for (int e = 0; e < moe->n; e++) x->first[e + 1] += x->first[e];
    for (int64_t k = 0; k < m * moe->n_used; k++) {
        const int at = x->first[x->chosen[k]]++;
        rows[at] = (int32_t)(k / moe->n_used);
        weights[at] = x->weight[k];
    }
    for (int e = moe->n; e > 0; e--) x->first[e] = x->first[e - 1];
    x->first[0] = 0;
}

/* route -- copies the logits of the router, and of the shared expert's gate, to the host. */
static sp_err route(sp_ffn *f, const sp_layer *w, const sp_ffn_rows *r)
{
    sp_ffn_experts *x = &f->experts;
    float *logits = x->logits.dev;
    sp_matmul_args a[] = {
        {.w = &w->router, .x = r->h, .m = r->m, .y = logits, .bias = w->b_router},
        {.w = &w->shared_gate, .x = r->h, .m = r->m, .y = logits + x->max_rows * f->hp->moe.n}};
    const int n = w->shared_gate.n_rows ? 2 : 1;
    sp_device_products(f->device, &(sp_products_args){a, n});
    return sp_mirror_pull(&x->logits, x->logits.mem.n_bytes);
}

/* -- run ------------------------------------------------------------------------------------ */

/* run_shared -- of all rows, times sigmoid of its gate. */
static sp_err run_shared(sp_ffn *f, const sp_layer *w, const sp_ffn_rows *r)
{
    sp_ffn_experts *x = &f->experts;
    int32_t *to = x->all.host;
    float *weight = (float *)(to + x->max_rows), *out = x->result.p;
    const float *gate = (const float *)x->logits.host + x->max_rows * f->hp->moe.n;
    if (w->shared.w_gate.n_rows == 0) return SP_OK;
    SP_TRY(sp_mirror_settle(&x->all));
    for (int64_t i = 0; i < r->m; i++) {
        to[i] = (int32_t)i;
        weight[i] = w->shared_gate.n_rows ? (float)(1 / (1 + exp(-(double)gate[i]))) : 1;
    }
    sp_mirror_push(&x->all, x->all.mem.n_bytes);
    sp_ffn_mlp(f, &w->shared, &(sp_ffn_rows){r->h, r->m, out, false});
    const int32_t *dev = x->all.dev;
    sp_device_spread(f->device, &(sp_spread_args){.x = out,
                                                  .y = r->x,
                                                  .to = dev,
                                                  .weight = (const float *)(dev + x->max_rows),
                                                  .m = r->m,
                                                  .n = f->hp->n_embd});
    return SP_OK;
}

static void run_expert(sp_ffn *f, const sp_mlp *w, int e, const sp_ffn_rows *r)
{
    sp_ffn_experts *x = &f->experts;
    float *out = x->result.p;
    const int64_t n = x->first[e + 1] - x->first[e];
    const int32_t *rows = (const int32_t *)x->rows.dev + x->first[e];
    const size_t all = (size_t)f->hp->moe.n_used * (size_t)x->max_rows;
    if (n == 0) return;
    sp_device_take(f->device, &(sp_take_args){r->h, x->in.p, rows, n, f->hp->n_embd});
    sp_ffn_mlp(f, w, &(sp_ffn_rows){x->in.p, n, out, false});
    sp_device_spread(f->device, &(sp_spread_args){.x = out,
                                                  .y = r->x,
                                                  .to = rows,
                                                  .weight = (const float *)(rows + all),
                                                  .m = n,
                                                  .n = f->hp->n_embd});
}

sp_err sp_ffn_experts_run(sp_ffn *f, const sp_layer *w, const sp_ffn_rows *r)
{
    sp_ffn_experts *x = &f->experts;
    SP_TRY(route(f, w, r));
    SP_TRY(sp_mirror_settle(&x->rows));
    list_rows(f, w, r->m);
    sp_mirror_push(&x->rows, x->rows.mem.n_bytes);
    if (!r->add)
        sp_device_blend(f->device, &(sp_blend_args){.y = r->x, .n = r->m * f->hp->n_embd});
    for (int e = 0; e < f->hp->moe.n; e++) run_expert(f, &w->experts[e], e, r);
    return run_shared(f, w, r);
}
