/* weights.c -- which tensor becomes which weight, as data: a row gives the tensor's names in both
 * kinds of files, its shape, when it must be there and the place of the weight in the struct.
 * Binding a file and walking over a model's weights both go by these rows.
 *
 * A shape of two letters is a matrix, borrowed from the file; of one letter a vector, converted to
 * f32. Letters are those of shapes.h, and Q = H D, K = G D, R = n_rot / 2. A row without a shape is
 * a tensor that must not be there: it means a computation that the forward pass does not do.
 */
#include "model/weights.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "base/log.h"

typedef enum need { ALWAYS, MAYBE, WITH_BIAS, WITH_QK_NORM } need;

typedef struct row {
    const char *gguf, *hf; /* after the prefix of the layer; NULL: not in this kind of file */
    const char *shape;
    need need;
    size_t field; /* offset in sp_layer or sp_model */
} row;

#define LAYER(f) offsetof(sp_layer, f)
#define MODEL(f) offsetof(sp_model, f)

/* clang-format off */
static const row layer_rows[] = {
    {"attn_norm.weight",   "input_layernorm.weight",          "E",  ALWAYS,       LAYER(attn_norm)},
    {"ffn_norm.weight",    "post_attention_layernorm.weight", "E",  ALWAYS,       LAYER(ffn_norm)},
    {"attn_q.weight",      "self_attn.q_proj.weight",         "QE", ALWAYS,       LAYER(wq)},
    {"attn_k.weight",      "self_attn.k_proj.weight",         "KE", ALWAYS,       LAYER(wk)},
    {"attn_v.weight",      "self_attn.v_proj.weight",         "KE", ALWAYS,       LAYER(wv)},
    {"attn_output.weight", "self_attn.o_proj.weight",         "EQ", ALWAYS,       LAYER(wo)},
    {"attn_q.bias",        "self_attn.q_proj.bias",           "Q",  WITH_BIAS,    LAYER(bq)},
    {"attn_k.bias",        "self_attn.k_proj.bias",           "K",  WITH_BIAS,    LAYER(bk)},
    {"attn_v.bias",        "self_attn.v_proj.bias",           "K",  WITH_BIAS,    LAYER(bv)},
    {"attn_output.bias",   "self_attn.o_proj.bias",           "E",  MAYBE,        LAYER(bo)},
    {"attn_q_norm.weight", "self_attn.q_norm.weight",         "D",  WITH_QK_NORM, LAYER(q_norm)},
    {"attn_k_norm.weight", "self_attn.k_norm.weight",         "D",  WITH_QK_NORM, LAYER(k_norm)},
    {"ffn_gate.weight",    "mlp.gate_proj.weight",            "FE", ALWAYS,       LAYER(w_gate)},
    {"ffn_up.weight",      "mlp.up_proj.weight",              "FE", ALWAYS,       LAYER(w_up)},
    {"ffn_down.weight",    "mlp.down_proj.weight",            "EF", ALWAYS,       LAYER(w_down)},
    {"ffn_gate.bias",      "mlp.gate_proj.bias",              NULL, MAYBE,        0},
    {"ffn_up.bias",        "mlp.up_proj.bias",                NULL, MAYBE,        0},
    {"ffn_down.bias",      "mlp.down_proj.bias",              NULL, MAYBE,        0},
    {"post_attention_norm.weight", NULL,                      NULL, MAYBE,        0},
};

static const row
    embed_row   = {"token_embd.weight",  "model.embed_tokens.weight", "VE", ALWAYS, MODEL(embed)},
    output_row  = {"output.weight",      "lm_head.weight",            "VE", ALWAYS, MODEL(output)},
    norm_row    = {"output_norm.weight", "model.norm.weight",         "E",  ALWAYS, MODEL(output_norm)},
    factors_row = {"rope_freqs.weight",  NULL,                        "R",  MAYBE,  0};
/* clang-format on */

enum { NO_LAYER = -1, NAME_BYTES = 96 };

typedef struct binder {
    const sp_tensor_dir *dir;
    const sp_config *config;
    const char *path;
    bool gguf;
    sp_arena *arena;
    sp_model *m;
    bool *used; /* [dir->list.n] */
} binder;

/* -- one tensor ----------------------------------------------------------------------------- */

static int64_t size_of(const sp_hparams *hp, int n_rot, char letter)
{
    switch (letter) {
    case 'E':
        return hp->n_embd;
    case 'F':
        return hp->n_ff;
    case 'Q':
        return (int64_t)hp->n_heads * hp->head;
    case 'K':
        return (int64_t)hp->n_kv_heads * hp->head;
    case 'D':
        return hp->head;
    case 'R':
        return n_rot / 2;
    case 'V':
        return hp->n_vocab;
    default:
        return 0;
    }
}

