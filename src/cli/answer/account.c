#include "cli/answer/account.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/json.h"
#include "cli/show.h"

#define GAIN      0.1 /* share of a prompt; reuse of less is lost in the noise of an estimate */
#define SAYS_PACE 256 /* tokens computed: a process's first ones take longer, and say little about a prompt */

const char *finish_name(sp_finish f)
{
    static const char *const names[] = {"none", "stop", "length", "canceled", "error"};
    return names[f];
}

double account_share(float share)
{
    return round((double)share * 1e6) / 1e6;
}

static double per_second(int n, int64_t us)
{
    return us > 0 && n > 0 ? n * 1e6 / (double)us : 0;
}

static bool is_chunk(const sp_segment_report *seg)
{
    return strcmp(seg->kind, "chunk") == 0;
}

static json_t *segments_json(const sp_result *r, bool but_chunks)
{
    json_t *all = json_array();
    for (int i = 0; i < r->n_segments; i++) {
        const sp_segment_report *seg = &r->segments[i];
        if (but_chunks && is_chunk(seg)) continue;
        json_array_append_new(all, json_pack("{s:s, s:i, s:i, s:i, s:s, s:s}", "kind", seg->kind,
                                             "tokens", seg->n_tokens, "reused", seg->n_reused,
                                             "recomputed", seg->n_recomputed, "from", seg->from,
                                             "missed", seg->missed));
    }
    return all;
}

static json_t *usage_json(const sp_result *r)
{
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i}", "prompt_tokens", r->n_prompt, "reused_tokens",
                     r->n_reused, "computed_tokens", r->n_computed, "recomputed_tokens",
                     r->n_recomputed, "dropped_tokens", r->n_dropped, "completion_tokens", r->n_generated);
}

static json_t *timings_json(const sp_result *r)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "queue_ms", (double)r->queue_us / 1e3, "plan_ms",
                     (double)r->plan_us / 1e3, "ttft_ms", (double)r->ttft_us / 1e3, "decode_ms",
                     (double)r->decode_us / 1e3, "decode_per_second",
                     per_second(r->n_generated - 1, r->decode_us));
}

static json_t *sparse_json(const sp_decode_report *d)
{
    return json_pack("{s:s, s:i, s:f, s:I, s:I, s:I, s:f, s:f, s:f, s:I, s:I, s:f, s:f}", "full",
                     d->full, "sparse_tokens", d->n_sparse, "keys_read", d->keys_read, "kv_bytes",
                     (json_int_t)d->kv_bytes, "full_bytes", (json_int_t)d->full_bytes,
                     "choice_bytes", (json_int_t)d->choice_bytes, "choose_ms",
                     (double)d->choose_us / 1e3, "lists_reused", d->lists_reused, "summarize_ms",
                     (double)d->summarize_us / 1e3, "summary_bytes", (json_int_t)d->summary_bytes,
                     "file_bytes", (json_int_t)d->file_bytes, "found", d->found, "file_ms",
                     (double)d->file_us / 1e3);
}

json_t *account_decode_json(const sp_decode_report *d)
{
    if (!d->full && !d->n_packed) return NULL;
    json_t *out = d->full ? sparse_json(d) : json_object();
    if (d->n_packed)
        json_object_update_new(out, json_pack("{s:i, s:f}", "packed_tokens", d->n_packed, "pack_ms",
                                              (double)d->pack_us / 1e3));
    return out;
}

/* why_full -- in words. */
static const char *why_full(const sp_decode_report *d)
{
    static const char *const reasons[][2] = {
        {"short", "the prompt is too short to gain (depth=N sets the limit)"},
        {"all", "the budget holds the whole prompt"},
        {"guard", "the guard measured too large a divergence"},
        {"no memory", "there is no memory for it"}};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (strcmp(d->full, reasons[i][0]) == 0) return reasons[i][1];
    return "";
}

static void print_saved(const sp_decode_report *d, int64_t decode_us)
{
    fprintf(stderr,
            "[sparse decoding of %d tokens: read %.1f of %.1f MB of keys and values (%.1f %%) and "
            "%.1f MB of summaries to choose (%.0f %% of the time)",
            d->n_sparse, (double)d->kv_bytes / 1e6, (double)d->full_bytes / 1e6, 100 * d->keys_read,
            (double)d->choice_bytes / 1e6,
            decode_us > 0 ? 100 * (double)d->choose_us / (double)decode_us : 0);
    if (d->lists_reused > 0) fprintf(stderr, "; %.0f %% of choices reused", 100 * d->lists_reused);
    fprintf(stderr, "; %.1f MB of summaries, made in %.1f ms]\n", (double)d->summary_bytes / 1e6,
            (double)d->summarize_us / 1e3);
}

