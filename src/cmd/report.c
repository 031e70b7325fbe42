#include "cmd/report.h"

#include <stdio.h>
#include <stdlib.h>

const char *finish_name(sp_finish f)
{
    static const char *const names[] = {"none", "stop", "length", "canceled", "error"};
    return names[f];
}

static double per_second(int n, int64_t us)
{
    return us > 0 ? n * 1e6 / (double)us : 0;
}

static json_t *segments_json(const sp_result *r)
{
    json_t *all = json_array();
    for (int i = 0; i < r->n_segments; i++)
        json_array_append_new(all, json_pack("{s:s, s:i, s:i}", "kind", r->segments[i].kind,
                                             "tokens", r->segments[i].n_tokens, "reused",
                                             r->segments[i].n_reused));
    return all;
}

void report_json(const sp_result *r, json_t *extra)
{
    json_t *ids = json_array();
    for (int i = 0; i < r->n_generated; i++) json_array_append_new(ids, json_integer(r->tokens[i]));
    json_t *out = json_pack(
        "{s:s, s:s, s:o, s:{s:i, s:i, s:i, s:i}, s:{s:f, s:f, s:f, s:f}, s:o}", "text", r->text,
        "finish", finish_name(r->finish), "tokens", ids, "usage", "prompt_tokens", r->n_prompt,
        "reused_tokens", r->n_reused, "computed_tokens", r->n_computed, "completion_tokens",
        r->n_generated, "timings", "queue_ms", (double)r->queue_us / 1e3, "ttft_ms",
        (double)r->ttft_us / 1e3, "decode_ms", (double)r->decode_us / 1e3, "decode_per_second",
        per_second(r->n_generated - 1, r->decode_us), "segments", segments_json(r));
    if (extra) json_object_update(out, extra);
    json_decref(extra);
    char *text = json_dumps(out, JSON_COMPACT | JSON_REAL_PRECISION(9));
    if (text) puts(text);
    free(text);
    json_decref(out);
}

void report_line(const sp_result *r)
{
    fprintf(stderr, "\n[%d prompt tokens: %d reused, %d computed | first token %.1f ms",
            r->n_prompt, r->n_reused, r->n_computed, (double)r->ttft_us / 1e3);
    if (r->n_generated > 1)
        fprintf(stderr, " | %d tokens, %.1f a second", r->n_generated,
                per_second(r->n_generated - 1, r->decode_us));
    fprintf(stderr, " | %s]\n", finish_name(r->finish));
}
