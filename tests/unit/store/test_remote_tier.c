/* test_remote_tier.c -- the remote tier against a redis-server of its own: addresses, what several processes
 * share, and that nothing wrong is read. What every tier promises is in test_any_tier.c; servers that fail are in
 * test_remote_failures.c. */
#include "support/check.h"

#include <stdatomic.h>
#include <time.h>

#include "remote.h"
#include "store/sweep.h"

static _Atomic int64_t clock_ahead_s; /* of the kernel's */

time_t time(time_t *out)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (out) *out = t.tv_sec + clock_ahead_s;
    return t.tv_sec + clock_ahead_s;
}

static const char key_of_all[] = "0123456789abcdef0123456789abcdef";

/* -- the address --------------------------------------------------------------------------------- */

static void an_address_is_read_or_refused(void **state)
{
    sp_redis_address a;
    assert_ok(sp_redis_parse("redis://cache.example", &a));
    assert_true(strcmp(a.host, "cache.example") == 0 && a.port == 6379 && a.database == 0 && !*a.user && !*a.password);
    assert_ok(sp_redis_parse("redis://anna:p%40ss%3aw@10.0.0.1:7000/3", &a));
    assert_true(strcmp(a.user, "anna") == 0 && strcmp(a.password, "p@ss:w") == 0 && a.port == 7000 && a.database == 3);
    assert_ok(sp_redis_parse("redis://secret@h/", &a));
    assert_true(!*a.user && strcmp(a.password, "secret") == 0 && strcmp(a.host, "h") == 0);
    assert_ok(sp_redis_parse("redis://anna:p@ss@h", &a)); /* a host has no "@" */
    assert_true(strcmp(a.user, "anna") == 0 && strcmp(a.password, "p@ss") == 0 && strcmp(a.host, "h") == 0);
    static const char *const wrong[] = {"",
                                        "http://h",
                                        "redis://",
                                        "redis://:80",
                                        "redis://h:0",
                                        "redis://h:65536",
                                        "redis://h:x",
                                        "redis://h/one",
                                        "redis://a%4@h",
                                        "redis://a%zz@h",
                                        "redis://a:b%00c@h",
                                        "redis://h/-1",
                                        "redis://h,",
                                        "redis://,h",
                                        "redis://h,:1",
                                        "redis://h,i:0",
                                        "redis://h:1,i:x/2",
                                        "redis://[::1",
                                        "redis://[]:1",
                                        "redis://[::1]x:1"};
    for (size_t i = 0; i < SP_COUNT(wrong); i++) assert_int_equal(sp_redis_parse(wrong[i], &a), SP_E_ARG);
    assert_ok(sp_redis_parse("rediss://h:6380", &a));
    assert_true(a.tls && a.port == 6380 && strcmp(a.host, "h") == 0 && !sp_redis_next(&a));
}

static void an_address_names_several_servers(void **state)
{
    sp_redis_address a;
    assert_ok(sp_redis_parse("rediss://u:a,b@one:7000,two,[fe80::1]:7002,[::1]/3", &a));
    static const struct {
        const char *host;
        int port;
    } all[] = {{"one", 7000}, {"two", 6379}, {"fe80::1", 7002}, {"::1", 6379}};
    for (size_t i = 0; i < SP_COUNT(all); i++) {
        assert_string_equal(a.host, all[i].host);
        assert_int_equal(a.port, all[i].port);
        assert_true(a.tls && a.database == 3 && strcmp(a.user, "u") == 0 && strcmp(a.password, "a,b") == 0);
        assert_int_equal(sp_redis_next(&a), i + 1 < SP_COUNT(all));
    }
}

/* -- several processes ---------------------------------------------------------------------------- */

static sp_err count_news(void *user, const sp_tier_info *info)
{
    assert_int_equal(info->n, NOISE_TOKENS);
    ++*(int *)user;
    return SP_OK;
}

