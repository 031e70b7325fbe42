/* encoder_weights.c -- which tensor becomes which weight, as data. A shape of two letters is a matrix,
 * borrowed from the file; of one letter a vector, converted to f32. A tensor that no row names is refused:
 * it implies a computation that the encoder does not do. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "model/encoder/encoder_int.h"

typedef struct row {
    const char *gguf, *hf; /* after the prefix of the layer */
    const char *shape;     /* E F V; P positions, T types */
    size_t field;          /* offset in sp_encoder_layer, sp_encoder or tables */
} row;

#define LAYER(f)   offsetof(sp_encoder_layer, f)
#define ENCODER(f) offsetof(sp_encoder, f)

/* clang-format off */
static const row layer_rows[] = {
    {"attn_q.weight",      "attention.self.query.weight",   "EE", LAYER(q.w)},
    {"attn_q.bias",        "attention.self.query.bias",     "E",  LAYER(q.b)},
    {"attn_k.weight",      "attention.self.key.weight",     "EE", LAYER(k.w)},
    {"attn_k.bias",        "attention.self.key.bias",       "E",  LAYER(k.b)},
    {"attn_v.weight",      "attention.self.value.weight",   "EE", LAYER(v.w)},
    {"attn_v.bias",        "attention.self.value.bias",     "E",  LAYER(v.b)},
    {"attn_output.weight", "attention.output.dense.weight", "EE", LAYER(o.w)},
    {"attn_output.bias",   "attention.output.dense.bias",   "E",  LAYER(o.b)},
    {"attn_output_norm.weight", "attention.output.LayerNorm.weight", "E", LAYER(attn_norm.w)},
    {"attn_output_norm.bias",   "attention.output.LayerNorm.bias",   "E", LAYER(attn_norm.b)},
    {"ffn_up.weight",      "intermediate.dense.weight",     "FE", LAYER(up.w)},
    {"ffn_up.bias",        "intermediate.dense.bias",       "F",  LAYER(up.b)},
    {"ffn_down.weight",    "output.dense.weight",           "EF", LAYER(down.w)},
    {"ffn_down.bias",      "output.dense.bias",             "E",  LAYER(down.b)},
    {"layer_output_norm.weight", "output.LayerNorm.weight", "E",  LAYER(ffn_norm.w)},
    {"layer_output_norm.bias",   "output.LayerNorm.bias",   "E",  LAYER(ffn_norm.b)},
};

static const row model_rows[] = {
    {"token_embd.weight",      "embeddings.word_embeddings.weight", "VE", ENCODER(words)},
    {"token_embd_norm.weight", "embeddings.LayerNorm.weight",       "E",  ENCODER(embed_norm.w)},
    {"token_embd_norm.bias",   "embeddings.LayerNorm.bias",         "E",  ENCODER(embed_norm.b)},
};

/* The parts of sp_encoder.places. */
typedef struct tables {
    sp_mat positions, types;
} tables;

static const row table_rows[] = {
    {"position_embd.weight", "embeddings.position_embeddings.weight",   "PE", offsetof(tables, positions)},
    {"token_types.weight",   "embeddings.token_type_embeddings.weight", "TE", offsetof(tables, types)},
};

/* Of a cross-encoder; names with their prefix. */
#define HEAD(f) offsetof(sp_encoder_head, f)
static const row bert_head[] = {
    {NULL, "bert.pooler.dense.weight", "EE", HEAD(dense_w)},
    {NULL, "bert.pooler.dense.bias",   "E",  HEAD(dense_b)},
    {NULL, "classifier.weight",        "1E", HEAD(out_w)},
    {NULL, "classifier.bias",          "1",  HEAD(out_b)},
};
static const row roberta_head[] = {
    {NULL, "classifier.dense.weight",    "EE", HEAD(dense_w)},
    {NULL, "classifier.dense.bias",      "E",  HEAD(dense_b)},
    {NULL, "classifier.out_proj.weight", "1E", HEAD(out_w)},
    {NULL, "classifier.out_proj.bias",   "1",  HEAD(out_b)},
};
/* clang-format on */

/* Beginnings of names of tensors that change no vector: heads for training, numbers 0 .. n. */
static const char *const harmless[] = {"pooler.", "cls.", "lm_head.", "embeddings.position_ids"};

typedef struct binder {
    const sp_tensor_dir *dir;
    sp_encoder *m;
    bool gguf;
    const char *prefix; /* of all names in a folder: "", "bert." or "roberta." */
    size_t n_used;
    bool *used; /* [dir->list.n] */
} binder;

