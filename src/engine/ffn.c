/* ffn.c -- the kinds of feed-forward that models have. */
#include "engine/ffn.h"

/* w_down (silu(w_gate h) * (w_up h)) */
static void gated(const sp_ffn *f, const sp_layer *w, const float *h, int64_t m, float *x)
{
    float *gate = f->gate.p, *up = f->up.p;
    const sp_matmul_args wide[] = {{.w = &w->w_gate, .x = h, .m = m, .y = gate},
                                   {.w = &w->w_up, .x = h, .m = m, .y = up}};
    const sp_matmul_args down = {.w = &w->w_down, .x = gate, .m = m, .y = x, .add = true};
    sp_device_products(f->device, &(sp_products_args){wide, 2});
    sp_device_silu_mul(
        f->device,
        &(sp_silu_mul_args){.gate = gate, .up = up, .y = gate, .n = m * f->n_ff, .feeds = m});
    sp_device_products(f->device, &(sp_products_args){&down, 1});
}

typedef void ffn_fn(const sp_ffn *f, const sp_layer *w, const float *h, int64_t m, float *x);

static ffn_fn *const kinds[] = {
    [SP_FFN_GATED] = gated,
};

void sp_ffn_run(const sp_ffn *f, const sp_layer *w, const float *h, int64_t m, float *x)
{
    kinds[w->ffn](f, w, h, m, x);
}

sp_err sp_ffn_create(const sp_model *m, sp_device *d, int max_rows, sp_ffn *out)
{
    const size_t bytes = (size_t)max_rows * (size_t)m->hp.n_ff * sizeof(float);
    sp_ffn f = {.device = d, .n_ff = m->hp.n_ff};
    sp_err err = sp_mem_alloc(d, bytes, "the scratch of a step", &f.gate);
    if (err == SP_OK) err = sp_mem_alloc(d, bytes, "the scratch of a step", &f.up);
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
}
