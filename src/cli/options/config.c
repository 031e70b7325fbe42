#include "cli/options/config.h"

#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/alloc.h"
#include "cli/fail.h"

static config_file file;

const config_file *config_get(void)
{
    return &file;
}

void config_close(void)
{
    for (size_t i = 0; i < file.n; i++) free(file.v[i].value);
    free(file.v);
    free(file.path);
    file = (config_file){0};
}

/* -- reading ------------------------------------------------------------------------------------ */

typedef struct reader {
    FILE *f;
    int line;
    bool indented, failed; /* failed: after an error message */
} reader;

static void refuse(reader *r, const char *why)
{
    if (!r->failed) cli_fail_with("%s:%d: %s", file.path, r->line, why);
    r->failed = true;
}

/* next_line -- libinih's reader, as fgets. */
static char *next_line(char *out, int size, void *user)
{
    reader *r = user;
    if (r->failed || !fgets(out, size, r->f)) return NULL;
    r->line++;
    r->indented = *out == ' ' || *out == '\t';
    size_t n = strlen(out);
    if (n == 0) refuse(r, "a NUL byte: this is no text file");
    if (n && out[n - 1] != '\n' && !feof(r->f))
        refuse(r, "the line is too long; split it: an "
                  "indented line continues the value above");
    return r->failed ? NULL : out;
}

/* value_copy -- ~/ at the beginning becomes the home folder. */
static char *value_copy(const char *value)
{
    const char *home = getenv("HOME");
    bool is_home = strncmp(value, "~/", 2) == 0 && home;
    return cli_join(is_home ? home : "", value + is_home);
}

/* continue_value -- an indented line. What looks like a setting is refused: it would be lost. */
static void continue_value(reader *r, const char *more)
{
    config_setting *s = &file.v[file.n - 1];
    size_t key = strspn(more, "abcdefghijklmnopqrstuvwxyz0123456789-");
    if (key && more[key + strspn(more + key, " \t")] == '=') {
        refuse(r, "an indented line continues the value above; write a setting without blanks "
                  "before it");
        return;
    }
    char *line = cli_join("\n", more), *both = cli_join(s->value, line);
    free(line);
    free(s->value);
    s->value = both;
}

/* add -- libinih's handler: a setting, or one more line of the last one. */
static int add(void *user, const char *section, const char *key, const char *value)
{
    reader *r = user;
    config_setting *last = file.n ? &file.v[file.n - 1] : NULL;
    if (r->indented && last && last->line < r->line && strcmp(last->key, key) == 0 &&
        strcmp(last->section, section) == 0) {
        continue_value(r, value);
        return !r->failed;
    }
    if (!*key) refuse(r, "the name of an option is missing before its value");
    if (r->failed) return 0;
    config_setting s = {.line = r->line, .value = value_copy(value)};
    snprintf(s.section, sizeof s.section, "%s", section);
    snprintf(s.key, sizeof s.key, "%s", key);
    file.v = cli_checked(realloc(file.v, (file.n + 1) * sizeof *file.v));
    file.v[file.n++] = s;
    return 1;
}

/* -- which file --------------------------------------------------------------------------------- */

static char *usual_path(void)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    bool is_set = config && *config == '/'; /* a relative path is invalid, says the specification */
    if (!is_set && !(home && *home)) return NULL;
    return is_set ? cli_join(config, "/spolia/config") : cli_join(home, "/.config/spolia/config");
}

bool config_open(const char *given)
{
    config_close();
    if (!given) given = getenv("SPOLIA_CONFIG");
    if (given && !*given) return true;
    file.path = given ? cli_copy(given) : usual_path();
    if (!file.path) return true;
    reader r = {.f = fopen(file.path, "r")};
    if (!r.f && !given && (errno == ENOENT || errno == ENOTDIR)) return true;
    if (!r.f) return cli_fail_with("%s: %m", file.path), false;
    file.is_there = true;
    int line = ini_parse_stream(next_line, &r, add, &r);
    if (ferror(r.f)) r.failed = !cli_check_end(r.f, file.path);
    if (line > 0 && !r.failed) {
        r.line = line;
        refuse(&r, "neither \"[command]\" nor \"option = value\"");
    }
    fclose(r.f);
    return !r.failed;
}
