/* test_http.c -- one connection to one server: what is sent, which answers are errors, and what they say. */
#include "support/canned.h"
#include "support/failing_curl.h"

#include "base/http.h"

/* What the server was sent, what it answers, and whether it waits with the answer. */
static char sent[1 << 16];
static const char *answers;
static atomic_bool waits;

static void answer(canned *c, const char *request, char *out, size_t size)
{
    while (waits && !c->stop) usleep(1000);
    snprintf(sent, sizeof sent, "%s", request);
    snprintf(out, size, "%s", answers);
}

/* A server, and a connection to it that waits `timeout_ms` for an answer. */
typedef struct scene {
    canned server;
    sp_http *http;
    char url[64];
    sp_bytes reply;
} scene;

static void scene_open(scene *s, const char *end, int timeout_ms)
{
    *s = (scene){0};
    waits = false;
    canned_start(&s->server, end, answer);
    snprintf(s->url, sizeof s->url, "http://127.0.0.1:%d", s->server.port);
    assert_survives_faults(sp_http_open(s->url, timeout_ms, &s->http), s->http == NULL);
}

static void scene_close(scene *s)
{
    sp_http_close(s->http);
    sp_vec_fini(&s->reply);
    canned_stop(&s->server);
}

static sp_err get(scene *s, const char *path)
{
    return sp_http_send(s->http, &(sp_http_request){.method = "GET", .path = path, .accept = "text/plain"}, &s->reply);
}

static void has(const char *text)
{
    if (!strstr(sent, text)) fail_msg("%s\nhas no %s", sent, text);
}

static void a_form_is_sent_percent_encoded(void **state)
{
    scene s;
    scene_open(&s, "&last=", 10000);
    const sp_http_field fields[] = {{"q", "a b&\xc3\xa9=~\0/", 10}, {"n", "7", 1}, {"x", "", 0}, {"last", "", 0}};
    answers = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine";
    assert_int_equal(sp_http_status(s.http), 0);
    assert_ok(sp_http_post(s.http, fields, SP_COUNT(fields), "application/json", &s.reply));
    has("POST / HTTP/1.1\r\n");
    has("Accept: application/json\r\n");
    has("Content-Type: application/x-www-form-urlencoded\r\n");
    has("\r\n\r\nq=a%20b%26%C3%A9%3D~%00%2F&n=7&x=&last=");
    assert_null(strstr(sent, "Expect"));
    assert_int_equal(sp_http_status(s.http), 200);
    assert_int_equal(s.reply.n, 4);
    assert_memory_equal(s.reply.v, "fine", 4);
    assert_ok(sp_http_post(s.http, fields + 2, 2, "application/json", &s.reply));
    has("\r\n\r\nx=&last="); /* nothing of the form before */
    scene_close(&s);
}

/* A request without a body after one that had one sends none. */
static void a_body_is_sent_once(void **state)
{
    scene s;
    scene_open(&s, "\r\n\r\n", 10000);
    const sp_http_field field = {"q", "word", 4};
    answers = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    assert_ok(sp_http_post(s.http, &field, 1, "application/json", &s.reply));
    has("q=word");
    assert_ok(get(&s, "/x"));
    has("GET /x ");
    assert_null(strstr(sent, "Content-"));
    assert_null(strstr(sent, "q=word"));
    scene_close(&s);
}

/* What a configured address names is asked over the network: it is never a file of this machine. */
static void only_servers_are_asked(void **state)
{
    sp_http *h;
    sp_bytes reply = {0};
    assert_ok(sp_http_open("file:///proc/self/cmdline", 10000, &h));
    assert_fails(sp_http_send(h, &(sp_http_request){.method = "GET", .accept = "x/y"}, &reply), SP_E_IO, "file://");
    assert_int_equal(reply.n, 0);
    sp_http_close(h);
    sp_vec_fini(&reply);
}

/* A request has its path and header; the body of an answer replaces that of the one before. */
static void requests_follow_each_other(void **state)
{
    scene s;
    scene_open(&s, "\r\n\r\n", 10000);
    for (int i = 0; i < 3; i++) {
        answers = i == 1 ? "HTTP/1.1 204 No Content\r\n\r\n" : "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok";
        const sp_http_request r = {.method = i == 2 ? "DELETE" : "GET", .path = i ? "/a?b=c" : NULL, .accept = "x/y",
                                   .header = i ? "X-Key: k" : NULL};
        assert_ok(sp_http_send(s.http, &r, &s.reply));
        assert_int_equal(s.reply.n, i == 1 ? 0 : 2);
        assert_int_equal(sp_http_status(s.http), i == 1 ? 204 : 201);
        has(i == 2 ? "DELETE /a?b=c " : i ? "GET /a?b=c " : "GET / ");
        has("Accept: x/y\r\n");
        assert_true(!strstr(sent, "X-Key: k\r\n") == !i);
        assert_null(strstr(sent, "Content-Type"));
    }
    scene_close(&s);
}

