#include "cache/cost.h"

#include "base/json.h"

#define DEFAULT_SIGHT 8192.0 /* tokens looked at that cost as much as one token without them */

/* -- reading -------------------------------------------------------------------------------- */

static sp_err bad(const char *path, const char *field, const char *what)
{
    return sp_fail(SP_E_FORMAT, "%s: %s: %s", path, field, what);
}

/* read_axis -- an ascending list of 2 .. SP_COST_AXIS integers. */
static sp_err read_axis(const char *path, const json_t *root, const char *field, int32_t *out,
                        int *n)
{
    const json_t *list = json_object_get(root, field);
    size_t size = json_array_size(list);
    if (size < 2 || size > SP_COST_AXIS) return bad(path, field, "a list of 2 to 16 token counts");
    for (size_t i = 0; i < size; i++) {
        const json_t *item = json_array_get(list, i);
        json_int_t v = json_integer_value(item);
        if (!json_is_integer(item) || v < 0 || v > INT32_MAX || (i && v <= out[i - 1]))
            return bad(path, field, "token counts must rise");
        out[i] = (int32_t)v;
    }
    *n = (int)size;
    return SP_OK;
}

static sp_err read_times(const char *path, const json_t *root, sp_cost *p)
{
    const json_t *rows = json_object_get(root, "us");
    if (json_array_size(rows) != (size_t)p->n_cached)
        return bad(path, "us", "one row for each count in \"cached\"");
    for (int i = 0; i < p->n_cached; i++) {
        const json_t *row = json_array_get(rows, (size_t)i);
        if (json_array_size(row) != (size_t)p->n_new)
            return bad(path, "us", "one number for each count in \"new\" in every row");
        for (int k = 0; k < p->n_new; k++) {
            const json_t *item = json_array_get(row, (size_t)k);
            double us = json_number_value(item);
            if (!json_is_number(item) || !(us > 0)) return bad(path, "us", "times are positive");
            p->us[i * p->n_new + k] = us;
        }
    }
    return SP_OK;
}

sp_err sp_cost_read(const char *path, sp_cost *out)
{
    json_error_t why;
    json_t *root = sp_json_load_file(path, 0, &why);
    if (!root && why.line < 0) return sp_fail(sp_json_code(&why, SP_E_IO), "%s: %s", path, why.text);
    if (!root)
        return sp_fail(sp_json_code(&why, SP_E_FORMAT), "%s: line %d: %s", path, why.line, why.text);
    sp_cost p = {0};
    sp_err err = read_axis(path, root, "cached", p.cached, &p.n_cached);
    if (err == SP_OK) err = read_axis(path, root, "new", p.fresh, &p.n_new);
    if (err == SP_OK) err = read_times(path, root, &p);
    json_decref(root);
    if (err == SP_OK) *out = p;
    return err;
}

/* -- use ------------------------------------------------------------------------------------ */

/* bracket -- the interval of an axis that contains v, the first or last one if none does; sets
 * *share to v's place in it, which is outside 0 .. 1 then. */
static int bracket(const int32_t *axis, int n, int32_t v, double *share)
{
    int i = 0;
    while (i < n - 2 && v >= axis[i + 1]) i++;
    *share = ((double)v - axis[i]) / ((double)axis[i + 1] - axis[i]);
    return i;
}

double sp_cost_us(const sp_cost *p, int32_t cached, int32_t fresh)
{
    if (!p) return fresh * (1 + (cached + fresh / 2.0) / DEFAULT_SIGHT);
    double x, y;
    int i = bracket(p->cached, p->n_cached, cached, &x);
    int k = bracket(p->fresh, p->n_new, fresh, &y);
    const double *row = &p->us[i * p->n_new + k], *next = row + p->n_new;
    double low = row[0] + (row[1] - row[0]) * y;
    double high = next[0] + (next[1] - next[0]) * y;
    return SP_MAX(low + (high - low) * x, 0.0);
}
