/* chat.c -- `spolia chat`: a conversation with a model, without documents. It is that of `spolia ask`
 * (ask/chat.c), with a prompt by the model's own chat template. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/options/advice.h"
#include "cli/json.h"
#include "cmd/ask/ask.h"
#include "cmd/commands.h"

/* -- the prompt ----------------------------------------------------------------------------- */

/* add -- false: the text is not UTF-8, or no memory. */
static bool add(json_t *messages, const char *role, const char *text)
{
    json_t *message = json_pack("{s:s, s:s}", "role", role, "content", text);
    return message && json_array_append_new(messages, message) == 0;
}

/* request_of -- what the template renders; *out NULL: some text is not UTF-8. Owns: free. */
static sp_err request_of(const asking *a, const ask_turn *t, char **out)
{
    const char *why;
    json_t *all = json_array();
    bool good = !*a->system || add(all, "system", a->system);
    for (int i = 0; i < a->n_turns && good; i++)
        good = add(all, "user", a->turns[i].question) && add(all, "assistant", a->turns[i].answer);
    good = good && add(all, "user", t->question);
    json_t *request = json_pack("{s:o}", "messages", all);
    *out = cli_json_text(good ? request : NULL, JSON_COMPACT, &why);
    json_decref(request);
    return *out || strcmp(why, CLI_NO_MEMORY) != 0 ? SP_OK : SP_E_NOMEM;
}

/* by_turns -- for a model without a template, and for a text that JSON cannot hold. */
static sp_err by_turns(const asking *a, const ask_turn *t, sp_prompt *p)
{
    sp_err err = *a->system ? sp_prompt_message(p, SP_ROLE_SYSTEM, a->system) : SP_OK;
    for (int i = 0; i < a->n_turns && err == SP_OK; i++) {
        err = sp_prompt_message(p, SP_ROLE_USER, a->turns[i].question);
        if (err == SP_OK) err = sp_prompt_message(p, SP_ROLE_ASSISTANT, a->turns[i].answer);
    }
    if (err == SP_OK) err = sp_prompt_message(p, SP_ROLE_USER, t->question);
    return err == SP_OK ? sp_prompt_answer(p) : err;
}

sp_err ask_chat_prompt(const asking *a, const ask_turn *t, sp_prompt *p)
{
    bool has_template = sp_vocab_template(sp_context_vocab(a->ctx)) != NULL;
    char *request = NULL;
    sp_err err = has_template ? request_of(a, t, &request) : SP_OK;
    if (err != SP_OK) return err;
    if (!request) return by_turns(a, t, p);
    err = sp_prompt_chat(p, &(sp_chat_opts){.request = request, .now = time(NULL)});
    free(request);
    return err;
}

/* -- the command ------------------------------------------------------------------------------- */

static int talk(asking *a, const char *message)
{
    if (message) return ask_question(a, message, false);
    return isatty(STDIN_FILENO) && !a->as_json ? ask_chat(a) : ask_batch(a);
}

static const opt_usage usage = {
    "chat -m MODEL [\"message\"] [options]",
    "Talks with a model. At a terminal it holds a conversation; from a pipe each line is a message "
    "of one\n"
    "conversation. Earlier messages are reused."};

int cmd_chat(int argc, char **argv)
{
    model_options m;
    sampling_options s;
    asking a = {.sampling = &s, .system = "", .allow_empty = true};
    model_options_init(&m);
    sampling_options_init(&s, 512);
    const opt own[] = {
        {OPT_STRING, "system", 0, "TEXT", &a.system, "system text of the conversation (none)",
         .common = true},
        SAYING_OPTION(a.said),
        {OPT_FLAG, "json", 0, NULL, &a.as_json, "print one JSON object per message",
         .common = true},
        {0},
    };
    const opt *const tables[] = {own, s.table, m.table, NULL};
    int at = opt_parse(argc, argv, &usage, tables);
    if (at < 0) return -1 - at;
    if (argc - at > 1) return cli_fail_with("chat: give one message, in quotes"), 2;
    if (!saying_check(&a.said)) return 2;
    const int wrong = model_options_check(&m);
    if (wrong) return wrong;
    a.verbose = m.verbose;
    a.model = m.ctx.model;
    advice ignored = advice_of(&m);
    a.ctx = model_options_open(&m);
    if (!a.ctx) return 1;
    advice_print(&ignored);
    int code = talk(&a, at < argc ? argv[at] : NULL);
    sp_context_close(a.ctx);
    saying_fini(&a.said);
    return code;
}
