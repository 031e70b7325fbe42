#include "lab/bench/speed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/alloc.h"
#include "cli/cli.h"
#include "lab/files.h"

/* -- rows ----------------------------------------------------------------------------------- */

static const char *column(const speed_bench *b, int c)
{
    return c == 0 ? "model" : c == 1 ? b->kind->column : "depth";
}

static const char *value(const speed_row *r, int c)
{
    return c ? r->value[c] : r->model->path;
}

static void skip(const speed_bench *b, const speed_row *r, const char *why)
{
    for (int c = 0; c < SPEED_COLUMNS; c++) printf("%s%s %s", c ? ", " : "", column(b, c), value(r, c));
    printf(": skipped, %s\n", why);
    fflush(stdout);
}

/* add -- a row, unless the model has no room for it. */
static void add(speed_bench *b, bench_model *m, int depth, int size)
{
    char why[128];
    speed_row r = {.model = m, .depth = depth, .size = size};
    snprintf(r.value[1], sizeof r.value[1], "%d", size);
    snprintf(r.value[2], sizeof r.value[2], "%d", depth);
    const bench_load load = b->kind->load(b, depth, size);
    if (!bench_model_fits(m, &load, why, sizeof why)) {
        skip(b, &r, why);
        return;
    }
    b->kind->prepare(b, &r);
    r.seconds = cli_alloc((size_t)b->rounds, sizeof *r.seconds);
    b->rows = cli_grow(b->rows, b->n_rows, &b->cap_rows, sizeof *b->rows);
    b->rows[b->n_rows++] = r;
}

static void add_all(speed_bench *b)
{
    for (int d = 0; d < b->depths.n; d++)
        for (int s = 0; s < b->sizes.n; s++)
            for (int m = 0; m < b->mo.models.n; m++) add(b, &b->models[m], (int)b->depths.v[d], (int)b->sizes.v[s]);
}

/* -- rounds --------------------------------------------------------------------------------- */

static void write_run(const speed_bench *b, const speed_row *r, int round)
{
    const char *by;
    double seconds = r->seconds[round], rate = r->tokens / seconds;
    double bound = bench_machine_bound(&b->machine, &r->work, &by);
    if (!b->csv) return;
    for (int c = 0; c < SPEED_COLUMNS; c++) {
        lab_csv_put(b->csv, value(r, c));
        fputc(',', b->csv);
    }
    fprintf(b->csv, "%d,%.9g,%.6g,tok/s,%s,%.6g,%.4g\n", round + 1, seconds, rate, by, r->tokens / bound,
            bound / seconds);
    fflush(b->csv);
}

static void progress(const speed_bench *b, int round, size_t row)
{
    if (!isatty(2)) return;
    if (round < b->rounds)
        fprintf(stderr, "\rround %d of %d, setting %zu of %zu ", round + 1, b->rounds, row + 1, b->n_rows);
    else
        fputs("\r\033[K", stderr);
}

static bool run_round(speed_bench *b, int round)
{
    bench_machine_probe(&b->machine);
    for (size_t i = 0; i < b->n_rows; i++) {
        speed_row *r = &b->rows[i];
        progress(b, round, i);
        if (!b->kind->run(b, r, &r->seconds[round])) return false;
        write_run(b, r, round);
    }
    return true;
}

/* -- the table ------------------------------------------------------------------------------ */

static void print_row(const speed_bench *b, const speed_row *r, const int *width)
{
    const char *by;
    const double median = lab_quantile(r->seconds, b->rounds, 0.5); /* sorts */
    const double bound = bench_machine_bound(&b->machine, &r->work, &by);
    printf("%-*s", width[0], value(r, 0));
    for (int c = 1; c < SPEED_COLUMNS; c++) printf("  %*s", width[c], value(r, c));
    printf(" %10.4g %10.4g %5s %10.4g %6.1f %%\n", r->tokens / median, r->tokens / r->seconds[0], by,
           r->tokens / bound, 100 * bound / median);
}

static void print_table(const speed_bench *b)
{
    int width[SPEED_COLUMNS];
    for (int c = 0; c < SPEED_COLUMNS; c++) {
        width[c] = (int)strlen(column(b, c));
        for (size_t i = 0; i < b->n_rows; i++) {
            const int n = (int)strlen(value(&b->rows[i], c));
            if (n > width[c]) width[c] = n;
        }
    }
    bench_machine_print(&b->machine);
    printf("tok/s, median and best of %d rounds, and the bound\n%-*s", b->rounds, width[0], column(b, 0));
    for (int c = 1; c < SPEED_COLUMNS; c++) printf("  %*s", width[c], column(b, c));
    printf(" %10s %10s %5s %10s %8s\n", "median", "best", "bound", "is", "reached");
    for (size_t i = 0; i < b->n_rows; i++) print_row(b, &b->rows[i], width);
    fflush(stdout);
}