static void what_one_puts_the_others_have(void **state)
{
    redis r;
    int n_news = 0;
    if (!start(&r)) skip();
    sp_tier *one = open_with(&r, NULL, 30000000), *two = open_with(&r, NULL, 30000000);
    for (uint32_t i = 0; i < 20; i++) assert_ok(noise_put(one, i, 1));
    for (uint32_t i = 0; i < 20; i++) assert_true(noise_known(two, i, true));
    for (uint32_t i = 0; i < 20; i++) assert_ok(noise_get(two, i, 1));
    assert_ok(sp_tier_news(two, count_news, &n_news));
    assert_true(n_news >= 20);
    n_news = 0;
    assert_ok(sp_tier_news(one, count_news, &n_news));
    assert_int_equal(n_news, 0);                   /* its own are none */
    sp_tier *late = open_with(&r, NULL, 30000000); /* reads the index */
    assert_true(noise_known(late, 7, true));
    assert_ok(noise_get(late, 7, 1));
    assert_ok(noise_drop(two, 7));
    assert_true(noise_known(one, 7, false) && noise_known(late, 7, false));
    assert_int_equal(noise_get(one, 7, 1), SP_E_NOTFOUND);
    sp_tier_close(one);
    sp_tier_close(two);
    sp_tier_close(late);
    redis_stop(&r);
}

static int n_news_of(sp_tier *t)
{
    int n = 0;
    assert_ok(sp_tier_news(t, count_news, &n));
    return n;
}

/* A listener that has lost its connection reads the whole index again. */
static void what_is_known_is_no_news(void **state)
{
    redis r;
    sp_err err = SP_E_IO;
    if (!start(&r)) skip();
    sp_tier *one = open_with(&r, NULL, 30000000), *two = open_with(&r, NULL, 30000000);
    for (uint32_t i = 0; i < 5; i++) assert_ok(noise_put(one, i, 1));
    for (uint32_t i = 0; i < 5; i++) assert_true(noise_known(two, i, true));
    assert_int_equal(n_news_of(two), 5);
    redis_do(&r, "CLIENT KILL TYPE pubsub");
    for (int i = 0; i < 15000 && (err = noise_put(one, 5, 1)) != SP_OK; i++) usleep(20000);
    assert_ok(err);
    assert_true(noise_known(two, 5, true));
    assert_int_equal(n_news_of(two), 1);
    assert_int_equal(sp_tier_stats_of(two).n_copies, 6);
    sp_tier_close(one);
    sp_tier_close(two);
    redis_stop(&r);
}

/* The listener's connection is never idle. Who finds his own closed is without the store once, not for ever. */
static void a_server_may_close_idle_connections(void **state)
{
    redis r;
    if (!start(&r)) skip();
    sp_tier *writes = open_with(&r, NULL, 30000000), *reads = open_with(&r, NULL, 30000000);
    assert_ok(noise_put(writes, 1, 1));
    assert_true(noise_known(reads, 1, true));
    assert_ok(noise_get(reads, 1, 1));
    redis_do(&r, "CONFIG SET timeout 1");
    sleep(4);
    redis_do(&r, "CONFIG SET timeout 0");
    sp_err put = noise_put(writes, 2, 1), got = noise_get(reads, 1, 1);
    for (int i = 0; i < 500 && put != SP_OK; i++, usleep(20000)) put = noise_put(writes, 2, 1);
    for (int i = 0; i < 500 && got != SP_OK; i++, usleep(20000)) got = noise_get(reads, 1, 1);
    assert_ok(put);
    assert_ok(got);
    sp_tier_close(writes);
    sp_tier_close(reads);
    redis_stop(&r);
}

