#include "serve/queue/budget.h"

#include "base/mem.h"

#define KEEP  0.5 /* of what was measured before */
#define SHARE 0.5 /* share of the time of answers that prompts always get */
#define FIRST 8   /* rows, until something has been measured */

static void average(double *mean, double new)
{
    *mean = *mean > 0 ? KEEP * *mean + (1 - KEEP) * new : new;
}

int sp_budget_rows(const sp_budget *b, int n_decoding, int room, double token_us)
{
    if (b->target_us <= 0 || n_decoding == 0) return room;
    const double row_us = b->row_us > 0 ? b->row_us : token_us;
    if (row_us <= 0) return SP_MIN(FIRST, room);
    const double left_us = SP_MAX((double)b->target_us - b->decode_us, SHARE * b->decode_us);
    const double rows = left_us / row_us;
    const int most = b->n_rows ? SP_MIN(room, 2 * b->n_rows + FIRST) : room;
    return rows >= most ? most : SP_MAX((int)rows, 1);
}

void sp_budget_learn(sp_budget *b, int n_decoding, int n_rows, int64_t us)
{
    if (n_decoding == 0) return;
    if (n_rows == 0) {
        average(&b->decode_us, (double)us);
        return;
    }
    b->n_rows = n_rows;
    /* before decode_us is known, all of it counts: too few rows rather than too many. A step of
     * one row is noisy: it may seem to take no longer than one without */
    average(&b->row_us, SP_MAX((double)us - b->decode_us, 0.01 * (double)us) / n_rows);
}
