/* token_set.h -- a vocabulary as a trie over the bytes of its tokens, for grammar.c. */
#ifndef SP_ENGINE_GRAMMAR_TOKEN_SET_H
#define SP_ENGINE_GRAMMAR_TOKEN_SET_H

#include "engine/grammar/grammar.h"
#include "model/tokenizer/vocab_spec.h"

enum { SP_TRIE_MAX_DEPTH = 64 }; /* no grammar allows a longer token */

/* Nodes in preorder: a child follows its parent, and `after` is the node after the subtree. The tokens
 * that end at a node are ids[tokens .. tokens of the next node). */
typedef struct sp_token_trie_node {
    int32_t after, tokens;
    uint8_t byte, depth; /* depth 1: a first byte */
} sp_token_trie_node;

typedef struct sp_token_trie {
    sp_token_trie_node *nodes; /* [n_nodes + 1] */
    int32_t *ids;
    int32_t n_nodes, n_ids;
} sp_token_trie;

struct sp_token_set {
    size_t n;
    sp_text_view *pieces; /* [n] */
    bool *end;            /* [n] tokens that end a text */
    uint64_t *plain;      /* bits: tokens of whole characters that any JSON string may hold */
    uint16_t *n_chars;    /* [n] characters of plain tokens; 0: not plain */
    sp_token_trie all, special; /* tokens with bytes; of these, those that are not plain */
    sp_arena arena;
};

static inline void sp_token_bit_set(uint64_t *bits, int32_t id)
{
    bits[id >> 6] |= (uint64_t)1 << (id & 63);
}

static inline bool sp_token_bit(const uint64_t *bits, int32_t id)
{
    return bits[id >> 6] >> (id & 63) & 1;
}

#endif