static void print_decode(const sp_decode_report *d, int64_t decode_us)
{
    if (d->n_packed)
        fprintf(stderr, "[%d tokens of nodes moved together for the answer (%.1f ms)]\n",
                d->n_packed, (double)d->pack_us / 1e3);
    if (!d->full) return;
    if (d->n_sparse) print_saved(d, decode_us);
    if (*d->full) fprintf(stderr, "[decoded with full attention: %s]\n", why_full(d));
    if (d->file_bytes > 0)
        fprintf(stderr,
                "[read %.1f MB from the context's file and waited %.1f ms for it; %.0f %% of the "
                "blocks there were in memory]\n",
                (double)d->file_bytes / 1e6, (double)d->file_us / 1e3, 100 * d->found);
}

/* print_merged -- one line; consumes both. */
static void print_merged(json_t *out, json_t *extra)
{
    if (extra) json_object_update(out, extra);
    json_decref(extra);
    cli_print_json(out, JSON_COMPACT | JSON_REAL_PRECISION(9));
}

static json_t *reuse_json(const sp_result *r)
{
    return json_pack("{s:s, s:f}", "policy", r->policy ? r->policy : "", "recompute",
                     account_share(r->recompute));
}

void account_json(const sp_result *r, json_t *extra)
{
    json_t *ids = json_array();
    for (int i = 0; i < r->n_generated; i++) json_array_append_new(ids, json_integer(r->tokens[i]));
    json_t *out = json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "text", r->text, "finish",
                            finish_name(r->finish), "tokens", ids, "usage", usage_json(r),
                            "timings", timings_json(r), "reuse", reuse_json(r), "segments",
                            segments_json(r, json_object_get(extra, "chunks") != NULL));
    json_t *decode = account_decode_json(&r->decode);
    if (decode) json_object_set_new(out, "decode", decode);
    print_merged(out, extra);
}

void account_error(const char *code, const char *message, json_t *extra)
{
    char *shown = show_copy(message, 0);
    print_merged(json_pack("{s:{s:s, s:s}}", "error", "code", code, "message", shown ? shown : ""),
                 extra);
    free(shown);
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
    print_decode(&r->decode, r->decode_us);
}

/* -- the summary ---------------------------------------------------------------------------- */

typedef struct chunk_counts {
    int n, n_reused, n_disk;
} chunk_counts;

static chunk_counts count_chunks(const sp_result *r)
{
    chunk_counts c = {0};
    for (int i = 0; i < r->n_segments; i++) {
        const sp_segment_report *seg = &r->segments[i];
        if (!is_chunk(seg)) continue;
        bool reused = seg->n_reused + seg->n_recomputed > 0;
        c.n++;
        c.n_reused += reused;
        c.n_disk += reused && strcmp(seg->from, "disk") == 0;
    }
    return c;
}

static void print_duration(double ms)
{
    if (ms < 10)
        fprintf(stderr, "%.1f ms", ms);
    else if (ms < 10000)
        fprintf(stderr, "%.0f ms", ms);
    else
        fprintf(stderr, "%.1f s", ms / 1000);
}

/* print_policy -- the one that served the request, and its share. */
static void print_policy(const sp_result *r)
{
    int n_policies;
    const sp_reuse_info *all = sp_reuse_policies(&n_policies);
    for (int i = 0; i < n_policies && r->policy; i++) {
        if (strcmp(all[i].name, r->policy) != 0) continue;
        fputs(r->policy, stderr);
        if (all[i].recomputes) fprintf(stderr, " %.3g", (double)r->recompute);
        fputs(": ", stderr);
    }
}

static void print_reuse(const sp_result *r)
{
    chunk_counts c = count_chunks(r);
    int n_memory = c.n_reused - c.n_disk;
    print_policy(r);
    if (c.n) fprintf(stderr, "%d of %d chunks reused", c.n_reused, c.n);
    if (n_memory && c.n_disk)
        fprintf(stderr, " (%d memory, %d disk)", n_memory, c.n_disk);
    else if (c.n_reused)
        fprintf(stderr, " (%s)", c.n_disk ? "disk" : "memory");
    fprintf(stderr, "%s%d of %d tokens%s", c.n ? "; " : "", r->n_reused, r->n_prompt, c.n ? "" : " reused");
    if (r->n_recomputed) fprintf(stderr, ", %d recomputed", r->n_recomputed);
}

void account_summary(const sp_result *r, int64_t n_computed)
{
    fputs(show_dim(stderr), stderr);
    print_reuse(r);
    if (r->ttft_us > 0) {
        fputs("; first token ", stderr);
        print_duration((double)r->ttft_us / 1e3);
    }
    const bool gains = (double)r->n_reused >= GAIN * r->n_prompt;
    if (r->ttft_us > 0 && gains && r->cold_us > 0 && n_computed >= SAYS_PACE) {
        fputs(", about ", stderr);
        print_duration((double)r->cold_us / 1e3);
        fputs(" without", stderr);
    }
    if (r->decode.n_sparse)
        fprintf(stderr, "; answer read %.0f %% of the keys and values", 100 * r->decode.keys_read);
    if (r->finish == SP_FINISH_LENGTH)
        fprintf(stderr, "; cut at %d tokens, -n N allows more", r->n_generated);
    fprintf(stderr, "%s\n", show_plain(stderr));
}
