#include "server/http/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/answer/account.h"
#include "cli/text.h"

static const double bounds[SRV_N_BUCKETS - 1] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                                 0.5,   1,      2.5,   5,    10,    30,   120};

static const struct {
    const char *name, *help;
} names[SRV_N_TIMES] = {
    [SRV_TIME_TTFT] = {"time_to_first_token_seconds", "From submission to the first token."},
    [SRV_TIME_TOKEN] = {"inter_token_latency_seconds",
                        "Mean time between two tokens of an answer."},
    [SRV_TIME_QUEUE] = {"request_queue_time_seconds", "Waiting for a place in the batch."},
    [SRV_TIME_PREFILL] = {"request_prefill_time_seconds", "From the queue to the first token."},
    [SRV_TIME_DECODE] = {"request_decode_time_seconds", "From the first token to the last."},
    [SRV_TIME_ALL] = {"e2e_request_latency_seconds", "From submission to the last token."},
};

void srv_metrics_init(srv_metrics *m)
{
    *m = (srv_metrics){0};
    pthread_mutex_init(&m->lock, NULL);
}

void srv_metrics_fini(srv_metrics *m)
{
    pthread_mutex_destroy(&m->lock);
}

static void add_time(srv_histogram *h, int64_t us)
{
    double seconds = (double)us / 1e6;
    int i = 0;
    while (i < SRV_N_BUCKETS - 1 && seconds > bounds[i]) i++;
    h->counts[i]++;
    h->sum += seconds;
}

static uint64_t reused_from(const sp_result *r, const char *tier)
{
    uint64_t n = 0;
    for (int i = 0; i < r->n_segments; i++)
        if (strcmp(r->segments[i].from, tier) == 0) n += (uint64_t)r->segments[i].n_reused;
    return n;
}

static void add_prompt(srv_metrics *m, const sp_result *r)
{
    uint64_t disk = reused_from(r, "disk"), host = reused_from(r, "host"), remote = reused_from(r, "remote");
    const uint64_t below = disk + host + remote;
    m->n_prompt += (uint64_t)r->n_prompt;
    m->n_disk += disk;
    m->n_host += host;
    m->n_remote += remote;
    m->n_memory += (uint64_t)r->n_reused > below ? (uint64_t)r->n_reused - below : 0;
    m->n_recomputed += (uint64_t)r->n_recomputed;
    m->n_computed += (uint64_t)(r->n_computed - r->n_recomputed);
}

static void add_sparse(srv_metrics *m, const sp_decode_report *d)
{
    m->sparse.n_tokens += (uint64_t)d->n_sparse;
    m->sparse.kv_bytes += (uint64_t)d->kv_bytes;
    m->sparse.full_bytes += (uint64_t)d->full_bytes;
    m->sparse.choice_bytes += (uint64_t)d->choice_bytes;
    m->sparse.file_bytes += (uint64_t)d->file_bytes;
    m->sparse.choose_us += d->choose_us + d->summarize_us;
}

void srv_metrics_observe(srv_metrics *m, const sp_result *r, bool with_prompt)
{
    pthread_mutex_lock(&m->lock);
    m->n_finished[r->finish]++;
    if (r->finish == SP_FINISH_STOP || r->finish == SP_FINISH_LENGTH) {
        if (with_prompt) add_prompt(m, r);
        m->n_generated += (uint64_t)r->n_generated;
        add_sparse(m, &r->decode);
        add_time(&m->times[SRV_TIME_QUEUE], r->queue_us);
        add_time(&m->times[SRV_TIME_TTFT], r->ttft_us);
        add_time(&m->times[SRV_TIME_PREFILL], r->ttft_us - r->queue_us);
        add_time(&m->times[SRV_TIME_DECODE], r->decode_us);
        add_time(&m->times[SRV_TIME_ALL], r->ttft_us + r->decode_us);
        if (r->n_generated > 1)
            add_time(&m->times[SRV_TIME_TOKEN], r->decode_us / (r->n_generated - 1));
    }
    pthread_mutex_unlock(&m->lock);
}

void srv_metrics_retrieved(srv_metrics *m, const srv_retrieved *r)
{
    pthread_mutex_lock(&m->lock);
    m->retrieval.n++;
    m->retrieval.n_begun += (uint64_t)r->n_begun;
    m->retrieval.n_wrong += (uint64_t)r->n_wrong;
    m->retrieval.search_us += r->search_us;
    m->retrieval.exposed_us += r->exposed_us;
    pthread_mutex_unlock(&m->lock);
}

