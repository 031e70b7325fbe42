/* Side work: when it rests while answers stream, and when it ends. The clock, the number of answers, and what the
 * connection and the exchange are told are the test's. */
#include <microhttpd.h>
#include <stdarg.h>

#include "server/documents/side.h"
#include "server/http/exchange.h"
#include "support/check.h"

static int64_t now;       /* us */
static int64_t passes_us; /* between two looks at the clock */
static int n_decoding;
static unsigned timeout_s; /* of the connection */
static srv_running watched;

int64_t srv_now_us(void)
{
    now += passes_us;
    return now;
}

int sp_context_n_decoding(const sp_context *c)
{
    return n_decoding;
}

void srv_exchange_watch(const srv_call *call, srv_running r)
{
    watched = r;
}

enum MHD_Result MHD_set_connection_option(struct MHD_Connection *c, enum MHD_CONNECTION_OPTION option, ...)
{
    va_list args;
    assert_int_equal(option, MHD_CONNECTION_OPTION_TIMEOUT);
    va_start(args, option);
    timeout_s = va_arg(args, unsigned);
    va_end(args);
    return MHD_YES;
}

static srv_server server;
static const srv_call call = {.s = &server};

/* begin -- at 1000 us, while n answers stream. */
static srv_side *begin(int n)
{
    now = 1000;
    passes_us = 0;
    n_decoding = n;
    server.o.limits.stall_seconds = 30;
    srv_side *side = srv_side_begin(&call);
    assert_non_null(side);
    return side;
}

/* step -- of `us`, which begins now. */
static void step(srv_side *side, int64_t us)
{
    const sp_embed_opts o = srv_side_opts(side);
    assert_int_equal(o.step_us(o.user), n_decoding ? 10000 : 0);
    now += us;
}

static bool rests_at(srv_side *side, int64_t at)
{
    const sp_embed_opts o = srv_side_opts(side);
    now = at;
    return o.rests(o.user);
}

static void work_rests_ten_times_as_long_as_it_took(void **state)
{
    server.side_until_us = 0;
    srv_side *side = begin(1);
    step(side, 7);
    assert_true(rests_at(side, 1007));
    assert_true(rests_at(side, 1076));
    assert_false(rests_at(side, 1077)); /* computes again, for 3 us */
    assert_true(rests_at(side, 1080));
    assert_true(rests_at(side, 1109));
    assert_false(rests_at(side, 1110));
    n_decoding = 0; /* nobody waits for an answer */
    assert_false(rests_at(side, 1200));
    step(side, 500);
    assert_false(rests_at(side, 2000));
    srv_side_end(&call, side);
    assert_int_equal(server.side_until_us, 1110); /* nor is a rest booked */
}

static void works_rest_one_after_another(void **state)
{
    server.side_until_us = 0;
    srv_side *a = begin(2), *b = srv_side_begin(&call);
    assert_int_equal(server.counts.n_active, 2);
    step(a, 10);
    assert_true(rests_at(a, 1010)); /* until 1110 */
    now = 1000;
    step(b, 20);
    assert_true(rests_at(b, 1020)); /* 200 more */
    assert_false(rests_at(a, 1110));
    assert_true(rests_at(b, 1309));
    now = 1120;
    srv_side_end(&call, a); /* 10 us of it had no rest yet */
    assert_false(rests_at(b, 1310));
    assert_true(rests_at(b, 1311)); /* after the 100 of the other, the 10 of its 1 us */
    assert_true(rests_at(b, 1419));
    assert_false(rests_at(b, 1420));
    srv_side_end(&call, b);
    assert_int_equal(server.counts.n_active, 0);
}

static void work_ends_when_its_client_has_left(void **state)
{
    server.side_until_us = 0;
    srv_side *side = begin(1);
    const sp_embed_opts o = srv_side_opts(side);
    assert_int_equal(timeout_s, 0);
    step(side, 100);
    passes_us = 400;
    assert_false(o.stop(o.user));
    assert_in_range(now, 6900, 8100); /* 500 us by the first look at the clock, the second begins 5,000 of rest */
    passes_us = 0;
    assert_false(srv_side_left(side));
    watched.leave(watched.of);
    assert_true(srv_side_left(side));
    step(side, 100);
    assert_false(rests_at(side, now)); /* nothing is computed any more */
    assert_true(o.stop(o.user));
    watched.end(watched.of);
    srv_side_end(&call, side);
    assert_int_equal(timeout_s, 30);
    assert_null(watched.leave);
    srv_side_end(&call, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_rests_ten_times_as_long_as_it_took),
        cmocka_unit_test(works_rest_one_after_another),
        cmocka_unit_test(work_ends_when_its_client_has_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
