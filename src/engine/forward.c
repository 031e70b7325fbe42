/* forward.c -- one step: rows of several requests through all layers.
 *
 *            x [M, E]
 *      norm -> h -- wk, wv --> k, v --> rotated, into the blocks of their spans
 *                \- wq ------> q   --> span attention over the plan's spans --> wo --> + x
 *      norm -> h -- feed-forward (ffn.c) --> + x
 *      some architectures leave out these norms, or have others after wo and the feed-forward
 *      gates may drop rows, as do slices whose known KV is not there in time; the rest close up
 *
 * In the last layer a row whose logits nobody wants ends after its keys and values are stored.
 * One row's arithmetic never depends on the rows beside it (compute/ops.h), so a prompt computed
 * whole, in pieces or after a reused prefix gives the same bits.
 */
#include <math.h>

#include "base/mem.h"
#include "engine/sparse/steps.h"

/* product -- of all rows of x with w. */
static sp_matmul_args product(const sp_engine *e, const sp_mat *w, const float *x,
                              const float *bias, float *y)
{
    return (sp_matmul_args){.w = w, .x = x, .m = e->rows.n, .y = y, .bias = bias};
}

/* make_room -- for the longest span list, and for what gates, selectors and probes need. */
static sp_err make_room(sp_engine *e, const sp_slice *slices, int n_slices)
{
    const sp_hparams *hp = &e->o.model->hp;
    const int64_t qd = (int64_t)hp->n_heads * hp->head;
    sp_step_sizes sizes = {.rows = e->o.max_rows,
                           .width = SP_MAX(hp->n_ff, SP_MAX(hp->n_embd, qd)),
                           .n_heads = hp->n_heads,
                           .n_kv_heads = hp->n_kv_heads,
                           .head = hp->head};
    for (int s = 0; s < n_slices; s++) {
        sizes.n_spans = SP_MAX(sizes.n_spans, slices[s].plan->n_spans);
        if (sp_observes(&slices[s])) sizes.n_spans = SP_MAX(sizes.n_spans, sp_plan_n_blocks(slices[s].plan));
        if (slices[s].plan->probe.kind == SP_PROBE_COLUMNS)
            sizes.column_rows = SP_MAX(sizes.column_rows, slices[s].n);
    }
    sizes.pick_floats = sp_sparse_floats(e, slices, n_slices);
    SP_TRY(sp_device_reserve(e->device, &sizes));
    SP_TRY(sp_attention_make_room(e, slices, n_slices));
    return sp_probe_make_room(e, slices, n_slices);
}

/* -- a layer -------------------------------------------------------------------------------- */

/* keeps_rows -- whether no row ends between the layer's keys and its queries. */
static bool keeps_rows(const sp_engine *e, const sp_slice *slices, int n_slices, int layer)
{
    bool keeps = layer < e->o.model->hp.n_layers - 1;
    for (int s = 0; s < n_slices; s++) keeps &= slices[s].plan->probe.kind == SP_PROBE_NONE;
    return keeps;
}

/* project -- what attention needs of the rows `in`: keys and values, queries, or all at once. */
static void project(sp_engine *e, const sp_layer *w, const float *in, bool kv, bool q)
{
    sp_matmul_args a[SP_PRODUCTS_MAX];
    int n = 0;
    if (q) a[n++] = product(e, &w->wq, in, w->bq, e->q);
    if (kv) a[n++] = product(e, &w->wk, in, w->bk, e->k);
    if (kv) a[n++] = product(e, &w->wv, in, w->bv, e->v);
    sp_device_products(e->device, &(sp_products_args){a, n});
}

/* grow_queries -- the factor of their positions, for rows that follow each other and have the same. */
static void grow_queries(sp_engine *e)
{
    const sp_hparams *hp = &e->o.model->hp;
    const int32_t *pos = e->rows.host.pos;
    const int64_t width = (int64_t)hp->n_heads * hp->head;
    for (int i = 0, next; hp->attn_growth != 0 && i < e->rows.n; i = next) {
        const int32_t period = pos[i] / hp->attn_period;
        for (next = i + 1; next < e->rows.n && pos[next] / hp->attn_period == period;) next++;
        if (period > 0)
            sp_device_blend(e->device, &(sp_blend_args){.y = e->q + i * width,
                                                        .n = (next - i) * width,
                                                        .keep = 1 + hp->attn_growth * log1pf((float)period)});
    }
}

static void store_kv(sp_engine *e, int layer, const sp_kv_view *kv)
{
    const sp_rows *r = &e->rows;
    const sp_model *m = e->o.model;
    sp_norm_heads(e, e->k, m->layers[layer].k_norm, m->hp.n_kv_heads);
    sp_device_kv_store(e->device, &(sp_kv_store_args){.kv = kv,
                                                      .rope = sp_engine_rope(e, layer),
                                                      .k = e->k,
                                                      .v = e->v,
                                                      .m = r->n,
                                                      .block = r->dev.block,
                                                      .slot = r->dev.slot,
                                                      .rot = r->dev.rot});
}

