#include <string.h>

#include "cli/alloc.h"
#include "cli/cli.h"
#include "lab/files.h"
#include "lab/sim/sim.h"

static double share(int64_t part, int64_t all)
{
    return all ? (double)part / (double)all : 0;
}

static const char *const op_names[SIM_N_OPS] = {"look_up", "use", "add"};

static void print_json(const sim_row *w, const sim_opts *o)
{
    const sim_result *r = &w->r;
    printf("{\"policy\":\"%s\",\"memory\":%.6g,\"by\":\"%s\",\"lookahead\":%d,\"hit_rate\":%.6g,"
           "\"token_hit_rate\":%.6g,\"documents\":%lld,\"copies\":%lld,\"evictions\":%lld,"
           "\"seconds\":%.6g",
           w->policy, w->memory, o->by_path ? "path" : "content", o->look_ahead,
           share(r->n_hits, r->n_docs), share(r->tokens_hit, r->tokens), (long long)r->n_docs,
           (long long)r->n_copies, (long long)r->n_evicted, r->seconds);
    if (w->of_belady >= 0) printf(",\"of_belady\":%.6g", w->of_belady);
    for (int op = 0; o->times && op < SIM_N_OPS; op++)
        printf(",\"%s_us\":{\"p50\":%.4g,\"p99\":%.4g,\"max\":%.4g,\"n\":%lld}", op_names[op],
               r->times[op].p50, r->times[op].p99, r->times[op].most, (long long)r->times[op].n);
    if (o->times) printf(",\"entry_bytes\":%.4g", r->entry_bytes);
    puts("}");
}

static void print_times(const sim_result *r)
{
    for (int op = 0; op < SIM_N_OPS; op++)
        printf("  %-8s p50 %8.2f  p99 %8.2f  max %10.2f us  (%lld)\n", op_names[op],
               r->times[op].p50, r->times[op].p99, r->times[op].most, (long long)r->times[op].n);
    printf("  %lld copies, %.0f bytes each\n", (long long)r->n_copies, r->entry_bytes);
}

void sim_print_rows(const sim_row *rows, int n, const sim_opts *o, bool as_json)
{
    if (!as_json)
        printf("%-14s %7s %9s %9s %10s %10s %9s\n", "policy", "memory", "hits", "tokens",
               "of belady", "evictions", "us/doc");
    for (int i = 0; i < n; i++) {
        const sim_row *w = &rows[i];
        const sim_result *r = &w->r;
        if (as_json) {
            print_json(w, o);
            continue;
        }
        printf("%-14s %6.4g%% %8.2f%% %8.2f%% ", w->policy, 100 * w->memory,
               100 * share(r->n_hits, r->n_docs), 100 * share(r->tokens_hit, r->tokens));
        if (w->of_belady >= 0)
            printf("%10.3f", w->of_belady);
        else
            printf("%10s", "");
        printf(" %10lld %9.2f\n", (long long)r->n_evicted,
               r->n_docs ? 1e6 * r->seconds / (double)r->n_docs : 0);
        if (o->times) print_times(r);
    }
}

bool sim_write_csv(const char *path, const sim_row *rows, int n)
{
    FILE *f = fopen(path, "w");
    if (f) fputs("policy,memory,hit_rate,token_hit_rate,evictions,seconds\n", f);
    for (int i = 0; f && i < n; i++) {
        const sim_result *r = &rows[i].r;
        fprintf(f, "%s,%.6g,%.6g,%.6g,%lld,%.6g\n", rows[i].policy, rows[i].memory,
                share(r->n_hits, r->n_docs), share(r->tokens_hit, r->tokens),
                (long long)r->n_evicted, r->seconds);
    }
    return lab_close(f, path);
}
