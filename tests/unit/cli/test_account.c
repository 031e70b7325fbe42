/* The line that a person sees after an answer. */
#include "cli/answer/account.h"

#include "support/caught.h"

static const char *summary(const sp_result *r, int64_t n_computed)
{
    caught c = catch_begin(stderr);
    account_summary(r, n_computed);
    return catch_end(&c);
}

static const char *line(const sp_result *r)
{
    caught c = catch_begin(stderr);
    account_line(r);
    return catch_end(&c);
}

static const char *json(const sp_result *r, json_t *extra)
{
    caught c = catch_begin(stdout);
    account_json(r, extra);
    return catch_end(&c);
}

/* What was recomputed takes longer for each token than a prompt does: it is no measure of one. */
static void the_time_without_reuse_is_the_results_estimate(void **state)
{
    const sp_result r = {.policy = "inplace", .n_prompt = 1000, .n_reused = 800, .n_recomputed = 180,
                         .n_computed = 200, .ttft_us = 400000, .cold_us = 1000000};
    assert_non_null(strstr(summary(&r, 300), "first token 400 ms, about 1000 ms without"));
}

static void a_process_that_has_computed_little_says_no_time_without_reuse(void **state)
{
    sp_result r = {.policy = "inplace", .n_prompt = 1000, .n_reused = 900, .n_computed = 100, .ttft_us = 400000,
                   .cold_us = 3000000};
    assert_null(strstr(summary(&r, 100), "without"));
    assert_non_null(strstr(summary(&r, 256), "about 3000 ms without"));
    r.cold_us = 0;
    assert_null(strstr(summary(&r, 1000), "without"));
    r.cold_us = 3000000, r.n_reused = 0;
    assert_null(strstr(summary(&r, 1000), "without"));
    r.n_reused = 99; /* less than a tenth: the estimate may be shorter than what was measured */
    assert_null(strstr(summary(&r, 1000), "without"));
    r.n_reused = 100;
    assert_non_null(strstr(summary(&r, 1000), "without"));
}

static void recomputed_tokens_are_said_if_there_are_any(void **state)
{
    sp_result r = {.policy = "inplace", .n_prompt = 1000, .n_reused = 800, .n_recomputed = 180};
    assert_non_null(strstr(summary(&r, 300), "800 of 1000 tokens reused, 180 recomputed"));
    r.n_recomputed = 0;
    assert_null(strstr(summary(&r, 300), "recomputed"));
}

static const sp_segment_report segments[] = {
    {.kind = "system", .n_tokens = 20, .n_reused = 20, .from = "memory", .missed = ""},
    {.kind = "chunk", .n_tokens = 50, .n_reused = 40, .n_recomputed = 10, .from = "disk", .missed = ""},
    {.kind = "chunk", .n_tokens = 30, .n_reused = 30, .from = "memory", .missed = ""},
    {.kind = "chunk", .n_tokens = 25, .from = "", .missed = "never seen"},
    {.kind = "text", .n_tokens = 5, .from = "", .missed = ""},
};
static const int32_t tokens[] = {7, 9, 11};

/* result -- of an answer of three tokens. */
static sp_result result(void)
{
    return (sp_result){.text = "Yes.", .finish = SP_FINISH_STOP, .tokens = tokens, .n_generated = 3, .n_prompt = 130,
                       .n_reused = 90, .n_recomputed = 10, .n_computed = 40, .policy = "inplace", .recompute = 0.15f,
                       .segments = segments, .n_segments = 5, .queue_us = 500, .plan_us = 250, .ttft_us = 8500,
                       .decode_us = 40000, .decode.full = ""};
}

/* quoted -- with \" for ', in place. */
static const char *quoted(char *s)
{
    for (char *c = s; *c; c++)
        if (*c == '\'') *c = '"';
    return s;
}

