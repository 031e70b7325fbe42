#include "lab/files.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/json.h"

uint64_t lab_hash(const void *data, size_t n)
{
    const unsigned char *s = data;
    uint64_t h = 0xcbf29ce484222325u;
    while (n--) h = (h ^ *s++) * 0x100000001b3u;
    return h;
}

bool lab_json_lines(const char *path, size_t flags, lab_line_fn *fn, void *user, uint64_t *hash)
{
    size_t n;
    char *text = cli_read_text(path, &n);
    if (!text) return false;
    if (hash) *hash = lab_hash(text, n);
    bool good = true;
    int line = 1;
    for (char *at = text, *end; good && at < text + n; at = end + 1, line++) {
        end = memchr(at, '\n', (size_t)(text + n - at));
        if (!end) end = text + n;
        if (strspn(at, " \t\r") >= (size_t)(end - at)) continue;
        json_error_t why;
        json_t *object = sp_json_load(at, (size_t)(end - at), flags, &why);
        good = json_is_object(object) && fn(path, line, object, user);
        if (!json_is_object(object))
            cli_fail_with("%s: line %d: %s", path, line, object ? "not a JSON object" : why.text);
        json_decref(object);
    }
    free(text);
    return good;
}

bool lab_json_write(const char *path, const json_t *value, size_t flags)
{
    const char *why;
    char *text = cli_json_text(value, flags, &why);
    if (!text) return cli_fail_with("%s: %s", path, why), false;
    FILE *f = fopen(path, "w");
    if (f) fputs(text, f);
    free(text);
    return lab_close(f, path);
}

void lab_csv_put(FILE *f, const char *text)
{
    const bool quoted = strpbrk(text, ",\"") != NULL;
    if (quoted) fputc('"', f);
    for (; *text; text++) {
        if (*text == '"') fputc('"', f);
        fputc((unsigned char)*text < ' ' ? ' ' : *text, f);
    }
    if (quoted) fputc('"', f);
}

void lab_csv_number(FILE *f, double v)
{
    if (isfinite(v)) fprintf(f, "%.7g", v);
}

bool lab_close(FILE *f, const char *path)
{
    const bool failed = f && ferror(f) != 0;
    if (!f || fclose(f) != 0) return cli_fail_with("%s: cannot be written: %s", path, strerror(errno)), false;
    return failed ? (cli_fail_with("%s: cannot be written", path), false) : true;
}
