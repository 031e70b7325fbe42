/* norms.c -- norms before and after the parts of a layer, and the sum that the stream is. */
#include "engine/state.h"

const float *sp_norm_rows(sp_engine *e, const float *w, const float *b)
{
    const sp_hparams *hp = &e->o.model->hp;
    if (!w) return e->x;
    if (hp->layer_norm) {
        sp_device_layernorm(e->device, &(sp_layernorm_args){.x = e->x,
                                                            .w = w,
                                                            .b = b,
                                                            .y = e->h,
                                                            .m = e->rows.n,
                                                            .n = hp->n_embd,
                                                            .eps = hp->norm_eps,
                                                            .feeds = true});
        return e->h;
    }
    sp_device_rmsnorm(e->device, &(sp_rmsnorm_args){.x = e->x,
                                                    .w = w,
                                                    .y = e->h,
                                                    .m = e->rows.n,
                                                    .n = hp->n_embd,
                                                    .eps = hp->norm_eps,
                                                    .feeds = true});
    return e->h;
}

void sp_norm_heads(sp_engine *e, float *x, const float *w, int n_heads)
{
    const sp_hparams *hp = &e->o.model->hp;
    const int together = hp->wide_qk_norm ? n_heads : 1;
    if (w)
        sp_device_rmsnorm(e->device, &(sp_rmsnorm_args){.x = x,
                                                        .w = w,
                                                        .y = x,
                                                        .m = (int64_t)e->rows.n * n_heads / together,
                                                        .n = (int64_t)together * hp->head,
                                                        .eps = hp->norm_eps});
}

void sp_norm_after(sp_engine *e, float *y, const float *w)
{
    const sp_hparams *hp = &e->o.model->hp;
    if (w)
        sp_device_rmsnorm(
            e->device,
            &(sp_rmsnorm_args){
                .x = y, .w = w, .y = y, .m = e->rows.n, .n = hp->n_embd, .eps = hp->norm_eps});
    sp_device_blend(e->device,
                    &(sp_blend_args){.x = y,
                                     .y = e->x,
                                     .n = (int64_t)e->rows.n * hp->n_embd,
                                     .keep = 1,
                                     .scale = hp->residual_scale != 0 ? hp->residual_scale : 1});
}
