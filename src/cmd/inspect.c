/* inspect.c -- `spolia inspect`: a model's metadata and tensors, as text or JSON. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/hub/hub.h"
#include "cli/json.h"
#include "cmd/commands.h"

static void print_shape(const json_t *shape)
{
    char text[64];
    size_t n = 0, i;
    json_t *dim;
    text[0] = '\0';
    json_array_foreach(shape, i, dim) if (n < sizeof text - 24) n +=
        (size_t)snprintf(text + n, sizeof text - n, "%s%" JSON_INTEGER_FORMAT, i ? " x " : "",
                         json_integer_value(dim));
    printf("%-22s", text);
}

/* text_of -- the value of a key; NULL after an error message. */
static char *text_of(const char *key, const json_t *value, size_t flags)
{
    const char *why;
    char *text = cli_json_text(value, JSON_ENCODE_ANY | flags, &why);
    if (!text) cli_lose_output(key, why);
    return text;
}

static void print_metadata(json_t *all)
{
    const char *key;
    json_t *value;
    json_object_foreach(all, key, value)
    {
        char *text = text_of(key, value, JSON_COMPACT);
        if (text) printf("  %-44s %.120s%s\n", key, text, strlen(text) > 120 ? " ..." : "");
        free(text);
    }
}

static void print_tensors(const json_t *all)
{
    size_t i;
    json_t *t;
    json_array_foreach(all, i, t)
    {
        printf("  %-44s %-6s ", json_string_value(json_object_get(t, "name")),
               json_string_value(json_object_get(t, "type")));
        print_shape(json_object_get(t, "shape"));
        printf(" %12" JSON_INTEGER_FORMAT " bytes\n",
               json_integer_value(json_object_get(t, "bytes")));
    }
}

static void print_scalars(json_t *root)
{
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value)
    {
        if (json_is_object(value) || json_is_array(value)) continue;
        char *text = text_of(key, value, 0);
        if (text) printf("%-16s %s\n", key, text);
        free(text);
    }
}

int cmd_inspect(int argc, char **argv)
{
    bool as_json = false;
    const opt table[] = {{OPT_FLAG, "json", 0, NULL, &as_json, "print JSON"}, {0}};
    const opt *const tables[] = {table, NULL};
    int at =
        opt_parse(argc, argv,
                  &(opt_usage){"inspect PATH [--json]",
                               "Prints what a GGUF file or a Hugging Face folder contains: sizes, "
                               "metadata, tensors; whether it can run, and which parts of a prompt can be reused."},
                  tables);
    if (at < 0) return -1 - at;
    if (at + 1 != argc) return cli_fail_with("inspect: give one file or folder"), 2;
    char *text;
    const char *path = argv[at];
    if (!hub_find_model(&path)) return 1;
    sp_err err = sp_model_describe(path, &text);
    if (err != SP_OK) return cli_fail(err);
    json_t *root = as_json ? NULL : cli_read_json(path, text, 0);
    if (root) {
        print_scalars(root);
        puts("metadata:");
        print_metadata(json_object_get(root, "metadata"));
        puts("tensors:");
        print_tensors(json_object_get(root, "tensors"));
    } else if (as_json) {
        puts(text);
    }
    const bool good = as_json || root;
    json_decref(root);
    sp_buffer_free(text);
    return good ? 0 : 1;
}
