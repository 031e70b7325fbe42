/* When a client that is refused should come back. */
#include "server/http/pace.h"
#include "support/check.h"

#define SECOND 1000000LL

static void without_a_measurement_there_is_no_pace(void **state)
{
    (void)state;
    srv_pace p;
    srv_pace_init(&p);
    assert_int_equal(srv_pace_retry(&p), 1);
    srv_pace_begin(&p, 100000, 0);
    assert_int_equal(srv_pace_retry(&p), 1);
    srv_pace_end(&p, 100000, false, 9 * SECOND); /* canceled: nothing is known */
    assert_int_equal(srv_pace_retry(&p), 1);
    srv_pace_fini(&p);
}

/* 500 tokens a second: what is open, divided by it. */
static void the_pace_divides_what_is_open(void **state)
{
    (void)state;
    srv_pace p;
    srv_pace_init(&p);
    int64_t now = 0;
    for (int i = 0; i < 20; i++) {
        now += 1000 * SECOND; /* idle */
        srv_pace_begin(&p, 1000, now);
        now += 2 * SECOND;
        srv_pace_end(&p, 1000, true, now);
    }
    assert_int_equal(srv_pace_retry(&p), 1); /* nothing waits */
    for (int i = 0; i < 10; i++) srv_pace_begin(&p, 1000, now);
    assert_in_range(srv_pace_retry(&p), 20, 21);
    for (int i = 0; i < 4; i++) srv_pace_end(&p, 1000, false, now); /* they hang up */
    assert_in_range(srv_pace_retry(&p), 12, 13);
    for (int i = 0; i < 200; i++) srv_pace_begin(&p, 1000, now);
    assert_int_equal(srv_pace_retry(&p), SRV_RETRY_MOST);
    srv_pace_fini(&p);
}

/* Requests that run side by side share the time; a pace that changes is followed. */
static void the_pace_follows_changes(void **state)
{
    (void)state;
    srv_pace p;
    srv_pace_init(&p);
    int64_t now = 0;
    for (int i = 0; i < 40; i++) srv_pace_begin(&p, 100, now);
    for (int i = 0; i < 20; i++) srv_pace_end(&p, 100, true, now += SECOND);
    assert_in_range(srv_pace_retry(&p), 19, 21);
    for (int i = 0; i < 15; i++) srv_pace_end(&p, 100, true, now += SECOND / 100);
    assert_in_range(srv_pace_retry(&p), 1, 2);
    srv_pace_fini(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_measurement_there_is_no_pace),
        cmocka_unit_test(the_pace_divides_what_is_open),
        cmocka_unit_test(the_pace_follows_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
