/* filters.c -- the filters of chat templates. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/template/template_int.h"

#define S      (1u << SP_TPL_STRING)
#define L      (1u << SP_TPL_LIST)
#define D      (1u << SP_TPL_DICT)
#define U      (1u << SP_TPL_UNDEFINED)
#define N      (1u << SP_TPL_INT | 1u << SP_TPL_FLOAT | 1u << SP_TPL_BOOL)
#define FILTER static sp_err
#define PARAMS (sp_tpl_machine * m, const sp_tpl_call *c, sp_tpl_val *out)

/* -- texts ------------------------------------------------------------------------------------ */

/* self_text -- self as a string, as Jinja2's filters of strings take it. */
static sp_err self_text(sp_tpl_machine *m, const sp_tpl_call *c, const sp_tpl_str **out)
{
    sp_tpl_val v;
    SP_TRY(sp_tpl_to_string(m, c->self, &v));
    *out = v.s;
    return SP_OK;
}

sp_err sp_tpl_text_argument(sp_tpl_machine *m, const sp_tpl_call *c, int i, const sp_tpl_str **out)
{
    *out = NULL;
    if (!c->given[i] || c->args[i].kind == SP_TPL_NONE) return SP_OK;
    if (c->args[i].kind != SP_TPL_STRING)
        return sp_tpl_fail(m, SP_E_ARG, "an argument is %s, not a string",
                           sp_tpl_kind_name(c->args[i]));
    *out = c->args[i].s;
    return SP_OK;
}

FILTER trim PARAMS
{
    const sp_tpl_str *s, *chars;
    SP_TRY(self_text(m, c, &s));
    SP_TRY(sp_tpl_text_argument(m, c, 0, &chars));
    return sp_tpl_strip(m, s, chars, 3, out);
}

static sp_err change_case(sp_tpl_machine *m, const sp_tpl_call *c, char how, sp_tpl_val *out)
{
    const sp_tpl_str *s;
    SP_TRY(self_text(m, c, &s));
    return sp_tpl_case(m, s, how, out);
}

FILTER upper PARAMS
{
    return change_case(m, c, 'u', out);
}

FILTER lower PARAMS
{
    return change_case(m, c, 'l', out);
}

FILTER title PARAMS
{
    return change_case(m, c, 't', out);
}

FILTER capitalize PARAMS
{
    return change_case(m, c, 'c', out);
}

FILTER string PARAMS
{
    return sp_tpl_to_string(m, c->self, out);
}

FILTER safe PARAMS
{
    *out = c->self;
    return SP_OK;
}

FILTER replace PARAMS
{
    const sp_tpl_str *s, *old, *with;
    SP_TRY(self_text(m, c, &s));
    SP_TRY(sp_tpl_text_argument(m, c, 0, &old));
    SP_TRY(sp_tpl_text_argument(m, c, 1, &with));
    if (!old || !with) return sp_tpl_fail(m, SP_E_ARG, "replace takes two strings");
    return sp_tpl_replace(m, s, old, with, c->args[2].kind == SP_TPL_INT ? c->args[2].i : -1, out);
}

FILTER indent PARAMS
{
    const sp_tpl_str *s;
    sp_tpl_writer w = {0};
    int64_t width = c->args[0].kind == SP_TPL_INT ? c->args[0].i : 4;
    SP_TRY(self_text(m, c, &s));
    for (size_t at = 0; at <= s->n;) {
        const char *nl = sp_tpl_search(s->s + at, s->n - at, "\n", 1);
        size_t end = nl ? (size_t)(nl - s->s) + 1 : s->n;
        bool blank = end - at == (nl != NULL);
        sp_tpl_val part;
        for (int64_t i = 0;
             i < width && (at ? !blank || sp_tpl_true(c->args[2]) : sp_tpl_true(c->args[1])); i++) {
            SP_TRY(sp_tpl_step(m));
            SP_TRY(sp_tpl_write_plain(m, &w, " ", 1));
        }
        SP_TRY(sp_tpl_slice(m, s, at, end, &part));
        SP_TRY(sp_tpl_write(m, &w, part.s));
        if (!nl) break;
        at = end;
    }
    return sp_tpl_written(m, &w, out);
}