/* adds_at_once -- whether the output of a part of the layer is added to the stream unchanged. */
static bool adds_at_once(const sp_engine *e, const float *post_norm)
{
    return !post_norm && e->o.model->hp.residual_scale == 0;
}

/* add_attention -- x += wo att. e->h is free until the feed-forward. */
static void add_attention(sp_engine *e, const sp_layer *w)
{
    const bool at_once = adds_at_once(e, w->attn_post_norm);
    sp_matmul_args a = product(e, &w->wo, e->att, w->bo, at_once ? e->x : e->h);
    a.add = at_once;
    sp_device_products(e->device, &(sp_products_args){&a, 1});
    if (!at_once) sp_norm_after(e, e->h, w->attn_post_norm);
}

/* add_ffn -- x += FFN(in); in NULL: of x normalised. */
static sp_err add_ffn(sp_engine *e, const sp_layer *w, const float *in)
{
    const bool at_once = adds_at_once(e, w->ffn_post_norm);
    float *out = at_once ? e->x : sp_ffn_out(&e->ffn);
    if (!in) in = sp_norm_rows(e, w->ffn_norm, w->b_ffn_norm);
    const sp_ffn_rows rows = {in, e->rows.n, out, at_once};
    SP_TRY(sp_ffn_run(&e->ffn, w, &rows));
    if (!at_once) sp_norm_after(e, out, w->ffn_post_norm);
    return SP_OK;
}

/* run_layer -- may leave no rows. */
static sp_err run_layer(sp_engine *e, const sp_slice *slices, int n_slices, int l)
{
    const sp_model *m = e->o.model;
    const sp_layer *w = &m->layers[l];
    const sp_kv_view kv = sp_kv_pool_layer(e->o.pool, l);
    const sp_probed_layer here = {&kv, l};
    const bool all = keeps_rows(e, slices, n_slices, l);
    const float *in = sp_norm_rows(e, w->attn_norm, w->b_attn_norm);
    project(e, w, in, true, all);
    store_kv(e, l, &kv);
    SP_TRY(sp_probe_deviation(e, here, slices, n_slices));
    if (l == m->hp.n_layers - 1) SP_TRY(sp_rows_drop_unwanted(e, slices, n_slices));
    if (e->rows.n == 0) return SP_OK;
    if (!all) project(e, w, in, false, true);
    sp_norm_heads(e, e->q, w->q_norm, m->hp.n_heads);
    grow_queries(e);
    SP_TRY(sp_attention_run(e, &kv, slices, n_slices, l));
    SP_TRY(sp_probe_columns(e, here, slices, n_slices));
    if (e->rows.n == 0) return SP_OK;
    if (m->hp.parallel) SP_TRY(add_ffn(e, w, in)); /* first: the input is overwritten */
    add_attention(e, w);
    if (!m->hp.parallel) SP_TRY(add_ffn(e, w, NULL));
    SP_TRY(sp_attention_mass(e, slices, n_slices));
    return sp_rows_pass_gates(e, slices, n_slices, l);
}

/* -- logits --------------------------------------------------------------------------------- */

/* output_rows -- logits of rows first .. first+m-1 of h, at y in host memory. */
static sp_err output_rows(sp_engine *e, int first, int m, float *y)
{
    const sp_mat *w = &e->o.model->output;
    const size_t row = (size_t)w->n_rows * sizeof *y;
    const int most = e->device->unified ? m : (int)(e->logits.n_bytes / row);
    sp_event last = {0};
    for (int n; m > 0; first += n, m -= n, y += (size_t)n * (size_t)w->n_rows) {
        n = SP_MIN(m, most);
        const sp_matmul_args a = {.w = w,
                                  .x = e->h + (size_t)first * (size_t)w->n_cols,
                                  .m = n,
                                  .y = e->device->unified ? y : e->logits.p};
        sp_device_products(e->device, &(sp_products_args){&a, 1});
        last = sp_device_copy_out(e->device, y, a.y, (size_t)n * row);
    }
    return sp_device_wait(e->device, last);
}

/* finish_logits -- their factor and soft cap. */
static void finish_logits(const sp_hparams *hp, float *y, const float *end)
{
    const float cap = hp->logit_cap, scale = hp->logit_scale;
    for (float *p = y; scale != 0 && p < end; p++) *p *= scale;
    for (float *p = y; cap != 0 && p < end; p++) *p = cap * tanhf(*p / cap);
}

