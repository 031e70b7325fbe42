/* sim.c -- the command: options, then one simulation for each policy and memory. */
#include <math.h>
#include <string.h>

#include "cache/evict.h"
#include "cli/alloc.h"
#include "cli/cli.h"
#include "lab/lab.h"
#include "lab/sim/sim.h"

enum { MOST_POLICIES = 24, MOST_SIZES = 24 };

typedef struct options {
    const char *policies, *memory, *by, *chunks, *profile, *tiers, *csv, *trace_out, *routers, *remote;
    sim_workload made;
    sim_opts run;
    int kv_bytes, n_servers;
    float tokens_per_s, rate;
    bool as_json;
} options;

enum { PLANNING = 9 };

/* list_planning -- options of tiers and servers that need not exist. */
static void list_planning(options *o, opt table[PLANNING])
{
    const opt all[PLANNING] = {
        {OPT_GROUP, "Planning"},
        {OPT_STRING, "tiers", 0, "LIST", &o->tiers,
         "tiers instead of --memory: device:8G,host:64G@25G,disk:1T@3G; @ bytes a second"},
        {OPT_INT, "kv-bytes", 0, "N", &o->kv_bytes, "KV bytes of a token (131072: an 8B model)",
         .limits = {1, INT32_MAX}},
        {OPT_FLOAT, "prefill", 0, "N", &o->tokens_per_s,
         "tokens computed in a second, where there is no --profile (5000)", .limits = {0, 1000000000, true}},
        {OPT_INT, "replicas", 0, "N", &o->n_servers,
         "servers that a router chooses from, each with these tiers (none)", .limits = {1, 100000}},
        {OPT_STRING, "router", 0, "LIST", &o->routers,
         "which server a request goes to: random, least, hash or bounded-hash, by the first document (all)"},
        {OPT_STRING, "remote", 0, "HOW", &o->remote,
         "a tier that the servers share: latency=2ms,bandwidth=1GB/s, and size=1T if it has a limit (none)"},
        {OPT_FLOAT, "rate", 0, "R", &o->rate,
         "requests a second (enough to keep the servers 70 % busy without a cache)", .limits = {0, 1000000000, true}},
        {0},
    };
    memcpy(table, all, sizeof all);
}

static bool parse(int argc, char **argv, options *o, const char **trace, int *code)
{
    const opt own[] = {
        {OPT_GROUP, "Simulation"},
        {OPT_STRING, "policy", 0, "LIST", &o->policies,
         "replacement policies, as --evict, and belady (all; with --replicas: hazard)"},
        {OPT_STRING, "memory", 0, "LIST", &o->memory,
         "sizes of the cache: shares of the distinct tokens (5%,10%,20%), or tokens"},
        {OPT_STRING, "by", 0, "INDEX", &o->by, "how copies are found: content or path (content)"},
        {OPT_INT, "lookahead", 0, "N", &o->run.look_ahead, "waiting requests that lacr sees (0)",
         .limits = {0, INT32_MAX}},
        {OPT_INT, "top-k", 0, "N", &o->made.top_k,
         "documents of a request; of a trace the first N (all; generated: 5)", .limits = {0, INT32_MAX}},
        {OPT_INT, "keep", 0, "N", &o->run.keep, "cache the first N documents of a request (all)",
         .limits = {0, INT32_MAX}},
        {OPT_STRING, "chunks", 0, "FILE", &o->chunks,
         "{\"id\", \"text\" or \"tokens\"} lines: sizes of documents; a token is 4 bytes of text"},
        {OPT_STRING, "profile", 0, "FILE", &o->profile,
         "costs of computing tokens, as spolia profile measured (a formula)"},
        {OPT_GROUP, "Generated workloads"},
        {OPT_STRING, "generate", 0, "KIND", &o->made.kind,
         "zipf, temporal, uniform or novel (sets in new orders), instead of a trace"},
        {OPT_INT, "requests", 0, "N", &o->made.n_requests, "requests (10000)", .limits = {1, INT32_MAX}},
        {OPT_INT, "docs", 0, "N", &o->made.n_docs, "documents, or entities of a graph (5000)",
         .limits = {1, INT32_MAX}},
        {OPT_INT, "tokens", 0, "N", &o->made.mean_tokens, "mean size; sizes are log-normal (500)",
         .limits = {1, INT32_MAX}},
        {OPT_FLOAT, "zipf", 0, "S", &o->made.exponent, "exponent of zipf and novel (1)", .limits = {0, 100}},
        {OPT_INT, "drift", 0, "N", &o->made.drift,
         "a tenth of the documents changes popularity every N requests; 0: never (0)", .limits = {0, INT32_MAX}},
        {OPT_U64, "seed", 's', "N", &o->made.seed, "random seed (1)"},
        {OPT_STRING, "trace-out", 0, "FILE", &o->trace_out, "write the generated trace"},
        {OPT_GROUP, "Output"},
        {OPT_FLAG, "json", 0, NULL, &o->as_json, "one JSON object for each policy and size"},
        {OPT_FLAG, "times", 0, NULL, &o->run.times,
         "measure the time of the ledger's calls in one request of 16, and bytes of an entry"},
        {OPT_STRING, "csv", 0, "FILE", &o->csv, "write the rows as CSV"},
        {0},
    };
    opt planning[PLANNING];
    list_planning(o, planning);
    const opt *const tables[] = {own, planning, NULL};
    int at = opt_parse(argc, argv,
                       &(opt_usage){"sim [options] TRACE.jsonl | sim --generate KIND [options]",
                                    "Simulates replacement policies on a trace of {\"id\", "
                                    "\"doc_ids\": [...], optional \"sizes\": [tokens]} lines.\n"
                                    "The policies are those of --evict; belady knows the future."},
                       tables);
    *code = -1 - at;
    if (at < 0) return false;
    *code = 2;
    if (argc - at != (o->made.kind ? 0 : 1))
        return cli_fail_with("sim: give one trace, or --generate"), false;
    *trace = o->made.kind ? NULL : argv[at];
    return true;
}