/* json_indent -- what a level is indented by: a number of blanks or a text; none: all in one line. */
static sp_err json_indent(sp_tpl_machine *m, sp_tpl_val v, const sp_tpl_str **out)
{
    static const char blanks[] = "                ";
    const int64_t n = v.kind == SP_TPL_BOOL ? v.b : v.kind == SP_TPL_INT ? SP_MAX(v.i, 0) : 0;
    sp_tpl_str *s;
    *out = v.kind == SP_TPL_STRING ? v.s : NULL;
    if (v.kind == SP_TPL_STRING || v.kind == SP_TPL_NONE) return SP_OK;
    if (v.kind != SP_TPL_BOOL && v.kind != SP_TPL_INT)
        return sp_tpl_fail(m, SP_E_ARG, "tojson: an indent that is %s", sp_tpl_kind_name(v));
    if (n > (int64_t)sizeof blanks - 1)
        return sp_tpl_fail(m, SP_E_LIMIT, "tojson: an indent over %zu", sizeof blanks - 1);
    SP_TRY(sp_tpl_take(m, 1, sizeof *s, &s));
    *s = (sp_tpl_str){.s = blanks, .n = (size_t)n};
    *out = s;
    return SP_OK;
}

/* tojson -- json.dumps with the parameters, and their order, of Hugging Face's filter. */
FILTER tojson PARAMS
{
    sp_tpl_writer w = {0};
    sp_tpl_json how = {.ascii = sp_tpl_true(c->args[0]), .sorted = sp_tpl_true(c->args[3])};
    if (c->given[1]) SP_TRY(json_indent(m, c->args[1], &how.indent));
    how.comma = (sp_tpl_str){.s = ", ", .n = how.indent ? 1 : 2};
    how.colon = (sp_tpl_str){.s = ": ", .n = 2};
    if (c->given[2] && c->args[2].kind != SP_TPL_NONE) {
        const sp_tpl_list *l = c->args[2].kind == SP_TPL_LIST ? c->args[2].list : NULL;
        if (!l || l->n != 2 || l->v[0].kind != SP_TPL_STRING || l->v[1].kind != SP_TPL_STRING)
            return sp_tpl_fail(m, SP_E_ARG, "tojson: separators are two strings");
        how.comma = *l->v[0].s;
        how.colon = *l->v[1].s;
    }
    SP_TRY(sp_tpl_write_json(m, &w, c->self, &how));
    return sp_tpl_written(m, &w, out);
}

/* -- numbers --------------------------------------------------------------------------------- */

/* number_of -- a number, or the text of one; false if it is neither. */
static bool number_of(sp_tpl_val v, double *f)
{
    char text[64], *end;
    if (v.kind == SP_TPL_INT || v.kind == SP_TPL_BOOL)
        return *f = v.kind == SP_TPL_INT ? (double)v.i : v.b, true;
    if (v.kind == SP_TPL_FLOAT) return *f = v.f, true;
    if (v.kind != SP_TPL_STRING || !v.s->n || v.s->n >= sizeof text) return false;
    memcpy(text, v.s->s, v.s->n);
    text[v.s->n] = 0;
    *f = strtod(text, &end);
    return *end == 0;
}

FILTER to_int PARAMS
{
    double f;
    *out = c->given[0] ? c->args[0] : sp_tpl_int(0);
    if (c->self.kind == SP_TPL_INT) return *out = c->self, SP_OK;
    if (number_of(c->self, &f) && f > -9e18 && f < 9e18) *out = sp_tpl_int((int64_t)f);
    return SP_OK;
}

FILTER to_float PARAMS
{
    double f;
    *out = (sp_tpl_val){.kind = SP_TPL_FLOAT};
    if (c->given[0]) *out = c->args[0];
    if (number_of(c->self, &f)) *out = (sp_tpl_val){.kind = SP_TPL_FLOAT, .f = f};
    return SP_OK;
}

