/* chat_text.c -- a chat as text, by the model's own chat template. */
#include <ctype.h>
#include <stdio.h>
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

/* -- an answer that has begun ----------------------------------------------------------------- */

/* The text that the answer continues: the content of the last message, or its last part with a text. */
typedef struct begun {
    json_t *of; /* the message, or the part; NULL: no part has a text */
    const char *key;
    char path[64]; /* of spans */
} begun;

static begun begun_of(const json_t *messages)
{
    const size_t i = json_array_size(messages) - 1;
    json_t *m = json_array_get(messages, i);
    const json_t *content = json_object_get(m, "content");
    begun b = {.of = m, .key = "content"};
    snprintf(b.path, sizeof b.path, "messages[%zu].content", i);
    if (!json_is_array(content)) return b;
    b = (begun){.key = "text"};
    for (size_t k = json_array_size(content); k-- > 0 && !b.of;) {
        json_t *part = json_array_get(content, k);
        if (json_is_string(json_object_get(part, "text"))) b.of = part;
        snprintf(b.path, sizeof b.path, "messages[%zu].content[%zu].text", i, k);
    }
    return b;
}

static bool is_blank(const char *s)
{
    while (isspace((unsigned char)*s)) s++;
    return !*s;
}

/* begin_answer -- checks the last message. A blank text gets a letter, which shows where the template writes it. */
static sp_err begin_answer(const json_t *request, sp_chat_input *c)
{
    const json_t *m = json_array_get(c->in.messages, json_array_size(c->in.messages) - 1);
    const char *role = json_string_value(json_object_get(m, "role"));
    if (json_is_true(json_object_get(request, "add_generation_prompt")))
        return sp_fail(SP_E_ARG, "chat: \"continue_final_message\" and \"add_generation_prompt\" exclude each other");
    if (!role || strcmp(role, "assistant") != 0)
        return sp_fail(SP_E_ARG, "chat: the last message is not the assistant's, so no answer can continue it");
    if (json_array_size(json_object_get(m, "tool_calls")))
        return sp_fail(SP_E_ARG, "chat: the last message has tool_calls, so no answer can continue it");
    const begun b = begun_of(c->in.messages);
    const char *text = json_string_value(json_object_get(b.of, b.key));
    if (!b.of) return sp_fail(SP_E_ARG, "chat: the last message has no text to continue");
    c->is_blank = !text || is_blank(text);
    if (c->is_blank && json_object_set_new(b.of, b.key, json_string("x")) != 0)
        return sp_fail_nomem("the last message of the chat");
    return SP_OK;
}

/* cut_end -- drops what the template writes after the text that the answer continues. White space at the end of that
 * text may have been trimmed. */
static sp_err cut_end(const sp_chat_input *c, sp_template_text *x)
{
    const begun b = begun_of(c->in.messages);
    const char *text = json_string_value(json_object_get(b.of, b.key));
    size_t n = x->n_spans;
    while (n > 0 && strcmp(x->spans[n - 1].path, b.path) != 0) n--;
    const sp_template_span *s = n ? &x->spans[n - 1] : NULL;
    if (!s || s->at < 0 || !is_blank(text + s->at + (s->to - s->from)))
        return sp_fail(SP_E_NOTFOUND, "chat: the template does not show the end of the last message as it is, so no "
                                      "answer can continue it");
    x->n_spans = c->is_blank ? n - 1 : n;
    x->n = c->is_blank ? s->from : s->to;
    char *copy = sp_arena_take(&x->arena, x->n + 1, 1);
    if (!copy) return sp_fail_nomem("the text of the chat");
    memcpy(copy, x->text, x->n);
    copy[x->n] = '\0';
    x->text = copy;
    return SP_OK;
}

/* -- reading ---------------------------------------------------------------------------------- */

/* flag -- a member that is true or false. */
static sp_err flag(const json_t *request, const char *name, bool otherwise, bool *out)
{
    const json_t *j = json_object_get(request, name);
    *out = j ? json_is_true(j) : otherwise;
    return !j || json_is_boolean(j) ? SP_OK : sp_fail(SP_E_ARG, "chat: \"%s\" is not true or false", name);
}

sp_err sp_chat_read(json_t *request, sp_chat_input *out)
{
    sp_template_input *in = &out->in;
    SP_TRY(flag(request, "continue_final_message", false, &out->continues));
    SP_TRY(flag(request, "add_generation_prompt", !out->continues, &in->add_generation_prompt));
    SP_TRY(field(request, "messages", JSON_ARRAY, &in->messages));
    SP_TRY(field(request, "tools", JSON_ARRAY, &in->tools));
    SP_TRY(field(request, "documents", JSON_ARRAY, &in->documents));
    SP_TRY(field(request, "chat_template_kwargs", JSON_OBJECT, &in->kwargs));
    if (!in->messages) return sp_fail(SP_E_ARG, "chat: \"messages\" is missing");
    return out->continues ? begin_answer(request, out) : SP_OK;
}

/* -- rendering -------------------------------------------------------------------------------- */

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

sp_err sp_chat_render(const sp_tokenizer *tokenizer, const char *jinja, sp_chat_input *c, sp_template_text *out)
{
    sp_template_input *in = &c->in;
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
    if (c->continues) SP_TRY_GOTO(cut_end(c, out), done);
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
    sp_chat_input in = {.in.now = now};
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
