#include "lab/eval/report.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "cli/alloc.h"
#include "cli/cli.h"
#include "lab/metrics.h"
#include "lab/plot.h"

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

static double median_of(const column *c, int field)
{
    double *v = cli_alloc(c->n_rows / c->step + 1, sizeof *v);
    int n = 0;
    for (size_t i = 0; i < c->n_rows; i += c->step)
        if (counts(&c->rows[i], c->kind) && isfinite(c->rows[i].number[field]))
            v[n++] = c->rows[i].number[field];
    double median = metric_median(v, n);
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
        v->em = mean_of(&c, ROW_EM);
        v->f1 = mean_of(&c, ROW_F1);
        v->rouge_l = mean_of(&c, ROW_ROUGE);
        v->kl_first = mean_of(&c, ROW_KL_FIRST);
        v->kl_first_median = median_of(&c, ROW_KL_FIRST);
        v->kl_all = mean_of(&c, ROW_KL_ALL);
        v->first_agrees = mean_of(&c, ROW_AGREES);
        v->recomputed = share_of(&c, ROW_N_AGAIN, ROW_N_CHUNK);
        v->reused = share_of(&c, ROW_N_REUSED, ROW_N_PROMPT);
        v->ttft_ms = median_of(&c, ROW_TTFT);
        v->speedup = median_of(&c, ROW_SPEEDUP);
        v->kv_deviation = mean_of(&c, ROW_KV);
    }
    int full = find_policy(settings, "full");
    double gap = full < 0 ? 0 : out[0].f1 - out[full].f1;
    for (int s = 0; s < settings->n; s++)
        out[s].normalised_f1 = fabs(gap) > 1e-9 ? (out[s].f1 - out[full].f1) / gap : NAN;
}

/* -- the table ------------------------------------------------------------------------------ */

