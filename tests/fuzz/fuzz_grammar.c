/* GBNF, or a regular expression where the first byte is odd, from any bytes. What compiles must run: tokens of one
 * byte, always one that the mask allows, and accept must agree with the mask. */
#include <stdlib.h>
#include <string.h>

#include "engine/grammar.h"

static void run(const sp_grammar *g, const sp_token_set *v)
{
    sp_grammar_state *s;
    if (sp_grammar_start(g, v, &s) != SP_OK) return;
    for (int step = 0; step < 100; step++) {
        const uint64_t *mask = sp_grammar_mask(s);
        int id = -1;
        for (int i = 0, at = step * 37; i < 256 && id < 0; i++, at++)
            if (mask[(at & 255) >> 6] >> (at & 63) & 1) id = at & 255;
        if (id < 0) break;
        if (!sp_grammar_accept(s, id)) abort();
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
    if (n < 1) return 0;
    char *text = calloc(n, 1); /* the bytes after the first, and a NUL */
    if (!text) return 0;
    memcpy(text, data + 1, n - 1);
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        pieces[i] = (sp_token_piece){.s = &bytes[i], .n = 1};
    }
    pieces[256].end = true;
    sp_grammar_opts o = {.gbnf = data[0] & 1 ? NULL : text, .regex = data[0] & 1 ? text : NULL};
    if (sp_grammar_compile(&o, &g) == SP_OK && sp_token_set_create(pieces, 257, &v) == SP_OK)
        run(g, v);
    sp_token_set_destroy(v);
    sp_grammar_destroy(g);
    free(text);
    return 0;
}