void srv_metrics_refused(srv_metrics *m)
{
    pthread_mutex_lock(&m->lock);
    m->n_refused++;
    pthread_mutex_unlock(&m->lock);
}

static void head(FILE *f, const char *name, const char *type, const char *help)
{
    fprintf(f, "# HELP spolia:%s %s\n# TYPE spolia:%s %s\n", name, help, name, type);
}

static void value(FILE *f, const char *name, const char *type, double x, const char *help)
{
    head(f, name, type, help);
    fprintf(f, "spolia:%s %.15g\n", name, x);
}

static void histogram(FILE *f, srv_time t, const srv_histogram *h)
{
    uint64_t sum = 0;
    head(f, names[t].name, "histogram", names[t].help);
    for (int i = 0; i < SRV_N_BUCKETS; i++) {
        sum += h->counts[i];
        fprintf(f, "spolia:%s_bucket{le=\"", names[t].name);
        if (i < SRV_N_BUCKETS - 1)
            fprintf(f, "%g", bounds[i]);
        else
            fputs("+Inf", f);
        fprintf(f, "\"} %" PRIu64 "\n", sum);
    }
    fprintf(f, "spolia:%s_sum %.9g\nspolia:%s_count %" PRIu64 "\n", names[t].name, h->sum,
            names[t].name, sum);
}

static void gauges(FILE *f, const srv_gauges *g)
{
    const sp_context_info *i = g->info;
    double used =
        i->kv_blocks ? (double)(i->kv_blocks - i->kv_blocks_free) / (double)i->kv_blocks : 0;
    value(f, "num_requests_running", "gauge", g->n_running, "Requests in the batch.");
    value(f, "num_requests_waiting", "gauge", g->n_waiting, "Requests in the queue.");
    value(f, "kv_cache_usage_perc", "gauge", used,
          "Share of KV blocks in use, cached ones included; 1 is all.");
    value(f, "kv_blocks", "gauge", (double)i->kv_blocks, "KV blocks of 16 tokens.");
    value(f, "kv_blocks_free", "gauge", (double)i->kv_blocks_free, "KV blocks that nothing is in.");
    value(f, "cached_blocks", "gauge", (double)i->cached_blocks, "KV blocks of cached copies.");
    value(f, "cached_segments", "gauge", (double)i->cached_segments, "Cached copies of segments.");
    value(f, "segment_lookups_total", "counter", (double)i->n_lookups,
          "Segments that were looked up.");
    value(f, "segment_hits_total", "counter", (double)i->n_hits, "Segments that were found whole.");
    value(f, "evictions_total", "counter", (double)i->n_evicted,
          "Copies that left the device to make room.");
    if (!i->has_remote) return;
    value(f, "remote_copies", "gauge", (double)i->remote_copies, "Copies that this server knows in the remote tier.");
    value(f, "remote_answers", "gauge", i->remote_answers, "1 while the remote tier answers.");
}

/* guards -- the quality guard, by policy. */
static void guards(FILE *f, const srv_gauges *g)
{
    static const struct {
        const char *name, *type, *help;
    } all[] = {
        {"guard_checked_total", "counter", "Requests compared with full attention."},
        {"guard_agreed_total", "counter", "Of these, with the same most likely first token."},
        {"guard_mean_kl_nats", "gauge", "Mean divergence of the first token's distribution."},
        {"guard_recompute_ratio", "gauge", "Share of recomputed tokens in use now."},
        {"guard_fallen_back", "gauge",
         "1 when the policy was replaced by prefix, or sparse decoding by full attention."}};
    for (size_t k = 0; k < sizeof all / sizeof *all && g->n_guards; k++) {
        head(f, all[k].name, all[k].type, all[k].help);
        for (int i = 0; i < g->n_guards; i++) {
            const sp_guard_report *r = &g->guards[i];
            const double values[] = {(double)r->n_checked, (double)r->n_agreed, r->mean_kl,
                                     (double)r->recompute, r->fallen_back};
            fprintf(f, "spolia:%s{policy=\"%s\"} %.9g\n", all[k].name, r->policy, values[k]);
        }
    }
}