static bool check(options *o)
{
    o->run.by_path = strcmp(o->by, "path") == 0;
    if (!o->run.by_path && strcmp(o->by, "content") != 0)
        cli_fail_with("sim: --by %s: content or path", o->by);
    else if (!o->n_servers && (o->remote || o->routers))
        cli_fail_with("sim: --router and --remote need --replicas N");
    else if (o->n_servers && (o->run.look_ahead || strstr(o->policies, "belady")))
        cli_fail_with("sim: --replicas: no server knows what others will be asked: without --lookahead and belady");
    else
        return true;
    return false;
}

/* split -- the items of a comma-separated list, in place; 0 after an error message. */
static int split(char *text, const char *option, const char **items, int most)
{
    int n = 0;
    for (char *save, *item = strtok_r(text, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
        if (n == most) return cli_fail_with("sim: %s: at most %d", option, most), 0;
        items[n++] = item;
    }
    if (!n) cli_fail_with("sim: %s: the list is empty", option);
    return n;
}

/* share_of -- "10%" of all tokens, or a count of them; 0 after an error message. */
static double share_of(const char *text, int64_t all)
{
    char *end;
    double v = strtod(text, &end);
    double share = *end == '%' ? v / 100 : v / (double)all;
    if (end != text && (*end == 0 || strcmp(end, "%") == 0) && share > 0 && isfinite(share))
        return share;
    cli_fail_with("sim: --memory %s: a share such as 10%%, or a count of tokens", text);
    return 0;
}

/* check_lists -- false after an error message about an item that no trace could be simulated with. */
static bool check_lists(const options *o)
{
    const char *items[MOST_SIZES + SIM_ROUTERS];
    sim_plan tiers = {.kv_bytes = o->kv_bytes};
    sim_shared shared;
    sim_router router;
    if (o->tiers && !sim_plan_parse(o->tiers, &tiers)) return false;
    if (o->remote && !sim_shared_parse(o->remote, &shared)) return false;
    char *list = cli_copy(o->memory);
    const int n_sizes = split(list, "--memory", items, MOST_SIZES);
    bool good = n_sizes > 0;
    for (int i = 0; good && i < n_sizes; i++) good = share_of(items[i], 1) > 0;
    free(list);
    list = cli_copy(o->routers ? o->routers : "random");
    const int n_routers = good ? split(list, "--router", items, SIM_ROUTERS) : 0;
    good = n_routers > 0;
    for (int i = 0; good && i < n_routers; i++) good = sim_router_parse(items[i], &router);
    free(list);
    return good;
}

/* compare_with_belady -- the rows of one size, if belady is among them. */
static void compare_with_belady(sim_row *rows, int n)
{
    int64_t best = 0;
    for (int i = 0; i < n; i++)
        if (strcmp(rows[i].policy, "belady") == 0) best = rows[i].r.n_hits;
    for (int i = 0; i < n; i++)
        rows[i].of_belady = best ? (double)rows[i].r.n_hits / (double)best : -1;
}

static bool simulate(options *o, const sim_trace *t, const char *const *policies, int n)
{
    const char *sizes[MOST_SIZES];
    char *list = cli_copy(o->memory);
    int n_sizes = split(list, "--memory", sizes, MOST_SIZES), n_rows = 0;
    int64_t all = sim_trace_tokens(t);
    sim_row *rows = cli_alloc((size_t)n_sizes * (size_t)n, sizeof *rows);
    bool good = n_sizes > 0;
    for (int i = 0; good && i < n_sizes; i++) {
        double share = share_of(sizes[i], all);
        good = share > 0;
        for (int k = 0; good && k < n; k++, n_rows++) {
            sim_row *w = &rows[n_rows];
            snprintf(w->policy, sizeof w->policy, "%s", policies[k]);
            w->memory = share;
            o->run.policy = policies[k];
            o->run.memory = sim_memory(t, &o->run, share * (double)all);
            good = sim_run(t, &o->run, &w->r);
        }
        if (good) compare_with_belady(rows + n_rows - n, n);
    }
    if (good) sim_print_rows(rows, n_rows, &o->run, o->as_json);
    if (good && o->csv) good = sim_write_csv(o->csv, rows, n_rows);
    free(rows);
    free(list);
    return good;
}

static void print_plan(const options *o, const char *policy, const sim_plan *p,
                       const sim_planned *r)
{
    if (!o->as_json) {
        printf("%-12s", policy);
        for (int k = 0; k < p->n_tiers; k++)
            printf(" %s %5.1f%%", p->tier[k].name, 100 * r->hit_rate[k]);
        printf("  TTFT %.4g s, p99 %.4g s, without a cache %.4g s\n", r->ttft, r->ttft_p99,
               r->ttft_cold);
        return;
    }
    printf("{\"policy\":\"%s\",\"by\":\"%s\",\"hit_rate\":%.6g,\"tiers\":{", policy, o->by,
           r->all_hits);
    for (int k = 0; k < p->n_tiers; k++)
        printf("%s\"%s\":%.6g", k ? "," : "", p->tier[k].name, r->hit_rate[k]);
    printf("},\"ttft\":%.6g,\"ttft_p99\":%.6g,\"ttft_cold\":%.6g,\"computed_instead\":%lld,"
           "\"seconds\":%.6g}\n",
           r->ttft, r->ttft_p99, r->ttft_cold, (long long)r->n_refused, r->seconds);
}

static bool plan(options *o, const sim_trace *t, const char *const *policies, int n)
{
    sim_plan p = {.kv_bytes = o->kv_bytes, .tokens_per_s = (double)o->tokens_per_s};
    bool good = sim_plan_parse(o->tiers, &p);
    for (int k = 0; good && k < n; k++) {
        sim_planned r;
        o->run.policy = policies[k];
        good = sim_tiers(t, &o->run, &p, &r);
        if (good) print_plan(o, policies[k], &p, &r);
    }
    return good;
}

static void print_fleet(const char *policy, const sim_plan *p, const sim_fleet *f,
                        const sim_fleet_result *r, double n_refs)
{
    printf("%-13s %-12s", sim_router_name(f->router), policy);
    for (int k = 0; k < p->n_tiers; k++)
        printf(" %s %5.1f%%", p->tier[k].name, 100 * (double)r->n_hits[k] / n_refs);
    if (f->shared.there) printf(" shared %5.1f%%", 100 * (double)r->n_hits[p->n_tiers] / n_refs);
    printf("  TTFT p50 %.4g s, p99 %.4g s; busy %.0f%%; busiest %.2fx", r->ttft_p50, r->ttft_p99, 100 * r->busy,
           r->busiest);
    if (f->shared.there)
        printf("; shared: %.4g GB read, %.4g GB written", r->bytes_read / 1e9, r->bytes_written / 1e9);
    putchar('\n');
}

static void print_fleet_json(const char *policy, const sim_plan *p, const sim_fleet *f, const sim_fleet_result *r,
                             double n_refs)
{
    printf("{\"replicas\":%d,\"router\":\"%s\",\"policy\":\"%s\",\"rate\":%.6g,\"token_hit_rate\":%.6g,"
           "\"tiers\":{",
           f->n_servers, sim_router_name(f->router), policy, r->rate, (double)r->tokens_hit / (double)r->tokens);
    for (int k = 0; k < p->n_tiers; k++)
        printf("\"%s\":%.6g,", p->tier[k].name, (double)r->n_hits[k] / n_refs);
    printf("\"remote\":%.6g},\"ttft\":%.6g,\"ttft_p50\":%.6g,\"ttft_p99\":%.6g,\"ttft_cold\":%.6g,"
           "\"busy\":%.6g,\"busiest\":%.6g,\"remote_bytes_read\":%.6g,\"remote_bytes_written\":%.6g,"
           "\"seconds\":%.6g}\n",
           (double)r->n_hits[p->n_tiers] / n_refs, r->ttft, r->ttft_p50, r->ttft_p99, r->cold, r->busy, r->busiest,
           r->bytes_read, r->bytes_written, r->seconds);
}

/* run_fleets -- each router with each policy. */
static bool run_fleets(options *o, const sim_trace *t, const char *const *policies, int n)
{
    sim_plan p = {.kv_bytes = o->kv_bytes, .tokens_per_s = (double)o->tokens_per_s};
    sim_fleet f = {.n_servers = o->n_servers, .rate = (double)o->rate, .seed = o->made.seed};
    const char *names[SIM_ROUTERS];
    char *list = cli_copy(o->routers ? o->routers : "random,least,hash,bounded-hash");
    int n_routers = split(list, "--router", names, SIM_ROUTERS);
    bool good = n_routers > 0 && sim_plan_parse(o->tiers ? o->tiers : "device:8G", &p) &&
                (!o->remote || sim_shared_parse(o->remote, &f.shared));
    for (int i = 0; good && i < n_routers; i++) {
        good = sim_router_parse(names[i], &f.router);
        for (int k = 0; good && k < n; k++) {
            sim_fleet_result r;
            o->run.policy = policies[k];
            good = sim_fleet_run(t, &o->run, &p, &f, &r);
            if (good) (o->as_json ? print_fleet_json : print_fleet)(policies[k], &p, &f, &r, (double)t->n_refs);
            fflush(stdout);
        }
    }
    free(list);
    return good;
}

static bool load(options *o, const char *path, sp_cost *cost, sim_trace *t)
{
    if (o->profile) {
        sp_err err = sp_cost_read(o->profile, cost);
        if (err != SP_OK) return cli_fail(err), false;
        o->run.cost = cost;
    }
    if (path) return sim_trace_read(path, o->chunks, o->made.top_k, t);
    if (!sim_generate(&o->made, t)) return false;
    if (!o->trace_out || sim_trace_write(t, o->trace_out)) return true;
    sim_trace_free(t);
    return false;
}

/* all_policies -- those of the list, and belady. */
static const char *all_policies(void)
{
    static char names[256];
    int n;
    const sp_evict_info *all = sp_evict_policies(&n);
    *names = '\0';
    for (int i = 0; i < n; i++) {
        strncat(names, all[i].name, sizeof names - strlen(names) - 1);
        strncat(names, ",", sizeof names - strlen(names) - 1);
    }
    strncat(names, "belady", sizeof names - strlen(names) - 1);
    return names;
}

/* are_known -- false after an error message; belady is this command's own. */
static bool are_known(const char *const *policies, int n)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(policies[i], "belady") == 0 || sp_evict_check(policies[i]) == SP_OK) continue;
        cli_fail_with("sim: --policy: %s; or belady", sp_error_detail());
        return false;
    }
    return true;
}

