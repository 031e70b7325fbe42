/* /metrics: what finished requests add to each counter and histogram, and what the gauges show. */
#include <stdio.h>
#include <string.h>

#include "server/http/metrics.h"
#include "support/check.h"

static const sp_segment_report segments[] = {{.from = "memory", .n_reused = 10}, {.from = "host", .n_reused = 20},
                                             {.from = "disk", .n_reused = 30},   {.from = "remote", .n_reused = 5},
                                             {.from = "", .n_reused = 0},        {.from = "disk", .n_reused = 1}};

/* Times that begin a bucket: 1 ms in the queue, 6 ms to the first token, 1 s for the other ten. */
static const sp_result one = {.finish = SP_FINISH_LENGTH,
                              .n_prompt = 100,
                              .n_reused = 70,
                              .n_computed = 30,
                              .n_recomputed = 8,
                              .n_generated = 11,
                              .queue_us = 1000,
                              .ttft_us = 6000,
                              .decode_us = 1000000,
                              .segments = segments,
                              .n_segments = sizeof segments / sizeof *segments,
                              .decode = {.n_sparse = 3,
                                         .kv_bytes = 100,
                                         .full_bytes = 400,
                                         .choice_bytes = 50,
                                         .file_bytes = 60,
                                         .choose_us = 1000000,
                                         .summarize_us = 500000}};

/* line_of -- the value of a metric with its labels; it must be in the text once. */
static double line_of(const char *text, const char *name)
{
    char line[128];
    snprintf(line, sizeof line, "\nspolia:%s ", name);
    const char *at = strstr(text, line);
    if (!at || strstr(at + 1, line)) fail_msg("%s is not in the text once", name);
    return atof(at + strlen(line));
}

static void check(const char *text, const char *name, double value)
{
    const double got = line_of(text, name);
    if (got < value - 1e-9 || got > value + 1e-9) fail_msg("%s is %g, not %g", name, got, value);
}

static char *text_of(srv_metrics *m, const srv_gauges *g)
{
    static const sp_context_info none;
    const srv_gauges empty = {.info = &none};
    char *text = srv_metrics_text(m, g ? g : &empty);
    assert_non_null(text);
    return text;
}

static void answers_add_their_tokens_by_source(void **state)
{
    srv_metrics m;
    srv_metrics_init(&m);
    srv_metrics_observe(&m, &one, true);
    srv_metrics_observe(&m, &one, false); /* another choice of the answer: its own tokens alone */
    char *text = text_of(&m, NULL);
    check(text, "prompt_tokens_total", 100);
    check(text, "prefix_cache_queries_total", 100);
    check(text, "prefix_cache_hits_total", 70);
    check(text, "generation_tokens_total", 2 * 11);
    check(text, "prompt_tokens_by_source_total{source=\"memory\"}", 14); /* what no segment names, too */
    check(text, "prompt_tokens_by_source_total{source=\"host\"}", 20);
    check(text, "prompt_tokens_by_source_total{source=\"disk\"}", 31);
    check(text, "prompt_tokens_by_source_total{source=\"remote\"}", 5);
    check(text, "prompt_tokens_by_source_total{source=\"recomputed\"}", 8);
    check(text, "prompt_tokens_by_source_total{source=\"computed\"}", 22);
    check(text, "sparse_tokens_total", 2 * 3);
    check(text, "sparse_kv_bytes_total", 2 * 100);
    check(text, "sparse_full_kv_bytes_total", 2 * 400);
    check(text, "sparse_choice_bytes_total", 2 * 50);
    check(text, "sparse_file_bytes_total", 2 * 60);
    check(text, "sparse_choose_seconds_total", 2 * 1.5);
    free(text);
    srv_metrics_fini(&m);
}

static void histograms_are_cumulative_with_bounds_included(void **state)
{
    sp_result fast = one;
    srv_metrics m;
    srv_metrics_init(&m);
    srv_metrics_observe(&m, &one, true);
    fast.queue_us = 0;
    fast.n_generated = 1; /* no interval between tokens */
    srv_metrics_observe(&m, &fast, true);
    char *text = text_of(&m, NULL);
    check(text, "request_queue_time_seconds_bucket{le=\"0.001\"}", 2);
    check(text, "request_prefill_time_seconds_bucket{le=\"0.0025\"}", 0);
    check(text, "request_prefill_time_seconds_bucket{le=\"0.005\"}", 1); /* 5 ms */
    check(text, "request_prefill_time_seconds_bucket{le=\"0.01\"}", 2);  /* and 6 ms */
    check(text, "request_prefill_time_seconds_sum", 0.011);
    check(text, "time_to_first_token_seconds_bucket{le=\"0.005\"}", 0);
    check(text, "time_to_first_token_seconds_bucket{le=\"+Inf\"}", 2);
    check(text, "time_to_first_token_seconds_sum", 0.012);
    check(text, "inter_token_latency_seconds_sum", 0.1);
    check(text, "inter_token_latency_seconds_count", 1);
    check(text, "request_decode_time_seconds_sum", 2);
    check(text, "e2e_request_latency_seconds_sum", 2.012);
    check(text, "e2e_request_latency_seconds_count", 2);
    free(text);
    srv_metrics_fini(&m);
}

