#include "lab/eval/report.h"

#include <math.h>
#include <string.h>

#include "cli/alloc.h"
#include "cli/cli.h"
#include "lab/eval/interval.h"
#include "lab/files.h"
#include "lab/numbers.h"

/* -- sums ----------------------------------------------------------------------------------- */

static bool counts(const eval_row *r, const char *kind)
{
    return !kind || strcmp(r->text[ROW_KIND], kind) == 0;
}

/* The rows of one setting are `step` apart. */
typedef struct column {
    const eval_row *rows;
    size_t n_rows, step;
    const char *kind;
} column;

static double sum_of(const column *c, int field, int *n)
{
    double sum = 0;
    *n = 0;
    for (size_t i = 0; i < c->n_rows; i += c->step)
        if (counts(&c->rows[i], c->kind) && isfinite(c->rows[i].number[field])) {
            sum += c->rows[i].number[field];
            ++*n;
        }
    return sum;
}

static double mean_of(const column *c, int field)
{
    int n;
    double sum = sum_of(c, field, &n);
    return n ? sum / n : NAN;
}

static double share_of(const column *c, int part, int whole)
{
    int n;
    double all = sum_of(c, whole, &n);
    return all > 0 ? sum_of(c, part, &n) / all : NAN;
}

/* lost_of -- the share of off's right answers that are wrong in this setting; off has the first row of each block. */
static double lost_of(const column *c, const eval_row *off)
{
    int n = 0, n_lost = 0;
    for (size_t i = 0; i < c->n_rows; i += c->step) {
        if (!counts(&off[i], c->kind) || !(off[i].number[ROW_EM] == 1)) continue;
        n++;
        n_lost += c->rows[i].number[ROW_EM] < 1;
    }
    return n ? (double)n_lost / n : NAN;
}

static double last_of(const column *c, int field)
{
    double last = NAN;
    for (size_t i = 0; i < c->n_rows; i += c->step)
        if (counts(&c->rows[i], c->kind)) last = c->rows[i].number[field];
    return last;
}

static double median_of(const column *c, int field)
{
    double *v = cli_alloc(c->n_rows / c->step + 1, sizeof *v);
    int n = 0;
    for (size_t i = 0; i < c->n_rows; i += c->step)
        if (counts(&c->rows[i], c->kind) && isfinite(c->rows[i].number[field]))
            v[n++] = c->rows[i].number[field];
    double median = lab_quantile(v, n, 0.5);
    free(v);
    return median;
}

static int find_policy(const eval_settings *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->v[i].name, name) == 0) return i;
    return -1;
}

void eval_summarise(const eval_row *rows, size_t n_rows, const eval_settings *settings,
                    const char *kind, eval_summary *out)
{
    for (int s = 0; s < settings->n; s++) {
        size_t rest = n_rows > (size_t)s ? n_rows - (size_t)s : 0;
        column c = {rows + s, rest, (size_t)settings->n, kind};
        eval_summary *v = &out[s];
        *v = (eval_summary){0};
        sum_of(&c, ROW_EM, &v->n);
        sum_of(&c, ROW_NLL, &v->n_nll);
        v->em = mean_of(&c, ROW_EM);
        v->f1 = mean_of(&c, ROW_F1);
        v->rouge_l = mean_of(&c, ROW_ROUGE);
        v->lost = lost_of(&c, rows);
        v->nll = mean_of(&c, ROW_NLL);
        v->kl_first = mean_of(&c, ROW_KL_FIRST);
        v->kl_first_median = median_of(&c, ROW_KL_FIRST);
        v->kl_all = mean_of(&c, ROW_KL_ALL);
        v->first_agrees = mean_of(&c, ROW_AGREES);
        v->recomputed = share_of(&c, ROW_N_AGAIN, ROW_N_CHUNK);
        v->reused = share_of(&c, ROW_N_REUSED, ROW_N_PROMPT);
        v->ttft_ms = median_of(&c, ROW_TTFT);
        v->speedup = median_of(&c, ROW_SPEEDUP);
        v->kv_deviation = mean_of(&c, ROW_KV);
        v->saw = share_of(&c, ROW_N_SAW, ROW_N_HAD);
        v->kv_bytes = last_of(&c, ROW_KV_BYTES);
        v->copies = last_of(&c, ROW_COPIES);
        v->evicted = last_of(&c, ROW_EVICTED);
    }
    int full = find_policy(settings, "full");
    double gap = full < 0 ? 0 : out[0].f1 - out[full].f1;
    double nll_gap = full < 0 ? 0 : out[full].nll - out[0].nll;
    for (int s = 0; s < settings->n; s++) {
        out[s].normalised_f1 = fabs(gap) > 1e-9 ? (out[s].f1 - out[full].f1) / gap : NAN;
        out[s].nll_more = out[s].nll - out[0].nll;
        const eval_interval more =
            eval_more_interval(rows, n_rows / (size_t)settings->n,
                               &(eval_more_of){(size_t)settings->n, (size_t)s, ROW_NLL}, kind);
        out[s].nll_more_low = more.low;
        out[s].nll_more_high = more.high;
    }
    const bool loses = full >= 0 && out[full].nll_more_low > 0; /* by chance otherwise: there is nothing to recover */
    for (int s = 0; s < settings->n; s++)
        out[s].recovered = loses ? (out[full].nll - out[s].nll) / nll_gap : NAN;
}

