/* budget.h -- how many prompt tokens a step computes while other requests decode, so that the tokens of answers come
 * in time.
 *
 *   time of a step = time of the answers' tokens + rows * time of a prompt token
 *
 * Both are measured in the steps themselves: steps without prompts give the first, mixed steps the second. The time of
 * a token depends on the length of its prompt and on the rows of a step, so recent steps count most. Prompts always
 * get at least half of the answers' time, so they never stop. Pure: time is passed in. */
#ifndef SP_SERVE_BUDGET_H
#define SP_SERVE_BUDGET_H

#include "base/err.h"

typedef struct sp_budget {
    int64_t target_us; /* of a step in which requests decode; 0: none */
    double decode_us;  /* of a step without prompts; 0: unknown */
    double row_us;     /* of a prompt's token in a step with both; 0: unknown */
    int n_rows;        /* prompt tokens of the last such step: the next has at most about twice as many; 0: none */
} sp_budget;

/* sp_budget_rows -- prompt tokens in the next step, 1 .. room; n_decoding: requests that decode in it. token_us:
 * recent time of a token in a step of many (0: unknown), used until row_us is measured. Pre: room > 0. */
int sp_budget_rows(const sp_budget *b, int n_decoding, int room, double token_us);
/* sp_budget_learn -- a step of n_decoding answer tokens and n_rows prompt tokens took us. */
void sp_budget_learn(sp_budget *b, int n_decoding, int n_rows, int64_t us);

#endif
