/* eval_report.h -- what the rows of all questions say: a table, a summary file, plots. */
#ifndef SP_CMD_EVAL_REPORT_H
#define SP_CMD_EVAL_REPORT_H

#include "cmd/eval_csv.h"
#include "cmd/eval_settings.h"

/* One setting over a set of questions. Means but where said; NAN: does not apply. */
typedef struct eval_summary {
    int n;
    double em, f1, rouge_l;
    double normalised_f1; /* (F1 - F1 of full) / (F1 of off - F1 of full). FusionRAG 5.1 (row F8) */
    double kl_first, kl_all, first_agrees;
    double recomputed;       /* share of all chunk tokens */
    double reused;           /* share of all prompt tokens */
    double ttft_ms, speedup; /* medians; speedup is of pairs */
    double kv_deviation;
} eval_summary;

/* eval_summarise -- rows in blocks of settings->n; kind NULL: all questions. out [settings->n]. */
void eval_summarise(const eval_row *rows, size_t n_rows, const eval_settings *settings,
                    const char *kind, eval_summary *out);

/* eval_print_table -- to standard output. */
void eval_print_table(const eval_summary *v, const eval_settings *settings);

/* eval_write_files -- PREFIX.summary.csv, and as SVG: PREFIX.quality, PREFIX.kl, PREFIX.kv, and
 * PREFIX.reuse (share reused, question by question). A plot without a line to draw is left out.
 * False after explaining. */
bool eval_write_files(const char *prefix, const eval_row *rows, size_t n_rows,
                      const eval_settings *settings);

#endif
