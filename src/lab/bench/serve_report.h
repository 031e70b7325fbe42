/* serve_report.h -- figures of load tests: a table, JSON lines, CSV, a plot. */
#ifndef SP_LAB_BENCH_SERVE_REPORT_H
#define SP_LAB_BENCH_SERVE_REPORT_H

#include <stdio.h>

#include "lab/bench/serve_load.h"

typedef struct load_quantiles {
    double mean, p50, p95, p99; /* seconds; NaN without values */
} load_quantiles;

/* One run. */
typedef struct load_row {
    int server; /* number of its name */
    double rate;
    int n_requests, n_answered, n_refused, n_failed, n_left, most_open;
    load_quantiles ttft, gap, total;
    double seconds, drain, tokens_s, requests_s; /* tokens_s: generated ones */
    double cached; /* share of prompt tokens; NaN: the server does not say */
} load_row;

typedef struct load_report {
    const char *names[16]; /* of servers */
    int n_names;
    double factor; /* goodput: TTFT at most this many times that at the lowest rate */
    bool median;   /* goodput: of medians, not means */
    bool json;
    FILE *csv; /* or NULL */
    load_row *rows;
    size_t n, cap;
} load_report;

void load_report_head(const load_report *r);
/* load_report_add -- prints and keeps a run; sorts the result's times. */
void load_report_add(load_report *r, int server, const load_run *run, load_result *result);

/* load_goodput -- the highest rate at which a server answers all requests and keeps up: the mean (or
 * median) TTFT is within the factor of that at the lowest rate, and so is the time from the last
 * arrival to the last answer, of the time of a request there: otherwise a short run hides a queue
 * that grows. All lower rates must pass, too. NaN when none does. */
double load_goodput(const load_report *r, int server);
/* load_is_beyond -- whether a server has been measured at a rate above its goodput. */
bool load_is_beyond(const load_report *r, int server);
/* load_report_goodput -- prints it for each server, and as a ratio to the first. */
void load_report_goodput(const load_report *r);

/* load_report_plot -- false after an error message. */
bool load_report_plot(const load_report *r, const char *path);
void load_report_fini(load_report *r);

#endif
