/* options.h -- options that eval and calibrate share: questions, documents, answers. */
#ifndef SP_LAB_EVAL_OPTIONS_H
#define SP_LAB_EVAL_OPTIONS_H

#include "cli/progress.h"
#include "lab/eval/run.h"

typedef struct eval_options {
    const char *questions, *kind_field, *system;
    eval_docs_opts docs;
    opt_list stop;
    const char *similar, *asked;
    const char *shots_from;
    int limit, max_tokens, n_fuse, n_shots;
    bool quiet;
    opt table[23];
} eval_options;

void eval_options_init(eval_options *o);

/* The questions and their documents. */
typedef struct eval_input {
    eval_questions questions;
    int n_questions; /* at most --limit */
    eval_docs docs;
    char *system; /* with --shots */
} eval_input;

/* eval_input_open -- checks the options, reads the questions, opens the documents, and applies the
 * model options to the settings. Returns 0, or the exit code after an error message. */
int eval_input_open(const char *command, const eval_options *o, const model_options *m,
                    eval_settings *settings, eval_input *out);
void eval_input_close(eval_input *in);

/* eval_run_of -- what all runs have in common. */
eval_run_opts eval_run_of(const eval_options *o, const eval_input *in, const model_options *m,
                          const eval_settings *settings);

typedef struct eval_progress {
    progress line;
    double said;   /* seconds since it began: the last line, where there is no terminal */
    double new_at; /* the same: the first question that has no rows yet */
    int n_skipped; /* answered in an earlier run */
    int again;     /* 1 and up: this one, whose rows are there, is recomputed to fill the caches */
    bool quiet;
} eval_progress;

/* eval_progress_show -- `done` of `total` questions: rate and time left, to standard error; on a
 * terminal in place, else a line twice a minute. With `again` set: which one is recomputed. */
void eval_progress_show(eval_progress *p, int done, int total);
/* eval_progress_text -- the line, `now` seconds after the start. */
void eval_progress_text(const eval_progress *p, int done, int total, double now, char *out, size_t n_out);

#endif
