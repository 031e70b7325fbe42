/* calibrate.h -- what calibrate.c (the command) and calibrate_loss.c (the choice by likelihood) share. */
#ifndef SP_LAB_EVAL_CALIBRATE_H
#define SP_LAB_EVAL_CALIBRATE_H

#include "cli/alloc.h"
#include "cli/cli.h"
#include "cli/options/policies.h"
#include "lab/eval/interval.h"
#include "lab/eval/options.h"
#include "lab/eval/report.h"
#include "serve/check/calibration.h"

#define CALIBRATE_NONE 1 /* by loss: the setting that recomputes nothing */

typedef struct calibrating {
    eval_options o;
    model_options m;
    const char *policy, *ratios, *alphas, *measure;
    float keep, loss;
    bool dry, force, by_loss;
    char *passages; /* a temporary question file; NULL: questions were given */
    eval_settings settings;
    eval_input in;
    eval_row *rows; /* [n_questions, settings.n] */
    eval_summary *sums; /* [settings.n] */
    bool differs;       /* some setting differs from full attention on some question */
} calibrating;

/* What a setting loses, relative to full attention's mean NLL of the answers: the rise of that NLL, or with passages
 * the mean KL divergence, which is the rise to be expected if full attention is right. */
typedef struct calibrated_loss {
    double mean, low, high; /* 95 % of paired resamples; NAN with fewer than 8 questions */
} calibrated_loss;

calibrated_loss calibrate_loss(const calibrating *c, int setting);

/* calibrate_choose -- prints every setting, and chooses the least recomputation whose loss is at most --loss with
 * 95 % confidence; with --force: whose mean is. 0 after an error message that says what is missing. */
int calibrate_choose(const calibrating *c);

#endif
