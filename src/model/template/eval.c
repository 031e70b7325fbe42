/* eval.c -- evaluates the expressions of chat templates. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "model/template/template_int.h"

/* -- arithmetic ------------------------------------------------------------------------------------ */

static sp_err too_large(sp_tpl_machine *m)
{
    return sp_tpl_fail(m, SP_E_LIMIT, "an integer is too large");
}

static sp_err divide(sp_tpl_machine *m, int op, int64_t a, int64_t b, sp_tpl_val *out)
{
    if (b == 0) return sp_tpl_fail(m, SP_E_ARG, "division by zero");
    if (b == -1 && a == INT64_MIN) return too_large(m);
    int64_t q = a / b, r = a % b;
    if (r && (r < 0) != (b < 0)) q--, r += b; /* towards minus infinity, as in Python */
    *out = sp_tpl_int(op == '%' ? r : q);
    return SP_OK;
}

static sp_err integers(sp_tpl_machine *m, int op, int64_t a, int64_t b, sp_tpl_val *out)
{
    int64_t r = 0;
    bool over = false;
    if (op == '%' || op == SP_OP_FLOOR) return divide(m, op, a, b, out);
    if (op == '+') over = __builtin_add_overflow(a, b, &r);
    if (op == '-') over = __builtin_sub_overflow(a, b, &r);
    if (op == '*') over = __builtin_mul_overflow(a, b, &r);
    if (over) return too_large(m);
    *out = sp_tpl_int(r);
    return SP_OK;
}

static double real(sp_tpl_val v)
{
    return v.kind == SP_TPL_FLOAT ? v.f : v.kind == SP_TPL_BOOL ? v.b : (double)v.i;
}

static sp_err numbers(sp_tpl_machine *m, int op, sp_tpl_val a, sp_tpl_val b, sp_tpl_val *out)
{
    if (a.kind != SP_TPL_FLOAT && b.kind != SP_TPL_FLOAT && op != '/')
        return integers(m, op, a.kind == SP_TPL_BOOL ? a.b : a.i, b.kind == SP_TPL_BOOL ? b.b : b.i,
                        out);
    double x = real(a), y = real(b), r;
    if ((op == '/' || op == '%' || op == SP_OP_FLOOR) && y == 0)
        return sp_tpl_fail(m, SP_E_ARG, "division by zero");
    switch (op) {
    case '+':
        r = x + y;
        break;
    case '-':
        r = x - y;
        break;
    case '*':
        r = x * y;
        break;
    case '/':
        r = x / y;
        break;
    case '%':
        r = x - y * floor(x / y);
        break;
    default:
        r = floor(x / y);
    }
    *out = (sp_tpl_val){.kind = SP_TPL_FLOAT, .f = r};
    return SP_OK;
}

static sp_err join_strings(sp_tpl_machine *m, sp_tpl_val a, sp_tpl_val b, sp_tpl_val *out)
{
    sp_tpl_writer w = {0};
    SP_TRY(sp_tpl_write_value(m, &w, a));
    SP_TRY(sp_tpl_write_value(m, &w, b));
    return sp_tpl_written(m, &w, out);
}

static sp_err join_lists(sp_tpl_machine *m, const sp_tpl_list *a, const sp_tpl_list *b,
                         sp_tpl_val *out)
{
    sp_tpl_list *l;
    SP_TRY(sp_tpl_list_new(m, a->n + b->n, &l));
    if (a->n) memcpy(l->v, a->v, a->n * sizeof *l->v);
    if (b->n) memcpy(l->v + a->n, b->v, b->n * sizeof *l->v);
    l->tuple = a->tuple;
    *out = sp_tpl_of_list(l);
    return SP_OK;
}

static sp_err repeat(sp_tpl_machine *m, const sp_tpl_str *s, int64_t n, sp_tpl_val *out)
{
    sp_tpl_writer w = {0};
    for (; n > 0 && s->n; n--) {
        SP_TRY(sp_tpl_step(m));
        SP_TRY(sp_tpl_write(m, &w, s));
    }
    return sp_tpl_written(m, &w, out);
}

