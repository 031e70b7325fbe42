/* The SPARQL store against a server of the test's own that says one thing: answers, errors, delays.
 * A real server is in tests/e2e/test_graph.py. */
#include "support/check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "spolia.h"

/* A server that answers each request with the next of `replies`, the last again and again, and keeps
 * the last request. A NULL reply: it reads and says nothing. */
typedef struct stub {
    int listener;
    pthread_t thread;
    char url[64];
    const char *const *replies;
    char request[65536];
    int n_requests;
} stub;

static void *serve(void *arg)
{
    stub *s = arg;
    for (int i = 0;;) {
        int c = accept(s->listener, NULL, NULL);
        if (c < 0) return NULL;
        size_t n = 0;
        const char *body = NULL;
        size_t length = 0;
        while (n < sizeof s->request - 1 && (!body || n < (size_t)(body - s->request) + length)) {
            ssize_t got = recv(c, s->request + n, sizeof s->request - 1 - n, 0);
            if (got <= 0) break;
            s->request[n += (size_t)got] = '\0';
            if (body || !(body = strstr(s->request, "\r\n\r\n"))) continue;
            body += 4;
            const char *field = strcasestr(s->request, "Content-Length:");
            length = field ? (size_t)atoi(field + 15) : 0;
            if (strcasestr(s->request, "Expect: 100")) {
                static const char go[] = "HTTP/1.1 100 Continue\r\n\r\n";
                if (send(c, go, sizeof go - 1, MSG_NOSIGNAL) < 0) break;
            }
        }
        s->n_requests++;
        const char *reply = s->replies[i];
        if (s->replies[i] && s->replies[i + 1]) i++;
        if (!reply) recv(c, s->request, 1, 0); /* until the client hangs up */
        for (size_t at = 0, all = reply ? strlen(reply) : 0; at < all;) {
            ssize_t sent = send(c, reply + at, all - at, MSG_NOSIGNAL);
            if (sent <= 0) break;
            at += (size_t)sent;
        }
        close(c);
    }
}

