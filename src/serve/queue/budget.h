/* budget.h -- how many tokens of prompts a step computes while others decode, so that the answers' tokens come in
 * time.
 *
 *   time of a step = what the answers' tokens take + rows * what a prompt's token takes
 *
 * Both are measured on the steps themselves: a step without prompts says the first, one with both the second. What a
 * token takes changes with the length of its prompt and with the rows of a step, so recent steps count most. Prompts
 * get half of the answers' time at least, whatever the target: they never stop. Pure: time is passed in. */
#ifndef SP_SERVE_BUDGET_H
#define SP_SERVE_BUDGET_H

#include "base/err.h"

typedef struct sp_budget {
    int64_t target_us; /* of a step in which requests decode; 0: none */
    double decode_us;  /* of a step without prompts; 0: unknown */
    double row_us;     /* of a prompt's token in a step with both; 0: unknown */
    int n_rows;        /* of the last such step: the next has at most twice as many, and a few; 0: none */
} sp_budget;

/* sp_budget_rows -- of prompts in the next step, 1 .. room; n_decoding: requests that decode in it. token_us: what a
 * token took lately in a step of many (0: unknown), until row_us is measured. Pre: room > 0. */
int sp_budget_rows(const sp_budget *b, int n_decoding, int room, double token_us);
/* sp_budget_learn -- a step of n_decoding answers' tokens and n_rows of prompts took us. */
void sp_budget_learn(sp_budget *b, int n_decoding, int n_rows, int64_t us);

#endif
