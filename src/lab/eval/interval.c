#include "lab/eval/interval.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/alloc.h"
#include "lab/numbers.h"

#define RESAMPLES 2000
#define TAIL      (RESAMPLES / 40) /* 2.5 % */

/* pick -- one of n. */
static size_t pick(uint64_t *state, size_t n)
{
    return (size_t)(lab_random(state) % n);
}

eval_interval eval_kept_interval(const eval_row *rows, int n_questions, int n_settings, int setting)
{
    double *kept = cli_alloc(RESAMPLES, sizeof *kept);
    size_t n = (size_t)n_questions, block = (size_t)n_settings;
    uint64_t state = 1;
    int n_kept = 0;
    for (int k = 0; k < RESAMPLES; k++) {
        double off = 0, f1 = 0;
        for (size_t i = 0; i < n; i++) {
            const eval_row *row = rows + pick(&state, n) * block;
            off += row[0].number[ROW_F1];
            f1 += row[setting].number[ROW_F1];
        }
        if (off > 0) kept[n_kept++] = f1 / off;
    }
    lab_sort(kept, (size_t)n_kept);
    eval_interval range = {NAN, NAN};
    if (n_kept > 2 * TAIL) range = (eval_interval){kept[TAIL], kept[n_kept - 1 - TAIL]};
    free(kept);
    return range;
}

/* more_than_off -- of each question of the kind that has one; returns how many. */
static size_t more_than_off(const eval_row *rows, size_t n_questions, const eval_more_of *of, const char *kind,
                            double *out)
{
    size_t n = 0;
    for (size_t i = 0; i < n_questions; i++) {
        const eval_row *row = rows + i * of->n_settings;
        const double off = of->field == ROW_KL_ALL ? 0 : row[0].number[of->field];
        const double more = row[of->setting].number[of->field] - off;
        if (isfinite(more) && (!kind || strcmp(row[0].text[ROW_KIND], kind) == 0)) out[n++] = more;
    }
    return n;
}

eval_interval eval_mean_interval(const double *v, size_t n)
{
    enum { FEW = 8 };
    double *mean = cli_alloc(RESAMPLES, sizeof *mean);
    eval_interval range = {NAN, NAN};
    uint64_t state = 1;
    for (int k = 0; k < RESAMPLES && n >= FEW; k++) {
        double sum = 0;
        for (size_t i = 0; i < n; i++) sum += v[pick(&state, n)];
        mean[k] = sum / (double)n;
    }
    if (n >= FEW) {
        lab_sort(mean, RESAMPLES);
        range = (eval_interval){mean[TAIL], mean[RESAMPLES - 1 - TAIL]};
    }
    free(mean);
    return range;
}

eval_interval eval_more_interval(const eval_row *rows, size_t n_questions, const eval_more_of *of, const char *kind)
{
    double *more = cli_alloc(n_questions + 1, sizeof *more);
    const size_t n = more_than_off(rows, n_questions, of, kind, more);
    const eval_interval range = eval_mean_interval(more, n);
    free(more);
    return range;
}
