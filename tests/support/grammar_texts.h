/* grammar_texts.h -- which texts a grammar accepts, byte by byte, and how it refuses what it cannot be made of. */
#ifndef SP_TESTS_GRAMMAR_TEXTS_H
#define SP_TESTS_GRAMMAR_TEXTS_H

#include "support/check.h"

#include "engine/grammar/grammar.h"

enum { END = 256, N_TOKENS }; /* a token for each byte, and an end */

static inline sp_token_set *byte_set(void)
{
    static char bytes[256];
    sp_token_piece pieces[N_TOKENS] = {{0}};
    sp_token_set *v;
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        pieces[i] = (sp_token_piece){.s = &bytes[i], .n = 1};
    }
    pieces[END].end = true;
    assert_ok(sp_token_set_create(pieces, N_TOKENS, &v));
    return v;
}

static inline sp_grammar_opts gbnf(const char *s)
{
    return (sp_grammar_opts){.gbnf = s};
}

static inline sp_grammar_opts regex(const char *s)
{
    return (sp_grammar_opts){.regex = s};
}

static inline sp_grammar *compiled(sp_grammar_opts o)
{
    sp_grammar *g;
    if (sp_grammar_compile(&o, &g) != SP_OK) fail_msg("%s", sp_error_detail());
    return g;
}

/* takes -- byte by byte; the mask must agree with what is accepted. */
static inline bool takes(const sp_grammar *g, const char *text)
{
    sp_token_set *v = byte_set();
    sp_grammar_state *s;
    bool ok = true;
    assert_ok(sp_grammar_start(g, v, &s));
    for (; *text && ok; text++) {
        uint8_t b = (uint8_t)*text;
        ok = sp_grammar_mask(s)[b >> 6] >> (b & 63) & 1;
        assert_int_equal(sp_grammar_accept(s, b), ok);
    }
    ok = ok && sp_grammar_complete(s);
    sp_grammar_stop(s);
    sp_token_set_destroy(v);
    return ok;
}

static inline bool accepts(sp_grammar_opts o, const char *text)
{
    sp_grammar *g = compiled(o);
    const bool ok = takes(g, text);
    sp_grammar_destroy(g);
    return ok;
}

static inline void refuses(sp_grammar_opts o, sp_err code, const char *said)
{
    sp_grammar *g = NULL;
    assert_int_equal(sp_grammar_compile(&o, &g), code);
    assert_null(g);
    if (!strstr(sp_error_detail(), said)) fail_msg("\"%s\" lacks \"%s\"", sp_error_detail(), said);
}

#endif