static sp_err arithmetic(sp_tpl_machine *m, int op, sp_tpl_val a, sp_tpl_val b, sp_tpl_val *out)
{
    if (op == '~') return join_strings(m, a, b, out);
    if (sp_tpl_number(a) && sp_tpl_number(b)) return numbers(m, op, a, b, out);
    if (op == '+' && a.kind == SP_TPL_STRING && b.kind == SP_TPL_STRING)
        return join_strings(m, a, b, out);
    if (op == '+' && a.kind == SP_TPL_LIST && b.kind == SP_TPL_LIST)
        return join_lists(m, a.list, b.list, out);
    if (op == '*' && a.kind == SP_TPL_STRING && b.kind == SP_TPL_INT)
        return repeat(m, a.s, b.i, out);
    if (op == '%' && a.kind == SP_TPL_STRING)
        return sp_tpl_fail(m, SP_E_UNSUPPORTED, "formatting with '%%' is not supported");
    return sp_tpl_fail(m, SP_E_ARG, "'%s' cannot take %s and %s",
                       op == SP_OP_FLOOR ? "//" : (char[]){(char)op, 0}, sp_tpl_kind_name(a),
                       sp_tpl_kind_name(b));
}

static sp_err binary(sp_tpl_machine *m, const sp_tpl_node *n, sp_tpl_val *out)
{
    sp_tpl_val a, b;
    bool yes;
    int order;
    SP_TRY(sp_tpl_eval(m, n->a, &a));
    SP_TRY(sp_tpl_eval(m, n->b, &b));
    m->line = n->line;
    SP_TRY(sp_tpl_work(m, a));
    SP_TRY(sp_tpl_work(m, b));
    switch (n->op) {
    case SP_OP_EQ:
    case SP_OP_NE:
        SP_TRY(sp_tpl_equal(m, a, b, &yes));
        *out = sp_tpl_bool(yes == (n->op == SP_OP_EQ));
        return SP_OK;
    case SP_OP_IN:
        SP_TRY(sp_tpl_contains(m, b, a, &yes));
        *out = sp_tpl_bool(yes);
        return SP_OK;
    case '<':
    case '>':
    case SP_OP_LE:
    case SP_OP_GE:
        SP_TRY(sp_tpl_compare(m, a, b, &order));
        *out = sp_tpl_bool(n->op == '<'        ? order < 0
                           : n->op == '>'      ? order > 0
                           : n->op == SP_OP_LE ? order <= 0
                                               : order >= 0);
        return SP_OK;
    default:
        return arithmetic(m, n->op, a, b, out);
    }
}

/* -- look-ups -------------------------------------------------------------------------------------- */

static sp_err item(sp_tpl_machine *m, const sp_tpl_node *n, sp_tpl_val *out)
{
    sp_tpl_val v, i;
    SP_TRY(sp_tpl_eval(m, n->a, &v));
    SP_TRY(sp_tpl_eval(m, n->b, &i));
    SP_TRY(sp_tpl_work(m, v));
    if (i.kind == SP_TPL_STRING) return sp_tpl_attribute(m, v, i.s->s, i.s->n, out);
    if (v.kind == SP_TPL_UNDEFINED)
        return sp_tpl_fail(m, SP_E_ARG, "an item of an undefined value");
    *out = SP_TPL_UNDEF;
    if (i.kind != SP_TPL_INT) return SP_OK;
    if (v.kind == SP_TPL_DICT) {
        const sp_tpl_val *found = sp_tpl_dict_get(v.dict, i);
        if (found) *out = *found;
        return SP_OK;
    }
    int64_t len = v.kind == SP_TPL_LIST     ? (int64_t)v.list->n
                  : v.kind == SP_TPL_STRING ? (int64_t)sp_tpl_length(v.s)
                                            : 0;
    if (i.i < 0) i.i += len;
    if (i.i < 0 || i.i >= len) return SP_OK;
    if (v.kind == SP_TPL_STRING)
        return sp_tpl_slice(m, v.s, sp_tpl_offset(v.s, (size_t)i.i),
                            sp_tpl_offset(v.s, (size_t)i.i + 1), out);
    *out = v.list->v[i.i];
    return SP_OK;
}

static sp_err bound(sp_tpl_machine *m, const sp_tpl_node *n, int64_t absent, int64_t *out)
{
    sp_tpl_val v = {.kind = SP_TPL_NONE};
    if (n) SP_TRY(sp_tpl_eval(m, n, &v));
    if (v.kind != SP_TPL_INT && v.kind != SP_TPL_NONE)
        return sp_tpl_fail(m, SP_E_ARG, "a slice by %s", sp_tpl_kind_name(v));
    *out = v.kind == SP_TPL_INT ? v.i : absent;
    return SP_OK;
}

