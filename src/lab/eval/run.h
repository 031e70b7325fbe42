/* run.h -- answers one question in every setting and measures the answers. */
#ifndef SP_LAB_EVAL_RUN_H
#define SP_LAB_EVAL_RUN_H

#include "lab/eval/csv.h"
#include "lab/eval/dataset.h"
#include "lab/eval/settings.h"
#include "cli/options/model_options.h"

/* What is measured for a question under a setting. */
typedef enum eval_measure {
    EVAL_ANSWERS,    /* the answer, and its divergence from off's */
    EVAL_LIKELIHOOD, /* the reference answer, teacher-forced: NLL, and divergence from off along it. One run, so
                        it is valid in a cold lane, too */
    EVAL_BOTH,       /* the same run, and the setting's own answer from the end of the prompt */
} eval_measure;

typedef struct eval_run_opts {
    const model_options *model;
    const eval_docs *docs;
    const eval_questions *questions;
    int n_questions; /* only the first n are asked */
    const eval_settings *settings;
    const char *system;
    const char *cue; /* follows the question; "" if nothing does */
    const opt_list *stop;
    int max_tokens;
    const char *similar; /* of sp_index_similar */
    int n_fuse;          /* similar chunks that a "+fused" copy is conditioned on */
    bool from_host;      /* prepared copies are moved to the host tier, and loaded from it */
    bool cold;           /* no copies are prepared; every setting has its own context */
    bool scores_only;    /* answers without KL and KV deviation */
    eval_measure measure;
} eval_run_opts;

typedef struct eval_run eval_run;

/* eval_run_open -- loads the model and checks that every prompt fits its context. NULL after an error
 * message. */
eval_run *eval_run_open(const eval_run_opts *o);
void eval_run_close(eval_run *e);

/* eval_run_question -- question i in every setting; rows [settings], zeroed before and owned by the
 * caller afterwards, also on failure. False after an error message, or silently when interrupted. */
bool eval_run_question(eval_run *e, int i, eval_row *rows);

/* eval_run_replay -- for a question whose rows exist: settings that reuse what earlier questions left
 * compute its prompt. */
bool eval_run_replay(eval_run *e, int i);

#endif
