/* ask.c -- `spolia ask`: retrieves chunks, reuses their KV in a prompt, streams the answer.
 *
 * One question on the command line, a batch of them on standard input, or a conversation at the
 * terminal. All share one context, so a question reuses what earlier ones computed. */
#include <stdio.h>
#include <unistd.h>

#include "cli/advice.h"
#include "cmd/ask.h"
#include "cmd/commands.h"

static int answer_all(asking *a, const char *question)
{
    if (question) return ask_question(a, question, false);
    return isatty(STDIN_FILENO) && !a->as_json ? ask_chat(a) : ask_batch(a);
}

int cmd_ask(int argc, char **argv)
{
    model_options m;
    sampling_options s;
    const char *index = NULL;
    bool ranked = false;
    asking a = {.sampling = &s, .system = CLI_SYSTEM_TEXT, .top_k = 8};
    model_options_init(&m);
    sampling_options_init(&s, 64);
    const opt own[] = {
        {OPT_STRING, "index", 'i', "FILE", &index, "index written by spolia index",
         .required = true},
        {OPT_INT, "chunks", 'k', "K", &a.top_k, "chunks in the prompt (8)", .common = true},
        {OPT_STRING, "system", 0, "TEXT", &a.system, "system text of the prompt"},
        {OPT_FLAG, "ranked", 0, NULL, &ranked,
         "order chunks by relevance, not as in the index (which shares more prefixes)"},
        {OPT_FLAG, "allow-empty", 0, NULL, &a.allow_empty,
         "answer without documents when none matches; else the exit code is 3"},
        {OPT_FLAG, "json", 0, NULL, &a.as_json, "print one JSON object per question",
         .common = true},
        {0},
    };
    const opt *const tables[] = {own, s.table, m.table, NULL};
    int at = opt_parse(
        argc, argv,
        &(opt_usage){"ask -m MODEL --index FILE [\"question\"] [options]",
                     "Answers a question from indexed documents. Without a question on "
                     "the command line it reads\nquestions from standard input, one a line; at "
                     "a terminal it holds a conversation."},
        tables);
    if (at < 0) return -1 - at;
    if (a.as_json) cli_fail_as_json();
    if (argc - at > 1 || a.top_k < 0) return cli_fail_with("ask: give one question, in quotes"), 2;
    a.stable_order = !ranked;
    a.verbose = m.verbose;
    a.model = m.ctx.model;
    advice ignored = advice_of(&m);
    sp_err err = sp_index_open(index, &a.index);
    if (err != SP_OK) return cli_fail(err);
    a.ctx = model_options_open(&m);
    int code = 1;
    if (a.ctx) advice_print(&ignored);
    if (a.ctx) code = answer_all(&a, at < argc ? argv[at] : NULL);
    sp_context_close(a.ctx);
    sp_index_close(a.index);
    return code;
}