FILTER absolute PARAMS
{
    *out = c->self;
    if (out->kind == SP_TPL_FLOAT) out->f = fabs(out->f);
    if (out->kind == SP_TPL_BOOL) *out = sp_tpl_int(out->b);
    if (out->kind == SP_TPL_INT && out->i == INT64_MIN)
        return sp_tpl_fail(m, SP_E_LIMIT, "an integer is too large");
    if (out->kind == SP_TPL_INT && out->i < 0) out->i = -out->i;
    return SP_OK;
}

/* -- sequences --------------------------------------------------------------------------------- */

FILTER length PARAMS
{
    size_t n = c->self.kind == SP_TPL_STRING ? sp_tpl_length(c->self.s)
               : c->self.kind == SP_TPL_LIST ? c->self.list->n
               : c->self.kind == SP_TPL_DICT ? c->self.dict->n
                                             : 0;
    *out = sp_tpl_int((int64_t)n);
    return SP_OK;
}

FILTER default_ PARAMS
{
    bool absent =
        c->self.kind == SP_TPL_UNDEFINED || (sp_tpl_true(c->args[1]) && !sp_tpl_true(c->self));
    *out = absent ? c->args[0] : c->self;
    if (absent && !c->given[0]) return sp_tpl_str_new(m, (sp_tpl_str){.s = ""}, out);
    return SP_OK;
}

FILTER first PARAMS
{
    const sp_tpl_list *l;
    SP_TRY(sp_tpl_items(m, c->self, &l));
    *out = l->n ? l->v[0] : SP_TPL_UNDEF;
    return SP_OK;
}

FILTER last PARAMS
{
    const sp_tpl_list *l;
    SP_TRY(sp_tpl_items(m, c->self, &l));
    *out = l->n ? l->v[l->n - 1] : SP_TPL_UNDEF;
    return SP_OK;
}

FILTER list PARAMS
{
    const sp_tpl_list *l;
    sp_tpl_list *copy;
    SP_TRY(sp_tpl_items(m, c->self, &l));
    SP_TRY(sp_tpl_list_new(m, l->n, &copy));
    if (l->n) memcpy(copy->v, l->v, l->n * sizeof *copy->v);
    *out = sp_tpl_of_list(copy);
    return SP_OK;
}

FILTER reverse PARAMS
{
    const sp_tpl_list *l;
    sp_tpl_list *copy;
    SP_TRY(sp_tpl_items(m, c->self, &l));
    SP_TRY(sp_tpl_list_new(m, l->n, &copy));
    for (size_t i = 0; i < l->n; i++) copy->v[i] = l->v[l->n - 1 - i];
    *out = sp_tpl_of_list(copy);
    if (c->self.kind != SP_TPL_STRING) return SP_OK;
    sp_tpl_writer w = {0};
    for (size_t i = 0; i < copy->n; i++) SP_TRY(sp_tpl_write(m, &w, copy->v[i].s));
    return sp_tpl_written(m, &w, out);
}

/* attribute_by -- v.a.b for the attribute "a.b". */
static sp_err attribute_by(sp_tpl_machine *m, sp_tpl_val v, const sp_tpl_str *path, sp_tpl_val *out)
{
    for (size_t at = 0; at <= path->n;) {
        const char *dot = sp_tpl_search(path->s + at, path->n - at, ".", 1);
        size_t end = dot ? (size_t)(dot - path->s) : path->n;
        SP_TRY(sp_tpl_attribute(m, v, path->s + at, end - at, &v));
        at = end + 1;
    }
    *out = v;
    return SP_OK;
}

FILTER join PARAMS
{
    const sp_tpl_str *sep, *attribute;
    const sp_tpl_list *l;
    sp_tpl_writer w = {0};
    SP_TRY(sp_tpl_text_argument(m, c, 0, &sep));
    SP_TRY(sp_tpl_text_argument(m, c, 1, &attribute));
    SP_TRY(sp_tpl_items(m, c->self, &l));
    for (size_t i = 0; i < l->n; i++) {
        sp_tpl_val v = l->v[i];
        SP_TRY(sp_tpl_step(m));
        if (attribute) SP_TRY(attribute_by(m, v, attribute, &v));
        if (i && sep) SP_TRY(sp_tpl_write(m, &w, sep));
        SP_TRY(sp_tpl_write_value(m, &w, v));
    }
    return sp_tpl_written(m, &w, out);
}

