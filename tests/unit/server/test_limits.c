/* What one key may take: places in the queue, requests and tokens of a minute. */
#include <string.h>

#include "server/http/limits.h"
#include "support/check.h"

#define SECOND INT64_C(1000000)

static srv_tenant tenant(const char *salt, srv_limits l)
{
    srv_tenant t = {.limits = l};
    strcpy(t.salt, salt);
    return t;
}

/* enter_all -- requests of a tenant until one is refused: how many were admitted. */
static int enter_all(srv_quotas *q, const srv_tenant *t, size_t n_tenants, srv_account **place)
{
    srv_left left;
    int n = 0;
    while (n < 1000 && srv_quotas_enter(q, t, n_tenants, 1, place, &left) == SRV_ADMITTED) n++;
    return n;
}

static void a_key_alone_uses_all_places(void **state)
{
    srv_account *place;
    const srv_tenant a = tenant("", (srv_limits){0});
    srv_quotas *q = srv_quotas_open(20);
    assert_int_equal(enter_all(q, &a, 1, &place), 20);
    srv_quotas_leave(q, place, 3);
    assert_int_equal(enter_all(q, &a, 1, &place), 3);
    srv_quotas_close(q);
}

static void a_flood_of_one_key_leaves_the_others_their_places(void **state)
{
    srv_account *of_a, *of_b, *of_c;
    const srv_tenant a = tenant("a", (srv_limits){0}), b = tenant("b", (srv_limits){0}),
                     c = tenant("c", (srv_limits){0});
    srv_quotas *q = srv_quotas_open(24);
    assert_int_equal(enter_all(q, &a, 3, &of_a), 24 - 2 * 4); /* a sixth is reserved for each of three */
    assert_int_equal(enter_all(q, &b, 3, &of_b), 4);
    assert_int_equal(enter_all(q, &c, 3, &of_c), 4);
    srv_quotas_leave(q, of_a, 6);
    assert_int_equal(enter_all(q, &c, 3, &of_c), 6);
    srv_quotas_close(q);
    q = srv_quotas_open(2); /* fewer places than keys: each has one */
    assert_true(enter_all(q, &a, 3, &of_a) >= 1);
    assert_int_equal(enter_all(q, &b, 3, &of_b), 1);
    assert_int_equal(enter_all(q, &c, 3, &of_c), 1);
    srv_quotas_close(q);
}

static void requests_of_a_minute(void **state)
{
    srv_account *place;
    srv_left left;
    const srv_tenant a = tenant("0123456789-a", (srv_limits){.requests = 6}),
                     b = tenant("0123456789-b", (srv_limits){0});
    srv_quotas *q = srv_quotas_open(100);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(srv_quotas_enter(q, &a, 2, SECOND, &place, &left), SRV_ADMITTED);
        assert_int_equal(left.requests, 5 - i);
    }
    assert_int_equal(srv_quotas_enter(q, &a, 2, SECOND, &place, &left), SRV_TOO_MANY_REQUESTS);
    assert_true(left.retry_s > 9.9 && left.retry_s < 10.1);
    assert_true(left.requests_full_s > 59.9 && left.requests_full_s < 60.1);
    assert_int_equal(srv_quotas_enter(q, &b, 2, SECOND, &place, &left), SRV_ADMITTED);
    assert_int_equal(srv_quotas_enter(q, &a, 2, 12 * SECOND, &place, &left), SRV_ADMITTED);
    assert_int_equal(srv_quotas_enter(q, &a, 2, 12 * SECOND, &place, &left), SRV_TOO_MANY_REQUESTS);
    srv_quotas_close(q);
}

static void tokens_of_a_minute(void **state)
{
    srv_account *place;
    srv_left left;
    const srv_tenant a = tenant("a", (srv_limits){.tokens = 600});
    srv_quotas *q = srv_quotas_open(100);
    assert_int_equal(srv_quotas_enter(q, &a, 1, SECOND, &place, &left), SRV_ADMITTED);
    assert_int_equal(srv_quotas_prompt(q, place, 601, SECOND, &left), SRV_TOO_LONG);
    assert_int_equal(srv_quotas_prompt(q, place, 500, SECOND, &left), SRV_ADMITTED);
    assert_int_equal(left.tokens, 100);
    assert_int_equal(srv_quotas_prompt(q, place, 110, SECOND, &left), SRV_TOO_MANY_TOKENS);
    assert_true(left.retry_s > 0.9 && left.retry_s < 1.1);
    srv_quotas_answer(q, place, 200, SECOND); /* an answer may overdraw */
    assert_int_equal(srv_quotas_enter(q, &a, 1, SECOND, &place, &left), SRV_TOO_MANY_TOKENS);
    assert_int_equal(left.tokens, 0);
    assert_true(left.retry_s > 10 && left.retry_s < 10.2); /* until it has one token: 101 of 600 */
    assert_int_equal(srv_quotas_enter(q, &a, 1, 12 * SECOND, &place, &left), SRV_ADMITTED);
    srv_quotas_close(q);
}

static void a_limit_that_a_reload_brings_begins_with_a_full_minute(void **state)
{
    srv_account *place;
    srv_left left;
    const srv_tenant free_of = tenant("a", (srv_limits){0}),
                     limited = tenant("a", (srv_limits){.requests = 6, .tokens = 600});
    srv_quotas *q = srv_quotas_open(100);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(srv_quotas_enter(q, &free_of, 1, (i + 1) * SECOND, &place, &left), SRV_ADMITTED);
        assert_int_equal(srv_quotas_prompt(q, place, 5000, (i + 1) * SECOND, &left), SRV_ADMITTED);
        srv_quotas_answer(q, place, 5000, (i + 1) * SECOND);
        srv_quotas_leave(q, place, 1);
    }
    assert_int_equal(srv_quotas_enter(q, &limited, 1, 51 * SECOND, &place, &left), SRV_ADMITTED);
    assert_int_equal(left.requests, 5);
    assert_int_equal(left.tokens, 600);
    assert_int_equal(srv_quotas_prompt(q, place, 600, 51 * SECOND, &left), SRV_ADMITTED);
    srv_quotas_close(q);
}

static void an_allowance_is_never_more_than_a_minute(void **state)
{
    srv_account *place;
    srv_left left;
    const srv_tenant a = tenant("a", (srv_limits){.requests = 6});
    srv_quotas *q = srv_quotas_open(1);
    assert_int_equal(srv_quotas_enter(q, &a, 1, SECOND, &place, &left), SRV_ADMITTED);
    assert_int_equal(srv_quotas_enter(q, &a, 1, 3600 * SECOND, &place, &left), SRV_NO_PLACE);
    assert_int_equal(left.requests, 6); /* and what is refused for want of a place costs none */
    srv_quotas_close(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_alone_uses_all_places),
        cmocka_unit_test(a_flood_of_one_key_leaves_the_others_their_places),
        cmocka_unit_test(requests_of_a_minute),
        cmocka_unit_test(tokens_of_a_minute),
        cmocka_unit_test(a_limit_that_a_reload_brings_begins_with_a_full_minute),
        cmocka_unit_test(an_allowance_is_never_more_than_a_minute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
