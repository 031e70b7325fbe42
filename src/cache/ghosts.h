/* ghosts.h -- remembers chunks that were cached once, to explain why one is missing now.
 *
 * Two direct-mapped tables of 64-bit hashes: a new ghost overwrites the one in its slot. So memory
 * is fixed (1.5 MiB); an evicted chunk may be reported as "never seen", but almost never the
 * other way round. Only explanations depend on them. */
#ifndef SP_CACHE_GHOSTS_H
#define SP_CACHE_GHOSTS_H

#include "kv/segment.h"

enum { SP_GHOSTS = 65536 };

typedef struct sp_ghosts {
    uint64_t ids[SP_GHOSTS];      /* of chunks that were cached */
    uint64_t starts[SP_GHOSTS];   /* of their first tokens */
    uint64_t start_of[SP_GHOSTS]; /* by the slot of the id; 0: none */
} sp_ghosts;

void sp_ghosts_add(sp_ghosts *g, const sp_segment *seg);
/* sp_ghosts_drop -- forgets a chunk. */
void sp_ghosts_drop(sp_ghosts *g, const sp_digest *id);
/* sp_ghosts_has -- whether exactly this chunk was cached. */
bool sp_ghosts_has(const sp_ghosts *g, const sp_segment *seg);
/* sp_ghosts_has_start -- whether a chunk that begins with the same block of tokens was cached. */
bool sp_ghosts_has_start(const sp_ghosts *g, const sp_segment *seg);

#endif
