/* forward.c -- one step: rows of several requests through all layers.
 *
 *            x [M, E]
 *      norm -> h -- wk, wv --> k, v --> rotated, into the blocks of their spans
 *                \- wq ------> q   --> span attention over the plan's spans --> wo --> + x
 *      norm -> h -- w_gate, w_up --> silu(gate) * up -- w_down --> + x
 *      gates may drop rows; the others close ranks
 *
 * In the last layer a row whose logits nobody wants ends after its keys and values are stored.
 * One row's arithmetic never depends on its company (compute/ops.h), so a prompt computed whole, in
 * pieces or behind a reused prefix gives the same bits.
 */
#include "engine/run_int.h"

/* quantize -- rows of x in e->ints, where integer products with weights of x's width want them. A
 * vector that several matrices meet is rounded once: whoever writes to it does this anew. */
static void quantize(sp_engine *e, const float *x, int64_t m, int64_t n)
{
    if (!e->ints || n % 32) return;
    run_quantize(e, m * n, &(sp_quantize_args){.x = x, .m = m, .n = n, .q = e->ints});
}

/* product -- of all rows of x with w. */
static sp_matmul_args product(const sp_engine *e, const sp_mat *w, const float *x,
                              const float *bias, float *y)
{
    return (sp_matmul_args){.w = w, .x = x, .m = e->rows.n, .y = y, .bias = bias};
}

/* add_product -- to y; x is rounded. */
static void add_product(sp_engine *e, const sp_mat *w, const float *x, const float *bias, float *y)
{
    sp_matmul_args a = product(e, w, x, bias, y);
    a.add = true;
    sp_run_products(e, &a, 1, 0);
}

static void normalise(sp_engine *e, const float *x, const float *w, float *y)
{
    const sp_hparams *hp = &e->o.model->hp;
    sp_run_rmsnorm(
        e,
        &(sp_rmsnorm_args){
            .x = x, .w = w, .y = y, .m = e->rows.n, .n = hp->n_embd, .eps = hp->norm_eps},
        true);
}

/* normalise_heads -- RMSNorm of each head by itself (qwen3); nothing where the model has none. */
static void normalise_heads(sp_engine *e, float *x, const float *w, int n_heads)
{
    const sp_hparams *hp = &e->o.model->hp;
    int64_t m = (int64_t)e->rows.n * n_heads;
    if (w)
        sp_run_rmsnorm(
            e,
            &(sp_rmsnorm_args){.x = x, .w = w, .y = x, .m = m, .n = hp->head, .eps = hp->norm_eps},
            false);
}

/* -- scratch whose size follows the plans --------------------------------------------------- */

/* make_room -- attention scratch for the longest span list, and mass where a gate wants it. */
static sp_err make_room(sp_engine *e, const sp_slice *slices, int n_slices)
{
    const sp_hparams *hp = &e->o.model->hp;
    int spans = 0;
    size_t mass = 0;
    for (int s = 0; s < n_slices; s++) {
        spans = SP_MAX(spans, slices[s].plan->n_spans);
        if (slices[s].plan->gate.wants_mass)
            mass += (size_t)slices[s].n * (size_t)hp->n_heads * (size_t)slices[s].plan->n_spans;
    }
    if (spans > e->scratch_spans) {
        int want = SP_MAX(64, 2 * spans);
        size_t bytes =
            SP_ROUND_UP(sp_attend_scratch_bytes(hp->n_heads, hp->n_kv_heads, hp->head, want),
                        (size_t)SP_CACHE_LINE);
        void *p = sp_alloc_aligned(bytes * (size_t)sp_team_size(e->o.team));
        if (!p) return sp_fail_nomem(bytes, "the scratch of attention");
        sp_free(e->scratch);
        e->scratch = p;
        e->scratch_bytes = bytes;
        e->scratch_spans = want;
    }
    SP_TRY(sp_probe_make_room(e, slices, n_slices));
    if (mass > e->mass_cap) {
        float *p = sp_alloc(mass, sizeof *p);
        if (!p) return sp_fail_nomem(mass * sizeof *p, "attention mass");
        sp_free(e->mass);
        e->mass = p;
        e->mass_cap = mass;
    }
    return SP_OK;
}

/* -- a layer -------------------------------------------------------------------------------- */

/* keeps_rows -- whether no row ends between the layer's keys and its queries. */
static bool keeps_rows(const sp_engine *e, const sp_slice *slices, int n_slices, int layer)
{
    bool keeps = layer < e->o.model->hp.n_layers - 1;
    for (int s = 0; s < n_slices; s++) keeps &= slices[s].plan->probe.kind == SP_PROBE_NONE;
    return keeps;
}

/* project -- what attention wants of the rows: keys and values, queries, or all at once. */
static void project(sp_engine *e, const sp_layer *w, bool kv, bool q)
{
    sp_matmul_args a[RUN_PRODUCTS];
    int n = 0;
    if (q) a[n++] = product(e, &w->wq, e->h, w->bq, e->q);
    if (kv) a[n++] = product(e, &w->wk, e->h, w->bk, e->k);
    if (kv) a[n++] = product(e, &w->wv, e->h, w->bv, e->v);
    sp_run_products(e, a, n, 0);
}

static void store_kv(sp_engine *e, const sp_layer *w, const sp_kv_view *kv)
{
    const sp_rows *r = &e->rows;
    normalise_heads(e, e->k, w->k_norm, e->o.model->hp.n_kv_heads);
    run_kv_store(e, (int64_t)r->n * kv->n_heads * kv->head * 2,
                 &(sp_kv_store_args){.kv = kv,
                                     .rope = &e->rope,
                                     .k = e->k,
                                     .v = e->v,
                                     .m = r->n,
                                     .block = r->block,
                                     .slot = r->slot,
                                     .rot = r->rot});
}

