#include "server/fields.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void srv_fields_refuse(srv_fields *f, const char *param, const char *fmt, ...)
{
    if (f->failed) return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(f->why, sizeof f->why, fmt, ap);
    va_end(ap);
    snprintf(f->param, sizeof f->param, "%s", param);
    f->failed = true;
}

/* is_too_deep -- before the parser recurses. Brackets in strings do not count. */
static bool is_too_deep(const char *s, size_t n)
{
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < n; i++) {
        if (in_string) {
            if (s[i] == '\\')
                i++;
            else if (s[i] == '"')
                in_string = false;
        } else if (s[i] == '"') {
            in_string = true;
        } else if (s[i] == '[' || s[i] == '{') {
            if (++depth > SRV_MAX_DEPTH) return true;
        } else if (s[i] == ']' || s[i] == '}') {
            depth--;
        }
    }
    return false;
}

json_t *srv_fields_parse(srv_fields *f, const char *body, size_t n)
{
    json_error_t error;
    *f = (srv_fields){0};
    if (is_too_deep(body, n)) {
        srv_fields_refuse(f, "", "the body is nested more than %d levels deep", SRV_MAX_DEPTH);
        return NULL;
    }
    json_t *o = json_loadb(body, n, 0, &error);
    if (!o) {
        srv_fields_refuse(f, "", "the body is not JSON: %s (line %d, column %d)", error.text,
                          error.line, error.column);
    } else if (!json_is_object(o)) {
        srv_fields_refuse(f, "", "the body must be a JSON object");
        json_decref(o);
        o = NULL;
    }
    f->object = o;
    return o;
}

json_t *srv_field(const srv_fields *f, const char *name)
{
    json_t *v = json_object_get(f->object, name);
    return json_is_null(v) ? NULL : v;
}

json_int_t srv_field_int(srv_fields *f, const char *name, json_int_t otherwise, json_int_t least,
                         json_int_t most)
{
    const json_t *v = srv_field(f, name);
    if (!v) return otherwise;
    double real = json_number_value(v);
    bool whole = json_is_integer(v) || (json_is_real(v) && real >= -1e15 && real <= 1e15 &&
                                        real == (double)(json_int_t)real);
    if (!whole) {
        srv_fields_refuse(f, name, "%s must be an integer", name);
        return otherwise;
    }
    json_int_t n = json_is_integer(v) ? json_integer_value(v) : (json_int_t)real;
    if (n >= least && n <= most) return n;
    srv_fields_refuse(f, name, "%s is %lld and must be between %lld and %lld", name, (long long)n,
                      (long long)least, (long long)most);
    return otherwise;
}

double srv_field_number(srv_fields *f, const char *name, double otherwise, double least,
                        double most)
{
    const json_t *v = srv_field(f, name);
    if (!v) return otherwise;
    double x = json_number_value(v);
    if (!json_is_number(v))
        srv_fields_refuse(f, name, "%s must be a number", name);
    else if (!(x >= least && x <= most))
        srv_fields_refuse(f, name, "%s is %g and must be between %g and %g", name, x, least, most);
    else
        return x;
    return otherwise;
}

bool srv_field_bool(srv_fields *f, const char *name, bool otherwise)
{
    const json_t *v = srv_field(f, name);
    if (!v) return otherwise;
    if (!json_is_boolean(v)) srv_fields_refuse(f, name, "%s must be true or false", name);
    return json_is_true(v);
}

const char *srv_field_string(srv_fields *f, const char *name)
{
    const json_t *v = srv_field(f, name);
    if (v && !json_is_string(v)) srv_fields_refuse(f, name, "%s must be a string", name);
    return json_string_value(v);
}
