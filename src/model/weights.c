/* Which tensor becomes which weight is data: a row of `layer_rows` or `model_rows` gives the names,
 * the place in the struct, the shape in letters of shapes.h and when the tensor must be there. */
#include "model/weights.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "base/log.h"

typedef enum form {
    MATRIX,  /* sp_mat, borrowed */
    VECTOR,  /* const float *, converted */
    FOREIGN, /* must not be there: it means a computation that the forward pass does not do */
} form;

typedef enum when { ALWAYS, MAYBE, WITH_BIAS, WITH_QK_NORM } when;

/* Sizes by letter: Q = H D, K = G D, R = n_rot / 2, '1' for a vector's only row. */
typedef struct row {
    const char *gguf, *hf; /* %d: the layer; NULL: this kind of file has no such tensor */
    form form;
    when when;
    char rows, cols;
    size_t field; /* offset in sp_layer or sp_model */
} row;

#define HF_LAYER "model.layers.%d."
#define ATTN     HF_LAYER "self_attn."
#define LAYER(f) offsetof(sp_layer, f)

static const row layer_rows[] = {
    {"blk.%d.attn_norm.weight", HF_LAYER "input_layernorm.weight", VECTOR, ALWAYS, '1', 'E',
     LAYER(attn_norm)},
    {"blk.%d.ffn_norm.weight", HF_LAYER "post_attention_layernorm.weight", VECTOR, ALWAYS, '1', 'E',
     LAYER(ffn_norm)},
    {"blk.%d.attn_q.weight", ATTN "q_proj.weight", MATRIX, ALWAYS, 'Q', 'E', LAYER(wq)},
    {"blk.%d.attn_k.weight", ATTN "k_proj.weight", MATRIX, ALWAYS, 'K', 'E', LAYER(wk)},
    {"blk.%d.attn_v.weight", ATTN "v_proj.weight", MATRIX, ALWAYS, 'K', 'E', LAYER(wv)},
    {"blk.%d.attn_output.weight", ATTN "o_proj.weight", MATRIX, ALWAYS, 'E', 'Q', LAYER(wo)},
    {"blk.%d.attn_q.bias", ATTN "q_proj.bias", VECTOR, WITH_BIAS, '1', 'Q', LAYER(bq)},
    {"blk.%d.attn_k.bias", ATTN "k_proj.bias", VECTOR, WITH_BIAS, '1', 'K', LAYER(bk)},
    {"blk.%d.attn_v.bias", ATTN "v_proj.bias", VECTOR, WITH_BIAS, '1', 'K', LAYER(bv)},
    {"blk.%d.attn_output.bias", ATTN "o_proj.bias", VECTOR, MAYBE, '1', 'E', LAYER(bo)},
    {"blk.%d.attn_q_norm.weight", ATTN "q_norm.weight", VECTOR, WITH_QK_NORM, '1', 'D',
     LAYER(q_norm)},
    {"blk.%d.attn_k_norm.weight", ATTN "k_norm.weight", VECTOR, WITH_QK_NORM, '1', 'D',
     LAYER(k_norm)},
    {"blk.%d.ffn_gate.weight", HF_LAYER "mlp.gate_proj.weight", MATRIX, ALWAYS, 'F', 'E',
     LAYER(w_gate)},
    {"blk.%d.ffn_up.weight", HF_LAYER "mlp.up_proj.weight", MATRIX, ALWAYS, 'F', 'E', LAYER(w_up)},
    {"blk.%d.ffn_down.weight", HF_LAYER "mlp.down_proj.weight", MATRIX, ALWAYS, 'E', 'F',
     LAYER(w_down)},
    {"blk.%d.ffn_gate.bias", HF_LAYER "mlp.gate_proj.bias", FOREIGN, MAYBE, 0, 0, 0},
    {"blk.%d.ffn_up.bias", HF_LAYER "mlp.up_proj.bias", FOREIGN, MAYBE, 0, 0, 0},
    {"blk.%d.ffn_down.bias", HF_LAYER "mlp.down_proj.bias", FOREIGN, MAYBE, 0, 0, 0},
    {"blk.%d.post_attention_norm.weight", NULL, FOREIGN, MAYBE, 0, 0, 0},
};

#define MODEL(f) offsetof(sp_model, f)

/* The order matters: the embedding gives V, which the output must have as well. */
static const row embed_row = {
    "token_embd.weight", "model.embed_tokens.weight", MATRIX, ALWAYS, 'V', 'E', MODEL(embed)};
