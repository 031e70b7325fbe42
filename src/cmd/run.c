/* run.c -- `spolia run`: generates text from a prompt. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/commands.h"
#include "cli/options/model_options.h"
#include "cli/answer/account.h"
#include "cli/options/advice.h"
#include "cli/answer/saying.h"

typedef struct running {
    const char *prompt, *separator;
    sp_grammar *grammar; /* NULL: any text */
    bool as_json;
    saying said;
} running;

static sp_err generate(sp_context *c, running *run, const sampling_options *s,
                       sp_request **out)
{
    sp_prompt *p;
    sp_err err = sp_prompt_create(c, &p);
    if (err != SP_OK) return err;
    err = sp_prompt_cut(p, run->prompt, run->separator, true);
    saying_begin(&run->said, c, p, run->grammar != NULL);
    if (err == SP_OK)
        err = sp_generate(c, p,
                          &(sp_request_opts){.sampling = s->s,
                                             .max_tokens = s->max_tokens,
                                             .stop = s->stop.v,
                                             .n_stop = s->stop.n,
                                             .grammar = run->grammar,
                                             .on_text = run->as_json ? NULL : saying_print,
                                           .user = &run->said},
                          out);
    if (err == SP_OK && !run->as_json) saying_end(&run->said);
    sp_prompt_destroy(p);
    return err;
}

static void print_account(const sp_result *r, const running *run, bool quiet)
{
    if (run->as_json)
        account_json(r, saying_json(&run->said, r->text, NULL));
    else if (!quiet)
        account_line(r);
    else
        putchar('\n');
}

int cmd_run(int argc, char **argv)
{
    model_options m;
    sampling_options s;
    const char *prompt = NULL, *file = NULL, *schema = NULL;
    running run = {0};
    bool quiet = false;
    model_options_init(&m);
    sampling_options_init(&s, 128);
    const opt own[] = {
        {OPT_STRING, "prompt", 'p', "TEXT", &prompt, "the prompt", .common = true},
        {OPT_STRING, "file", 'f', "FILE", &file,
         "read the prompt from a file, - for standard input", .common = true},
        {OPT_STRING, "separator", 0, "STR", &run.separator,
         "the text between two separators is a chunk, reused at any position"},
        {OPT_STRING, "json-schema", 0, "FILE", &schema, SCHEMA_HELP},
        SAYING_OPTION(run.said),
        {OPT_FLAG, "json", 0, NULL, &run.as_json, "print the result as JSON", .common = true},
        {OPT_FLAG, "quiet", 'q', NULL, &quiet, "print only the text"},
        {0},
    };
    const opt *const tables[] = {own, s.table, m.table, NULL};
    int at = opt_parse(argc, argv,
                       &(opt_usage){"run -m MODEL (-p TEXT | -f FILE) [options]",
                                    "Continues a text. Sampling is greedy unless a temperature is given."},
                       tables);
    if (at < 0) return -1 - at;
    if (at != argc || !prompt == !file)
        return cli_fail_with("run: give one prompt, with -p or -f"), 2;
    if (!saying_check(&run.said)) return 2;
    const int wrong = model_options_check(&m);
    if (wrong) return wrong;
    if (!schema_open(schema, &run.grammar)) return 1;
    size_t n;
    char *text = file ? cli_read_file(file, &n) : NULL;
    sp_request *r = NULL;
    advice ignored = advice_of(&m);
    sp_context *c = file && !text ? NULL : model_options_open(&m);
    int code = 1;
    if (c) {
        advice_print(&ignored);
        run.prompt = text ? text : prompt;
        sp_err err = generate(c, &run, &s, &r);
        code = err == SP_OK ? 0 : cli_fail(err);
    }
    if (code == 0) print_account(sp_request_result(r), &run, quiet);
    sp_request_destroy(r);
    saying_fini(&run.said);
    sp_context_close(c);
    sp_grammar_destroy(run.grammar);
    free(text);
    return code;
}