static void counters(FILE *f, const srv_metrics *m)
{
    head(f, "request_success_total", "counter", "Finished requests by reason.");
    for (int i = SP_FINISH_STOP; i <= SP_FINISH_ERROR; i++)
        fprintf(f, "spolia:request_success_total{finished_reason=\"%s\"} %" PRIu64 "\n",
                finish_name((sp_finish)i), m->n_finished[i]);
    value(f, "requests_refused_total", "counter", (double)m->n_refused,
          "Requests refused because the queue was full.");
    value(f, "prefix_cache_queries_total", "counter", (double)m->n_prompt,
          "Prompt tokens that were looked up.");
    value(f, "prefix_cache_hits_total", "counter", (double)(m->n_memory + m->n_host + m->n_disk + m->n_remote),
          "Prompt tokens that were reused, at any position.");
    value(f, "prompt_tokens_total", "counter", (double)m->n_prompt, "Prompt tokens.");
    value(f, "generation_tokens_total", "counter", (double)m->n_generated, "Generated tokens.");
    head(f, "prompt_tokens_by_source_total", "counter",
         "Prompt tokens by where their KV came from.");
    const struct {
        const char *name;
        uint64_t n;
    } sources[] = {{"memory", m->n_memory},
                   {"host", m->n_host},
                   {"disk", m->n_disk},
                   {"remote", m->n_remote},
                   {"recomputed", m->n_recomputed},
                   {"computed", m->n_computed}};
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        fprintf(f, "spolia:prompt_tokens_by_source_total{source=\"%s\"} %" PRIu64 "\n",
                sources[i].name, sources[i].n);
}

/* sparse -- what sparse decoding saved, and what it cost. */
static void sparse(FILE *f, const srv_metrics *m)
{
    const char *type = "counter";
    value(f, "sparse_tokens_total", type, (double)m->sparse.n_tokens, "Tokens decoded sparsely.");
    value(f, "sparse_kv_bytes_total", type, (double)m->sparse.kv_bytes,
          "Bytes of keys and values that they read.");
    value(f, "sparse_full_kv_bytes_total", type, (double)m->sparse.full_bytes,
          "Bytes of keys and values that full attention reads for them.");
    value(f, "sparse_choice_bytes_total", type, (double)m->sparse.choice_bytes,
          "Bytes of summaries that they read to choose.");
    value(f, "sparse_choose_seconds_total", type, (double)m->sparse.choose_us / 1e6,
          "Choosing and making summaries.");
    value(f, "sparse_file_bytes_total", type, (double)m->sparse.file_bytes,
          "Bytes read from the context's file.");
}

static void retrieval(FILE *f, const srv_metrics *m)
{
    const char *type = "counter";
    value(f, "retrieval_searches_total", type, (double)m->retrieval.n, "Searches in collections.");
    value(f, "retrieval_search_seconds_total", type, (double)m->retrieval.search_us / 1e6, "Time of searches.");
    value(f, "retrieval_exposed_seconds_total", type, (double)m->retrieval.exposed_us / 1e6,
          "Of that, before the answer began that was right.");
    value(f, "retrieval_begun_ahead_total", type, (double)m->retrieval.n_begun,
          "Answers begun before the search ended.");
    value(f, "retrieval_wrong_total", type, (double)m->retrieval.n_wrong, "Of these, given up.");
}

/* idle -- copies of collections that are computed while nobody asks. */
static void idle(FILE *f, const srv_gauges *g)
{
    value(f, "collection_passages_planned", "gauge", (double)g->idle.n_planned,
          "Passages whose copies are computed ahead.");
    value(f, "collection_passages_done", "gauge", (double)g->idle.n_done, "Of these, with a copy.");
    value(f, "collection_copies_computed_total", "counter", (double)g->idle.n_computed,
          "Copies of passages computed while nobody asked.");
    value(f, "collection_copies_given_up_total", "counter", (double)g->idle.n_given_up, "Given up for a request.");
    value(f, "collection_copies_seconds_total", "counter", (double)g->idle.busy_us / 1e6, "Time for them.");
}

char *srv_metrics_text(srv_metrics *m, const srv_gauges *g)
{
    char *text = NULL;
    size_t n;
    FILE *f = cli_text_open(&text, &n);
    if (!f) return NULL;
    gauges(f, g);
    guards(f, g);
    idle(f, g);
    pthread_mutex_lock(&m->lock);
    counters(f, m);
    sparse(f, m);
    retrieval(f, m);
    for (int i = 0; i < SRV_N_TIMES; i++) histogram(f, (srv_time)i, &m->times[i]);
    pthread_mutex_unlock(&m->lock);
    if (fclose(f) == 0) return text;
    free(text);
    return NULL;
}
