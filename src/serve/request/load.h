/* load.h -- loads copies that were found in lower tiers to the device. The files of loading, in the order of a load:
 *
 *   serve/request/load.c    which copies a request waits for, and how long
 *   serve/tiers/loads.c     a load: tries the tiers, times out, ends in the ledger   (serve/tiers/tiers.h)
 *   serve/tiers/tiers.c     the tiers there are, and which is the highest that has a copy
 *   serve/tiers/swap.c      the key of a copy in a tier: sp_tiers_move_of
 *   cache/                  ledger_tiers.c: FREE -> LOADING -> READY, with blocks, for which others may leave
 *   store/moves.c           header and layers between a tier and blocks              (store/moves.h)
 *   store/record.c          the header of a copy; store/notes.c: what is kept beside its keys
 *   store/tier.c            operations of any tier: queues, deadlines, ends          (store/tier.h)
 *   store/host/tier.c       the host tier
 *   store/disk/read.c       the disk tier, with store/aio/ for its reads
 *   serve/tiers/posts.c     the end of a load, back on the engine thread
 *   serve/request/find.c    what cannot be loaded is looked up once more
 *
 * engine/offload/ makes room first where the context is in a file; serve/tiers/paths.c adopts path copies when a store
 * opens. `scripts/road sp_request_load` follows the calls; a test compares them with this list. */
#ifndef SP_SERVE_LOAD_H
#define SP_SERVE_LOAD_H

#include "cache/copy.h"
#include "engine/engine.h"
#include "reuse/reuse.h"
#include "spolia.h"

/*   ANY --some layers are there--> EARLY --a layer is late--> LATE --start over--> READY_ONLY
 *     \______________ loading takes longer than computing ________________________/     */
typedef enum sp_loads_state {
    SP_LOADS_ANY,        /* uses copies that must be loaded */
    SP_LOADS_EARLY,      /* runs although copies that it found are LOADING */
    SP_LOADS_LATE,       /* a layer did not arrive in time */
    SP_LOADS_READY_ONLY, /* uses READY copies only: others came too late */
} sp_loads_state;

typedef struct sp_request_loads {
    sp_loads_state state;
    int64_t since_us;   /* when it began to wait for loads; 0: it does not */
    int64_t await_us;   /* early: a step may wait for a layer until this time */
    int64_t fetched_at; /* the ledger's n_added when its loads were begun ahead; -1: they were not */
} sp_request_loads;

/* sp_request_load -- loads the copies that were found in lower tiers; *ready: all of found[] can be read. A copy that
 * cannot be loaded is a miss. Call it again until it is ready. */
sp_err sp_request_load(sp_request *r, bool *ready) SP_MUST_CHECK;
/* sp_request_awaits -- the hook of its slices in prefill: ends them if it is canceled; early: waits for layers. */
sp_await sp_request_awaits(sp_request *r);
/* sp_request_patience -- LOADING: how much longer it waits, us; a long time if unknown. */
int64_t sp_request_patience(const sp_request *r);
/* sp_request_is_there -- early: whether its layers are there, so that a step need not wait. */
bool sp_request_is_there(sp_request *r);
/* sp_request_load_end -- early, after its first plan: waits until its copies are READY; false: one is not, or late. */
bool sp_request_load_end(sp_request *r);
/* sp_context_prefetch -- begins to load what the requests after the oldest will find. */
void sp_context_prefetch(sp_context *c);
/* sp_request_load_failed -- records why a copy that requests wait for is missing. */
void sp_request_load_failed(void *context, const sp_copy *copy, sp_miss why);

#endif
