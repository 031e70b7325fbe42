#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/alloc.h"
#include "lab/bench/reuse.h"
#include "cli/cli.h"
#include "cli/options/policies.h"

/* -- policies and orders ---------------------------------------------------------------------- */

const char *reuse_order_name(reuse_order o)
{
    static const char *const names[] = {"same", "shuffled", "half-new", "new"};
    return names[o];
}

bool reuse_is_exact(const char *policy)
{
    const cli_policy *p = cli_policy_find(policy, NULL);
    return p && !p->anywhere;
}

bool reuse_has_ratio(const sp_reuse_opts *o)
{
    const cli_policy *p = cli_policy_find(o->policy, NULL);
    return p && p->recomputes && !(cli_policy_amount(o->policy) > 0);
}

bool reuse_keeps_placed(const char *policy)
{
    const cli_policy *p = cli_policy_find(policy, NULL);
    return p && p->keeps_placed;
}

int reuse_n_fresh(reuse_order o, int n_chunks)
{
    return o == REUSE_NEW ? n_chunks : o == REUSE_HALF_NEW ? n_chunks / 2 : 0;
}

/* -- derived numbers -------------------------------------------------------------------------- */

/* bound_of -- the gain that the number of computed tokens allows; by the ratio where there is one. */
static double bound_of(const reuse_cells *c, const reuse_cell *cell, const double *v, int n_new)
{
    if (!reuse_has_ratio(&cell->reuse))
        return v[N_PROMPT] / (v[N_COMPUTED] > 1 ? v[N_COMPUTED] : 1);
    return 1 / ((double)cell->reuse.recompute + (n_new + c->question_tokens) / v[N_PROMPT]);
}

void reuse_derive(const reuse_cells *c, int n_chunks, int chunk_tokens, int round)
{
    double off_us = c->v[0].rows[round].v[TTFT_US];
    for (int i = 0; i < c->n; i++) {
        double *v = c->v[i].rows[round].v;
        double us = v[TTFT_US] > 1 ? v[TTFT_US] : 1;
        v[GAIN] = off_us / us;
        v[BOUND] = bound_of(c, &c->v[i], v, reuse_n_fresh(c->v[i].order, n_chunks) * chunk_tokens);
        v[OF_BOUND] = v[GAIN] / v[BOUND];
        v[REUSED] = v[N_REUSED] / v[N_PROMPT];
        v[RECOMPUTED] = v[N_RECOMPUTED] / v[N_PROMPT];
    }
}

/* median -- of a field over the rounds that have it; 0: none has. */
static double median(const reuse_cells *c, const reuse_cell *cell, reuse_field f)
{
    double *known = cli_alloc((size_t)c->n_rounds, sizeof *known), mid = 0;
    int n = 0;
    for (int i = 0; i < c->n_rounds; i++)
        if (cell->rows[i].v[f] > 0) known[n++] = cell->rows[i].v[f];
    if (n) mid = lab_quantile(known, n, 0.5);
    free(known);
    return mid;
}

static double mean(const reuse_cells *c, const reuse_cell *cell, reuse_field f)
{
    double sum = 0;
    for (int i = 0; i < c->n_rounds; i++) sum += cell->rows[i].v[f];
    return sum / c->n_rounds;
}

/* -- CSV -------------------------------------------------------------------------------------- */

static const char header[] =
    "chunks,chunk_tokens,round,policy,order,recompute,prompt_tokens,question_tokens,reused_tokens,"
    "recomputed_tokens,ttft_us,plan_us,gain,bound\n";

/* is_ours -- the file is empty or begins with our header (or with a part of it, if it is shorter). */
static bool is_ours(const char *text)
{
    size_t n = strlen(text), m = strlen(header);
    return memcmp(text, header, n < m ? n : m) == 0;
}

/* open_end -- opens the file, truncated to n bytes. */
static FILE *open_end(const char *path, size_t n)
{
    FILE *f = fopen(path, n ? "r+" : "w");
    if (!f) return NULL;
    if (ftruncate(fileno(f), (off_t)n) == 0 && fseek(f, 0, SEEK_END) == 0) return f;
    fclose(f);
    return NULL;
}

bool reuse_csv_open(reuse_csv *csv, const char *path, bool resume)
{
    size_t n_bytes;
    char *text = resume && access(path, F_OK) == 0 ? cli_read_file(path, &n_bytes) : cli_copy("");
    if (!text) return false;
    const char *end = strrchr(text, '\n'); /* an incomplete line is dropped */
    size_t n = end ? (size_t)(end + 1 - text) : 0;
    *csv = (reuse_csv){.text = text};
    if (!is_ours(text))
        cli_fail_with("%s: not written by bench reuse, or by another version", path);
    else if (!(csv->f = open_end(path, n)))
        cli_fail_with("%s: cannot be written: %s", path, strerror(errno));
    if (!csv->f) return false;
    for (size_t i = 0; i < n; i++) csv->n_lines += text[i] == '\n';
    if (n == 0) fputs(header, csv->f);
    return true;
}

bool reuse_csv_close(reuse_csv *csv)
{
    free(csv->text);
    bool good = !csv->f || !ferror(csv->f);
    if (csv->f && fclose(csv->f) != 0) good = false;
    *csv = (reuse_csv){0};
    return good;
}

