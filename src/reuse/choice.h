/* choice.h -- a policy and its parameters, as a request or a context asks for them. */
#ifndef SP_REUSE_CHOICE_H
#define SP_REUSE_CHOICE_H

#include "reuse/reuse.h"

/* sp_reuse_opts after their check. */
typedef struct sp_reuse_choice {
    const sp_reuse_policy *policy;
    float recompute;
    bool exact_first, unfused;
    double params[SP_REUSE_PARAMS]; /* of the policy */
} sp_reuse_choice;

/* sp_reuse_choose -- Errors: SP_E_ARG names the option. */
sp_err sp_reuse_choose(const sp_reuse_opts *o, sp_reuse_choice *out) SP_MUST_CHECK;

#endif
