/* chunker.h -- cuts a document into chunks at headings, paragraphs and sentences. */
#ifndef SP_RETRIEVE_TEXT_CHUNKER_H
#define SP_RETRIEVE_TEXT_CHUNKER_H

#include "base/mem.h"

/* How a document is written, which decides where it may be cut. */
typedef enum sp_syntax {
    SP_SYNTAX_PLAIN,
    SP_SYNTAX_MARKDOWN,
    SP_SYNTAX_RST,
    SP_SYNTAX_CODE, /* source code, and other text made of lines: configuration, table rows */
} sp_syntax;

typedef struct sp_chunk_opts {
    int size_words;    /* no chunk is longer than this many words */
    int overlap_words; /* 0 .. size-1 words at the end of a chunk, repeated in the next */
} sp_chunk_opts;

/* A chunk of a document: text with surrounding blanks removed, and the heading above it. */
typedef struct sp_text_chunk {
    const char *text; /* a slice of the document; valid during the call */
    size_t n;
    int n_words;
    const char *heading; /* nearest heading above, or ""; not NUL-terminated */
    size_t n_heading;
} sp_text_chunk;

typedef sp_err sp_chunk_fn(const sp_text_chunk *c, void *user);

/* sp_chunk_text -- cuts a text. Markdown and RST headings open a new chunk. Every non-blank byte is
 * in some chunk, headings included; characters are never split. Lists, tables and code are kept
 * whole where they fit; source code is cut between top-level definitions, then at blank lines, then
 * at lines; a sentence longer than a chunk is cut at words; overlap never crosses a heading. A word
 * is a run of non-blank characters or one ideograph; runs of more than 64 bytes count as several, so
 * no chunk is ever longer than size_words. An empty or blank text gives no chunk. Cost: O(n).
 * Errors: what fn returns, SP_E_NOMEM, SP_E_ARG for a size < 1 or an overlap outside
 * 0 .. size - 1. */
sp_err sp_chunk_text(const char *text, size_t n, sp_syntax syntax, const sp_chunk_opts *o,
                     sp_chunk_fn *fn, void *user) SP_MUST_CHECK;

#endif
