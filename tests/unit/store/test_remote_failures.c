/* test_remote_failures.c -- the remote tier when its redis-server is gone, hangs, is full, refuses commands or a put
 * fails: what that costs, and what is left. */
#include "support/check.h"

#include <dlfcn.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "remote.h"
#include "store/sweep.h"

/* A thread that begins late. */
typedef struct late_thread {
    void *(*run)(void *);
    void *arg;
} late_thread;

static atomic_int n_before_late; /* which of the next threads it is; 0: none */

static void *run_late(void *user)
{
    const late_thread l = *(late_thread *)user;
    free(user);
    usleep(300000);
    return l.run(l.arg);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *arg)
{
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(RTLD_NEXT, "pthread_create");
    if (n_before_late == 0 || --n_before_late > 0) return create(thread, how, run, arg);
    late_thread *l = malloc(sizeof *l);
    *l = (late_thread){run, arg};
    return create(thread, how, run_late, l);
}

/* get_ms -- the time of a get, milliseconds. */
static int64_t get_ms(sp_tier *t, uint32_t number, sp_err wanted)
{
    const int64_t began = sp_clock_us();
    assert_int_equal(noise_get(t, number, 1), wanted);
    return (sp_clock_us() - began) / 1000;
}

static void a_server_that_is_gone_costs_nothing_and_comes_back(void **state)
{
    redis r;
    if (!start(&r)) skip();
    sp_tier *t = open_with(&r, NULL, 30000000);
    assert_ok(noise_put(t, 1, 1));
    assert_ok(noise_get(t, 1, 1));
    redis_stop(&r);
    get_ms(t, 1, SP_E_IO);
    assert_int_equal(noise_put(t, 2, 1), SP_E_IO);
    int64_t quick = INT64_MAX; /* of many: the machine may be busy */
    for (int i = 0; i < 20; i++) quick = SP_MIN(quick, get_ms(t, 1, SP_E_IO));
    assert_true(quick < 100);
    redis_run(&r, NULL, NULL);
    assert_true(r.pid != 0);
    for (int i = 0; i < 15000 && !sp_tier_answers(t); i++) usleep(20000);
    assert_ok(noise_put(t, 3, 1)); /* connections to the server that is gone are not used again */
    assert_ok(noise_get(t, 3, 1));
    sp_tier_close(t);
    redis_stop(&r);
}

/* Those that are no cluster: the first that answers is used by all connections. */
static void of_several_servers_any_may_be_down(void **state)
{
    redis r, empty;
    if (!start(&r) || !start(&empty)) skip();
    const int down = free_port();
    for (int place = 0; place < 3; place++) {
        redis some = r;
        const int ports[] = {place == 0 ? r.port : down, place == 1 ? r.port : place == 0 ? empty.port : down,
                             place == 2 ? r.port : down};
        snprintf(some.url, sizeof some.url, "redis://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", ports[0], ports[1],
                 ports[2]);
        redis_do(&r, "FLUSHALL");
        sp_tier *t = open_with(&some, NULL, 30000000);
        assert_ok(noise_put(t, 1, 1));
        assert_ok(noise_get(t, 1, 1));
        sp_tier *other = open_with(&r, NULL, 30000000);
        assert_ok(noise_put(other, 2, 1));
        assert_true(noise_known(t, 2, true)); /* news come from the same server */
        sp_tier_close(t);
        sp_tier_close(other);
    }
    redis_stop(&r);
    redis_stop(&empty);
}

/* Also before the thread that listens has begun: no other thread waits for it. */
static void a_tier_may_be_closed_at_once(void **state)
{
    redis nobody = {0};
    noise c;
    snprintf(nobody.url, sizeof nobody.url, "redis://127.0.0.1:%d", free_port());
    noise_init(&c, 1, 1);
    n_before_late = 3; /* it is the last of three */
    sp_tier *t = open_with(&nobody, NULL, 1000000);
    const sp_tier_job job = noise_get_job(&c, 0, NOISE_LAYERS);
    assert_ok(sp_tier_submit(t, &job, NULL));
    usleep(100000); /* it is begun */
    sp_tier_close(t);
}

