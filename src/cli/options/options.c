#include "cli/options/options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/fail.h"
#include "cli/options/config.h"
#include "cli/hub/hub.h"
#include "cli/options/options_int.h"

#define FIRST_LONG 256 /* getopt's code of long option i is FIRST_LONG + i */

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

/* parse_size -- "500M", "1.5GiB", "64" (MiB). */
static bool parse_size(const char *text, int64_t *out)
{
    static const char units[] = "KMGT";
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    if (errno || end == text || !isfinite(v)) return false;
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : &units[1];
    if (!unit) return false;
    end += *end != '\0';
    if (strcasecmp(end, "") != 0 && strcasecmp(end, "b") != 0 && strcasecmp(end, "ib") != 0)
        return false;
    v *= (double)((int64_t)1 << (10 * (unit - units + 1)));
    if (v < 1 || v > 0x1p60) return false;
    *out = (int64_t)v;
    return true;
}

static bool is_within(const opt *o, double x)
{
    const opt_limits *l = &o->limits;
    return l->most == 0 || (x >= l->least && x <= l->most && !(l->above && x == l->least));
}

/* set_number -- false: the text is no such number, or one that the option cannot have. */
static bool set_number(const opt *o, const char *text)
{
    char *end;
    errno = 0;
    switch (o->kind) {
    case OPT_INT: {
        long v = strtol(text, &end, 10);
        if (errno || *end || end == text || v < INT32_MIN || v > INT32_MAX || !is_within(o, (double)v)) return false;
        *(int *)o->dest = (int)v;
        return true;
    }
    case OPT_U64: {
        uint64_t v = strtoull(text, &end, 10);
        if (errno || *end || end == text || *text == '-') return false;
        *(uint64_t *)o->dest = v;
        return true;
    }
    case OPT_SIZE:
        return parse_size(text, o->dest);
    case OPT_MIB: {
        uint64_t v = strtoull(text, &end, 10);
        if (errno || *end || end == text || *text == '-' || v > SIZE_MAX >> 20) return false;
        if (!is_within(o, (double)v)) return false;
        *(size_t *)o->dest = (size_t)v << 20;
        return true;
    }
    default: {
        float v = strtof(text, &end);
        if (errno || *end || end == text || !isfinite(v) || !is_within(o, (double)v)) return false;
        *(float *)o->dest = v;
        return true;
    }
    }
}

static void explain_number(const opt *o, const char *text, const char *spelled)
{
    const opt_limits *l = &o->limits;
    const char *what = o->kind == OPT_SIZE    ? "a size of at least 1 byte, such as 500M or 20G"
                       : o->kind == OPT_MIB   ? "a whole number of MiB"
                       : o->kind == OPT_FLOAT ? "a number"
                                              : "a whole number";
    if (l->most == 0)
        cli_fail_with("%s: \"%s\" is not %s%s", spelled, text, what,
                      o->kind == OPT_MIB || o->kind == OPT_U64 ? ", 0 or more" : "");
    else
        cli_fail_with("%s: \"%s\" is not %s %s %.10g %s %.10g", spelled, text, what, l->above ? "above" : "from",
                      l->least, l->above ? "and up to" : "to", l->most);
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

bool opt_set(const opt *o, const char *text, const char *spelled)
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
        explain_number(o, text, spelled);
        return false;
    }
}

/* -- parsing -------------------------------------------------------------------------------- */

typedef struct parser {
    const char *command;
    const opt *all[OPT_MAX];
    opt_origin origins[OPT_MAX];
    struct option longs[OPT_MAX + 4];
    char shorts[2 * OPT_MAX + 3];
    int n;
} parser;

enum { HELP = 'h', HELP_ALL = FIRST_LONG - 1, CONFIG = FIRST_LONG - 2 };

static void collect(parser *p, const opt *const *tables)
{
    char *s = p->shorts;
    *s++ = ':'; /* getopt returns ':' for a missing argument, '?' for an unknown option */
    *s++ = 'h';
    p->n = opt_flatten(tables, p->all);
    for (int i = 0; i < p->n; i++) {
        const opt *o = p->all[i];
        int has_arg = o->kind == OPT_FLAG ? no_argument : required_argument;
        p->longs[i] = (struct option){o->name, has_arg, NULL, FIRST_LONG + i};
        if (!o->letter) continue;
        *s++ = o->letter;
        if (has_arg) *s++ = ':';
    }
    p->longs[p->n] = (struct option){"help", no_argument, NULL, HELP};
    p->longs[p->n + 1] = (struct option){"help-all", no_argument, NULL, HELP_ALL};
    p->longs[p->n + 2] = (struct option){"config", required_argument, NULL, CONFIG};
    *s = '\0';
}

/* find -- the number of an option by getopt's code, or -1. */
static int find(const parser *p, int code)
{
    if (code >= FIRST_LONG) return code - FIRST_LONG < p->n ? code - FIRST_LONG : -1;
    for (int i = 0; i < p->n; i++)
        if (p->all[i]->letter == code) return i;
    return -1;
}

