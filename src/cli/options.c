#include "cli/options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/cli.h"
#include "cli/options_int.h"

#define FIRST_LONG 256 /* getopt's code of long option i is FIRST_LONG + i */
#define PREFIX     "SPOLIA_ARG_"

extern char **environ;

static opt_visitor *visitor;
static void *visitor_user;

void opt_visit(opt_visitor *v, void *user)
{
    visitor = v;
    visitor_user = user;
}

bool opt_is_short(const opt *o)
{
    return strcmp(o->name, "ctk") == 0 || strcmp(o->name, "ctv") == 0;
}

/* -- values --------------------------------------------------------------------------------- */

static bool set_number(const opt *o, const char *text)
{
    char *end;
    errno = 0;
    switch (o->kind) {
    case OPT_INT: {
        long v = strtol(text, &end, 10);
        if (errno || *end || end == text || v < INT32_MIN || v > INT32_MAX) return false;
        *(int *)o->dest = (int)v;
        return true;
    }
    case OPT_U64: {
        uint64_t v = strtoull(text, &end, 10);
        if (errno || *end || end == text || *text == '-') return false;
        *(uint64_t *)o->dest = v;
        return true;
    }
    case OPT_MIB: {
        uint64_t v = strtoull(text, &end, 10);
        if (errno || *end || end == text || *text == '-' || v > SIZE_MAX >> 20) return false;
        *(size_t *)o->dest = (size_t)v << 20;
        return true;
    }
    default: {
        float v = strtof(text, &end);
        if (errno || *end || end == text || !isfinite(v)) return false;
        *(float *)o->dest = v;
        return true;
    }
    }
}

/* set_flag -- text NULL: given on the command line, without a value. */
static bool set_flag(const opt *o, const char *text, const char *spelled)
{
    static const char *const words[][2] = {
        {"0", "1"}, {"false", "true"}, {"no", "yes"}, {"off", "on"}};
    bool *dest = o->dest;
    if (!text) return *dest = true;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (int value = 0; value < 2; value++)
            if (strcasecmp(text, words[i][value]) == 0) {
                *dest = value;
                return true;
            }
    cli_fail_with("%s: \"%s\" is not 0, 1, true, false, yes, no, on or off", spelled, text);
    return false;
}

static bool set_value(const opt *o, const char *text, const char *spelled)
{
    opt_list *list = o->dest;
    switch (o->kind) {
    case OPT_FLAG:
        return set_flag(o, text, spelled);
    case OPT_STRING:
        *(const char **)o->dest = text;
        return true;
    case OPT_LIST:
        if (list->n == (int)(sizeof list->v / sizeof *list->v)) {
            cli_fail_with("%s is given more than %d times", spelled, list->n);
            return false;
        }
        list->v[list->n++] = text;
        return true;
    default:
        if (set_number(o, text)) return true;
        cli_fail_with("%s: \"%s\" is not a valid %s", spelled, text, o->arg);
        return false;
    }
}

/* -- the environment ------------------------------------------------------------------------ */

static void variable_of(const char *option, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "%s", PREFIX);
    for (const char *c = option; *c && n < size - 1; c++)
        out[n++] = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
    out[n] = '\0';
}

/* option_of -- the option that the rest of a variable's name would be. */
static void option_of(const char *rest, size_t n, char *out, size_t size)
{
    size_t i = 0;
    for (; i < n && i < size - 1; i++)
        out[i] = rest[i] == '_' ? '-' : (char)tolower((unsigned char)rest[i]);
    out[i] = '\0';
}

/* is_misspelt -- explains a variable that no option has. */
static bool is_misspelt(const char *variable, const opt_names *known)
{
    const char *rest = variable + strlen(PREFIX), *equals = strchr(rest, '=');
    char option[64], spelled[80];
    if (!equals) return false;
    option_of(rest, (size_t)(equals - rest), option, sizeof option);
    for (size_t i = 0; i < known->n; i++) {
        variable_of(known->v[i], spelled, sizeof spelled);
        size_t n = strlen(spelled);
        if (strncmp(variable, spelled, n) == 0 && variable[n] == '=') return false;
    }
    const char *nearest = cli_nearest(option, known->v, known->n);
    if (nearest) variable_of(nearest, spelled, sizeof spelled);
    cli_fail_with("%.*s in the environment is no option of any command%s%s%s",
                  (int)(equals - variable), variable, nearest ? "; did you mean " : "",
                  nearest ? spelled : "", nearest ? "?" : "");
    return true;
}

bool opt_check_environment(const opt_names *known)
{
    for (char **v = environ; *v; v++)
        if (strncmp(*v, PREFIX, strlen(PREFIX)) == 0 && is_misspelt(*v, known)) return false;
    return true;
}

/* -- parsing -------------------------------------------------------------------------------- */

typedef struct parser {
    const char *command;
    const opt *all[OPT_MAX];
    struct option longs[OPT_MAX + 3];
    char shorts[2 * OPT_MAX + 3];
    int n;
} parser;

