/* pull.c -- `spolia pull`: downloads a model into the user's cache. */
#include <jansson.h>
#include <stdio.h>

#include "cli/hub/hub.h"
#include "cli/json.h"
#include "cmd/commands.h"

static void print_path(const hub_pull *p, const char *path, bool as_json)
{
    if (!as_json) {
        puts(path);
        return;
    }
    json_t *o =
        json_pack("{s:s, s:s, s:s}", "model", p->name.repo, "type", p->name.quant, "path", path);
    cli_print_json(o, JSON_COMPACT);
}

int cmd_pull(int argc, char **argv)
{
    hub_pull p = {.revision = "main"};
    bool as_json = false;
    char path[4400];
    const opt table[] = {
        {OPT_STRING, "revision", 0, "REV", &p.revision, "branch, tag or commit (main)"},
        {OPT_FLAG, "quiet", 'q', NULL, &p.quiet, "print the path and errors only"},
        {OPT_FLAG, "json", 0, NULL, &as_json, "print the result as JSON"},
        {0},
    };
    const opt *const tables[] = {table, NULL};
    int at = opt_parse(
        argc, argv,
        &(opt_usage){"pull ORG/REPO[:QUANT] [options]",
                     "Downloads a model from a Hugging Face hub: the GGUF file of this weight type "
                     "(by default\n"
                     "Q4_K_M or the next best), or the safetensors folder if there is no GGUF file. "
                     "It is stored in\n"
                     "~/.cache/spolia/models, its SHA-256 is checked, and its path is printed. An interrupted "
                     "download\n"
                     "continues. All commands do the same for -m hf:ORG/REPO[:QUANT] if the model is not "
                     "there yet.\n"
                     "HF_ENDPOINT names a hub other than https://huggingface.co, HF_TOKEN gives access to private\n"
                     "and gated models."},
        tables);
    if (at < 0) return -1 - at;
    if (at + 1 != argc || !hub_name_of(argv[at], &p.name))
        return cli_fail_with("pull: give one model, as ORG/REPO or ORG/REPO:QUANT"), 2;
    if (!hub_pull_model(&p, path, sizeof path)) return 1;
    print_path(&p, path, as_json);
    return 0;
}
