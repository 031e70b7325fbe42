/* model.c -- opening a model of either kind of file, and its identity. */
#include "model/model.h"

#include <stdio.h>

#include "base/hash.h"
#include "base/log.h"
#include "model/tokenizer/gguf_vocab.h"
#include "model/model_int.h"
#include "model/weights.h"

#define MAX_TEMPLATE_BYTES ((size_t)1 << 20)
#define SAMPLE_BYTES       ((size_t)4096)

/* -- identity ------------------------------------------------------------------------------- */

static void hash_hparams(sp_sha256 *s, const sp_model *m)
{
    const sp_hparams *hp = &m->hp;
    const int32_t sizes[] = {hp->n_layers,  hp->n_embd,      hp->n_heads, hp->n_kv_heads,
                             hp->head,      hp->n_ff,        hp->n_vocab, hp->sliding_window,
                             m->rope.n_rot, m->rope.adjacent};
    const float constants[] = {hp->norm_eps, hp->attn_scale, m->rope.magnitude};
    sp_sha256_field(s, "arch", hp->arch, strlen(hp->arch));
    sp_sha256_field(s, "sizes", sizes, sizeof sizes);
    sp_sha256_field(s, "constants", constants, sizeof constants);
    sp_sha256_field(s, "rope", m->rope.freq, (size_t)m->rope.n_rot / 2 * sizeof(float));
}

/* hash_more -- adds what only some architectures have; nothing for the others. */
static void hash_more(sp_sha256 *s, const sp_model *m)
{
    const sp_hparams *hp = &m->hp;
    const float scales[] = {hp->embed_scale, hp->residual_scale, hp->logit_scale, hp->attn_cap,
                            hp->logit_cap};
    const int32_t moe[] = {hp->moe.n, hp->moe.n_used, hp->moe.n_ff, hp->moe.n_shared,
                           hp->moe.sum_to_1};
    const float choice[] = {(float)hp->moe.n_dense,  (float)hp->moe.n_dense_ff,    hp->moe.sigmoid,
                            (float)hp->moe.n_groups, (float)hp->moe.n_groups_used, hp->moe.scale};
    bool any = false;
    for (size_t i = 0; i < SP_COUNT(scales); i++) any |= scales[i] != 0;
    if (any) sp_sha256_field(s, "scales", scales, sizeof scales);
    if (hp->moe.n) sp_sha256_field(s, "moe", moe, sizeof moe);
    if (hp->moe.n_dense || hp->moe.sigmoid || hp->moe.scale != 0 || hp->moe.n_groups)
        sp_sha256_field(s, "choice", choice, sizeof choice);
    if (hp->attn_growth != 0) {
        sp_sha256_field(s, "growth", &hp->attn_growth, sizeof hp->attn_growth);
        sp_sha256_field(s, "period", &hp->attn_period, sizeof hp->attn_period);
    }
    if (m->rope_local.n_rot)
        sp_sha256_field(s, "local rope", m->rope_local.freq,
                        (size_t)m->rope_local.n_rot / 2 * sizeof(float));
    for (int l = 0; l < hp->n_layers && m->layers; l++) {
        const int32_t kind[] = {l, m->layers[l].window, m->layers[l].rope};
        if (kind[1] || kind[2]) sp_sha256_field(s, "layer", kind, sizeof kind);
    }
}

static void hash_tensor(sp_sha256 *s, const sp_tensor *t)
{
    size_t head = SP_MIN(t->n_bytes, SAMPLE_BYTES), tail = SP_MIN(t->n_bytes - head, SAMPLE_BYTES);
    sp_sha256_field(s, "tensor", t->name.s, t->name.n);
    sp_sha256_field(s, "type", t->type, strlen(t->type));
    sp_sha256_field(s, "shape", t->shape, (size_t)t->n_dims * sizeof t->shape[0]);
    sp_sha256_field(s, "head", t->data, head);
    sp_sha256_field(s, "tail", tail ? t->data + t->n_bytes - tail : NULL, tail);
}

