#include "lab/eval/csv.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/alloc.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/text.h"
#include "lab/files.h"

#define MARK "# spolia eval "

/* A row's columns: texts, numbers, texts. */
#define N_LEADING 3
static const char *const text_names[N_ROW_TEXTS] = {"id", "kind", "policy", "kv_layers", "answer"};
static const char *const number_names[N_ROW_NUMBERS] = {
#define X(name, text) text,
    ROW_NUMBERS(X)
#undef X
};
#define N_COLUMNS (N_ROW_TEXTS + N_ROW_NUMBERS)

void eval_row_drop(eval_row *r)
{
    for (int i = 0; i < N_ROW_TEXTS; i++) free(r->text[i]);
    *r = (eval_row){0};
}

/* -- writing -------------------------------------------------------------------------------- */

static void put_names(FILE *f)
{
    for (int i = 0; i < N_LEADING; i++) fprintf(f, "%s,", text_names[i]);
    for (int i = 0; i < N_ROW_NUMBERS; i++) fprintf(f, "%s,", number_names[i]);
    for (int i = N_LEADING; i < N_ROW_TEXTS; i++)
        fprintf(f, "%s%c", text_names[i], i + 1 < N_ROW_TEXTS ? ',' : '\n');
}

static void put_row(FILE *f, const eval_row *r)
{
    for (int i = 0; i < N_LEADING; i++) {
        lab_csv_put(f, r->text[i]);
        fputc(',', f);
    }
    for (int i = 0; i < N_ROW_NUMBERS; i++) {
        lab_csv_number(f, r->number[i]);
        fputc(',', f);
    }
    for (int i = N_LEADING; i < N_ROW_TEXTS; i++) {
        lab_csv_put(f, r->text[i]);
        fputc(i + 1 < N_ROW_TEXTS ? ',' : '\n', f);
    }
}

/* -- reading -------------------------------------------------------------------------------- */

/* next_field -- cuts the field at *s out of its line, in place; NULL when there is none or its
 * quotes are wrong. *s becomes NULL after the last. */
static char *next_field(char **s)
{
    char *from = *s, *to = from, *p = from;
    if (!from) return NULL;
    if (*p == '"') {
        for (p++; *p && (*p != '"' || p[1] == '"'); p++) {
            if (*p == '"') p++;
            *to++ = *p;
        }
        if (*p++ != '"') return NULL;
    } else {
        p = to = from + strcspn(from, ",");
    }
    if (*p && *p != ',') return NULL;
    *s = *p ? p + 1 : NULL;
    *to = '\0';
    return from;
}

static const char *column_name(int i)
{
    if (i < N_LEADING) return text_names[i];
    i -= N_LEADING;
    return i < N_ROW_NUMBERS ? number_names[i] : text_names[N_LEADING + i - N_ROW_NUMBERS];
}

/* parse_number -- an empty field is NAN; false when it is not a number. */
static bool parse_number(const char *field, double *out)
{
    char *end;
    *out = NAN;
    if (!*field) return true;
    *out = strtod(field, &end);
    return !*end;
}

/* parse_row -- returns the name of the malformed column, or NULL. Modifies `line`. */
static const char *parse_row(char *line, eval_row *out)
{
    eval_row r = {0};
    const char *wrong = NULL;
    for (int i = 0; i < N_COLUMNS && !wrong; i++) {
        char *field = next_field(&line);
        int number = i - N_LEADING;
        if (!field)
            wrong = column_name(i);
        else if (number < 0)
            r.text[i] = cli_copy(field);
        else if (number >= N_ROW_NUMBERS)
            r.text[N_LEADING + number - N_ROW_NUMBERS] = cli_copy(field);
        else if (!parse_number(field, &r.number[number]))
            wrong = column_name(i);
    }
    if (!wrong && line) wrong = "after the last";
    if (wrong)
        eval_row_drop(&r);
    else
        *out = r;
    return wrong;
}

static void take_row(eval_csv *c, eval_row r)
{
    c->v = cli_grow(c->v, c->n, &c->cap, sizeof *c->v);
    c->v[c->n++] = r;
}

static void forget_from(eval_csv *c, size_t n)
{
    while (c->n > n) eval_row_drop(&c->v[--c->n]);
}

/* read_rows -- all complete questions; *whole is where the last of them ends. */
static bool read_rows(eval_csv *c, long *whole)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    size_t kept = 0;
    for (int at = 3; (len = getline(&line, &cap, c->file)) > 0 && line[len - 1] == '\n'; at++) {
        eval_row r;
        line[len - 1] = '\0';
        const char *wrong = parse_row(line, &r);
        if (!wrong && c->n > kept && strcmp(r.text[ROW_ID], c->v[kept].text[ROW_ID]) != 0) {
            eval_row_drop(&r);
            wrong = "id (rows are missing before it)";
        }
        if (wrong) {
            cli_fail_with("%s: line %d: column %s is malformed; --restart overwrites the file",
                          c->path, at, wrong);
            free(line);
            return false;
        }
        take_row(c, r);
        if (c->n - kept == (size_t)c->n_block) {
            kept = c->n;
            *whole = ftell(c->file);
        }
    }
    const bool good = cli_check_end(c->file, c->path);
    forget_from(c, kept);
    free(line);
    return good;
}

