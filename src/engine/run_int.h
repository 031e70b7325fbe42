/* run_int.h -- operations of the table on all threads of the team.
 *
 *     run_<op>(engine, work, args)
 *
 * `work` counts multiply-adds in products and attention, and elements elsewhere. It decides how
 * many pieces there are, which a result never depends on: this is only a matter of time.
 */
#ifndef SP_ENGINE_RUN_INT_H
#define SP_ENGINE_RUN_INT_H

#include "engine/engine_int.h"

/* What is smaller than `alone` is done by the caller: calling the team costs more than it saves. A
 * piece of `piece` lasts some 50 to 100 us. */
typedef struct run_sizes {
    int64_t alone, piece;
} run_sizes;

/* A product of one row of x reads 10 to 20 weights a nanosecond. With many rows it is faster,
 * but then there are more pieces than these anyway: see below. */
static const run_sizes run_product = {64 << 10, 1 << 20};
static const run_sizes run_elements = {16 << 10, 64 << 10};

/* More than so many pieces a thread would cut the runs of rows that share what is in the caches. */
enum { RUN_PIECES_OF_THREAD = 8 };

static inline void run_pieces(sp_engine *e, run_sizes s, int64_t work, sp_team_fn *fn, void *job)
{
    const int n_threads = sp_team_size(e->o.team);
    if (work < s.alone)
        fn(job, 0, 1);
    else
        sp_team_share(
            e->o.team, fn, job,
            (int)SP_MAX(n_threads, SP_MIN(work / s.piece, RUN_PIECES_OF_THREAD * n_threads)));
}

/* For operations that have scratch for each thread, and share out their work by themselves. */
static inline void run_threads(sp_engine *e, run_sizes s, int64_t work, sp_team_fn *fn, void *job)
{
    if (work < s.alone)
        fn(job, 0, 1);
    else
        sp_team_run(e->o.team, fn, job);
}

#define DEFINE_RUN(op, how, sizes)                                                                 \
    typedef struct op##_job {                                                                      \
        const sp_ops *ops;                                                                         \
        const sp_##op##_args *args;                                                                \
    } op##_job;                                                                                    \
    static inline void op##_part(void *job, int part, int n_parts)                                 \
    {                                                                                              \
        const op##_job *j = job;                                                                   \
        j->ops->op(j->args, part, n_parts);                                                        \
    }                                                                                              \
    static inline void run_##op(sp_engine *e, int64_t work, const sp_##op##_args *args)            \
    {                                                                                              \
        op##_job job = {e->o.ops, args};                                                           \
        how(e, sizes, work, op##_part, &job);                                                      \
    }

DEFINE_RUN(quantize, run_pieces, run_elements)
DEFINE_RUN(embed, run_pieces, run_elements)
DEFINE_RUN(kv_store, run_pieces, run_elements)
DEFINE_RUN(kv_differ, run_pieces, run_elements)
DEFINE_RUN(attend, run_threads, run_product)
DEFINE_RUN(columns, run_threads, run_product)

#undef DEFINE_RUN

/* -- run.c: several operations as one job --------------------------------------------------- */

/* sp_run_rmsnorm -- and, where `round` says so, what comes out rounded to e->ints. */
void sp_run_rmsnorm(sp_engine *e, const sp_rmsnorm_args *a, bool round);
/* sp_run_silu_mul -- m rows, rounded to e->ints. */
void sp_run_silu_mul(sp_engine *e, const sp_silu_mul_args *a, int64_t m);

enum { RUN_PRODUCTS = 3 };

/* sp_run_products -- n <= RUN_PRODUCTS products of the same rows of x. For integer products, x is
 * what e->ints holds from row `first` on. */
void sp_run_products(sp_engine *e, const sp_matmul_args *a, int n, int first);

#endif
