/* sim.h -- `spolia sim`: a trace of retrievals against replacement policies and sizes of memory.
 *
 *   trace.c      reads a trace and the sizes of its documents
 *   generate.c   makes one
 *   future.c     next uses, and Belady's policy, which knows them
 *   run.c        a ledger without memory, driven request by request
 *   times.c      what its calls take
 *   tiers.c      several tiers, and the time to the first token
 *   replicas.c   several servers behind a router, and a tier that they share
 *   report.c     JSON lines, CSV
 *
 * The policies are those of the engine: cache/evict.h over cache/ledger.h, with the number of the
 * request as the time.
 */
#ifndef SP_LAB_SIM_H
#define SP_LAB_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cache/cost.h"

/* A document in a request is a reference. */
typedef struct sim_trace {
    int32_t *docs;  /* [n_refs] */
    int64_t *first; /* [n_requests + 1] index of a request's first reference */
    int32_t *size;  /* [n_docs] tokens */
    char **names;   /* [n_docs]; NULL: generated */
    int64_t n_refs, n_requests;
    int32_t n_docs;
    int32_t largest; /* size */
    int most;        /* documents in one request */
} sim_trace;

/* sim_trace_read -- chunks: a file with the texts, NULL: none. top_k: documents of a request that
 * count, 0: all. False after an error message that names file, line and field. */
bool sim_trace_read(const char *path, const char *chunks, int top_k, sim_trace *out);
void sim_trace_free(sim_trace *t);
bool sim_trace_write(const sim_trace *t, const char *path);
/* sim_trace_tokens -- of all documents, each once, in whole blocks. */
int64_t sim_trace_tokens(const sim_trace *t);
/* sim_trace_read_tokens -- the same of all references. */
int64_t sim_trace_read_tokens(const sim_trace *t);

typedef struct sim_workload {
    const char *kind; /* zipf, temporal, uniform, novel */
    int n_requests, n_docs, top_k;
    int mean_tokens; /* sizes are log-normal */
    float exponent;  /* zipf */
    int drift; /* requests after which a tenth of the documents changes popularity; 0: never */
    uint64_t seed;
} sim_workload;

/* sim_workload_check -- false after an error message about values that do not go together. */
bool sim_workload_check(const sim_workload *w);
/* sim_generate -- the same options give the same trace. False after an error message. */
bool sim_generate(const sim_workload *w, sim_trace *out);

/* Times of the ledger's calls, us, sampled in one request of SIM_TIMED. A look-up by path also counts
 * the uses; an add to a full cache also chooses what to evict, and drops it. */
enum { SIM_TIMED = 16 };
typedef enum sim_op { SIM_LOOK_UP, SIM_USE, SIM_ADD, SIM_N_OPS } sim_op;
typedef struct sim_times {
    double p50, p99, most;
    int64_t n;
} sim_times;

/* One simulation. */
typedef struct sim_opts {
    const char *policy; /* of cache/evict.h, or "belady" */
    bool by_path;
    int64_t memory; /* tokens */
    int look_ahead; /* requests that wait while one runs */
    int keep;       /* leading documents of a request that are cached; 0: all */
    const sp_cost *cost;
    bool times; /* sim_result.times and entry_bytes */
} sim_opts;

typedef struct sim_result {
    int64_t n_docs, n_hits, tokens, tokens_hit, n_evicted, n_copies;
    double seconds;
    sim_times times[SIM_N_OPS];
    double entry_bytes; /* of memory that the ledger has allocated, for each copy at the end */
} sim_result;

/* sim_note -- a sample of an operation, ns; sim_times_of -- of all samples so far, which it sorts. */
typedef struct sim_samples sim_samples;
void sim_note(sim_samples **s, sim_op op, int64_t ns);
sim_times sim_times_of(sim_samples *s, sim_op op);
void sim_samples_free(sim_samples *s);
size_t sim_samples_bytes(const sim_samples *s);
int64_t sim_ns(void);

/* sim_run -- false after an error message. */
bool sim_run(const sim_trace *t, const sim_opts *o, sim_result *out);

/* A cache that is driven request by request: what sim_run and sim_tiers are made of. */
typedef struct sim_cache sim_cache;
bool sim_cache_open(const sim_trace *t, const sim_opts *o, sim_cache **out);
/* sim_cache_request -- looks up and adds the documents of request r; hit [its documents]: which were
 * found. False after an error message. */
bool sim_cache_request(sim_cache *c, int64_t r, bool *hit);
sim_result sim_cache_close(sim_cache *c);

/* -- the future (future.c) ------------------------------------------------------------------- */

typedef struct sp_evict_policy sp_evict_policy;

/* What Belady's policy knows. */
typedef struct sim_future {
    int64_t *next;       /* [n_refs] request of the next use of the same copy; INT64_MAX: none */
    const int32_t *docs; /* of the present request [n] ... */
    const int64_t *soon; /* ... and their next uses */
    int n;
    int64_t newcomer; /* next use of the copy that needs room */
} sim_future;

bool sim_future_make(const sim_trace *t, bool by_path, sim_future *out);
void sim_future_free(sim_future *f);
/* The policy: evicts the copy with the farthest next use, but none for a copy used later still. The
 * ledger's `user` is a sim_future. */
