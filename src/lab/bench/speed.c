#include "lab/bench/speed.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab/bench/bench.h"
#include "cli/cli.h"

#define MAX_ROWS     4096

/* -- options -------------------------------------------------------------------------------- */

void speed_options_init(speed_options *o, int rounds)
{
    *o = (speed_options){.rounds = rounds};
    snprintf(o->rounds_help, sizeof o->rounds_help, "runs of each setting, alternating (%d)",
             rounds);
    const opt table[] = {
        {OPT_GROUP, "Measurement"},
        {OPT_INT, "rounds", 0, "N", &o->rounds, o->rounds_help},
        {OPT_INT, "threads", 't', "N", &o->n_threads, "threads (one for each core)"},
        {OPT_STRING, "cpu", 0, "NAME", &o->cpu,
         "kernels: ref, avx2, avxvnni, avx512, vnni (the best for this CPU)"},
        {OPT_STRING, "csv", 0, "FILE", &o->csv, "write a line for each run"},
        {0},
    };
    memcpy(o->table, table, sizeof table);
}

bool speed_options_check(const speed_options *o)
{
    if (o->rounds < 1 || o->rounds > 10000)
        return cli_fail_with("--rounds: %d is not in 1..10000", o->rounds), false;
    return true;
}

/* -- opening and closing -------------------------------------------------------------------- */

static int n_columns(const speed_bench *b)
{
    int n = 0;
    while (n < SPEED_COLUMNS && b->columns[n]) n++;
    return n;
}

static void write_head(const speed_bench *b)
{
    for (int c = 0; c < n_columns(b); c++) fprintf(b->csv, "%s,", b->columns[c]);
    fputs("round,seconds,rate,unit,bound,bound_rate,share\n", b->csv);
}

bool speed_open(speed_bench *b)
{
    const speed_options *o = b->o;
    if (o->csv && !(b->csv = fopen(o->csv, "w")))
        return cli_fail_with("%s: cannot be written", o->csv), false;
    if (b->csv) write_head(b);
    return bench_machine_open(&b->machine, o->n_threads, o->cpu);
}

static void free_row(speed_row *r)
{
    for (int c = 0; c < SPEED_COLUMNS; c++) free(r->value[c]);
    free(r->seconds);
}

int speed_close(speed_bench *b, bool good)
{
    if (b->csv && fclose(b->csv) != 0 && good)
        good = (cli_fail_with("%s: cannot be written", b->o->csv), false);
    for (int i = 0; i < b->n_rows; i++) free_row(&b->rows[i]);
    free(b->rows);
    bench_machine_close(&b->machine);
    return good ? 0 : 1;
}

bool speed_add(speed_bench *b, const char *const *values, double units, const bench_work *work)
{
    if (b->n_rows == MAX_ROWS) return cli_fail_with("more than %d settings", MAX_ROWS), false;
    speed_row *rows = realloc(b->rows, (size_t)(b->n_rows + 1) * sizeof *rows);
    if (!rows) return cli_fail_with("out of memory"), false;
    b->rows = rows;
    speed_row *r = &rows[b->n_rows++];
    *r = (speed_row){.units = units,
                     .work = *work,
                     .seconds = calloc((size_t)b->o->rounds, sizeof *r->seconds)};
    bool good = r->seconds != NULL;
    for (int c = 0; c < n_columns(b); c++) good &= (r->value[c] = strdup(values[c])) != NULL;
    return good || (cli_fail_with("out of memory"), false);
}

void speed_skip(const speed_bench *b, const char *const *values, const char *why, ...)
{
    va_list args;
    for (int c = 0; c < n_columns(b); c++)
        printf("%s%s %s", c ? ", " : "", b->columns[c], values[c]);
    fputs(": skipped, ", stdout);
    va_start(args, why);
    vprintf(why, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

/* -- rounds --------------------------------------------------------------------------------- */

/* write_field -- quoted where CSV needs it. */
static void write_field(FILE *to, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        fprintf(to, "%s,", text);
        return;
    }
    fputc('"', to);
    for (; *text; text++) {
        if (*text == '"') fputc('"', to);
        fputc(*text, to);
    }
    fputs("\",", to);
}

static void write_run(const speed_bench *b, const speed_row *r, int round)
{
    const char *by;
    double seconds = r->seconds[round], rate = r->units / seconds;
    double bound = bench_machine_bound(&b->machine, &r->work, &by);
    if (!b->csv) return;
    for (int c = 0; c < n_columns(b); c++) write_field(b->csv, r->value[c]);
    fprintf(b->csv, "%d,%.9g,%.6g,%s,%s,%.6g,%.4g\n", round + 1, seconds, rate, b->unit, by,
            r->units / bound, bound / seconds);
    fflush(b->csv);
}

static void progress(const speed_bench *b, int round, int row)
{
    if (!isatty(2)) return;
    if (round < b->o->rounds)
        fprintf(stderr, "\rround %d of %d, setting %d of %d ", round + 1, b->o->rounds, row + 1,
                b->n_rows);
    else
        fputs("\r\033[K", stderr);
}

static bool run_round(speed_bench *b, int round, speed_run *run, void *user)
{
    bench_machine_probe(&b->machine);
    for (int i = 0; i < b->n_rows; i++) {
        speed_row *r = &b->rows[i];
        progress(b, round, i);
        if (!run(user, i, &r->seconds[round])) return false;
        write_run(b, r, round);
    }
    return true;
}

/* -- the table ------------------------------------------------------------------------------ */

static void print_row(const speed_bench *b, const speed_row *r, const int *width, double *scratch)
{
    const char *by;
    int rounds = b->o->rounds;
    memcpy(scratch, r->seconds, (size_t)rounds * sizeof *scratch);
    double median = bench_quantile(scratch, rounds, 0.5); /* sorts */
    double bound = bench_machine_bound(&b->machine, &r->work, &by);
    printf("%-*s", width[0], r->value[0]);
    for (int c = 1; c < n_columns(b); c++) printf("  %*s", width[c], r->value[c]);
    printf(" %10.4g %10.4g %5s %10.4g %6.1f %%", r->units / median, r->units / scratch[0], by,
           r->units / bound, 100 * bound / median);
    putchar('\n');
}

static void print_table(const speed_bench *b, double *scratch)
{
    int width[SPEED_COLUMNS] = {0};
    for (int c = 0; c < n_columns(b); c++) {
        width[c] = (int)strlen(b->columns[c]);
        for (int i = 0; i < b->n_rows; i++) {
            int n = (int)strlen(b->rows[i].value[c]);
            if (n > width[c]) width[c] = n;
        }
    }
    bench_machine_print(&b->machine);
    printf("%s, median and best of %d rounds, and the bound\n", b->unit, b->o->rounds);
    printf("%-*s", width[0], b->columns[0]);
    for (int c = 1; c < n_columns(b); c++) printf("  %*s", width[c], b->columns[c]);
    printf(" %10s %10s %5s %10s %8s\n", "median", "best", "bound", "is", "reached");
    for (int i = 0; i < b->n_rows; i++) print_row(b, &b->rows[i], width, scratch);
    fflush(stdout);
}

bool speed_measure(speed_bench *b, speed_run *run, void *user)
{
    if (!b->n_rows) return cli_fail_with("no setting can be measured"), false;
    double *scratch = calloc((size_t)b->o->rounds, sizeof *scratch);
    bool good = scratch || (cli_fail_with("out of memory"), false);
    for (int round = 0; round < b->o->rounds && good; round++)
        good = run_round(b, round, run, user);
    progress(b, b->o->rounds, 0);
    if (good) print_table(b, scratch);
    free(scratch);
    return good;
}
