/* tiny_model.h -- a small random model built in memory, and an engine around it, for tests in C.
 *
 * The weights are drawn from one seed; their type, the rotary variant and the device are the
 * caller's. */
#ifndef SP_TESTS_TINY_MODEL_H
#define SP_TESTS_TINY_MODEL_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compute/kernels.h"
#include "engine/engine.h"
#include "support/far_device.h"

typedef struct tiny_spec {
    int n_layers, n_heads, n_kv_heads, head, n_ff, n_vocab, n_ctx;
    int n_rot; /* 0: the whole head */
    bool adjacent, bias, head_norm;
    /* what some architectures have */
    int window;       /* of every layer but each third, which does not rotate; the others have a base
                         of their own; 0: none */
    bool norms_after; /* in place of those before attention and feed-forward */
    bool scaled;      /* factors, caps and GELU */
    bool grows;       /* queries grow every 20 positions */
    bool sinks;       /* a score of each head that adds no value */
    bool parallel;    /* one LayerNorm for both parts of a layer, and a feed-forward without a gate */
    int n_experts;    /* in place of one feed-forward, two used, and a shared one; 0: none */
    float rope_base, rope_stretch; /* every second frequency is divided by rope_stretch (0: none) */
    sp_dtype kv_type, weight_type; /* the latter of layers */
    const char *device;            /* "cpu" (NULL), or "far": support/far_device.h */
    const char *cpu;               /* name of the kernels */
    int n_threads, n_blocks, max_rows;
} tiny_spec;

#define TINY_SPEC_DEFAULT                                                                          \
    {                                                                                              \
        .n_layers = 3, .n_heads = 4, .n_kv_heads = 2, .head = 32, .n_ff = 96, .n_vocab = 101,      \
        .n_ctx = 512, .rope_base = 10000, .kv_type = SP_F16, .cpu = "ref", .n_threads = 2,         \
        .n_blocks = 256, .max_rows = 512                                                           \
    }

typedef struct tiny {
    sp_model model;
    sp_device *device;
    sp_kv_pool *pool;
    sp_engine *engine;
    uint64_t rng;
    void *owned[256];
    int n_owned;
} tiny;

static inline uint32_t tiny_random(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*s >> 33);
}

/* tiny_below -- a number in [0, n). */
static inline int tiny_below(uint64_t *s, int n)
{
    return (int)(tiny_random(s) % (uint32_t)n);
}

static inline float *tiny_floats(tiny *t, int64_t n, float mean, float scale)
{
    float *v = malloc((size_t)n * sizeof *v);
    for (int64_t i = 0; i < n; i++)
        v[i] = mean + scale * ((float)tiny_random(&t->rng) * 0x1p-30f - 1.0f);
    t->owned[t->n_owned++] = v;
    return v;
}

static inline sp_mat tiny_mat(tiny *t, int64_t rows, int64_t cols)
{
    float *v = tiny_floats(t, rows * cols, 0, 1.7f / sqrtf((float)cols));
    return (sp_mat){.type = SP_F32, .n_rows = rows, .n_cols = cols, .data = v};
}

/* tiny_layer_mat -- in the type of the spec. */
static inline sp_mat tiny_layer_mat(tiny *t, const tiny_spec *s, int64_t rows, int64_t cols)
{
    sp_mat w = tiny_mat(t, rows, cols);
    if (s->weight_type == SP_F32) return w;
    const size_t row_bytes = sp_row_bytes(s->weight_type, cols);
    uint8_t *data = malloc((size_t)rows * row_bytes);
    for (int64_t r = 0; r < rows; r++)
        sp_row_from_f32(s->weight_type, (const float *)w.data + r * cols,
                        data + (size_t)r * row_bytes, cols);
    t->owned[t->n_owned++] = data;
    w.type = s->weight_type;
    w.data = data;
    return w;
}

static inline sp_mlp tiny_expert(tiny *t, const tiny_spec *s)
{
    const int64_t e = (int64_t)s->n_heads * s->head;
    return (sp_mlp){tiny_layer_mat(t, s, s->n_ff, e), tiny_layer_mat(t, s, s->n_ff, e),
                       tiny_layer_mat(t, s, e, s->n_ff)};
}

