/* report.h -- summarises the rows of all questions: a table, a summary file. */
#ifndef SP_LAB_EVAL_REPORT_H
#define SP_LAB_EVAL_REPORT_H

#include <stddef.h>

#include "base/err.h"
#include "lab/eval/csv.h"
#include "lab/eval/settings.h"

/* Means unless noted; normalised F1 is (F1 - F1 of full) / (F1 of off - F1 of full), FusionRAG
 * section 5.1. */
#define SUMMARY_FIELDS(X)                                                                          \
    X(em)                                                                                          \
    X(f1)                                                                                          \
    X(normalised_f1)                                                                               \
    X(rouge_l)                                                                                     \
    X(lost) /* share of off's right answers (EM 1) that are not right here */                      \
    X(nll)                                                                                         \
    X(nll_more) /* than off's, question by question: mean, and its interval */                     \
    X(nll_more_low)                                                                                \
    X(nll_more_high)                                                                               \
    X(recovered) /* (NLL of full - NLL) / (NLL of full - NLL of off); none where full may lose nothing */ \
    X(kl_first)                                                                                    \
    X(kl_first_median) /* a few questions can dominate a mean */                                   \
    X(kl_all)                                                                                      \
    X(first_agrees)                                                                                \
    X(recomputed) /* share of all chunk tokens */                                                  \
    X(reused)     /* share of all prompt tokens */                                                 \
    X(ttft_ms)    /* median */                                                                     \
    X(speedup)    /* median of the ratios off / this */                                            \
    X(kv_deviation)                                                                                \
    X(saw)        /* of the chunks that had a copy, those whose copy had seen one of this prompt */ \
    X(kv_bytes)   /* after the last question; so are the next two */                               \
    X(copies)                                                                                      \
    X(evicted)

/* One setting over a set of questions; NAN: does not apply. */
typedef struct eval_summary {
    int n;     /* questions answered */
    int n_nll; /* reference answers scored */
#define X(field) double field;
    SUMMARY_FIELDS(X)
#undef X
} eval_summary;

/* eval_summarise -- rows in blocks of settings->n; kind NULL: all questions. out [settings->n]. */
void eval_summarise(const eval_row *rows, size_t n_rows, const eval_settings *settings,
                    const char *kind, eval_summary *out);

/* eval_choose -- of settings 1 .. n-1, the one with the least recomputation whose F1 is at least
 * `wanted` times that of setting 0 (off); the earlier of equals; 0: none. */
int eval_choose(const eval_summary *v, int n, double wanted);

/* eval_label -- "fusion 15 %", "craft a=1.5", "craft:alpha=1.5", "full". */
void eval_label(const eval_setting *s, char *out, size_t n);

/* A column of a table: a field, times `scale`. */
typedef struct eval_column {
    const char *title;
    size_t field; /* offset in eval_summary */
    int width, digits;
    double scale;
    const char *unit;
} eval_column;
#define EVAL_COLUMN(title, field, ...) {title, offsetof(eval_summary, field), __VA_ARGS__}

void eval_print_titles(const eval_column *columns, size_t n);
void eval_print_cells(const eval_column *columns, size_t n, const eval_summary *v);

/* eval_print_table -- to standard output. */
void eval_print_table(const eval_summary *v, const eval_settings *settings);

/* eval_write_files -- PREFIX.summary.csv. False after an error message. */
bool eval_write_files(const char *prefix, const eval_row *rows, size_t n_rows,
                      const eval_settings *settings);

#endif
