/* config.c -- `spolia config`: the settings of commands, and where they are from. */
#include "cli/options/config.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/alloc.h"
#include "cli/json.h"
#include "cli/show.h"
#include "cmd/commands.h"

enum { MOST_COMMANDS = 64 };

typedef struct listing {
    const char *command; /* all of its options; NULL: what is set, of every command */
    bool found, failed;
    char names[MOST_COMMANDS][64]; /* of the commands that have options */
    size_t n_names;
    json_t *rows; /* array of {option, value, from, ...} */
} listing;

/* default_of -- what a help text has in its last parentheses, or NULL. */
static json_t *default_of(const char *help)
{
    const char *open = strrchr(help, '(');
    size_t n = open ? strlen(open) : 0;
    return n > 2 && open[n - 1] == ')' ? json_stringn(open + 1, n - 2) : json_null();
}

static json_t *value_of(const opt *o, const opt_origin *origin)
{
    if (origin->from == OPT_DEFAULT) return json_null();
    if (o->kind != OPT_LIST) return cli_json_string(origin->text);
    const opt_list *list = o->dest;
    json_t *all = json_array();
    for (int i = 0; i < list->n; i++) json_array_append_new(all, cli_json_string(list->v[i]));
    return all;
}

static json_t *row_of(const opt *o, const opt_origin *origin)
{
    static const char *const names[] = {"default", "file", "environment"};
    char variable[80];
    json_t *row = json_pack("{s:s, s:o, s:o, s:s}", "option", o->name, "value", value_of(o, origin),
                            "default", default_of(o->help), "from", names[origin->from]);
    if (origin->from == OPT_FILE) {
        json_object_set_new(row, "section", json_string(origin->section));
        json_object_set_new(row, "line", json_integer(origin->line));
    }
    if (origin->from == OPT_ENVIRONMENT) {
        opt_variable_of(o->name, variable, sizeof variable);
        json_object_set_new(row, "variable", json_string(variable));
    }
    return row;
}

/* has_row -- a setting that several commands read is listed once. */
static bool has_row(const json_t *rows, const json_t *row)
{
    size_t i;
    const json_t *other;
    json_array_foreach(rows, i, other)
    {
        const json_int_t line = json_integer_value(json_object_get(other, "line")); /* 0: not of the file */
        if (json_equal(json_object_get(other, "option"), json_object_get(row, "option")) &&
            json_equal(json_object_get(other, "from"), json_object_get(row, "from")) &&
            line == json_integer_value(json_object_get(row, "line")))
            return true;
    }
    return false;
}

static void list_options(const opt_usage *usage, const opt *const *tables, void *user)
{
    listing *l = user;
    const opt *all[OPT_MAX];
    opt_origin origins[OPT_MAX];
    char command[64];
    opt_command_of(usage, command, sizeof command);
    if (l->n_names < MOST_COMMANDS) snprintf(l->names[l->n_names++], sizeof l->names[0], "%s", command);
    if (l->failed || (l->command && strcmp(command, l->command) != 0)) return;
    int n = opt_flatten(tables, all);
    l->found = true;
    l->failed = !opt_resolve(usage, all, n, origins);
    for (int i = 0; i < n && !l->failed; i++) {
        json_t *row = row_of(all[i], &origins[i]);
        bool wanted = l->command || origins[i].from != OPT_DEFAULT;
        if (wanted && !has_row(l->rows, row)) json_array_append(l->rows, row);
        json_decref(row);
    }
}

/* -- printing ------------------------------------------------------------------------------------- */

/* add -- parts at the end of a text, which moves. */
static void add(char **text, const char *before, const char *part, const char *after)
{
    char *a = cli_join(*text, before), *b = cli_join(a, part);
    free(*text);
    *text = cli_join(b, after);
    free(a);
    free(b);
}

static void print_value(const json_t *row)
{
    const json_t *value = json_object_get(row, "value"),
                 *by_default = json_object_get(row, "default");
    char *text = cli_copy("");
    size_t i;
    const json_t *one;
    if (json_is_string(value)) add(&text, "", json_string_value(value), "");
    json_array_foreach(value, i, one) add(&text, i ? ", " : "", json_string_value(one), "");
    if (json_is_null(value) && json_is_string(by_default)) add(&text, "(", json_string_value(by_default), ")");
    show_line(stdout, *text ? text : "-", show_columns(text) < 36 ? 36 : 0);
    free(text);
}

static void print_row(const json_t *row)
{
    const char *from = json_string_value(json_object_get(row, "from"));
    const char *variable = json_string_value(json_object_get(row, "variable"));
    const char *section = json_string_value(json_object_get(row, "section"));
    printf("  %-18s ", json_string_value(json_object_get(row, "option")));
    print_value(row);
    if (section)
        printf(" [%s], line %d\n", section, (int)json_integer_value(json_object_get(row, "line")));
    else
        printf(" %s\n", variable ? variable : from);
}

static void print_text(const listing *l)
{
    size_t i;
    const json_t *row;
    const config_file *c = config_get();
    fputs("config file: ", stdout);
    show_line(stdout, c->path ? c->path : "none", 0);
    puts(c->is_there || !c->path ? "" : " (does not exist)");
    if (json_array_size(l->rows) == 0) puts("nothing is set");
    json_array_foreach(l->rows, i, row) print_row(row);
}

static void print_json(const listing *l)
{
    const config_file *c = config_get();
    json_t *o = json_pack("{s:s?, s:b, s:s?, s:O}", "file", c->path, "exists", (int)c->is_there,
                          "command", l->command, "settings", l->rows);
    cli_print_json(o, JSON_INDENT(1));
}

static void fail_unknown(const listing *l)
{
    const char *names[MOST_COMMANDS];
    for (size_t i = 0; i < l->n_names; i++) names[i] = l->names[i];
    const char *nearest = cli_nearest(l->command, names, l->n_names);
    if (nearest)
        cli_fail_with("config: \"%s\" is unknown; did you mean \"%s\"?", l->command, nearest);
    else
        cli_fail_with("config: \"%s\" is not a command with options; spolia --help lists them", l->command);
}

int cmd_config(int argc, char **argv)
{
    bool as_json = false;
    char command[64] = "";
    const opt table[] = {{OPT_FLAG, "json", 0, NULL, &as_json, "print JSON"}, {0}};
    const opt *const tables[] = {table, NULL};
    int at = opt_parse(
        argc, argv,
        &(opt_usage){
            "config [COMMAND] [--json]",
            "Shows what the config file and the environment set, or every option of a "
            "command with\nits value and where that is from. The file is --config FILE, "
            "else SPOLIA_CONFIG, else\n$XDG_CONFIG_HOME/spolia/config (~/.config). An option "
            "of the command line overrides the\nenvironment, which overrides the file:\n\n"
            "  [spolia]                       for every command that has the option\n"
            "  model = ~/models/qwen.gguf\n\n"
            "  [serve]                        for one command\n"
            "  port = 8081\n"},
        tables);
    if (at < 0) return -1 - at;
    for (size_t n = 0; at < argc && n < sizeof command; at++)
        n += (size_t)snprintf(command + n, sizeof command - n, "%s%s", n ? " " : "", argv[at]);
    listing l = {.command = *command ? command : NULL, .rows = json_array()};
    cli_visit(list_options, &l);
    if (!l.failed && !l.found) {
        fail_unknown(&l);
        l.failed = true;
    }
    if (!l.failed) (as_json ? print_json : print_text)(&l);
    json_decref(l.rows);
    return l.failed ? 2 : 0;
}
