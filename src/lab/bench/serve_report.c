#include "lab/bench/serve_report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/alloc.h"
#include "cli/cli.h"
#include "lab/bench/bench.h"
#include "lab/plot.h"

/* -- numbers -------------------------------------------------------------------------------- */

static load_quantiles quantiles(load_times *t)
{
    if (!t->n) return (load_quantiles){NAN, NAN, NAN, NAN};
    load_quantiles q = {0};
    for (size_t i = 0; i < t->n; i++) q.mean += t->v[i] / (double)t->n;
    q.p50 = bench_quantile(t->v, (int)t->n, 0.5);
    q.p95 = bench_quantile(t->v, (int)t->n, 0.95);
    q.p99 = bench_quantile(t->v, (int)t->n, 0.99);
    return q;
}

static load_row row_of(int server, const load_run *run, load_result *r)
{
    return (load_row){.server = server,
                      .rate = run->rate,
                      .n_requests = run->n_requests,
                      .n_answered = r->n_answered,
                      .n_refused = r->n_refused,
                      .n_failed = r->n_failed,
                      .n_left = r->n_left,
                      .most_open = r->most_open,
                      .ttft = quantiles(&r->ttft),
                      .gap = quantiles(&r->gaps),
                      .total = quantiles(&r->total),
                      .seconds = r->seconds,
                      .drain = r->drain,
                      .tokens_s = (double)r->n_generated / r->seconds,
                      .requests_s = r->n_answered / r->seconds,
                      .cached = r->n_prompt ? (double)r->n_cached / (double)r->n_prompt : NAN};
}

/* next_rate -- the lowest row of a server above `rate`, or NULL. */
static const load_row *next_rate(const load_report *r, int server, double rate)
{
    const load_row *best = NULL;
    for (size_t i = 0; i < r->n; i++) {
        const load_row *row = &r->rows[i];
        if (row->server == server && row->rate > rate && (!best || row->rate < best->rate))
            best = row;
    }
    return best;
}

static double typical(const load_report *r, const load_quantiles *q)
{
    return r->median ? q->p50 : q->mean;
}

/* first_beyond -- the lowest rate at which a server does not keep up, or NULL; *rate is the one below. */
static const load_row *first_beyond(const load_report *r, int server, double *rate)
{
    const load_row *row = next_rate(r, server, 0), *lowest = row;
    *rate = NAN;
    while (row && row->n_answered + row->n_left == row->n_requests &&
           typical(r, &row->ttft) <= r->factor * typical(r, &lowest->ttft) &&
           (row == lowest || row->drain <= r->factor * typical(r, &lowest->total))) {
        *rate = row->rate;
        row = next_rate(r, server, *rate);
    }
    return row;
}

double load_goodput(const load_report *r, int server)
{
    double rate;
    (void)first_beyond(r, server, &rate);
    return rate;
}

bool load_is_beyond(const load_report *r, int server)
{
    double rate;
    return first_beyond(r, server, &rate) != NULL;
}

/* -- text ----------------------------------------------------------------------------------- */

static const char *const csv_columns = "server,rate,requests,answered,refused,failed,left,most_"
                                       "open,seconds,drain_s,ttft_ms,ttft_p50_ms,ttft_p95_ms,"
                                       "ttft_p99_ms,gap_ms,gap_p50_ms,gap_p95_ms,gap_p99_ms,total_"
                                       "ms,total_p95_ms,tokens_s,requests_s,cached\n";

void load_report_head(const load_report *r)
{
    if (r->csv) fputs(csv_columns, r->csv);
    if (r->json) return;
    printf("%-12s %7s %8s %7s %10s %10s %10s %9s %9s %9s %8s\n", "server", "rate", "answered",
           "not", "TTFT ms", "95 % ms", "99 % ms", "gap ms", "95 % ms", "tokens/s", "cached");
}

static void set_number(json_t *o, const char *field, double v)
{
    json_object_set_new(o, field, isfinite(v) ? json_real(v) : json_null());
}

static void set_quantiles(json_t *o, const char *field, const load_quantiles *q)
{
    json_t *v = cli_checked(json_object());
    set_number(v, "mean", 1e3 * q->mean);
    set_number(v, "p50", 1e3 * q->p50);
    set_number(v, "p95", 1e3 * q->p95);
    set_number(v, "p99", 1e3 * q->p99);
    json_object_set_new(o, field, v);
}