/* Redirects are not followed; an error has the first line of the body. */
static void other_statuses_are_errors_with_their_first_line(void **state)
{
    static const struct {
        const char *answer, *detail;
        long status;
    } cases[] = {
        {"HTTP/1.1 404 Not Found\r\nContent-Length: 12\r\n\r\nno such\nmore", "/x: HTTP status 404: no such", 404},
        {"HTTP/1.1 500 Error\r\nContent-Length: 0\r\n\r\n", "/x: HTTP status 500", 500},
        {"HTTP/1.1 301 Moved\r\nLocation: /y\r\nContent-Length: 0\r\n\r\n", "/x: HTTP status 301", 301},
        {"HTTP/1.1 300 Choices\r\nContent-Length: 1\r\n\r\n?", "/x: HTTP status 300: ?", 300},
    };
    scene s;
    scene_open(&s, "\r\n\r\n", 10000);
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        answers = cases[i].answer;
        assert_fails(get(&s, "/x"), SP_E_IO, s.url);
        const char *detail = sp_error_detail(), *at = strstr(detail, "/x");
        if (!at || strcmp(at, cases[i].detail) != 0) fail_msg("%s, not %s", detail, cases[i].detail);
        assert_int_equal(sp_http_status(s.http), cases[i].status);
    }
    char page[512]; /* of one long line: its beginning is enough */
    snprintf(page, sizeof page, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 400\r\n\r\n%0400d", 0);
    answers = page;
    assert_fails(get(&s, "/x"), SP_E_IO, s.url);
    assert_true(strspn(strrchr(sp_error_detail(), ' ') + 1, "0") == 300);
    answers = "HTTP/1.1 299 Fine\r\nContent-Length: 0\r\n\r\n";
    assert_ok(get(&s, NULL));
    scene_close(&s);
}

/* A server that closes, that does not answer, and that is not there: each error has the URL, and none has a status. */
static void servers_that_do_not_answer_are_errors(void **state)
{
    scene s;
    scene_open(&s, "\r\n\r\n", 10000);
    answers = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    assert_ok(get(&s, "/x"));
    answers = "";
    assert_fails(get(&s, "/x"), SP_E_IO, s.url);
    assert_int_equal(sp_http_status(s.http), 0);
    scene_close(&s);
    assert_ok(sp_http_open(s.url, 10000, &s.http));
    assert_fails(get(&s, "/x"), SP_E_IO, s.url);
    sp_http_close(s.http);
    sp_vec_fini(&s.reply);
    scene_open(&s, "\r\n\r\n", 50);
    answers = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    waits = true;
    assert_fails(get(&s, "/x"), SP_E_IO, "/x: no answer within 50 ms");
    waits = false;
    scene_close(&s);
}

/* curl would ask first whether it may send a body of more than 1 MiB. A body need not be text. */
static void a_long_body_is_sent_at_once(void **state)
{
    static char body[(1 << 20) + 2];
    scene s;
    scene_open(&s, "\r\n\r\n", 10000);
    memset(body, 'x', sizeof body);
    body[9] = '\0';
    answers = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    const sp_http_request r = {.method = "PUT", .accept = "x/y", .type = "x/z", .body = body, .n = sizeof body};
    assert_ok(sp_http_send(s.http, &r, &s.reply));
    has("Content-Length: 1048578\r\n");
    assert_null(strstr(sent, "Expect"));
    scene_close(&s);
}

/* An answer may have 32 MiB, in pieces of any size. */
static void a_longer_answer_is_refused(void **state)
{
    scene s;
    scene_open(&s, "\r\n\r\n", 10000);
    for (int more = 0; more < 2; more++) {
        s.server.n_after = SP_HTTP_MAX_BYTES + more;
        answers = more ? "HTTP/1.1 200 OK\r\nContent-Length: 33554433\r\n\r\n"
                       : "HTTP/1.1 200 OK\r\nContent-Length: 33554432\r\n\r\n";
        if (more)
            assert_fails(get(&s, "/x"), SP_E_LIMIT, "the answer has more than 32 MiB");
        else
            assert_ok(get(&s, "/x"));
        assert_true(more || s.reply.n == SP_HTTP_MAX_BYTES);
    }
    s.server.n_after = 0;
    answers = "HTTP/1.1 204 No Content\r\n\r\n"; /* an answer without a body is not too long */
    assert_ok(get(&s, "/x"));
    scene_close(&s);
}

/* get_into_nothing -- with no room for the answer. */
static sp_err get_into_nothing(scene *s)
{
    sp_vec_fini(&s->reply);
    return get(s, "/a");
}

static void requests_survive_faults(void **state)
{
    scene s;
    scene_open(&s, "\r\n\r\n", 10000);
    answers = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine";
    assert_survives_faults(get_into_nothing(&s), s.reply.n == 0);
    assert_int_equal(s.reply.n, 4);
    scene_close(&s);
}

/* libcurl would send a POST for a PUT. */
static void without_memory_a_request_is_not_another_one(void **state)
{
    scene s;
    scene_open(&s, "\r\n\r\n", 10000);
    const sp_http_request r = {.method = "PUT", .path = "/a", .accept = "x/y", .body = "", .n = 0};
    int n_short = 0;
    bool failed = true;
    answers = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    for (int at = 0; failed; at++) {
        *sent = '\0';
        curl_until_failure = at;
        const sp_err err = sp_http_send(s.http, &r, &s.reply);
        failed = curl_until_failure < 0;
        curl_until_failure = -1;
        n_short += err == SP_E_NOMEM;
        if (!*sent) assert_int_not_equal(err, SP_OK);
        if (*sent) has("PUT /a ");
    }
    assert_true(n_short > 3);
    scene_close(&s);
}

int main(void)
{
    failing_curl_begin();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_form_is_sent_percent_encoded),
        cmocka_unit_test(a_body_is_sent_once),
        cmocka_unit_test(only_servers_are_asked),
        cmocka_unit_test(requests_follow_each_other),
        cmocka_unit_test(other_statuses_are_errors_with_their_first_line),
        cmocka_unit_test(servers_that_do_not_answer_are_errors),
        cmocka_unit_test(a_long_body_is_sent_at_once),
        cmocka_unit_test(a_longer_answer_is_refused),
        cmocka_unit_test(requests_survive_faults),
        cmocka_unit_test(without_memory_a_request_is_not_another_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
