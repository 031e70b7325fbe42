/* grammar_int.h -- the automaton that json_schema.c builds and grammar.c runs. */
#ifndef SP_ENGINE_GRAMMAR_INT_H
#define SP_ENGINE_GRAMMAR_INT_H

#include "engine/grammar.h"

typedef enum sp_gram_kind {
    SP_GRAM_BYTE,  /* a byte lo .. hi, then next */
    SP_GRAM_SPLIT, /* next or alt */
    SP_GRAM_CALL,  /* the rule that begins at alt, then next */
    SP_GRAM_CHARS, /* min .. max characters of a JSON string, then next */
    SP_GRAM_RETURN,
} sp_gram_kind;

typedef struct sp_gram_node {
    sp_gram_kind kind;
    uint8_t lo, hi;
    int32_t next, alt;
    int32_t min, max; /* max -1: no limit */
} sp_gram_node;

struct sp_grammar {
    SP_VEC(sp_gram_node) nodes;
    int32_t start;
};

/* sp_grammar_build -- fills nodes and start (json_schema.c). */
sp_err sp_grammar_build(sp_grammar *g, json_t *schema, const sp_grammar_opts *o) SP_MUST_CHECK;

#endif