static inline void tiny_experts(tiny *t, const tiny_spec *s, sp_layer *w)
{
    const int64_t e = (int64_t)s->n_heads * s->head;
    w->ffn = SP_FFN_EXPERTS;
    w->experts = calloc((size_t)s->n_experts, sizeof *w->experts);
    t->owned[t->n_owned++] = w->experts;
    for (int i = 0; i < s->n_experts; i++) w->experts[i] = tiny_expert(t, s);
    w->shared = tiny_expert(t, s);
    w->router = tiny_mat(t, s->n_experts, e);
    w->shared_gate = tiny_mat(t, 1, e);
}

static inline void tiny_layer(tiny *t, const tiny_spec *s, sp_layer *w)
{
    int64_t e = (int64_t)s->n_heads * s->head, kd = (int64_t)s->n_kv_heads * s->head;
    *w =
        (sp_layer){.attn_norm = tiny_floats(t, e, 1, 0.3f), .ffn_norm = tiny_floats(t, e, 1, 0.3f)};
    w->wq = tiny_layer_mat(t, s, e, e);
    w->wk = tiny_layer_mat(t, s, kd, e);
    w->wv = tiny_layer_mat(t, s, kd, e);
    w->wo = tiny_layer_mat(t, s, e, e);
    if (s->n_experts) {
        tiny_experts(t, s, w);
    } else {
        w->mlp.w_gate = tiny_layer_mat(t, s, s->n_ff, e);
        w->mlp.w_up = tiny_layer_mat(t, s, s->n_ff, e);
        w->mlp.w_down = tiny_layer_mat(t, s, e, s->n_ff);
    }
    if (s->sinks) w->sinks = tiny_floats(t, s->n_heads, 0, 3);
    if (s->parallel) w->mlp.w_gate = (sp_mat){0};
    if (s->norms_after) {
        w->attn_post_norm = w->attn_norm;
        w->ffn_post_norm = w->ffn_norm;
        w->attn_norm = w->ffn_norm = NULL;
    }
    if (s->bias) {
        w->bq = tiny_floats(t, e, 0, 0.5f);
        w->bk = tiny_floats(t, kd, 0, 0.5f);
        w->bv = tiny_floats(t, kd, 0, 0.5f);
    }
    if (s->head_norm) {
        w->q_norm = tiny_floats(t, s->head, 1, 0.3f);
        w->k_norm = tiny_floats(t, s->head, 1, 0.3f);
    }
}

static inline void tiny_rope(tiny *t, const tiny_spec *s)
{
    int n_rot = s->n_rot ? s->n_rot : s->head;
    float *freq = tiny_floats(t, n_rot / 2, 0, 0);
    for (int i = 0; i < n_rot / 2; i++) {
        freq[i] = powf(s->rope_base, -2.0f * (float)i / (float)n_rot);
        if (s->rope_stretch > 0 && i % 2) freq[i] /= s->rope_stretch;
    }
    t->model.rope =
        (sp_rope_spec){.n_rot = n_rot, .adjacent = s->adjacent, .freq = freq, .magnitude = 1};
}

static inline sp_err tiny_device(const tiny_spec *s, sp_device **out)
{
    const sp_device_opts o = {.kernels = s->cpu, .n_threads = s->n_threads};
    if (s->device && strcmp(s->device, "far") == 0) return far_device_open(&o, out);
    return sp_device_open(s->device, &o, out);
}

/* tiny_weights -- the model in host memory. */
static inline void tiny_weights(tiny *t, const tiny_spec *s)
{
    sp_model *m = &t->model;
    int e = s->n_heads * s->head;
    m->path = "tiny";
    m->hp = (sp_hparams){.arch = "llama",
                         .n_layers = s->n_layers,
                         .n_embd = e,
                         .n_heads = s->n_heads,
                         .n_kv_heads = s->n_kv_heads,
                         .head = s->head,
                         .n_ff = s->n_ff,
                         .n_vocab = s->n_vocab,
                         .n_ctx = s->n_ctx,
                         .norm_eps = 1e-5f,
                         .attn_scale = 1 / sqrtf((float)s->head)};
    tiny_rope(t, s);
    m->embed = tiny_mat(t, s->n_vocab, e);
    m->output = tiny_mat(t, s->n_vocab, e);
    m->output_norm = tiny_floats(t, e, 1, 0.3f);
    m->layers = calloc((size_t)s->n_layers, sizeof *m->layers);
    t->owned[t->n_owned++] = m->layers;
    for (int l = 0; l < s->n_layers; l++) tiny_layer(t, s, &m->layers[l]);
}