static void a_copy_is_written_once_for_all(void **state)
{
    redis r;
    if (!start(&r)) skip();
    sp_tier *one = open_with(&r, NULL, 30000000), *two = open_with(&r, NULL, 30000000);
    assert_ok(noise_put(one, 1, 1));
    assert_true(noise_known(two, 1, true));
    assert_ok(noise_put(two, 1, 2)); /* as if it had computed another one */
    assert_int_equal(sp_tier_stats_of(two).n_put, 0);
    assert_ok(noise_get(two, 1, 1));
    sp_tier_close(one);
    sp_tier_close(two);
    redis_stop(&r);
}

/* -- nothing wrong --------------------------------------------------------------------------------- */

static void a_copy_of_somebody_without_the_key_is_a_miss(void **state)
{
    redis r;
    if (!start(&r)) skip();
    sp_tier *stranger = open_with(&r, "ffffffffffffffffffffffffffffffff", 30000000),
            *keyless = open_with(&r, NULL, 30000000);
    sp_tier *ours = open_with(&r, key_of_all, 30000000), *also = open_with(&r, key_of_all, 30000000);
    assert_ok(noise_put(stranger, 1, 1));
    assert_ok(noise_put(keyless, 2, 1));
    assert_ok(noise_put(also, 3, 1));
    assert_true(noise_known(ours, 1, true) && noise_known(ours, 2, true) && noise_known(ours, 3, true));
    assert_fails(noise_get(ours, 1, 1), SP_E_FORMAT, "not authentic");
    assert_int_equal(noise_get(ours, 2, 1), SP_E_FORMAT);
    assert_ok(noise_get(ours, 3, 1));
    assert_int_equal(sp_tier_stats_of(ours).n_damaged, 2);
    assert_int_equal(noise_get(ours, 1, 1), SP_E_NOTFOUND); /* it is not asked for again */
    sp_tier_close(stranger);
    sp_tier_close(keyless);
    sp_tier_close(ours);
    sp_tier_close(also);
    redis_stop(&r);
}

/* Whoever deletes what is damaged leaves it. */
static void without_the_key_a_copy_is_not_called_damaged(void **state)
{
    redis r;
    if (!start(&r)) skip();
    for (int64_t ttl_s = 0; ttl_s <= 1000; ttl_s += 1000) {
        const sp_remote_tier_opts o = {.url = r.url, .space = &noise_space, .timeout_us = 30000000, .ttl_s = ttl_s,
                                       .mac_key = key_of_all, .n_mac_key = strlen(key_of_all)};
        sp_tier *ours, *keyless = open_with(&r, NULL, 30000000);
        const uint32_t i = (uint32_t)ttl_s;
        assert_ok(sp_remote_tier_open(&o, &ours));
        assert_ok(noise_put(ours, i, 1));
        assert_true(noise_known(keyless, i, true));
        assert_fails(noise_get(keyless, i, 1), SP_E_UNSUPPORTED, "--remote-key-file");
        assert_int_equal(sp_tier_stats_of(keyless).n_damaged, 0);
        assert_int_equal(noise_get(keyless, i, 1), SP_E_NOTFOUND); /* it is not asked for again */
        sp_tier_close(ours);
        sp_tier_close(keyless);
    }
    redis_stop(&r);
}

