/* run.c -- `spolia run`: generates text from a prompt. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/commands.h"
#include "cli/model_options.h"
#include "cli/account.h"
#include "cli/advice.h"
#include "cli/show.h"

/* print_text -- to a terminal only what it can show: a prompt may quote any document. */
static bool print_text(const char *text, size_t n, void *user)
{
    if (isatty(STDOUT_FILENO))
        show_text(stdout, text, n);
    else
        fwrite(text, 1, n, stdout);
    return fflush(stdout) == 0 && !ferror(stdout);
}

static sp_err generate(sp_context *c, const char *prompt, const char *separator,
                       const sampling_options *s, bool as_json, sp_request **out)
{
    sp_prompt *p;
    sp_err err = sp_prompt_create(c, &p);
    if (err != SP_OK) return err;
    err = sp_prompt_cut(p, prompt, separator, true);
    if (err == SP_OK)
        err = sp_generate(c, p,
                          &(sp_request_opts){.sampling = s->s,
                                             .max_tokens = s->max_tokens,
                                             .stop = s->stop.v,
                                             .n_stop = s->stop.n,
                                             .on_text = as_json ? NULL : print_text},
                          out);
    sp_prompt_destroy(p);
    return err;
}

int cmd_run(int argc, char **argv)
{
    model_options m;
    sampling_options s;
    const char *prompt = NULL, *file = NULL, *separator = NULL;
    bool as_json = false, quiet = false;
    model_options_init(&m);
    sampling_options_init(&s, 128);
    const opt own[] = {
        {OPT_STRING, "prompt", 'p', "TEXT", &prompt, "the prompt", .common = true},
        {OPT_STRING, "file", 'f', "FILE", &file,
         "read the prompt from a file, - for standard input", .common = true},
        {OPT_STRING, "separator", 0, "STR", &separator,
         "the text between two separators is a chunk, reused at any position"},
        {OPT_FLAG, "json", 0, NULL, &as_json, "print the result as JSON", .common = true},
        {OPT_FLAG, "quiet", 'q', NULL, &quiet, "print only the text"},
        {0},
    };
    const opt *const tables[] = {own, s.table, m.table, NULL};
    int at = opt_parse(argc, argv,
                       &(opt_usage){"run -m MODEL (-p TEXT | -f FILE) [options]",
                                    "Continues a text. Greedy unless a temperature is given."},
                       tables);
    if (at < 0) return -1 - at;
    if (as_json) cli_fail_as_json();
    if (at != argc || !prompt == !file)
        return cli_fail_with("run: give one prompt, with -p or -f"), 2;
    size_t n;
    char *text = file ? cli_read_file(file, &n) : NULL;
    if (file && !text) return 1;
    advice ignored = advice_of(&m);
    sp_context *c = model_options_open(&m);
    if (c) advice_print(&ignored);
    sp_request *r = NULL;
    sp_err err = c ? generate(c, text ? text : prompt, separator, &s, as_json, &r) : SP_E_ARG;
    free(text);
    if (!c) return 1;
    if (err == SP_OK) {
        if (as_json)
            account_json(sp_request_result(r), NULL);
        else if (!quiet)
            account_line(sp_request_result(r));
        else
            putchar('\n');
    }
    int code = err == SP_OK ? 0 : cli_fail(err);
    sp_request_destroy(r);
    sp_context_close(c);
    return code;
}
