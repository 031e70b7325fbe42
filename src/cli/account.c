#include "cli/account.h"

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
    for (int i = 0; i < r->n_segments; i++) {
        const sp_segment_report *seg = &r->segments[i];
        json_array_append_new(all, json_pack("{s:s, s:i, s:i, s:i, s:s, s:s}", "kind", seg->kind,
                                             "tokens", seg->n_tokens, "reused", seg->n_reused,
                                             "recomputed", seg->n_recomputed, "from", seg->from,
                                             "missed", seg->missed));
    }
    return all;
}

static json_t *usage_json(const sp_result *r)
{
    return json_pack("{s:i, s:i, s:i, s:i, s:i}", "prompt_tokens", r->n_prompt, "reused_tokens",
                     r->n_reused, "computed_tokens", r->n_computed, "recomputed_tokens",
                     r->n_recomputed, "completion_tokens", r->n_generated);
}

static json_t *timings_json(const sp_result *r)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "queue_ms", (double)r->queue_us / 1e3, "plan_ms",
                     (double)r->plan_us / 1e3, "ttft_ms", (double)r->ttft_us / 1e3, "decode_ms",
                     (double)r->decode_us / 1e3, "decode_per_second",
                     per_second(r->n_generated - 1, r->decode_us));
}

void account_json(const sp_result *r, json_t *extra)
{
    json_t *ids = json_array();
    for (int i = 0; i < r->n_generated; i++) json_array_append_new(ids, json_integer(r->tokens[i]));
    json_t *out = json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "text", r->text, "finish",
                            finish_name(r->finish), "tokens", ids, "usage", usage_json(r),
                            "timings", timings_json(r), "segments", segments_json(r));
    if (extra) json_object_update(out, extra);
    json_decref(extra);
    char *text = json_dumps(out, JSON_COMPACT | JSON_REAL_PRECISION(9));
    if (text) puts(text);
    free(text);
    json_decref(out);
}

void account_line(const sp_result *r)
{
    fprintf(stderr, "\n[%d prompt tokens: %d reused, %d computed", r->n_prompt, r->n_reused,
            r->n_computed);
    if (r->n_recomputed) fprintf(stderr, " (%d recomputed)", r->n_recomputed);
    fprintf(stderr, " | first token %.1f ms", (double)r->ttft_us / 1e3);
    if (r->n_generated > 1)
        fprintf(stderr, " | %d tokens, %.1f per second", r->n_generated,
                per_second(r->n_generated - 1, r->decode_us));
    fprintf(stderr, " | %s]\n", finish_name(r->finish));
}
