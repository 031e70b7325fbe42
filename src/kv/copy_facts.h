/* copy_facts.h -- what a copy is called and what is known of it, for the ledger and for tiers alike. */
#ifndef SP_KV_COPY_FACTS_H
#define SP_KV_COPY_FACTS_H

#include "base/hash.h"

/* What a copy was computed after. Stores have these numbers on disk. */
typedef enum sp_copy_kind {
    SP_COPY_PLAIN = 0,  /* the head (system prompt) alone */
    SP_COPY_FUSED = 1,  /* the head and similar chunks */
    SP_COPY_PATH = 2,   /* its whole path of segments, which takes the place of the head */
    SP_COPY_PLACED = 3, /* what preceded it in some prompt; a chunk has several */
} sp_copy_kind;

/* Measured while a copy was computed; attention is summed over tokens, with the mean of layers and
 * heads. Source: Cache-Craft sections 3.1 and 3.2.1 (C2, C4, C5). */
typedef struct sp_copy_stats {
    const float *inter;   /* [n_before] attention to each of `before`; NULL: not measured */
    float cci;            /* Cache Context Impact, 0.5 .. 1 */
    const int32_t *order; /* [n] tokens by falling attention to what precedes the chunk */
} sp_copy_stats;

/* The one description of a copy of n tokens: ledger, moves and records hold it, and store/record.c alone writes it
 * to files. A new fact is a field here, a line there, and a pack of sp_copy_facts_own if it is an array. */
typedef struct sp_copy_facts {
    sp_copy_kind kind;
    bool exact;    /* equals a plain forward pass after `before` (or the path), and the segment */
    sp_digest id;  /* content id of the segment */
    uint64_t head; /* sp_head_key of the first n_head of `before`; in the ledger 0 of a path copy */
    const sp_digest *before; /* [n_before] segments that it was computed after, in order */
    int n_before, n_head;    /* the first n_head of them precede the first chunk */
    int32_t at;              /* position that the first key was rotated for */
    float cost_us;           /* time that computing it took; 0: unknown */
    sp_copy_stats stats;
    const int32_t *heavy; /* [n] tokens by falling attention received; NULL: not measured */
    uint64_t note_bytes;  /* of one layer's notes (kv/notes.h) in a tier; 0: none */
} sp_copy_facts;

static inline bool sp_copy_is_measured(const sp_copy_facts *f)
{
    return f->stats.inter != NULL;
}

/* sp_copy_key_head -- with kind and id it names a copy in a tier: its head; of a placed copy all that it was computed
 * after. Pre: `before` of a placed copy is known. */
uint64_t sp_copy_key_head(const sp_copy_facts *f);

/* sp_copy_facts_own -- *out: the same with its arrays in memory [sp_copy_facts_bytes], aligned to 16 bytes. */
size_t sp_copy_facts_bytes(const sp_copy_facts *f, int32_t n);
void sp_copy_facts_own(const sp_copy_facts *f, int32_t n, void *memory, sp_copy_facts *out);

enum { SP_COPY_STORED_KINDS = SP_COPY_PLACED + 1 };

#endif
