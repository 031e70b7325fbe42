/* settings.h -- the policies and ratios that are compared. */
#ifndef SP_LAB_EVAL_SETTINGS_H
#define SP_LAB_EVAL_SETTINGS_H

#include "cli/options/policies.h"
#include "spolia.h"

/* How a policy is run so that the comparison is fair. */
enum {
    EVAL_SHARE = 1,  /* recomputes a share of the tokens: one setting per ratio */
    EVAL_STREAM = 2, /* reuses what earlier questions left: has its own context */
    EVAL_TRACES =
        4, /* keeps copies conditioned on this prompt: each run starts with an empty cache */
    EVAL_STEADY = 8, /* reads no statistics of its own: settings share a question's copies */
};

typedef struct eval_setting {
    char name[CLI_SPEC]; /* policy as given: with "+fused" when it uses fused copies, and its parameters */
    char spec[CLI_SPEC]; /* what reuse.policy points to */
    sp_reuse_opts reuse;
    double amount; /* of the parameter that replaces reuse.recompute, alpha of craft; 0: none */
    unsigned habits;
} eval_setting;

/* Not to be copied: reuse.policy points into it. */
typedef struct eval_settings {
    eval_setting v[128];
    int n;
} eval_settings;

/* eval_settings_make -- from comma-separated lists; "off" is always the first setting. alphas (may be
 * NULL) replace the ratios of policies with such a parameter. False after an error message that names option and
 * entry. */
bool eval_settings_make(const char *policies, const char *ratios, const char *alphas,
                        eval_settings *out);

#endif
