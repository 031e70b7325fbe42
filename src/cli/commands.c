/* commands.c -- finds the command and runs it; help for all commands; what scripts read of both. */
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/options/config.h"
#include "cli/json.h"

#define MAX_COMMANDS 32

static const cli_command *find(const cli_command *table, const char *name)
{
    for (; table->name; table++)
        if (strcmp(table->name, name) == 0) return table;
    return NULL;
}

/* -- help ----------------------------------------------------------------------------------- */

static void print_commands(FILE *to, const cli_command *table)
{
    const char *group = NULL;
    for (; table->name; table++) {
        bool begins = table->group && (!group || strcmp(table->group, group) != 0);
        if (begins) fprintf(to, "%s%s:\n", group ? "\n" : "", table->group);
        if (begins) group = table->group;
        fprintf(to, "  %-14s %s\n", table->name, table->summary);
    }
}

static void print_program_help(FILE *to, const cli_command *table)
{
    fputs(
        "usage: spolia COMMAND [options]\n\n"
        "An LLM inference engine for answers from documents. It keeps what the model computed for\n"
        "a document and uses it again in every prompt that contains the document.\n\n",
        to);
    print_commands(to, table);
    fputs("\nspolia help COMMAND explains a command; spolia --version prints the version.\n"
          "spolia config shows what the config file and the environment set.\n",
          to);
}

static void print_subcommands(FILE *to, const cli_command *command)
{
    fprintf(to, "usage: spolia %s NAME [options]\n\n%c%s.\n\n", command->name,
            command->summary[0] - 'a' + 'A', command->summary + 1);
    print_commands(to, command->subcommands);
    fprintf(to, "\nspolia %s NAME --help explains one of them.\n", command->name);
}

/* -- what scripts read: man pages and completions -------------------------------------------- */

typedef struct walk {
    json_t *command; /* that is being described */
} walk;

static json_t *choices_json(const opt_choice *c)
{
    json_t *all = json_array();
    for (; c->name; c++)
        json_array_append_new(all, json_pack("{s:s, s:s}", "name", c->name, "help", c->help));
    return all;
}

static json_t *option_json(const opt *o, const char *group)
{
    json_t *json =
        json_pack("{s:s, s:s, s:s, s:b, s:b}", "name", o->name, "group", group, "help", o->help,
                  "common", (int)(o->common || o->required), "required", (int)o->required);
    json_object_set_new(json, "dashes", json_string(opt_is_short(o) ? "-" : "--"));
    if (o->letter) json_object_set_new(json, "letter", json_stringn(&o->letter, 1));
    if (o->arg) json_object_set_new(json, "argument", json_string(o->arg));
    if (o->choices) json_object_set_new(json, "choices", choices_json(o->choices));
    return json;
}

static void describe(const opt_usage *usage, const opt *const *tables, void *user)
{
    walk *w = user;
    json_t *options = json_array();
    for (; *tables; tables++) {
        const char *group = "Options";
        for (const opt *o = *tables; o->kind != OPT_END; o++) {
            if (o->kind == OPT_GROUP)
                group = o->name;
            else
                json_array_append_new(options, option_json(o, group));
        }
    }
    json_object_set_new(w->command, "synopsis", json_string(usage->synopsis));
    json_object_set_new(w->command, "about", json_string(usage->about));
    json_object_set_new(w->command, "options", options);
}

/* describe_all -- every command of a table as JSON. */
static json_t *describe_all(const cli_command *table, walk *w)
{
    json_t *all = json_array();
    for (; table->name; table++) {
        char name[32], *argv[] = {name, NULL};
        snprintf(name, sizeof name, "%s", table->name);
        w->command = json_pack("{s:s, s:s}", "name", table->name, "summary", table->summary);
        json_array_append_new(all, w->command);
        if (table->group) json_object_set_new(w->command, "group", json_string(table->group));
        opt_visit(describe, w);
        if (table->subcommands) {
            json_t *command = w->command;
            json_object_set_new(command, "subcommands", describe_all(table->subcommands, w));
        } else {
            table->run(1, argv);
        }
    }
    opt_visit(NULL, NULL);
    return all;
}

static int dump(const cli_command *table)
{
    walk w = {0};
    json_t *program =
        json_pack("{s:s, s:o}", "version", SPOLIA_VERSION, "commands", describe_all(table, &w));
    cli_print_json(program, JSON_INDENT(1));
    return 0;
}

/* -- where options are set --------------------------------------------------------------------- */

static const cli_command *all_commands; /* of cli_main */