/* -- the table ------------------------------------------------------------------------------ */

void eval_print_titles(const eval_column *columns, size_t n)
{
    for (size_t i = 0; i < n; i++)
        printf(" %*s", columns[i].width + (int)strlen(columns[i].unit), columns[i].title);
}

void eval_print_cells(const eval_column *columns, size_t n, const eval_summary *v)
{
    for (const eval_column *c = columns; c < columns + n; c++) {
        const double value = *(const double *)((const char *)v + c->field) * c->scale;
        if (isfinite(value))
            printf(" %*.*f%s", c->width, c->digits, value, c->unit);
        else
            printf(" %*s%*s", c->width, "-", (int)strlen(c->unit), "");
    }
}

int eval_choose(const eval_summary *v, int n, double wanted)
{
    int best = 0;
    for (int s = 1; s < n; s++) {
        bool enough = v[s].f1 >= wanted * v[0].f1 - 1e-9; /* rounding of means */
        if (enough && (!best || v[s].recomputed < v[best].recomputed)) best = s;
    }
    return best;
}

void eval_label(const eval_setting *s, char *out, size_t n)
{
    const sp_reuse_param *amount = cli_policy_amount_param(cli_policy_find(s->name, NULL));
    const bool in_name = s->amount > 0 && amount && cli_policy_sets(s->name, amount->name);
    if (!(s->habits & EVAL_SHARE) || in_name)
        snprintf(out, n, "%s", s->name);
    else if (s->amount > 0)
        snprintf(out, n, "%s a=%.4g", s->name, s->amount);
    else
        snprintf(out, n, "%s %.4g %%", s->name, (double)s->reuse.recompute * 100);
}

/* What tables of answers and of likelihoods end with. */
#define SHARED_COLUMNS                                                                                           \
    EVAL_COLUMN("KL first", kl_first, 8, 4, 1, ""), EVAL_COLUMN("KL all", kl_all, 8, 4, 1, ""),                  \
        EVAL_COLUMN("agree", first_agrees, 4, 0, 100, " %"),                                                     \
        EVAL_COLUMN("recomputed", recomputed, 8, 1, 100, " %"), EVAL_COLUMN("reused", reused, 5, 0, 100, " %"), \
        EVAL_COLUMN("TTFT ms", ttft_ms, 9, 2, 1, ""), EVAL_COLUMN("off/this", speedup, 7, 2, 1, "x")

static void print_likelihoods(const eval_summary *v, const eval_settings *settings)
{
    static const eval_column nll[] = {EVAL_COLUMN("NLL", nll, 7, 4, 1, ""),
                                      EVAL_COLUMN("more", nll_more, 9, 4, 1, "")};
    static const eval_column rest[] = {EVAL_COLUMN("recovered", recovered, 8, 0, 100, " %"), SHARED_COLUMNS};
    printf("%d questions\n%-20s", v[0].n_nll, "reuse");
    eval_print_titles(nll, SP_COUNT(nll));
    printf(" %18s", "95 % interval");
    eval_print_titles(rest, SP_COUNT(rest));
    putchar('\n');
    for (int s = 0; s < settings->n; s++) {
        char name[CLI_SPEC + 16], range[40] = "-";
        eval_label(&settings->v[s], name, sizeof name);
        if (s > 0 && isfinite(v[s].nll_more_low))
            snprintf(range, sizeof range, "%.4f..%.4f", v[s].nll_more_low, v[s].nll_more_high);
        printf("%-20s", name);
        eval_print_cells(nll, SP_COUNT(nll), &v[s]);
        printf(" %18s", range);
        eval_print_cells(rest, SP_COUNT(rest), &v[s]);
        putchar('\n');
    }
}

