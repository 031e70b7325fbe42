/* interval.h -- confidence intervals of what was measured on a few questions. */
#ifndef SP_LAB_EVAL_INTERVAL_H
#define SP_LAB_EVAL_INTERVAL_H

#include "lab/eval/csv.h"

typedef struct eval_interval {
    double low, high; /* NAN: no resample had an answer to keep */
} eval_interval;

/* eval_kept_interval -- 95 % of 2,000 resamples of the questions: F1 of a setting, as a share of that of
 * setting 0 (off) on the same questions. rows [n_questions, n_settings]. The same rows always give the
 * same interval. Cost: 2,000 n_questions. */
eval_interval eval_kept_interval(const eval_row *rows, int n_questions, int n_settings,
                                 int setting);

/* eval_mean_interval -- 95 % of 2,000 resamples of n values, one a question: their mean. NAN with fewer than 8. */
eval_interval eval_mean_interval(const double *v, size_t n);

/* What is compared: a field of a setting, with setting 0 (off). */
typedef struct eval_more_of {
    size_t n_settings, setting;
    int field; /* ROW_NLL; ROW_KL_ALL, which is 0 for off */
} eval_more_of;

/* eval_more_interval -- 95 % of 2,000 resamples: the field of a setting less that of off on the same questions, mean.
 * kind NULL: all questions. NAN with fewer than 8 questions. */
eval_interval eval_more_interval(const eval_row *rows, size_t n_questions, const eval_more_of *of, const char *kind);

#endif
