/* test_slots_moved.c -- what a client makes of replies about slots, also of those that no sound cluster gives. */
#include "support/check.h"

#include "store/remote/redis/redis_int.h"
#include "store/remote/redis/slots.h"
#include "support/canned.h"

static canned one, two;

static sp_redis *connect_to(const canned *c)
{
    sp_redis_address a;
    sp_redis *r;
    char url[64];
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", c->port);
    assert_ok(sp_redis_parse(url, &a));
    assert_ok(sp_redis_new(&a, 5000000, NULL, &r));
    return r;
}

static sp_err look(sp_redis *r)
{
    return sp_redis_run(r, &(sp_redis_command){.words = {"EXISTS", "k"}, .n = 2});
}

/* say_slots -- one server has all of them. */
static void say_slots(int port, char *answer, size_t size)
{
    snprintf(answer, size, "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n", port);
}

static int port_of(sp_redis *r, int slot)
{
    return sp_cluster_node_of(r, slot)->address.port;
}

/* -- redirections ------------------------------------------------------------------------------------- */

static void send_in_circles(canned *c, const char *request, char *answer, size_t size)
{
    if (strstr(request, "SLOTS"))
        say_slots(one.port, answer, size);
    else if (c->n_requests < 60)
        snprintf(answer, size, "-MOVED %d 127.0.0.1:%d\r\n", sp_slot_of("k", 1), one.port);
}

static void redirections_end(void **state)
{
    canned_start(&one, "\r\n", send_in_circles);
    sp_redis *r = connect_to(&one);
    assert_fails(look(r), SP_E_IO, "MOVED");
    assert_true(one.n_requests >= 2 && one.n_requests <= 2 * (SP_MOST_HOPS + 2));
    sp_redis_free(r);
    canned_stop(&one);
}

static atomic_bool hangs_up;
static atomic_int n_broken; /* requests that do not begin as one */

static void hang_up_sometimes(canned *c, const char *request, char *answer, size_t size)
{
    n_broken += *request != '*';
    if (strstr(request, "SLOTS"))
        say_slots(one.port, answer, size);
    else if (strstr(request, "PING"))
        snprintf(answer, size, "+PONG\r\n");
    else if (!hangs_up)
        snprintf(answer, size, ":1\r\n");
}

static void a_new_connection_begins_with_a_whole_command(void **state)
{
    canned_start(&one, "\r\n", hang_up_sometimes);
    sp_redis *r = connect_to(&one);
    for (int i = 0; i < 3; i++) {
        hangs_up = false;
        sp_err err = look(r);
        for (int k = 0; k < 15000 && err != SP_OK; k++) { /* it is left alone for a moment */
            usleep(20000);
            err = look(r);
        }
        assert_ok(err);
        hangs_up = true;
        assert_fails(look(r), SP_E_IO, "redis at 127.0.0.1");
    }
    assert_int_equal(n_broken, 0);
    sp_redis_free(r);
    canned_stop(&one);
}

static void send_nowhere(canned *c, const char *request, char *answer, size_t size)
{
    if (strstr(request, "SLOTS"))
        say_slots(one.port, answer, size);
    else
        snprintf(answer, size, "-MOVED %d 127.0.0.1:65536\r\n", sp_slot_of("k", 1));
}

static void a_redirection_to_no_port_is_not_followed(void **state)
{
    canned_start(&one, "\r\n", send_nowhere);
    sp_redis *r = connect_to(&one);
    assert_fails(look(r), SP_E_IO, "65536");
    assert_int_equal(r->nodes.n, 1);
    sp_redis_free(r);
    canned_stop(&one);
}

/* The slot is on its way from one to two, which answers those alone who say so. */
static void send_on(canned *c, const char *request, char *answer, size_t size)
{
    if (strstr(request, "SLOTS"))
        say_slots(one.port, answer, size);
    else if (c == &one)
        snprintf(answer, size, "-ASK %d 127.0.0.1:%d\r\n", sp_slot_of("k", 1), two.port);
    else if (strstr(request, "ASKING"))
        snprintf(answer, size, strstr(request, "EXISTS") ? "+OK\r\n:1\r\n" : "+OK\r\n");
    else
        snprintf(answer, size, "-MOVED %d 127.0.0.1:%d\r\n", sp_slot_of("k", 1), one.port);
}

static void a_slot_on_its_way_still_has_its_server(void **state)
{
    canned_start(&two, "\r\n", send_on);
    canned_start(&one, "\r\n", send_on);
    sp_redis *r = connect_to(&one);
    assert_ok(look(r));
    assert_int_equal(port_of(r, sp_slot_of("k", 1)), one.port);
    assert_ok(look(r));
    sp_redis_free(r);
    canned_stop(&one);
    canned_stop(&two);
}

static void send_one_for_each(canned *c, const char *request, char *answer, size_t size)
{
    size_t n = 0;
    if (strstr(request, "SLOTS")) {
        say_slots(one.port, answer, size);
        return;
    }
    for (const char *s = request; (s = strstr(s, "EXISTS")); s++)
        n += (size_t)snprintf(answer + n, size - n, ":1\r\n");
}