static int64_t size_of(const sp_encoder_sizes *s, char letter)
{
    switch (letter) {
    case 'E':
        return s->n_embd;
    case 'F':
        return s->n_ff;
    case 'V':
        return s->n_vocab;
    case 'P':
        return s->n_ctx + s->n_skipped;
    case '1':
        return 1;
    default:
        return s->n_types;
    }
}

static sp_err bind_matrix(binder *b, const sp_tensor *t, sp_mat *out)
{
    const void *data = t->data;
    const uintptr_t align = t->dtype == SP_F32 ? sizeof(float) : sizeof(uint16_t);
    if ((uintptr_t)data % align) {
        void *copy = sp_arena_take(&b->m->files->arena, t->n_bytes, 1);
        if (!copy) return sp_fail_nomem("an unaligned tensor");
        data = memcpy(copy, data, t->n_bytes);
    }
    *out = (sp_mat){.type = t->dtype, .n_rows = t->shape[0], .n_cols = t->shape[1], .data = data};
    return SP_OK;
}

static sp_err bind_vector(binder *b, const sp_tensor *t, const float **out)
{
    float *v = sp_arena_take(&b->m->files->arena, (size_t)t->shape[0], sizeof *v);
    if (!v) return sp_fail_nomem("a vector of weights");
    sp_row_to_f32(t->dtype, t->data, v, t->shape[0]);
    *out = v;
    return SP_OK;
}

static sp_err check(const binder *b, const row *r, const sp_tensor *t)
{
    const int n_dims = (int)strlen(r->shape);
    bool good = t->n_dims == n_dims;
    for (int i = 0; good && i < n_dims; i++) good = t->shape[i] == size_of(&b->m->size, r->shape[i]);
    if (!good)
        return sp_fail(SP_E_FORMAT, "%s: tensor %.*s: its shape is not what the configuration asks for", t->path,
                       SP_VIEW(t->name));
    if (t->dtype == SP_DTYPE_N || t->shape[n_dims - 1] % sp_dtype_of(t->dtype)->n_group)
        return sp_fail(SP_E_UNSUPPORTED, "%s: tensor %.*s: its type %s is not supported", t->path, SP_VIEW(t->name),
                       t->type);
    return SP_OK;
}

static sp_err bind_row(binder *b, const row *r, int layer, void *base)
{
    char name[160];
    if (layer < 0)
        snprintf(name, sizeof name, "%s%s", b->prefix, b->gguf ? r->gguf : r->hf);
    else
        snprintf(name, sizeof name, b->gguf ? "%sblk.%d.%s" : "%sencoder.layer.%d.%s", b->prefix, layer,
                 b->gguf ? r->gguf : r->hf);
    const sp_tensor *t = sp_tensor_find(b->dir, name, strlen(name));
    if (!t) return sp_fail(SP_E_FORMAT, "%s: tensor %s: is missing", b->m->path, name);
    b->used[t - b->dir->list.v] = true;
    if (r->shape[0] == 'V' && t->n_dims == 2 && t->shape[0] > 0 && t->shape[0] <= INT32_MAX)
        b->m->size.n_vocab = (int)t->shape[0];
    SP_TRY(check(b, r, t));
    char *at = (char *)base + r->field;
    return r->shape[1] ? bind_matrix(b, t, (sp_mat *)(void *)at) : bind_vector(b, t, (const float **)(void *)at);
}

static sp_err bind_rows(binder *b, const row *rows, size_t n, int layer, void *base)
{
    for (size_t i = 0; i < n; i++) SP_TRY(bind_row(b, &rows[i], layer, base));
    return SP_OK;
}

static const uint8_t *row_of(const sp_mat *w, int64_t i)
{
    return (const uint8_t *)w->data + (size_t)i * sp_row_bytes(w->type, w->n_cols);
}

/* Row t n_ctx + p of the places: that of type t plus that of position p. */
static sp_err add_places(sp_encoder *m, const tables *of)
{
    const int64_t n_ctx = m->size.n_ctx, width = m->size.n_embd, rows = n_ctx * m->size.n_types;
    float *all = sp_arena_take(&m->files->arena, (size_t)(rows * width), sizeof *all);
    float *type = sp_arena_take(&m->files->arena, (size_t)width, sizeof *type);
    if (!all || !type) return sp_fail_nomem("the table of positions");
    for (int64_t t = 0; t < m->size.n_types; t++) {
        sp_row_to_f32(of->types.type, row_of(&of->types, t), type, width);
        for (int64_t p = 0; p < n_ctx; p++) {
            float *to = all + (t * n_ctx + p) * width;
            sp_row_to_f32(of->positions.type, row_of(&of->positions, p + m->size.n_skipped), to, width);
            for (int64_t i = 0; i < width; i++) to[i] += type[i];
        }
    }
    m->places = (sp_mat){.type = SP_F32, .n_rows = rows, .n_cols = width, .data = all};
    return SP_OK;
}