static void damaged_values_are_misses(void **state)
{
    static const struct {
        const char *script;
        sp_err err;
    } cases[] = {
        {ONLY_COPY
         "local v = redis.call('HGET', k, '0'); redis.call('HSET', k, '0', v:sub(1, 99) .. 'X' .. v:sub(101))",
         SP_E_FORMAT},
        {ONLY_COPY "local v = redis.call('HGET', k, '0'); redis.call('HSET', k, '0', v:sub(1, -2))", SP_E_FORMAT},
        {ONLY_COPY
         "local v = redis.call('HGET', k, 'head'); redis.call('HSET', k, 'head', v:sub(1, 99) .. 'X' .. v:sub(101))",
         SP_E_FORMAT},
        {ONLY_COPY "redis.call('HSET', k, 'head', '')", SP_E_FORMAT},
        {ONLY_COPY "redis.call('HDEL', k, '0')", SP_E_NOTFOUND},
        {ONLY_COPY "redis.call('HDEL', k, 'head')", SP_E_NOTFOUND},
        {ONLY_COPY "redis.call('DEL', k)", SP_E_NOTFOUND},
        {ONLY_COPY "redis.call('DEL', k); redis.call('SET', k, 'a text')", SP_E_IO},
    };
    redis r;
    if (!start(&r)) skip();
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        redis_do(&r, "FLUSHALL");
        sp_tier *one = open_with(&r, NULL, 30000000), *two = open_with(&r, NULL, 30000000);
        assert_ok(noise_put(one, 3, 1));
        assert_true(noise_known(two, 3, true));
        redis_script(&r, cases[i].script);
        assert_int_equal(noise_get(two, 3, 1), cases[i].err);
        assert_ok(noise_put(two, 4, 1)); /* the tier goes on */
        assert_ok(noise_get(two, 4, 1));
        sp_tier_close(one);
        sp_tier_close(two);
    }
    redis_stop(&r);
}

/* A copy of the text, and one that was computed after it, whose headers another process damages: they are not used,
 * and still hold what is to be deleted. */
static void a_deletion_finds_copies_that_cannot_be_read(void **state)
{
    redis r;
    noise c;
    int64_t n_gone = 0;
    if (!start(&r)) skip();
    sp_tier *one = open_with(&r, NULL, 30000000), *two = open_with(&r, NULL, 30000000);
    noise_init(&c, 1, 1);
    const sp_digest id = c.record.facts.id;
    assert_ok(noise_put(one, 1, 1));
    noise_init(&c, 9, 1);
    c.before[1] = id;
    const sp_tier_job job = noise_put_job(&c);
    assert_ok(sp_tier_run(one, &job));
    assert_true(noise_known(two, 1, true) && noise_known(two, 9, true));
    redis_script(&r, "for _, k in ipairs(redis.call('KEYS', 'SPOLIA:*:copy:*')) do local v = redis.call('HGET', k, "
                     "'head'); redis.call('HSET', k, 'head', v:sub(1, 99) .. 'X' .. v:sub(101)) end");
    assert_int_equal(noise_get(two, 1, 1), SP_E_FORMAT);
    assert_int_equal(noise_get(two, 9, 1), SP_E_FORMAT);
    assert_true(noise_known(two, 1, false) && noise_known(two, 9, false));
    const sp_sweep_opts o = {.ids = &id, .n = 1, .after = 1u << 1, .overwrite = true};
    assert_ok(sp_sweep_run(two, &o, &n_gone));
    assert_int_equal(n_gone, 2);
    redis_holds(&r, "k == nil and " INDEX_IS_EMPTY);
    sp_tier_close(one);
    sp_tier_close(two);
    redis_stop(&r);
}

/* It is read in pieces. */
static void an_index_of_thousands_is_read_to_its_end(void **state)
{
    redis r;
    if (!start(&r)) skip();
    sp_tier *one = open_with(&r, NULL, 30000000);
    assert_ok(noise_put(one, 1, 1));
    redis_script(&r, "local x = redis.call('KEYS', 'SPOLIA:*:index')[1]; local f = redis.call('HGETALL', x); "
                 "for i = 1, 3000 do "
                 "redis.call('HSET', x, string.format('%08x', i) .. string.sub(f[1], 9), f[2]) end");
    sp_tier *two = open_with(&r, NULL, 30000000);
    for (int i = 0; i < 1500 && sp_tier_stats_of(two).n_copies < 3001; i++) usleep(20000);
    assert_int_equal(sp_tier_stats_of(two).n_copies, 3001);
    sp_tier_close(one);
    sp_tier_close(two);
    redis_stop(&r);
}