static void print_cell(int width, int digits, double v, const char *unit)
{
    if (isfinite(v))
        printf(" %*.*f%s", width, digits, v, unit);
    else
        printf(" %*s%*s", width, "-", (int)strlen(unit), "");
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

/* label -- "fusion 15 %", "craft a=1.5", "full". */
static void label(const eval_setting *s, char *out, size_t n)
{
    if (!(s->habits & EVAL_SHARE))
        snprintf(out, n, "%s", s->name);
    else if (s->reuse.alpha > 0)
        snprintf(out, n, "%s a=%.4g", s->name, (double)s->reuse.alpha);
    else
        snprintf(out, n, "%s %.4g %%", s->name, (double)s->reuse.recompute * 100);
}

void eval_print_table(const eval_summary *v, const eval_settings *settings)
{
    printf("%d questions\n%-20s %6s %6s %7s %7s %8s %8s %6s %10s %7s %9s %8s %7s\n", v[0].n,
           "reuse", "EM", "F1", "norm F1", "ROUGE-L", "KL first", "KL all", "agree", "recomputed",
           "reused", "TTFT ms", "off/this", "KV dev");
    for (int s = 0; s < settings->n; s++) {
        char name[48];
        label(&settings->v[s], name, sizeof name);
        printf("%-20s", name);
        print_cell(6, 3, v[s].em, "");
        print_cell(6, 3, v[s].f1, "");
        print_cell(7, 2, v[s].normalised_f1, "");
        print_cell(7, 3, v[s].rouge_l, "");
        print_cell(8, 4, v[s].kl_first, "");
        print_cell(8, 4, v[s].kl_all, "");
        print_cell(4, 0, v[s].first_agrees * 100, " %");
        print_cell(8, 1, v[s].recomputed * 100, " %");
        print_cell(5, 0, v[s].reused * 100, " %");
        print_cell(9, 2, v[s].ttft_ms, "");
        print_cell(7, 2, v[s].speedup, "x");
        print_cell(7, 4, v[s].kv_deviation, "");
        putchar('\n');
    }
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
        eval_csv_put(f, kind);
        fputc(',', f);
        eval_csv_put(f, settings->v[s].name);
        fprintf(f, ",%.7g,%.7g,%d", (double)settings->v[s].reuse.recompute,
                (double)settings->v[s].reuse.alpha, v[s].n);
#define X(field) fputc(',', f), eval_csv_put_number(f, v[s].field);
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
    if (!f) return false;
    fputs("kind,policy,recompute,alpha,questions", f);
#define X(field) fputs("," #field, f);
    SUMMARY_FIELDS(X)
#undef X
    fputc('\n', f);
    put_summaries(f, "all", v, settings);
    for (size_t i = 0; i < k->n; i++)
        put_summaries(f, kind_name(k, i), v + (i + 1) * (size_t)settings->n, settings);
    bool failed = ferror(f) != 0;
    return fclose(f) == 0 && !failed;
}

/* -- plots ---------------------------------------------------------------------------------- */

/* Lines of a panel, and the memory of their points. */
typedef struct drawing {
    plot_panel panel;
    plot_line lines[64];
    char names[64][48];
    double *points;
    size_t n_points;
} drawing;

static void draw_nothing(drawing *d, size_t n_points)
{
    memset(d, 0, sizeof *d);
    d->points = cli_alloc(n_points, sizeof *d->points);
    d->panel.lines = d->lines;
}

static plot_line *next_line(drawing *d, const char *name, int style)
{
    if (d->panel.n_lines == (int)(sizeof d->lines / sizeof *d->lines)) return NULL;
    int i = d->panel.n_lines++;
    snprintf(d->names[i], sizeof d->names[i], "%s", name);
    d->lines[i] = (plot_line){.name = d->names[i], .style = style};
    return &d->lines[i];
}

/* add_points -- room for n points of the line. */
static double *add_points(drawing *d, size_t n)
{
    double *v = d->points + d->n_points;
    d->n_points += n;
    return v;
}

/* draw_shares -- one field of the summaries by share recomputed: a line for each policy that
 * recomputes, and dashed horizontal lines for off and full. */
static void draw_shares(drawing *d, const eval_summary *v, const eval_settings *all, size_t field)
{
#define FIELD(i) (*(const double *)((const char *)&v[i] + field))
    draw_nothing(d, 2 * (size_t)all->n + 8);
    d->panel.x_percent = true;
    for (int s = 0; s < all->n; s++) {
        const eval_setting *set = &all->v[s];
        bool is_full = strncmp(set->name, "full", 4) == 0;
        plot_line *l;
        if ((s == 0 || is_full) && (l = next_line(d, set->name, set->style))) {
            double *y = add_points(d, 1);
            *y = FIELD(s);
            l->rule = true;
            l->y = y;
        }
        bool begins = set->habits & EVAL_SHARE && strcmp(set->name, all->v[s - 1].name) != 0;
        if (!begins || !(l = next_line(d, set->name, set->style))) continue;
        int n = 0;
        while (s + n < all->n && strcmp(all->v[s + n].name, set->name) == 0) n++;
        double *x = add_points(d, 2 * (size_t)n), *y = x + n;
        for (int i = 0; i < n; i++) {
            x[i] = v[s + i].recomputed;
            y[i] = FIELD(s + i);
        }
        l->x = x;
        l->y = y;
        l->n = n;
    }
#undef FIELD
}

static bool has_line(const drawing *d)
{
    for (int i = 0; i < d->panel.n_lines; i++)
        for (int j = 0; j < d->lines[i].n; j++)
            if (isfinite(d->lines[i].y[j])) return true;
    return false;
}

static bool write_plot(const char *prefix, const char *suffix, drawing *d, size_t n)
{
    plot_panel *panels = cli_alloc(n, sizeof *panels);
    char *path = cli_join(prefix, suffix);
    for (size_t i = 0; i < n; i++) panels[i] = d[i].panel;
    bool done = !has_line(&d[0]) || plot_write(path, panels, (int)n);
    if (!done) cli_fail_with("%s: %s", path, strerror(errno));
    for (size_t i = 0; i < n; i++) free(d[i].points);
    free(path);
    free(panels);
    free(d);
    return done;
}

#define X_SHARE "share of chunk tokens recomputed"

static bool plot_quality(const char *prefix, const kinds *k, const eval_summary *v,
                         const eval_settings *all)
{
    drawing *d = cli_alloc(k->n + 1, sizeof *d);
    for (size_t i = 0; i <= k->n; i++) {
        draw_shares(&d[i], v + i * (size_t)all->n, all, offsetof(eval_summary, f1));
        d[i].panel.title = i == 0 ? "Answer quality" : kind_name(k, i - 1);
        d[i].panel.x_label = X_SHARE;
        d[i].panel.y_label = "F1, mean";
        d[i].panel.y_span = 0.2;
        d[i].panel.y_most = 1;
    }
    return write_plot(prefix, ".quality.svg", d, k->n + 1);
}

static bool plot_kl(const char *prefix, const eval_summary *v, const eval_settings *all)
{
    drawing *d = cli_alloc(1, sizeof *d);
    draw_shares(d, v, all, offsetof(eval_summary, kl_first));
    d->panel.title = "Distance from full attention";
    d->panel.x_label = X_SHARE;
    d->panel.y_label = "KL of the first answer token, nats";
    d->panel.y_log = true;
    d->panel.y_floor = 1e-6;
    /* off is the reference: its divergence is 0, which a logarithmic axis cannot show */
    memmove(d->lines, d->lines + 1, (size_t)--d->panel.n_lines * sizeof *d->lines);
    return write_plot(prefix, ".kl.svg", d, 1);
}

/* layers_of -- adds the numbers of "0.1;0.2;..." to sum; returns how many there are. */
static int layers_of(const char *text, double *sum, int n_max)
{
    int n = 0;
    for (char *end; *text && n < n_max; text = *end ? end + 1 : end) {
        sum[n++] += strtod(text, &end);
        if (end == text) break;
    }
    return n;
}

/* is_shown -- of each policy, the setting whose ratio is nearest to 15 %, as in the papers. */
static bool is_shown(const eval_settings *all, int s)
{
    const eval_setting *set = &all->v[s];
    for (int i = 0; i < all->n; i++)
        if (i != s && strcmp(all->v[i].name, set->name) == 0 &&
            fabs((double)all->v[i].reuse.recompute - 0.15) <
                fabs((double)set->reuse.recompute - 0.15))
            return false;
    return s > 0;
}

#define MAX_LAYERS 1024

static bool plot_kv(const char *prefix, const eval_row *rows, size_t n_rows,
                    const eval_settings *all)
{
    drawing *d = cli_alloc(1, sizeof *d);
    draw_nothing(d, 2 * MAX_LAYERS * (size_t)all->n);
    for (int s = 0; s < all->n; s++) {
        double *x = d->points + d->n_points, *y = x + MAX_LAYERS;
        int n = 0, n_questions = 0;
        char name[48];
        if (!is_shown(all, s)) continue;
        memset(y, 0, MAX_LAYERS * sizeof *y);
        for (size_t i = (size_t)s; i < n_rows; i += (size_t)all->n) {
            int got = layers_of(rows[i].text[ROW_KV_LAYERS], y, MAX_LAYERS);
            if (got > 0) n_questions++;
            if (got > n) n = got;
        }
        label(&all->v[s], name, sizeof name);
        plot_line *l = n ? next_line(d, name, all->v[s].style) : NULL;
        if (!l) continue;
        for (int i = 0; i < n; i++) {
            x[i] = i;
            y[i] /= n_questions;
        }
        l->x = x;
        l->y = y;
        l->n = n;
        add_points(d, 2 * MAX_LAYERS);
    }
    d->panel.title = "Deviation of keys and values from full attention";
    d->panel.x_label = "layer";
    d->panel.y_label = "deviation |KV - KV'| / |KV'|";
    return write_plot(prefix, ".kv.svg", d, 1);
}

#define WINDOW 10

/* plot_reuse -- share of prompt tokens reused, over the last ten questions each. */
static bool plot_reuse(const char *prefix, const eval_row *rows, size_t n_rows,
                       const eval_settings *all)
{
    size_t n = n_rows / (size_t)all->n;
    drawing *d = cli_alloc(1, sizeof *d);
    draw_nothing(d, 2 * n * (size_t)all->n + 1);
    for (int s = 0; s < all->n; s++) {
        char name[48];
        label(&all->v[s], name, sizeof name);
        plot_line *l = is_shown(all, s) ? next_line(d, name, all->v[s].style) : NULL;
        if (!l) continue;
        double *x = add_points(d, 2 * n), *y = x + n;
        for (size_t i = 0; i < n; i++) {
            double reused = 0, prompt = 0;
            for (size_t j = i + 1 > WINDOW ? i + 1 - WINDOW : 0; j <= i; j++) {
                const eval_row *r = &rows[j * (size_t)all->n + (size_t)s];
                reused += r->number[ROW_N_REUSED];
                prompt += r->number[ROW_N_PROMPT];
            }
            x[i] = (double)(i + 1);
            y[i] = prompt > 0 ? reused / prompt : NAN;
        }
        l->x = x;
        l->y = y;
        l->n = (int)n;
    }
    d->panel.title = "Reuse over time";
    d->panel.x_label = "question";
    d->panel.y_label = "share of prompt tokens reused, last ten questions";
    d->panel.y_percent = d->panel.no_markers = true;
    return write_plot(prefix, ".reuse.svg", d, 1);
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
    if (!done) cli_fail_with("%s: %s", path, strerror(errno));
    done = done && plot_quality(prefix, &k, v, settings) && plot_kl(prefix, v, settings) &&
           plot_kv(prefix, rows, n_rows, settings) && plot_reuse(prefix, rows, n_rows, settings);
    free(path);
    free(v);
    free(k.v);
    return done;
}
