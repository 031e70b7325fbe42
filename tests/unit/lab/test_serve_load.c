/* test_serve_load.c -- the load generator's parts that need no server: streams in pieces of any
 * length, prompts, and the goodput of a table. */
#include <math.h>
#include <string.h>

#include "lab/bench/serve_report.h"
#include "support/check.h"

static const char stream[] =
    ": ping\n\n"
    "data: {\"choices\": [{\"delta\": {\"role\": \"assistant\", \"content\": \"\"}}]}\n\n"
    "data: {\"choices\": [{\"delta\": {\"content\": \"one\"}}]}\r\n\r\n"
    "data:{\"choices\": [{\"delta\": {\"content\": \"two\"}}]}\n\n"
    "data: {\"choices\": [{\"delta\": {}, \"finish_reason\": \"length\"}]}\n\n"
    "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 40, \"completion_tokens\": 3, "
    "\"prompt_tokens_details\": {\"cached_tokens\": 30}}}\n\n"
    "data: [DONE]\n\n";

static void test_streams_in_pieces(void **state)
{
    load_answer a = {0};
    for (size_t piece = 1; piece < sizeof stream; piece += 7) {
        load_answer_reset(&a);
        a.is_stream = true;
        int64_t now = 1000;
        for (size_t at = 0; at < sizeof stream - 1; at += piece, now += 1000) {
            size_t left = sizeof stream - 1 - at;
            assert_true(load_answer_feed(&a, stream + at, left < piece ? left : piece, now));
        }
        assert_int_equal(a.n_events, 2);
        assert_int_equal(a.gaps.n, 1);
        assert_true(a.first_us > 0 && a.last_us >= a.first_us && a.done);
        assert_true(fabs(a.gaps.v[0] - (double)(a.last_us - a.first_us) / 1e6) < 1e-9);
        assert_int_equal(a.n_generated, 3);
        assert_int_equal(a.n_prompt, 40);
        assert_int_equal(a.n_cached, 30);
        assert_string_equal(a.wrong, "");
    }
    load_answer_fini(&a);
}

static bool feed(load_answer *a, const char *text, bool is_stream)
{
    load_answer_reset(a);
    a->is_stream = is_stream;
    return load_answer_feed(a, text, strlen(text), 1);
}

static void test_streams_that_go_wrong(void **state)
{
    load_answer a = {0};
    assert_false(feed(&a, "data: {\"error\": {\"message\": \"no memory\"}}\n\n", true));
    assert_non_null(strstr(a.wrong, "no memory"));
    assert_false(feed(&a, "data: {\"choices\": [\n\n", true));
    assert_non_null(strstr(a.wrong, "not JSON"));
    assert_true(feed(&a, "data: {\"choices\": [{\"delta\": {\"content\": \"x\"}", true)); /* not yet a line */
    assert_int_equal(a.n_events, 0);
    assert_true(feed(&a, "data: {\"choices\": [{\"text\": \"\", \"finish_reason\": \"stop\"}]}\n\n", true));
    assert_int_equal(a.n_events, 1); /* an answer without text */
    assert_false(a.done);
    char *longest = malloc(2 << 20);
    memset(longest, 'x', 2 << 20);
    longest[(2 << 20) - 1] = '\0';
    assert_false(feed(&a, longest, true));
    assert_non_null(strstr(a.wrong, "too long"));
    assert_true(feed(&a, longest, false)); /* of an error page the beginning is kept */
    assert_true(a.n_line < 8192);
    free(longest);
    load_answer_fini(&a);
}

static void test_random_prompts(void **state)
{
    load_source_opts o = {.n_documents = 6, .n_words = 5, .n_chunks = 4, .zipf = 3, .seed = 7};
    load_source *s = load_source_open(&o), *again = load_source_open(&o);
    assert_non_null(s);
    assert_int_equal(load_source_size(s), 0);
    bool differ = false;
    for (int i = 0; i < 50; i++) {
        load_prompt p, q;
        load_source_prompt(s, i, &p);
        load_source_prompt(again, i, &q);
        assert_true(json_equal(p.documents, q.documents));
        assert_string_equal(p.question, q.question);
        assert_int_equal(json_array_size(p.documents), 4);
        for (size_t k = 1; k < 4; k++)
            for (size_t j = 0; j < k; j++)
                assert_false(json_equal(json_array_get(p.documents, j), json_array_get(p.documents, k)));
        differ |= strcmp(json_string_value(json_object_get(json_array_get(p.documents, 0), "id")), "random-0") != 0;
        load_prompt_fini(&p);
        load_prompt_fini(&q);
    }
    assert_true(differ);
    load_source_close(s);
    load_source_close(again);
}

static load_row *add_row(load_report *r, int server, double rate, double ttft, int n_failed)
{
    r->rows = realloc(r->rows, (r->n + 1) * sizeof *r->rows);
    assert_non_null(r->rows);
    r->rows[r->n] = (load_row){.server = server, .rate = rate, .n_requests = 10, .n_failed = n_failed, .drain = 0.5,
                               .n_answered = 10 - n_failed, .ttft = {.mean = ttft}, .total = {.mean = 0.2}};
    return &r->rows[r->n++];
}

static void test_goodput(void **state)
{
    load_report r = {.names = {"a", "b", "c", "d"}, .n_names = 4, .factor = 5};
    add_row(&r, 0, 4, 0.40, 0); /* in any order */
    add_row(&r, 0, 1, 0.10, 0);
    add_row(&r, 0, 2, 0.20, 0);
    add_row(&r, 0, 8, 0.51, 0);
    add_row(&r, 0, 16, 0.3, 0); /* a lower rate was too slow */
    add_row(&r, 1, 1, 0.10, 0);
    add_row(&r, 1, 2, 0.10, 1); /* one request was not answered */
    add_row(&r, 1, 4, 0.10, 0);
    add_row(&r, 2, 1, 0.10, 10);
    add_row(&r, 3, 1, 0.10, 0)->drain = 2; /* nothing to compare with */
    add_row(&r, 3, 2, 0.10, 0)->drain = 0.99;
    add_row(&r, 3, 4, 0.10, 0)->drain = 1.01; /* the queue was still growing */
    assert_true(load_goodput(&r, 0) == 4);
    assert_true(load_goodput(&r, 1) == 1);
    assert_true(isnan(load_goodput(&r, 2)));
    assert_true(load_goodput(&r, 3) == 2);
    assert_true(isnan(load_goodput(&r, 4)));
    load_report_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams_in_pieces),
        cmocka_unit_test(test_streams_that_go_wrong),
        cmocka_unit_test(test_random_prompts),
        cmocka_unit_test(test_goodput),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