static void attend(sp_engine *e, const sp_layer *w, const sp_kv_view *kv, const sp_slice *slices,
                   int n_slices)
{
    const sp_hparams *hp = &e->o.model->hp;
    const sp_rows *r = &e->rows;
    size_t width = (size_t)hp->n_heads * (size_t)hp->head;
    normalise_heads(e, e->q, w->q_norm, hp->n_heads);
    float *mass = e->mass;
    int64_t work = 0;
    for (int s = 0; s < n_slices; s++) {
        const sp_plan *p = slices[s].plan;
        size_t first = (size_t)r->first[s];
        int64_t m = r->first[s + 1] - r->first[s];
        e->reqs[s] = (sp_attend_req){.q = e->q + first * width,
                                     .out = e->att + first * width,
                                     .pos = r->pos + first,
                                     .see = r->see + first,
                                     .m = m,
                                     .spans = p->spans,
                                     .n_spans = p->n_spans,
                                     .sights = p->sights,
                                     .mass = p->gate.wants_mass ? mass : NULL,
                                     .lse = e->lse + first * (size_t)hp->n_heads};
        if (p->gate.wants_mass) mass += (size_t)m * (size_t)hp->n_heads * (size_t)p->n_spans;
        if (m) work += m * r->pos[r->first[s + 1] - 1] * 2 * (int64_t)width;
    }
    run_attend(e, work,
               &(sp_attend_args){.kv = kv,
                                 .rope = &e->rope,
                                 .n_heads = hp->n_heads,
                                 .scale = hp->attn_scale,
                                 .reqs = e->reqs,
                                 .n_reqs = n_slices,
                                 .scratch = e->scratch,
                                 .scratch_bytes = e->scratch_bytes});
}

static void feed_forward(sp_engine *e, const sp_layer *w)
{
    const int64_t m = e->rows.n, n = m * e->o.model->hp.n_ff;
    quantize(e, e->att, m, w->wo.n_cols);
    add_product(e, &w->wo, e->att, w->bo, e->x);
    normalise(e, e->x, w->ffn_norm, e->h);
    const sp_matmul_args wide[] = {product(e, &w->w_gate, e->h, NULL, e->gate),
                                   product(e, &w->w_up, e->h, NULL, e->up)};
    sp_run_products(e, wide, 2, 0);
    sp_run_silu_mul(e, &(sp_silu_mul_args){.gate = e->gate, .up = e->up, .y = e->gate, .n = n}, m);
    add_product(e, &w->w_down, e->gate, NULL, e->x);
}

/* write_logits -- slices whose logits lie one after the other share the reading of the weights. */
static void write_logits(sp_engine *e, const sp_slice *slices, int n_slices)
{
    sp_rows *r = &e->rows;
    const sp_model *m = e->o.model;
    int kept = 0;
    for (int s = 0; s < n_slices; s++)
        for (int i = r->first[s]; i < r->first[s + 1]; i++)
            kept += r->keep[i] = sp_row_wanted(&slices[s], r->id[i]);
    if (kept != r->n) sp_rows_close(e, n_slices);
    normalise(e, e->x, m->output_norm, e->h);
    for (int s = 0, next; s < n_slices; s = next) {
        const int first = r->first[s];
        float *y = slices[s].logits, *end = y;
        for (next = s; next < n_slices && (next == s || slices[next].logits == end); next++)
            end += (size_t)(r->first[next + 1] - r->first[next]) * (size_t)m->hp.n_vocab;
        if (r->first[next] == first) continue;
        sp_run_products(e,
                        &(sp_matmul_args){.w = &m->output,
                                          .x = e->h + (size_t)first * (size_t)m->hp.n_embd,
                                          .m = r->first[next] - first,
                                          .y = y},
                        1, first);
    }
}

sp_err sp_engine_step(sp_engine *e, const sp_slice *slices, int n_slices)
{
    SP_TRY(sp_rows_check(e, slices, n_slices));
    SP_TRY(make_room(e, slices, n_slices));
    const sp_model *m = e->o.model;
    sp_rows_gather(&e->rows, slices, n_slices);
    run_embed(e, (int64_t)e->rows.n * m->hp.n_embd,
              &(sp_embed_args){.w = &m->embed, .ids = e->rows.token, .m = e->rows.n, .x = e->x});
    for (int l = 0; l < m->hp.n_layers; l++) {
        const sp_layer *w = &m->layers[l];
        sp_kv_view kv = sp_kv_pool_layer(e->o.pool, l);
        normalise(e, e->x, w->attn_norm, e->h);
        const bool all = keeps_rows(e, slices, n_slices, l);
        const int n_rows = e->rows.n;
        project(e, w, true, all);
        store_kv(e, w, &kv);
        sp_probe_deviation(e, &kv, slices, n_slices, l);
        if (l == m->hp.n_layers - 1) sp_rows_drop_unwanted(e, slices, n_slices);
        if (e->rows.n == 0) return SP_OK;
        if (e->rows.n != n_rows) quantize(e, e->h, e->rows.n, m->hp.n_embd);
        if (!all) project(e, w, false, true);
        attend(e, w, &kv, slices, n_slices);
        sp_probe_columns(e, &kv, slices, n_slices, l);
        if (e->rows.n == 0) return SP_OK;
        feed_forward(e, w);
        sp_rows_pass_gates(e, slices, n_slices, l);
        if (e->rows.n == 0) return SP_OK;
    }
    write_logits(e, slices, n_slices);
    return SP_OK;
}
