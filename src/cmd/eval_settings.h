/* eval_settings.h -- the policies and ratios that are compared. */
#ifndef SP_CMD_EVAL_SETTINGS_H
#define SP_CMD_EVAL_SETTINGS_H

#include "spolia.h"

/* How a policy has to be run, to be measured fairly. */
enum {
    EVAL_SHARE = 1,  /* computes a share of the tokens again: one setting for each ratio */
    EVAL_STREAM = 2, /* lives on what earlier questions left: keeps a context to itself */
    EVAL_TRACES = 4, /* leaves copies that know this prompt: begins each run with all forgotten */
};

typedef struct eval_setting {
    char name[24]; /* policy, and "+fused" when it uses fused copies */
    sp_reuse_opts reuse;
    unsigned habits;
    int style; /* of its line in plots: one a policy */
} eval_setting;

typedef struct eval_settings {
    eval_setting v[128];
    int n;
} eval_settings;

/* eval_settings_make -- lists with commas between entries; "off" is added in front if it is not
 * there. alphas (may be NULL) stand for craft's ratios. False after naming option and entry. */
bool eval_settings_make(const char *policies, const char *ratios, const char *alphas,
                        eval_settings *out);

/* eval_style -- of a policy's line in plots. */
int eval_style(const char *name);

/* eval_computes_again -- a policy, perhaps with "+fused" behind it, that has a ratio. */
bool eval_computes_again(const char *name);

#endif
