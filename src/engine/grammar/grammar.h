/* grammar.h -- restricts generation to JSON that a schema accepts, to one of several texts, or to what
 * a grammar or a regular expression describes.
 *
 * Three floors: a source (json_schema.c, or gbnf.c and regex.c through tree.c) is compiled into a
 * pushdown automaton over bytes (grammar_int.h); run.c runs it and numbers the states of a text;
 * grammar.c walks the trie of the vocabulary (token_set.c) with the state to find the tokens that keep the
 * text a beginning of a valid one. An end token is allowed where the text is complete.
 *
 * docs/server.md, "JSON schemas", has the supported keywords and the form of generated JSON. Other keywords are
 * refused by name and path. Generated JSON is a subset of what the schema accepts.
 */
#ifndef SP_ENGINE_GRAMMAR_GRAMMAR_H
#define SP_ENGINE_GRAMMAR_GRAMMAR_H

#include <jansson.h>

#include "model/tokenizer/tokenizer.h"
#include "spolia.h"

typedef struct sp_token_set sp_token_set;
typedef struct sp_grammar_state sp_grammar_state;

/* sp_grammar_create -- NULL: any JSON object. The schema is not kept.
 * Errors: SP_E_ARG, SP_E_UNSUPPORTED (a keyword, with its path), SP_E_LIMIT, SP_E_NOMEM. */
sp_err sp_grammar_create(json_t *schema, sp_grammar **out) SP_MUST_CHECK;
/* sp_grammar_create_as -- o as in sp_grammar_compile, except that the schema is already parsed; NULL: any
 * JSON object. */
sp_err sp_grammar_create_as(json_t *schema, const sp_grammar_opts *o,
                            sp_grammar **out) SP_MUST_CHECK;

/* A sorted vocabulary; one for each tokenizer, shared by all threads. */
typedef struct sp_token_piece {
    const char *s;
    size_t n; /* 0: never allowed, unless it is an end token */
    bool end;
} sp_token_piece;

sp_err sp_token_set_create(const sp_token_piece *pieces, size_t n,
                           sp_token_set **out) SP_MUST_CHECK;
sp_err sp_token_set_of(const sp_tokenizer *t, sp_token_set **out) SP_MUST_CHECK;
void sp_token_set_destroy(sp_token_set *v);

/* sp_grammar_start -- the state of one text; borrows both. Owns: sp_grammar_stop. */
sp_err sp_grammar_start(const sp_grammar *g, const sp_token_set *v,
                        sp_grammar_state **out) SP_MUST_CHECK;
void sp_grammar_stop(sp_grammar_state *s);
/* sp_grammar_mask -- a bit for each token, set if it may come next; borrowed until the next call. If no
 * token can continue the text, only end tokens are allowed.
 * Cost: a table look-up for each prefix of the vocabulary that the state can read; inside a JSON string only
 * for tokens that are not plain characters. The mask of an unchanged state is kept. Allocates nothing. */
const uint64_t *sp_grammar_mask(sp_grammar_state *s);
/* sp_grammar_n_tokens -- the number of bits of the mask. */
size_t sp_grammar_n_tokens(const sp_grammar_state *s);
/* sp_grammar_allows -- the token's bit of the mask. Cost: O(bytes of the token), except for end tokens. */
bool sp_grammar_allows(sp_grammar_state *s, int32_t id);
/* sp_grammar_accept -- appends a token to the text. false: the token is not allowed. */
bool sp_grammar_accept(sp_grammar_state *s, int32_t id);
/* sp_grammar_complete -- whether the text may end here. */
bool sp_grammar_complete(const sp_grammar_state *s);

#endif
