/* help.c -- what `spolia COMMAND --help` prints. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/alloc.h"
#include "cli/options/config.h"
#include "cli/options/options_int.h"

#define LEFT      28  /* width of the column of names */
#define RIGHT     100 /* last column of help texts */
#define OWN_GROUP "Options"

void opt_command_of(const opt_usage *usage, char *out, size_t size)
{
    const char *s = usage->synopsis;
    size_t n = 0;
    for (;;) {
        size_t word = s[n] == '-' ? 0 : strspn(s + n, "abcdefghijklmnopqrstuvwxyz-");
        char after = s[n + word];
        if (!word || (after && after != ' ')) break;
        n += word + (after == ' ');
        if (!after) break;
    }
    if (n && s[n - 1] == ' ') n--;
    snprintf(out, size, "%.*s", (int)n, s);
}

/* print_wrapped -- a text from column `left` on; lines that pass RIGHT are broken at blanks. */
static void print_wrapped(const char *text, int left)
{
    const size_t width = (size_t)(RIGHT - left);
    for (size_t n = strcspn(text, "\n"); n > width || text[n]; n = strcspn(text, "\n")) {
        if (n > width)
            for (n = width; n > 0 && text[n] != ' ';) n--;
        if (n == 0 && *text != '\n') break; /* a word longer than the line */
        printf("%.*s\n%*s", (int)n, text, left, "");
        text += n + 1;
    }
    puts(text);
}

/* print_about -- paragraphs, filled to the width of the page. A line that begins with a blank keeps its place. */
static void print_about(const char *text)
{
    char *filled = cli_copy(text);
    for (char *s = filled; *s; s++)
        if (*s == '\n' && s > filled && s[-1] != '\n' && s[1] && !strchr(" \n", s[1])) *s = ' ';
    print_wrapped(filled, 0);
    free(filled);
}

/* describe -- the help text, and the value that the environment or the config file gives. */
static char *describe(const opt *o, const opt_origin *origin)
{
    char source[512], *parts[2];
    if (origin->from == OPT_FILE)
        snprintf(source, sizeof source, "%s:%d", config_get()->path, origin->line);
    else if (origin->from == OPT_ENVIRONMENT)
        opt_variable_of(o->name, source, sizeof source);
    else
        return cli_copy(o->help);
    parts[0] = cli_join(o->help, " [now ");
    parts[1] = cli_join(parts[0], origin->text);
    free(parts[0]);
    parts[0] = cli_join(parts[1], ", from ");
    free(parts[1]);
    parts[1] = cli_join(parts[0], source);
    free(parts[0]);
    char *text = cli_join(parts[1], "]");
    free(parts[1]);
    return text;
}

/* print_choices -- the values of an option, one a line. */
static void print_choices(const opt_choice *c)
{
    for (; c && c->name; c++) {
        int n = printf("%*s%s", LEFT + 5, "", c->name);
        bool fits = n < LEFT + 14;
        printf("%s%*s", fits ? "" : "\n", fits ? LEFT + 14 - n : LEFT + 14, "");
        print_wrapped(c->help, LEFT + 14);
    }
}

static void print_option(const opt *o, const opt_origin *origin)
{
    char left[64];
    int n = o->letter ? snprintf(left, sizeof left, "-%c, ", o->letter) : 0;
    snprintf(left + n, sizeof left - (size_t)n, "%s%s%s%s", opt_is_short(o) ? "-" : "--", o->name,
             o->arg ? " " : "", o->arg ? o->arg : "");
    printf("  %-*s ", LEFT, left);
    char *text = describe(o, origin);
    print_wrapped(text, LEFT + 3);
    free(text);
    print_choices(o->choices);
}

/* has_common -- a table without common options is short enough to be shown whole. */
static bool has_common(const opt *o)
{
    for (; o->kind != OPT_END; o++)
        if (o->kind != OPT_GROUP && o->common) return true;
    return false;
}

/* What has been printed. */
typedef struct progress {
    const char *title; /* the last heading, or NULL */
    int n_hidden;      /* options that are not shown */
} progress;

/* print_group -- the options from `o` to the next heading. origin moves along. */
static const opt *print_group(const opt *o, const char *title, bool all, const opt_origin **origin, progress *p)
{
    for (; o->kind != OPT_END && o->kind != OPT_GROUP; o++, ++*origin) {
        if (!all && !o->common && !o->required) {
            p->n_hidden++;
            continue;
        }
        if (!p->title || strcmp(p->title, title) != 0) printf("%s%s:\n", p->title ? "\n" : "", title);
        p->title = title;
        print_option(o, *origin);
    }
    return o;
}

void opt_print_help(const opt_help *h)
{
    progress p = {0};
    const opt_origin *origin = h->origins;
    printf("usage: spolia %s\n\n", h->usage->synopsis);
    print_about(h->usage->about);
    putchar('\n');
    for (const opt *const *t = h->tables; *t; t++) {
        const char *title = OWN_GROUP;
        bool whole = h->all || !has_common(*t);
        for (const opt *o = *t; o->kind != OPT_END;) {
            if (o->kind == OPT_GROUP) title = o++->name;
            o = print_group(o, title, whole, &origin, &p);
        }
    }
    if (p.title) putchar('\n');
    if (p.n_hidden) printf("spolia %s --help-all shows %d more options.\n", h->command, p.n_hidden);
    puts("Each option can also be set in the environment, as SPOLIA_ARG_<NAME>, and in a config "
         "file\n"
         "(spolia help config). --config FILE names another one.");
}
