/* settings.h -- the policies and ratios that are compared. */
#ifndef SP_LAB_EVAL_SETTINGS_H
#define SP_LAB_EVAL_SETTINGS_H

#include "spolia.h"

/* How a policy is run so that the comparison is fair. */
enum {
    EVAL_SHARE = 1,  /* recomputes a share of the tokens: one setting per ratio */
    EVAL_STREAM = 2, /* reuses what earlier questions left: has its own context */
    EVAL_TRACES =
        4, /* keeps copies conditioned on this prompt: each run starts with an empty cache */
};

typedef struct eval_setting {
    char name[24]; /* policy, and "+fused" when it uses fused copies */
    sp_reuse_opts reuse;
    unsigned habits;
} eval_setting;

typedef struct eval_settings {
    eval_setting v[128];
    int n;
} eval_settings;

/* eval_settings_make -- from comma-separated lists; "off" is always the first setting. alphas (may be
 * NULL) replace the ratios of craft. False after an error message that names option and entry. */
bool eval_settings_make(const char *policies, const char *ratios, const char *alphas,
                        eval_settings *out);

#endif