/* -- the command ---------------------------------------------------------------------------- */

/* warn_of_caches -- a small model stays in the caches. */
static void warn_of_caches(const speed_bench *b)
{
    const size_t larger = b->machine.best.read_bytes;
    for (int i = 0; i < b->mo.models.n; i++)
        if (b->models[i].weight_bytes < (double)larger / 2)
            printf("%s: %.1f MB of weights may stay in the caches and exceed the bound of reading\n",
                   b->models[i].path, b->models[i].weight_bytes / 1e6);
}

static bool open_csv(speed_bench *b)
{
    if (!b->csv_path) return true;
    if (!(b->csv = fopen(b->csv_path, "w")))
        return cli_fail_with("%s: cannot be written: %s", b->csv_path, strerror(errno)), false;
    fprintf(b->csv, "model,%s,depth,round,seconds,rate,unit,bound,bound_rate,share\n", b->kind->column);
    return true;
}

static bool measure(speed_bench *b)
{
    int at_once = 1;
    for (int i = 0; i < b->sizes.n && b->kind->at_once; i++)
        if ((int)b->sizes.v[i] > at_once) at_once = (int)b->sizes.v[i];
    b->models = bench_models_open(&b->mo, b->n_threads, b->cpu, at_once, &b->depths);
    if (!b->models || !open_csv(b) || !bench_machine_open(&b->machine, b->n_threads, b->cpu)) return false;
    if (b->kind->at_once) warn_of_caches(b);
    add_all(b);
    if (!b->n_rows) return cli_fail_with("no setting can be measured"), false;
    bool good = true;
    for (int round = 0; round < b->rounds && good; round++) good = run_round(b, round);
    progress(b, b->rounds, 0);
    if (good) print_table(b);
    return good;
}

static int run(speed_bench *b)
{
    bool good = measure(b);
    if (b->csv && !lab_close(b->csv, b->csv_path)) good = false;
    for (size_t i = 0; i < b->n_rows; i++) free(b->rows[i].seconds);
    free(b->rows);
    bench_machine_close(&b->machine);
    bench_models_close(b->models, b->mo.models.n);
    return good ? 0 : 1;
}

int speed_bench_run(speed_bench *b, const speed_kind *kind, const opt *own, int argc, char **argv)
{
    const char *sizes = kind->sizes, *depths = kind->depths;
    b->kind = kind;
    b->rounds = 3;
    bench_model_options_init(&b->mo);
    const opt lists[] = {
        {OPT_STRING, kind->sizes_option, 0, "LIST", &sizes, kind->sizes_help},
        {OPT_STRING, "depths", 0, "LIST", &depths, kind->depths_help},
        {0},
    };
    const opt shared[] = {
        {OPT_GROUP, "Measurement"},
        {OPT_INT, "rounds", 0, "N", &b->rounds, "runs of each setting, alternating (3)", .limits = {1, 10000}},
        {OPT_INT, "threads", 't', "N", &b->n_threads, "threads; 0: one for each core (0)", .limits = {0, 1024}},
        OPT_CPU(&b->cpu),
        OPT_EXACT_PRODUCTS(&b->mo.m.ctx.machine.exact_products),
        OPT_AMX_F16(&b->mo.m.ctx.machine.amx_f16),
        OPT_AMX_ATTEND(&b->mo.m.ctx.machine.amx_attend),
        {OPT_STRING, "csv", 0, "FILE", &b->csv_path, "write a line for each run"},
        {0},
    };
    static const opt none[] = {{0}};
    const opt *const tables[] = {lists, own ? own : none, b->mo.table, shared, NULL};
    const int at = opt_parse(argc, argv, &(opt_usage){kind->usage, kind->help}, tables);
    if (at < 0) return -1 - at;
    if (at != argc) return cli_fail_with("bench %s: unexpected argument \"%s\"", kind->name, argv[at]), 2;
    char command[32];
    snprintf(command, sizeof command, "bench %s", kind->name);
    b->mo.m.ctx.machine.cpu = b->cpu;
    if (!bench_model_options_check(&b->mo, command) ||
        !bench_list_parse(kind->sizes_option, sizes, 1, kind->most, true, &b->sizes) ||
        !bench_list_parse("depths", depths, 0, 1 << 20, true, &b->depths))
        return 2;
    return run(b);
}