static void print_answers(const eval_summary *v, const eval_settings *settings)
{
    static const eval_column columns[] = {EVAL_COLUMN("EM", em, 6, 3, 1, ""),
                                          EVAL_COLUMN("F1", f1, 6, 3, 1, ""),
                                          EVAL_COLUMN("norm F1", normalised_f1, 7, 2, 1, ""),
                                          EVAL_COLUMN("ROUGE-L", rouge_l, 7, 3, 1, ""),
                                          EVAL_COLUMN("lost", lost, 4, 0, 100, " %"),
                                          SHARED_COLUMNS,
                                          EVAL_COLUMN("KV dev", kv_deviation, 7, 4, 1, "")};
    printf("%d questions\n%-20s", v[0].n, "reuse");
    eval_print_titles(columns, SP_COUNT(columns));
    putchar('\n');
    for (int s = 0; s < settings->n; s++) {
        char name[CLI_SPEC + 16];
        eval_label(&settings->v[s], name, sizeof name);
        printf("%-20s", name);
        eval_print_cells(columns, SP_COUNT(columns), &v[s]);
        putchar('\n');
    }
}

void eval_print_table(const eval_summary *v, const eval_settings *settings)
{
    if (v[0].n > 0) print_answers(v, settings);
    if (v[0].n > 0 && v[0].n_nll > 0) putchar('\n');
    if (v[0].n_nll > 0) print_likelihoods(v, settings);
}

/* -- kinds ---------------------------------------------------------------------------------- */

typedef struct kinds {
    const char **v;
    size_t n, cap;
} kinds;

/* find_kinds -- the kinds in order of their first question; none when there is only one. */
static kinds find_kinds(const eval_row *rows, size_t n_rows)
{
    kinds k = {0};
    for (size_t i = 0; i < n_rows; i++) {
        size_t j = 0;
        while (j < k.n && strcmp(k.v[j], rows[i].text[ROW_KIND]) != 0) j++;
        if (j < k.n) continue;
        k.v = cli_grow(k.v, k.n, &k.cap, sizeof *k.v);
        k.v[k.n++] = rows[i].text[ROW_KIND];
    }
    if (k.n == 1) k.n = 0;
    return k;
}

static const char *kind_name(const kinds *k, size_t i)
{
    return *k->v[i] ? k->v[i] : "other";
}

/* -- PREFIX.summary.csv --------------------------------------------------------------------- */

static void put_summaries(FILE *f, const char *kind, const eval_summary *v,
                          const eval_settings *settings)
{
    for (int s = 0; s < settings->n; s++) {
        lab_csv_put(f, kind);
        fputc(',', f);
        lab_csv_put(f, settings->v[s].name);
        fprintf(f, ",%.7g,%.7g,%d", (double)settings->v[s].reuse.recompute,
                settings->v[s].amount, v[s].n > 0 ? v[s].n : v[s].n_nll);
#define X(field) fputc(',', f), lab_csv_number(f, v[s].field);
        SUMMARY_FIELDS(X)
#undef X
        fputc('\n', f);
    }
}

/* `v` holds one block for all questions, then one for each kind. */
static bool write_summary(const char *path, const kinds *k, const eval_summary *v,
                          const eval_settings *settings)
{
    FILE *f = fopen(path, "w");
    if (!f) return lab_close(f, path);
    fputs("kind,policy,recompute,alpha,questions", f);
#define X(field) fputs("," #field, f);
    SUMMARY_FIELDS(X)
#undef X
    fputc('\n', f);
    put_summaries(f, "all", v, settings);
    for (size_t i = 0; i < k->n; i++)
        put_summaries(f, kind_name(k, i), v + (i + 1) * (size_t)settings->n, settings);
    return lab_close(f, path);
}

/* -- all files ------------------------------------------------------------------------------ */

bool eval_write_files(const char *prefix, const eval_row *rows, size_t n_rows,
                      const eval_settings *settings)
{
    kinds k = find_kinds(rows, n_rows);
    eval_summary *v = cli_alloc((k.n + 1) * (size_t)settings->n, sizeof *v);
    eval_summarise(rows, n_rows, settings, NULL, v);
    for (size_t i = 0; i < k.n; i++)
        eval_summarise(rows, n_rows, settings, k.v[i], v + (i + 1) * (size_t)settings->n);
    char *path = cli_join(prefix, ".summary.csv");
    bool done = write_summary(path, &k, v, settings);
    free(path);
    free(v);
    free(k.v);
    return done;
}