static void keys_live_as_long_as_they_should(void **state)
{
    redis r;
    if (!start(&r)) skip();
    for (int64_t ttl_s = 0; ttl_s <= 1000; ttl_s += 1000) {
        sp_tier *t;
        redis_do(&r, "FLUSHALL");
        const sp_remote_tier_opts o = {.url = r.url, .space = &noise_space, .timeout_us = 30000000, .ttl_s = ttl_s};
        assert_ok(sp_remote_tier_open(&o, &t));
        assert_ok(noise_put(t, 1, 1));
        redis_holds(&r, ttl_s ? "redis.call('TTL', k) > 600 and redis.call('TTL', k) <= 1000"
                        : "redis.call('TTL', k) == -1");
        redis_holds(&r, "redis.call('EXISTS', k .. ':lock') == 0");
        assert_ok(noise_get(t, 1, 1));
        sp_tier_close(t);
    }
    redis_stop(&r);
}

/* A store that does not drop it, as object stores: whoever asks for it does. */
static void a_copy_that_has_expired_is_dropped(void **state)
{
    redis r;
    sp_tier *t, *late;
    const sp_tier_key key = noise_key(1);
    if (!start(&r)) skip();
    const sp_remote_tier_opts o = {.url = r.url, .space = &noise_space, .timeout_us = 30000000, .ttl_s = 1000};
    assert_ok(sp_remote_tier_open(&o, &t));
    assert_ok(noise_put(t, 1, 1));
    clock_ahead_s = 990;
    assert_ok(noise_get(t, 1, 1));
    clock_ahead_s = 1010;
    assert_ok(sp_remote_tier_open(&o, &late));
    assert_ok(sp_remote_tier_await(late, 60000000));
    assert_false(sp_tier_knows(late, &key));
    assert_fails(noise_get(t, 1, 1), SP_E_NOTFOUND, "expired");
    assert_false(sp_tier_knows(t, &key));
    assert_int_equal(noise_get(t, 1, 1), SP_E_NOTFOUND); /* after the drop: one thread reads */
    redis_holds(&r, "k == nil and " INDEX_IS_EMPTY);
    clock_ahead_s = 0;
    sp_tier_close(t);
    sp_tier_close(late);
    redis_stop(&r);
}

static void a_header_of_another_copy_is_refused(void **state)
{
    redis r;
    noise one, other;
    sp_digest before[NOISE_BEFORE];
    noise_init(&one, 6, 1);
    memcpy(before, one.before, sizeof before);
    before[0].b[0]++; /* another head */
    if (!start(&r)) skip();
    for (int i = 0; i < 3; i++) {
        noise_init(&other, i == 2 ? 12 : 6, 1); /* of the same sizes */
        if (i == 0) other.record.facts.before = before;
        if (i == 1) other.record.facts.kind = 1;
        redis_do(&r, "FLUSHALL");
        sp_tier *t = open_with(&r, NULL, 30000000);
        const sp_tier_job jobs[] = {noise_put_job(&one), noise_put_job(&other), noise_get_job(&one, 0, NOISE_LAYERS)};
        assert_ok(sp_tier_run(t, &jobs[0]));
        assert_ok(sp_tier_run(t, &jobs[1]));
        redis_script(&r, "local k = redis.call('KEYS', 'SPOLIA:*:copy:*'); "
                     "if #k ~= 2 then return redis.error_reply('keys') end "
                     "redis.call('RENAME', k[1], 'x'); redis.call('RENAME', k[2], k[1]); "
                     "redis.call('RENAME', 'x', k[2])");
        assert_fails(sp_tier_run(t, &jobs[2]), SP_E_FORMAT, "another copy");
        sp_tier_close(t);
    }
    redis_stop(&r);
}