FILTER items PARAMS
{
    sp_tpl_list *l;
    size_t n = c->self.kind == SP_TPL_DICT ? c->self.dict->n : 0;
    SP_TRY(sp_tpl_list_new(m, n, &l));
    for (size_t i = 0; i < n; i++) {
        sp_tpl_list *pair;
        SP_TRY(sp_tpl_list_new(m, 2, &pair));
        pair->tuple = true;
        pair->v[0] = c->self.dict->v[i].key;
        pair->v[1] = c->self.dict->v[i].value;
        l->v[i] = sp_tpl_of_list(pair);
    }
    *out = sp_tpl_of_list(l);
    return SP_OK;
}

/* by_key -- pairs by their keys: numbers, then strings without regard to case. */
static int by_key(const void *a, const void *b)
{
    const sp_tpl_val *p_key = ((const sp_tpl_val *)a)->list->v, *q_key = ((const sp_tpl_val *)b)->list->v;
    if (p_key->kind != q_key->kind) return p_key->kind == SP_TPL_INT ? -1 : 1;
    if (p_key->kind == SP_TPL_INT) return (p_key->i > q_key->i) - (p_key->i < q_key->i);
    const sp_tpl_str *x = p_key->s, *y = q_key->s;
    for (size_t i = 0; i < SP_MIN(x->n, y->n); i++) {
        int p = (unsigned char)x->s[i], q = (unsigned char)y->s[i];
        if (p >= 'A' && p <= 'Z') p += 32;
        if (q >= 'A' && q <= 'Z') q += 32;
        if (p != q) return p - q;
    }
    return (x->n > y->n) - (x->n < y->n);
}

FILTER dictsort PARAMS
{
    SP_TRY(items(m, c, out));
    if (out->list->n > 1) qsort(out->list->v, out->list->n, sizeof *out->list->v, by_key);
    return SP_OK;
}

/* -- order ----------------------------------------------------------------------------------------- */

/* key_of -- what is compared: the item or its attribute; strings without regard to case, unless the call says so. */
static sp_err key_of(sp_tpl_machine *m, const sp_tpl_call *c, int case_argument, sp_tpl_val v, sp_tpl_val *out)
{
    const sp_tpl_str *attribute;
    SP_TRY(sp_tpl_text_argument(m, c, case_argument + 1, &attribute));
    if (attribute && sp_tpl_search(attribute->s, attribute->n, ",", 1))
        return sp_tpl_fail(m, SP_E_UNSUPPORTED, "an order by several attributes is not supported");
    if (attribute) SP_TRY(attribute_by(m, v, attribute, &v));
    *out = v;
    if (v.kind != SP_TPL_STRING || sp_tpl_true(c->args[case_argument])) return SP_OK;
    return sp_tpl_case(m, v.s, 'l', out);
}

/* keys_of -- the items of a call, and their keys. */
static sp_err keys_of(sp_tpl_machine *m, const sp_tpl_call *c, int case_argument, const sp_tpl_list **l,
                      sp_tpl_list **keys)
{
    SP_TRY(sp_tpl_items(m, c->self, l));
    SP_TRY(sp_tpl_list_new(m, (*l)->n, keys));
    for (size_t i = 0; i < (*l)->n; i++) SP_TRY(key_of(m, c, case_argument, (*l)->v[i], &(*keys)->v[i]));
    return SP_OK;
}

FILTER unique PARAMS
{
    const sp_tpl_list *l;
    sp_tpl_list *kept, *keys, *seen;
    SP_TRY(keys_of(m, c, 0, &l, &keys));
    SP_TRY(sp_tpl_list_new(m, l->n, &kept));
    SP_TRY(sp_tpl_list_new(m, l->n, &seen));
    kept->n = seen->n = 0;
    for (size_t i = 0; i < l->n; i++) {
        bool known;
        SP_TRY(sp_tpl_contains(m, sp_tpl_of_list(seen), keys->v[i], &known));
        if (known) continue;
        seen->v[seen->n++] = keys->v[i];
        kept->v[kept->n++] = l->v[i];
    }
    *out = sp_tpl_of_list(kept);
    return SP_OK;
}

