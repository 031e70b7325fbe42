/* Connections of clients that hang up. A handler of the test's answers when the test says so. */
#include <arpa/inet.h>
#include <microhttpd.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/http/exchange.h"
#include "server/http/memory.h"
#include "server/http/reply.h"
#include "support/check.h"

static atomic_int n_asked, n_left, n_ended;
static atomic_bool released; /* the answer may end */

static void leave(void *count)
{
    atomic_fetch_add((atomic_int *)count, 1);
}

static void end(void *count)
{
    (void)count;
    atomic_fetch_add(&n_ended, 1);
}

static ssize_t end_when_released(void *user, uint64_t at, char *to, size_t most)
{
    while (!released) usleep(1000);
    return MHD_CONTENT_READER_END_OF_STREAM;
}

static srv_sent answer_when_released(srv_call *call)
{
    struct MHD_Response *r =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16, end_when_released, NULL, NULL);
    srv_exchange_watch(call, (srv_running){.of = &n_left, .leave = leave, .end = end});
    atomic_fetch_add(&n_asked, 1);
    return srv_reply_events(call->connection, r, false);
}

static srv_sent answer_with_half_a_text(srv_call *call)
{
    srv_memory_lost();
    return srv_reply_text(call->connection, 200, "text/plain", strdup("half of"));
}

static srv_error_form *no_form(const char *path)
{
    return NULL;
}

static const srv_route routes[] = {{"GET", "/", .run = answer_when_released, .open = true, .probe = true},
                                   {"GET", "/half", .run = answer_with_half_a_text, .open = true, .probe = true},
                                   {0}};

static bool open_exchanges(srv_server *s, int *port)
{
    *s = (srv_server){.routes = routes, .error_form_of = no_form, .o.host = "127.0.0.1"};
    s->o.limits = (srv_server_limits){.n_parallel = 1, .n_connections = 4, .body_bytes = 1024, .bodies_bytes = 4096,
                                      .read_seconds = 60, .stall_seconds = 60};
    atomic_store(&n_asked, 0), atomic_store(&n_left, 0), atomic_store(&n_ended, 0);
    atomic_store(&released, false);
    return srv_exchanges_open(s, port);
}

/* ask -- sends a request for a path. Owns: close. */
static int ask(int port, const char *path)
{
    char request[100];
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
    const struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(write(fd, request, strlen(request)), strlen(request));
    return fd;
}

/* read_all -- until the server closes the connection, which is closed. */
static const char *read_all(int fd)
{
    static char text[4096];
    size_t n = 0;
    for (ssize_t k = 1; k > 0 && n < sizeof text - 1; n += k > 0 ? (size_t)k : 0)
        k = read(fd, text + n, sizeof text - 1 - n);
    close(fd);
    text[n] = '\0';
    return text;
}

static void has(const char *text, const char *part)
{
    if (!strstr(text, part)) fail_msg("no \"%s\" in %s", part, text);
}

static void wait_until_it_is(atomic_int *n, int expected)
{
    for (int ms = 0; *n < expected && ms < 60000; ms++) usleep(1000);
    assert_int_equal(*n, expected);
}

/* What a client can mend is 400; what is short for a while is 503. */
static void errors_of_the_library_have_a_status(void **state)
{
    static const struct {
        sp_err err;
        int status;
        const char *code;
    } cases[] = {{SP_E_CONTEXT, 400, "context_length_exceeded"},
                 {SP_E_ARG, 400, NULL},
                 {SP_E_LIMIT, 400, NULL},
                 {SP_E_UNSUPPORTED, 400, NULL},
                 {SP_E_NOMEM, 503, "out_of_memory"},
                 {SP_E_NOKV, 503, "out_of_memory"},
                 {SP_E_CANCELED, 504, "deadline_exceeded"},
                 {SP_E_IO, 500, NULL}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        const char *code;
        assert_int_equal(srv_error_status(cases[i].err, &code), cases[i].status);
        if (cases[i].code)
            assert_string_equal(code, cases[i].code);
        else
            assert_null(code);
    }
}

/* Its socket stays readable: asked again, the watcher would not rest. */
static void a_client_that_hung_up_is_left_once(void **state)
{
    srv_server s;
    int port;
    assert_true(open_exchanges(&s, &port));
    const int stays = ask(port, "/"), leaves = ask(port, "/");
    wait_until_it_is(&n_asked, 2);
    usleep(300000);
    assert_int_equal(n_left, 0);
    close(leaves);
    wait_until_it_is(&n_left, 1);
    usleep(300000);
    assert_int_equal(n_left, 1);
    close(stays);
    wait_until_it_is(&n_left, 2);
    released = true;
    wait_until_it_is(&n_ended, 2);
    srv_exchanges_close(s.exchanges);
}

/* nginx, and whoever else stands between, passes them on at once. */
static void events_are_not_kept_on_their_way(void **state)
{
    srv_server s;
    int port;
    assert_true(open_exchanges(&s, &port));
    const int fd = ask(port, "/");
    wait_until_it_is(&n_asked, 1);
    released = true;
    const char *text = read_all(fd);
    has(text, "HTTP/1.1 200 ");
    has(text, "Content-Type: text/event-stream; charset=utf-8\r\n");
    has(text, "Cache-Control: no-cache\r\n");
    has(text, "X-Accel-Buffering: no\r\n");
    srv_exchanges_close(s.exchanges);
}

static void what_memory_did_not_suffice_for_is_no_answer(void **state)
{
    srv_server s;
    int port;
    assert_true(open_exchanges(&s, &port));
    const char *text = read_all(ask(port, "/half"));
    has(text, "HTTP/1.1 503 ");
    has(text, "Content-Type: application/json\r\n");
    has(text, "Retry-After: 1\r\n");
    has(text, "\"code\":\"out_of_memory\"");
    assert_null(strstr(text, "half of"));
    srv_exchanges_close(s.exchanges);
}

/* Of tokens that are no whole characters. */
static void bytes_that_are_no_text_are_marked_one_by_one(void **state)
{
    json_t *text = srv_text_json("a\xff\xe2\x82" "b\xc3", 6);
    assert_string_equal(json_string_value(text), "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" "b\xef\xbf\xbd");
    json_decref(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_of_the_library_have_a_status),
        cmocka_unit_test(a_client_that_hung_up_is_left_once),
        cmocka_unit_test(events_are_not_kept_on_their_way),
        cmocka_unit_test(what_memory_did_not_suffice_for_is_no_answer),
        cmocka_unit_test(bytes_that_are_no_text_are_marked_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
