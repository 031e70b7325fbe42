/* The id of a request, and its line in the log. */
#include "server/http/log.h"

#include <jansson.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "support/caught.h"

static void *no_memory(size_t n, const char *file, int line)
{
    return NULL;
}

static void *no_more_memory(void *p, size_t n, const char *file, int line)
{
    return NULL;
}

static void release(void *p, const char *file, int line)
{
    free(p);
}

static void ids_differ_although_libcrypto_has_no_memory(void **state)
{
    (void)state;
    srv_record a, b;
    assert_int_equal(CRYPTO_set_mem_functions(no_memory, no_more_memory, release), 1);
    srv_record_begin(&a, NULL, "GET", "/");
    srv_record_begin(&b, NULL, "GET", "/");
    assert_int_equal(strspn(a.id, "0123456789abcdef"), 24);
    assert_int_equal(strlen(a.id), 24);
    assert_string_not_equal(a.id, b.id);
}

static void the_id_of_the_client_is_kept(void **state)
{
    (void)state;
    srv_record r;
    srv_record_begin(&r, "mine-7", "GET", "/");
    assert_string_equal(r.id, "mine-7");
    srv_record_begin(&r, "no spaces", "GET", "/");
    assert_int_equal(strlen(r.id), 24);
}

static const sp_segment_report segments[] = {{.from = "memory", .n_reused = 10}, {.from = "", .n_reused = 0},
                                             {.from = "disk", .n_reused = 30},   {.from = "host", .n_reused = 20},
                                             {.from = "disk", .n_reused = 1},    {.from = "remote", .n_reused = 5},
                                             {.from = "host", .n_reused = 0}};

/* record_of -- a prompt from every tier and two choices, refused by its second. */
static srv_record record_of(void)
{
    srv_record r;
    sp_result one = {.finish = SP_FINISH_STOP, .n_prompt = 100, .n_computed = 40, .n_recomputed = 8, .n_generated = 11,
                     .queue_us = 1500, .ttft_us = 6000, .segments = segments, .n_segments = SP_COUNT(segments)};
    srv_record_begin(&r, "mine-7", "POST", "/v1/x");
    snprintf(r.key, sizeof r.key, "team");
    r.status = 200;
    srv_record_add(&r, &one, true);
    one.finish = SP_FINISH_CANCELED;
    one.queue_us = one.ttft_us = 9000000;
    one.n_generated = 3;
    srv_record_add(&r, &one, false);
    srv_record_add(NULL, &one, true);
    srv_record_error(&r, "top_k", "bad", "must be \"small\"");
    return r;
}

/* line_of -- what is printed, without the time before it. */
static const char *line_of(srv_log_format format, const srv_record *r)
{
    caught c = catch_begin(stderr);
    srv_log_request(format, r);
    const char *line = catch_end(&c);
    return format == SRV_LOG_TEXT && *line ? line + strlen("2026-01-01T00:00:00.000Z ") : line;
}

static void begins(const char *line, const char *with)
{
    if (strncmp(line, with, strlen(with)) != 0) fail_msg("%s", line);
}

static void a_line_has_what_was_answered_and_why_not(void **state)
{
    srv_record r = record_of();
    const char *line = line_of(SRV_LOG_TEXT, &r);
    begins(line, "POST /v1/x 200 id=mine-7 key=team prompt=100 memory=10 disk=31 host=20 remote=5 recomputed=8 "
                 "computed=32 generated=14 queue_ms=1.5 ttft_ms=6.0 total_ms=");
    assert_non_null(strstr(line, " canceled error=\"bad: top_k: must be \\\"small\\\"\"\n"));
    r.probe = true;
    assert_string_equal(line_of(SRV_LOG_TEXT, &r), "");
    assert_string_equal(line_of(SRV_LOG_JSON, &r), "");
    srv_record_begin(&r, "a", "GET", "/");
    begins(line_of(SRV_LOG_TEXT, &r), "GET / 499 id=a total_ms=");
    assert_string_equal(line_of(SRV_LOG_NONE, &r), "");
    srv_record_error(&r, "top_k", NULL, "top_k: too large");
    assert_string_equal(r.error, "top_k: too large");
    srv_record_error(&r, "top", NULL, "top_k is too large");
    assert_string_equal(r.error, "top: top_k is too large");
}

/* The choices of an answer end in any order. */
static void an_answer_with_a_choice_that_was_canceled_was_canceled(void **state)
{
    srv_record r;
    srv_record_begin(&r, "a", "POST", "/v1/x");
    srv_record_add(&r, &(sp_result){.finish = SP_FINISH_CANCELED}, true);
    srv_record_add(&r, &(sp_result){.finish = SP_FINISH_STOP}, false);
    assert_non_null(strstr(line_of(SRV_LOG_TEXT, &r), " canceled"));
}

static void a_line_of_json_has_the_same(void **state)
{
    srv_record r = record_of();
    json_t *o = json_loads(line_of(SRV_LOG_JSON, &r), 0, NULL);
    json_t *tokens = json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "prompt", 100, "memory", 10, "disk", 31,
                               "host", 20, "remote", 5, "recomputed", 8, "computed", 32, "generated", 14);
    assert_non_null(o);
    assert_true(json_equal(json_object_get(o, "tokens"), tokens));
    json_t *rest = json_pack("{s:s, s:s, s:s, s:s, s:i, s:s, s:b, s:f, s:f}", "id", "mine-7", "method", "POST", "path",
                             "/v1/x", "key", "team", "status", 200, "error", "bad: top_k: must be \"small\"",
                             "canceled", 1, "queue_ms", 1.5, "ttft_ms", 6.0);
    const char *name;
    json_t *value;
    json_object_foreach(rest, name, value)
        if (!json_equal(json_object_get(o, name), value)) fail_msg("%s", name);
    assert_int_equal(json_object_size(o), json_object_size(rest) + 3); /* time, total_ms, tokens */
    json_decref(rest);
    json_decref(tokens);
    json_decref(o);
    srv_record_begin(&r, "a", "GET", "/");
    o = json_loads(line_of(SRV_LOG_JSON, &r), 0, NULL);
    assert_int_equal(json_object_size(o), 6);
    json_decref(o);
}

static void an_event_has_a_time(void **state)
{
    (void)state;
    for (srv_log_format format = SRV_LOG_NONE; format <= SRV_LOG_JSON; format++) {
        caught c = catch_begin(stderr);
        srv_log_event(format, "draining");
        const char *line = catch_end(&c);
        json_t *o = json_loads(line, 0, NULL);
        const char *time = format == SRV_LOG_JSON ? json_string_value(json_object_get(o, "time")) : line;
        if (format == SRV_LOG_NONE) assert_string_equal(line, "");
        if (format == SRV_LOG_NONE) continue;
        assert_int_equal(strspn(time, "0123456789-T:.Z"), strlen("2026-01-01T00:00:00.000Z"));
        if (format == SRV_LOG_JSON) assert_string_equal(json_string_value(json_object_get(o, "event")), "draining");
        if (format == SRV_LOG_TEXT) assert_string_equal(line + strlen("2026-01-01T00:00:00.000Z"), " draining\n");
        json_decref(o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_differ_although_libcrypto_has_no_memory),
        cmocka_unit_test(the_id_of_the_client_is_kept),
        cmocka_unit_test(a_line_has_what_was_answered_and_why_not),
        cmocka_unit_test(an_answer_with_a_choice_that_was_canceled_was_canceled),
        cmocka_unit_test(a_line_of_json_has_the_same),
        cmocka_unit_test(an_event_has_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
