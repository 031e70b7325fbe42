/* Accounts of requests: who may read them, and how many are kept. */
#include <stdio.h>

#include "server/api/explain.h"
#include "support/check.h"

/* number_of -- what was added under this name; -1: nothing, or it is another tenant's. */
static int number_of(srv_explain *x, const char *salt, const char *id)
{
    json_t *o = srv_explain_get(x, salt, id);
    const int n = o ? (int)json_integer_value(o) : -1;
    json_decref(o);
    return n;
}

static void add(srv_explain *x, const char *salt, int n)
{
    char id[16];
    snprintf(id, sizeof id, "id%d", n);
    srv_explain_add(x, salt, id, "", json_integer(n));
}

static void an_account_is_its_tenants(void **state)
{
    srv_explain *x = srv_explain_open();
    assert_non_null(x);
    srv_explain_add(x, "red", "one", "of-the-client", json_integer(1));
    srv_explain_add(x, NULL, "two", "", json_integer(2));
    assert_int_equal(number_of(x, "red", "one"), 1);
    assert_int_equal(number_of(x, "red", "of-the-client"), 1);
    assert_int_equal(number_of(x, "blue", "one"), -1);
    assert_int_equal(number_of(x, NULL, "one"), -1);
    assert_int_equal(number_of(x, "red", "two"), -1);
    assert_int_equal(number_of(x, "", "two"), 2);
    assert_int_equal(number_of(x, NULL, ""), -1); /* no name is none */
    srv_explain_add(x, "red", "one", "", json_integer(3)); /* the newest of a name */
    assert_int_equal(number_of(x, "red", "one"), 3);
    srv_explain_close(x);
}

static void a_tenant_with_many_requests_loses_its_own(void **state)
{
    srv_explain *x = srv_explain_open();
    add(x, "blue", 0);
    for (int i = 0; i <= SRV_EXPLAINED; i++) add(x, "red", i);
    assert_int_equal(number_of(x, "red", "id0"), -1);
    assert_int_equal(number_of(x, "red", "id1"), 1);
    assert_int_equal(number_of(x, "blue", "id0"), 0);
    srv_explain_close(x);
}

static void of_all_the_oldest_go(void **state)
{
    srv_explain *x = srv_explain_open();
    char salt[16];
    for (int i = 0; i <= SRV_EXPLAINED_ALL; i++) {
        snprintf(salt, sizeof salt, "t%d", i);
        add(x, salt, i);
    }
    assert_int_equal(number_of(x, "t0", "id0"), -1);
    assert_int_equal(number_of(x, "t1", "id1"), 1);
    assert_int_equal(number_of(x, salt, "id16384"), SRV_EXPLAINED_ALL);
    srv_explain_close(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_account_is_its_tenants),
                                       cmocka_unit_test(a_tenant_with_many_requests_loses_its_own),
                                       cmocka_unit_test(of_all_the_oldest_go)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
