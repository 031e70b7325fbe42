#include "server/api/echo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/body/chat.h"
#include "server/api/logprobs.h"
#include "server/api/messages.h"
#include "server/http/memory.h"
#include "server/http/reply.h"

/* begun -- of the assistant's last message. NULL: there is none, or out of memory. */
static char *begun(srv_fields *f)
{
    json_t *messages = srv_chat_read(f, srv_field(f, "messages"));
    const json_t *m = json_array_get(messages, json_array_size(messages) - 1);
    const char *role = json_string_value(json_object_get(m, "role"));
    char *text = NULL;
    if (role && strcmp(role, "assistant") == 0) {
        text = strdup(json_string_value(json_object_get(m, "content")));
        if (!text) srv_memory_lost();
    }
    json_decref(messages);
    return text;
}

static char *text_of(const srv_call *call, const json_t *prompt)
{
    size_t n;
    if (json_is_string(prompt)) return strdup(json_string_value(prompt));
    char *text = srv_pieces(call->s, prompt, &n);
    if (text) n = srv_chars_mend(text, n); /* what is no text becomes U+FFFD, as in an answer */
    json_t *clean = text ? srv_text_json(text, n) : NULL;
    free(text);
    text = clean ? strdup(json_string_value(clean)) : NULL;
    json_decref(clean);
    return text;
}

/* ids_of -- as the prompt has them. Owns: sp_buffer_free of a text's, free of a list's. */
static int32_t *ids_of(const srv_call *call, const json_t *prompt, size_t *n)
{
    int32_t *ids = NULL;
    if (json_is_string(prompt)) {
        const char *text = json_string_value(prompt);
        return sp_vocab_encode(call->s->vocab, text, strlen(text), true, &ids, n) == SP_OK ? ids
                                                                                           : NULL;
    }
    *n = json_array_size(prompt);
    ids = calloc(*n + 1, sizeof *ids);
    for (size_t i = 0; ids && i < *n; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(prompt, i));
    return ids;
}

/* -- probabilities ---------------------------------------------------------------------------- */

typedef struct scoring {
    const int32_t *ids;
    size_t n;
    int n_top;
    sp_token_logprob *tokens;
} scoring;

/* add_top -- into v [n], best first, of which `filled` are there. */
static int add_top(sp_token_logprob *v, int filled, int n, sp_token_logprob one)
{
    if (filled == n && one.logprob <= v[n - 1].logprob) return filled;
    int k = filled < n ? filled++ : n - 1;
    for (; k > 0 && v[k - 1].logprob < one.logprob; k--) v[k] = v[k - 1];
    v[k] = one;
    return filled;
}

/* on_logits -- those at a position are about the token after it. */
static sp_err on_logits(int position, const float *logits, int n_vocab, void *user)
{
    scoring *s = user;
    size_t next = (size_t)position + 1;
    if (next >= s->n) return SP_OK;
    float max = -INFINITY;
    double total = 0;
    for (int i = 0; i < n_vocab; i++) max = logits[i] > max ? logits[i] : max;
    for (int i = 0; i < n_vocab; i++) total += exp((double)(logits[i] - max));
    double norm = (double)max + log(total);
    sp_token_logprob *v = s->tokens + next * ((size_t)s->n_top + 1);
    v[0].logprob = (float)(logits[s->ids[next]] - norm);
    int filled = 0;
    for (int i = 0; i < n_vocab && s->n_top > 0; i++)
        filled = add_top(v + 1, filled, s->n_top, (sp_token_logprob){i, (float)(logits[i] - norm)});
    return SP_OK;
}

static sp_err score(const srv_call *call, const srv_task *t, const json_t *prompt, srv_echo *out)
{
    size_t n = 0, n_each = (size_t)t->reply.top_logprobs + 1;
    int32_t *ids = ids_of(call, prompt, &n);
    sp_token_logprob *tokens = ids ? calloc(n * n_each + 1, sizeof *tokens) : NULL;
    for (size_t i = 0; tokens && i < n * n_each; i++)
        tokens[i] = (sp_token_logprob){ids[i / n_each], NAN};
    scoring s = {.ids = ids, .n = n, .n_top = t->reply.top_logprobs, .tokens = tokens};
    sp_err err = tokens ? sp_tokens_score(call->s->ctx, ids, n, 0, on_logits, &s) : SP_E_NOMEM;
    out->tokens = tokens;
    out->n = n;
    if (json_is_string(prompt))
        sp_buffer_free(ids);
    else
        free(ids);
    return err;
}

/* n_added -- characters that the tokens have and the text lacks: the tokenizer puts them before it. */
static size_t n_added(const srv_call *call, const srv_task *t, const srv_echo *e)
{
    const size_t n_each = (size_t)t->reply.top_logprobs + 1;
    srv_chars all = {0}, text = {0};
    srv_chars_add(&text, e->text, strlen(e->text));
    for (size_t i = 0; i < e->n; i++) srv_token_chars(call->s, e->tokens[i * n_each].id, &all);
    return all.n > text.n ? all.n - text.n : 0;
}

bool srv_echo_read(const srv_call *call, const srv_task *t, srv_fields *f, int i, srv_echo *out)
{
    *out = (srv_echo){0};
    if (!t->reply.echo) return true;
    if (t->chat) {
        out->text = begun(f);
        return !f->failed;
    }
    const json_t *prompt = srv_prompt_item(f, i);
    out->text = text_of(call, prompt);
    if (!out->text) srv_fields_refuse(f, "echo", "out of memory for the echo");
    if (!out->text || !t->reply.logprobs) return !f->failed;
    const sp_err err = score(call, t, prompt, out);
    if (err == SP_OK) out->n_added = n_added(call, t, out);
    if (err != SP_OK) srv_fields_fail(f, "echo", "echo", err);
    return !f->failed;
}

void srv_echo_fini(srv_echo *e)
{
    free(e->text);
    free(e->tokens);
    *e = (srv_echo){0};
}
