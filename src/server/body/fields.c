#include "server/body/fields.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/json.h"
#include "server/http/memory.h"
#include "server/http/reply.h"

void srv_fields_refuse(srv_fields *f, const char *param, const char *fmt, ...)
{
    if (f->failed) return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(f->why, sizeof f->why, fmt, ap);
    va_end(ap);
    snprintf(f->param, sizeof f->param, "%s", param);
    f->failed = true;
    if (strncmp(fmt, "out of memory", 13) == 0 || srv_memory_failed()) f->err = SP_E_NOMEM;
}

/* without_word -- a text without its first word and colon, if the prefix ends with that word. */
static const char *without_word(const char *why, const char *prefix)
{
    const size_t n = strcspn(why, ":"), n_prefix = strlen(prefix);
    const bool ends = n_prefix >= n && memcmp(prefix + n_prefix - n, why, n) == 0;
    const bool whole = ends && (n == n_prefix || strchr("._", prefix[n_prefix - n - 1]));
    return whole && strncmp(why + n, ": ", 2) == 0 ? why + n + 2 : why;
}

void srv_fields_fail(srv_fields *f, const char *param, const char *prefix, sp_err err)
{
    const char *why = *sp_error_detail() ? sp_error_detail() : sp_error_text(err);
    if (prefix) why = without_word(why, prefix);
    const bool ours = err == SP_E_NOMEM || err == SP_E_NOKV || err == SP_E_IO;
    if (!f->failed && ours) f->err = err;
    srv_fields_refuse(f, param, "%s%s%s", prefix ? prefix : "", prefix ? ": " : "", why);
}

void srv_fields_break(srv_fields *f, const char *param, sp_err err)
{
    if (!f->failed) f->err = err;
    srv_fields_fail(f, param, param, err);
}

srv_sent srv_fields_reply(const srv_call *call, const srv_fields *f)
{
    const char *code = NULL;
    const int status = f->err == SP_OK ? 400 : srv_error_status(f->err, &code);
    return srv_reply_error(call->connection, status, f->param, code, f->why);
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

/* replace_nuls -- replaces NULs in texts by spaces: PDF extractors write them, and prompts cannot have them. */
static void replace_nuls(json_t *v)
{
    size_t i;
    const char *key;
    json_t *inner;
    json_array_foreach(v, i, inner) replace_nuls(inner);
    json_object_foreach(v, key, inner) replace_nuls(inner);
    size_t n = json_string_length(v);
    if (n == 0 || !memchr(json_string_value(v), '\0', n)) return;
    char *text = malloc(n);
    if (!text) return; /* the text ends there */
    memcpy(text, json_string_value(v), n);
    for (size_t k = 0; k < n; k++)
        if (!text[k]) text[k] = ' ';
    json_string_setn_nocheck(v, text, n);
    free(text);
}

json_t *srv_fields_parse(srv_fields *f, const char *body, size_t n)
{
    json_error_t error;
    *f = (srv_fields){0};
    if (is_too_deep(body, n)) {
        srv_fields_refuse(f, "", "the body is nested more than %d levels deep", SRV_MAX_DEPTH);
        return NULL;
    }
    const bool has_nul = memmem(body, n, "\\u0000", 6) != NULL;
    json_t *o = cli_load_json(body, n, has_nul ? JSON_ALLOW_NUL : 0, &error);
    if (o && has_nul) replace_nuls(o);
    if (srv_memory_failed()) {
        srv_fields_refuse(f, "", "out of memory");
        json_decref(o);
        o = NULL;
    } else if (!o && json_error_code(&error) == json_error_numeric_overflow) {
        srv_fields_refuse(f, "", "a number is too large to be read: %s (line %d, column %d)", error.text,
                          error.line, error.column);
    } else if (!o) {
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

json_t *srv_field_list(srv_fields *f, const char *name)
{
    json_t *v = srv_field(f, name);
    if (!v || json_is_array(v)) return v;
    srv_fields_refuse(f, name, "%s must be a list", name);
    return NULL;
}

json_t *srv_field_object(srv_fields *f, const char *name)
{
    json_t *v = srv_field(f, name);
    if (!v || json_is_object(v)) return v;
    srv_fields_refuse(f, name, "%s must be an object", name);
    return NULL;
}

/* has_word -- whether `words`, separated by blanks, has this one. */
static bool has_word(const char *words, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = words; n && (at = strstr(at, word)); at += n)
        if ((at == words || at[-1] == ' ') && (!at[n] || at[n] == ' ')) return true;
    return false;
}

void srv_fields_only(srv_fields *f, const json_t *o, const char *where, const char *names)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)o, key, value)
    {
        char param[sizeof f->param];
        if (json_is_null(value) || (has_word(names, key) && !strchr(key, ' '))) continue;
        snprintf(param, sizeof param, "%s%s%.40s", where, *where ? "." : "", key);
        srv_fields_refuse(f, param, "%s is unknown; the fields are: %s", param, names);
    }
}

bool srv_query_limit(const srv_call *call, int otherwise, int most, int *out)
{
    const char *given = MHD_lookup_connection_value(call->connection, MHD_GET_ARGUMENT_KIND, "limit");
    char *end = NULL;
    const long n = given ? strtol(given, &end, 10) : otherwise;
    if (n < 1 || n > most || (given && *end)) return false;
    *out = (int)n;
    return true;
}
