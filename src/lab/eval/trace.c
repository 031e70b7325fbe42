#include "lab/eval/trace.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/alloc.h"
#include "cli/cli.h"
#include "lab/files.h"

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

static const eval_column columns[] = {EVAL_COLUMN("F1", f1, 6, 3, 1, ""),
                                      EVAL_COLUMN("NLL", nll, 7, 3, 1, ""),
                                      EVAL_COLUMN("KL all", kl_all, 8, 4, 1, ""),
                                      EVAL_COLUMN("reused", reused, 6, 1, 100, " %"),
                                      EVAL_COLUMN("recomputed", recomputed, 8, 1, 100, " %"),
                                      EVAL_COLUMN("saw", saw, 4, 0, 100, " %"),
                                      EVAL_COLUMN("TTFT ms", ttft_ms, 9, 1, 1, ""),
                                      EVAL_COLUMN("off/this", speedup, 7, 2, 1, "x"),
                                      EVAL_COLUMN("KV MiB", kv_bytes, 8, 1, 0x1p-20, ""),
                                      EVAL_COLUMN("evicted", evicted, 8, 0, 1, "")};

void eval_trace_print(const eval_trace *t)
{
    printf("\n%-11s %-18s", "questions", "reuse");
    eval_print_titles(columns, SP_COUNT(columns));
    putchar('\n');
    for (size_t i = 0; i < n_windows(t); i++) {
        const window w = summarise(t, i);
        for (int s = 0; s < t->settings->n; s++) {
            char name[CLI_SPEC + 16];
            eval_label(&t->settings->v[s], name, sizeof name);
            printf("%5zu-%-5zu %-18s", w.from + 1, w.from + w.n, name);
            eval_print_cells(columns, SP_COUNT(columns), &w.all[s]);
            putchar('\n');
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

bool eval_trace_ready(const char *path)
{
    FILE *f = fopen(path, "a");
    if (f && fclose(f) == 0) return true;
    cli_fail_with("%s: %s", path, strerror(errno));
    return false;
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
    const bool done = lab_json_write(path, all, JSON_INDENT(1) | JSON_REAL_PRECISION(7));
    json_decref(all);
    return done;
}
