/* A JSON schema from any bytes. What compiles must run: tokens of one byte, always one that the mask
 * allows, and accept must agree with the mask. */
#include <stdlib.h>

#include "engine/grammar.h"

static void require(bool holds)
{
    if (!holds) abort();
}

static void run(const sp_grammar *g, const sp_token_set *v)
{
    sp_grammar_state *s;
    if (sp_grammar_start(g, v, &s) != SP_OK) return;
    for (int step = 0; step < 200; step++) {
        const uint64_t *mask = sp_grammar_mask(s);
        int id = -1;
        for (int i = 0, at = step * 37; i < 256 && id < 0; i++, at++)
            if (mask[(at & 255) >> 6] >> (at & 63) & 1) id = at & 255;
        if (id < 0) break;
        require(sp_grammar_accept(s, id));
    }
    sp_grammar_stop(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static char bytes[256];
    sp_token_piece pieces[257] = {{0}};
    sp_token_set *v = NULL;
    sp_grammar *g = NULL;
    json_t *j = json_loadb((const char *)data, n, JSON_DECODE_ANY, NULL);
    if (!j) return 0;
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        pieces[i] = (sp_token_piece){.s = &bytes[i], .n = 1};
    }
    pieces[256].end = true;
    if (sp_grammar_create(j, &g) == SP_OK && sp_token_set_create(pieces, 257, &v) == SP_OK)
        run(g, v);
    sp_token_set_destroy(v);
    sp_grammar_destroy(g);
    json_decref(j);
    return 0;
}
