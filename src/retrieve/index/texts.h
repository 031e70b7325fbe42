/* texts.h -- documents that come from a caller instead of a
 * folder: their chunks, and an index of chunks in memory. */
#ifndef SP_RETRIEVE_INDEX_TEXTS_H
#define SP_RETRIEVE_INDEX_TEXTS_H

#include "base/mem.h"
#include "spolia.h"

typedef struct sp_text_source {
    const char *name;  /* a file's name, whose suffix names the format; NULL: plain text */
    const char *title; /* NULL: the document's own, for files */
    const char *data;
    size_t n;
    int size_words, overlap_words; /* of a chunk */
} sp_text_source;

/* One chunk, valid for the call; not NUL-terminated. Its title is "Document > Heading", or one of both. */
typedef struct sp_text_piece {
    const char *title, *text;
    size_t n_title, n_text;
} sp_text_piece;

typedef sp_err sp_text_piece_fn(const sp_text_piece *p, void *user);

/* sp_text_pieces -- the chunks of a document, in order, as sp_index_build cuts them.
 * Errors: SP_E_UNSUPPORTED (a format that has no reader, a damaged file, text that is not UTF-8),
 * SP_E_LIMIT, SP_E_ARG (sizes), SP_E_NOMEM, and what fn returns. */
sp_err sp_text_pieces(const sp_text_source *s, sp_text_piece_fn *fn, void *user) SP_MUST_CHECK;

/* sp_texts_index -- an index of chunks in memory; chunk i has the id i + 1. Owns: sp_index_close. */
typedef struct sp_index_text {
    const char *title, *text;
} sp_index_text;
sp_err sp_texts_index(const sp_index_text *v, int n, sp_index **out) SP_MUST_CHECK;

#endif