FILTER sort PARAMS
{
    const sp_tpl_list *l;
    sp_tpl_list *sorted, *keys;
    const int falling = sp_tpl_true(c->args[0]) ? -1 : 1;
    SP_TRY(keys_of(m, c, 1, &l, &keys));
    SP_TRY(sp_tpl_list_new(m, l->n, &sorted));
    for (size_t i = 0; i < l->n; i++) { /* equal ones keep their order */
        const sp_tpl_val key = keys->v[i];
        size_t at = i;
        for (; at > 0; at--) {
            int order;
            SP_TRY(sp_tpl_step(m));
            SP_TRY(sp_tpl_compare(m, keys->v[at - 1], key, &order));
            if (order * falling <= 0) break;
            keys->v[at] = keys->v[at - 1];
            sorted->v[at] = sorted->v[at - 1];
        }
        keys->v[at] = key;
        sorted->v[at] = l->v[i];
    }
    *out = sp_tpl_of_list(sorted);
    return SP_OK;
}

/* extreme -- the first of the smallest (sign 1) or largest (-1) items. */
static sp_err extreme(sp_tpl_machine *m, const sp_tpl_call *c, int sign, sp_tpl_val *out)
{
    const sp_tpl_list *l;
    sp_tpl_list *keys;
    size_t best = 0;
    SP_TRY(keys_of(m, c, 0, &l, &keys));
    for (size_t i = 1; i < l->n; i++) {
        int order;
        SP_TRY(sp_tpl_step(m));
        SP_TRY(sp_tpl_compare(m, keys->v[i], keys->v[best], &order));
        if (order * sign < 0) best = i;
    }
    *out = l->n ? l->v[best] : SP_TPL_UNDEF;
    return SP_OK;
}

FILTER min PARAMS
{
    return extreme(m, c, 1, out);
}

FILTER max PARAMS
{
    return extreme(m, c, -1, out);
}

/* -- filters of filters and tests ------------------------------------------------------------------ */

/* items_or_none -- as Jinja's map and select have them: what counts as false has no items. */
static sp_err items_or_none(sp_tpl_machine *m, sp_tpl_val v, const sp_tpl_list **out)
{
    return sp_tpl_items(m, sp_tpl_true(v) ? v : SP_TPL_UNDEF, out);
}

FILTER map PARAMS
{
    const sp_tpl_str *name, *attribute;
    const sp_tpl_list *l;
    sp_tpl_list *made;
    SP_TRY(sp_tpl_text_argument(m, c, 0, &name));
    SP_TRY(sp_tpl_text_argument(m, c, 1, &attribute));
    const sp_tpl_function *f = name ? sp_tpl_find_filter(name->s, name->n) : NULL;
    if (!f && !attribute)
        return sp_tpl_fail(m, SP_E_UNSUPPORTED, "map: filter '%.*s' is not supported",
                           name ? (int)SP_MIN(name->n, 40) : 0, name ? name->s : "");
    if (f && f->n_required)
        return sp_tpl_fail(m, SP_E_UNSUPPORTED, "map: '%s' needs arguments", f->name);
    SP_TRY(items_or_none(m, c->self, &l));
    SP_TRY(sp_tpl_list_new(m, l->n, &made));
    SP_TRY(sp_tpl_deeper(m));
    for (size_t i = 0; i < l->n; i++) {
        sp_tpl_call inner = {.self = l->v[i]};
        SP_TRY(sp_tpl_step(m));
        if (f && f->self && !(f->self >> inner.self.kind & 1))
            return sp_tpl_fail(m, SP_E_ARG, "'%s' of %s", f->name, sp_tpl_kind_name(inner.self));
        SP_TRY(f ? f->run(m, &inner, &made->v[i])
                 : attribute_by(m, l->v[i], attribute, &made->v[i]));
        if (!f && made->v[i].kind == SP_TPL_UNDEFINED && c->given[2]) made->v[i] = c->args[2];
    }
    m->depth--;
    *out = sp_tpl_of_list(made);
    return SP_OK;
}