sp_err sp_model_identify(sp_model *m, const sp_tensor_dir *dir)
{
    sp_sha256 *s;
    sp_digest digest;
    SP_TRY(sp_sha256_create(&s));
    hash_hparams(s, m);
    hash_more(s, m);
    for (size_t i = 0; i < dir->list.n; i++) hash_tensor(s, &dir->list.v[i]);
    sp_sha256_final(s, &digest);
    memcpy(m->id, digest.b, sizeof m->id);
    return SP_OK;
}

/* -- shared by both kinds of files ---------------------------------------------------------- */

static sp_err new_model(const char *path, sp_model **out)
{
    sp_model *m = SP_NEW(sp_model);
    if (!m) return sp_fail_nomem("the model");
    const sp_err err = sp_model_files_create(path, &m->files);
    if (err != SP_OK) {
        sp_free(m);
        return err;
    }
    m->path = m->files->path;
    *out = m;
    return SP_OK;
}

/* A NUL-terminated copy that lives as long as the model. */
static sp_err keep_text(sp_model *m, const char *s, size_t n, const char **out)
{
    char *copy = sp_arena_take(&m->files->arena, n + 1, 1);
    if (!copy) return sp_fail_nomem("a text of the model");
    if (n) memcpy(copy, s, n);
    *out = copy;
    return SP_OK;
}

/* Some files have more tokens than the embedding has rows: their makers added tokens without training
 * them. The engine refuses such ids. */
static void check_vocab(const sp_model *m)
{
    if (!m->tokenizer)
        sp_log(SP_LOG_INFO, "%s: has no tokenizer; only token ids can be used", m->path);
    else if (m->hp.n_layers && sp_tokenizer_size(m->tokenizer) > m->hp.n_vocab)
        sp_log(SP_LOG_WARN, "%s: the tokenizer has %d tokens, the embedding %d", m->path,
               sp_tokenizer_size(m->tokenizer), m->hp.n_vocab);
}

/* -- GGUF ----------------------------------------------------------------------------------- */

/* A file without tensors: only the tokenizer, whatever the architecture. */
static sp_err fill_vocab_only(sp_model *m, const sp_gguf *g)
{
    sp_text_view arch;
    SP_TRY(sp_gguf_text(g, "general.architecture", &arch));
    SP_TRY(keep_text(m, arch.s, arch.n, &m->hp.arch));
    if (!m->tokenizer)
        return sp_fail(SP_E_FORMAT, "%s: has neither tensors nor a tokenizer", g->path);
    m->hp.n_vocab = sp_tokenizer_size(m->tokenizer);
    return sp_model_identify(m, &g->tensors);
}

static sp_err fill_from_gguf(sp_model *m, const sp_gguf *g)
{
    sp_config c;
    sp_text_view template;
    SP_TRY(sp_gguf_text(g, "tokenizer.chat_template", &template));
    if (template.s) SP_TRY(keep_text(m, template.s, template.n, &m->chat_template));
    if (g->tensors.list.n > 0) {
        SP_TRY(sp_config_of_gguf(g, &c));
        SP_TRY(sp_weights_bind(&g->tensors, &c, g->path, true, m->files, m));
        SP_TRY(sp_model_identify(m, &g->tensors));
    }
    SP_TRY(sp_gguf_tokenizer(g, &m->tokenizer));
    if (g->tensors.list.n == 0) SP_TRY(fill_vocab_only(m, g));
    check_vocab(m);
    return SP_OK;
}

sp_err sp_model_from_gguf(sp_gguf *g, sp_model **out)
{
    sp_model *m;
    sp_err err = new_model(g->path, &m);
    if (err != SP_OK) {
        sp_gguf_close(g);
        return err;
    }
    m->files->gguf = *g;
    *g = (sp_gguf){0};
    err = fill_from_gguf(m, &m->files->gguf);
    if (err == SP_OK)
        *out = m;
    else
        sp_model_close(m);
    return err;
}

