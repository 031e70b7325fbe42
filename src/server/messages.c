#include "server/messages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

typedef struct message {
    sp_role role;
    char *text; /* owned */
} message;

typedef struct message_list {
    message *v;
    size_t n;
} message_list;

static void messages_fini(message_list *m)
{
    for (size_t i = 0; i < m->n; i++) free(m->v[i].text);
    free(m->v);
}

/* -- reading ---------------------------------------------------------------------------------- */

static bool read_role(const char *name, sp_role *out)
{
    static const struct {
        const char *name;
        sp_role role;
    } roles[] = {{"system", SP_ROLE_SYSTEM},       {"developer", SP_ROLE_SYSTEM},
                 {"user", SP_ROLE_USER},           {"assistant", SP_ROLE_ASSISTANT},
                 {"tool", SP_ROLE_TOOL},           {"function", SP_ROLE_TOOL}};
    for (size_t i = 0; name && i < sizeof roles / sizeof *roles; i++)
        if (strcmp(name, roles[i].name) == 0) {
            *out = roles[i].role;
            return true;
        }
    return false;
}

/* write_parts -- the texts of a list of content parts, joined by line ends. */
static bool write_parts(FILE *to, const json_t *parts)
{
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i);
        const char *type = json_string_value(json_object_get(part, "type"));
        const char *text = json_string_value(json_object_get(part, "text"));
        if (json_is_string(part)) text = json_string_value(part);
        if (!text || (type && strcmp(type, "text") != 0)) return false;
        fprintf(to, "%s%s", i ? "\n" : "", text);
    }
    return true;
}

/* read_content -- a string, or a list of text parts; an assistant's may be null. NULL: neither, or
 * out of memory. Owns: free. */
static char *read_content(const json_t *content, sp_role role)
{
    if (json_is_string(content)) return strdup(json_string_value(content));
    if (!content || json_is_null(content)) return role == SP_ROLE_ASSISTANT ? strdup("") : NULL;
    if (!json_is_array(content)) return NULL;
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    if (!f) return NULL;
    bool good = write_parts(f, content);
    if (fclose(f) == 0 && good) return text;
    free(text);
    return NULL;
}

static bool read_message(srv_fields *f, const json_t *o, size_t i, message *out)
{
    char name[40];
    if (!read_role(json_string_value(json_object_get(o, "role")), &out->role)) {
        snprintf(name, sizeof name, "messages[%zu].role", i);
        srv_fields_refuse(f, name, "%s must be system, developer, user, assistant or tool", name);
        return false;
    }
    out->text = read_content(json_object_get(o, "content"), out->role);
    if (out->text) return true;
    snprintf(name, sizeof name, "messages[%zu].content", i);
    srv_fields_refuse(f, name, "%s must be a string or a list of text parts", name);
    return false;
}

static bool read_messages(srv_fields *f, message_list *out)
{
    const json_t *list = srv_field(f, "messages");
    size_t n = json_array_size(list);
    if (n == 0) {
        srv_fields_refuse(f, "messages", "messages must be a list of at least one message");
        return false;
    }
    out->v = calloc(n, sizeof *out->v);
    if (!out->v) {
        srv_fields_refuse(f, "messages", "out of memory for %zu messages", n);
        return false;
    }
    for (; out->n < n; out->n++)
        if (!read_message(f, json_array_get(list, out->n), out->n, &out->v[out->n])) return false;
    return true;
}

static const char *first_string(const json_t *o, const char *a, const char *b, const char *c)
{
    const char *s = json_string_value(json_object_get(o, a));
    if (!s) s = json_string_value(json_object_get(o, b));
    return s ? s : json_string_value(json_object_get(o, c));
}

