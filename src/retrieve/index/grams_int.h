/* grams_int.h -- what the word index cannot find: text without spaces, and parts of identifiers. */
#ifndef SP_RETRIEVE_INDEX_GRAMS_INT_H
#define SP_RETRIEVE_INDEX_GRAMS_INT_H

#include "base/mem.h"

/* One gram: letters, marks and digits, ASCII in lower case. prefix: any gram with this prefix. */
typedef sp_err sp_gram_fn(const char *s, size_t n, bool prefix, void *user);

typedef enum sp_gram_source {
    SP_GRAMS_PROSE,
    SP_GRAMS_CODE,
    SP_GRAMS_QUESTION,
} sp_gram_source;

/* sp_grams_each -- the grams of a text; n bytes of UTF-8 (bad bytes separate words). grams.c says which
 * grams each source has. Errors: SP_E_NOMEM, and what fn returns. */
sp_err sp_grams_each(const char *s, size_t n, sp_gram_source source, sp_gram_fn *fn,
                     void *user) SP_MUST_CHECK;

/* sp_grams -- the grams of a document's text, with blanks between; empty for most English prose. */
sp_err sp_grams(const char *s, size_t n, bool code, sp_bytes *out) SP_MUST_CHECK;

/* sp_is_unspaced -- whether a character belongs to a script that is matched by pairs. */
bool sp_is_unspaced(int32_t c);

/* A question as two FTS5 expressions, NUL-terminated; "" if it has no terms. */
typedef struct sp_query {
    sp_bytes words; /* for table words */
    sp_bytes grams; /* for table grams */
} sp_query;

sp_err sp_query_make(const char *question, sp_query *out) SP_MUST_CHECK;
void sp_query_fini(sp_query *q);

#endif