static void a_drop_leaves_no_key(void **state)
{
    redis r;
    if (!start(&r)) skip();
    sp_tier *one = open_with(&r, NULL, 30000000), *two = open_with(&r, NULL, 30000000);
    assert_ok(noise_put(one, 1, 1));
    redis_holds(&r, "k and not " INDEX_IS_EMPTY);
    assert_true(noise_known(two, 1, true));
    assert_true(sp_tier_stats_of(two).bytes_used > 0);
    assert_ok(noise_drop(two, 1));
    redis_holds(&r, "k == nil and " INDEX_IS_EMPTY);
    assert_int_equal(sp_tier_stats_of(two).bytes_used, 0);
    assert_ok(noise_drop(two, 1)); /* it is gone already */
    assert_int_equal(sp_tier_stats_of(two).n_dropped, 1);
    assert_true(noise_known(one, 1, false)); /* it was told */
    sp_tier_close(one);
    sp_tier_close(two);
    redis_stop(&r);
}

/* The other one may be at work, or may have died: then its lock expires. */
static void a_copy_that_another_writes_is_left_to_it(void **state)
{
    redis r;
    if (!start(&r)) skip();
    sp_tier *t = open_with(&r, NULL, 30000000);
    assert_ok(noise_put(t, 1, 1));
    redis_script(&r, ONLY_COPY "redis.call('FLUSHALL'); redis.call('SET', k .. ':lock', 'another', 'EX', 60)");
    assert_ok(noise_drop(t, 1));
    assert_ok(noise_put(t, 1, 1));
    assert_int_equal(sp_tier_stats_of(t).n_put, 1); /* the first */
    redis_script(&r, "for _, k in ipairs(redis.call('KEYS', 'SPOLIA:*:lock')) do "
                 "if redis.call('GET', k) == 'another' then redis.call('DEL', k) return end end "
                 "return redis.error_reply('the lock is gone')");
    assert_ok(noise_put(t, 1, 1));
    assert_int_equal(sp_tier_stats_of(t).n_put, 2);
    sp_tier_close(t);
    redis_stop(&r);
}

static void what_is_no_notice_is_not_believed(void **state)
{
    redis r;
    if (!start(&r)) skip();
    sp_tier *t = open_with(&r, NULL, 30000000);
    assert_ok(noise_put(t, 1, 1));
    redis_script(
        &r,
        "local i = nil; for _, x in ipairs(redis.call('KEYS', 'SPOLIA:*:index')) do i = x end; local c = "
        "i:gsub('index$', 'news'); "
        "for _, m in ipairs({'', 'x', 'x +', 'x + y', 'x + y 1 2 3 4 5', 'x - ', 'x ? y', string.rep('z', 100000)}) "
        "do "
        "redis.call('PUBLISH', c, m) end; redis.call('HSET', i, 'no name', '1 2 3', 'other', string.rep('9', 5000))");
    sp_tier *late = open_with(&r, NULL, 30000000);
    assert_true(noise_known(late, 1, true));
    assert_int_equal(sp_tier_stats_of(late).n_copies, 1);
    assert_ok(noise_get(late, 1, 1));
    sp_tier_close(t);
    sp_tier_close(late);
    redis_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_is_read_or_refused),
        cmocka_unit_test(an_address_names_several_servers),
        cmocka_unit_test(what_one_puts_the_others_have),
        cmocka_unit_test(what_is_known_is_no_news),
        cmocka_unit_test(an_index_of_thousands_is_read_to_its_end),
        cmocka_unit_test(a_server_may_close_idle_connections),
        cmocka_unit_test(a_copy_is_written_once_for_all),
        cmocka_unit_test(a_copy_of_somebody_without_the_key_is_a_miss),
        cmocka_unit_test(without_the_key_a_copy_is_not_called_damaged),
        cmocka_unit_test(damaged_values_are_misses),
        cmocka_unit_test(a_deletion_finds_copies_that_cannot_be_read),
        cmocka_unit_test(keys_live_as_long_as_they_should),
        cmocka_unit_test(a_copy_that_has_expired_is_dropped),
        cmocka_unit_test(a_header_of_another_copy_is_refused),
        cmocka_unit_test(a_drop_leaves_no_key),
        cmocka_unit_test(a_copy_that_another_writes_is_left_to_it),
        cmocka_unit_test(what_is_no_notice_is_not_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
