/* test_dispatch.c -- selection of a table of operations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compute/kernels.h"

static void names_choose_tables(void **state)
{
    static const char *const names[] = {"ref", "avx2", "avxvnni", "avx512", "vnni", "amx", "neon", "i8mm"};
    (void)state;
    for (size_t i = 0; i < SP_COUNT(names); i++) {
        const sp_ops *ops = NULL;
        sp_err err = sp_ops_select(names[i], &ops);
        if (err == SP_OK) {
            assert_string_equal(ops->name, names[i]);
            assert_true(ops->matmul && ops->embed && ops->rmsnorm && ops->act_mul);
            assert_true(ops->kv_store && ops->attend);
        } else { /* "ref" runs everywhere */
            assert_true(i > 0 && err == SP_E_UNSUPPORTED && ops == NULL);
            assert_non_null(strstr(sp_error_detail(), names[i]));
        }
    }
}

static void unknown_names_are_refused(void **state)
{
    const sp_ops *ops = NULL;
    (void)state;
    assert_int_equal(sp_ops_select("abacus", &ops), SP_E_ARG);
    assert_non_null(strstr(sp_error_detail(), "abacus"));
    assert_null(ops);
}

static void environment_names_the_default(void **state)
{
    const sp_ops *ops = NULL, *best = NULL;
    (void)state;
    unsetenv("SPOLIA_CPU");
    assert_int_equal(sp_ops_select(NULL, &best), SP_OK);
    setenv("SPOLIA_CPU", "ref", 1);
    assert_int_equal(sp_ops_select(NULL, &ops), SP_OK);
    assert_string_equal(ops->name, "ref");
    setenv("SPOLIA_CPU", "abacus", 1);
    assert_int_equal(sp_ops_select(NULL, &ops), SP_E_ARG);
    assert_int_equal(sp_ops_select("ref", &ops), SP_OK); /* a name is before it */
    assert_string_equal(ops->name, "ref");
    setenv("SPOLIA_CPU", "", 1); /* empty is unset */
    assert_int_equal(sp_ops_select(NULL, &ops), SP_OK);
    assert_ptr_equal(ops, best);
    unsetenv("SPOLIA_CPU");
}

/* F16 weights, and attention, in bf16 are tables of their own; neither keeps the name that was asked for. */
static void tables_of_amx_have_names(void **state)
{
    assert_string_equal(sp_ops_amx("amx", true, true), "amx-f16-attend");
    assert_string_equal(sp_ops_amx("amx", true, false), "amx-f16");
    assert_string_equal(sp_ops_amx("amx", false, true), "amx-attend");
    assert_string_equal(sp_ops_amx("vnni", false, false), "vnni");
    assert_null(sp_ops_amx(NULL, false, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_choose_tables),
        cmocka_unit_test(unknown_names_are_refused),
        cmocka_unit_test(environment_names_the_default),
        cmocka_unit_test(tables_of_amx_have_names),
    };
    return cmocka_run_group_tests_name("dispatch", tests, NULL, NULL);
}