static int64_t clip(int64_t i, int64_t len, int64_t low, int64_t high)
{
    if (i < 0) i += len;
    return i < low ? low : i > high ? high : i;
}

static sp_err slice_list(sp_tpl_machine *m, const sp_tpl_list *l, const int64_t *range,
                         sp_tpl_list **out)
{
    int64_t step = range[2], n = 0;
    for (int64_t i = range[0]; step > 0 ? i < range[1] : i > range[1]; i += step) n++;
    SP_TRY(sp_tpl_list_new(m, (size_t)n, out));
    (*out)->tuple = l->tuple;
    for (int64_t i = 0; i < n; i++) (*out)->v[i] = l->v[range[0] + i * step];
    return SP_OK;
}

static sp_err slice(sp_tpl_machine *m, const sp_tpl_node *n, sp_tpl_val *out)
{
    sp_tpl_val v;
    const sp_tpl_list *items;
    sp_tpl_list *part;
    int64_t range[3];
    SP_TRY(sp_tpl_eval(m, n->a, &v));
    SP_TRY(sp_tpl_work(m, v));
    SP_TRY(bound(m, n->d, 1, &range[2]));
    if (v.kind != SP_TPL_LIST && v.kind != SP_TPL_STRING)
        return sp_tpl_fail(m, SP_E_ARG, "a slice of %s", sp_tpl_kind_name(v));
    int64_t len = v.kind == SP_TPL_LIST ? (int64_t)v.list->n : (int64_t)sp_tpl_length(v.s);
    bool back = range[2] < 0;
    if (range[2] == 0) return sp_tpl_fail(m, SP_E_ARG, "a slice with step 0");
    range[2] = SP_MAX(SP_MIN(range[2], len + 1), -len - 1);
    SP_TRY(bound(m, n->b, back ? len - 1 : 0, &range[0]));
    SP_TRY(bound(m, n->c, back ? -len - 1 : len, &range[1]));
    range[0] = clip(range[0], len, back ? -1 : 0, back ? len - 1 : len);
    range[1] = clip(range[1], len, back ? -1 : 0, back ? len - 1 : len);
    if (v.kind == SP_TPL_STRING && range[2] == 1)
        return sp_tpl_slice(m, v.s, sp_tpl_offset(v.s, (size_t)range[0]),
                            sp_tpl_offset(v.s, (size_t)SP_MAX(range[1], range[0])), out);
    SP_TRY(sp_tpl_items(m, v, &items));
    SP_TRY(slice_list(m, items, range, &part));
    *out = sp_tpl_of_list(part);
    if (v.kind == SP_TPL_LIST) return SP_OK;
    sp_tpl_writer w = {0};
    for (size_t i = 0; i < part->n; i++) SP_TRY(sp_tpl_write(m, &w, part->v[i].s));
    return sp_tpl_written(m, &w, out);
}

/* -- calls ----------------------------------------------------------------------------------------- */

static int parameter(const sp_tpl_function *f, const sp_tpl_str *name)
{
    for (int i = 0; f->params[i]; i++)
        if (strlen(f->params[i]) == name->n && memcmp(f->params[i], name->s, name->n) == 0)
            return i;
    return -1;
}

sp_err sp_tpl_bind(sp_tpl_machine *m, const sp_tpl_function *f, const sp_tpl_node *args,
                   sp_tpl_call *c)
{
    int n_params = 0, at = 0;
    while (f->params[n_params]) n_params++;
    for (; args; args = args->next) {
        int i = args->text.n ? parameter(f, &args->text) : at++;
        if (i < 0 || i >= n_params)
            return sp_tpl_fail(m, SP_E_UNSUPPORTED, "argument '%.*s' of '%s' is not supported",
                               args->text.n ? (int)SP_MIN(args->text.n, 40) : 8,
                               args->text.n ? args->text.s : "too many", f->name);
        SP_TRY(sp_tpl_eval(m, args->a, &c->args[i]));
        c->given[i] = true;
    }
    for (int i = 0; i < f->n_required; i++)
        if (!c->given[i])
            return sp_tpl_fail(m, SP_E_ARG, "'%s' needs its argument '%s'", f->name, f->params[i]);
    if (f->self && !(f->self >> c->self.kind & 1))
        return sp_tpl_fail(m, SP_E_ARG, "'%s' of %s", f->name, sp_tpl_kind_name(c->self));
    return SP_OK;
}