/* A connection whose reply is awaited is not asked for the slots: it would take that reply for theirs. */
static void slots_are_asked_for_when_nothing_is_awaited(void **state)
{
    const sp_redis_command c = {.words = {"EXISTS", "k"}, .n = 2};
    canned_start(&one, "\r\n", send_one_for_each);
    sp_redis *r = connect_to(&one);
    sp_redis_answer a[2];
    assert_ok(look(r));
    assert_ok(sp_redis_send(r, &c, 1));
    r->stale = true;
    r->asked_us = 0;
    assert_ok(sp_redis_send(r, &c, 2));
    assert_true(r->stale);
    for (int i = 0; i < 2; i++) {
        assert_true(sp_redis_receive(r, &a[i]));
        assert_ok(a[i].err);
        assert_true(a[i].id == (uint32_t)i + 1 && a[i].reply->type == REDIS_REPLY_INTEGER);
        freeReplyObject(a[i].reply);
    }
    assert_ok(look(r)); /* now they are */
    assert_false(r->stale);
    sp_redis_free(r);
    canned_stop(&one);
}

/* -- CLUSTER SLOTS ------------------------------------------------------------------------------------ */

/* First three servers, then without the second. */
static void lose_the_second(canned *c, const char *request, char *answer, size_t size)
{
    static const char range[] = "*3\r\n:%d\r\n:%d\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n";
    size_t n = (size_t)snprintf(answer, size, "*3\r\n");
    n += (size_t)snprintf(answer + n, size - n, range, 0, 4999, c->port);
    n += (size_t)snprintf(answer + n, size - n, range, 5000, 9999, c->n_requests == 1 ? 2 : 3);
    snprintf(answer + n, size - n, range, 10000, 16383, 3);
}

static void who_has_no_slots_is_forgotten_and_no_other(void **state)
{
    canned_start(&one, "\r\n", lose_the_second);
    sp_redis *r = connect_to(&one);
    assert_ok(sp_cluster_learn(r));
    assert_true(r->nodes.n == 3 && port_of(r, 0) == one.port && port_of(r, 5000) == 2 && port_of(r, 16383) == 3);
    assert_ok(sp_cluster_learn(r));
    assert_int_equal(r->nodes.n, 2);
    assert_true(port_of(r, 4999) == one.port && port_of(r, 5000) == 3 && port_of(r, 10000) == 3);
    sp_redis_free(r);
    canned_stop(&one);
}

static const char *slots; /* what one says of them */

static void say(canned *c, const char *request, char *answer, size_t size)
{
    snprintf(answer, size, "%s", slots);
}

static void malformed_slots_are_refused(void **state)
{
#define RANGE(first, last, host, port) "*1\r\n*3\r\n:" first "\r\n:" last "\r\n*2\r\n" host "\r\n:" port "\r\n"
#define HOST                           "$9\r\n127.0.0.1"
    static const char *const wrong[] = {
        RANGE("0", "16384", HOST, "7000"), RANGE("-1", "5", HOST, "7000"), RANGE("0", "5", HOST, "0"),
        RANGE("0", "5", HOST, "65536"),    "*0\r\n", "+OK\r\n", "*1\r\n*2\r\n:0\r\n:5\r\n", "*1\r\n:5\r\n",
        "*1\r\n*3\r\n:0\r\n:5\r\n:5\r\n",  "*1\r\n*3\r\n:0\r\n:5\r\n*1\r\n" HOST "\r\n",
        "*1\r\n*3\r\n:0\r\n+5\r\n*2\r\n" HOST "\r\n:7000\r\n",
    };
    canned_start(&one, "\r\n", say);
    for (size_t i = 0; i < SP_COUNT(wrong); i++) {
        sp_redis *r = connect_to(&one);
        slots = wrong[i];
        assert_int_equal(sp_cluster_learn(r), SP_E_IO);
        assert_false(r->cluster || r->known);
        sp_redis_free(r);
    }
    static const char *const right[] = {RANGE("0", "16383", HOST, "7000"), RANGE("0", "16383", "$0\r\n", "7000"),
                                        RANGE("0", "16383", "$1\r\n?", "7000")};
    for (size_t i = 0; i < SP_COUNT(right); i++) { /* a host that is not named is the one that was asked */
        sp_redis *r = connect_to(&one);
        slots = right[i];
        assert_ok(sp_cluster_learn(r));
        assert_string_equal(sp_cluster_node_of(r, 16383)->address.host, "127.0.0.1");
        assert_int_equal(port_of(r, 16383), 7000);
        sp_redis_free(r);
    }
    canned_stop(&one);
}

static void a_slot_that_no_server_names_is_asked_for_again(void **state)
{
    canned_start(&one, "\r\n", say);
    sp_redis *r = connect_to(&one);
    slots = RANGE("0", "4999", HOST, "7000");
    assert_ok(sp_cluster_learn(r));
    assert_int_equal(port_of(r, 4999), 7000);
    assert_false(r->stale);
    for (int s = 5000; s < SP_SLOTS; s++) assert_int_equal(r->owner[s], SP_NO_NODE);
    assert_int_equal(port_of(r, 5000), 7000); /* a server that knows who has it */
    assert_true(r->stale);
    sp_redis_free(r);
    canned_stop(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(redirections_end),
        cmocka_unit_test(a_new_connection_begins_with_a_whole_command),
        cmocka_unit_test(a_redirection_to_no_port_is_not_followed),
        cmocka_unit_test(a_slot_on_its_way_still_has_its_server),
        cmocka_unit_test(slots_are_asked_for_when_nothing_is_awaited),
        cmocka_unit_test(who_has_no_slots_is_forgotten_and_no_other),
        cmocka_unit_test(malformed_slots_are_refused),
        cmocka_unit_test(a_slot_that_no_server_names_is_asked_for_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
