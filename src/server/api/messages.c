#include "server/api/messages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "server/api/retrieval.h"
#include "server/api/trees.h"
#include "server/body/chat.h"

static const char *first_string(const json_t *o, const char *a, const char *b, const char *c)
{
    const char *s = json_string_value(json_object_get(o, a));
    if (!s) s = json_string_value(json_object_get(o, b));
    return s ? s : json_string_value(json_object_get(o, c));
}

/* is_text -- whether a field of a document is a string, if it is there. */
static bool is_text(srv_fields *f, const json_t *o, size_t i, const char *field)
{
    char name[48];
    const json_t *v = json_object_get(o, field);
    if (!v || json_is_null(v) || json_is_string(v)) return true;
    snprintf(name, sizeof name, "documents[%zu].%s", i, field);
    srv_fields_refuse(f, name, "%s must be a string", name);
    return false;
}

static bool read_document(srv_fields *f, const json_t *o, size_t i, srv_document *out)
{
    char name[40];
    out->text = json_is_string(o) ? json_string_value(o)
                                  : first_string(o, "text", "content", "page_content");
    out->title = json_string_value(json_object_get(o, "title"));
    out->id = first_string(o, "id", "doc_id", "document_id");
    out->segment = -1;
    if (!is_text(f, o, i, "title") || !is_text(f, o, i, "id")) return false;
    snprintf(name, sizeof name, "documents[%zu]", i);
    const char *type = json_string_value(json_object_get(o, "type"));
    if (type && srv_tree_is(type)) {
        out->tree = o;
        return srv_tree_check(f, o, name);
    }
    if (out->text || (out->id && !json_object_get(o, "text"))) return true;
    snprintf(name, sizeof name, "documents[%zu].text", i);
    srv_fields_refuse(f, name, "%s must be a string", name);
    return false;
}

/* read_documents -- at the top, or under chat_template_kwargs, as vLLM has them. */
static bool read_documents(srv_fields *f, srv_documents *d)
{
    const json_t *list = srv_field(f, "documents");
    if (!list) list = json_object_get(srv_field(f, "chat_template_kwargs"), "documents");
    if (!list || json_is_null(list)) return true;
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n > SRV_MAX_DOCUMENTS) {
        srv_fields_refuse(f, "documents", "documents must be a list of at most %d documents",
                          SRV_MAX_DOCUMENTS);
        return false;
    }
    d->v = calloc(n ? n : 1, sizeof *d->v);
    if (!d->v) {
        srv_fields_refuse(f, "documents", "out of memory for %zu documents", n);
        return false;
    }
    for (; d->n < n; d->n++)
        if (!read_document(f, json_array_get(list, d->n), d->n, &d->v[d->n])) return false;
    return true;
}

/* -- by turns ---------------------------------------------------------------------------------- */

static sp_role role_of(const json_t *m)
{
    static const char *const names[] = {"system", "user", "assistant", "tool"};
    const char *role = json_string_value(json_object_get(m, "role"));
    for (int i = SP_ROLE_SYSTEM; i <= SP_ROLE_TOOL; i++)
        if (strcmp(role, names[i]) == 0) return (sp_role)i;
    return SP_ROLE_USER;
}

static const char *text_of(const json_t *m)
{
    const char *text = json_string_value(json_object_get(m, "content"));
    return text ? text : "";
}

static const char frame[] = "Question: ";

/* add_question -- the user turn that has the documents; its text is in the frame, which is not for the graph. */
static sp_err add_question(const srv_call *call, sp_prompt *p, const char *text, srv_documents *d)
{
    sp_err err = sp_prompt_begin(p, SP_ROLE_USER);
    if (err == SP_OK) err = srv_trees_add(call, p, d, text + strlen(frame));
    for (size_t i = 0; i < d->n && err == SP_OK; i++) {
        if (d->v[i].tree) continue;
        err = sp_prompt_chunk(p, d->v[i].title, d->v[i].text);
        d->v[i].segment = sp_prompt_n_segments(p) - 1;
    }
    if (err == SP_OK) err = sp_prompt_cut(p, text, NULL, false);
    return err == SP_OK ? sp_prompt_end(p) : err;
}

static sp_err add_turns(const srv_call *call, sp_prompt *p, const json_t *messages, bool continues,
                        srv_documents *d)
{
    sp_err err = SP_OK;
    const size_t n = json_array_size(messages);
    size_t last = (size_t)srv_chat_last_user(messages);
    bool has_documents = d->n || call->graph;
    for (size_t i = 0; i < n && err == SP_OK; i++) {
        const json_t *m = json_array_get(messages, i);
        if (continues && i + 1 == n) return sp_prompt_continue(p, text_of(m));
        err = has_documents && i == last ? add_question(call, p, text_of(m), d)
                                         : sp_prompt_message(p, role_of(m), text_of(m));
    }
    return err == SP_OK ? sp_prompt_answer(p) : err;
}

/* -- by the model's own template ---------------------------------------------------------------- */

