/* chat_text.c -- a chat as text, by the model's own chat template. */
#include <string.h>

#include "model/json_file.h"
#include "serve/prompt/chat_text.h"
#include "serve/prompt/vocab.h"

static const char *const origins[] = {[SP_TEMPLATE_MESSAGE] = "message",
                                      [SP_TEMPLATE_DOCUMENT] = "document",
                                      [SP_TEMPLATE_OTHER] = "other"};

/* field -- a member of the request, which must have this type; NULL or null: none. */
static sp_err field(json_t *request, const char *name, json_type type, json_t **out)
{
    json_t *j = json_object_get(request, name);
    *out = j && !json_is_null(j) ? j : NULL;
    if (*out && json_typeof(j) != type)
        return sp_fail(SP_E_ARG, "chat: \"%s\" is not %s", name,
                       type == JSON_ARRAY ? "an array" : "an object");
    return SP_OK;
}

sp_err sp_chat_read(json_t *request, sp_template_input *in)
{
    json_t *open = json_object_get(request, "add_generation_prompt");
    in->add_generation_prompt = !open || json_is_true(open);
    if (open && !json_is_boolean(open))
        return sp_fail(SP_E_ARG, "chat: \"add_generation_prompt\" is not true or false");
    SP_TRY(field(request, "messages", JSON_ARRAY, &in->messages));
    SP_TRY(field(request, "tools", JSON_ARRAY, &in->tools));
    SP_TRY(field(request, "documents", JSON_ARRAY, &in->documents));
    SP_TRY(field(request, "chat_template_kwargs", JSON_OBJECT, &in->kwargs));
    return in->messages ? SP_OK : sp_fail(SP_E_ARG, "chat: \"messages\" is missing");
}

/* special_text -- the text of a special token, NUL-terminated; empty if there is none. */
static sp_err special_text(const sp_tokenizer *t, int32_t id, sp_bytes *out)
{
    if (id >= 0) SP_TRY(sp_tokenizer_piece(t, id, true, out));
    return sp_bytes_add(out, "", 1);
}

static json_t *spans_json(const sp_template_text *x)
{
    json_t *spans = json_array();
    for (size_t i = 0; i < x->n_spans; i++) {
        const sp_template_span *s = &x->spans[i];
        json_array_append_new(spans, json_pack("{s:I, s:I, s:s, s:i, s:s, s:I}", "from",
                                               (json_int_t)s->from, "to", (json_int_t)s->to,
                                               "origin", origins[s->origin], "index", s->index,
                                               "path", s->path, "at", (json_int_t)s->at));
    }
    return spans;
}

static sp_err result_json(const sp_template_text *x, char **out)
{
    json_t *json =
        json_pack("{s:o, s:o}", "text", json_stringn(x->text, x->n), "spans", spans_json(x));
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    char *copy = text ? sp_strdup_n(text, strlen(text)) : NULL;
    json_decref(json);
    free(text);
    if (!copy) return sp_fail_nomem("the text of the chat");
    *out = copy;
    return SP_OK;
}

sp_err sp_chat_render(const sp_tokenizer *tokenizer, const char *jinja, sp_template_input *in,
                      sp_template_text *out)
{
    sp_bytes bos = {0}, eos = {0};
    sp_template *t = NULL;
    sp_err err = SP_OK;
    if (tokenizer) {
        SP_TRY_GOTO(special_text(tokenizer, sp_tokenizer_bos(tokenizer), &bos), done);
        SP_TRY_GOTO(special_text(tokenizer, sp_tokenizer_eos(tokenizer), &eos), done);
        in->bos_token = bos.v;
        in->eos_token = eos.v;
    }
    SP_TRY_GOTO(sp_template_parse(jinja, strlen(jinja), &t), done);
    SP_TRY_GOTO(sp_template_render(t, in, out), done);
done:
    sp_template_destroy(t);
    sp_vec_fini(&bos);
    sp_vec_fini(&eos);
    return err;
}

const char *sp_vocab_template(const sp_vocab *v)
{
    return v ? v->chat_template : NULL;
}

sp_err sp_template_apply(const sp_vocab *v, const char *jinja, const char *request, int64_t now,
                         char **json)
{
    sp_template_input in = {.now = now};
    json_t *j = NULL;
    if (!jinja) jinja = sp_vocab_template(v);
    if (!jinja) return sp_fail(SP_E_NOTFOUND, "the model has no chat template");
    SP_TRY(sp_json_parse(request, strlen(request), "chat", &j));
    sp_template_text x = {0};
    sp_err err = sp_chat_read(j, &in);
    if (err == SP_OK) err = sp_chat_render(v ? v->tokenizer : NULL, jinja, &in, &x);
    if (err == SP_OK) err = result_json(&x, json);
    sp_template_text_fini(&x);
    json_decref(j);
    return err;
}
