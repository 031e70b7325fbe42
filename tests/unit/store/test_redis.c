/* test_redis.c -- commands to a redis-server of its own, a subscription to one that has stopped, TLS, and what is left
 * behind there. */
#include "support/check.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "store/remote/notice.h"
#include "store/remote/redis/clean.h"
#include "store/remote/redis/redis_int.h"
#include "store/remote/redis/tls.h"
#include "support/folder.h"
#include "support/redis.h"
#include "support/task.h"

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

static sp_err refuse_message(void *user, char *text)
{
    return sp_fail(SP_E_NOMEM, "a message");
}

static sp_err note_message(void *user, char *text)
{
    snprintf(user, 8, "%s", text);
    return SP_OK;
}

/* The connection of a subscription that has failed is closed: it takes no other commands. */
static void after_a_message_that_is_refused_others_are_heard(void **state)
{
    redis r = redis_start(NULL);
    if (!r.pid) skip();
    sp_redis *c = open_redis(&r);
    char text[8] = "";
    sp_err err = SP_OK;
    assert_ok(sp_redis_subscribe(c, "news"));
    redis_do(&r, "PUBLISH news one");
    for (int i = 0; i < 3000 && err == SP_OK; i++) err = sp_redis_hear(c, 10, refuse_message, NULL);
    assert_fails(err, SP_E_NOMEM, "a message");
    assert_fails(sp_redis_hear(c, 0, note_message, text), SP_E_IO, "not subscribed");
    for (int i = 0; i < 3000 && err != SP_OK; i++, usleep(10000)) /* at first the server is left alone */
        err = sp_redis_run(c, &(sp_redis_command){.words = {"SET", "k", "v"}, .n = 3});
    assert_ok(err);
    assert_ok(sp_redis_subscribe(c, "news"));
    redis_do(&r, "PUBLISH news two");
    for (int i = 0; i < 3000 && !*text; i++) assert_ok(sp_redis_hear(c, 10, note_message, text));
    assert_string_equal(text, "two");
    sp_redis_free(c);
    redis_stop(&r);
}

/* A server that has given away its slots no longer belongs to the cluster. */
static void a_member_of_a_cluster_has_slots(void **state)
{
    sp_redis_address a;
    sp_redis *r;
    assert_ok(sp_redis_parse("redis://one,two", &a));
    assert_ok(sp_redis_new(&a, 1000000, NULL, &r));
    r->cluster = true;
    for (int s = 0; s < SP_SLOTS; s++) r->owner[s] = 1;
    assert_false(sp_cluster_has(r, r->nodes.v[0]));
    assert_true(sp_cluster_has(r, r->nodes.v[1]));
    assert_false(sp_cluster_has(r, NULL));
    sp_redis_free(r);
}

/* From the first failure on, and for 10 s at most. */
static void a_server_is_left_alone_for_longer_each_time(void **state)
{
    sp_redis_address a;
    assert_ok(sp_redis_parse("redis://nowhere", &a));
    sp_redis_node *n = sp_node_new(&a, 1000000);
    assert_non_null(n);
    for (int64_t pause_us = 100000; pause_us < 40000000; pause_us *= 2) {
        const int64_t now = sp_clock_us(), wanted_us = SP_MIN(pause_us, INT64_C(10000000));
        sp_node_fail(n, sp_fail(SP_E_IO, "no answer"));
        assert_in_range(n->again_us, now + wanted_us, sp_clock_us() + wanted_us);
        assert_string_equal(n->why, "no answer");
    }
    sp_node_free(n);
}

/* -- TLS ------------------------------------------------------------------------------------------------- */