static void the_account_as_json_says_all(void **state)
{
    sp_result r = result();
    static const char head[] =
        "{'text':'Yes.','finish':'stop','tokens':[7,9,11],"
        "'usage':{'prompt_tokens':130,'reused_tokens':90,'computed_tokens':40,'recomputed_tokens':10,"
        "'dropped_tokens':0,'completion_tokens':3},"
        "'timings':{'queue_ms':0.5,'plan_ms':0.25,'ttft_ms':8.5,'decode_ms':40.0,"
        "'decode_per_second':50.0},'reuse':{'policy':'inplace','recompute':0.15},'segments':[";
    static const char *const each[] = {
        "{'kind':'system','tokens':20,'reused':20,'recomputed':0,'from':'memory','missed':''}",
        "{'kind':'chunk','tokens':50,'reused':40,'recomputed':10,'from':'disk','missed':''}",
        "{'kind':'chunk','tokens':30,'reused':30,'recomputed':0,'from':'memory','missed':''}",
        "{'kind':'chunk','tokens':25,'reused':0,'recomputed':0,'from':'','missed':'never seen'}",
        "{'kind':'text','tokens':5,'reused':0,'recomputed':0,'from':'','missed':''}"};
    char want[1600];
    r.decode.full = NULL;
    snprintf(want, sizeof want, "%s%s,%s,%s,%s,%s]}\n", head, each[0], each[1], each[2], each[3], each[4]);
    assert_string_equal(json(&r, NULL), quoted(want));
    snprintf(want, sizeof want, "%s%s,%s],'chunks':[1]}\n", head, each[0], each[4]); /* they have their own list */
    assert_string_equal(json(&r, json_pack("{s:[i]}", "chunks", 1)), quoted(want));
    r.decode = (sp_decode_report){.full = "short", .n_packed = 6, .pack_us = 1500};
    const char *got = json(&r, NULL);
    assert_non_null(strstr(got, "\"decode\":{\"full\":\"short\",\"sparse_tokens\":0,"));
    assert_non_null(strstr(got, "\"packed_tokens\":6,\"pack_ms\":1.5}}\n"));
    r.decode = (sp_decode_report){.n_packed = 6, .pack_us = 1500};
    assert_non_null(strstr(json(&r, NULL), "\"decode\":{\"packed_tokens\":6,\"pack_ms\":1.5}}\n"));
    r.decode = (sp_decode_report){.full = "", .n_sparse = 8, .kv_bytes = 1, .full_bytes = 2, .choice_bytes = 3,
                                  .summary_bytes = 4, .file_bytes = 5};
    got = json(&r, NULL);
    assert_non_null(strstr(got, "\"kv_bytes\":1,\"full_bytes\":2,\"choice_bytes\":3,"));
    assert_non_null(strstr(got, "\"summary_bytes\":4,\"file_bytes\":5,"));
}

/* A copy that was found and not used is none; one that was computed again is. */
static void chunks_count_that_were_used(void **state)
{
    static const sp_segment_report two[] = {
        {.kind = "chunk", .n_tokens = 50, .from = "disk", .missed = ""},
        {.kind = "chunk", .n_tokens = 50, .n_recomputed = 50, .from = "memory", .missed = ""}};
    const sp_result r = {.policy = "inplace", .n_prompt = 100, .n_recomputed = 50, .segments = two, .n_segments = 2};
    assert_non_null(strstr(summary(&r, 300), "1 of 2 chunks reused (memory); 0 of 100 tokens"));
}

