/* threads.h -- a fixed team of workers that runs one job at a time, all of them together.
 *
 * The forward pass is a sequence of operations; each is cut into parts by the operation itself:
 * every worker calls fn(arg, part, n_parts) once and the call returns when all have. Which worker
 * computes what never changes a result: no sum crosses parts.
 */
#ifndef SP_BASE_THREADS_H
#define SP_BASE_THREADS_H

#include "base/err.h"

typedef struct sp_team sp_team;
typedef void sp_team_fn(void *arg, int part, int n_parts);

/* sp_team_create -- n_threads >= 1 workers, the caller being one of them. n_threads = 0: one for
 * each core that this process may run on. */
sp_err sp_team_create(sp_team **out, int n_threads) SP_MUST_CHECK;
void sp_team_destroy(sp_team *t);
int sp_team_size(const sp_team *t);
/* sp_team_run -- Thread: one caller at a time. Cost: about a microsecond when the workers are
 * warm. */
void sp_team_run(sp_team *t, sp_team_fn *fn, void *arg);

/* sp_part -- the slice [from, to) of n items that belongs to one part, in multiples of `grain`. */
void sp_part(int64_t n, int64_t grain, int part, int n_parts, int64_t *from, int64_t *to);

#endif