static const row output_row = {"output.weight", "lm_head.weight", MATRIX, ALWAYS, 'V', 'E',
                               MODEL(output)};
static const row norm_row = {"output_norm.weight", "model.norm.weight", VECTOR, ALWAYS, '1', 'E',
                             MODEL(output_norm)};
static const row factors_row = {"rope_freqs.weight", NULL, VECTOR, MAYBE, '1', 'R', 0};

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

static int64_t size_of(const binder *b, char letter)
{
    const sp_hparams *hp = &b->m->hp;
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
        return b->config->rope.n_rot / 2;
    case 'V':
        return hp->n_vocab;
    default:
        return 1;
    }
}

static bool must_be_there(const binder *b, when w)
{
    return w == ALWAYS || (w == WITH_BIAS && b->config->arch->qkv_bias) ||
           (w == WITH_QK_NORM && b->config->arch->qk_norm);
}

/* The tensor of a row, marked as used; NULL when the file has none. */
static const sp_tensor *find(binder *b, const row *r, int layer, char *name, size_t n_name)
{
    const char *pattern = b->gguf ? r->gguf : r->hf;
    if (!pattern) return NULL;
    const char *mark = strstr(pattern, "%d");
    if (mark)
        snprintf(name, n_name, "%.*s%d%s", (int)(mark - pattern), pattern, layer, mark + 2);
    else
        snprintf(name, n_name, "%s", pattern);
    const sp_tensor *t = sp_tensor_find(b->dir, name, strlen(name));
    if (t) b->used[t - b->dir->list.v] = true;
    return t;
}

static sp_err check(const binder *b, const row *r, const sp_tensor *t)
{
    int64_t rows = size_of(b, r->rows), cols = size_of(b, r->cols);
    int want = r->form == MATRIX ? 2 : 1;
    int64_t got_rows = t->n_dims == 2 ? t->shape[0] : 1, got_cols = t->shape[t->n_dims - 1];
    if (t->dtype == SP_DTYPE_N)
        return sp_fail(SP_E_UNSUPPORTED, "%s: tensor %.*s: its type %s is not supported", t->path,
                       SP_VIEW(t->name), t->type);
    if (t->n_dims != want || got_rows != rows || got_cols != cols)
        return sp_fail(SP_E_FORMAT,
                       "%s: tensor %.*s: its shape is %s%" PRId64 " x %" PRId64
                       ", the configuration asks for %" PRId64 " x %" PRId64,
                       t->path, SP_VIEW(t->name), t->n_dims > 2 ? "... x " : "", got_rows, got_cols,
                       rows, cols);
    return SP_OK;
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
    char name[96];
    const sp_tensor *t = find(b, r, layer, name, sizeof name);
    if (!t && must_be_there(b, r->when))
        return sp_fail(SP_E_FORMAT, "%s: tensor %s: is missing", b->path, name);
    if (!t) return SP_OK;
    if (r->form == FOREIGN)
        return sp_fail(SP_E_UNSUPPORTED, "%s: tensor %s: is not part of %s as it is supported",
                       t->path, name, b->config->arch->name);
    SP_TRY(check(b, r, t));
    void *field = (char *)base + r->field;
    return r->form == MATRIX ? bind_matrix(b, t, field) : bind_vector(b, t, field);
}

/* -- the model ------------------------------------------------------------------------------ */

/* V is the number of rows of the embedding; a config.json must agree. */
static sp_err bind_embedding(binder *b)
{
    char name[96];
    int claimed = b->config->hp.n_vocab;
    const sp_tensor *t = find(b, &embed_row, 0, name, sizeof name);
    if (t && claimed == 0 && t->shape[0] >= 1 && t->shape[0] <= 1 << 26)
        b->m->hp.n_vocab = (int)t->shape[0];
    return bind(b, &embed_row, 0, b->m);
}

static sp_err bind_output(binder *b)
{
    char name[96];
    const sp_config *c = b->config;
    bool there = find(b, &output_row, 0, name, sizeof name) != NULL;
    if (c->tied || (!there && c->arch->tied && !c->untied)) {
        b->m->output = b->m->embed;
        return SP_OK;
    }
    return bind(b, &output_row, 0, b->m);
}

static sp_err bind_rope(binder *b)
{
    const sp_rope_config *r = &b->config->rope;
    const float *factors = NULL;
    SP_TRY(bind(b, &factors_row, 0, &factors));
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
    SP_TRY(bind(b, &norm_row, 0, b->m));
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
