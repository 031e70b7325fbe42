/* encoder.c -- opening an encoder from either kind of file, and its weights on a device. */
#include "model/encoder/encoder.h"

#include <string.h>

#include "model/encoder/encoder_int.h"
#include "model/tokenizer/gguf_vocab.h"

#define SAMPLE_BYTES ((size_t)4096)

/* -- identity ------------------------------------------------------------------------------- */

/* Names, shapes and both ends of each tensor, so that encoders of one shape differ. */
static sp_err identify(sp_encoder *m, const sp_tensor_dir *dir)
{
    sp_sha256 *s;
    const sp_encoder_recipe *r = &m->recipe;
    const int32_t made[] = {(int32_t)r->pooling, r->normalize, r->max_tokens};
    SP_TRY(sp_sha256_create(&s));
    sp_sha256_field(s, "spolia/encoder/1", made, sizeof made);
    for (int k = 0; k < SP_ENCODE_KINDS; k++) sp_sha256_field(s, "prompt", r->prompt[k], strlen(r->prompt[k]));
    for (size_t i = 0; i < dir->list.n; i++) {
        const sp_tensor *t = &dir->list.v[i];
        const size_t head = SP_MIN(t->n_bytes, SAMPLE_BYTES);
        sp_sha256_field(s, "tensor", t->name.s, t->name.n);
        sp_sha256_field(s, "shape", t->shape, (size_t)t->n_dims * sizeof t->shape[0]);
        sp_sha256_field(s, "head", t->data, head);
        sp_sha256_field(s, "tail", head ? t->data + t->n_bytes - head : NULL, head);
    }
    sp_sha256_final(s, &m->id);
    return SP_OK;
}

/* -- opening -------------------------------------------------------------------------------- */

static sp_err new_encoder(const char *path, sp_encoder **out)
{
    sp_encoder *m = SP_NEW(sp_encoder);
    if (!m) return sp_fail_nomem("the encoder");
    const sp_err err = sp_model_files_create(path, &m->files);
    if (err != SP_OK) {
        sp_free(m);
        return err;
    }
    m->path = m->files->path;
    *out = m;
    return SP_OK;
}

static sp_err open_gguf(sp_encoder *m)
{
    sp_gguf *g = &m->files->gguf;
    SP_TRY(sp_gguf_open(m->path, g));
    SP_TRY(sp_encoder_config_of_gguf(g, m));
    SP_TRY(sp_encoder_bind(&g->tensors, true, m));
    SP_TRY(sp_gguf_tokenizer(g, &m->tokenizer));
    return identify(m, &g->tensors);
}

static sp_err open_folder(sp_encoder *m)
{
    sp_safetensors *st = &m->files->folder;
    SP_TRY(sp_encoder_config_of_folder(m->path, m));
    SP_TRY(sp_encoder_recipe_of_folder(m->path, m));
    SP_TRY(sp_safetensors_open(m->path, st));
    SP_TRY(sp_encoder_bind(&st->tensors, false, m));
    SP_TRY(sp_tokenizer_from_json(m->path, &m->tokenizer));
    return identify(m, &st->tensors);
}

/* An id of the tokenizer is a row of the table. */
static sp_err check_vocab(const sp_encoder *m)
{
    if (!m->tokenizer) return sp_fail(SP_E_FORMAT, "%s: holds no tokenizer", m->path);
    if (sp_tokenizer_size(m->tokenizer) > m->size.n_vocab)
        return sp_fail(SP_E_FORMAT, "%s: %d tokens, the embedding has %d", m->path, sp_tokenizer_size(m->tokenizer),
                       m->size.n_vocab);
    if (m->recipe.max_tokens > m->size.n_ctx)
        return sp_fail(SP_E_FORMAT, "%s: texts of %d tokens, the model has %d positions", m->path,
                       m->recipe.max_tokens, m->size.n_ctx);
    return SP_OK;
}

sp_err sp_encoder_open(const char *path, sp_encoder **out)
{
    sp_encoder *m = NULL;
    SP_TRY(new_encoder(path, &m));
    sp_err err = sp_file_is_dir(path) ? open_folder(m) : open_gguf(m);
    if (err == SP_OK) err = check_vocab(m);
    if (err == SP_OK)
        *out = m;
    else
        sp_encoder_close(m);
    return err;
}

void sp_encoder_close(sp_encoder *m)
{
    if (!m) return;
    sp_mem_free(&m->on_device);
    if (m->tokenizer) sp_tokenizer_destroy(m->tokenizer);
    sp_model_files_close(m->files);
    sp_free(m);
}

bool sp_path_is_encoder(const char *path)
{
    sp_gguf g = {0};
    json_t *root = NULL;
    bool is = false;
    if (sp_file_is_dir(path)) {
        if (sp_json_read(path, "config.json", &root) != SP_OK) return false;
        const char *type = json_string_value(json_object_get(root, "model_type"));
        is = type && (strcmp(type, "bert") == 0 || strcmp(type, "xlm-roberta") == 0);
        json_decref(root);
        return is;
    }
    sp_text_view arch = {0};
    if (sp_gguf_open(path, &g) != SP_OK) return false;
    is = sp_gguf_text(&g, "general.architecture", &arch) == SP_OK && sp_view_is(arch, "bert");
    sp_gguf_close(&g);
    return is;
}

/* -- the device ----------------------------------------------------------------------------- */

sp_err sp_encoder_load(sp_encoder *m, sp_device *d)
{
    size_t n_bytes = 0;
    sp_weight w;
    assert(!m->on_device.p);
    for (int i = 0; sp_encoder_next(m, &i, &w);) n_bytes += sp_weight_bytes(d, &w);
    SP_TRY(sp_mem_alloc(d, n_bytes, "the weights of the encoder", &m->on_device));
    uint8_t *to = m->on_device.p;
    for (int i = 0; sp_encoder_next(m, &i, &w);) {
        const size_t n = sp_weight_bytes(d, &w);
        if (n == 0) continue; /* the device reads it where it is */
        SP_TRY(sp_weight_load(d, &w, m->files, to));
        to += n;
    }
    return SP_OK;
}