/* missing -- a required option that was not given, or NULL. */
static const opt *missing(const parser *p)
{
    for (int i = 0; i < p->n; i++) {
        const char *value = p->all[i]->required ? *(const char **)p->all[i]->dest : "given";
        if (!value || !*value) return p->all[i]; /* "$MODEL" of a variable that is not set */
    }
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
    const char *names[OPT_MAX + 3];
    char word[64];
    size_t n = 0;
    snprintf(word, sizeof word, "%s", given + strspn(given, "-"));
    word[strcspn(word, "=")] = '\0';
    for (const struct option *o = p->longs; o->name; o++) names[n++] = o->name;
    bool is_long = strlen(word) > 1;
    const char *nearest = is_long ? cli_nearest(word, names, n) : NULL;
    if (strncmp(given, "--", 2) == 0 && n_beginning(p, word) > 1)
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
    int i = optopt ? find(p, optopt) : -1;
    const opt *o = i >= 0 ? p->all[i] : NULL;
    if (code == ':' && optopt == CONFIG)
        return cli_fail_with("%s: --config lacks its argument, FILE", p->command), -3;
    if (!o) return explain_unknown(p, given);
    if (code == ':')
        cli_fail_with("%s: --%s lacks its argument, %s", p->command, o->name, o->arg);
    else
        cli_fail_with("%s: --%s takes no argument", p->command, o->name);
    return -3;
}

/* from_line -- an option of the command line. The program has read the config file before
 * (commands.c); here --config is only checked. False after an error message. */
static bool from_line(parser *p, int code)
{
    char spelled[64];
    if (code == CONFIG) {
        const char *path = config_get()->path;
        if (path && strcmp(path, optarg) == 0) return true;
        cli_fail_with("%s: --config %s: write --config in full, and once", p->command, optarg);
        return false;
    }
    int i = find(p, code);
    const opt *o = p->all[i];
    opt_origin *origin = &p->origins[i];
    if (o->kind == OPT_LIST && origin->from != OPT_LINE) ((opt_list *)o->dest)->n = 0;
    *origin = (opt_origin){OPT_LINE, optarg};
    snprintf(spelled, sizeof spelled, "--%s", o->name);
    return opt_set(o, optarg, spelled);
}

static bool is_in(const opt *o, const opt *table)
{
    for (; table->kind != OPT_END; table++)
        if (table == o) return true;
    return false;
}

/* has_needed -- false after an error message: an option of the line has no effect without a flag. */
static bool has_needed(const parser *p, const opt_needs *needs)
{
    for (; needs && needs->table; needs++)
        for (int i = 0; !*needs->flag && i < p->n; i++) {
            const opt *o = p->all[i];
            if (p->origins[i].from != OPT_LINE || !is_in(o, needs->table)) continue;
            cli_fail_with("%s: --%s needs --%s", p->command, o->name, needs->name);
            return false;
        }
    return true;
}

/* prints_json -- the command has --json, and it is set. */
static bool prints_json(const parser *p)
{
    for (int i = 0; i < p->n; i++)
        if (p->all[i]->kind == OPT_FLAG && strcmp(p->all[i]->name, "json") == 0)
            return *(const bool *)p->all[i]->dest;
    return false;
}

/* find_models -- names of models become paths. False after an error message. */
static bool find_models(const parser *p)
{
    for (int i = 0; i < p->n; i++) {
        const opt *o = p->all[i];
        if (!o->is_model) continue;
        opt_list *list = o->dest;
        const char **one = o->dest;
        const int n = o->kind == OPT_LIST ? list->n : *one != NULL;
        for (int k = 0; k < n; k++)
            if (!hub_find_model(o->kind == OPT_LIST ? &list->v[k] : one)) return false;
    }
    return true;
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
    if (!opt_resolve(usage, p.all, p.n, p.origins)) return -3;
    optind = 0; /* restarts, also in the middle of a word of an earlier call */
    opterr = 0;
    for (;;) {
        int code = getopt_long_only(argc, argv, p.shorts, p.longs, NULL);
        if (code == -1) break;
        if (code == HELP || code == HELP_ALL) {
            opt_print_help(&(opt_help){command, usage, tables, p.origins, code == HELP_ALL});
            return -1;
        }
        if (code == '?' || code == ':') return explain(&p, code, argv[optind - 1]);
        if (!from_line(&p, code)) return -3;
    }
    if (!has_needed(&p, usage->needs)) return -3;
    const opt *o = missing(&p);
    if (!o && prints_json(&p)) cli_fail_as_json();
    if (!o) return find_models(&p) ? optind : -2;
    cli_fail_with("%s: --%s %s is missing; usage: spolia %s", p.command, o->name, o->arg,
                  usage->synopsis);
    return -3;
}