enum { HELP = 'h', HELP_ALL = FIRST_LONG - 1 };

static void collect(parser *p, const opt *const *tables)
{
    char *s = p->shorts;
    *s++ = ':'; /* getopt returns ':' for a missing argument, '?' for an unknown option */
    *s++ = 'h';
    for (; *tables; tables++)
        for (const opt *o = *tables; o->kind != OPT_END && p->n < OPT_MAX; o++) {
            if (o->kind == OPT_GROUP) continue;
            int has_arg = o->kind == OPT_FLAG ? no_argument : required_argument;
            p->longs[p->n] = (struct option){o->name, has_arg, NULL, FIRST_LONG + p->n};
            p->all[p->n++] = o;
            if (!o->letter) continue;
            *s++ = o->letter;
            if (has_arg) *s++ = ':';
        }
    p->longs[p->n] = (struct option){"help", no_argument, NULL, HELP};
    p->longs[p->n + 1] = (struct option){"help-all", no_argument, NULL, HELP_ALL};
    *s = '\0';
}

static bool from_environment(const parser *p)
{
    for (int i = 0; i < p->n; i++) {
        char name[80];
        variable_of(p->all[i]->name, name, sizeof name);
        const char *value = getenv(name);
        if (value && !set_value(p->all[i], value, name)) return false;
    }
    return true;
}

static const opt *find(const parser *p, int code)
{
    if (code >= FIRST_LONG) return code - FIRST_LONG < p->n ? p->all[code - FIRST_LONG] : NULL;
    for (int i = 0; i < p->n; i++)
        if (p->all[i]->letter == code) return p->all[i];
    return NULL;
}

/* missing -- a required option that was not given, or NULL. */
static const opt *missing(const parser *p)
{
    for (int i = 0; i < p->n; i++)
        if (p->all[i]->required && !*(const char **)p->all[i]->dest) return p->all[i];
    return NULL;
}

/* n_beginning -- how many long names begin with this word. */
static int n_beginning(const parser *p, const char *word)
{
    int n = 0;
    for (const struct option *o = p->longs; o->name; o++)
        n += strncmp(o->name, word, strlen(word)) == 0;
    return n;
}

static int explain_unknown(const parser *p, const char *given)
{
    const char *names[OPT_MAX + 2];
    char word[64];
    size_t n = 0;
    snprintf(word, sizeof word, "%s", given + strspn(given, "-"));
    word[strcspn(word, "=")] = '\0';
    for (const struct option *o = p->longs; o->name; o++) names[n++] = o->name;
    bool is_long = strlen(word) > 1;
    const char *nearest = is_long ? cli_nearest(word, names, n) : NULL;
    if (is_long && n_beginning(p, word) > 1)
        cli_fail_with("%s: %s is the beginning of several options; spolia %s --help-all lists them",
                      p->command, given, p->command);
    else if (nearest)
        cli_fail_with("%s: %s is unknown; did you mean --%s?", p->command, given, nearest);
    else
        cli_fail_with("%s: %s is unknown; spolia %s --help-all lists all options", p->command,
                      given, p->command);
    return -3;
}

/* explain -- what is wrong with the option that getopt stopped at; given: as it was typed. */
static int explain(const parser *p, int code, const char *given)
{
    const opt *o = optopt ? find(p, optopt) : NULL;
    if (!o) return explain_unknown(p, given);
    if (code == ':')
        cli_fail_with("%s: --%s lacks its argument, %s", p->command, o->name, o->arg);
    else
        cli_fail_with("%s: --%s takes no argument", p->command, o->name);
    return -3;
}

int opt_parse(int argc, char **argv, const opt_usage *usage, const opt *const *tables)
{
    if (visitor) {
        visitor(usage, tables, visitor_user);
        return -1;
    }
    char command[64];
    parser p = {.command = command};
    opt_command_of(usage, command, sizeof command);
    collect(&p, tables);
    if (!from_environment(&p)) return -3;
    optind = 0; /* starts anew, also in the middle of a word of an earlier call */
    opterr = 0;
    for (;;) {
        int code = getopt_long_only(argc, argv, p.shorts, p.longs, NULL);
        if (code == -1) break;
        if (code == HELP || code == HELP_ALL) {
            opt_print_help(p.command, usage, tables, code == HELP_ALL);
            return -1;
        }
        const opt *o = code == '?' || code == ':' ? NULL : find(&p, code);
        if (!o) return explain(&p, code, argv[optind - 1]);
        char spelled[64];
        snprintf(spelled, sizeof spelled, "--%s", o->name);
        if (!set_value(o, optarg, spelled)) return -3;
    }
    const opt *o = missing(&p);
    if (!o) return optind;
    cli_fail_with("%s: --%s %s is missing; usage: spolia %s", p.command, o->name, o->arg,
                  usage->synopsis);
    return -3;
}
