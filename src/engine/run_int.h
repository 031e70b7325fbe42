/* run_int.h -- run_<op>(engine, work, args): an operation of the table on all threads of the team.
 */
#ifndef SP_ENGINE_RUN_INT_H
#define SP_ENGINE_RUN_INT_H

#include "engine/engine_int.h"

/* Below this many multiply-adds waking the team costs more than it saves. A result never depends
 * on how many parts computed it, so this is only a matter of time. */
#define SOLO_WORK (64 * 1024)

#define DEFINE_RUN(op)                                                                             \
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
        if (work < SOLO_WORK)                                                                      \
            op##_part(&job, 0, 1);                                                                 \
        else                                                                                       \
            sp_team_run(e->o.team, op##_part, &job);                                               \
    }

DEFINE_RUN(matmul)
DEFINE_RUN(embed)
DEFINE_RUN(rmsnorm)
DEFINE_RUN(silu_mul)
DEFINE_RUN(kv_store)
DEFINE_RUN(attend)
DEFINE_RUN(columns)
DEFINE_RUN(kv_differ)

#undef DEFINE_RUN

#endif