static bool name_is(const sp_tpl_str *name, const char *what)
{
    return strlen(what) == name->n && memcmp(what, name->s, name->n) == 0;
}

static sp_err no_function(const sp_tpl_machine *m, const sp_tpl_node *n, sp_tpl_val self)
{
    const int len = (int)SP_MIN(n->text.n, 40);
    if (n->kind == SP_NODE_METHOD)
        return sp_tpl_fail(m, SP_E_UNSUPPORTED, "%s has no method '%.*s', or it is not supported",
                           sp_tpl_kind_name(self), len, n->text.s);
    return sp_tpl_fail(m, SP_E_UNSUPPORTED, "%s '%.*s' is not supported", n->kind == SP_NODE_TEST ? "test" : "filter",
                       len, n->text.s);
}

static sp_err apply(sp_tpl_machine *m, const sp_tpl_node *n, sp_tpl_val *out)
{
    sp_tpl_call c = {0};
    SP_TRY(sp_tpl_eval(m, n->a, &c.self));
    m->line = n->line;
    if (n->kind == SP_NODE_METHOD && c.self.kind == SP_TPL_STRING && name_is(&n->text, "format"))
        return sp_tpl_format(m, c.self.s, n->list, out);
    const sp_tpl_function *f =
        n->kind == SP_NODE_METHOD ? sp_tpl_find_method(n->text.s, n->text.n, c.self.kind) : n->fn;
    if (!f) return no_function(m, n, c.self);
    SP_TRY(sp_tpl_bind(m, f, n->list, &c));
    SP_TRY(sp_tpl_work(m, c.self));
    m->line = n->line;
    return f->run(m, &c, out);
}

/* spread -- arguments with the items of *lists in their places. */
static sp_err spread(sp_tpl_machine *m, const sp_tpl_node *args, sp_tpl_node **out)
{
    *out = NULL;
    for (const sp_tpl_node *a = args; a; a = a->next) {
        sp_tpl_val v = {0};
        if (a->op == '*') SP_TRY(sp_tpl_eval(m, a->a, &v));
        if (a->op == '*' && v.kind != SP_TPL_LIST)
            return sp_tpl_fail(m, SP_E_ARG, "%s after '*' is no list", sp_tpl_kind_name(v));
        const size_t n = a->op == '*' ? v.list->n : 1;
        sp_tpl_node *copies = NULL;
        SP_TRY(sp_tpl_take(m, SP_MAX(n, 1) * 2, sizeof *copies, &copies));
        for (size_t i = 0; i < n; i++, out = &(*out)->next) {
            *out = &copies[2 * i];
            **out = *a;
            (*out)->next = NULL;
            if (a->op != '*') continue;
            copies[2 * i + 1] = (sp_tpl_node){.kind = SP_NODE_LITERAL, .line = a->line, .value = v.list->v[i]};
            (*out)->a = &copies[2 * i + 1];
        }
    }
    return SP_OK;
}

static sp_err call(sp_tpl_machine *m, const sp_tpl_node *n, sp_tpl_val *out)
{
    sp_tpl_val callee;
    bool spreads = false;
    for (const sp_tpl_node *a = n->list; a; a = a->next) spreads |= a->op == '*';
    if (n->a->kind == SP_NODE_NAME && !sp_tpl_get(m, n->a->text.s, n->a->text.n)) {
        if (spreads) return sp_tpl_fail(m, SP_E_UNSUPPORTED, "the argument list '*' of a function");
        return sp_tpl_call_global(m, n, out);
    }
    SP_TRY(sp_tpl_eval(m, n->a, &callee));
    if (callee.kind == SP_TPL_MACRO && callee.macro) {
        sp_tpl_node *args = n->list;
        if (spreads) SP_TRY(spread(m, n->list, &args));
        return sp_tpl_call_macro(m, callee.macro, args, out);
    }
    return sp_tpl_fail(m, SP_E_ARG, "%s cannot be called", sp_tpl_kind_name(callee));
}

/* -- the rest --------------------------------------------------------------------------------------- */

