/* tests.c -- the tests of chat templates: `x is name`. */
#include <string.h>

#include "model/template/template_int.h"

#define TEST   static sp_err
#define PARAMS (sp_tpl_machine * m, const sp_tpl_call *c, sp_tpl_val *out)

/* A test of the kind of its value: one line. */
#define KIND_TEST(name, condition)                                                                 \
    TEST name PARAMS                                                                               \
    {                                                                                              \
        sp_tpl_kind k = c->self.kind;                                                              \
        *out = sp_tpl_bool(condition);                                                             \
        return SP_OK;                                                                              \
    }

KIND_TEST(defined, k != SP_TPL_UNDEFINED)
KIND_TEST(undefined, k == SP_TPL_UNDEFINED)
KIND_TEST(none, k == SP_TPL_NONE)
KIND_TEST(boolean, k == SP_TPL_BOOL)
KIND_TEST(integer, k == SP_TPL_INT)
KIND_TEST(float_, k == SP_TPL_FLOAT)
KIND_TEST(number, k == SP_TPL_INT || k == SP_TPL_FLOAT || k == SP_TPL_BOOL)
KIND_TEST(string, k == SP_TPL_STRING)
KIND_TEST(mapping, k == SP_TPL_DICT && !c->self.dict->is_namespace)
KIND_TEST(iterable, k == SP_TPL_STRING || k == SP_TPL_LIST || k == SP_TPL_UNDEFINED ||
                        (k == SP_TPL_DICT && !c->self.dict->is_namespace))
KIND_TEST(sequence, k == SP_TPL_STRING || k == SP_TPL_LIST || k == SP_TPL_UNDEFINED ||
                        (k == SP_TPL_DICT && !c->self.dict->is_namespace))
KIND_TEST(callable, k == SP_TPL_MACRO)
KIND_TEST(true_, k == SP_TPL_BOOL && c->self.b)
KIND_TEST(false_, k == SP_TPL_BOOL && !c->self.b)

static sp_err order(sp_tpl_machine *m, const sp_tpl_call *c, bool less, bool equal, bool greater,
                    sp_tpl_val *out)
{
    int d;
    SP_TRY(sp_tpl_compare(m, c->self, c->args[0], &d));
    *out = sp_tpl_bool(d < 0 ? less : d == 0 ? equal : greater);
    return SP_OK;
}

TEST less PARAMS
{
    return order(m, c, true, false, false, out);
}

TEST less_or_equal PARAMS
{
    return order(m, c, true, true, false, out);
}

TEST greater PARAMS
{
    return order(m, c, false, false, true, out);
}

TEST greater_or_equal PARAMS
{
    return order(m, c, false, true, true, out);
}

TEST equal PARAMS
{
    bool yes;
    SP_TRY(sp_tpl_equal(m, c->self, c->args[0], &yes));
    *out = sp_tpl_bool(yes);
    return SP_OK;
}

TEST not_equal PARAMS
{
    bool yes;
    SP_TRY(sp_tpl_equal(m, c->self, c->args[0], &yes));
    *out = sp_tpl_bool(!yes);
    return SP_OK;
}

/* same -- identity: for values without one, equality of kind and value. */
TEST same PARAMS
{
    if (c->self.kind != c->args[0].kind) return *out = sp_tpl_bool(false), SP_OK;
    return equal(m, c, out);
}

TEST in PARAMS
{
    bool yes;
    SP_TRY(sp_tpl_contains(m, c->args[0], c->self, &yes));
    *out = sp_tpl_bool(yes);
    return SP_OK;
}

static sp_err remainder_of(sp_tpl_machine *m, const sp_tpl_call *c, int64_t by, int64_t *out)
{
    if (c->self.kind != SP_TPL_INT)
        return sp_tpl_fail(m, SP_E_ARG, "%s has no remainder", sp_tpl_kind_name(c->self));
    if (by == 0) return sp_tpl_fail(m, SP_E_ARG, "division by zero");
    *out = by == -1 ? 0 : c->self.i % by;
    return SP_OK;
}

TEST even PARAMS
{
    int64_t r = 0;
    SP_TRY(remainder_of(m, c, 2, &r));
    *out = sp_tpl_bool(r == 0);
    return SP_OK;
}

TEST odd PARAMS
{
    int64_t r = 0;
    SP_TRY(remainder_of(m, c, 2, &r));
    *out = sp_tpl_bool(r != 0);
    return SP_OK;
}

TEST divisible PARAMS
{
    int64_t r = 0;
    SP_TRY(remainder_of(m, c, c->args[0].kind == SP_TPL_INT ? c->args[0].i : 0, &r));
    *out = sp_tpl_bool(r == 0);
    return SP_OK;
}

static const sp_tpl_function tests[] = {
    {"defined", defined},
    {"undefined", undefined},
    {"none", none},
    {"boolean", boolean},
    {"integer", integer},
    {"float", float_},
    {"number", number},
    {"string", string},
    {"mapping", mapping},
    {"iterable", iterable},
    {"sequence", sequence},
    {"callable", callable},
    {"true", true_},
    {"false", false_},
    {"even", even},
    {"odd", odd},
    {"divisibleby", divisible, {"num"}, 1},
    {"eq", equal, {"other"}, 1},
    {"equalto", equal, {"other"}, 1},
    {"==", equal, {"other"}, 1},
    {"ne", not_equal, {"other"}, 1},
    {"!=", not_equal, {"other"}, 1},
    {"lt", less, {"other"}, 1},
    {"lessthan", less, {"other"}, 1},
    {"<", less, {"other"}, 1},
    {"le", less_or_equal, {"other"}, 1},
    {"<=", less_or_equal, {"other"}, 1},
    {"gt", greater, {"other"}, 1},
    {"greaterthan", greater, {"other"}, 1},
    {">", greater, {"other"}, 1},
    {"ge", greater_or_equal, {"other"}, 1},
    {">=", greater_or_equal, {"other"}, 1},
    {"sameas", same, {"other"}, 1},
    {"in", in, {"seq"}, 1},
    {NULL},
};

const sp_tpl_function *sp_tpl_find_in(const sp_tpl_function *table, const char *name, size_t n)
{
    for (; table->name; table++)
        if (strlen(table->name) == n && memcmp(table->name, name, n) == 0) return table;
    return NULL;
}

const sp_tpl_function *sp_tpl_find_test(const char *name, size_t n)
{
    return sp_tpl_find_in(tests, name, n);
}
