#include "model/json_file.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"

#define MAX_JSON_BYTES ((size_t)32 << 20) /* far more than any known configuration or index has */

static sp_err parse(const char *text, size_t n, const char *path, json_type type, json_t **out)
{
    json_error_t e;
    json_t *j = sp_json_load(text, n, JSON_REJECT_DUPLICATES, &e);
    if (!j && sp_json_code(&e, SP_OK) == SP_E_NOMEM)
        return sp_fail(SP_E_NOMEM, "%s: cannot allocate memory for the JSON", path);
    if (!j) return sp_fail(SP_E_FORMAT, "%s: line %d: %s", path, e.line, e.text);
    if (json_typeof(j) != type) {
        json_decref(j);
        return sp_fail(SP_E_FORMAT, "%s: the JSON is not an %s", path, type == JSON_OBJECT ? "object" : "array");
    }
    *out = j;
    return SP_OK;
}

sp_err sp_json_parse(const char *text, size_t n, const char *path, json_t **out)
{
    return parse(text, n, path, JSON_OBJECT, out);
}

static sp_err read_file(const char *dir, const char *name, json_type type, json_t **out)
{
    char *path = sp_path_join(dir, name);
    if (!path) return sp_fail_nomem("a path");
    sp_bytes text = {0};
    json_t *j = NULL;
    sp_err err = SP_OK;
    if (sp_path_exists(path)) {
        err = sp_file_read(path, MAX_JSON_BYTES, &text);
        if (err == SP_OK) err = parse(text.v, text.n, path, type, &j);
    }
    if (err == SP_OK) *out = j;
    sp_vec_fini(&text);
    sp_free(path);
    return err;
}

sp_err sp_json_read(const char *dir, const char *name, json_t **out)
{
    return read_file(dir, name, JSON_OBJECT, out);
}

sp_err sp_json_read_list(const char *dir, const char *name, json_t **out)
{
    return read_file(dir, name, JSON_ARRAY, out);
}

char *sp_path_join(const char *dir, const char *name)
{
    size_t n = strlen(dir), m = strlen(name);
    char *path = sp_alloc(n + m + 2, 1);
    if (!path) return NULL;
    memcpy(path, dir, n);
    if (n && dir[n - 1] != '/') path[n++] = '/';
    memcpy(path + n, name, m + 1);
    return path;
}

bool sp_path_exists(const char *path)
{
    return access(path, F_OK) == 0;
}