/* tiny_variety -- what the spec has of rarer architectures. */
static inline void tiny_variety(tiny *t, const tiny_spec *s)
{
    sp_model *m = &t->model;
    m->hp.parallel = m->hp.layer_norm = s->parallel;
    if (s->grows) {
        m->hp.attn_growth = 0.3f;
        m->hp.attn_period = 20;
    }
    if (s->scaled) {
        m->hp.act = SP_ACT_GELU;
        m->hp.embed_scale = 3;
        m->hp.residual_scale = 0.5f;
        m->hp.logit_scale = 0.25f;
        m->hp.attn_cap = 4;
        m->hp.logit_cap = 2;
    }
    if (s->n_experts)
        m->hp.moe = (sp_moe){.n = s->n_experts, .n_used = 2, .n_ff = s->n_ff, .n_shared = s->n_ff};
    if (s->window == 0) return;
    float *freq = tiny_floats(t, m->rope.n_rot / 2, 0, 0);
    for (int i = 0; i < m->rope.n_rot / 2; i++) freq[i] = m->rope.freq[i] * 0.7f;
    m->rope_local = m->rope;
    m->rope_local.freq = freq;
    m->hp.sliding_window = s->window;
    for (int l = 0; l < s->n_layers; l++) {
        const bool local = (l + 1) % 3 != 0;
        m->layers[l].window = local ? s->window : 0;
        m->layers[l].rope = local ? SP_ROPE_LOCAL : SP_ROPE_NONE;
    }
}

/* tiny_open -- SP_E_UNSUPPORTED when the CPU lacks the kernels; anything else must succeed. */
static inline sp_err tiny_open(tiny *t, const tiny_spec *s, uint64_t seed)
{
    *t = (tiny){.rng = seed};
    SP_TRY(tiny_device(s, &t->device));
    tiny_weights(t, s);
    tiny_variety(t, s);
    SP_TRY(sp_model_load(&t->model, t->device, NULL));
    sp_kv_shape shape = {s->n_layers, s->n_kv_heads, s->head, s->kv_type};
    SP_TRY(sp_kv_pool_create(t->device, &shape, s->n_blocks, &t->pool));
    return sp_engine_create(&(sp_engine_opts){.model = &t->model,
                                              .pool = t->pool,
                                              .n_ctx = s->n_ctx,
                                              .max_rows = s->max_rows,
                                              .max_slices = 8},
                            &t->engine);
}

static inline void tiny_close(tiny *t)
{
    sp_engine_destroy(t->engine);
    sp_kv_pool_destroy(t->pool);
    sp_model_unload(&t->model);
    sp_device_close(t->device);
    for (int i = 0; i < t->n_owned; i++) free(t->owned[i]);
    *t = (tiny){0};
}

/* -- stored keys and values, read through copies: on any device ------------------------------- */

/* tiny_block -- one block of one layer in host memory; the caller frees it. */
static inline uint8_t *tiny_block(sp_kv_pool *pool, int layer, uint32_t block)
{
    size_t n = sp_kv_pool_layer_block_bytes(pool);
    uint8_t *copy = malloc(n);
    const uint8_t *at;
    if (sp_kv_pool_read(pool, (sp_kv_run){layer, block, 1}, copy, &at) != SP_OK) abort();
    if (at != copy) memcpy(copy, at, n);
    return copy;
}

/* tiny_kv_read -- key (as rotated) and value of one token and head: k, v [D]. */
static inline void tiny_kv_read(sp_kv_pool *pool, int layer, const sp_kv_slot *at, int head,
                                float *k, float *v)
{
    sp_kv_view kv = sp_kv_pool_layer(pool, layer);
    kv.base = tiny_block(pool, layer, at->block);
    sp_kv_read(&kv, &(sp_kv_slot){.slot = at->slot}, head, k, v);
    free(kv.base);
}

/* tiny_nmse -- |a - b|^2 / |b|^2. */
static inline double tiny_nmse(const float *a, const float *b, size_t n)
{
    double diff = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        diff += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        norm += (double)b[i] * b[i];
    }
    return diff / (norm > 0 ? norm : 1);
}

#endif
