#include "lab/eval/trace.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/alloc.h"
#include "cli/cli.h"

/* What is said of a setting in a window. */
#define FIELDS(X)                                                                                                \
    X(em)                                                                                                        \
    X(f1)                                                                                                        \
    X(nll)                                                                                                       \
    X(nll_more)                                                                                                  \
    X(kl_first)                                                                                                  \
    X(kl_all)                                                                                                    \
    X(reused)                                                                                                    \
    X(recomputed)                                                                                                \
    X(saw)                                                                                                       \
    X(ttft_ms)                                                                                                   \
    X(speedup)                                                                                                   \
    X(kv_bytes)                                                                                                  \
    X(copies)                                                                                                    \
    X(evicted)

typedef struct window {
    size_t from, n;    /* questions */
    eval_summary *all; /* [settings] */
} window;

static size_t n_windows(const eval_trace *t)
{
    return (t->n_questions + (size_t)t->window - 1) / (size_t)t->window;
}

static window summarise(const eval_trace *t, size_t i)
{
    const size_t block = (size_t)t->settings->n, from = i * (size_t)t->window, left = t->n_questions - from;
    window w = {.from = from,
                .n = left < (size_t)t->window ? left : (size_t)t->window,
                .all = cli_alloc(block, sizeof *w.all)};
    eval_summarise(t->rows + from * block, w.n * block, t->settings, NULL, w.all);
    return w;
}

/* cell -- a value of a table, "-" where it does not apply. */
static void cell(int width, int digits, double v, const char *unit)
{
    if (isfinite(v))
        printf(" %*.*f%s", width, digits, v, unit);
    else
        printf(" %*s", width + (int)strlen(unit), "-");
}

static void print_setting(const char *name, const window *w, const eval_summary *v)
{
    printf("%5zu-%-5zu %-18s", w->from + 1, w->from + w->n, name);
    cell(6, 3, v->f1, "");
    cell(7, 3, v->nll, "");
    cell(8, 4, v->kl_all, "");
    cell(6, 1, v->reused * 100, " %");
    cell(6, 1, v->recomputed * 100, " %");
    cell(4, 0, v->saw * 100, " %");
    cell(9, 1, v->ttft_ms, "");
    cell(7, 2, v->speedup, "x");
    cell(8, 1, v->kv_bytes / 1048576, "");
    cell(8, 0, v->evicted, "");
    putchar('\n');
}

void eval_trace_print(const eval_trace *t)
{
    printf("\n%-11s %-18s %6s %7s %8s %8s %10s %6s %9s %8s %8s %8s\n", "questions", "reuse", "F1", "NLL", "KL all",
           "reused", "recomputed", "saw", "TTFT ms", "off/this", "KV MiB", "evicted");
    for (size_t i = 0; i < n_windows(t); i++) {
        const window w = summarise(t, i);
        for (int s = 0; s < t->settings->n; s++) {
            char name[CLI_SPEC + 16];
            eval_label(&t->settings->v[s], name, sizeof name);
            print_setting(name, &w, &w.all[s]);
        }
        free(w.all);
    }
}

static json_t *window_json(const window *w, const eval_summary *v)
{
    json_t *o = json_pack("{s:I, s:I}", "first", (json_int_t)w->from + 1, "last", (json_int_t)(w->from + w->n));
#define X(field) \
    if (isfinite(v->field)) json_object_set_new(o, #field, json_real(v->field));
    FIELDS(X)
#undef X
    return o;
}

bool eval_trace_write(const eval_trace *t, const char *path)
{
    json_t *settings = json_array();
    for (int s = 0; s < t->settings->n; s++)
        json_array_append_new(settings, json_pack("{s:s, s:f, s:[]}", "policy", t->settings->v[s].name, "recompute",
                                                  (double)t->settings->v[s].reuse.recompute, "windows"));
    for (size_t i = 0; i < n_windows(t); i++) {
        const window w = summarise(t, i);
        for (int s = 0; s < t->settings->n; s++) {
            json_t *list = json_object_get(json_array_get(settings, (size_t)s), "windows");
            json_array_append_new(list, window_json(&w, &w.all[s]));
        }
        free(w.all);
    }
    json_t *all = json_pack("{s:I, s:i, s:I, s:o}", "questions", (json_int_t)t->n_questions, "window", t->window,
                            "kv_memory", (json_int_t)t->kv_bytes, "settings", settings);
    const bool done = all && json_dump_file(all, path, JSON_INDENT(1) | JSON_REAL_PRECISION(7)) == 0;
    if (!done) cli_fail_with("%s: cannot be written", path);
    json_decref(all);
    return done;
}
