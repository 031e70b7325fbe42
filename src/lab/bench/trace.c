/* trace.c -- `spolia bench trace`: runs a trace of prompts and prints the account of each.
 *
 * A line of standard input is a prompt in JSON:
 *
 *     {"system": "...", "chunks": [{"title": "...", "text": "..."}, ...], "question": "..."}
 *
 * system and title are optional. A line of standard output is its account (cli/account.h) with
 * "prompt", its number from 0. All prompts share one context, so the trace shows what a cache of this
 * size saves. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "lab/bench/bench.h"
#include "cli/cli.h"
#include "cli/model_options.h"
#include "cli/account.h"

/* text_of -- a text field, or `otherwise` when it is absent; NULL when it is no text. */
static const char *text_of(const json_t *object, const char *field, const char *otherwise)
{
    const json_t *v = json_object_get(object, field);
    return v ? json_string_value(v) : otherwise;
}

/* add_chunks -- *wrong names a malformed field. */
static sp_err add_chunks(sp_prompt *p, const json_t *line, const char **wrong)
{
    const json_t *chunks = json_object_get(line, "chunks");
    if (!json_is_array(chunks)) return *wrong = "chunks", SP_OK;
    for (size_t i = 0; i < json_array_size(chunks); i++) {
        const json_t *chunk = json_array_get(chunks, i);
        const char *title = text_of(chunk, "title", ""), *text = text_of(chunk, "text", NULL);
        if (!title || !text) return *wrong = title ? "text of a chunk" : "title of a chunk", SP_OK;
        sp_err err = sp_prompt_chunk(p, title, text);
        if (err != SP_OK) return err;
    }
    return SP_OK;
}

static sp_err make_prompt(sp_context *c, const json_t *line, const char **wrong, sp_prompt **out)
{
    const char *system = text_of(line, "system", CLI_SYSTEM_TEXT);
    const char *question = text_of(line, "question", NULL);
    if (!system || !question) return *wrong = system ? "question" : "system", SP_OK;
    sp_prompt *p;
    sp_err err = sp_prompt_create(c, &p);
    if (err != SP_OK) return err;
    err = sp_prompt_system(p, system);
    if (err == SP_OK) err = add_chunks(p, line, wrong);
    if (err == SP_OK && !*wrong) err = sp_prompt_question(p, question);
    if (err == SP_OK && !*wrong)
        *out = p;
    else
        sp_prompt_destroy(p);
    return err;
}

static bool answer(sp_context *c, const char *text, size_t n, int max_tokens, int number)
{
    json_error_t at;
    const char *wrong = NULL;
    sp_prompt *p = NULL;
    sp_request *r = NULL;
    json_t *line = json_loadb(text, n, 0, &at);
    if (!line)
        return cli_fail_with("line %d is not JSON: column %d: %s", number + 1, at.column, at.text),
               false;
    sp_err err = make_prompt(c, line, &wrong, &p);
    json_decref(line);
    if (wrong)
        return cli_fail_with("line %d: %s is missing or malformed", number + 1, wrong), false;
    if (err == SP_OK)
        err = sp_generate(
            c, p, &(sp_request_opts){.sampling = sp_sampling_default(), .max_tokens = max_tokens},
            &r);
    sp_prompt_destroy(p);
    if (err != SP_OK) return cli_fail(err), false;
    account_json(sp_request_result(r), json_pack("{s:i}", "prompt", number));
    sp_request_destroy(r);
    return fflush(stdout) == 0 || (cli_fail_with("standard output cannot be written"), false);
}

/* size_cache -- sets KV memory to n_tokens. Only an open context knows the bytes per token, so it
 * opens one for that. */
static bool size_cache(model_options *m, int n_tokens)
{
    sp_context *c = model_options_open(m);
    if (!c) return false;
    m->ctx.cache.kv_bytes = sp_context_describe(c).kv_block_bytes * ((size_t)n_tokens / 16 + 2);
    sp_context_close(c);
    return true;
}

int bench_trace(int argc, char **argv)
{
    model_options m;
    int max_tokens = 1, kv_tokens = 0;
    model_options_init(&m);
    const opt own[] = {
        {OPT_INT, "predict", 'n', "N", &max_tokens, "most tokens to generate (1)"},
        {OPT_INT, "kv-tokens", 0, "N", &kv_tokens, "KV memory in tokens, instead of --kv-memory"},
        {0},
    };
    const opt *const tables[] = {own, m.table, NULL};
    int at =
        opt_parse(argc, argv,
                  &(opt_usage){"bench trace -m MODEL [options] < PROMPTS.jsonl",
                               "Runs prompts {\"system\", \"chunks\": [{\"title\", \"text\"}], "
                               "\"question\"}, one a line,\nand prints the account of each."},
                  tables);
    if (at < 0) return -1 - at;
    if (at != argc || max_tokens < 0 || kv_tokens < 0)
        return cli_fail_with("bench trace: prompts are read from standard input; numbers must not "
                             "be negative"),
               2;
    m.ctx.guard.share = 0; /* it would compute between the prompts, and could reduce reuse */
    if (kv_tokens && !size_cache(&m, kv_tokens)) return 1;
    sp_context *c = model_options_open(&m);
    if (!c) return 1;
    char *line = NULL;
    size_t room = 0;
    bool good = true;
    ssize_t n;
    for (int number = 0; good && (n = getline(&line, &room, stdin)) > 0; number++)
        good = answer(c, line, (size_t)n, max_tokens, number);
    free(line);
    sp_context_close(c);
    return good ? 0 : 1;
}
