#include "cli/answer/thoughts.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* Of Qwen, DeepSeek, GLM; Seed-OSS; Magistral; Command A. A model uses one of them. */
static const struct {
    const char *open, *close;
} tags[] = {
    {"<think>", "</think>"},
    {"<seed:think>", "</seed:think>"},
    {"[THINK]", "[/THINK]"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
};

thoughts_form thoughts_of_template(const char *jinja)
{
    if (!jinja) return THOUGHTS_NONE;
    if (strstr(jinja, "<|channel|>") && strstr(jinja, "<|message|>")) return THOUGHTS_CHANNELS;
    for (size_t i = 0; i < COUNT(tags); i++)
        if (strstr(jinja, tags[i].open) || strstr(jinja, tags[i].close)) return THOUGHTS_TAGS;
    return THOUGHTS_NONE;
}

/* partial -- bytes at the end of v that may be the beginning of `mark`. */
static size_t partial(cli_view v, const char *mark)
{
    for (size_t n = strlen(mark) - 1; n > 0; n--)
        if (v.n >= n && memcmp(v.s + v.n - n, mark, n) == 0) return n;
    return 0;
}

static cli_view find(cli_view v, const char *mark)
{
    const char *at = v.n ? memmem(v.s, v.n, mark, strlen(mark)) : NULL;
    return at ? (cli_view){at, v.n - (size_t)(at - v.s)} : (cli_view){v.s + v.n, 0};
}

static void trim_end(cli_view *v)
{
    while (v->n && isspace((unsigned char)v->s[v->n - 1])) v->n--;
}

/* -- <think> -------------------------------------------------------------------------------------------- */

static bool may_open(const cli_view *v)
{
    for (size_t i = 0; i < COUNT(tags); i++)
        if (v->n < strlen(tags[i].open) && cli_view_may_begin(v, tags[i].open)) return true;
    return false;
}

static bool take_open(cli_view *v)
{
    for (size_t i = 0; i < COUNT(tags); i++)
        if (cli_view_take(v, tags[i].open)) return true;
    return false;
}

/* find_close -- the first closing tag; *held: bytes at the end of v that may be the beginning of one. */
static cli_view find_close(cli_view v, size_t *held)
{
    cli_view first = {v.s + v.n, 0};
    *held = 0;
    for (size_t i = 0; i < COUNT(tags); i++) {
        const cli_view at = find(v, tags[i].close);
        const size_t n = partial(v, tags[i].close);
        if (at.n > first.n) first = at;
        if (n > *held) *held = n;
    }
    return first;
}

static void split_tags(thoughts_form form, cli_view v, bool grows, thoughts_parts *out)
{
    cli_view at = v;
    out->text = v;
    cli_view_skip_space(&at);
    if (grows && may_open(&at)) { /* not known yet */
        out->text.n = 0;
        return;
    }
    const bool opens = take_open(&at);
    if (!opens && form == THOUGHTS_TAGS) return;
    if (!opens && form == THOUGHTS_WITHIN)
        at = v;
    else
        cli_view_skip_space(&at);
    size_t held;
    cli_view rest = find_close(at, &held);
    out->thought = (cli_view){at.s, at.n - rest.n};
    if (grows && rest.n == 0) out->thought.n -= held;
    trim_end(&out->thought);
    for (size_t i = 0; i < COUNT(tags); i++)
        if (cli_view_take(&rest, tags[i].close)) break;
    cli_view_skip_space(&rest);
    out->text = rest;
}

/* -- channels --------------------------------------------------------------------------------------------- */

static const char *const heads[] = {"<|start|>", "<|channel|>", " to=", "to="};
static const char *const tails[] = {"<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>"};

static bool begins_message(const cli_view *v, bool grows)
{
    for (size_t i = 0; i < COUNT(heads); i++)
        if (cli_view_may_begin(v, heads[i]) && (grows || v->n >= strlen(heads[i]))) return true;
    return false;
}

/* word_after -- up to a blank or a mark. */
static cli_view word_after(cli_view v, const char *mark)
{
    cli_view word = find(v, mark);
    size_t n = 0;
    if (!cli_view_take(&word, mark)) return (cli_view){0};
    while (n < word.n && word.s[n] != '<' && !isspace((unsigned char)word.s[n])) n++;
    return (cli_view){word.s, n};
}

/* take_message -- moves *v past a message; false: its head is not complete. */
static bool take_message(cli_view *v, bool grows, thoughts_message *out)
{
    cli_view body = find(*v, "<|message|>"), head = {v->s, v->n - body.n}, rest = {v->s + v->n, 0};
    if (!cli_view_take(&body, "<|message|>")) return false;
    size_t held = 0;
    for (size_t i = 0; i < COUNT(tails); i++) {
        const cli_view tail = find(body, tails[i]);
        const size_t n = partial(body, tails[i]);
        if (tail.n > rest.n) rest = tail;
        if (n > held) held = n;
    }
    *out = (thoughts_message){.channel = word_after(head, "<|channel|>"), .to = word_after(head, "to="), .body = body};
    out->body.n -= rest.n;
    out->ended = rest.n > 0;
    if (!rest.n && grows) out->body.n -= held;
    for (size_t i = 0; i < 3; i++) cli_view_take(&rest, tails[i]); /* the others begin the next message */
    *v = rest;
    return true;
}

static bool is(cli_view v, const char *word)
{
    return v.n == strlen(word) && memcmp(v.s, word, v.n) == 0;
}

/* append -- to a part of `owned`; messages have a line end between them. */
static void append(char *part, size_t *n, cli_view v)
{
    if (*n && v.n) part[(*n)++] = '\n';
    memcpy(part + *n, v.s, v.n);
    *n += v.n;
}

static bool is_thought(const thoughts_message *m)
{
    cli_view to = m->to;
    if (is(m->channel, "analysis")) return true;
    return to.n && !cli_view_take(&to, "functions.") && !is(m->channel, "final");
}

static bool split_channels(cli_view v, bool grows, thoughts_take_fn *take, void *user, thoughts_parts *out)
{
    thoughts_message m;
    char *thought = malloc(2 * v.n + 2);
    if (!thought) return false;
    char *text = thought + v.n + 1;
    size_t n_thought = 0, n_text = 0;
    while (v.n && take_message(&v, grows, &m)) {
        if (m.to.n && take && take(&m, user)) continue;
        if (is_thought(&m))
            append(thought, &n_thought, m.body);
        else
            append(text, &n_text, m.body);
    }
    *out = (thoughts_parts){{thought, n_thought}, {text, n_text}, thought};
    return true;
}

bool thoughts_split(thoughts_form form, cli_view answer, bool grows, thoughts_take_fn *take, void *user,
                    thoughts_parts *out)
{
    *out = (thoughts_parts){.thought = {answer.s, 0}, .text = {answer.s, 0}};
    if (form == THOUGHTS_CHANNELS && answer.n && begins_message(&answer, grows))
        return split_channels(answer, grows, take, user, out);
    if (form == THOUGHTS_TAGS || form == THOUGHTS_OPENED || form == THOUGHTS_WITHIN)
        split_tags(form, answer, grows, out);
    else
        out->text = answer;
    return true;
}