/* The connection that gets has not failed itself. */
static void all_connections_leave_a_server_that_is_gone(void **state)
{
    redis r = {0}, next = {0};
    if (!start(&r) || !start(&next)) skip();
    redis both = r;
    snprintf(both.url, sizeof both.url, "redis://127.0.0.1:%d,127.0.0.1:%d", r.port, next.port);
    sp_tier *t = open_with(&both, NULL, 30000000);
    assert_ok(noise_put(t, 1, 1));
    assert_ok(noise_get(t, 1, 1));
    redis_stop(&r);
    assert_int_equal(noise_put(t, 2, 1), SP_E_IO);
    for (int i = 0; i < 15000 && !sp_tier_answers(t); i++) usleep(20000);
    assert_ok(noise_put(t, 3, 1));
    assert_ok(noise_get(t, 3, 1));
    sp_tier_close(t);
    redis_stop(&next);
}

/* What each chunk of a request pays while the server is lost (serve/tiers/loads.c). */
static void a_lost_server_costs_the_look_at_a_flag(void **state)
{
    enum { CALLS = 10000 };
    redis r;
    if (!start(&r)) skip();
    sp_tier *t = open_with(&r, NULL, 30000000);
    assert_ok(noise_put(t, 1, 1));
    assert_true(sp_tier_answers(t));
    redis_stop(&r);
    get_ms(t, 1, SP_E_IO);
    assert_false(sp_tier_answers(t));
    int64_t least = INT64_MAX; /* of several: the machine may be busy */
    for (int k = 0; k < 20; k++) {
        const int64_t began = sp_clock_us();
        for (int i = 0; i < CALLS; i++) assert_false(sp_tier_answers(t));
        least = SP_MIN(least, sp_clock_us() - began);
    }
    print_message("%.1f ns a look\n", (double)least * 1000 / CALLS);
    assert_true(least < CALLS); /* 1 us: 100 chunks cost 0.1 ms */
    sp_tier_close(t);
}

static void a_server_that_hangs_is_left_alone(void **state)
{
    redis r;
    if (!start(&r)) skip();
    sp_tier *t = open_with(&r, NULL, 300000);
    sp_err err = SP_E_IO;
    for (int i = 0; i < 5000 && err != SP_OK; i++) err = noise_put(t, 1, 1); /* a loaded machine may be late, too */
    assert_ok(err);
    kill(r.pid, SIGSTOP);
    const int64_t began = sp_clock_us();
    for (int i = 0; i < 10; i++) assert_int_equal(noise_get(t, 1, 1), SP_E_IO);
    assert_true(sp_clock_us() - began <
                30000000); /* not ten time-outs of a connection and a reply each, and never for good */
    assert_int_equal(noise_put(t, 2, 1), SP_E_IO);
    sp_tier_close(t); /* while it hangs */
    redis_stop(&r);
}

/* Who finds that out by a put tells the others. */
static void a_put_finds_that_the_server_hangs(void **state)
{
    redis r;
    if (!start(&r)) skip();
    sp_tier *t = open_with(&r, NULL, 300000);
    for (int i = 0; i < 5000 && noise_put(t, 1, 1) != SP_OK; i++) {} /* a loaded machine may be late, too */
    for (int i = 0; i < 15000 && !sp_tier_answers(t); i++) usleep(20000);
    kill(r.pid, SIGSTOP);
    assert_int_equal(noise_put(t, 2, 1), SP_E_IO);
    assert_false(sp_tier_answers(t));
    sp_tier_close(t);
    redis_stop(&r);
}

