#include "cli/answer/saying.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/alloc.h"
#include "cli/fail.h"
#include "cli/show.h"

const opt_choice saying_choices[] = {
    {"auto", "dimmed before the text at a terminal; elsewhere not printed"},
    {"show", "dimmed before the text at a terminal; elsewhere on standard error"},
    {"hide", "not printed"},
    {"text", "in the text, as the model writes them, with their marks"},
    {NULL, NULL},
};

bool saying_check(saying *s)
{
    for (const opt_choice *c = saying_choices; c->name && s->how; c++)
        if (strcmp(c->name, s->how) == 0) return true;
    if (s->how) cli_fail_with("--thoughts: \"%s\" is unknown: auto, show, hide, text", s->how);
    return !s->how;
}

static bool is(const saying *s, const char *how)
{
    return strcmp(s->how ? s->how : "auto", how) == 0;
}

void saying_begin(saying *s, const sp_context *c, const sp_prompt *p, bool grammar)
{
    const bool terminal = isatty(STDOUT_FILENO);
    s->form = is(s, "text") ? THOUGHTS_NONE : thoughts_of_template(sp_vocab_template(sp_context_vocab(c)));
    if (s->form == THOUGHTS_TAGS && !grammar && sp_prompt_thinks(p)) s->form = THOUGHTS_OPENED;
    s->to = is(s, "hide") ? NULL : terminal ? stdout : is(s, "show") ? stderr : NULL;
    s->n = s->n_thought = s->n_text = 0;
}

/* -- printing -------------------------------------------------------------------------------------------- */

/* put -- to a terminal only what it can show: an answer may quote any document. */
static bool put(FILE *to, const char *text, size_t n)
{
    if (isatty(fileno(to)))
        show_text(to, text, n);
    else
        fwrite(text, 1, n, to);
    return fflush(to) == 0 && !ferror(to);
}

/* put_thought -- dim, or between lines that name it where the terminal has no dim text. */
static void put_thought(saying *s, cli_view thought)
{
    if (thought.n <= s->n_thought || !s->to) return;
    const bool named = !*show_dim(s->to) && isatty(fileno(s->to));
    if (named && s->n_thought == 0) fputs("[thoughts]\n", s->to);
    fputs(show_dim(s->to), s->to);
    put(s->to, thought.s + s->n_thought, thought.n - s->n_thought);
    fputs(show_plain(s->to), s->to);
    fflush(s->to);
    s->n_thought = thought.n;
}

/* end_thought -- before the text, or at the end of an answer that has none. */
static void end_thought(const saying *s)
{
    if (!s->to || s->n_thought == 0) return;
    const bool named = !*show_dim(s->to) && isatty(fileno(s->to));
    fputs(named ? "\n[answer]\n" : s->to == stdout ? "\n\n" : "\n", s->to);
    fflush(s->to);
}

static bool print(saying *s, bool grows)
{
    thoughts_parts parts;
    if (!thoughts_split(s->form, (cli_view){s->answer, s->n}, grows, NULL, NULL, &parts)) cli_checked(NULL);
    bool good = true;
    put_thought(s, parts.thought);
    if (s->n_text == 0 && (parts.text.n || !grows)) end_thought(s);
    if (parts.text.n > s->n_text) good = put(stdout, parts.text.s + s->n_text, parts.text.n - s->n_text);
    s->n_text = parts.text.n;
    free(parts.owned);
    return good;
}

bool saying_print(const char *text, size_t n, void *user)
{
    saying *s = user;
    if (s->form == THOUGHTS_NONE) return put(stdout, text, n);
    while (s->n + n > s->cap) s->answer = cli_grow(s->answer, s->cap, &s->cap, 1);
    memcpy(s->answer + s->n, text, n);
    s->n += n;
    return print(s, true);
}

bool saying_end(saying *s)
{
    return s->n == 0 || print(s, false);
}

void saying_fini(saying *s)
{
    free(s->answer);
    s->answer = NULL;
    s->n = s->cap = 0;
}

/* -- a whole answer ---------------------------------------------------------------------------------------- */

char *saying_text(const saying *s, const char *answer)
{
    thoughts_parts parts;
    if (!thoughts_split(s->form, (cli_view){answer, strlen(answer)}, false, NULL, NULL, &parts)) cli_checked(NULL);
    char *text = cli_checked(strndup(parts.text.s, parts.text.n));
    free(parts.owned);
    return text;
}

json_t *saying_json(const saying *s, const char *answer, json_t *account)
{
    thoughts_parts parts;
    if (!thoughts_split(s->form, (cli_view){answer, strlen(answer)}, false, NULL, NULL, &parts)) cli_checked(NULL);
    if (!account) account = json_object();
    json_object_set_new(account, "text", json_stringn(parts.text.s, parts.text.n));
    if (parts.thought.n && !is(s, "hide"))
        json_object_set_new(account, "thoughts", json_stringn(parts.thought.s, parts.thought.n));
    free(parts.owned);
    return account;
}
