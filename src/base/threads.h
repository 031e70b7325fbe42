/* threads.h -- a fixed team of threads that works together on one job at a time.
 *
 * The forward pass is a sequence of operations. Each can be cut into any number of pieces, and no
 * sum crosses pieces, so a result never depends on which thread computes a piece, or when. A call
 * runs fn(arg, piece, n_pieces) once for each piece and returns when all pieces are done.
 */
#ifndef SP_BASE_THREADS_H
#define SP_BASE_THREADS_H

#include "base/err.h"

typedef struct sp_team sp_team;
typedef void sp_team_fn(void *arg, int piece, int n_pieces);

/* sp_cores_allowed -- cores that this process may run on. */
int sp_cores_allowed(void);
/* sp_team_create -- a team of n_threads, including the caller. n_threads = 0: one for each core
 * that this process may run on. Errors: SP_E_ARG, SP_E_NOMEM. */
sp_err sp_team_create(sp_team **out, int n_threads) SP_MUST_CHECK;
void sp_team_destroy(sp_team *t);
int sp_team_size(const sp_team *t);

/* sp_team_share -- runs n_pieces >= 0 pieces, in ascending order, each on the next free thread. A
 * thread that starts late or is descheduled delays the others by at most its current piece. Pieces
 * of 50 to 100 us balance well at negligible cost.
 * Thread: one caller at a time, and not from within a piece (asserted).
 * Cost:   about 1 us when the threads are spinning, plus 0.1 us a piece. */
void sp_team_share(sp_team *t, sp_team_fn *fn, void *arg, int n_pieces);
/* sp_team_run -- runs as many pieces as there are threads, for operations that own a resource for
 * each piece or distribute their work themselves. Usually, but not always, each thread gets one. */
void sp_team_run(sp_team *t, sp_team_fn *fn, void *arg);

/* sp_part -- the slice [from, to) of n items that one part processes, in multiples of `grain`. */
void sp_part(int64_t n, int64_t grain, int part, int n_parts, int64_t *from, int64_t *to);

#endif