static void lines_count_chunks_and_tokens(void **state)
{
    sp_result r = result();
    r.decode.full = NULL;
    assert_string_equal(summary(&r, 300), "inplace 0.15: 2 of 3 chunks reused (1 memory, 1 disk); 90 of 130 tokens, "
                                          "10 recomputed; first token 8.5 ms\n");
    assert_string_equal(line(&r), "\n[130 prompt tokens: 90 reused, 40 computed (10 recomputed) | first token 8.5 ms "
                                  "| 3 tokens, 50.0 per second | stop]\n");
    r.ttft_us = 12345678;
    r.finish = SP_FINISH_LENGTH;
    r.n_recomputed = 0;
    r.segments++, r.n_segments = 1;
    r.decode.n_sparse = 2, r.decode.keys_read = 0.25;
    assert_string_equal(summary(&r, 300), "inplace 0.15: 1 of 1 chunks reused (disk); 90 of 130 tokens; first token "
                                          "12.3 s; answer read 25 % of the keys and values; cut at 3 tokens, -n N "
                                          "allows more\n");
    r.n_segments = 0, r.n_generated = 1, r.decode.n_sparse = 0;
    assert_string_equal(line(&r), "\n[130 prompt tokens: 90 reused, 40 computed | first token 12345.7 ms | length]\n");
    r.finish = SP_FINISH_STOP, r.ttft_us = 0;
    assert_string_equal(summary(&r, 300), "inplace 0.15: 90 of 130 tokens reused\n");
}

static void a_line_explains_how_it_was_decoded(void **state)
{
    sp_result r = {.decode = {.full = "", .n_sparse = 8, .kv_bytes = 1500000, .full_bytes = 6000000, .keys_read = 0.25,
                              .choice_bytes = 300000, .choose_us = 500, .lists_reused = 0.5, .summary_bytes = 700000,
                              .summarize_us = 1500, .file_bytes = 2500000, .found = 0.75, .file_us = 4500},
                   .decode_us = 2000};
    assert_non_null(strstr(line(&r), "[sparse decoding of 8 tokens: read 1.5 of 6.0 MB of keys and values (25.0 %) "
                                     "and 0.3 MB of summaries to choose (25 % of the time); 50 % of choices reused; "
                                     "0.7 MB of summaries, made in 1.5 ms]\n"
                                     "[read 2.5 MB from the context's file and waited 4.5 ms for it; 75 % of the "
                                     "blocks there were in memory]\n"));
    static const char *const why[][2] = {{"short", "too short"}, {"all", "the whole prompt"}, {"guard", "divergence"},
                                         {"no memory", "no memory for it"}};
    for (size_t i = 0; i < SP_COUNT(why); i++) {
        r.decode = (sp_decode_report){.full = why[i][0]};
        const char *said = strstr(line(&r), "[decoded with full attention: ");
        assert_non_null(said);
        assert_non_null(strstr(said, why[i][1]));
        assert_null(strstr(said, "[read"));
    }
    r.decode = (sp_decode_report){.n_packed = 6, .pack_us = 1500};
    assert_non_null(strstr(line(&r), "none]\n[6 tokens of nodes moved together for the answer (1.5 ms)]\n"));
}

static void errors_are_json_too(void **state)
{
    caught c = catch_begin(stdout);
    account_error("format", "bad\nfile", json_pack("{s:i}", "line", 3));
    assert_string_equal(catch_end(&c), "{\"error\":{\"code\":\"format\",\"message\":\"bad file\"},\"line\":3}\n");
}

static void shares_have_six_digits(void **state)
{
    assert_float_equal(account_share(0.1234567f), 0.123457, 1e-9);
    assert_float_equal(account_share(0.1f), 0.1, 0); /* not that of a float */
    assert_float_equal(account_share(1), 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_time_without_reuse_is_the_results_estimate),
        cmocka_unit_test(the_account_as_json_says_all),
        cmocka_unit_test(lines_count_chunks_and_tokens),
        cmocka_unit_test(chunks_count_that_were_used),
        cmocka_unit_test(a_line_explains_how_it_was_decoded),
        cmocka_unit_test(errors_are_json_too),
        cmocka_unit_test(recomputed_tokens_are_said_if_there_are_any),
        cmocka_unit_test(a_process_that_has_computed_little_says_no_time_without_reuse),
        cmocka_unit_test(shares_have_six_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
