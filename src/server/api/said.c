#include "server/api/said.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "server/api/calls_int.h"
#include "server/http/memory.h"

#define OPEN  "<think>"
#define CLOSE "</think>"

srv_thoughts srv_thoughts_of(const char *jinja)
{
    if (!jinja) return SRV_THOUGHTS_NONE;
    if (strstr(jinja, "<|channel|>") && strstr(jinja, "<|message|>")) return SRV_THOUGHTS_CHANNELS;
    return strstr(jinja, OPEN) || strstr(jinja, CLOSE) ? SRV_THOUGHTS_TAGS : SRV_THOUGHTS_NONE;
}

/* partial -- bytes at the end of v that may be the beginning of `mark`. */
static size_t partial(srv_view v, const char *mark)
{
    for (size_t n = strlen(mark) - 1; n > 0; n--)
        if (v.n >= n && memcmp(v.s + v.n - n, mark, n) == 0) return n;
    return 0;
}

static srv_view find(srv_view v, const char *mark)
{
    const char *at = v.n ? memmem(v.s, v.n, mark, strlen(mark)) : NULL;
    return at ? (srv_view){at, v.n - (size_t)(at - v.s)} : (srv_view){v.s + v.n, 0};
}

static void trim_end(srv_view *v)
{
    while (v->n && isspace((unsigned char)v->s[v->n - 1])) v->n--;
}

/* -- <think> -------------------------------------------------------------------------------------------- */

/* take_thought -- moves *v past thoughts in tags. */
static void take_thought(srv_view *v, bool in_thought, srv_end end, srv_said *out)
{
    srv_view at = *v;
    srv_view_skip_space(&at);
    if (end == SRV_GROWS && at.n < strlen(OPEN) && srv_view_may_begin(&at, OPEN)) { /* not known yet */
        v->n = 0;
        return;
    }
    if (!srv_view_take(&at, OPEN) && !in_thought) return;
    srv_view_skip_space(&at);
    srv_view rest = find(at, CLOSE), thought = {at.s, at.n - rest.n};
    if (end == SRV_GROWS && rest.n == 0) thought.n -= partial(thought, CLOSE);
    trim_end(&thought);
    out->thought = thought.s;
    out->n_thought = thought.n;
    srv_view_take(&rest, CLOSE);
    srv_view_skip_space(&rest);
    *v = rest;
}

/* -- channels --------------------------------------------------------------------------------------------- */

static const char *const heads[] = {"<|start|>", "<|channel|>", " to=", "to="};
static const char *const tails[] = {"<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>"};

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* A message of an answer. */
typedef struct message {
    srv_view channel, to, body;
    bool complete; /* the body ends here */
} message;

static bool begins_message(const srv_view *v, srv_end end)
{
    for (size_t i = 0; i < COUNT(heads); i++)
        if (srv_view_may_begin(v, heads[i]) && (end == SRV_GROWS || v->n >= strlen(heads[i]))) return true;
    return false;
}

/* word_after -- up to a blank or a mark. */
static srv_view word_after(srv_view v, const char *mark)
{
    srv_view word = find(v, mark);
    size_t n = 0;
    if (!srv_view_take(&word, mark)) return (srv_view){0};
    while (n < word.n && word.s[n] != '<' && !isspace((unsigned char)word.s[n])) n++;
    return (srv_view){word.s, n};
}

/* take_message -- moves *v past a message; false: its head is not complete. */
static bool take_message(srv_view *v, srv_end end, message *out)
{
    srv_view body = find(*v, "<|message|>"), head = {v->s, v->n - body.n}, rest = {v->s + v->n, 0};
    if (!srv_view_take(&body, "<|message|>")) return false;
    size_t held = 0;
    for (size_t i = 0; i < COUNT(tails); i++) {
        const srv_view tail = find(body, tails[i]);
        const size_t n = partial(body, tails[i]);
        if (tail.n > rest.n) rest = tail;
        if (n > held) held = n;
    }
    *out = (message){.channel = word_after(head, "<|channel|>"), .to = word_after(head, "to="), .body = body};
    out->body.n -= rest.n;
    out->complete = rest.n > 0 || end == SRV_WHOLE;
    if (!rest.n && end == SRV_GROWS) out->body.n -= held;
    for (size_t i = 0; i < 3; i++) srv_view_take(&rest, tails[i]); /* the others begin the next message */
    *v = rest;
    return true;
}

static bool is(srv_view v, const char *word)
{
    return v.n == strlen(word) && memcmp(v.s, word, v.n) == 0;
}

/* append -- to a part of `owned`; messages have a line end between them. */
static void append(char *part, size_t *n, srv_view v, bool apart)
{
    if (apart && *n && v.n) part[(*n)++] = '\n';
    memcpy(part + *n, v.s, v.n);
    *n += v.n;
}

/* take_call -- a message to a function; false: it is none of ours, or its arguments are no object. */
static bool take_call(const srv_tools *t, const message *m, srv_said *out)
{
    srv_view to = m->to, arguments = m->body;
    char name[257] = "";
    if (!srv_view_take(&to, "functions.") || to.n >= sizeof name) return false;
    memcpy(name, to.s, to.n);
    if (!srv_calls_tool(t, name)) return false;
    srv_view_skip_space(&arguments);
    srv_view rest = arguments;
    json_t *o = srv_calls_take_json(&rest), *text = NULL;
    const bool whole = json_is_object(o);
    json_decref(o);
    if (whole) {
        text = json_stringn(arguments.s, arguments.n - rest.n);
        const bool added = text && srv_calls_add(out->calls.v, name, text);
        json_decref(text);
        return added;
    }
    if (m->complete || (arguments.n && *arguments.s != '{')) return false;
    if (arguments.n) out->calls.open = srv_calls_begun(name, &arguments);
    return true;
}

static void read_channels(const srv_tools *t, srv_view v, srv_end end, srv_said *out)
{
    message m;
    char *thought = malloc(2 * v.n + 2), *text = thought ? thought + v.n + 1 : NULL;
    out->owned = thought;
    out->thought = thought;
    out->text = text;
    if (!thought) srv_memory_lost();
    while (thought && v.n && !out->calls.open && take_message(&v, end, &m)) {
        if (m.to.n && take_call(t, &m, out)) continue;
        const bool to_function = srv_view_take(&m.to, "functions.");
        if (is(m.channel, "analysis") || (m.to.n && !to_function && !is(m.channel, "final")))
            append(thought, &out->n_thought, m.body, true);
        else
            append(text, &out->n_text, m.body, true);
    }
    out->calls.n_text = out->n_text;
}

/* -- all of it -------------------------------------------------------------------------------------------- */

void srv_said_read(const srv_tools *t, srv_thoughts thoughts, const char *text, size_t n, srv_end end, srv_said *out)
{
    srv_view v = {text, n};
    *out = (srv_said){.thought = text};
    if (thoughts == SRV_THOUGHTS_CHANNELS && n && begins_message(&v, end)) {
        out->calls.v = json_array();
        read_channels(t, v, end, out);
        return;
    }
    const bool opened = thoughts == SRV_THOUGHTS_OPENED;
    if (thoughts == SRV_THOUGHTS_TAGS || opened) take_thought(&v, opened, end, out);
    srv_calls_read(t, v.s, v.n, end, &out->calls);
    out->text = v.s;
    out->n_text = out->calls.n_text;
}

void srv_said_fini(srv_said *s)
{
    json_decref(s->calls.v);
    json_decref(s->calls.open);
    free(s->owned);
}
