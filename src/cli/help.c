/* help.c -- what `spolia COMMAND --help` prints. */
#include <stdio.h>
#include <string.h>

#include "cli/options_int.h"

#define LEFT      28  /* width of the column of names */
#define RIGHT     100 /* last column of help texts */
#define OWN_GROUP "Options"

void opt_command_of(const opt_usage *usage, char *out, size_t size)
{
    const char *s = usage->synopsis;
    size_t n = 0;
    for (;;) {
        size_t word = strspn(s + n, "abcdefghijklmnopqrstuvwxyz");
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

static void print_option(const opt *o)
{
    char left[64];
    int n = o->letter ? snprintf(left, sizeof left, "-%c, ", o->letter) : 0;
    snprintf(left + n, sizeof left - (size_t)n, "%s%s%s%s", opt_is_short(o) ? "-" : "--", o->name,
             o->arg ? " " : "", o->arg ? o->arg : "");
    printf("  %-*s ", LEFT, left);
    print_wrapped(o->help, LEFT + 3);
}

/* has_common -- a table without common options is short enough to be shown whole. */
static bool has_common(const opt *o)
{
    for (; o->kind != OPT_END; o++)
        if (o->kind != OPT_GROUP && o->common) return true;
    return false;
}

/* print_group -- the options from `o` to the next heading; those that are not shown are counted. */
static const opt *print_group(const opt *o, const char *title, bool all, int *n_hidden)
{
    bool titled = false;
    for (; o->kind != OPT_END && o->kind != OPT_GROUP; o++) {
        if (!all && !o->common && !o->required) {
            ++*n_hidden;
            continue;
        }
        if (!titled) printf("%s:\n", title);
        titled = true;
        print_option(o);
    }
    if (titled) putchar('\n');
    return o;
}

void opt_print_help(const char *command, const opt_usage *usage, const opt *const *tables, bool all)
{
    int n_hidden = 0;
    printf("usage: spolia %s\n\n", usage->synopsis);
    print_wrapped(usage->about, 0);
    putchar('\n');
    for (; *tables; tables++) {
        const char *title = OWN_GROUP;
        bool whole = all || !has_common(*tables);
        for (const opt *o = *tables; o->kind != OPT_END;) {
            if (o->kind == OPT_GROUP) title = o++->name;
            o = print_group(o, title, whole, &n_hidden);
        }
    }
    if (n_hidden) printf("spolia %s --help-all shows %d more options.\n", command, n_hidden);
    printf("Each option can also be set in the environment, as SPOLIA_ARG_<NAME>.\n");
}