/* setting_text -- NULL: out of memory, and *why. */
static char *setting_text(const json_t *value, const char **why)
{
    *why = CLI_NO_MEMORY;
    return value ? cli_json_text(value, JSON_ENCODE_ANY | JSON_COMPACT, why) : cli_copy("none");
}

/* explain_setting -- that one differs; before, now: NULL where it is not set. */
static void explain_setting(const char *path, const char *key, const json_t *before, const json_t *now)
{
    const char *why;
    char *was = setting_text(before, &why), *is = was ? setting_text(now, &why) : NULL;
    if (is)
        cli_fail_with("%s: was written with other settings (%s: %s, now %s): give another --out, or "
                      "overwrite it with --restart",
                      path, key, was, is);
    else
        cli_fail_with("%s: %s", path, why);
    free(was);
    free(is);
}

/* same_settings -- false after an error message that names the first one that differs. */
static bool same_settings(const char *path, json_t *old, json_t *settings)
{
    const char *key;
    json_t *value;
    json_object_foreach(settings, key, value)
    {
        const json_t *before = json_object_get(old, key);
        if (!before || !json_equal(before, value)) return explain_setting(path, key, before, value), false;
    }
    json_object_foreach(old, key, value)
    {
        if (!json_object_get(settings, key)) return explain_setting(path, key, value, NULL), false;
    }
    return true;
}

/* resume -- reads a file up to its last complete question and truncates it there. */
static bool resume(eval_csv *c, json_t *settings)
{
    char *line = NULL;
    size_t cap = 0, n = strlen(MARK);
    ssize_t len = getline(&line, &cap, c->file);
    const bool is_ours = len > 0 && strncmp(line, MARK, n) == 0;
    json_error_t why;
    json_t *old = is_ours ? sp_json_load(line + n, (size_t)len - n, 0, &why) : NULL;
    bool good = old != NULL;
    if (!good && is_ours && sp_json_code(&why, SP_OK) != SP_OK)
        cli_fail_with("%s: %s", c->path, why.text);
    else if (!good)
        cli_fail_with("%s: is not a file of spolia eval; give another --out", c->path);
    else
        good = same_settings(c->path, old, settings);
    json_decref(old);
    if (good && getline(&line, &cap, c->file) <= 0) {
        cli_fail_with("%s: ends within its header; --restart overwrites it", c->path);
        good = false;
    }
    free(line);
    long whole = ftell(c->file);
    if (!good || !read_rows(c, &whole)) return false;
    if (fseek(c->file, whole, SEEK_SET) == 0 && ftruncate(fileno(c->file), whole) == 0) return true;
    cli_fail_with("%s: %s", c->path, strerror(errno));
    return false;
}

static bool begin(eval_csv *c, const json_t *settings)
{
    const char *why;
    char *text = cli_json_text(settings, JSON_COMPACT, &why);
    if (!text) return cli_fail_with("the settings as JSON: %s", why), false;
    fprintf(c->file, MARK "%s\n", text);
    free(text);
    put_names(c->file);
    if (fflush(c->file) == 0) return true;
    cli_fail_with("%s: %s", c->path ? c->path : "a temporary file", strerror(errno));
    return false;
}

/* -- the file ------------------------------------------------------------------------------- */

bool eval_csv_open(const char *path, json_t *settings, int n_block, bool restart, eval_csv *out)
{
    eval_csv c = {.n_block = n_block, .path = path ? cli_copy(path) : NULL};
    if (!path)
        c.file = tmpfile();
    else if (restart || !(c.file = fopen(path, "r+")))
        c.file = restart || errno == ENOENT ? fopen(path, "w+") : NULL;
    bool good = c.file != NULL;
    if (!good) {
        cli_fail_with("%s: %s", path ? path : "a temporary file", strerror(errno));
    } else {
        fseek(c.file, 0, SEEK_END);
        bool fresh = ftell(c.file) == 0;
        rewind(c.file);
        good = fresh ? begin(&c, settings) : resume(&c, settings);
    }
    if (good)
        *out = c;
    else
        eval_csv_close(&c);
    return good;
}

void eval_csv_close(eval_csv *c)
{
    forget_from(c, 0);
    free(c->v);
    free(c->path);
    if (c->file) fclose(c->file);
    *c = (eval_csv){0};
}

const eval_row *eval_csv_has(const eval_csv *c, const char *id)
{
    for (size_t i = 0; i < c->n; i += (size_t)c->n_block)
        if (strcmp(c->v[i].text[ROW_ID], id) == 0) return &c->v[i];
    return NULL;
}

bool eval_csv_add(eval_csv *c, const eval_row *rows)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = cli_text_open(&text, &n);
    cli_checked(f);
    for (int i = 0; i < c->n_block; i++) put_row(f, &rows[i]);
    fclose(f);
    bool good = fwrite(text, 1, n, c->file) == n && fflush(c->file) == 0;
    if (!good) cli_fail_with("%s: %s", c->path ? c->path : "a temporary file", strerror(errno));
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line && good;
         line = strtok_r(NULL, "\n", &rest)) {
        eval_row r;
        if (!parse_row(line, &r)) take_row(c, r);
    }
    free(text);
    return good;
}