int lab_sim(int argc, char **argv)
{
    options o = {
        .memory = "5%,10%,20%",
        .by = "content",
        .made = {.n_requests = 10000, .n_docs = 5000, .mean_tokens = 500, .exponent = 1, .seed = 1},
        .kv_bytes = 131072,
        .tokens_per_s = 5000};
    const char *path, *policies[MOST_POLICIES];
    sim_trace t = {0};
    sp_cost cost;
    int code;
    if (!parse(argc, argv, &o, &path, &code)) return code;
    if (!o.policies) o.policies = o.n_servers ? "hazard" : all_policies();
    if (o.made.kind && !o.made.top_k) o.made.top_k = 5;
    if (!check(&o) || !check_lists(&o) || (o.made.kind && !sim_workload_check(&o.made))) return 2;
    char *list = cli_copy(o.policies);
    int n = split(list, "--policy", policies, MOST_POLICIES);
    const bool known = n > 0 && are_known(policies, n);
    bool good = known && load(&o, path, &cost, &t);
    if (good) {
        good = o.n_servers ? run_fleets(&o, &t, policies, n)
               : o.tiers   ? plan(&o, &t, policies, n)
                           : simulate(&o, &t, policies, n);
        sim_trace_free(&t);
    }
    free(list);
    return cli_check_output(good ? 0 : known ? 1 : 2);
}