extern const sp_evict_policy sim_belady;

/* sim_digest_doc -- the document in an id that run.c made. */
int32_t sim_digest_doc(const void *digest);

/* -- tiers (tiers.c) ------------------------------------------------------------------------- */

enum { SIM_TIERS = 4 };

typedef struct sim_tier {
    char name[16];
    double bytes, bytes_per_s; /* rate 0: nothing is loaded, it is there */
} sim_tier;

typedef struct sim_plan {
    sim_tier tier[SIM_TIERS];
    int n_tiers;
    double kv_bytes;     /* of a token */
    double tokens_per_s; /* prefill, without a profile */
} sim_plan;

typedef struct sim_planned {
    double hit_rate[SIM_TIERS]; /* documents found in this tier, not in one above */
    double all_hits, ttft, ttft_p99, ttft_cold, seconds;
    int64_t n_refused; /* as in sim_needs */
} sim_planned;

/* A tier that all servers share. */
typedef struct sim_shared {
    bool there;
    double latency;     /* seconds, once for a request */
    double bytes_per_s;
    double bytes;       /* that it holds; 0: all */
} sim_shared;

/* What serves requests: tiers of their own, and perhaps one that several servers share. */
typedef struct sim_scene {
    const sim_trace *t;
    const sim_opts *o;
    const sim_plan *p;
    const sim_shared *shared;
    bool *hit[SIM_TIERS];  /* [most] which documents of the present request each tier has */
    bool *shared_hit;      /* [most] the same of the shared tier; NULL: there is none, or ... */
    uint8_t *known;        /* [n_docs] ... it keeps everything: what it has, which sim_serve adds to */
} sim_scene;

/* What one request takes. */
typedef struct sim_needs {
    double seconds, cold;              /* cold: without any cache */
    double tokens, tokens_hit;
    double tokens_read, tokens_new;    /* from the shared tier, and to it */
    int n_hits[SIM_TIERS + 1];         /* documents by tier; after the plan's own: in the shared one */
    int n_refused;                     /* documents that are computed, since loading them takes longer */
} sim_needs;

/* sim_serve -- request r: each document is loaded from the first tier that has it, unless computing it is sooner. */
sim_needs sim_serve(const sim_scene *s, int64_t r);
/* sim_memory -- a size of memory; more than twice what could be cached is no more than that. */
int64_t sim_memory(const sim_trace *t, const sim_opts *o, double tokens);
/* sim_tier_open -- a tier of this size; *out is NULL after an error message. */
bool sim_tier_open(const sim_scene *s, double bytes, sim_cache **out);

/* sim_plan_parse -- "device:8G,host:64G@25G,disk:1T@3G". False after an error message. */
bool sim_plan_parse(const char *text, sim_plan *out);
/* sim_tiers -- false after an error message. */
bool sim_tiers(const sim_trace *t, const sim_opts *o, const sim_plan *p, sim_planned *out);
/* sim_compute_s -- seconds that computing `fresh` tokens after `cached` ones takes. */
double sim_compute_s(const sim_opts *o, const sim_plan *p, double cached, double fresh);

/* -- replicas (replicas.c) ------------------------------------------------------------------- */

typedef enum sim_router { SIM_RANDOM, SIM_LEAST, SIM_HASH, SIM_BOUNDED_HASH, SIM_ROUTERS } sim_router;

/* sim_router_parse -- false after an error message that lists them. */
bool sim_router_parse(const char *name, sim_router *out);
const char *sim_router_name(sim_router r);

/* sim_shared_parse -- "latency=2ms,bandwidth=1GB/s,size=1T". False after an error message. */
bool sim_shared_parse(const char *text, sim_shared *out);

typedef struct sim_fleet {
    int n_servers;
    sim_router router;
    sim_shared shared;
    double rate; /* requests a second, of all servers; 0: 70 % of what they could compute without any cache */
    uint64_t seed;
} sim_fleet;

typedef struct sim_fleet_result {
    int64_t n_hits[SIM_TIERS + 1]; /* documents by tier; after the plan's own: in the shared one */
    int64_t tokens, tokens_hit;
    double bytes_read, bytes_written; /* of the shared tier */
    double ttft, ttft_p50, ttft_p99; /* seconds, with the time in the queue */
    double cold;    /* seconds that computing takes on average, without any cache */
    double busy;    /* share of the time that servers compute or load */
    double busiest; /* requests of the busiest server, over the mean */
    double rate, seconds;
} sim_fleet_result;

/* sim_fleet_run -- false after an error message. */
bool sim_fleet_run(const sim_trace *t, const sim_opts *o, const sim_plan *p, const sim_fleet *f,
                   sim_fleet_result *out);

/* -- reports (report.c) ---------------------------------------------------------------------- */

typedef struct sim_row {
    char policy[32];
    double memory; /* share of the trace's distinct tokens */
    sim_result r;
    double of_belady; /* hits, as a share of belady's; negative: not known */
} sim_row;

void sim_print_rows(const sim_row *rows, int n, const sim_opts *o, bool as_json);
bool sim_write_csv(const char *path, const sim_row *rows, int n);

#endif