static void a_sweep_fails_while_the_server_does_not_answer(void **state)
{
    redis r;
    noise c;
    noise_init(&c, 1, 1);
    const sp_digest id = c.record.facts.id;
    const sp_tier_key key = noise_key(1);
    const sp_sweep_opts o = {.ids = &id, .n = 1, .overwrite = true};
    if (!start(&r)) skip();
    sp_tier *t = open_with(&r, NULL, 1000000);
    sp_err err = SP_E_IO;
    for (int i = 0; i < 5000 && err != SP_OK; i++) err = noise_put(t, 1, 1); /* a loaded machine may be late, too */
    assert_ok(err);
    kill(r.pid, SIGSTOP);
    assert_int_equal(noise_put(t, 2, 1), SP_E_IO); /* from now on it is sent nothing */
    sp_tier *late = open_with(&r, NULL, 1000000);
    assert_fails(sp_remote_tier_await(late, 1000), SP_E_IO, "in time");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sp_sweep_run(t, &o, NULL), SP_E_IO);
        assert_int_equal(sp_sweep_run(late, &o, NULL), SP_E_IO); /* which has never seen the index */
        assert_int_equal(noise_drop(t, 1), SP_E_IO);
        assert_true(sp_tier_knows(t, &key)); /* so it is found again */
    }
    kill(r.pid, SIGCONT);
    for (int i = 0; i < 15000 && (err = sp_sweep_run(t, &o, NULL)) != SP_OK; i++) usleep(20000);
    assert_ok(err);
    sp_tier_close(late);
    late = open_with(&r, NULL, 30000000);
    assert_ok(sp_remote_tier_await(late, 60000000));
    assert_true(noise_known(t, 1, false) && noise_known(late, 1, false));
    sp_tier_close(t);
    sp_tier_close(late);
    redis_stop(&r);
}

static void a_full_server_refuses_and_keeps_what_it_has(void **state)
{
    redis r;
    if (!start(&r)) skip();
    sp_tier *t = open_with(&r, NULL, 30000000);
    assert_ok(noise_put(t, 1, 1));
    redis_do(&r, "CONFIG SET maxmemory 1");
    assert_fails(noise_put(t, 2, 1), SP_E_LIMIT, "redis");
    assert_ok(noise_get(t, 1, 1));
    redis_do(&r, "CONFIG SET maxmemory 0");
    assert_ok(noise_put(t, 2, 1));
    assert_ok(noise_get(t, 2, 1));
    sp_tier_close(t);
    redis_stop(&r);
}

static void a_wrong_password_is_an_error_of_the_tier(void **state)
{
    redis r = redis_start("right");
    if (!r.pid) skip();
    sp_tier *good = open_with(&r, NULL, 30000000);
    assert_ok(noise_put(good, 1, 1));
    sp_tier_close(good);
    snprintf(r.url, sizeof r.url, "redis://:wrong@127.0.0.1:%d", r.port);
    sp_tier *bad = open_with(&r, NULL, 30000000);
    assert_fails(noise_put(bad, 2, 1), SP_E_IO, "");
    assert_int_equal(noise_get(bad, 1, 1), SP_E_IO);
    sp_tier_close(bad);
    redis_stop(&r);
}

static void a_put_whose_source_fails_leaves_nothing(void **state)
{
    redis r;
    noise c;
    if (!start(&r)) skip();
    sp_tier *t = open_with(&r, NULL, 30000000);
    noise_init(&c, 5, 1);
    c.source_fails_at = 3;
    const sp_tier_job job = noise_put_job(&c);
    assert_int_equal(sp_tier_run(t, &job), SP_E_NOKV);
    redis_script(&r,
                 "if #redis.call('KEYS', '*:copy:*') > 0 then return redis.error_reply('something is left') end "
                 "return 1");
    assert_ok(noise_put(t, 5, 1));
    assert_ok(noise_get(t, 5, 1));
    sp_tier_close(t);
    redis_stop(&r);
}

/* A process that ends between two commands leaves what one leaves that may not run the second. */
static void what_no_index_names_expires(void **state)
{
    static const struct {
        const char *rule, *what;
    } cases[] = {{"-expire", "table.concat(redis.call('HVALS', k)) == ''"},
                 {"resetkeys ~SPOLIA:*:copy:* %R~*", "redis.call('TTL', k) > 0 and " INDEX_IS_EMPTY},
                 {"-persist", "redis.call('TTL', k) > 0 and not " INDEX_IS_EMPTY}};
    redis r;
    if (!start(&r)) skip();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sp_tier *t = open_with(&r, NULL, 30000000);
        char rules[96];
        redis_do(&r, "FLUSHALL");
        snprintf(rules, sizeof rules, "ACL SETUSER default -del %s", cases[i].rule);
        redis_do(&r, rules);
        assert_int_not_equal(noise_put(t, 1, 1), SP_OK);
        redis_do(&r, "ACL SETUSER default resetkeys allkeys +@all");
        redis_script(&r, "for _, k in ipairs(redis.call('KEYS', '*:lock')) do redis.call('DEL', k) end");
        redis_holds(&r, cases[i].what);
        sp_tier_close(t);
    }
    redis_stop(&r);
}

