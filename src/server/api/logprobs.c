#include "server/api/logprobs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/memory.h"
#include "server/http/reply.h"

#define LEAST -9999.0 /* of an impossible token: JSON has no infinity */

/* The text of a token: free it with sp_buffer_free. */
typedef struct piece {
    char *s;
    size_t n;
} piece;

static piece piece_of(const srv_server *s, int32_t id)
{
    piece p = {0};
    const sp_err err = sp_vocab_piece(s->vocab, id, &p.s, &p.n);
    if (err == SP_E_NOMEM) srv_memory_lost();
    return err == SP_OK ? p : (piece){0};
}

void srv_token_chars(const srv_server *s, int32_t id, srv_chars *at)
{
    piece p = piece_of(s, id);
    srv_chars_add(at, p.s, p.n);
    sp_buffer_free(p.s);
}

/* pass -- token i is in the text. An echo shows control tokens, an answer does not; no character goes from an echo on
 * into the answer. */
static void pass(const srv_choice *c, size_t i, srv_chars *at)
{
    const srv_server *s = c->job->s;
    const int32_t id = c->tokens[i * ((size_t)c->job->task.reply.top_logprobs + 1)].id;
    if (i == c->n_echoed) at->left = 0;
    if (i < c->n_echoed || sp_vocab_shows(s->vocab, id)) srv_token_chars(s, id, at);
}

static json_t *piece_json(const piece *p)
{
    return srv_text_json(p->s ? p->s : "", p->n);
}

static double bounded(float logprob)
{
    return logprob > (float)LEAST ? (double)logprob : LEAST;
}

/* -- chat ------------------------------------------------------------------------------------- */

static json_t *chat_token(const srv_job *j, const sp_token_logprob *t)
{
    piece p = piece_of(j->s, t->id);
    json_t *bytes = json_array();
    for (size_t i = 0; i < p.n; i++)
        json_array_append_new(bytes, json_integer((unsigned char)p.s[i]));
    json_t *o = json_pack("{s:o, s:f, s:o}", "token", piece_json(&p), "logprob",
                          bounded(t->logprob), "bytes", bytes);
    sp_buffer_free(p.s);
    return o;
}

static json_t *chat_logprobs(const srv_choice *c, size_t from, size_t to)
{
    const srv_job *j = c->job;
    size_t n_each = (size_t)j->task.reply.top_logprobs + 1;
    json_t *content = json_array();
    for (size_t i = from; i < to; i++) {
        const sp_token_logprob *v = c->tokens + i * n_each;
        json_t *o = chat_token(j, v), *top = json_array();
        for (size_t k = 1; k < n_each; k++) json_array_append_new(top, chat_token(j, v + k));
        json_object_set_new(o, "top_logprobs", top);
        json_array_append_new(content, o);
    }
    return json_pack("{s:o, s:n}", "content", content, "refusal");
}

/* -- completions ------------------------------------------------------------------------------ */

/* name_json -- a token by its text; as OpenAI does, one that is a part of a character by its bytes, so that different
 * tokens have different names. So is one with NUL, which would end a name. */
static json_t *name_json(const piece *p)
{
    char name[7 + 4 * 64] = "bytes:";
    const bool has_nul = p->n && memchr(p->s, '\0', p->n);
    json_t *text = has_nul ? NULL : json_stringn(p->s ? p->s : "", p->n);
    if (text) return text;
    for (size_t i = 0; i < p->n && i < 64; i++)
        snprintf(name + 6 + 4 * i, 5, "\\x%02x", (unsigned char)p->s[i]);
    return json_string(name);
}

/* top_of -- the n most likely tokens, in v[1 ..], and then the token v[0], which may be one of these. */
static json_t *top_of(const srv_job *j, const sp_token_logprob *v, size_t n)
{
    json_t *top = json_object();
    for (size_t i = 1; i <= n + 1; i++) {
        const size_t k = i <= n ? i : 0;
        piece p = piece_of(j->s, v[k].id);
        json_t *name = name_json(&p);
        if (name && (k == 0 || !json_object_get(top, json_string_value(name))))
            json_object_set_new(top, json_string_value(name), json_real(bounded(v[k].logprob)));
        json_decref(name);
        sp_buffer_free(p.s);
    }
    return top;
}

static json_t *text_logprobs(const srv_choice *c, size_t from, size_t to, srv_chars at)
{
    const srv_job *j = c->job;
    size_t n_top = (size_t)j->task.reply.top_logprobs;
    json_t *texts = json_array(), *values = json_array(), *tops = json_array(),
           *offsets = json_array();
    for (size_t i = from; i < to; i++) {
        const sp_token_logprob *v = c->tokens + i * (n_top + 1);
        piece p = piece_of(j->s, v->id);
        json_array_append_new(texts, name_json(&p));
        bool first = isnan(v->logprob); /* of an echoed prompt: nothing precedes it */
        json_array_append_new(values, first ? json_null() : json_real(bounded(v->logprob)));
        json_array_append_new(tops, first ? json_null() : top_of(j, v, n_top));
        json_array_append_new(offsets, json_integer((json_int_t)(at.n > c->n_added ? at.n - c->n_added : 0)));
        pass(c, i, &at);
        sp_buffer_free(p.s);
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", texts, "token_logprobs", values,
                     "top_logprobs", tops, "text_offset", offsets);
}

json_t *srv_logprobs(const srv_choice *c, size_t from, size_t to, srv_chars text_at)
{
    const srv_task *t = &c->job->task;
    if (!t->reply.logprobs) return json_null();
    return t->chat ? chat_logprobs(c, from, to) : text_logprobs(c, from, to, text_at);
}

json_t *srv_logprobs_new(srv_choice *c)
{
    const size_t from = c->taken_tokens;
    const srv_chars at = c->text_at;
    c->taken_tokens = c->n_tokens;
    if (!c->job->task.reply.logprobs || from == c->n_tokens) return json_null();
    for (size_t i = from; i < c->n_tokens; i++) pass(c, i, &c->text_at);
    return srv_logprobs(c, from, c->n_tokens, at);
}