/* start_with_tls -- its certificate is dir/cert.pem; r.pid 0: redis-server or openssl is not here. */
static redis start_with_tls(const char *dir, int *port)
{
    char text[1000], path[200];
    redis r = {.port = free_port()};
    *port = free_port();
    snprintf(r.url, sizeof r.url, "redis://127.0.0.1:%d/0", r.port);
    snprintf(path, sizeof path, "%s/redis.conf", dir);
    snprintf(text, sizeof text, "tls-port %d\ntls-auth-clients no\ntls-cert-file %s/cert.pem\n"
             "tls-key-file %s/key.pem\ntls-ca-cert-file %s/cert.pem\n", *port, dir, dir, dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    snprintf(text, sizeof text, "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
             "-keyout %s/key.pem -out %s/cert.pem -subj /CN=localhost -addext subjectAltName=DNS:localhost 2>%s/log",
             dir, dir, dir);
    if (system(text) == 0) redis_run(&r, "--include", path);
    return r;
}

/* Its thread ends, and with it the connection to the server. */
static void a_connection_with_tls_ends_with_its_local_end(void **state)
{
    char dir[128], ca[200], answer[8] = "";
    int port, fd;
    make_folder(dir, sizeof dir);
    snprintf(ca, sizeof ca, "%s/cert.pem", dir);
    redis r = start_with_tls(dir, &port);
    if (r.pid) {
        const int before = task_n_threads();
        assert_ok(sp_tls_connect("localhost", port, ca, 30000000, &fd));
        assert_int_equal(task_n_threads(), before + 1);
        assert_int_equal(write(fd, "PING\r\n", 6), 6);
        assert_int_equal(read(fd, answer, 7), 7);
        assert_string_equal(answer, "+PONG\r\n");
        close(fd);
        for (int i = 0; i < 1000 && task_n_threads() > before; i++) usleep(10000);
        assert_int_equal(task_n_threads(), before);
    }
    remove_folder(dir);
    if (!r.pid) skip();
    redis_stop(&r);
}

/* buffer_little -- the kernel takes little of what this process sends to a port. */
static void buffer_little(int port)
{
    const int bytes = 1 << 14;
    int n = 0;
    for (int fd = 0; fd < 1024; fd++) {
        struct sockaddr_in a = {0};
        socklen_t size = sizeof a;
        if (getpeername(fd, (struct sockaddr *)&a, &size) != 0 || a.sin_family != AF_INET ||
            ntohs(a.sin_port) != port)
            continue;
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), 0);
        n++;
    }
    assert_int_equal(n, 1);
}

/* fill -- writes until nothing has been taken for half a second. */
static void fill(int fd)
{
    static const char zeros[1 << 16];
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    while (poll(&p, 1, 500) == 1) assert_true(send(fd, zeros, sizeof zeros, MSG_DONTWAIT) > 0 || errno == EAGAIN);
}

/* Otherwise its thread would be busy for as long as the server hangs. */
static void a_connection_with_tls_ends_while_the_server_takes_nothing(void **state)
{
    char dir[128], ca[200];
    int port, fd;
    make_folder(dir, sizeof dir);
    snprintf(ca, sizeof ca, "%s/cert.pem", dir);
    redis r = start_with_tls(dir, &port);
    if (r.pid) {
        const int before = task_n_threads();
        assert_ok(sp_tls_connect("localhost", port, ca, 30000000, &fd));
        buffer_little(port);
        assert_int_equal(kill(r.pid, SIGSTOP), 0);
        fill(fd);
        assert_int_equal(task_n_threads(), before + 1);
        close(fd);
        for (int i = 0; i < 1000 && task_n_threads() > before; i++) usleep(10000);
        assert_int_equal(task_n_threads(), before);
    }
    remove_folder(dir);
    if (!r.pid) skip();
    redis_stop(&r);
}

/* -- what is left ---------------------------------------------------------------------------------------- */

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

/* A name without a copy goes, as after an eviction by Redis; that of a copy stays. */
static void only_names_without_a_copy_are_struck_out(void **state)
{
    redis r = redis_start(NULL);
    if (!r.pid) skip();
    char name[SP_REMOTE_NAME], words[300];
    const sp_remote_site site = {.url = r.url, .timeout_us = 20000000};
    int64_t n_orphans, n_gone;
    for (uint32_t kind = 1; kind <= 3; kind++) {
        sp_remote_name(&(sp_tier_key){.kind = kind}, name);
        snprintf(words, sizeof words, "HSET SPOLIA:%032x:index %s x", 7, name);
        redis_do(&r, words);
        snprintf(words, sizeof words, "HSET SPOLIA:%032x:copy:%s head x", 7, name);
        if (kind < 3) redis_do(&r, words);
    }
    for (int again = 0; again < 2; again++) {
        assert_ok(sp_redis_clean(&site, &n_orphans, &n_gone));
        assert_int_equal(n_orphans, 0);
        assert_int_equal(n_gone, !again);
    }
    redis_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(either_of_two_commands_may_fail),
        cmocka_unit_test(half_of_a_command_is_forgotten_with_its_connection),
        cmocka_unit_test(a_server_that_has_stopped_is_not_listened_to),
        cmocka_unit_test(after_a_message_that_is_refused_others_are_heard),
        cmocka_unit_test(a_member_of_a_cluster_has_slots),
        cmocka_unit_test(a_server_is_left_alone_for_longer_each_time),
        cmocka_unit_test(a_connection_with_tls_ends_with_its_local_end),
        cmocka_unit_test(a_connection_with_tls_ends_while_the_server_takes_nothing),
        cmocka_unit_test(only_whole_copies_are_cleaned_away),
        cmocka_unit_test(only_names_without_a_copy_are_struck_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