/* csv_name -- a policy in the CSV file, which has commas between its fields. */
static const char *csv_name(const char *policy, char *out)
{
    snprintf(out, CLI_SPEC, "%s", policy);
    for (char *s = out; *s; s++)
        if (*s == ',') *s = ';';
    return out;
}

static reuse_cell *find_cell(reuse_cells *c, const char *policy, const char *order, double ratio)
{
    char name[CLI_SPEC];
    for (int i = 0; i < c->n; i++)
        if (strcmp(csv_name(c->v[i].reuse.policy, name), policy) == 0 &&
            strcmp(reuse_order_name(c->v[i].order), order) == 0 &&
            fabs((double)c->v[i].reuse.recompute - ratio) < 1e-5)
            return &c->v[i];
    return NULL;
}

/* load_line -- stores a line in its cell; ignores other sizes and settings, and damaged lines. */
static void load_line(const char *line, reuse_cells *c, int n_chunks, int chunk_tokens)
{
    int size[2], round, question;
    char policy[CLI_SPEC], order[32];
    double ratio, v[N_FIELDS] = {0};
    int n =
        sscanf(line, "%d,%d,%d,%159[^,],%31[^,],%lf,%lf,%d,%lf,%lf,%lf,%lf,%lf,%lf", &size[0],
               &size[1], &round, policy, order, &ratio, &v[N_PROMPT], &question, &v[N_REUSED],
               &v[N_RECOMPUTED], &v[TTFT_US], &v[PLAN_US], &v[GAIN], &v[BOUND]);
    if (n != 14 || size[0] != n_chunks || size[1] != chunk_tokens || round < 1 ||
        round > c->n_rounds || question != c->question_tokens || !(v[TTFT_US] > 0) ||
        !(v[N_PROMPT] > 0))
        return;
    reuse_cell *cell = find_cell(c, policy, order, ratio);
    if (!cell) return;
    v[N_COMPUTED] = v[N_PROMPT] - v[N_REUSED];
    memcpy(cell->rows[round - 1].v, v, sizeof v);
}

static bool has_round(const reuse_cells *c, int round)
{
    for (int i = 0; i < c->n; i++)
        if (!(c->v[i].rows[round].v[TTFT_US] > 0)) return false;
    return true;
}

int reuse_csv_load(const reuse_csv *csv, reuse_cells *c, int n_chunks, int chunk_tokens)
{
    int n = 0;
    for (int i = 0; i < c->n; i++) memset(c->v[i].rows, 0, (size_t)c->n_rounds * sizeof(reuse_row));
    for (const char *line = csv->text, *end; line && (end = strchr(line, '\n'));) {
        load_line(line, c, n_chunks, chunk_tokens);
        line = end + 1;
    }
    for (; n < c->n_rounds && has_round(c, n); n++) reuse_derive(c, n_chunks, chunk_tokens, n);
    return n;
}

void reuse_csv_add(reuse_csv *csv, const reuse_cells *c, int n_chunks, int chunk_tokens, int round)
{
    if (!csv->f) return;
    for (int i = 0; i < c->n; i++) {
        const reuse_cell *cell = &c->v[i];
        const double *v = cell->rows[round].v;
        char name[CLI_SPEC];
        fprintf(csv->f, "%d,%d,%d,%s,%s,%g,%.0f,%d,%.0f,%.0f,%.0f,%.0f,%.3f,%.3f\n", n_chunks,
                chunk_tokens, round + 1, csv_name(cell->reuse.policy, name), reuse_order_name(cell->order),
                (double)cell->reuse.recompute, v[N_PROMPT], c->question_tokens, v[N_REUSED],
                v[N_RECOMPUTED], v[TTFT_US], v[PLAN_US], v[GAIN], v[BOUND]);
    }
    fflush(csv->f);
}

/* -- the table -------------------------------------------------------------------------------- */

static void print_cell(const reuse_cells *c, const reuse_cell *cell)
{
    char ratio[16] = "-";
    if (reuse_has_ratio(&cell->reuse))
        snprintf(ratio, sizeof ratio, "%.3g %%", 100 * (double)cell->reuse.recompute);
    printf("| %-8s | %-8s | %6s | %8.1f | %9.2fx | %7.2fx | %6.0f %% | %5.1f %% | %6.1f %% | %5.0f "
           "us |\n",
           cell->reuse.policy, reuse_order_name(cell->order), ratio, median(c, cell, TTFT_US) / 1e3,
           median(c, cell, GAIN), median(c, cell, BOUND), 100 * median(c, cell, OF_BOUND),
           100 * mean(c, cell, REUSED), 100 * mean(c, cell, RECOMPUTED), median(c, cell, PLAN_US));
}

void reuse_print(const reuse_cells *c, int n_chunks, int chunk_tokens)
{
    printf("\n%d x %d tokens: prompt of %.0f, question of %d, median of %d rounds\n\n", n_chunks,
           chunk_tokens, c->v[0].rows[0].v[N_PROMPT], c->question_tokens, c->n_rounds);
    printf(
        "| policy   | order    |  ratio | first ms | off / this |    bound | of bound |  reused | "
        "recomp. | planning |\n");
    puts("|---|---|---|---|---|---|---|---|---|---|");
    for (int i = 0; i < c->n; i++) print_cell(c, &c->v[i]);
    fflush(stdout);
}
