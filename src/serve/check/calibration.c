/* calibration.c -- see calibration.h; and what users read of it: qualities and shares of policies. */
#include "serve/check/calibration.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/need.h"
#include "reuse/reuse.h"
#include "spolia_quality.h"

#define VERSION 1

static const sp_quality_info qualities[] = {
    {"exact", "prefix", 0, "answers equal those of full attention"},
    {"balanced", "inplace", SP_DEFAULT_SHARE, "recompute what the question looks at"},
    {"fast", "inplace", 0, "recompute nothing"},
};

const sp_quality_info *sp_qualities(int *n)
{
    if (n) *n = SP_COUNT(qualities);
    return qualities;
}

/* joined -- a followed by b. */
static char *joined(const char *a, size_t n, const char *b)
{
    const size_t m = strlen(b);
    char *text = sp_alloc(n + m + 1, 1);
    if (!text) return NULL;
    memcpy(text, a, n);
    memcpy(text + n, b, m + 1);
    return text;
}

char *sp_calibration_path(const char *model)
{
    size_t n = strlen(model);
    while (n > 1 && model[n - 1] == '/') n--;
    return joined(model, n, ".reuse.json");
}

/* -- reading -------------------------------------------------------------------------------- */

/* load -- the file's object; NULL without error when the file does not exist. Owns: json_decref. */
static sp_err load(const char *path, json_t **out)
{
    json_error_t why;
    *out = NULL;
    if (access(path, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR)) return SP_OK;
    json_t *root = sp_json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    if (!root && why.line > 0) return sp_fail(SP_E_FORMAT, "%s: line %d: %s", path, why.line, why.text);
    if (!root) return sp_fail(sp_json_code(&why, SP_E_IO), "%s: %s", path, why.text);
    const json_t *version = json_object_get(root, "version"), *known = json_object_get(root, SP_CALIBRATED_QUALITIES);
    sp_err err = SP_OK;
    if (!json_is_integer(version) || json_integer_value(version) != VERSION)
        err = sp_fail(SP_E_FORMAT, "%s: field version is not %d", path, VERSION);
    else if (!json_is_object(json_object_get(root, SP_CALIBRATED_POLICIES)))
        err = sp_fail(SP_E_FORMAT, "%s: field policies is not an object", path);
    else if (known && !json_is_object(known))
        err = sp_fail(SP_E_FORMAT, "%s: field qualities is not an object", path);
    if (err == SP_OK)
        *out = root;
    else
        json_decref(root);
    return err;
}

/* An entry while it is read. */
typedef struct reading {
    const char *path, *section, *name;
    const json_t *object;
} reading;

static sp_err read_number(const reading *e, const char *field, double max, double *out)
{
    const json_t *value = json_object_get(e->object, field);
    const double v = json_number_value(value);
    if (!json_is_number(value) || !(v >= 0) || v > max)
        return sp_fail(SP_E_FORMAT, "%s: field %s.%s.%s is not a number from 0 to %g", e->path, e->section, e->name,
                       field, max);
    *out = v;
    return SP_OK;
}

/* sets -- whether a policy's text names a parameter. */
static bool sets(const char *spec, const char *key)
{
    const size_t n = strlen(key);
    for (const char *s = strchr(spec, ':'); s; s = strchr(s + 1, ','))
        if (strncmp(s + 1, key, n) == 0 && s[1 + n] == '=') return true;
    return false;
}

/* amount_of -- the parameter of a policy that replaces its share; NULL: it has none, or the text sets it. */
static sp_err amount_of(const char *spec, const sp_reuse_param **out)
{
    const sp_reuse_info *p;
    SP_TRY(sp_reuse_parse(spec, &p, NULL));
    *out = NULL;
    for (int i = 0; i < p->n_params; i++)
        if (p->params[i].replaces_share && !sets(spec, p->params[i].name)) *out = &p->params[i];
    return SP_OK;
}

static void set_amount(sp_calibration *to, const sp_reuse_param *amount, double value)
{
    const size_t n = strlen(to->policy);
    snprintf(to->policy + n, sizeof to->policy - n, "%c%s=%.9g", strchr(to->policy, ':') ? ',' : ':', amount->name,
             value);
    to->recompute = 0;
}

/* read_amount -- how much out->policy recomputes. */
static sp_err read_amount(const reading *e, sp_calibration *out)
{
    const sp_reuse_param *amount;
    double recompute, alpha;
    SP_TRY(read_number(e, "recompute", 1, &recompute));
    SP_TRY(read_number(e, "alpha", 1e6, &alpha));
    SP_TRY(amount_of(out->policy, &amount));
    out->recompute = (float)recompute;
    if (alpha > 0 && amount) set_amount(out, amount, alpha);
    out->calibrated = true;
    return SP_OK;
}