/* template_arguments -- chat_template_kwargs without the documents, which are segments. */
static json_t *template_arguments(const srv_fields *f)
{
    json_t *given = srv_field(f, "chat_template_kwargs"),
           *o = given ? json_copy(given) : json_object();
    json_object_del(o, "documents");
    return o;
}

static sp_err render(const srv_call *call, const char *request, srv_documents *d, int last,
                     sp_prompt **out)
{
    sp_err err = SP_OK;
    sp_chat_chunk *chunks = calloc(d->n + 1, sizeof *chunks);
    if (!chunks) return SP_E_NOMEM;
    for (size_t i = 0; i < d->n; i++)
        chunks[i] = (sp_chat_chunk){.title = d->v[i].title, .text = d->v[i].text};
    err = srv_prompt_create(call, out);
    if (err == SP_OK)
        err = sp_prompt_chat(*out, &(sp_chat_opts){.request = request,
                                                   .now = time(NULL),
                                                   .chunks = chunks,
                                                   .n_chunks = (int)d->n,
                                                   .chunks_at = last});
    for (size_t i = 0; i < d->n && err == SP_OK; i++) d->v[i].segment = chunks[i].segment;
    free(chunks);
    return err;
}

static bool has_trees(const srv_call *call, const srv_documents *d)
{
    bool some = call->graph != NULL;
    for (size_t i = 0; i < d->n; i++) some |= d->v[i].tree != NULL;
    return some;
}

/* write_template -- *done is false if the model has no template that we can run, or the prompt has
 * trees, which templates cannot place. */
static sp_err write_template(const srv_call *call, const srv_conversation *c, srv_documents *d,
                             sp_prompt **out, bool *done)
{
    *done = false;
    if (!sp_vocab_template(call->s->vocab) || has_trees(call, d)) return SP_OK;
    json_t *request = json_pack("{s:O, s:o, s:b}", "messages", c->messages, "chat_template_kwargs",
                                template_arguments(c->f), "continue_final_message", (int)c->continues);
    if (c->tools && c->shows_tools) json_object_set(request, "tools", c->tools);
    char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
    sp_err err = text ? render(call, text, d, srv_chat_last_user(c->messages), out) : SP_E_NOMEM;
    free(text);
    json_decref(request);
    *done = err != SP_E_UNSUPPORTED && err != SP_E_FORMAT && !(err == SP_E_ARG && c->own_system);
    if (*done) return err == SP_E_NOTFOUND ? SP_E_ARG : err; /* the request does not fit the template */
    sp_prompt_destroy(*out);
    *out = NULL;
    return SP_OK;
}

/* -- a chat --------------------------------------------------------------------------------------- */

/* frame_question -- what `spolia ask` writes around documents: the same system text, and the question
 * after "Question: ". */
static bool frame_question(srv_conversation *c)
{
    json_t *m = json_array_get(c->messages, (size_t)srv_chat_last_user(c->messages));
    json_t *question = json_sprintf("%s%s", frame, text_of(m));
    bool good = question && json_object_set_new(m, "content", question) == 0;
    c->own_system = role_of(json_array_get(c->messages, 0)) != SP_ROLE_SYSTEM;
    if (!c->own_system) return good;
    json_t *system = json_pack("{s:s, s:s}", "role", "system", "content", CLI_SYSTEM_TEXT);
    return good && json_array_insert_new(c->messages, 0, system) == 0;
}

/* fail_with -- passes the library's error on. */
static sp_prompt *fail_with(srv_fields *f, const char *param, sp_prompt *p, sp_err err)
{
    srv_fields_fail(f, param, NULL, err);
    sp_prompt_destroy(p);
    return NULL;
}

/* read_continue -- vLLM's fields for an answer that has begun. */
static void read_continue(srv_conversation *c)
{
    const json_t *m = json_array_get(c->messages, json_array_size(c->messages) - 1);
    const char *why = NULL;
    c->continues = srv_field_bool(c->f, "continue_final_message", false);
    if (!c->continues) return;
    if (srv_field_bool(c->f, "add_generation_prompt", false))
        why = "needs add_generation_prompt to be false";
    else if (role_of(m) != SP_ROLE_ASSISTANT)
        why = "needs a last message of the assistant";
    else if (json_object_get(m, "tool_calls"))
        why = "needs a last message without tool_calls";
    if (why) srv_fields_refuse(c->f, "continue_final_message", "continue_final_message %s", why);
}

bool srv_conversation_open(const srv_call *call, srv_fields *f, const srv_tools *tools,
                           srv_conversation *out)
{
    *out = (srv_conversation){.f = f, .tools = tools->shown};
    const json_t *arguments = srv_field(f, "chat_template_kwargs");
    if (arguments && !json_is_object(arguments))
        srv_fields_refuse(f, "chat_template_kwargs", "chat_template_kwargs must be an object");
    if (f->failed) return false;
    out->messages = srv_chat_read(f, srv_field(f, "messages"));
    if (!out->messages) return false;
    read_continue(out);
    if (f->failed) return false;
    srv_tools_form(sp_vocab_template(call->s->vocab), &out->shows_tools);
    if (out->shows_tools || srv_chat_spell_tools(out->messages, out->tools)) return true;
    srv_fields_refuse(f, "messages", "out of memory for the messages");
    return false;
}