/* write_logits -- slices whose logits are adjacent in memory share the reading of the weights. */
static sp_err write_logits(sp_engine *e, const sp_slice *slices, int n_slices)
{
    sp_rows *r = &e->rows;
    const sp_model *m = e->o.model;
    int kept = 0;
    for (int s = 0; s < n_slices; s++)
        for (int i = r->first[s]; i < r->first[s + 1]; i++)
            kept += r->keep[i] = sp_row_wanted(&slices[s], r->id[i]);
    if (kept != r->n) SP_TRY(sp_rows_close(e, n_slices));
    if (kept == 0) return SP_OK;
    sp_norm_rows(e, m->output_norm, m->b_output_norm);
    for (int s = 0, next; s < n_slices; s = next) {
        const int first = r->first[s];
        float *y = slices[s].logits, *end = y;
        for (next = s; next < n_slices && (next == s || slices[next].logits == end); next++)
            end += (size_t)(r->first[next + 1] - r->first[next]) * (size_t)m->hp.n_vocab;
        if (r->first[next] == first) continue;
        SP_TRY(output_rows(e, first, r->first[next] - first, y));
        finish_logits(&m->hp, y, end);
    }
    return SP_OK;
}

/* await -- drops the rows of slices whose known KV is not there in this layer. */
static sp_err await(sp_engine *e, const sp_slice *slices, int n_slices, int layer)
{
    sp_rows *r = &e->rows;
    bool all = true;
    for (int s = 0; s < n_slices; s++) {
        const bool there = r->first[s] == r->first[s + 1] || sp_slice_is_there(&slices[s], layer);
        for (int i = r->first[s]; i < r->first[s + 1]; i++) r->keep[i] = there;
        all &= there;
    }
    return all ? SP_OK : sp_rows_close(e, n_slices);
}

/* -- a step --------------------------------------------------------------------------------- */

/* bring_back -- loads blocks that are read outside attention, in any layer: those of twins. */
static sp_err bring_back(sp_engine *e, const sp_slice *slices, int n_slices)
{
    for (int s = 0; s < n_slices; s++) {
        const sp_plan *p = slices[s].plan;
        for (int i = 0; i < p->n_twins; i++) {
            if (p->twins[i].span < 0) continue;
            const sp_kv_slot slot = sp_span_slot(&p->spans[p->twins[i].span], p->twins[i].index);
            SP_TRY(sp_offload_bring_back(e->offload, &slot.block, 1));
        }
    }
    return SP_OK;
}

static sp_err step(sp_engine *e, const sp_slice *slices, int n_slices)
{
    const sp_model *m = e->o.model;
    SP_TRY(sp_rows_check(e, slices, n_slices));
    SP_TRY(sp_sparse_begin(e, slices, n_slices));
    SP_TRY(make_room(e, slices, n_slices));
    SP_TRY(sp_rows_gather(&e->rows, slices, n_slices));
    sp_device_embed(
        e->device,
        &(sp_embed_args){.w = &m->embed, .ids = e->rows.dev.token, .m = e->rows.n, .x = e->x});
    if (m->hp.embed_scale != 0)
        sp_device_blend(e->device, &(sp_blend_args){.y = e->x,
                                                    .n = (int64_t)e->rows.n * m->hp.n_embd,
                                                    .keep = m->hp.embed_scale});
    for (int l = 0; l < m->hp.n_layers && e->rows.n > 0; l++) {
        SP_TRY(await(e, slices, n_slices, l));
        if (e->rows.n > 0) SP_TRY(run_layer(e, slices, n_slices, l));
    }
    if (e->rows.n > 0) SP_TRY(write_logits(e, slices, n_slices));
    return sp_device_synchronise(e->device);
}

/* leave_room -- for what the step reads and writes. */
static void leave_room(sp_engine *e, const sp_slice *slices, int n_slices)
{
    sp_offload_begin_step(e->offload);
    for (int s = 0; s < n_slices; s++) {
        int n = slices[s].n;
        const bool added = sp_offload_add_slice(e->offload, slices[s].plan, &n);
        SP_UNUSED(added); /* what does not fit is the caller's choice; it is refused when its window is read */
    }
    sp_offload_turn(e->offload);
    for (int s = 0; s < n_slices; s++) {
        const sp_plan *p = slices[s].plan;
        for (int i = slices[s].from; i < slices[s].from + slices[s].n; i++)
            sp_kv_touch(p->pool, sp_span_slot(&p->spans[p->todo[i].span], p->todo[i].index).block);
    }
}

sp_err sp_engine_step(sp_engine *e, const sp_slice *slices, int n_slices)
{
    if (!e->offload) return step(e, slices, n_slices);
    leave_room(e, slices, n_slices);
    sp_err err = bring_back(e, slices, n_slices);
    if (err == SP_OK) err = step(e, slices, n_slices);
    sp_offload_window_drop(e->offload);
    sp_offload_begin_step(e->offload);
    return err;
}
