/* json.c -- what the program prints and keeps as JSON is whole, or the program says that it is not. */
#include <errno.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/alloc.h"
#include "cli/fail.h"
#include "cli/json.h"
#include "cli/show.h"

/* Allocations that have failed: all of them, and those before the last value was made a text. */
static atomic_uint n_failed, n_before;

static void *allocate(size_t n)
{
    void *p = malloc(n);
    if (!p) n_failed++;
    return p;
}

void cli_watch_json(void)
{
    sp_json_watch(allocate);
}

char *cli_json_text(const json_t *value, size_t flags, const char **why)
{
    char *text = value ? json_dumps(value, flags) : NULL;
    const unsigned n = n_failed;
    const bool lacks_memory = atomic_exchange(&n_before, n) != n;
    if (text && !lacks_memory) return text;
    free(text);
    *why = lacks_memory ? CLI_NO_MEMORY : "a text in it is not UTF-8";
    return NULL;
}

void cli_print_json(json_t *value, size_t flags)
{
    const char *why;
    char *text = cli_json_text(value, flags, &why);
    if (text)
        puts(text);
    else
        cli_lose_output("the result as JSON", why);
    free(text);
    json_decref(value);
}

json_t *cli_json_string(const char *text)
{
    json_t *whole = json_string(text);
    if (whole) return whole;
    char *shown = cli_checked(show_copy(text, 0));
    whole = json_string(shown);
    free(shown);
    return whole;
}

typedef struct source {
    const char *text;
    size_t n, flags;
    json_error_t *why;
    json_t *out;
} source;

static void read_all(void *user)
{
    source *from = user;
    from->out = json_loadb(from->text, from->n, from->flags, from->why);
}

json_t *cli_load_json(const char *text, size_t n, size_t flags, json_error_t *why)
{
    source from = {.text = text, .n = n, .flags = flags, .why = why};
    if (sp_json_whole(read_all, &from)) return from.out;
    if (why) *why = (json_error_t){.line = -1, .column = -1, .text = CLI_NO_MEMORY};
    return NULL;
}

json_t *cli_read_json(const char *where, const char *text, size_t flags)
{
    const unsigned before = n_failed;
    json_error_t why;
    json_t *value = cli_load_json(text, strlen(text), flags, &why);
    if (value && n_failed == before) return value;
    json_decref(value);
    if (n_failed != before)
        cli_fail_with("%s: " CLI_NO_MEMORY, where);
    else if (strchr(text, '\n'))
        cli_fail_with("%s: line %d: %s", where, why.line, why.text);
    else
        cli_fail_with("%s: %s", where, why.text);
    return NULL;
}

/* write_draft -- a file of its own. */
static bool write_draft(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (!f) return false;
    const bool good = fputs(text, f) >= 0 && fflush(f) == 0 && fsync(fileno(f)) == 0;
    return fclose(f) == 0 && good;
}

bool cli_write_json(const char *path, const json_t *value, size_t flags)
{
    const char *why = CLI_NO_MEMORY;
    char *text = cli_json_text(value, flags, &why), *draft = NULL;
    if (!text || asprintf(&draft, "%s.new", path) < 0) {
        free(text);
        return cli_fail_with("%s: %s", path, why), false;
    }
    errno = 0;
    const bool good = write_draft(draft, text) && rename(draft, path) == 0;
    if (!good) cli_fail_with("%s: %s", path, strerror(errno));
    if (!good) unlink(draft);
    free(draft);
    free(text);
    return good;
}
