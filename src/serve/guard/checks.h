/* checks.h -- the guard's interface for the code that runs its checks (serve/check/guard_check.c). */
#ifndef SP_SERVE_GUARD_CHECKS_H
#define SP_SERVE_GUARD_CHECKS_H

#include "serve/guard/guard.h"

enum { SP_GUARD_WAITING = 4, SP_GUARD_POLICIES = 16, SP_GUARD_ROWS = 4 };

struct sp_guard_noted {
    const sp_reuse_policy *policy;
    sp_prompt prompt; /* a copy */
    float *logits;    /* [n_rows, V] under reuse: of its first token; decoded sparsely: of those after */
    int32_t tokens[SP_GUARD_ROWS]; /* sparse: the token that precedes each row */
    int n_rows;
    bool sparse;
};

typedef struct sp_guard_policy {
    const sp_reuse_policy *policy;
    int n_since; /* checks since the last change */
} sp_guard_policy;

struct sp_guard {
    float share, bound;
    float due, due_sparse; /* grow by `share` with each request; at 1 a request is sampled */
    sp_guard_noted *waiting[SP_GUARD_WAITING];
    int n_waiting;
    sp_guard_noted *now; /* being checked */
    sp_request *check;
    int n_seen; /* rows of the check so far */
    double kl;  /* their mean divergence */
    bool agrees;
    sp_guard_policy policies[SP_GUARD_POLICIES];
    sp_guard_report reports[SP_GUARD_POLICIES];
    int n_policies;
};

void sp_guard_free_noted(sp_guard_noted *n);
/* sp_guard_judge -- the logits [V] of full attention for the next token of the prompt that is being
 * checked. */
void sp_guard_judge(sp_guard *g, const float *logits, int n_vocab);

#endif
