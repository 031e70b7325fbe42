/* vocab.c -- the public face of tokenizers and of inspection. */
#include "base/need.h"
#include "model/encoder/encoder.h"
#include "model/tokenizer/tokenizer.h"
#include "serve/prompt/vocab.h"

static sp_err open_encoder(const char *path, sp_vocab *v)
{
    SP_TRY(sp_encoder_open(path, &v->encoder));
    v->tokenizer = v->encoder->tokenizer;
    return SP_OK;
}

static sp_err open_model(const char *path, sp_vocab *v)
{
    SP_TRY(sp_model_open(path, &v->model));
    if (!v->model->tokenizer) return sp_fail(SP_E_FORMAT, "%s: holds no tokenizer", path);
    v->tokenizer = v->model->tokenizer;
    v->chat_template = v->model->chat_template;
    return SP_OK;
}

sp_err sp_vocab_open(const char *path, sp_vocab **out)
{
    SP_NEED(path);
    SP_NEED(out);
    sp_vocab *v = SP_NEW(sp_vocab);
    if (!v) return sp_fail_nomem("the vocabulary");
    sp_err err = sp_path_is_encoder(path) ? open_encoder(path, v) : open_model(path, v);
    if (err != SP_OK) {
        sp_vocab_close(v);
        return err;
    }
    *out = v;
    return SP_OK;
}

void sp_vocab_close(sp_vocab *v)
{
    if (!v) return;
    sp_model_close(v->model);
    sp_encoder_close(v->encoder);
    sp_free(v);
}

sp_err sp_vocab_encode(const sp_vocab *v, const char *text, size_t n, bool special, int32_t **ids,
                       size_t *n_ids)
{
    if (n > 0) SP_NEED(text);
    SP_NEED(v);
    SP_NEED(ids);
    SP_NEED(n_ids);
    sp_tokens t = {0};
    if (!v->tokenizer) return sp_fail(SP_E_ARG, "the model has no tokenizer for a text");
    sp_err err = sp_vec_reserve(&t, 1); /* an empty list is a pointer too */
    if (err == SP_OK)
        err = sp_tokenizer_encode(v->tokenizer, text, n, special ? SP_TOK_BOS | SP_TOK_SPECIAL : 0,
                                  &t);
    if (err != SP_OK) {
        sp_vec_fini(&t);
        return err;
    }
    *ids = t.v;
    *n_ids = t.n;
    return SP_OK;
}

sp_err sp_vocab_piece(const sp_vocab *v, int32_t id, char **text, size_t *n)
{
    SP_NEED(v);
    SP_NEED(text);
    SP_NEED(n);
    sp_bytes b = {0};
    if (!v->tokenizer) return sp_fail(SP_E_ARG, "the model has no tokenizer for a text");
    sp_err err = sp_tokenizer_piece(v->tokenizer, id, true, &b);
    if (err == SP_OK) err = sp_bytes_add(&b, "", 1);
    if (err != SP_OK) {
        sp_vec_fini(&b);
        return err;
    }
    *text = b.v;
    *n = b.n - 1;
    return SP_OK;
}

bool sp_vocab_shows(const sp_vocab *v, int32_t id)
{
    return v && v->tokenizer && sp_tokenizer_shows(v->tokenizer, id);
}

sp_err sp_model_describe(const char *path, char **json)
{
    SP_NEED(path);
    SP_NEED(json);
    sp_bytes b = {0};
    sp_err err = sp_model_inspect(path, &b);
    if (err == SP_OK) err = sp_bytes_add(&b, "", 1);
    if (err != SP_OK) {
        sp_vec_fini(&b);
        return err;
    }
    *json = b.v;
    return SP_OK;
}

void sp_buffer_free(void *p)
{
    sp_free(p);
}
