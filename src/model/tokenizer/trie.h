/* trie.h -- finds all tokens that a text begins with, byte by byte.
 *
 * Nodes are in order of depth; the children of a node follow each other, sorted by byte. Node 0 is the root. */
#ifndef SP_MODEL_TRIE_H
#define SP_MODEL_TRIE_H

#include "base/mem.h"
#include "model/tokenizer/vocab_spec.h"

typedef struct sp_trie_key {
    sp_text_view text;
    int32_t id;
} sp_trie_key;

typedef struct sp_trie_node {
    uint32_t child; /* the first one */
    uint16_t n;     /* children, 0 .. 256 */
    uint8_t byte;   /* the byte that leads here */
    int32_t id;     /* of the token that ends here, or -1 */
} sp_trie_node;

typedef struct sp_trie {
    const sp_trie_node *nodes; /* in the arena */
} sp_trie;

/* sp_trie_build -- sorts the keys; of equal texts the lowest id counts, empty ones are skipped. */
sp_err sp_trie_build(sp_trie *t, sp_arena *arena, sp_trie_key *keys, size_t n) SP_MUST_CHECK;

/* sp_trie_step -- the child of a node by its byte; 0: there is none. */
static inline uint32_t sp_trie_step(const sp_trie *t, uint32_t node, uint8_t byte)
{
    uint32_t lo = t->nodes[node].child, hi = lo + t->nodes[node].n;
    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo) / 2;
        if (t->nodes[mid].byte == byte) return mid;
        if (t->nodes[mid].byte < byte)
            lo = mid + 1;
        else
            hi = mid;
    }
    return 0;
}

#endif
