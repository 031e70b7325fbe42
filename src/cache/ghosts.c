#include "cache/ghosts.h"

#include <string.h>

#include "compute/shapes.h"

static uint64_t id_of(const sp_segment *seg)
{
    uint64_t low;
    memcpy(&low, seg->id.b, sizeof low);
    return low | 1; /* 0: an empty slot */
}

/* start_of -- a hash of tenant and first block of tokens; 0 when there is none. */
static uint64_t start_of(const sp_segment *seg)
{
    if (seg->n < SP_BLOCK_TOKENS) return 0;
    uint64_t hash = sp_hash64(seg->tokens, SP_BLOCK_TOKENS * sizeof *seg->tokens);
    return (hash ^ seg->tenant) | 1;
}

static size_t slot_of(uint64_t hash)
{
    return (size_t)(hash >> 1) % SP_GHOSTS;
}

/* empty -- forgets the chunk of a slot, and how it began. */
static void empty(sp_ghosts *g, size_t slot)
{
    uint64_t start = g->start_of[slot];
    if (start && g->starts[slot_of(start)] == start) g->starts[slot_of(start)] = 0;
    g->ids[slot] = g->start_of[slot] = 0;
}

void sp_ghosts_add(sp_ghosts *g, const sp_segment *seg)
{
    uint64_t id = id_of(seg), start = start_of(seg);
    empty(g, slot_of(id)); /* or its start could not be dropped any more */
    g->ids[slot_of(id)] = id;
    g->start_of[slot_of(id)] = start;
    if (start) g->starts[slot_of(start)] = start;
}

void sp_ghosts_drop(sp_ghosts *g, const sp_digest *digest)
{
    uint64_t id = id_of(&(sp_segment){.id = *digest});
    if (g->ids[slot_of(id)] == id) empty(g, slot_of(id));
}

bool sp_ghosts_has(const sp_ghosts *g, const sp_segment *seg)
{
    uint64_t id = id_of(seg);
    return g->ids[slot_of(id)] == id;
}

bool sp_ghosts_has_start(const sp_ghosts *g, const sp_segment *seg)
{
    uint64_t start = start_of(seg);
    return start && g->starts[slot_of(start)] == start;
}