/* A server becomes read-only between two commands: the index may name the copy, and nobody has been told. */
static void a_sweep_drops_what_a_failed_put_has_left(void **state)
{
    static const char *const rules[] = {"-persist", "-publish"};
    redis r;
    noise c;
    noise_init(&c, 1, 1);
    const sp_sweep_opts o = {.ids = &c.record.facts.id, .n = 1};
    if (!start(&r)) skip();
    for (size_t i = 0; i < SP_COUNT(rules); i++) {
        sp_tier *t = open_with(&r, NULL, 30000000);
        char rule[96];
        redis_do(&r, "FLUSHALL");
        snprintf(rule, sizeof rule, "ACL SETUSER default -del %s", rules[i]);
        redis_do(&r, rule);
        assert_int_not_equal(noise_put(t, 1, 1), SP_OK);
        redis_do(&r, "ACL SETUSER default +@all");
        redis_holds(&r, "not " INDEX_IS_EMPTY);
        assert_ok(sp_sweep_run(t, &o, NULL));
        redis_holds(&r, "#redis.call('KEYS', '*:copy:*[^k]') == 0 and " INDEX_IS_EMPTY); /* a lock expires */
        sp_tier_close(t);
    }
    redis_stop(&r);
}

/* The index would not name it: no deletion would find it. */
static void a_drop_amid_a_put_leaves_no_copy_without_a_name(void **state)
{
    redis r;
    noise c;
    if (!start(&r)) skip();
    noise_init(&c, 1, 1);
    sp_tier *one = open_with(&r, NULL, 30000000), *two = open_with(&r, NULL, 30000000);
    assert_ok(sp_remote_tier_await(one, 60000000));
    assert_ok(sp_remote_tier_await(two, 60000000));
    for (int i = 0; i < 1000; i++) {
        sp_tier_op *put, *drop;
        const sp_tier_job jobs[] = {noise_put_job(&c), {.verb = SP_TIER_DROP, .key = noise_key(1)}};
        assert_ok(sp_tier_submit(one, &jobs[0], &put));
        usleep((useconds_t)(i % 100) * 10);
        assert_ok(sp_tier_submit(two, &jobs[1], &drop));
        assert_true(sp_tier_op_wait(put, -1) && sp_tier_op_wait(drop, -1));
        sp_tier_op_release(put);
        sp_tier_op_release(drop);
        redis_script(&r, "for _, k in ipairs(redis.call('KEYS', 'SPOLIA:*:copy:*')) do "
                     "local space, name = k:match('^(.*):copy:(.*)$') "
                     "if redis.call('TTL', k) == -1 and redis.call('HEXISTS', space .. ':index', name) == 0 then "
                     "return redis.error_reply('a copy has no name') end end return 1");
    }
    sp_tier_close(one);
    sp_tier_close(two);
    redis_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_several_servers_any_may_be_down),
        cmocka_unit_test(all_connections_leave_a_server_that_is_gone),
        cmocka_unit_test(a_tier_may_be_closed_at_once),
        cmocka_unit_test(a_server_that_is_gone_costs_nothing_and_comes_back),
        cmocka_unit_test(a_lost_server_costs_the_look_at_a_flag),
        cmocka_unit_test(a_server_that_hangs_is_left_alone),
        cmocka_unit_test(a_put_finds_that_the_server_hangs),
        cmocka_unit_test(a_sweep_fails_while_the_server_does_not_answer),
        cmocka_unit_test(a_full_server_refuses_and_keeps_what_it_has),
        cmocka_unit_test(a_wrong_password_is_an_error_of_the_tier),
        cmocka_unit_test(a_put_whose_source_fails_leaves_nothing),
        cmocka_unit_test(what_no_index_names_expires),
        cmocka_unit_test(a_sweep_drops_what_a_failed_put_has_left),
        cmocka_unit_test(a_drop_amid_a_put_leaves_no_copy_without_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
