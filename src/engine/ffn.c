/* ffn.c -- the kinds of feed-forward that models have. */
#include "engine/ffn.h"

void sp_ffn_mlp(const sp_ffn *f, const sp_mlp *w, const sp_ffn_rows *r)
{
    const bool has_gate = w->w_gate.n_rows > 0;
    float *up = f->up.p, *gate = has_gate ? f->gate.p : up;
    const sp_matmul_args wide[] = {{.w = &w->w_gate, .x = r->h, .m = r->m, .y = gate, .bias = w->b_gate},
                                   {.w = &w->w_up, .x = r->h, .m = r->m, .y = up, .bias = w->b_up}};
    const sp_matmul_args down = {
        .w = &w->w_down, .x = gate, .m = r->m, .y = r->x, .bias = w->b_down, .add = r->add};
    sp_device_products(f->device, &(sp_products_args){wide + !has_gate, 1 + has_gate});
    sp_device_act_mul(f->device, &(sp_act_mul_args){.gate = gate,
                                                    .up = has_gate ? up : NULL,
                                                    .y = gate,
                                                    .n = r->m * w->w_up.n_rows,
                                                    .feeds = r->m,
                                                    .act = f->hp->act});
    sp_device_products(f->device, &(sp_products_args){&down, 1});
}

static sp_err gated(sp_ffn *f, const sp_layer *w, const sp_ffn_rows *rows)
{
    sp_ffn_mlp(f, &w->mlp, rows);
    return SP_OK;
}

typedef sp_err ffn_fn(sp_ffn *f, const sp_layer *w, const sp_ffn_rows *rows);

static ffn_fn *const kinds[] = {
    [SP_FFN_GATED] = gated,
    [SP_FFN_EXPERTS] = sp_ffn_experts_run,
};

sp_err sp_ffn_run(sp_ffn *f, const sp_layer *w, const sp_ffn_rows *rows)
{
    return kinds[w->ffn](f, w, rows);
}

/* adds_later -- whether some layer does not add its feed-forward at once. */
static bool adds_later(const sp_model *m)
{
    bool later = m->hp.residual_scale != 0;
    for (int l = 0; l < m->hp.n_layers; l++) later |= m->layers[l].ffn_post_norm != NULL;
    return later;
}

static sp_err take(const sp_model *m, sp_ffn *f, int max_rows)
{
    const char *what = "the scratch of a step";
    const size_t row = (size_t)max_rows * sizeof(float), n_embd = (size_t)m->hp.n_embd;
    SP_TRY(sp_mem_alloc(f->device, row * (size_t)m->hp.n_ff, what, &f->gate));
    SP_TRY(sp_mem_alloc(f->device, row * (size_t)m->hp.n_ff, what, &f->up));
    if (adds_later(m)) SP_TRY(sp_mem_alloc(f->device, row * n_embd, what, &f->out));
    return m->hp.moe.n ? sp_ffn_experts_create(f, max_rows) : SP_OK;
}

sp_err sp_ffn_create(const sp_model *m, sp_device *d, int max_rows, sp_ffn *out)
{
    sp_ffn f = {.device = d, .hp = &m->hp};
    sp_err err = take(m, &f, max_rows);
    if (err == SP_OK)
        *out = f;
    else
        sp_ffn_destroy(&f);
    return err;
}

void sp_ffn_destroy(sp_ffn *f)
{
    sp_mem_free(&f->gate);
    sp_mem_free(&f->up);
    sp_mem_free(&f->out);
    sp_ffn_experts_destroy(f);
}
