/* fail.c -- error messages, and the check that standard output was written. */
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/fail.h"
#include "cli/show.h"

static bool as_json, is_output_lost;
static char *kept; /* where lines are left instead of printed, or NULL */
static size_t kept_size;

void cli_fail_as_json(void)
{
    as_json = true;
}

void cli_fail_to(char *line, size_t size)
{
    kept = line;
    kept_size = size;
}

const char *cli_error_name(sp_err err)
{
    switch (err) {
#define X(name, value, text)                                                                       \
    case SP_##name:                                                                                \
        return #name;
        SP_ERRORS(X)
#undef X
    }
    return "E_UNKNOWN";
}

/* print_json -- for scripts that read standard output. */
static void print_json(const char *code, const char *message)
{
    if (!as_json) return;
    char *shown = show_copy(message, 0);
    json_t *o = json_pack("{s:{s:s, s:s}}", "error", "code", code, "message", shown ? shown : "");
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    puts(text ? text : "{\"error\":{\"code\":\"E_NOMEM\",\"message\":\"out of memory\"}}");
    free(text);
    json_decref(o);
    free(shown);
}

/* say -- prints the line, and leaves it in `line`. */
static void say(const char *fmt, va_list ap, char *line, size_t size)
{
    vsnprintf(line, size, fmt, ap);
    fputs("spolia: ", stderr);
    show_line(stderr, line, 0);
    fputc('\n', stderr);
}

int cli_fail(sp_err err)
{
    const char *detail = sp_error_detail();
    char line[1024];
    snprintf(line, sizeof line, "%s (%s)", *detail ? detail : "failed", sp_error_text(err));
    if (kept) return snprintf(kept, kept_size, "%s", line), 1;
    cli_warn("%s", line);
    print_json(cli_error_name(err), line);
    return 1;
}

int cli_fail_with(const char *fmt, ...)
{
    char line[1024];
    va_list ap;
    va_start(ap, fmt);
    if (kept)
        vsnprintf(kept, kept_size, fmt, ap);
    else
        say(fmt, ap, line, sizeof line);
    va_end(ap);
    if (!kept) print_json("E_FAILED", line);
    return 1;
}

void cli_warn(const char *fmt, ...)
{
    char line[1024];
    va_list ap;
    va_start(ap, fmt);
    say(fmt, ap, line, sizeof line);
    va_end(ap);
}

void cli_lose_output(const char *what, const char *why)
{
    is_output_lost = true;
    cli_fail_with("%s: %s", what, why);
}

int cli_check_output(int code)
{
    if (is_output_lost && code == 0) code = 1;
    bool failed_before = ferror(stdout) != 0;
    errno = 0;
    if (fflush(stdout) == 0 && !failed_before) return code;
    const bool is_known = errno || write(STDOUT_FILENO, "\n", 1) < 0; /* what failed before fails again */
    cli_fail_with("standard output: %s", is_known ? strerror(errno) : "a write failed");
    return code ? code : 1;
}

char *cli_read_file(const char *path, size_t *n)
{
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    size_t len = 0, cap = 1 << 16;
    char *text = f ? malloc(cap) : NULL;
    while (text) {
        len += fread(text + len, 1, cap - len - 1, f);
        if (len < cap - 1) break;
        char *more = realloc(text, cap *= 2);
        if (!more) free(text);
        text = more;
    }
    if (!text || ferror(f)) {
        cli_fail_with("%s: %s", path, strerror(errno));
        free(text);
        text = NULL;
    } else {
        text[len] = '\0';
        *n = len;
    }
    if (f && f != stdin) fclose(f);
    return text;
}

char *cli_read_text(const char *path, size_t *n)
{
    char *text = cli_read_file(path, n);
    if (!text || strncmp(text, "\xEF\xBB\xBF", 3) != 0) return text;
    memmove(text, text + 3, *n - 2); /* with the NUL */
    *n -= 3;
    return text;
}

bool cli_check_end(FILE *f, const char *path)
{
    if (feof(f)) return true;
    return cli_fail_with("%s: cannot be read: %s", path, strerror(errno)), false;
}

/* -- misspelt names --------------------------------------------------------------------------- */

#define LONGEST 48

/* distance -- edits between two words: insert, delete, replace, or swap two neighbours. */
static int distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    int d[LONGEST + 1][LONGEST + 1];
    if (n > LONGEST || m > LONGEST) return LONGEST;
    for (size_t i = 0; i <= n; i++) d[i][0] = (int)i;
    for (size_t j = 0; j <= m; j++) d[0][j] = (int)j;
    for (size_t i = 1; i <= n; i++)
        for (size_t j = 1; j <= m; j++) {
            int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best) best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best) best = d[i][j - 1] + 1;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && d[i - 2][j - 2] + 1 < best) best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    return d[n][m];
}

const char *cli_nearest(const char *word, const char *const *names, size_t n)
{
    const char *nearest = NULL;
    int best = strlen(word) < 5 ? 2 : 3; /* fewer edits than this */
    for (size_t i = 0; i < n; i++) {
        int d = distance(word, names[i]);
        if (d >= best || d >= (int)strlen(names[i])) continue;
        best = d;
        nearest = names[i];
    }
    return nearest;
}
