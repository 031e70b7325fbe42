/* ghosts.h -- remembers chunks that were cached once, to tell why one is missing now.
 *
 * Two small tables of 64-bit hashes, direct-mapped: a new ghost overwrites whoever had its slot.
 * So memory is fixed (1 MiB), and an answer may be "never seen" where "evicted" were true, but
 * hardly ever the other way round. Nothing but explanations depends on them. */
#ifndef SP_CACHE_GHOSTS_H
#define SP_CACHE_GHOSTS_H

#include "kv/segment.h"

enum { SP_GHOSTS = 65536 };

typedef struct sp_ghosts {
    uint64_t ids[SP_GHOSTS];    /* of chunks that were cached */
    uint64_t starts[SP_GHOSTS]; /* of their first tokens */
} sp_ghosts;

void sp_ghosts_add(sp_ghosts *g, const sp_segment *seg);
/* sp_ghosts_has -- this very chunk was cached. */
bool sp_ghosts_has(const sp_ghosts *g, const sp_segment *seg);
/* sp_ghosts_has_start -- one that begins with the same tokens (a block of them) was cached. */
bool sp_ghosts_has_start(const sp_ghosts *g, const sp_segment *seg);

#endif