/* The head is computed on the host, from floats. */
static sp_err bind_head(binder *b)
{
    const row *rows = b->m->n_between == 1 ? bert_head : roberta_head;
    for (size_t i = 0; b->m->head && i < SP_COUNT(bert_head); i++) {
        const sp_tensor *t = sp_tensor_find(b->dir, rows[i].hf, strlen(rows[i].hf));
        if (!t) return sp_fail(SP_E_FORMAT, "%s: tensor %s: is missing", b->m->path, rows[i].hf);
        b->used[t - b->dir->list.v] = true;
        SP_TRY(check(b, &rows[i], t));
        const size_t n = (size_t)(t->shape[0] * (t->n_dims > 1 ? t->shape[1] : 1));
        float *v = sp_arena_take(&b->m->files->arena, n, sizeof *v);
        if (!v) return sp_fail_nomem("the head of a cross-encoder");
        sp_row_to_f32(t->dtype, t->data, v, (int64_t)n);
        *(const float **)(void *)((char *)b->m->head + rows[i].field) = v;
    }
    return SP_OK;
}

static sp_err bind_all(binder *b)
{
    sp_encoder *m = b->m;
    tables t;
    m->layers = sp_arena_take(&m->files->arena, (size_t)m->size.n_layers, sizeof *m->layers);
    if (!m->layers) return sp_fail_nomem("the layers");
    SP_TRY(bind_rows(b, model_rows, SP_COUNT(model_rows), -1, m));
    SP_TRY(bind_rows(b, table_rows, SP_COUNT(table_rows), -1, &t));
    for (int l = 0; l < m->size.n_layers; l++)
        SP_TRY(bind_rows(b, layer_rows, SP_COUNT(layer_rows), l, &m->layers[l]));
    SP_TRY(bind_head(b));
    return add_places(m, &t);
}

static sp_err refuse_others(const binder *b)
{
    for (size_t i = 0; i < b->dir->list.n; i++) {
        const sp_text_view name = b->dir->list.v[i].name;
        const size_t n = b->gguf ? 0 : strlen(b->prefix);
        bool known = b->used[i];
        for (size_t k = 0; k < SP_COUNT(harmless) && !known; k++) {
            const size_t n_end = strlen(harmless[k]);
            known = (name.n >= n_end && memcmp(name.s, harmless[k], n_end) == 0) ||
                    (name.n >= n + n_end && memcmp(name.s + n, harmless[k], n_end) == 0);
        }
        if (!known)
            return sp_fail(SP_E_UNSUPPORTED, "%s: tensor %.*s: is not supported for this encoder", b->m->path,
                           SP_VIEW(name));
    }
    return SP_OK;
}

sp_err sp_encoder_bind(const sp_tensor_dir *dir, bool gguf, sp_encoder *m)
{
    static const char *const within[] = {"bert.embeddings.word_embeddings.weight",
                                         "roberta.embeddings.word_embeddings.weight"};
    binder b = {.dir = dir, .m = m, .gguf = gguf, .prefix = ""};
    for (size_t i = 0; i < SP_COUNT(within) && !gguf; i++)
        if (sp_tensor_find(dir, within[i], strlen(within[i]))) b.prefix = i ? "roberta." : "bert.";
    b.used = SP_NEW_N(bool, dir->list.n + 1);
    if (!b.used) return sp_fail_nomem("the tensors");
    sp_err err = bind_all(&b);
    if (err == SP_OK) err = refuse_others(&b);
    sp_free(b.used);
    return err;
}

bool sp_encoder_next(sp_encoder *m, int *i, sp_weight *out)
{
    const int n_layer = SP_COUNT(layer_rows), n_model = SP_COUNT(model_rows);
    const int at = (*i)++;
    if (at >= n_model + n_layer * m->size.n_layers) {
        *out = (sp_weight){.mat = &m->places, .use = SP_WEIGHT_ROWS};
        return at == n_model + n_layer * m->size.n_layers;
    }
    const row *r = at < n_model ? &model_rows[at] : &layer_rows[(at - n_model) % n_layer];
    char *base = at < n_model ? (char *)m : (char *)&m->layers[(at - n_model) / n_layer];
    *out = (sp_weight){.use = SP_WEIGHT_PRODUCTS, .n = size_of(&m->size, r->shape[0])};
    if (r->shape[1])
        out->mat = (sp_mat *)(void *)(base + r->field);
    else
        out->vec = (const float **)(void *)(base + r->field);
    if (out->mat == &m->words) out->use = SP_WEIGHT_ROWS;
    return true;
}
