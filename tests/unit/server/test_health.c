/* test_health.c -- what a server says of itself. */
#include "support/check.h"

#include "server/routes.h"

static void a_step_of_a_minute_is_no_health(void **state)
{
    assert_string_equal(srv_health_of(false, 0), "ok");
    assert_string_equal(srv_health_of(false, 60000000), "ok");
    assert_string_equal(srv_health_of(false, 60000001), "stalled");
    assert_string_equal(srv_health_of(true, 60000001), "draining");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_step_of_a_minute_is_no_health)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
