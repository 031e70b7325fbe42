/* eval_run.h -- answers one question in every setting, and measures. */
#ifndef SP_CMD_EVAL_RUN_H
#define SP_CMD_EVAL_RUN_H

#include <signal.h>

#include "cmd/eval_csv.h"
#include "cmd/eval_set.h"
#include "cmd/eval_settings.h"
#include "cmd/options.h"

typedef struct eval_run_opts {
    const model_options *model;
    const eval_docs *docs;
    const eval_questions *questions;
    int n_questions; /* the first of them are asked */
    const eval_settings *settings;
    const char *system;
    const opt_list *stop;
    int max_tokens;
    const char *similar; /* "bm25", "neighbour" */
    int n_fuse;          /* similar chunks that a "+fused" copy has seen */
    bool cold;           /* nothing is made known beforehand; every setting has its own context */
    bool scores_only;    /* answers without KL and KV deviation */
    const volatile sig_atomic_t *interrupted;
} eval_run_opts;

typedef struct eval_run eval_run;

/* eval_run_open -- loads the model, and holds every prompt against its context before anything
 * runs. NULL after explaining. */
eval_run *eval_run_open(const eval_run_opts *o);
void eval_run_close(eval_run *e);

/* eval_run_question -- question i in every setting; rows [settings], zeroed before and owned by the
 * caller afterwards, also on failure. False after explaining, or quietly when interrupted. */
bool eval_run_question(eval_run *e, int i, eval_row *rows);

/* eval_run_replay -- question i is known from an earlier run: settings that live on earlier
 * questions read its prompt again. */
bool eval_run_replay(eval_run *e, int i);

#endif