void srv_conversation_close(srv_conversation *c)
{
    json_decref(c->messages);
}

char *srv_prompt_question(const srv_call *call, srv_fields *f, const srv_tools *tools)
{
    srv_conversation c;
    char *question = NULL;
    if (srv_conversation_open(call, f, tools, &c)) {
        const int last = srv_chat_last_user(c.messages);
        if (last < 0)
            srv_fields_refuse(f, "collection", "a collection needs a message of the user");
        else if (!(question = strdup(text_of(json_array_get(c.messages, (size_t)last)))))
            srv_fields_refuse(f, "collection", "out of memory for the question");
    }
    srv_conversation_close(&c);
    return question;
}

sp_prompt *srv_prompt_chat(const srv_call *call, srv_fields *f, const srv_tools *tools,
                           srv_documents *d, sp_err *err)
{
    srv_conversation c;
    sp_prompt *p = NULL;
    bool done = false, good = srv_conversation_open(call, f, tools, &c) && read_documents(f, d) &&
                              srv_documents_expand(call, f, d);
    if (good && call->retrieval && !srv_retrieval_take(call->retrieval, d)) {
        srv_fields_refuse(f, "collection", "out of memory for the passages");
        good = false;
    }
    bool has_documents = d->n || call->graph;
    if (good && has_documents && srv_chat_last_user(c.messages) < 0)
        srv_fields_refuse(f, "documents", "documents need a message of the user");
    if (good && !f->failed && has_documents && !frame_question(&c))
        srv_fields_refuse(f, "documents", "out of memory for the documents");
    if (good && !f->failed) {
        *err = write_template(call, &c, d, &p, &done);
        if (!done && c.shows_tools && !srv_chat_spell_tools(c.messages, c.tools)) *err = SP_E_NOMEM;
        if (!done && *err == SP_OK) *err = srv_prompt_create(call, &p);
        if (!done && *err == SP_OK) *err = add_turns(call, p, c.messages, c.continues, d);
        if (*err != SP_OK) p = fail_with(f, "messages", p, *err);
    }
    srv_conversation_close(&c);
    return p;
}

/* add_ids -- a prompt of token ids. */
static sp_err add_ids(sp_prompt *p, srv_fields *f, const json_t *list)
{
    size_t n = json_array_size(list);
    int32_t *ids = calloc(n, sizeof *ids);
    if (!ids) return SP_E_NOMEM;
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(list, i);
        json_int_t v = json_integer_value(id);
        if (!json_is_integer(id) || v < 0 || v > INT32_MAX)
            srv_fields_refuse(f, "prompt", "prompt[%zu] is not a token id", i);
        ids[i] = (int32_t)v;
    }
    sp_err err = f->failed ? SP_E_ARG : sp_prompt_tokens(p, ids, n);
    free(ids);
    return err;
}

static bool is_list(const json_t *prompt)
{
    return json_is_array(prompt) && !json_is_integer(json_array_get(prompt, 0));
}

int srv_prompt_count(const srv_fields *f)
{
    const json_t *prompt = srv_field(f, "prompt");
    return is_list(prompt) ? (int)json_array_size(prompt) : 1;
}

const json_t *srv_prompt_item(const srv_fields *f, int i)
{
    const json_t *prompt = srv_field(f, "prompt");
    return is_list(prompt) ? json_array_get(prompt, (size_t)i) : prompt;
}

sp_prompt *srv_prompt_plain(const srv_call *call, srv_fields *f, int i, const char *suffix,
                            sp_err *err)
{
    const json_t *prompt = srv_prompt_item(f, i);
    bool is_ids = json_is_array(prompt) && json_is_integer(json_array_get(prompt, 0));
    if (!json_is_string(prompt) && !is_ids) {
        srv_fields_refuse(f, "prompt",
                          "prompt must be a text, a list of token ids, or a list of those");
        return NULL;
    }
    if (suffix && is_ids) {
        srv_fields_refuse(f, "suffix", "suffix needs a prompt that is a text");
        return NULL;
    }
    sp_prompt *p = NULL;
    *err = srv_prompt_create(call, &p);
    if (*err == SP_OK && suffix) {
        *err = sp_prompt_fill(p, json_string_value(prompt), suffix);
        return *err == SP_OK ? p : fail_with(f, "suffix", p, *err);
    }
    if (*err == SP_OK)
        *err = is_ids ? add_ids(p, f, prompt)
                      : sp_prompt_cut(p, json_string_value(prompt), NULL, true);
    return *err == SP_OK ? p : fail_with(f, "prompt", p, *err);
}