/* -- Hugging Face folders ------------------------------------------------------------------- */

/* "chat_template" of a JSON file: a text, or a list of {"name", "template"}. */
static const char *template_of(const json_t *config)
{
    const json_t *t = json_object_get(config, "chat_template"), *item;
    size_t i;
    if (json_is_string(t)) return json_string_value(t);
    json_array_foreach(t, i, item)
    {
        const char *name = json_string_value(json_object_get(item, "name"));
        if (name && strcmp(name, "default") == 0)
            return json_string_value(json_object_get(item, "template"));
    }
    return NULL;
}

static sp_err read_template_of(sp_model *m, const char *dir, const char *file)
{
    json_t *config = NULL;
    sp_err err = sp_json_read(dir, file, &config);
    const char *found = template_of(config);
    if (err == SP_OK && found) err = keep_text(m, found, strlen(found), &m->chat_template);
    json_decref(config);
    return err;
}

/* chat_template.jinja is the newer place, and wins; models of several media may have a file for it. */
static sp_err read_template(sp_model *m, const char *dir)
{
    sp_bytes text = {0};
    sp_err err = SP_OK;
    char *path = sp_path_join(dir, "chat_template.jinja");
    if (!path) return sp_fail_nomem("a path");
    if (sp_path_exists(path)) {
        err = sp_file_read(path, MAX_TEMPLATE_BYTES, &text);
        if (err == SP_OK) err = keep_text(m, text.v, text.n, &m->chat_template);
    } else {
        err = read_template_of(m, dir, "tokenizer_config.json");
        if (err == SP_OK && !m->chat_template) err = read_template_of(m, dir, "chat_template.json");
    }
    sp_vec_fini(&text);
    sp_free(path);
    return err;
}

static sp_err read_config(const char *dir, sp_config *out)
{
    json_t *root = NULL;
    SP_TRY(sp_json_read(dir, "config.json", &root));
    if (!root) return sp_fail(SP_E_IO, "%s/config.json: there is no such file", dir);
    char *path = sp_path_join(dir, "config.json");
    sp_err err = path ? sp_config_of_json(root, path, out) : sp_fail_nomem("a path");
    json_decref(root);
    sp_free(path);
    return err;
}

static sp_err read_tokenizer(sp_model *m, const char *dir)
{
    char *path = sp_path_join(dir, "tokenizer.json");
    if (!path) return sp_fail_nomem("a path");
    sp_err err = sp_path_exists(path) ? sp_tokenizer_from_json(dir, &m->tokenizer) : SP_OK;
    sp_free(path);
    return err;
}

static sp_err fill_from_folder(sp_model *m, const char *dir)
{
    sp_config c;
    sp_safetensors *st = &m->files->folder;
    SP_TRY(read_config(dir, &c));
    SP_TRY(sp_safetensors_open(dir, st));
    SP_TRY(sp_weights_bind(&st->tensors, &c, dir, false, m->files, m));
    SP_TRY(sp_model_identify(m, &st->tensors));
    SP_TRY(read_template(m, dir));
    SP_TRY(read_tokenizer(m, dir));
    check_vocab(m);
    return SP_OK;
}

/* -- opening and closing -------------------------------------------------------------------- */

sp_err sp_model_open(const char *path, sp_model **out)
{
    sp_model *m;
    sp_gguf g;
    if (!sp_file_is_dir(path)) {
        SP_TRY(sp_gguf_open(path, &g));
        return sp_model_from_gguf(&g, out);
    }
    SP_TRY(new_model(path, &m));
    sp_err err = fill_from_folder(m, path);
    if (err == SP_OK)
        *out = m;
    else
        sp_model_close(m);
    return err;
}

void sp_model_close(sp_model *m)
{
    if (!m) return;
    sp_model_unload(m);
    if (m->tokenizer) sp_tokenizer_destroy(m->tokenizer);
    sp_model_files_close(m->files);
    sp_free(m);
}