static void visit(const cli_command *table, opt_visitor *visitor, void *user)
{
    for (; table->name; table++) {
        char name[32], *argv[] = {name, NULL};
        snprintf(name, sizeof name, "%s", table->name);
        opt_visit(visitor, user);
        if (table->subcommands)
            visit(table->subcommands, visitor, user);
        else
            table->run(1, argv);
    }
    opt_visit(NULL, NULL);
}

void cli_visit(opt_visitor *visitor, void *user)
{
    visit(all_commands, visitor, user);
}

static void name_options(const opt_usage *usage, const opt *const *tables, void *user)
{
    opt_names_add(user, usage, tables);
}

/* config_given -- the argument of --config, or NULL; of several the last. */
static const char *config_given(int argc, char **argv)
{
    const char *given = NULL;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--config") == 0 && i + 1 < argc)
            given = argv[++i];
        else if (strncmp(argv[i], "--config=", 9) == 0)
            given = argv[i] + 9;
    return given;
}

/* check_settings -- reads the config file; false after an error message about it or the environment. */
static bool check_settings(int argc, char **argv)
{
    opt_names names = {.n = 0};
    cli_visit(name_options, &names);
    return opt_check_environment(&names) && config_open(config_given(argc, argv)) &&
           opt_check_config(&names);
}

/* -- running -------------------------------------------------------------------------------- */

/* explain_unknown -- of: the command whose subcommand it should be, "" for none. */
static int explain_unknown(const cli_command *table, const char *of, const char *name)
{
    const char *colon = *of ? ": " : "", *blank = *of ? " " : "";
    const char *names[MAX_COMMANDS];
    size_t n = 0;
    for (; table->name && n < MAX_COMMANDS; table++) names[n++] = table->name;
    const char *nearest = cli_nearest(name, names, n);
    if (nearest)
        cli_fail_with("%s%s\"%s\" is unknown; did you mean \"%s\"?", of, colon, name, nearest);
    else
        cli_fail_with("%s%s\"%s\" is unknown; spolia %s%s--help lists the commands", of, colon, name, of, blank);
    return 2;
}

static bool asks_for_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0 ||
           strcmp(word, "--help-all") == 0;
}

static int run_subcommand(const cli_command *command, int argc, char **argv)
{
    if (argc < 2 || asks_for_help(argv[1])) {
        print_subcommands(argc < 2 ? stderr : stdout, command);
        return argc < 2 ? 2 : 0;
    }
    const cli_command *sub = find(command->subcommands, argv[1]);
    return sub ? sub->run(argc - 1, argv + 1) : explain_unknown(command->subcommands, command->name, argv[1]);
}

static int run(const cli_command *table, int argc, char **argv)
{
    const cli_command *command = find(table, argv[0]);
    if (!command) return explain_unknown(table, "", argv[0]);
    if (command->subcommands) return run_subcommand(command, argc, argv);
    return command->run(argc, argv);
}

/* help -- `spolia help COMMAND [SUBCOMMAND]` is `spolia COMMAND [SUBCOMMAND] --help`. */
static int help(const cli_command *table, int argc, char **argv)
{
    static char option[] = "--help";
    char *words[4] = {NULL};
    int n = 0;
    for (; n < argc && n < 2; n++) words[n] = argv[n];
    words[n++] = option;
    return run(table, n, words);
}

static int dispatch(const cli_command *table, int argc, char **argv)
{
    if (argc < 2) {
        print_program_help(stderr, table);
        return 2;
    }
    const char *first = argv[1];
    if (asks_for_help(first)) {
        if (argc > 2 && *first != '-')
            return check_settings(argc, argv) ? help(table, argc - 2, argv + 2) : 2;
        print_program_help(stdout, table);
        return 0;
    }
    if (strcmp(first, "--version") == 0 || strcmp(first, "-V") == 0 ||
        strcmp(first, "version") == 0) {
        puts("spolia " SPOLIA_VERSION);
        return 0;
    }
    if (strcmp(first, "--dump-help") == 0) return dump(table);
    if (!check_settings(argc, argv)) return 2;
    return run(table, argc - 1, argv + 1);
}

/* take_standard -- a standard stream that is closed stays useless, but its number is taken: otherwise a file of the
 * store would get it, and what is printed. */
static void take_standard(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0) open("/dev/null", fd ? O_RDONLY : O_WRONLY);
}

int cli_main(const cli_command *commands, int argc, char **argv)
{
    take_standard();
    signal(SIGPIPE, SIG_DFL); /* `spolia ask | head` ends when head does */
    signal(SIGXFSZ, SIG_IGN); /* a file over the limit is a failed write, not a death */
    all_commands = commands;
    cli_watch_json(); /* the server does so in its own way later */
    int code = cli_check_output(dispatch(commands, argc, argv));
    config_close();
    return code;
}
