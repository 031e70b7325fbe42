#include "cli/calibration.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/alloc.h"
#include "cli/cli.h"

#define VERSION 1

char *calibration_path(const char *model)
{
    char *stem = cli_copy(model);
    for (size_t n = strlen(stem); n > 1 && stem[n - 1] == '/';) stem[--n] = '\0';
    char *path = cli_join(stem, ".reuse.json");
    free(stem);
    return path;
}

/* -- reading -------------------------------------------------------------------------------- */

/* load -- the file's object; NULL when the file does not exist (*missing), else NULL after an error
 * message. */
static json_t *load(const char *path, bool *missing)
{
    json_error_t why;
    *missing = access(path, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR);
    if (*missing) return NULL;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    const json_t *version = json_object_get(root, "version");
    const json_t *policies = json_object_get(root, "policies");
    if (!root && why.line > 0)
        cli_fail_with("%s: line %d: %s", path, why.line, why.text);
    else if (!root)
        cli_fail_with("%s: %s", path, why.text);
    else if (!json_is_integer(version) || json_integer_value(version) != VERSION)
        cli_fail_with("%s: field version is not %d", path, VERSION);
    else if (!json_is_object(policies))
        cli_fail_with("%s: field policies is not an object", path);
    else
        return root;
    json_decref(root);
    return NULL;
}

static bool read_number(const char *path, const char *policy, const json_t *entry,
                        const char *field, double max, double *out)
{
    const json_t *value = json_object_get(entry, field);
    double v = json_number_value(value);
    if (json_is_number(value) && v >= 0 && v <= max) {
        *out = v;
        return true;
    }
    cli_fail_with("%s: field policies.%s.%s is not a number from 0 to %g", path, policy, field,
                  max);
    return false;
}

bool calibration_read(const char *path, const char *policy, calibration *out, bool *found)
{
    bool missing;
    json_t *root = load(path, &missing);
    if (!root) return missing;
    const json_t *entry = json_object_get(json_object_get(root, "policies"), policy);
    calibration c = {0};
    bool good = !entry || (read_number(path, policy, entry, "recompute", 1, &c.recompute) &&
                           read_number(path, policy, entry, "alpha", 1e6, &c.alpha));
    if (good && entry) *out = c;
    if (good) *found = entry != NULL;
    json_decref(root);
    return good;
}

/* -- writing -------------------------------------------------------------------------------- */

/* replace -- writes the file atomically, through a temporary file in the same folder. */
static bool replace(const char *path, const char *text)
{
    char *draft = cli_join(path, ".XXXXXX");
    size_t n = strlen(text);
    int f = mkstemp(draft);
    bool made = f >= 0;
    bool good = made && write(f, text, n) == (ssize_t)n && fchmod(f, 0644) == 0 && fsync(f) == 0;
    int why = errno;
    if (made && close(f) != 0) good = false;
    if (good && rename(draft, path) != 0) {
        why = errno;
        good = false;
    }
    if (!good) cli_fail_with("%s: cannot be written: %s", path, strerror(why));
    if (made && !good) unlink(draft);
    free(draft);
    return good;
}

bool calibration_write(const char *path, const char *policy, const calibration *c)
{
    bool missing;
    json_t *root = load(path, &missing);
    if (!root && !missing) return false;
    if (!root) root = json_pack("{s:i, s:{}}", "version", VERSION, "policies");
    json_t *entry = json_pack("{s:f, s:f, s:f, s:f, s:f, s:i}", "recompute", c->recompute, "alpha",
                              c->alpha, "quality", c->quality, "wanted", c->wanted, "recomputed",
                              c->recomputed, "questions", c->n_questions);
    json_object_set_new(json_object_get(root, "policies"), policy, entry);
    char *body = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(6) | JSON_SORT_KEYS);
    char *text = cli_join(cli_checked(body), "\n");
    bool good = replace(path, text);
    free(text);
    free(body);
    json_decref(root);
    return good;
}
