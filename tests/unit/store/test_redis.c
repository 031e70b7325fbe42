/* test_redis.c -- commands to a redis-server of its own, a subscription to one that has stopped, and what is left
 * behind there. */
#include "support/check.h"

#include <string.h>

#include "store/remote/notice.h"
#include "store/remote/redis/clean.h"
#include "store/remote/redis/redis_int.h"
#include "support/redis.h"

static sp_redis *open_redis(const redis *r)
{
    sp_redis_address a;
    sp_redis *c;
    assert_ok(sp_redis_parse(r->url, &a));
    assert_ok(sp_redis_new(&a, 20000000, NULL, &c));
    return c;
}

static void either_of_two_commands_may_fail(void **state)
{
    redis r = redis_start(NULL);
    if (!r.pid) skip();
    sp_redis *c = open_redis(&r);
    const sp_redis_command good = {.words = {"SET", "k", "v"}, .n = 3}, bad = {.words = {"HGET", "k", "f"}, .n = 3};
    assert_ok(sp_redis_run_both(c, &good, &good));
    assert_fails(sp_redis_run_both(c, &bad, &good), SP_E_IO, "WRONGTYPE");
    assert_fails(sp_redis_run_both(c, &good, &bad), SP_E_IO, "WRONGTYPE");
    sp_redis_free(c);
    redis_stop(&r);
}

/* The server stops in the middle of a long value. The next connection begins with a whole command. */
static void half_of_a_command_is_forgotten_with_its_connection(void **state)
{
    enum { BYTES = 8 << 20 };
    redis r = redis_start(NULL);
    if (!r.pid) skip();
    char *value = malloc(BYTES);
    assert_non_null(value);
    memset(value, 'v', BYTES);
    const sp_redis_command large = {.words = {"SET", "k", value}, .sizes = {0, 0, BYTES}, .n = 3};
    const sp_redis_command small = {.words = {"SET", "k", "v"}, .n = 3};
    sp_redis *c = open_redis(&r);
    assert_ok(sp_redis_connect(c));
    assert_int_equal(kill(r.pid, SIGSTOP), 0);
    c->nodes.v[0]->timeout_us = 100000;
    assert_fails(sp_redis_run(c, &large), SP_E_IO, "no answer in time");
    assert_int_equal(kill(r.pid, SIGCONT), 0);
    c->nodes.v[0]->timeout_us = 2000000;
    sp_err err = SP_E_IO;
    for (int64_t end = sp_clock_us() + 10000000; err != SP_OK && sp_clock_us() < end; usleep(10000))
        err = sp_redis_run(c, &small); /* at first it fails at once: the server is left alone for a while */
    assert_ok(err);
    sp_redis_free(c);
    free(value);
    redis_stop(&r);
}

static sp_err ignore(void *user, char *text)
{
    return SP_OK;
}

/* It is asked once whether it is there, and has the usual time to answer. */
static void a_server_that_has_stopped_is_not_listened_to(void **state)
{
    redis r = redis_start(NULL);
    if (!r.pid) skip();
    sp_redis *c = open_redis(&r);
    assert_ok(sp_redis_subscribe(c, "news"));
    c->ear->heard_us -= 6000000; /* it has been silent for longer than it may be */
    assert_ok(sp_redis_hear(c, 0, ignore, NULL));
    while (c->pinged_us) assert_ok(sp_redis_hear(c, 10, ignore, NULL)); /* it answers */
    assert_int_equal(kill(r.pid, SIGSTOP), 0);
    c->ear->heard_us -= 6000000;
    c->timeout_us = 100000;
    sp_err err = SP_OK;
    for (int i = 0; i < 100 && err == SP_OK; i++) err = sp_redis_hear(c, 10, ignore, NULL);
    assert_fails(err, SP_E_IO, "no answer in time");
    sp_redis_free(c);
    redis_stop(&r);
}

/* What has no header yet is being written, by somebody. */
static void only_whole_copies_are_cleaned_away(void **state)
{
    redis r = redis_start(NULL);
    if (!r.pid) skip();
    char name[SP_REMOTE_NAME], words[256];
    const sp_remote_site site = {.url = r.url, .timeout_us = 20000000};
    int64_t n_orphans, n_gone;
    sp_remote_name(&(sp_tier_key){.kind = 1}, name);
    for (int whole = 0; whole < 2; whole++) {
        snprintf(words, sizeof words, "HSET SPOLIA:%032x:copy:%s %s x", 7, name, whole ? "head" : "0");
        redis_do(&r, words);
        assert_ok(sp_redis_clean(&site, &n_orphans, &n_gone));
        assert_int_equal(n_orphans, whole);
        assert_int_equal(n_gone, 0);
    }
    redis_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(either_of_two_commands_may_fail),
        cmocka_unit_test(half_of_a_command_is_forgotten_with_its_connection),
        cmocka_unit_test(a_server_that_has_stopped_is_not_listened_to),
        cmocka_unit_test(only_whole_copies_are_cleaned_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
