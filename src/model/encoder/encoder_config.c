/* encoder_config.c -- the sizes of an encoder, from GGUF metadata or config.json. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/encoder/encoder_int.h"

/* A size and its names. */
typedef struct size_row {
    size_t field; /* offset in sp_encoder_sizes */
    const char *gguf, *hf;
    int most;
} size_row;

#define SIZE(f) offsetof(sp_encoder_sizes, f)

static const size_row sizes[] = {
    {SIZE(n_layers), "bert.block_count", "num_hidden_layers", 1024},
    {SIZE(n_embd), "bert.embedding_length", "hidden_size", 1 << 16},
    {SIZE(n_heads), "bert.attention.head_count", "num_attention_heads", 1 << 12},
    {SIZE(n_ff), "bert.feed_forward_length", "intermediate_size", 1 << 18},
    {SIZE(n_ctx), "bert.context_length", "max_position_embeddings", 1 << 16},
    {SIZE(n_types), "tokenizer.ggml.token_type_count", "type_vocab_size", 64},
};

/* Where the numbers are. */
typedef struct source {
    const sp_gguf *gguf; /* or */
    const json_t *json;
    const char *path;
} source;

static sp_err number_of(const source *s, const size_row *r, double *out)
{
    if (s->gguf) {
        const sp_gguf_entry *e = sp_gguf_find(s->gguf, r->gguf);
        if (!e) return sp_fail(SP_E_FORMAT, "%s: %s: is missing", s->path, r->gguf);
        if (e->is_array || !sp_gguf_number(e, 0, out))
            return sp_fail(SP_E_FORMAT, "%s: %s: is not a number", s->path, r->gguf);
        return SP_OK;
    }
    const json_t *v = json_object_get(s->json, r->hf);
    if (!json_is_number(v))
        return sp_fail(SP_E_FORMAT, "%s: %s: %s", s->path, r->hf, v ? "is not a number" : "is missing");
    *out = json_number_value(v);
    return SP_OK;
}

static sp_err read_sizes(const source *s, sp_encoder_sizes *out)
{
    for (size_t i = 0; i < SP_COUNT(sizes); i++) {
        const size_row *r = &sizes[i];
        const char *name = s->gguf ? r->gguf : r->hf;
        double x;
        SP_TRY(number_of(s, r, &x));
        if (!(x >= 1 && x <= r->most) || x != floor(x))
            return sp_fail(SP_E_FORMAT, "%s: %s: %g is not a number from 1 to %d", s->path, name, x, r->most);
        const int n = (int)x;
        memcpy((char *)out + r->field, &n, sizeof n);
    }
    const size_row eps = {0, "bert.attention.layer_norm_epsilon", "layer_norm_eps", 0};
    double x;
    SP_TRY(number_of(s, &eps, &x));
    if (!(x > 0 && x < 1)) return sp_fail(SP_E_FORMAT, "%s: the epsilon of norms is %g", s->path, x);
    out->norm_eps = (float)x;
    if (out->n_embd % out->n_heads != 0 || out->n_embd / out->n_heads > SP_HEAD_MAX)
        return sp_fail(SP_E_UNSUPPORTED, "%s: %d elements in %d heads (a head has at most %d)", s->path,
                       out->n_embd, out->n_heads, SP_HEAD_MAX);
    return SP_OK;
}

/* -- GGUF ----------------------------------------------------------------------------------- */

/* llama.cpp's numbers of a pooling. */
static sp_err read_pooling(const sp_gguf *g, sp_encoder_recipe *out)
{
    const sp_gguf_entry *e = sp_gguf_find(g, "bert.pooling_type");
    double x = 1;
    if (e && (e->is_array || !sp_gguf_number(e, 0, &x)))
        return sp_fail(SP_E_FORMAT, "%s: bert.pooling_type: is not a number", g->path);
    if (x != 1 && x != 2)
        return sp_fail(SP_E_UNSUPPORTED, "%s: bert.pooling_type: %g (1, mean, and 2, first token, are supported)",
                       g->path, x);
    out->pooling = x == 1 ? SP_POOL_MEAN : SP_POOL_FIRST;
    return SP_OK;
}

sp_err sp_encoder_config_of_gguf(const sp_gguf *g, sp_encoder *m)
{
    sp_text_view arch;
    SP_TRY(sp_gguf_text(g, "general.architecture", &arch));
    if (!sp_view_is(arch, "bert"))
        return sp_fail(SP_E_UNSUPPORTED, "%s: general.architecture: \"%.*s\" is not supported for vectors (bert is)",
                       g->path, SP_VIEW(arch));
    m->size.act = SP_ACT_GELU_ERF;
    m->n_between = 1;
    m->recipe.normalize = true; /* as llama.cpp does */
    for (int k = 0; k < SP_ENCODE_KINDS; k++) m->recipe.prompt[k] = "";
    SP_TRY(read_pooling(g, &m->recipe));
    SP_TRY(read_sizes(&(source){.gguf = g, .path = g->path}, &m->size));
    m->recipe.max_tokens = m->size.n_ctx;
    return SP_OK;
}

/* -- config.json ---------------------------------------------------------------------------- */

