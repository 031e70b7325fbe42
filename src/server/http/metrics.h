/* metrics.h -- counters and histograms in Prometheus' text format, under vLLM's names with the
 * prefix spolia, so that its dashboards need only one change. Thread: any. */
#ifndef SP_SERVER_HTTP_METRICS_H
#define SP_SERVER_HTTP_METRICS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "spolia.h"

#define SRV_MAX_GUARDS 16 /* policies that the guard reports on */
#define SRV_N_BUCKETS  16 /* the last has no bound */

typedef struct srv_histogram {
    uint64_t counts[SRV_N_BUCKETS];
    double sum;
} srv_histogram;

typedef enum srv_time {
    SRV_TIME_TTFT,
    SRV_TIME_TOKEN, /* between two tokens of an answer */
    SRV_TIME_QUEUE,
    SRV_TIME_PREFILL,
    SRV_TIME_DECODE,
    SRV_TIME_ALL, /* from submission to the end */
    SRV_N_TIMES
} srv_time;

typedef struct srv_metrics {
    pthread_mutex_t lock; /* guards the following */
    srv_histogram times[SRV_N_TIMES];
    uint64_t n_finished[5]; /* by sp_finish */
    uint64_t n_prompt, n_memory, n_host, n_disk, n_remote, n_recomputed, n_computed, n_generated; /* tokens */
    uint64_t n_refused; /* queue full */
    struct {
        uint64_t n_tokens, kv_bytes, full_bytes, choice_bytes, file_bytes;
        int64_t choose_us;
    } sparse; /* of sp_decode_report */
    struct {
        uint64_t n, n_begun, n_wrong;
        int64_t search_us, exposed_us;
    } retrieval; /* searches in collections */
} srv_metrics;

void srv_metrics_init(srv_metrics *m);
void srv_metrics_fini(srv_metrics *m);
/* srv_metrics_observe -- a finished request. with_prompt: its prompt counts, once for all choices of an answer. */
void srv_metrics_observe(srv_metrics *m, const sp_result *r, bool with_prompt);
/* srv_metrics_retrieved -- a search in a collection: its time, the part of it before the answer began, and how many
 * answers began before it ended, and were given up. */
typedef struct srv_retrieved {
    int64_t search_us, exposed_us;
    int n_begun, n_wrong;
} srv_retrieved;
void srv_metrics_retrieved(srv_metrics *m, const srv_retrieved *r);
void srv_metrics_refused(srv_metrics *m);

/* The current state. */
typedef struct srv_gauges {
    int n_running, n_waiting;
    const sp_context_info *info;
    sp_guard_report guards[SRV_MAX_GUARDS];
    int n_guards;
    struct {
        int64_t n_planned, n_done, n_computed, n_given_up, busy_us;
    } idle; /* of srv_idle_report (documents/idle.h) */
} srv_gauges;

/* srv_metrics_text -- NULL: out of memory. Owns: free. */
char *srv_metrics_text(srv_metrics *m, const srv_gauges *g);

#endif
