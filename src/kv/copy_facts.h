/* copy_facts.h -- the name and the known facts of a copy, for the ledger and all tiers. */
#ifndef SP_KV_COPY_FACTS_H
#define SP_KV_COPY_FACTS_H

#include "base/hash.h"

/* What a copy was computed after. Stores write these numbers to disk. */
typedef enum sp_copy_kind {
    SP_COPY_PLAIN = 0,  /* the head (system prompt) alone */
    SP_COPY_FUSED = 1,  /* the head and similar chunks */
    SP_COPY_PATH = 2,   /* its whole path of segments, instead of the head */
    SP_COPY_PLACED = 3, /* what preceded it in some prompt; a chunk has several */
} sp_copy_kind;

/* Measured while a copy is computed; attention is summed over tokens and averaged over layers and heads. Source:
 * Cache-Craft sections 3.1 and 3.2.1 (C2, C4, C5). */
typedef struct sp_copy_stats {
    const float *inter;   /* [n_before] attention to each of `before`; NULL: not measured */
    float cci;            /* Cache Context Impact, 0.5 .. 1 */
    const int32_t *order; /* [n] tokens by falling attention to what precedes the chunk */
} sp_copy_stats;

/* The description of a copy of n tokens: ledger, moves and records hold it, and only store/record.c writes it to
 * files. A new fact is a field here, a line there, and, if it is an array, a line of sp_copy_facts_own. */
typedef struct sp_copy_facts {
    sp_copy_kind kind;
    bool exact;    /* equals a plain forward pass after `before` (or the path), and the segment */
    sp_digest id;  /* content id of the segment */
    uint64_t head; /* sp_head_key of the first n_head of `before`; in the ledger 0 of a path copy */
    const sp_digest *before; /* [n_before] segments that it was computed after, in order */
    int n_before, n_head;    /* the first n_head of them precede the first chunk */
    const sp_digest *below;  /* [n_below] what else its KV depends on: what the copies that it was computed over, or a
                                patch is stored over, were computed after; or sp_copy_below_all */
    int n_below;
    int32_t at;              /* position that the first key was rotated for */
    float cost_us;           /* time to compute it; 0: unknown */
    sp_copy_stats stats;
    const int32_t *heavy; /* [n] tokens by falling attention received; NULL: not measured */
    uint64_t note_bytes;  /* of one layer's notes (kv/notes.h) in a tier; 0: none */
} sp_copy_facts;

/* With more than so many, `below` is this id alone, which no segment has: the copy depends on all segments. */
enum { SP_COPY_MOST_BELOW = 256 };
extern const sp_digest sp_copy_below_all;

static inline bool sp_copy_is_measured(const sp_copy_facts *f)
{
    return f->stats.inter != NULL;
}

/* sp_copy_key_head -- names a copy in a tier, with kind and id: a hash of its head; for a placed copy, of all that it
 * was computed after. Pre: `before` of a placed copy is known. */
uint64_t sp_copy_key_head(const sp_copy_facts *f);

/* sp_copy_facts_own -- copies f and its arrays to memory [sp_copy_facts_bytes], aligned to 16 bytes. */
size_t sp_copy_facts_bytes(const sp_copy_facts *f, int32_t n);
void sp_copy_facts_own(const sp_copy_facts *f, int32_t n, void *memory, sp_copy_facts *out);

enum { SP_COPY_STORED_KINDS = SP_COPY_PLACED + 1 };

#endif