static bool must_be_there(const binder *b, need n)
{
    return n == ALWAYS || (n == WITH_BIAS && b->config->arch->qkv_bias) ||
           (n == WITH_QK_NORM && b->config->arch->qk_norm);
}

/* The tensor of a row, marked as used; NULL when the file has none. */
static const sp_tensor *find(binder *b, const row *r, int layer, char *name)
{
    const char *end = b->gguf ? r->gguf : r->hf;
    if (!end) return NULL;
    if (layer == NO_LAYER)
        snprintf(name, NAME_BYTES, "%s", end);
    else
        snprintf(name, NAME_BYTES, b->gguf ? "blk.%d.%s" : "model.layers.%d.%s", layer, end);
    const sp_tensor *t = sp_tensor_find(b->dir, name, strlen(name));
    if (t) b->used[t - b->dir->list.v] = true;
    return t;
}

/* "20 x 32" */
static const char *shape_text(const int64_t *shape, int n, char *buf, size_t n_buf)
{
    size_t at = 0;
    for (int i = 0; i < n && at < n_buf; i++)
        at += (size_t)snprintf(buf + at, n_buf - at, "%s%" PRId64, i ? " x " : "", shape[i]);
    return buf;
}

static sp_err check(const binder *b, const row *r, const sp_tensor *t)
{
    char got[96], wanted[96];
    const int n_rot = b->config->rope.n_rot;
    int64_t want[2] = {size_of(&b->m->hp, n_rot, r->shape[0]),
                       size_of(&b->m->hp, n_rot, r->shape[1])};
    int n = r->shape[1] ? 2 : 1;
    if (t->dtype == SP_DTYPE_N)
        return sp_fail(SP_E_UNSUPPORTED, "%s: tensor %.*s: its type %s is not supported", t->path,
                       SP_VIEW(t->name), t->type);
    if (t->n_dims == n && memcmp(t->shape, want, (size_t)n * sizeof want[0]) == 0) return SP_OK;
    return sp_fail(SP_E_FORMAT, "%s: tensor %.*s: its shape is %s, the configuration asks for %s",
                   t->path, SP_VIEW(t->name), shape_text(t->shape, t->n_dims, got, sizeof got),
                   shape_text(want, n, wanted, sizeof wanted));
}

/* Kernels read whole elements: a matrix that a file placed at an odd address is copied. The fields
 * of a quantized group are 16-bit at most. */
static sp_err bind_matrix(binder *b, const sp_tensor *t, sp_mat *out)
{
    const void *data = t->data;
    uintptr_t align = t->dtype == SP_F32 ? sizeof(float) : sizeof(uint16_t);
    if ((uintptr_t)data % align) {
        void *copy = sp_arena_take(b->arena, t->n_bytes, 1);
        if (!copy) return sp_fail_nomem(t->n_bytes, "an unaligned tensor");
        data = memcpy(copy, data, t->n_bytes);
        sp_log(SP_LOG_DEBUG, "%s: tensor %.*s: unaligned, copied", t->path, SP_VIEW(t->name));
    }
    *out = (sp_mat){.type = t->dtype, .n_rows = t->shape[0], .n_cols = t->shape[1], .data = data};
    return SP_OK;
}

static sp_err bind_vector(binder *b, const sp_tensor *t, const float **out)
{
    int64_t n = t->shape[t->n_dims - 1];
    float *v = sp_arena_take(b->arena, (size_t)n, sizeof *v);
    if (!v) return sp_fail_nomem((size_t)n * sizeof *v, "a weight vector");
    sp_row_to_f32(t->dtype, t->data, v, n);
    *out = v;
    return SP_OK;
}

/* Binds the tensor of a row into the struct at `base`, which is zeroed where nothing is bound. */
static sp_err bind(binder *b, const row *r, int layer, void *base)
{
    char name[NAME_BYTES];
    const sp_tensor *t = find(b, r, layer, name);
    if (!t && must_be_there(b, r->need))
        return sp_fail(SP_E_FORMAT, "%s: tensor %s: is missing", b->path, name);
    if (!t) return SP_OK;
    if (!r->shape)
        return sp_fail(SP_E_UNSUPPORTED, "%s: tensor %s: is not part of %s as it is supported",
                       t->path, name, b->config->arch->name);
    SP_TRY(check(b, r, t));
    void *field = (char *)base + r->field;
    return r->shape[1] ? bind_matrix(b, t, field) : bind_vector(b, t, field);
}

/* -- the model ------------------------------------------------------------------------------ */

/* V is the number of rows of the embedding; a config.json must agree. */
static sp_err bind_embedding(binder *b)
{
    char name[NAME_BYTES];
    int claimed = b->config->hp.n_vocab;
    const sp_tensor *t = find(b, &embed_row, NO_LAYER, name);
    if (t && claimed == 0 && t->shape[0] >= 1 && t->shape[0] <= 1 << 26)
        b->m->hp.n_vocab = (int)t->shape[0];
    return bind(b, &embed_row, NO_LAYER, b->m);
}

