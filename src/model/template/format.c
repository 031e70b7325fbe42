/* format.c -- str.format of chat templates.
 *
 *   "{} {0} {name!r} {{ }}"    fields by order, number or name; !s and !r; doubled braces
 *
 * Refused with their line: layouts after ':', attributes and items of arguments.
 */
#include <string.h>

#include "model/template/template_int.h"

typedef struct formatter {
    sp_tpl_machine *m;
    const sp_tpl_str *s;
    const sp_tpl_node *args;
    sp_tpl_val *values; /* of args */
    size_t n_values;    /* those without a name */
    size_t next;        /* argument of the next {} */
    bool by_order, by_number;
    sp_tpl_writer w;
} formatter;

static sp_err evaluate(formatter *f)
{
    size_t n = 0;
    for (const sp_tpl_node *a = f->args; a; a = a->next) n++;
    SP_TRY(sp_tpl_take(f->m, n, sizeof *f->values, &f->values));
    n = 0;
    for (const sp_tpl_node *a = f->args; a; a = a->next) {
        f->n_values += a->text.n == 0;
        SP_TRY(sp_tpl_eval(f->m, a->a, &f->values[n++]));
    }
    return SP_OK;
}

/* by_position -- argument i of those without a name, which come first. */
static sp_err by_position(formatter *f, size_t i, sp_tpl_val *out)
{
    if (f->by_order && f->by_number)
        return sp_tpl_fail(f->m, SP_E_ARG, "format: {} and fields with a number cannot be mixed");
    if (i >= f->n_values) return sp_tpl_fail(f->m, SP_E_ARG, "format: there is no argument %zu", i);
    *out = f->values[i];
    return SP_OK;
}

static sp_err argument(formatter *f, const char *name, size_t n, sp_tpl_val *out)
{
    size_t i = 0, number = 0;
    if (!n) {
        f->by_order = true;
        return by_position(f, f->next++, out);
    }
    for (; i < n && name[i] >= '0' && name[i] <= '9' && number < 1000; i++)
        number = number * 10 + (size_t)(name[i] - '0');
    if (i == n) {
        f->by_number = true;
        return by_position(f, number, out);
    }
    i = 0;
    for (const sp_tpl_node *a = f->args; a; a = a->next, i++) {
        if (a->text.n != n || memcmp(a->text.s, name, n) != 0) continue;
        *out = f->values[i];
        return SP_OK;
    }
    return sp_tpl_fail(f->m, SP_E_ARG, "format: there is no argument '%.*s'", (int)SP_MIN(n, 40), name);
}

/* field -- the field whose '{' ends before *at, which is advanced past its '}'. */
static sp_err field(formatter *f, size_t *at)
{
    const char *s = f->s->s + *at;
    const size_t left = f->s->n - *at;
    size_t n = 0;
    sp_tpl_val v;
    char conversion = 's';
    while (n < left && !strchr("{}[.!:", s[n])) n++;
    size_t end = n;
    if (end + 1 < left && s[end] == '!') {
        conversion = s[end + 1];
        end += 2;
    }
    if (end >= left || s[end] == '{') return sp_tpl_fail(f->m, SP_E_ARG, "format: a field does not end");
    if (s[end] != '}' || (conversion != 's' && conversion != 'r'))
        return sp_tpl_fail(f->m, SP_E_UNSUPPORTED, "format: the field '%.*s' is not supported",
                           (int)SP_MIN(left, 20), s);
    SP_TRY(argument(f, s, n, &v));
    *at += end + 1;
    return conversion == 'r' ? sp_tpl_write_repr(f->m, &f->w, v) : sp_tpl_write_value(f->m, &f->w, v);
}

sp_err sp_tpl_format(sp_tpl_machine *m, const sp_tpl_str *s, const sp_tpl_node *args, sp_tpl_val *out)
{
    formatter f = {.m = m, .s = s, .args = args};
    const int line = m->line;
    SP_TRY(sp_tpl_work(m, sp_tpl_of_str(s)));
    SP_TRY(evaluate(&f));
    m->line = line;
    for (size_t at = 0, from = 0; at <= s->n; from = at) {
        sp_tpl_val part;
        while (at < s->n && s->s[at] != '{' && s->s[at] != '}') at++;
        const bool doubled = at + 1 < s->n && s->s[at + 1] == s->s[at];
        SP_TRY(sp_tpl_slice(m, s, from, at + doubled, &part));
        SP_TRY(sp_tpl_write(m, &f.w, part.s));
        SP_TRY(sp_tpl_step(m));
        if (at == s->n) break;
        if (s->s[at] == '}' && !doubled) return sp_tpl_fail(m, SP_E_ARG, "format: a single '}'");
        at += 1 + doubled;
        if (!doubled) SP_TRY(field(&f, &at));
    }
    return sp_tpl_written(m, &f.w, out);
}