static bool read_document(srv_fields *f, const json_t *o, size_t i, srv_document *out)
{
    char name[40];
    out->text = json_is_string(o) ? json_string_value(o)
                                  : first_string(o, "text", "content", "page_content");
    out->title = json_string_value(json_object_get(o, "title"));
    out->id = first_string(o, "id", "doc_id", "document_id");
    out->segment = -1;
    if (out->text) return true;
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
        srv_fields_refuse(f, "documents", "documents must be a list of at most %d",
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

/* -- writing ---------------------------------------------------------------------------------- */

/* add_system -- the system messages that begin the conversation, as one turn; returns how many. */
static sp_err add_system(sp_prompt *p, const message_list *m, bool has_documents, size_t *n)
{
    *n = 0;
    while (*n < m->n && m->v[*n].role == SP_ROLE_SYSTEM) ++*n;
    if (*n == 0)
        return has_documents ? sp_prompt_message(p, SP_ROLE_SYSTEM, CLI_SYSTEM_TEXT) : SP_OK;
    sp_err err = sp_prompt_begin(p, SP_ROLE_SYSTEM);
    for (size_t i = 0; i < *n && err == SP_OK; i++) {
        if (i) err = sp_prompt_text(p, "\n\n", false);
        if (err == SP_OK) err = sp_prompt_text(p, m->v[i].text, false);
    }
    return err == SP_OK ? sp_prompt_end(p) : err;
}

/* add_question -- the user turn that has the documents. */
static sp_err add_question(sp_prompt *p, const char *text, srv_documents *d)
{
    sp_err err = sp_prompt_begin(p, SP_ROLE_USER);
    for (size_t i = 0; i < d->n && err == SP_OK; i++) {
        err = sp_prompt_chunk(p, d->v[i].title, d->v[i].text);
        d->v[i].segment = sp_prompt_n_segments(p) - 1;
    }
    char *question = NULL;
    if (err == SP_OK && asprintf(&question, "Question: %s", text) < 0) return SP_E_NOMEM;
    if (err == SP_OK) err = sp_prompt_cut(p, question, NULL, false);
    free(question);
    return err == SP_OK ? sp_prompt_end(p) : err;
}

static sp_err add_turns(sp_prompt *p, const message_list *m, srv_documents *d, size_t last_user)
{
    size_t i;
    sp_err err = add_system(p, m, d->n > 0, &i);
    for (; i < m->n && err == SP_OK; i++)
        err = d->n && i == last_user ? add_question(p, m->v[i].text, d)
                                     : sp_prompt_message(p, m->v[i].role, m->v[i].text);
    return err == SP_OK ? sp_prompt_answer(p) : err;
}

/* fail_with -- passes the library's error on. */
static sp_prompt *fail_with(srv_fields *f, const char *param, sp_prompt *p, sp_err err)
{
    srv_fields_refuse(f, param, "%s",
                      *sp_error_detail() ? sp_error_detail() : sp_error_text(err));
    sp_prompt_destroy(p);
    return NULL;
}

sp_prompt *srv_prompt_chat(const srv_call *call, srv_fields *f, srv_documents *d, sp_err *err)
{
    message_list m = {0};
    sp_prompt *p = NULL;
    if (read_messages(f, &m) && read_documents(f, d)) {
        size_t last = m.n;
        while (last > 0 && m.v[last - 1].role != SP_ROLE_USER) last--;
        if (d->n && last == 0) {
            srv_fields_refuse(f, "documents", "documents need a message of the user");
        } else {
            *err = srv_prompt_create(call, &p);
            if (*err == SP_OK) *err = add_turns(p, &m, d, last - 1);
            if (*err != SP_OK) p = fail_with(f, "messages", p, *err);
        }
    }
    messages_fini(&m);
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

sp_prompt *srv_prompt_plain(const srv_call *call, srv_fields *f, sp_err *err)
{
    const json_t *prompt = srv_field(f, "prompt");
    if (json_is_array(prompt) && json_array_size(prompt) == 1 &&
        !json_is_integer(json_array_get(prompt, 0)))
        prompt = json_array_get(prompt, 0);
    bool is_ids = json_is_array(prompt) && json_is_integer(json_array_get(prompt, 0));
    if (!json_is_string(prompt) && !is_ids) {
        srv_fields_refuse(f, "prompt", "prompt must be one string or a list of token ids");
        return NULL;
    }
    sp_prompt *p = NULL;
    *err = srv_prompt_create(call, &p);
    if (*err == SP_OK)
        *err = is_ids ? add_ids(p, f, prompt)
                      : sp_prompt_cut(p, json_string_value(prompt), NULL, true);
    return *err == SP_OK ? p : fail_with(f, "prompt", p, *err);
}