static sp_err bind_output(binder *b)
{
    char name[NAME_BYTES];
    const sp_config *c = b->config;
    bool there = find(b, &output_row, NO_LAYER, name) != NULL;
    if (c->tied || (!there && c->arch->tied && !c->untied)) {
        b->m->output = b->m->embed;
        b->m->tied = true;
        return SP_OK;
    }
    return bind(b, &output_row, NO_LAYER, b->m);
}

static sp_err bind_rope(binder *b)
{
    const sp_rope_config *r = &b->config->rope;
    const float *factors = NULL;
    SP_TRY(bind(b, &factors_row, NO_LAYER, &factors));
    for (int i = 0; factors && i < r->n_rot / 2; i++)
        if (!(factors[i] > 0))
            return sp_fail(SP_E_FORMAT, "%s: tensor %s: factor %d is not positive", b->path,
                           factors_row.gguf, i);
    b->m->rope.freq = sp_arena_take(b->arena, (size_t)r->n_rot / 2, sizeof(float));
    if (!b->m->rope.freq) return sp_fail_nomem((size_t)r->n_rot * 2, "rotary frequencies");
    sp_rope_fill(r, factors, b->config->adjacent, &b->m->rope);
    return SP_OK;
}

static sp_err bind_layers(binder *b)
{
    size_t n = (size_t)b->m->hp.n_layers;
    b->m->layers = sp_arena_take(b->arena, n, sizeof(sp_layer));
    if (!b->m->layers) return sp_fail_nomem(n * sizeof(sp_layer), "the layer table");
    for (size_t l = 0; l < n; l++)
        for (size_t i = 0; i < SP_COUNT(layer_rows); i++)
            SP_TRY(bind(b, &layer_rows[i], (int)l, &b->m->layers[l]));
    return SP_OK;
}

static sp_err bind_all(binder *b)
{
    SP_TRY(bind_embedding(b));
    SP_TRY(bind_output(b));
    SP_TRY(bind(b, &norm_row, NO_LAYER, b->m));
    SP_TRY(bind_rope(b));
    SP_TRY(bind_layers(b));
    for (size_t i = 0; i < b->dir->list.n; i++)
        if (!b->used[i])
            sp_log(SP_LOG_DEBUG, "%s: tensor %.*s: ignored", b->path,
                   SP_VIEW(b->dir->list.v[i].name));
    return SP_OK;
}

sp_err sp_weights_bind(const sp_tensor_dir *dir, const sp_config *c, const char *path, bool gguf,
                       sp_arena *arena, sp_model *m)
{
    binder b = {.dir = dir, .config = c, .path = path, .gguf = gguf, .arena = arena, .m = m};
    b.used = SP_NEW_N(bool, dir->list.n);
    if (!b.used) return sp_fail_nomem(dir->list.n, "a list of tensors");
    m->hp = c->hp;
    sp_err err = bind_all(&b);
    sp_free(b.used);
    return err;
}

/* -- all weights of a model ----------------------------------------------------------------- */

/* row_at -- row and struct of the i-th weight: embedding, layer after layer, the output; NULL after
 * the last. */
static const row *row_at(sp_model *m, int i, void **base)
{
    const int n = (int)SP_COUNT(layer_rows), n_layers = m->hp.n_layers;
    *base = m;
    if (i == 0) return &embed_row;
    if (--i < n * n_layers) {
        *base = &m->layers[i / n];
        return &layer_rows[i % n];
    }
    i -= n * n_layers;
    return i == 0 ? &norm_row : i == 1 ? &output_row : NULL;
}

bool sp_weights_next(sp_model *m, int *i, sp_weight *out)
{
    const row *r;
    for (void *base; (r = row_at(m, *i, &base)); ++*i) {
        if (!r->shape) continue;
        void *field = (char *)base + r->field;
        sp_weight w = {.n = size_of(&m->hp, m->rope.n_rot, r->shape[0])};
        if (r->shape[1])
            w.mat = field;
        else
            w.vec = field;
        if (w.mat ? w.mat->n_rows == 0 : !*w.vec) continue;
        *out = w;
        ++*i;
        return true;
    }
    return false;
}

sp_mat *sp_model_next_matrix(sp_model *m, int *i)
{
    sp_weight w;
    while (sp_weights_next(m, i, &w))
        if (w.mat) return w.mat;
    return NULL;
}

int64_t sp_model_n_params(sp_model *m)
{
    int64_t n = 0;
    int i = 0;
    for (const sp_mat *w; (w = sp_model_next_matrix(m, &i));)
        if (w != &m->output || !m->tied) n += w->n_rows * w->n_cols;
    return n;
}
