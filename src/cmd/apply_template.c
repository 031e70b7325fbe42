/* apply_template.c -- `spolia apply-template`: a chat as the text that the model reads. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cli/json.h"
#include "cmd/commands.h"

/* print_text -- the member "text" of the library's result. */
static int print_text(const char *json)
{
    json_t *j = cli_read_json("apply-template", json, 0), *text = json_object_get(j, "text");
    if (text) fwrite(json_string_value(text), 1, json_string_length(text), stdout);
    json_decref(j);
    return text ? 0 : 1;
}

static int apply(const char *model, const char *jinja, const char *request, bool as_json)
{
    sp_vocab *v = NULL;
    char *json = NULL;
    sp_err err = model ? sp_vocab_open(model, &v) : SP_OK;
    if (err == SP_OK) err = sp_template_apply(v, jinja, request, (int64_t)time(NULL), &json);
    int code = err == SP_OK ? 0 : cli_fail(err);
    if (err == SP_OK && as_json) puts(json);
    if (err == SP_OK && !as_json) code = print_text(json);
    sp_buffer_free(json);
    sp_vocab_close(v);
    return code;
}

int cmd_apply_template(int argc, char **argv)
{
    const char *model = NULL, *file = NULL;
    bool as_json = false;
    const opt table[] = {
        {OPT_STRING, "model", 'm', "PATH", &model,
         "GGUF file (a vocabulary is enough), Hugging Face folder, or hf:ORG/REPO",
         .is_model = true},
        {OPT_STRING, "template", 0, "FILE", &file, "a Jinja template instead of the model's"},
        {OPT_FLAG, "json", 0, NULL, &as_json,
         "print {\"text\", \"spans\"}: what comes from the input"},
        {0},
    };
    const opt *const tables[] = {table, NULL};
    int at = opt_parse(
        argc, argv,
        &(opt_usage){
            "apply-template (-m MODEL | --template FILE) REQUEST [--json]",
            "Prints a chat as the model's chat template writes it. REQUEST is a JSON file, - for\n"
            "standard input: {\"messages\": [{\"role\", \"content\"}]}, and if wanted \"tools\",\n"
            "\"documents\", \"add_generation_prompt\", \"continue_final_message\" and\n"
            "\"chat_template_kwargs\"."},
        tables);
    if (at < 0) return -1 - at;
    if (at != argc - 1 || (!model && !file))
        return cli_fail_with(
                   "apply-template: give a model with -m, or --template, and one request"),
               2;
    size_t n;
    char *jinja = file ? cli_read_file(file, &n) : NULL;
    char *request = file && !jinja ? NULL : cli_read_file(argv[at], &n);
    int code = request ? apply(model, jinja, request, as_json) : 1;
    free(jinja);
    free(request);
    return code;
}