static void print_json(json_t *o)
{
    json_dumpf(o, stdout, JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(o);
}

static void print_row_json(const load_report *r, const load_row *w, const char *error)
{
    json_t *o = cli_checked(json_pack(
        "{s:s, s:f, s:i, s:i, s:i, s:i, s:i, s:i}", "server", r->names[w->server], "rate", w->rate,
        "requests", w->n_requests, "answered", w->n_answered, "refused", w->n_refused, "failed",
        w->n_failed, "left", w->n_left, "most_open", w->most_open));
    set_number(o, "seconds", w->seconds);
    set_number(o, "drain_s", w->drain);
    set_quantiles(o, "ttft_ms", &w->ttft);
    set_quantiles(o, "gap_ms", &w->gap);
    set_quantiles(o, "total_ms", &w->total);
    set_number(o, "tokens_s", w->tokens_s);
    set_number(o, "requests_s", w->requests_s);
    set_number(o, "cached", w->cached);
    json_object_set_new(o, "error", *error ? json_string(error) : json_null());
    print_json(o);
}

static void print_row(const load_report *r, const load_row *w)
{
    char rate[16] = "all";
    if (w->rate > 0) snprintf(rate, sizeof rate, "%g", w->rate);
    printf("%-12s %7s %8d %7d %10.1f %10.1f %10.1f %9.2f %9.2f %9.1f %6.1f %%\n",
           r->names[w->server], rate, w->n_answered, w->n_refused + w->n_failed, 1e3 * w->ttft.mean,
           1e3 * w->ttft.p95, 1e3 * w->ttft.p99, 1e3 * w->gap.mean, 1e3 * w->gap.p95, w->tokens_s,
           100 * w->cached);
}

static void write_csv(FILE *f, const char *name, const load_row *w)
{
    fprintf(f, "%s,%g,%d,%d,%d,%d,%d,%d,%.3f,%.3f", name, w->rate, w->n_requests, w->n_answered,
            w->n_refused, w->n_failed, w->n_left, w->most_open, w->seconds, w->drain);
    const load_quantiles *all[] = {&w->ttft, &w->gap};
    for (int i = 0; i < 2; i++)
        fprintf(f, ",%.3f,%.3f,%.3f,%.3f", 1e3 * all[i]->mean, 1e3 * all[i]->p50, 1e3 * all[i]->p95,
                1e3 * all[i]->p99);
    fprintf(f, ",%.3f,%.3f,%.3f,%.3f,%.4f\n", 1e3 * w->total.mean, 1e3 * w->total.p95, w->tokens_s,
            w->requests_s, w->cached);
    fflush(f);
}

void load_report_add(load_report *r, int server, const load_run *run, load_result *result)
{
    load_row row = row_of(server, run, result);
    r->rows = cli_grow(r->rows, r->n, &r->cap, sizeof *r->rows);
    r->rows[r->n++] = row;
    if (r->json)
        print_row_json(r, &row, result->error);
    else
        print_row(r, &row);
    fflush(stdout);
    if (r->csv) write_csv(r->csv, r->names[server], &row);
    if (result->error[0])
        cli_warn("%s, rate %g: %d requests failed; the first: %s", r->names[server], run->rate,
                 row.n_failed, result->error);
}

void load_report_goodput(const load_report *r)
{
    double first = load_goodput(r, 0);
    for (int i = 0; i < r->n_names; i++) {
        double rate = load_goodput(r, i), ratio = rate / first;
        if (r->json) {
            json_t *o = cli_checked(json_pack("{s:s, s:f, s:s, s:b}", "server", r->names[i], "factor",
                                              r->factor, "by", r->median ? "median" : "mean",
                                              "reached_its_limit", load_is_beyond(r, i)));
            set_number(o, "goodput", rate);
            set_number(o, "ratio", ratio);
            print_json(o);
        } else if (isfinite(rate)) {
            printf("%-12s goodput %g requests/s (%s times within %gx of the lowest rate's%s), %.2fx of "
                   "%s\n",
                   r->names[i], rate, r->median ? "median" : "mean", r->factor,
                   load_is_beyond(r, i) ? "" : "; the limit was not reached", ratio, r->names[0]);
        }
    }
}

/* -- the plot ------------------------------------------------------------------------------- */

#define N_PANELS 4

typedef struct line_data {
    double x[BENCH_MAX_LIST], y[N_PANELS][BENCH_MAX_LIST];
    int n;
} line_data;

static void collect(const load_report *r, int server, line_data *d)
{
    const load_row *row = next_rate(r, server, 0);
    for (d->n = 0; row && d->n < BENCH_MAX_LIST; d->n++) {
        const double y[N_PANELS] = {1e3 * row->ttft.mean, 1e3 * row->ttft.p95, 1e3 * row->gap.mean,
                                    row->tokens_s};
        d->x[d->n] = row->rate;
        for (int p = 0; p < N_PANELS; p++) d->y[p][d->n] = y[p];
        row = next_rate(r, server, row->rate);
    }
}

bool load_report_plot(const load_report *r, const char *path)
{
    static const char *const titles[N_PANELS] = {"mean time to first token", "TTFT, 95 %, ms",
                                                 "time between tokens, ms", "tokens a second"};
    line_data *data = cli_alloc((size_t)r->n_names, sizeof *data);
    plot_line *lines = cli_alloc((size_t)r->n_names * N_PANELS, sizeof *lines);
    plot_panel panels[N_PANELS];
    for (int i = 0; i < r->n_names; i++) collect(r, i, &data[i]);
    for (int p = 0; p < N_PANELS; p++) {
        plot_line *of = lines + p * r->n_names;
        for (int i = 0; i < r->n_names; i++)
            of[i] = (plot_line){.name = r->names[i],
                                .style = i + 1,
                                .x = data[i].x,
                                .y = data[i].y[p],
                                .n = data[i].n};
        panels[p] = (plot_panel){.title = titles[p],
                                 .x_label = "requests a second",
                                 .y_label = "ms",
                                 .y_log = p < 2,
                                 .y_floor = 0.1,
                                 .lines = of,
                                 .n_lines = r->n_names};
    }
    bool good = plot_write(path, panels, N_PANELS);
    if (!good) cli_fail_with("%s: cannot be written: %s", path, strerror(errno));
    free(lines);
    free(data);
    return good;
}

void load_report_fini(load_report *r)
{
    free(r->rows);
    r->rows = NULL;
}
