/* threads.h -- a fixed team of threads that works on one job at a time, all of them together.
 *
 * The forward pass is a sequence of operations; each can be cut into any number of pieces, and no
 * sum crosses them. Who computes which piece, and when, never changes a result: fn(arg, piece,
 * n_pieces) is called once for each piece, and the call returns when all have been.
 */
#ifndef SP_BASE_THREADS_H
#define SP_BASE_THREADS_H

#include "base/err.h"

typedef struct sp_team sp_team;
typedef void sp_team_fn(void *arg, int piece, int n_pieces);

/* sp_team_create -- n_threads >= 1 threads, the caller being one of them. n_threads = 0: one for
 * each core that this process may run on. */
sp_err sp_team_create(sp_team **out, int n_threads) SP_MUST_CHECK;
void sp_team_destroy(sp_team *t);
int sp_team_size(const sp_team *t);

/* sp_team_share -- hands out n_pieces >= 0 in ascending order to whoever is free: a thread that is
 * late, or that the system has put aside, holds up the others by the piece it is in and no more.
 * Pieces of 50 to 100 us are many enough to be fair and too few to cost anything.
 * Thread: one caller at a time, and not from within a piece (asserted).
 * Cost:   about a microsecond when the threads are warm, and a tenth for each piece. */
void sp_team_share(sp_team *t, sp_team_fn *fn, void *arg, int n_pieces);
/* sp_team_run -- as many pieces as threads: for operations that own something for each piece, or
 * that share out their work by themselves. As a rule, but not always, each thread gets one. */
void sp_team_run(sp_team *t, sp_team_fn *fn, void *arg);

/* sp_part -- the slice [from, to) of n items that belongs to one part, in multiples of `grain`. */
void sp_part(int64_t n, int64_t grain, int part, int n_parts, int64_t *from, int64_t *to);

#endif