static void stub_start(stub *s, const char *const *replies)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    *s = (stub){.replies = replies, .listener = socket(AF_INET, SOCK_STREAM, 0)};
    assert_true(s->listener >= 0);
    assert_int_equal(bind(s->listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(s->listener, 8), 0);
    assert_int_equal(getsockname(s->listener, (struct sockaddr *)&a, &n), 0);
    snprintf(s->url, sizeof s->url, "http://127.0.0.1:%d/sparql", ntohs(a.sin_port));
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void stub_stop(stub *s)
{
    shutdown(s->listener, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    close(s->listener);
}

#define OK_HEAD              "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
#define ROWS(rows)           OK_HEAD "{\"results\": {\"bindings\": [" rows "]}}"
#define IRI(variable, iri)   "\"" variable "\": {\"type\": \"uri\", \"value\": \"" iri "\"}"
#define TEXT(variable, text) "\"" variable "\": {\"type\": \"literal\", \"value\": \"" text "\"}"

static sp_err ask(const stub *s, const char *question, int timeout_ms, sp_graph_answer *a)
{
    sp_graph *g;
    SP_TRY(sp_graph_open(&(sp_graph_open_opts){.where = s->url, .timeout_ms = timeout_ms}, &g));
    sp_err err =
        sp_graph_find_paths(g, question, &(sp_graph_paths_opts){.hops = 1, .explain = true}, a);
    sp_graph_close(g);
    return err;
}

static void paths_come_from_answers(void **state)
{
    static const char *const replies[] = {
        ROWS("{" IRI("e", "http://x/Q1") ", " TEXT("l", "Heat") "}"),
        ROWS("{" IRI("s", "http://x/Q1") ", " IRI("p", "http://x/directedBy") ", "
                 IRI("o", "http://x/Q2") ", " TEXT("ol", "Michael Mann") "}, "
             "{" IRI("s", "http://x/Q1") ", " IRI("p", "http://x/year") ", " TEXT("o", "1995") "}, "
             "{" IRI("s", "http://x/Q1") ", " IRI("p", "http://x/bad") ", "
                 IRI("o", "http://x/a> . ?s ?p ?o") "}, "
             "{" IRI("s", "http://x/Q1") ", " IRI("p", "http://x/bad") ", " IRI("o", "http://x/a b") "}, "
             "{" IRI("s", "http://x/Q1") ", " IRI("p", "http://x/directedBy") ", "
                 IRI("o", "http://x/Q2") ", " TEXT("ol", "Mann, Michael") "}"),
        ROWS("{" IRI("s", "http://x/Q1") ", " IRI("p", "http://x/plays%20in") ", " IRI("o", "http://x/K%C3%B6ln") "}"),
        NULL,
    };
    stub s;
    sp_graph_answer a;
    stub_start(&s, replies);
    assert_ok(ask(&s, "who directed heat", 0, &a));
    assert_int_equal(a.n_entities, 1);
    assert_string_equal(a.entities[0].ident, "http://x/Q1");
    assert_int_equal(a.n_paths, 3); /* an IRI that cannot be written in a query is left out */
    assert_string_equal(a.paths[0].text, "Heat -directedBy-> Michael Mann");
    for (int i = 1; i < 3; i++)
        assert_true(strcmp(a.paths[i].text, "Heat -year-> 1995") == 0 ||
                    strcmp(a.paths[i].text, "Heat <-plays in- K\xC3\xB6ln") == 0);
    sp_graph_answer_fini(&a);
    stub_stop(&s);
}

/* A relation that is a text would end the IRI in the next query; sums of counts must not overflow. */
static void hostile_values_are_left_out(void **state)
{
    static const char *const paths[] = {
        ROWS("{" IRI("e", "http://x/Q1") ", " TEXT("l", "Heat") "}"),
        ROWS("{" IRI("s", "http://x/Q1") ", " TEXT("p", "x> } y") ", " IRI("o", "http://x/Q2") "}, "
             "{" IRI("s", "http://x/Q1") ", " IRI("p", "http://x/year") ", " TEXT("o", "1995") "}"),
        ROWS(""),
        NULL,
    };
    static const char *const counts[] = {
        ROWS("{" IRI("p", "http://x/a") ", " TEXT("n", "9223372036854775807") "}, "
             "{" IRI("p", "http://x/b") ", " TEXT("n", "9223372036854775807") "}, "
             "{" IRI("p", "http://x/c") ", " TEXT("n", "-7") "}"),
        NULL,
    };
    stub s;
    sp_graph *g;
    sp_graph_answer a;
    sp_graph_info info;
    stub_start(&s, paths);
    assert_ok(ask(&s, "who directed heat", 0, &a));
    assert_int_equal(a.n_paths, 1);
    assert_string_equal(a.paths[0].text, "Heat -year-> 1995");
    sp_graph_answer_fini(&a);
    stub_stop(&s);
    stub_start(&s, counts);
    assert_ok(sp_graph_open(&(sp_graph_open_opts){.where = s.url}, &g));
    assert_ok(sp_graph_describe(g, &info));
    assert_int_equal(info.n_relations, 3);
    assert_int_equal(info.relations[2].n_triples, 0);
    assert_true(info.n_triples >= info.relations[0].n_triples && info.relations[0].n_triples > 0);
    sp_graph_info_fini(&info);
    sp_graph_close(g);
    stub_stop(&s);
}

/* paths_of_heat -- by these replies. Returns how many requests were made. */
static int paths_of_heat(const char *const *replies, int hops, int max_degree, int n_paths, int n_hubs)
{
    stub s;
    sp_graph *g;
    sp_graph_answer a;
    stub_start(&s, replies);
    assert_ok(sp_graph_open(&(sp_graph_open_opts){.where = s.url}, &g));
    assert_ok(sp_graph_find_paths(g, "heat", &(sp_graph_paths_opts){.hops = hops, .max_degree = max_degree}, &a));
    assert_int_equal(a.n_paths, n_paths);
    assert_int_equal(a.n_hubs, n_hubs);
    for (int i = 0; n_hubs && i < a.n_paths; i++) assert_int_equal(a.paths[i].n_hops, 1); /* nothing goes through it */
    sp_graph_answer_fini(&a);
    sp_graph_close(g);
    stub_stop(&s);
    return s.n_requests;
}

/* paths_with -- of "heat" over two hops: its year, and Heat -by-> Q2, which is the subject of two more triples and
 * the object of one. */
static void paths_with(int max_degree, int n_paths, int n_hubs)
{
    static const char *const replies[] = {
        ROWS("{" IRI("e", "http://x/Q1") ", " TEXT("l", "Heat") "}"),
        ROWS("{" IRI("s", "http://x/Q1") ", " IRI("p", "http://x/year") ", " TEXT("o", "1995") "}, "
             "{" IRI("s", "http://x/Q1") ", " IRI("p", "http://x/by") ", " IRI("o", "http://x/Q2") "}"),
        ROWS(""),
        ROWS("{" IRI("s", "http://x/Q2") ", " IRI("p", "http://x/born") ", " TEXT("o", "1943") "}, "
             "{" IRI("s", "http://x/Q2") ", " IRI("p", "http://x/in") ", " IRI("o", "http://x/Q4") "}"),
        ROWS("{" IRI("s", "http://x/Q2") ", " IRI("p", "http://x/made") ", " IRI("o", "http://x/Q5") "}"),
        NULL,
    };
    paths_of_heat(replies, 2, max_degree, n_paths, n_hubs);
}

static void a_hub_ends_paths(void **state)
{
    paths_with(1, 2, 1);
    paths_with(2, 4, 0);
}

/* searched -- the requests of a search, and what the last of them has. */
static void searched(const char *name, const char *const *replies, int n_requests, const char *has)
{
    stub s;
    sp_graph *g;
    sp_graph_answer a;
    stub_start(&s, replies);
    assert_ok(sp_graph_open(&(sp_graph_open_opts){.where = s.url}, &g));
    assert_ok(sp_graph_search(g, name, 5, &a));
    sp_graph_answer_fini(&a);
    sp_graph_close(g);
    stub_stop(&s);
    assert_int_equal(s.n_requests, n_requests);
    if (!strstr(s.request, has)) fail_msg("%s: %s", has, s.request);
}

/* As written and with capitals, with a language and without; else by the first of the longest words. */
static void names_are_asked_for_as_labels_may_have_them(void **state)
{
    static const char *const found[] = {ROWS("{" IRI("e", "http://x/Q60") ", " TEXT("l", "New York") "}"), NULL};
    static const char *const none[] = {ROWS(""), NULL};
    searched("new york", found, 1, "%22New%20York%22%40en");
    searched("new york", found, 1, "%22new%20york%22%20");
    searched("new\x01york", found, 1, "%22new%5Cu0001york%22%20"); /* as an escape */
    searched("new york", none, 2, "%22york%22");
    searched("abcd efgh", none, 2, "%22abcd%22");
    searched("abc", none, 2, "%22abc%22");
    searched("ab", none, 1, "%22ab%22");
}

/* Of an answer that may be cut off nothing is taken: the node is asked about relation by relation. */
static void a_full_answer_is_asked_for_in_parts(void **state)
{
#define EDGE(p, o) "{" IRI("s", "http://x/Q1") ", " IRI("p", "http://x/" p) ", " IRI("o", "http://x/" o) "}"
    static const char *const replies[] = {
        ROWS("{" IRI("e", "http://x/Q1") ", " TEXT("l", "Heat") "}"),
        ROWS(EDGE("a", "A") ", " EDGE("b", "B") ", " EDGE("c", "C") ", " EDGE("d", "D")),
        ROWS("{" IRI("p", "http://x/a") "}, {" IRI("p", "http://x/e") "}"),
        ROWS(EDGE("a", "A")),
        ROWS(EDGE("e", "E")),
        ROWS(""),
        NULL,
    };
    assert_int_equal(paths_of_heat(replies, 1, 1, 2, 0), 6);
}

static void queries_quote_what_users_write(void **state)
{
    static const char *const replies[] = {ROWS(""), NULL};
    stub s;
    sp_graph_answer a;
    stub_start(&s, replies);
    assert_ok(ask(&s, "a\"} ; DROP ALL\\ \n# x", 0, &a));
    assert_int_equal(a.n_paths, 0);
    sp_graph_answer_fini(&a);
    /* in the form, a quote in a string is %5C%22; none is bare inside one, and no line ends */
    assert_non_null(strstr(s.request, "query=SELECT"));
    assert_null(strstr(s.request, "a%22%7D"));
    assert_null(strstr(s.request, "%0A"));
    stub_stop(&s);
}

static void fails_with(const char *reply, sp_err code, const char *why)
{
    const char *const replies[] = {reply, NULL};
    stub s;
    sp_graph_answer a = {.n_paths = -7};
    stub_start(&s, replies);
    assert_fails(ask(&s, "who directed heat", 60000, &a), code, why);
    assert_non_null(strstr(sp_error_detail(), s.url));
    assert_int_equal(a.n_paths, -7);
    stub_stop(&s);
}

static void bad_answers_are_errors(void **state)
{
    fails_with("HTTP/1.1 503 Busy\r\nConnection: close\r\n\r\nVirtuoso 42000 Error\nSPARQL query",
               SP_E_IO, "HTTP status 503: Virtuoso 42000 Error");
    fails_with("HTTP/1.1 302 Moved\r\nLocation: http://example.org/\r\nConnection: close\r\n\r\n",
               SP_E_IO, "HTTP status 302");
    fails_with(OK_HEAD "<html>", SP_E_FORMAT, "the answer is not JSON");
    fails_with(OK_HEAD, SP_E_FORMAT, "the answer is not JSON");
    fails_with(OK_HEAD "{\"boolean\": true}", SP_E_FORMAT, "no array results.bindings");
    fails_with("HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{\"results\"", SP_E_IO,
               "transfer closed");
    fails_with("nonsense\r\n\r\n", SP_E_IO, "HTTP/0.9");
}

static void a_silent_server_is_left_in_time(void **state)
{
    static const char *const replies[] = {NULL, NULL};
    stub s;
    sp_graph_answer a;
    stub_start(&s, replies);
    int64_t start = sp_clock_us();
    assert_fails(ask(&s, "heat", 200, &a), SP_E_IO, "no answer within 200 ms");
    assert_in_range(sp_clock_us() - start, 150000, 60000000);
    stub_stop(&s);
}

static void a_server_that_vanishes_between_queries_is_an_error(void **state)
{
    static const char *const replies[] = {
        ROWS("{" IRI("e", "http://x/Q1") ", " TEXT("l", "Heat") "}"),
        "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n",
        NULL,
    };
    stub s;
    sp_graph_answer a = {.n_paths = -7};
    stub_start(&s, replies);
    assert_fails(ask(&s, "heat", 1000, &a), SP_E_IO, s.url);
    assert_int_equal(a.n_paths, -7);
    stub_stop(&s);
    assert_fails(ask(&s, "heat", 1000, &a), SP_E_IO, s.url); /* nobody listens any more */
}

static void arguments_are_checked(void **state)
{
    sp_graph *g;
    sp_graph_open_opts o = {.where = "http://127.0.0.1:1/", .rdf_label = "label> ?x"};
    assert_fails(sp_graph_open(&o, &g), SP_E_ARG, "is not an IRI");
    o = (sp_graph_open_opts){.where = "http://127.0.0.1:1/", .rdf_graph = "graph"};
    assert_fails(sp_graph_open(&o, &g), SP_E_ARG, "rdf_graph: \"graph\"");
    o = (sp_graph_open_opts){.where = "http://127.0.0.1:1/", .timeout_ms = -1};
    assert_fails(sp_graph_open(&o, &g), SP_E_ARG, "timeout_ms: -1");
    assert_fails(sp_graph_open(&(sp_graph_open_opts){0}, &g), SP_E_ARG, "where: give a file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_come_from_answers),
        cmocka_unit_test(hostile_values_are_left_out),
        cmocka_unit_test(a_hub_ends_paths),
        cmocka_unit_test(names_are_asked_for_as_labels_may_have_them),
        cmocka_unit_test(a_full_answer_is_asked_for_in_parts),
        cmocka_unit_test(queries_quote_what_users_write),
        cmocka_unit_test(bad_answers_are_errors),
        cmocka_unit_test(a_silent_server_is_left_in_time),
        cmocka_unit_test(a_server_that_vanishes_between_queries_is_an_error),
        cmocka_unit_test(arguments_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
