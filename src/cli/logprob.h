/* logprob.h -- from logits to log-probabilities: logit - log_sum_exp. */
#ifndef SP_CLI_LOGPROB_H
#define SP_CLI_LOGPROB_H

#include <math.h>

static inline double log_sum_exp(const float *logits, int n)
{
    double max = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++) max = fmax(max, (double)logits[i]);
    for (int i = 0; i < n; i++) sum += exp((double)logits[i] - max);
    return max + log(sum);
}

#endif
