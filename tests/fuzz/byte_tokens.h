/* byte_tokens.h -- runs a grammar of any kind over tokens of one byte: always one that the mask allows, which accept
 * must take. */
#ifndef TESTS_FUZZ_BYTE_TOKENS_H
#define TESTS_FUZZ_BYTE_TOKENS_H

#include <stdlib.h>

#include "engine/grammar/grammar.h"

static inline void run_bytes(sp_grammar_state *s, int steps)
{
    for (int step = 0; step < steps; step++) {
        const uint64_t *mask = sp_grammar_mask(s);
        int id = -1;
        for (int i = 0, at = step * 37; i < 256 && id < 0; i++, at++)
            if (mask[(at & 255) >> 6] >> (at & 63) & 1) id = at & 255;
        if (id < 0) break;
        if (!sp_grammar_allows(s, id) || !sp_grammar_accept(s, id)) abort();
    }
}

/* run_grammar -- takes g. */
static inline void run_grammar(sp_grammar *g, int steps)
{
    static char bytes[256];
    sp_token_piece pieces[257] = {{0}};
    sp_token_set *v = NULL;
    sp_grammar_state *s = NULL;
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        pieces[i] = (sp_token_piece){.s = &bytes[i], .n = 1};
    }
    pieces[256].end = true;
    if (sp_token_set_create(pieces, 257, &v) == SP_OK && sp_grammar_start(g, v, &s) == SP_OK)
        run_bytes(s, steps);
    sp_grammar_stop(s);
    sp_token_set_destroy(v);
    sp_grammar_destroy(g);
}

#endif