static sp_err read_quality(const reading *e, sp_calibration *out)
{
    const char *policy = json_string_value(json_object_get(e->object, "policy"));
    if (!policy || strlen(policy) >= SP_POLICY_BYTES / 2 || sp_reuse_parse(policy, NULL, NULL) != SP_OK)
        return sp_fail(SP_E_FORMAT, "%s: field %s.%s.policy is not a reuse policy", e->path, e->section, e->name);
    snprintf(out->policy, sizeof out->policy, "%s", policy);
    return read_amount(e, out);
}

/* read_entry -- into *out, if the model's file has it. */
static sp_err read_entry(const char *model, const char *section, const char *name,
                         sp_err (*read)(const reading *e, sp_calibration *out), sp_calibration *out)
{
    json_t *root = NULL;
    char *path = sp_calibration_path(model);
    if (!path) return sp_fail_nomem("a path");
    sp_err err = load(path, &root);
    const reading e = {path, section, name, json_object_get(json_object_get(root, section), name)};
    if (err == SP_OK && e.object) err = read(&e, out);
    json_decref(root);
    sp_free(path);
    return err;
}

sp_err sp_calibration_of_policy(const char *policy, const char *model, sp_calibration *out)
{
    SP_NEED(policy);
    SP_NEED(out);
    const sp_reuse_info *info;
    sp_calibration found = {.recompute = 0};
    SP_TRY(sp_reuse_parse(policy, &info, NULL));
    if (strlen(policy) >= sizeof found.policy / 2)
        return sp_fail(SP_E_ARG, "reuse policy \"%.40s...\" is too long", policy);
    snprintf(found.policy, sizeof found.policy, "%s", policy);
    if (info->recomputes) {
        const sp_reuse_param *amount;
        SP_TRY(amount_of(policy, &amount));
        found.recompute = SP_DEFAULT_SHARE;
        if (model) SP_TRY(read_entry(model, SP_CALIBRATED_POLICIES, policy, read_amount, &found));
        if (!found.calibrated && amount && amount->usual > 0) set_amount(&found, amount, amount->usual);
    }
    *out = found;
    return SP_OK;
}

sp_err sp_calibration_of_quality(const char *quality, const char *model, sp_calibration *out)
{
    SP_NEED(quality);
    SP_NEED(out);
    const sp_quality_info *q = NULL;
    for (size_t i = 0; i < SP_COUNT(qualities); i++)
        if (strcmp(qualities[i].name, quality) == 0) q = &qualities[i];
    if (!q) return sp_fail(SP_E_ARG, "quality is \"%.40s\" and must be exact, balanced or fast", quality);
    const sp_reuse_info *info;
    sp_calibration found = {.recompute = 0};
    SP_TRY(sp_reuse_parse(q->policy, &info, NULL));
    if (model && !info->exact) SP_TRY(read_entry(model, SP_CALIBRATED_QUALITIES, quality, read_quality, &found));
    if (!found.calibrated && q->recompute > 0) SP_TRY(sp_calibration_of_policy(q->policy, model, &found));
    if (!found.calibrated && !(q->recompute > 0)) snprintf(found.policy, sizeof found.policy, "%s", q->policy);
    *out = found;
    return SP_OK;
}

sp_err sp_calibration_check(const char *model)
{
    json_t *root = NULL;
    char *path = sp_calibration_path(model);
    const sp_err err = path ? load(path, &root) : sp_fail_nomem("a path");
    json_decref(root);
    sp_free(path);
    return err;
}

/* -- writing -------------------------------------------------------------------------------- */

/* add -- the entry in the object that the file has, or in a new one. */
static json_t *add(json_t *root, const char *section, const char *name, json_t *entry)
{
    if (!root) root = json_pack("{s:i, s:{}}", "version", VERSION, SP_CALIBRATED_POLICIES);
    if (!json_object_get(root, section)) json_object_set_new(root, section, json_object());
    json_object_set(json_object_get(root, section), name, entry);
    return root;
}

sp_err sp_calibration_write(const char *model, const char *section, const char *name, json_t *entry)
{
    const unsigned before = sp_json_n_lost();
    char *path = sp_calibration_path(model), *body = NULL;
    json_t *root = NULL;
    sp_err err = path && entry ? load(path, &root) : sp_fail_nomem("a path");
    if (err == SP_OK) {
        root = add(root, section, name, entry);
        body = sp_json_dump(root, JSON_INDENT(2) | JSON_REAL_PRECISION(6) | JSON_SORT_KEYS, before);
        char *text = body ? joined(body, strlen(body), "\n") : NULL;
        err = text ? sp_file_write(path, text, strlen(text)) : sp_fail_nomem("a calibration");
        sp_free(text);
    }
    json_decref(entry);
    json_decref(root);
    free(body);
    sp_free(path);
    return err;
}
