/* sources.c -- values of options from the environment and from the config file, and the check that
 * every name there is an option. */
#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/fail.h"
#include "cli/options/config.h"
#include "cli/options/options_int.h"

#define PREFIX "SPOLIA_ARG_"

extern char **environ;

int opt_flatten(const opt *const *tables, const opt **all)
{
    int n = 0;
    for (; *tables; tables++)
        for (const opt *o = *tables; o->kind != OPT_END; o++) {
            if (o->kind == OPT_GROUP) continue;
            assert(n < OPT_MAX);
            all[n++] = o;
        }
    return n;
}

void opt_names_add(opt_names *names, const opt_usage *usage, const opt *const *tables)
{
    const opt *all[OPT_MAX];
    int n = opt_flatten(tables, all);
    for (int i = 0; i < n && names->n < sizeof names->v / sizeof *names->v; i++) {
        names->v[names->n] = all[i]->name;
        names->of[names->n++] = usage->synopsis;
    }
}

static bool is_same(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* take -- a value of `from`; a list forgets what weaker sources have put into it. */
static bool take(const opt *o, opt_origin *origin, const opt_origin *now, const char *spelled)
{
    bool same = origin->from == now->from && is_same(origin->section, now->section);
    if (o->kind == OPT_LIST && !same) ((opt_list *)o->dest)->n = 0;
    *origin = *now;
    return opt_set(o, now->text, spelled);
}

/* -- the environment ------------------------------------------------------------------------ */

void opt_variable_of(const char *option, char *out, size_t size)
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
        opt_variable_of(known->v[i], spelled, sizeof spelled);
        size_t n = strlen(spelled);
        if (strncmp(variable, spelled, n) == 0 && variable[n] == '=') return false;
    }
    const char *nearest = cli_nearest(option, known->v, known->n);
    if (nearest) opt_variable_of(nearest, spelled, sizeof spelled);
    cli_fail_with("%.*s in the environment is not an option of any command%s%s%s",
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

static bool from_environment(const opt *o, opt_origin *origin)
{
    char name[80];
    opt_variable_of(o->name, name, sizeof name);
    const char *value = getenv(name);
    return !value || take(o, origin, &(opt_origin){OPT_ENVIRONMENT, value}, name);
}

/* -- the config file ------------------------------------------------------------------------ */

/* from_section -- the settings of one section: `section`, or the one of all commands. */
static bool from_section(const opt *o, opt_origin *origin, const char *section)
{
    const config_file *c = config_get();
    for (size_t i = 0; i < c->n; i++) {
        const config_setting *s = &c->v[i];
        char spelled[512];
        if (strcmp(s->section, section) != 0 || strcmp(s->key, o->name) != 0) continue;
        snprintf(spelled, sizeof spelled, "%s:%d: %s", c->path, s->line, s->key);
        bool twice = is_same(origin->section, section) && o->kind != OPT_LIST;
        if (twice)
            return cli_fail_with("%s is already set in line %d", spelled, origin->line), false;
        opt_origin now = {OPT_FILE, s->value, s->section, s->line};
        if (!take(o, origin, &now, spelled)) return false;
    }
    return true;
}

bool opt_resolve(const opt_usage *usage, const opt *const *all, int n, opt_origin *origins)
{
    char command[64];
    opt_command_of(usage, command, sizeof command);
    for (int i = 0; i < n; i++) {
        origins[i] = (opt_origin){0};
        if (!from_section(all[i], &origins[i], CONFIG_ALL)) return false;
        if (!from_section(all[i], &origins[i], command)) return false;
        if (!from_environment(all[i], &origins[i])) return false;
    }
    return true;
}

/* names_of -- the options of a section's command in `of`, or all of them. Returns how many. */
static size_t names_of(const opt_names *known, const char *section, opt_names *of)
{
    of->n = 0;
    for (size_t i = 0; i < known->n; i++) {
        char command[64];
        opt_command_of(&(opt_usage){.synopsis = known->of[i]}, command, sizeof command);
        if (strcmp(section, CONFIG_ALL) == 0 || strcmp(section, command) == 0)
            of->v[of->n++] = known->v[i];
    }
    return of->n;
}

static void explain_section(const config_setting *s, const opt_names *known)
{
    char commands[64][64];
    const char *names[65] = {CONFIG_ALL};
    size_t n = 1;
    for (size_t i = 0; i < known->n && n < 65; i++) {
        if (i && known->of[i] == known->of[i - 1]) continue;
        opt_command_of(&(opt_usage){.synopsis = known->of[i]}, commands[n - 1], sizeof commands[0]);
        names[n] = commands[n - 1];
        n++;
    }
    const char *nearest = cli_nearest(s->section, names, n);
    const char *path = config_get()->path;
    if (!*s->section)
        cli_fail_with("%s:%d: %s is not in a section; begin with [" CONFIG_ALL "], or with [COMMAND]",
                      path, s->line, s->key);
    else if (nearest)
        cli_fail_with("%s:%d: [%s] is not a command; did you mean [%s]?", path, s->line, s->section,
                      nearest);
    else
        cli_fail_with("%s:%d: [%s] is not a command; [" CONFIG_ALL "] is for all of them", path,
                      s->line, s->section);
}

static void explain_key(const config_setting *s, const opt_names *of)
{
    const char *nearest = cli_nearest(s->key, of->v, of->n);
    bool is_all = strcmp(s->section, CONFIG_ALL) == 0;
    cli_fail_with("%s:%d: %s is not an option of %s%s%s%s", config_get()->path, s->line, s->key,
                  is_all ? "any command" : s->section, nearest ? "; did you mean " : "",
                  nearest ? nearest : "", nearest ? "?" : "");
}

static bool is_in(const opt_names *of, const char *key)
{
    for (size_t i = 0; i < of->n; i++)
        if (strcmp(of->v[i], key) == 0) return true;
    return false;
}

bool opt_check_config(const opt_names *known)
{
    const config_file *c = config_get();
    opt_names of;
    for (size_t i = 0; i < c->n; i++) {
        if (!names_of(known, c->v[i].section, &of)) return explain_section(&c->v[i], known), false;
        if (!is_in(&of, c->v[i].key)) return explain_key(&c->v[i], &of), false;
    }
    return true;
}
