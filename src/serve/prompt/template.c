/* template.c -- a conversation as segments, by the model's own chat template.
 *
 *   rendered   <s>[INST] S\n\n U [/INST] A </s>[INST] U [/INST]
 *   spans                 -     -         -             -           what comes from messages
 *
 * Text between spans is the template's: special tokens are recognised there only. The pieces join into
 * segments as those of sp_prompt_message do: a turn is one segment with the template text around it, an
 * earlier answer and a chunk are segments of their own.
 */
#include <string.h>

#include "base/need.h"
#include "model/json_file.h"
#include "serve/prompt/chat_text.h"
#include "serve/prompt/prompt.h"

typedef struct writer {
    sp_prompt *p;
    const json_t *messages;
    const sp_chat_opts *o;
    int message; /* of the last span; -1: none */
    bool continues; /* the last message is an answer that has begun */
    bool placed; /* the chunks are in the prompt */
} writer;

static sp_role role_of(const json_t *messages, int i)
{
    const char *role =
        json_string_value(json_object_get(json_array_get(messages, (size_t)i), "role"));
    if (role && strcmp(role, "user") == 0) return SP_ROLE_USER;
    if (role && strcmp(role, "assistant") == 0) return SP_ROLE_ASSISTANT;
    if (role && strcmp(role, "tool") == 0) return SP_ROLE_TOOL;
    return SP_ROLE_SYSTEM;
}

static sp_err add_chunks(writer *w)
{
    w->placed = true;
    for (int i = 0; i < w->o->n_chunks; i++) {
        sp_chat_chunk *c = &w->o->chunks[i];
        SP_TRY(sp_prompt_chunk(w->p, c->title, c->text));
        c->segment = sp_prompt_n_segments(w->p) - 1;
    }
    return SP_OK;
}

/* has_documents -- whether policies look for a question, which is the last segment, after documents. */
static bool has_documents(const sp_prompt *p)
{
    for (size_t i = 0; i < p->segs.n; i++)
        if (p->segs.v[i].kind == SP_SEG_CHUNK || p->segs.v[i].kind == SP_SEG_NODE) return true;
    return false;
}

sp_err sp_prompt_add_begun(sp_prompt *p, const char *text, size_t n)
{
    p->continues = true;
    p->role = has_documents(p) ? SP_ROLE_USER : SP_ROLE_ASSISTANT;
    return sp_prompt_add_words(p, text, n, p->role == SP_ROLE_USER);
}

/* is_begun -- whether a span is a part of the answer that has begun. */
static bool is_begun(const writer *w, const sp_template_span *s)
{
    return w->continues && s->origin == SP_TEMPLATE_MESSAGE && (size_t)s->index + 1 == json_array_size(w->messages);
}

/* add_span -- a part of a message; other input (tools, arguments of calls) continues the turn. */
static sp_err add_span(writer *w, const char *text, const sp_template_span *s)
{
    sp_prompt *p = w->p;
    size_t n = s->to - s->from;
    if (s->origin != SP_TEMPLATE_MESSAGE) {
        if (w->message >= 0 && p->role == SP_ROLE_ASSISTANT)
            p->role = SP_ROLE_SYSTEM; /* no answer of ours */
        return sp_prompt_add_words(p, text, n, true);
    }
    bool same = w->message == s->index;
    w->message = s->index;
    p->role = role_of(w->messages, s->index);
    p->n_turns++;
    if (w->o->n_chunks && !w->placed && s->index == w->o->chunks_at) SP_TRY(add_chunks(w));
    if (is_begun(w, s)) return sp_prompt_add_begun(p, text, n);
    if (p->role == SP_ROLE_USER || p->role == SP_ROLE_TOOL) return sp_prompt_add_cut(p, text, n);
    return sp_prompt_add_words(p, text, n, same && p->role == SP_ROLE_SYSTEM);
}

/* skip_bos -- the tokenizer writes it itself. */
static sp_err skip_bos(const sp_prompt *p, const sp_template_text *x, size_t *at)
{
    const sp_tokenizer *t = p->space->tokenizer;
    sp_bytes bos = {0};
    if (!sp_tokenizer_adds_bos(t) || sp_tokenizer_bos(t) < 0) return SP_OK;
    SP_TRY(sp_tokenizer_piece(t, sp_tokenizer_bos(t), true, &bos));
    bool is_there = bos.n && x->n >= bos.n && memcmp(x->text, bos.v, bos.n) == 0;
    bool is_own = x->n_spans == 0 || x->spans[0].from >= bos.n;
    if (is_there && is_own) *at = bos.n;
    sp_vec_fini(&bos);
    return SP_OK;
}

static sp_err write_all(writer *w, const sp_template_text *x)
{
    size_t at = 0, turn = 0; /* turn: where that of the answer begins */
    w->p->n_turns = 1;
    w->p->role = SP_ROLE_SYSTEM;
    SP_TRY(skip_bos(w->p, x, &at));
    for (size_t i = 0; i < x->n_spans; i++) {
        const sp_template_span *s = &x->spans[i];
        if (s->from > at) SP_TRY(sp_prompt_add_template(w->p, x->text + at, s->from - at));
        SP_TRY(add_span(w, x->text + s->from, s));
        at = s->to;
        if (!is_begun(w, s)) turn = at;
    }
    if (x->n > at) SP_TRY(sp_prompt_add_template(w->p, x->text + at, x->n - at));
    if (w->o->n_chunks && !w->placed)
        return sp_fail(SP_E_ARG,
                       "chat: the template does not show messages[%d], which has the documents",
                       w->o->chunks_at);
    w->p->closed = true;
    if (w->continues)
        sp_prompt_note_begun(w->p, x->text + turn, x->n - turn);
    else
        sp_prompt_note_end(w->p, x->text + at, x->n - at);
    return SP_OK;
}

bool sp_prompt_thinks(const sp_prompt *p)
{
    return p && p->thinks;
}

sp_err sp_prompt_chat(sp_prompt *p, const sp_chat_opts *o)
{
    SP_NEED(p);
    SP_NEED(o);
    SP_NEED(o->request);
    sp_chat_input in = {.in.now = o->now};
    sp_template_text x = {0};
    json_t *j = NULL;
    const char *jinja = o->jinja ? o->jinja : p->space->chat_template;
    if (!jinja) return sp_fail(SP_E_NOTFOUND, "the model has no chat template");
    if (!p->space->tokenizer)
        return sp_fail(SP_E_ARG, "chat: the model has no tokenizer for a text");
    if (p->segs.n || p->closed) return sp_fail(SP_E_ARG, "chat: the prompt has begun already");
    if (o->n_chunks < 0 || (o->n_chunks && !o->chunks))
        return sp_fail(SP_E_ARG, "chat: a list of %d chunks", o->n_chunks);
    SP_TRY(sp_json_parse(o->request, strlen(o->request), "chat", &j));
    sp_err err = sp_chat_read(j, &in);
    if (err == SP_OK) err = sp_chat_render(p->space->tokenizer, jinja, &in, &x);
    writer w = {.p = p, .messages = in.in.messages, .o = o, .message = -1, .continues = in.continues};
    if (err == SP_OK) err = write_all(&w, &x);
    sp_template_text_fini(&x);
    json_decref(j);
    return err;
}