/* selected -- whether an item passes the test `name`, with one argument or none. */
static sp_err selected(sp_tpl_machine *m, sp_tpl_val v, const sp_tpl_str *name,
                       const sp_tpl_val *arg, bool *out)
{
    sp_tpl_call inner = {.self = v};
    sp_tpl_val result;
    *out = sp_tpl_true(v);
    if (!name) return SP_OK;
    const sp_tpl_function *f = sp_tpl_find_test(name->s, name->n);
    if (!f)
        return sp_tpl_fail(m, SP_E_UNSUPPORTED, "test '%.*s' is not supported",
                           (int)SP_MIN(name->n, 40), name->s);
    if (arg) inner.args[0] = *arg;
    inner.given[0] = arg != NULL;
    if (f->n_required && !arg)
        return sp_tpl_fail(m, SP_E_ARG, "test '%s' needs an argument", f->name);
    SP_TRY(f->run(m, &inner, &result));
    *out = sp_tpl_true(result);
    return SP_OK;
}

/* pick -- items (by_attribute: whose attribute) that pass a test, or those that do not. */
static sp_err pick(sp_tpl_machine *m, const sp_tpl_call *c, bool by_attribute, bool wanted,
                   sp_tpl_val *out)
{
    const sp_tpl_str *attribute = NULL, *test;
    const sp_tpl_list *l;
    sp_tpl_list *kept;
    if (by_attribute) SP_TRY(sp_tpl_text_argument(m, c, 0, &attribute));
    SP_TRY(sp_tpl_text_argument(m, c, by_attribute, &test));
    SP_TRY(items_or_none(m, c->self, &l));
    SP_TRY(sp_tpl_list_new(m, l->n, &kept));
    kept->n = 0;
    for (size_t i = 0; i < l->n; i++) {
        sp_tpl_val v = l->v[i];
        bool yes;
        SP_TRY(sp_tpl_step(m));
        if (attribute) SP_TRY(attribute_by(m, v, attribute, &v));
        SP_TRY(selected(m, v, test, c->given[by_attribute + 1] ? &c->args[by_attribute + 1] : NULL,
                        &yes));
        if (yes == wanted) kept->v[kept->n++] = l->v[i];
    }
    *out = sp_tpl_of_list(kept);
    return SP_OK;
}

FILTER select_ PARAMS
{
    return pick(m, c, false, true, out);
}

FILTER reject PARAMS
{
    return pick(m, c, false, false, out);
}

FILTER selectattr PARAMS
{
    return pick(m, c, true, true, out);
}

FILTER rejectattr PARAMS
{
    return pick(m, c, true, false, out);
}

static const sp_tpl_function filters[] = {
    {"trim", trim, {"chars"}},
    {"upper", upper},
    {"lower", lower},
    {"title", title},
    {"capitalize", capitalize},
    {"string", string},
    {"safe", safe},
    {"replace", replace, {"old", "new", "count"}, 2},
    {"indent", indent, {"width", "first", "blank"}},
    {"tojson", tojson, {"ensure_ascii", "indent", "separators", "sort_keys"}},
    {"int", to_int, {"default"}},
    {"float", to_float, {"default"}},
    {"abs", absolute, .self = N},
    {"length", length, .self = S | L | D | U},
    {"count", length, .self = S | L | D | U},
    {"default", default_, {"default_value", "boolean"}},
    {"d", default_, {"default_value", "boolean"}},
    {"first", first},
    {"last", last},
    {"list", list},
    {"reverse", reverse, .self = S | L},
    {"join", join, {"d", "attribute"}},
    {"items", items, .self = D | U},
    {"dictsort", dictsort, .self = D},
    {"unique", unique, {"case_sensitive", "attribute"}},
    {"sort", sort, {"reverse", "case_sensitive", "attribute"}},
    {"min", min, {"case_sensitive", "attribute"}},
    {"max", max, {"case_sensitive", "attribute"}},
    {"map", map, {"filter", "attribute", "default"}},
    {"select", select_, {"test", "value"}},
    {"reject", reject, {"test", "value"}},
    {"selectattr", selectattr, {"attribute", "test", "value"}, 1},
    {"rejectattr", rejectattr, {"attribute", "test", "value"}, 1},
    {NULL},
};

const sp_tpl_function *sp_tpl_find_filter(const char *name, size_t n)
{
    return sp_tpl_find_in(filters, name, n);
}
