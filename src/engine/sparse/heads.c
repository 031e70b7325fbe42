#include "engine/sparse/heads.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "compute/summary.h"
#include "engine/sparse/sparse.h"

#define VERSION 1
#define EPSILON 0.1f

sp_err sp_heads_create(int n_layers, int n_heads, int n_kv_heads, sp_heads **out)
{
    const size_t n = (size_t)n_layers * (size_t)n_heads;
    sp_heads *h = SP_NEW(sp_heads);
    if (!h) return sp_fail_nomem("heads");
    *h = (sp_heads){.n_layers = n_layers,
                    .n_heads = n_heads,
                    .n_kv_heads = n_kv_heads,
                    .importance = sp_alloc(n, sizeof(float)),
                    .similarity = sp_alloc(n, sizeof(float))};
    if (!h->importance || !h->similarity) {
        sp_heads_destroy(h);
        return sp_fail_nomem("heads");
    }
    for (size_t i = 0; i < n; i++) h->importance[i] = h->similarity[i] = 1;
    *out = h;
    return SP_OK;
}

void sp_heads_destroy(sp_heads *h)
{
    if (!h) return;
    sp_free(h->importance);
    sp_free(h->similarity);
    sp_free(h);
}

/* -- the file -------------------------------------------------------------------------------- */

char *sp_heads_path(const char *model)
{
    static const char suffix[] = ".heads.json";
    size_t n = strlen(model);
    while (n > 1 && model[n - 1] == '/') n--;
    char *path = sp_alloc(n + sizeof suffix, 1);
    if (!path) return NULL;
    memcpy(path, model, n);
    memcpy(path + n, suffix, sizeof suffix);
    return path;
}

static sp_err read_table(const char *path, const json_t *root, const char *field, double least,
                         const sp_heads *h, float *out)
{
    const json_t *layers = json_object_get(root, field);
    if (json_array_size(layers) != (size_t)h->n_layers)
        return sp_fail(SP_E_FORMAT, "%s: field %s has %zu layers, the model %d", path, field,
                       json_array_size(layers), h->n_layers);
    for (int l = 0; l < h->n_layers; l++) {
        const json_t *row = json_array_get(layers, (size_t)l);
        if (json_array_size(row) != (size_t)h->n_heads)
            return sp_fail(SP_E_FORMAT, "%s: field %s[%d] has %zu heads, the model %d", path, field,
                           l, json_array_size(row), h->n_heads);
        for (int i = 0; i < h->n_heads; i++) {
            const json_t *v = json_array_get(row, (size_t)i);
            const double x = json_number_value(v);
            if (!json_is_number(v) || !(x >= least && x <= 1))
                return sp_fail(SP_E_FORMAT, "%s: field %s[%d][%d] is not a number from %g to 1", path,
                               field, l, i, least);
            out[l * h->n_heads + i] = (float)x;
        }
    }
    return SP_OK;
}

sp_err sp_heads_read(const char *path, sp_heads *h)
{
    json_error_t why;
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return sp_fail(SP_E_NOTFOUND, "%s: not found; spolia profile --decode creates it", path);
    json_t *root = sp_json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    if (!root) return sp_fail(sp_json_code(&why, SP_E_FORMAT), "%s: line %d: %s", path, why.line, why.text);
    sp_err err = SP_OK;
    if (json_integer_value(json_object_get(root, "version")) != VERSION)
        err = sp_fail(SP_E_FORMAT, "%s: field version is not %d", path, VERSION);
    if (err == SP_OK) err = read_table(path, root, "importance", 0, h, h->importance);
    if (err == SP_OK) err = read_table(path, root, "similarity", -1, h, h->similarity);
    json_decref(root);
    return err;
}

static json_t *table_json(const sp_heads *h, const float *v)
{
    json_t *layers = json_array();
    for (int l = 0; l < h->n_layers; l++) {
        json_t *row = json_array();
        for (int i = 0; i < h->n_heads; i++)
            json_array_append_new(row, json_real(round((double)v[l * h->n_heads + i] * 1e4) / 1e4));
        json_array_append_new(layers, row);
    }
    return layers;
}

sp_err sp_heads_write(const char *path, const sp_heads *h)
{
    const unsigned before = sp_json_n_lost();
    json_t *root =
        json_pack("{s:i, s:o, s:o}", "version", VERSION, "importance", table_json(h, h->importance),
                  "similarity", table_json(h, h->similarity));
    char *text = sp_json_dump(root, JSON_COMPACT | JSON_REAL_PRECISION(5), before);
    json_decref(root);
    if (!text) return sp_fail_nomem("heads");
    const sp_err err = sp_file_write(path, text, strlen(text));
    free(text);
    return err;
}

/* -- thresholds ------------------------------------------------------------------------------ */

float sp_heads_tau(const sp_heads *h, int layer, int kv_head, float eta, float p)
{
    const int group = h->n_heads / h->n_kv_heads;
    const float *s = h->importance + layer * h->n_heads + kv_head * group;
    float most = 0;
    for (int i = 0; i < group; i++) most = SP_MAX(most, s[i]);
    const float lambda = powf(most, p), pi = 3.14159265f;
    return cosf(lambda * acosf(eta) + (1 - lambda) * pi);
}

float sp_heads_difficulty(const sp_heads *h, int layer, int kv_head, float tau, float epsilon)
{
    const int group = h->n_heads / h->n_kv_heads, first = layer * h->n_heads + kv_head * group;
    const float s = sp_head_similarity(h->similarity + first, h->importance + first, group);
    return tau - (s - epsilon);
}

void sp_heads_rank(const sp_heads *h, float eta, float power, float *difficulty)
{
    if (eta == 0) eta = SP_SPARSE_ETA;
    if (power == 0) power = SP_SPARSE_POWER;
    for (int i = 0; i < h->n_layers * h->n_kv_heads; i++) {
        const int layer = i / h->n_kv_heads, g = i % h->n_kv_heads;
        const float tau = power > 0 ? sp_heads_tau(h, layer, g, eta, power) : eta;
        difficulty[i] = sp_heads_difficulty(h, layer, g, tau, EPSILON);
    }
}