static sp_err list(sp_tpl_machine *m, const sp_tpl_node *n, sp_tpl_val *out)
{
    size_t len = 0, i = 0;
    sp_tpl_list *l;
    for (const sp_tpl_node *e = n->list; e; e = e->next) len++;
    SP_TRY(sp_tpl_list_new(m, len, &l));
    l->tuple = n->op == 't';
    for (const sp_tpl_node *e = n->list; e; e = e->next) SP_TRY(sp_tpl_eval(m, e, &l->v[i++]));
    *out = sp_tpl_of_list(l);
    return SP_OK;
}

static sp_err dict(sp_tpl_machine *m, const sp_tpl_node *n, sp_tpl_val *out)
{
    sp_tpl_dict *d;
    SP_TRY(sp_tpl_dict_new(m, &d));
    for (const sp_tpl_node *e = n->list; e; e = e->next->next) {
        sp_tpl_val key, value;
        SP_TRY(sp_tpl_eval(m, e, &key));
        SP_TRY(sp_tpl_eval(m, e->next, &value));
        if (key.kind != SP_TPL_STRING && key.kind != SP_TPL_INT)
            return sp_tpl_fail(m, SP_E_UNSUPPORTED, "a key that is %s is not supported",
                               sp_tpl_kind_name(key));
        SP_TRY(sp_tpl_dict_put(m, d, key, value));
    }
    *out = (sp_tpl_val){.kind = SP_TPL_DICT, .dict = d};
    return SP_OK;
}

static sp_err logic(sp_tpl_machine *m, const sp_tpl_node *n, sp_tpl_val *out)
{
    sp_tpl_val v;
    SP_TRY(sp_tpl_eval(m, n->a, &v));
    bool yes = sp_tpl_true(v);
    if (n->kind == SP_NODE_NOT) {
        *out = sp_tpl_bool(!yes);
    } else if (n->kind == SP_NODE_IF_ELSE) {
        const sp_tpl_node *branch = yes ? n->b : n->c;
        *out = SP_TPL_UNDEF;
        return branch ? sp_tpl_eval(m, branch, out) : SP_OK;
    } else if (yes == (n->kind == SP_NODE_OR)) {
        *out = v;
    } else {
        return sp_tpl_eval(m, n->b, out);
    }
    return SP_OK;
}

static sp_err negate(sp_tpl_machine *m, const sp_tpl_node *n, sp_tpl_val *out)
{
    sp_tpl_val v;
    SP_TRY(sp_tpl_eval(m, n->a, &v));
    return arithmetic(m, '-', sp_tpl_int(0), v, out);
}

static sp_err evaluate(sp_tpl_machine *m, const sp_tpl_node *n, sp_tpl_val *out)
{
    sp_tpl_val v;
    sp_tpl_variable *found;
    switch (n->kind) {
    case SP_NODE_LITERAL:
        *out = n->value;
        return SP_OK;
    case SP_NODE_NAME:
        found = sp_tpl_get(m, n->text.s, n->text.n);
        *out = found ? found->value : SP_TPL_UNDEF;
        if (!found && sp_tpl_is_global(n->text.s, n->text.n)) out->kind = SP_TPL_MACRO;
        return SP_OK;
    case SP_NODE_ATTR:
        SP_TRY(sp_tpl_eval(m, n->a, &v));
        m->line = n->line;
        SP_TRY(sp_tpl_work(m, v));
        return sp_tpl_attribute(m, v, n->text.s, n->text.n, out);
    case SP_NODE_ITEM:
        return item(m, n, out);
    case SP_NODE_SLICE:
        return slice(m, n, out);
    case SP_NODE_METHOD:
    case SP_NODE_FILTER:
    case SP_NODE_TEST:
        return apply(m, n, out);
    case SP_NODE_CALL:
        return call(m, n, out);
    case SP_NODE_BINARY:
        return binary(m, n, out);
    case SP_NODE_NEGATE:
        return negate(m, n, out);
    case SP_NODE_LIST:
        return list(m, n, out);
    case SP_NODE_DICT:
        return dict(m, n, out);
    default:
        return logic(m, n, out);
    }
}

sp_err sp_tpl_eval(sp_tpl_machine *m, const sp_tpl_node *n, sp_tpl_val *out)
{
    SP_TRY(sp_tpl_deeper(m));
    SP_TRY(evaluate(m, n, out));
    m->depth--;
    return SP_OK;
}