static void requests_are_counted_by_how_they_ended(void **state)
{
    static const sp_finish ends[] = {SP_FINISH_STOP,     SP_FINISH_STOP,  SP_FINISH_LENGTH, SP_FINISH_CANCELED,
                                     SP_FINISH_CANCELED, SP_FINISH_ERROR, SP_FINISH_CANCELED};
    srv_metrics m;
    srv_metrics_init(&m);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        sp_result r = one;
        r.finish = ends[i];
        srv_metrics_observe(&m, &r, true);
    }
    srv_metrics_refused(&m);
    char *text = text_of(&m, NULL);
    check(text, "request_success_total{finished_reason=\"stop\"}", 2);
    check(text, "request_success_total{finished_reason=\"length\"}", 1);
    check(text, "request_success_total{finished_reason=\"canceled\"}", 3);
    check(text, "request_success_total{finished_reason=\"error\"}", 1);
    check(text, "prompt_tokens_total", 300); /* of those that were answered */
    check(text, "e2e_request_latency_seconds_count", 3);
    check(text, "requests_refused_total", 1);
    free(text);
    srv_metrics_fini(&m);
}

static void searches_are_counted_with_their_times(void **state)
{
    srv_metrics m;
    srv_metrics_init(&m);
    const srv_retrieved first = {.search_us = 1500000, .exposed_us = 250000, .n_begun = 3, .n_wrong = 1};
    srv_metrics_retrieved(&m, &first);
    srv_metrics_retrieved(&m, &(srv_retrieved){.search_us = 500000, .n_begun = 1});
    char *text = text_of(&m, NULL);
    check(text, "retrieval_searches_total", 2);
    check(text, "retrieval_search_seconds_total", 2);
    check(text, "retrieval_exposed_seconds_total", 0.25);
    check(text, "retrieval_begun_ahead_total", 4);
    check(text, "retrieval_wrong_total", 1);
    free(text);
    srv_metrics_fini(&m);
}

static void gauges_show_the_present_state(void **state)
{
    srv_metrics m;
    srv_metrics_init(&m);
    sp_context_info info = {.kv_blocks = 200,
                            .kv_blocks_free = 50,
                            .cached_blocks = 120,
                            .cached_segments = 9,
                            .n_lookups = 30,
                            .n_hits = 20,
                            .n_evicted = 4};
    srv_gauges g = {.n_running = 2, .n_waiting = 5, .info = &info, .n_guards = 2};
    g.guards[0] = (sp_guard_report){
        .policy = "craft", .n_checked = 8, .n_agreed = 7, .mean_kl = 0.25, .recompute = 0.5};
    g.guards[1] = (sp_guard_report){.policy = "fusion", .n_checked = 3, .n_agreed = 1, .fallen_back = true};
    g.idle.n_planned = 12;
    g.idle.n_done = 11;
    g.idle.n_computed = 10;
    g.idle.n_given_up = 2;
    g.idle.busy_us = 2500000;
    char *text = text_of(&m, &g);
    check(text, "num_requests_running", 2);
    check(text, "num_requests_waiting", 5);
    check(text, "kv_cache_usage_perc", 0.75);
    check(text, "kv_blocks", 200);
    check(text, "kv_blocks_free", 50);
    check(text, "cached_blocks", 120);
    check(text, "cached_segments", 9);
    check(text, "segment_lookups_total", 30);
    check(text, "segment_hits_total", 20);
    check(text, "evictions_total", 4);
    check(text, "guard_checked_total{policy=\"craft\"}", 8);
    check(text, "guard_agreed_total{policy=\"craft\"}", 7);
    check(text, "guard_mean_kl_nats{policy=\"craft\"}", 0.25);
    check(text, "guard_recompute_ratio{policy=\"craft\"}", 0.5);
    check(text, "guard_fallen_back{policy=\"craft\"}", 0);
    check(text, "guard_agreed_total{policy=\"fusion\"}", 1);
    check(text, "guard_fallen_back{policy=\"fusion\"}", 1);
    check(text, "collection_passages_planned", 12);
    check(text, "collection_passages_done", 11);
    check(text, "collection_copies_computed_total", 10);
    check(text, "collection_copies_given_up_total", 2);
    check(text, "collection_copies_seconds_total", 2.5);
    assert_null(strstr(text, "remote_copies"));
    free(text);
    info.has_remote = info.remote_answers = true;
    info.remote_copies = 77;
    text = text_of(&m, &g);
    check(text, "remote_copies", 77);
    check(text, "remote_answers", 1);
    free(text);
    srv_metrics_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_add_their_tokens_by_source),
        cmocka_unit_test(histograms_are_cumulative_with_bounds_included),
        cmocka_unit_test(requests_are_counted_by_how_they_ended),
        cmocka_unit_test(searches_are_counted_with_their_times),
        cmocka_unit_test(gauges_show_the_present_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