static sp_err read_act(const source *s, sp_act *out)
{
    static const struct {
        const char *name;
        sp_act act;
    } acts[] = {{"gelu", SP_ACT_GELU_ERF}, {"gelu_new", SP_ACT_GELU}, {"gelu_pytorch_tanh", SP_ACT_GELU}};
    const char *name = json_string_value(json_object_get(s->json, "hidden_act"));
    if (!name) return sp_fail(SP_E_FORMAT, "%s: hidden_act: is not a text", s->path);
    for (size_t i = 0; i < SP_COUNT(acts); i++)
        if (strcmp(name, acts[i].name) == 0) {
            *out = acts[i].act;
            return SP_OK;
        }
    return sp_fail(SP_E_UNSUPPORTED, "%s: hidden_act: \"%.60s\" is not supported", s->path, name);
}

/* Fields that have one supported value, or are not there. */
static sp_err check_fields(const source *s)
{
    static const char *const must[][3] = {{"model_type", "bert", "xlm-roberta"},
                                          {"position_embedding_type", "absolute", "absolute"}};
    for (size_t i = 0; i < SP_COUNT(must); i++) {
        const json_t *v = json_object_get(s->json, must[i][0]);
        const char *text = json_string_value(v);
        if (i > 0 && (!v || json_is_null(v))) continue;
        if (!text || (strcmp(text, must[i][1]) != 0 && strcmp(text, must[i][2]) != 0))
            return sp_fail(SP_E_UNSUPPORTED, "%s: %s: \"%.60s\" is not supported (%s is)", s->path, must[i][0],
                           text ? text : "its value", must[i][1]);
    }
    if (json_is_true(json_object_get(s->json, "is_decoder")))
        return sp_fail(SP_E_UNSUPPORTED, "%s: is_decoder: a BERT that is a decoder is not supported", s->path);
    return SP_OK;
}

/* XLM-RoBERTa: positions begin after that of padding, and two end tokens separate a pair. */
static sp_err read_family(const source *s, sp_encoder *m)
{
    const json_t *pad = json_object_get(s->json, "pad_token_id");
    m->n_between = 1;
    if (strcmp(json_string_value(json_object_get(s->json, "model_type")), "bert") == 0) return SP_OK;
    const json_int_t last = json_is_integer(pad) ? json_integer_value(pad) : 1;
    if (last < 0 || last >= m->size.n_ctx - 1)
        return sp_fail(SP_E_FORMAT, "%s: pad_token_id: %lld leaves no positions for tokens, of %d", s->path,
                       (long long)last, m->size.n_ctx);
    m->n_between = 2;
    m->size.n_skipped = (int)last + 1;
    m->size.n_ctx -= m->size.n_skipped;
    return SP_OK;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = text ? strlen(text) : 0, n_end = strlen(end);
    return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

/* The function that follows the head: in a file of its own since sentence-transformers 6, else in config.json. Without
 * one it is a sigmoid, as there. */
static sp_err read_activation(const char *dir, const source *s, bool *sigmoid)
{
    json_t *file = NULL;
    SP_TRY(sp_json_read(dir, "config_sentence_transformers.json", &file));
    const json_t *own = json_object_get(s->json, "sentence_transformers");
    const char *name = json_string_value(json_object_get(file, "activation_fn"));
    if (!name) name = json_string_value(json_object_get(own, "activation_fn"));
    if (!name) name = json_string_value(json_object_get(s->json, "sbert_ce_default_activation_function"));
    *sigmoid = !name || ends_with(name, ".Sigmoid");
    sp_err err = *sigmoid || ends_with(name, ".Identity")
                     ? SP_OK
                     : sp_fail(SP_E_UNSUPPORTED, "%s: activation_fn: \"%.80s\" is not supported", dir, name);
    json_decref(file);
    return err;
}

static sp_err read_head(const char *dir, const source *s, sp_encoder *m)
{
    const json_t *named = json_array_get(json_object_get(s->json, "architectures"), 0);
    const size_t n_labels = json_object_size(json_object_get(s->json, "id2label"));
    if (!ends_with(json_string_value(named), "ForSequenceClassification")) return SP_OK;
    if (n_labels != 1)
        return sp_fail(SP_E_UNSUPPORTED, "%s: id2label: %zu labels (1, a score, is supported)", s->path, n_labels);
    m->head = sp_arena_take(&m->files->arena, 1, sizeof *m->head);
    if (!m->head) return sp_fail_nomem("the head of a cross-encoder");
    return read_activation(dir, s, &m->head->sigmoid);
}

sp_err sp_encoder_config_of_folder(const char *dir, sp_encoder *m)
{
    json_t *root = NULL;
    char *path = sp_path_join(dir, "config.json");
    if (!path) return sp_fail_nomem("a path");
    sp_err err = sp_json_read(dir, "config.json", &root);
    if (err == SP_OK && !root) err = sp_fail(SP_E_IO, "%s: no such file", path);
    const source s = {.json = root, .path = path};
    if (err == SP_OK) err = check_fields(&s);
    if (err == SP_OK) err = read_act(&s, &m->size.act);
    if (err == SP_OK) err = read_sizes(&s, &m->size);
    if (err == SP_OK) err = read_family(&s, m);
    if (err == SP_OK) err = read_head(dir, &s, m);
    json_decref(root);
    sp_free(path);
    return err;
}
