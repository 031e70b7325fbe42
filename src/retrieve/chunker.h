/* chunker.h -- cuts a document into chunks at headings, paragraphs and sentences. */
#ifndef SP_RETRIEVE_CHUNKER_H
#define SP_RETRIEVE_CHUNKER_H

#include "base/mem.h"

typedef struct sp_chunk_opts {
    int size_words;    /* aim: no chunk longer than this many words, unless one sentence is */
    int overlap_words; /* words of the end of a chunk repeated at the start of the next, whole sentences */
} sp_chunk_opts;

/* A chunk of a document: text with surrounding blanks removed, and the heading it stands under. */
typedef struct sp_text_chunk {
    const char *text; /* borrowed from the document or the chunker */
    size_t n;
    const char *heading; /* nearest heading above, or "" */
    size_t n_heading;
} sp_text_chunk;

typedef sp_err sp_chunk_fn(const sp_text_chunk *c, void *user);

/* sp_chunk_text -- plain text or Markdown (headings "# ..." open a new chunk). An empty or blank text
 * gives no chunk. Cost: O(n). Errors: what fn returns, SP_E_ARG for sizes < 1. */
sp_err sp_chunk_text(const char *text, size_t n, bool markdown, const sp_chunk_opts *o, sp_chunk_fn *fn,
                     void *user) SP_MUST_CHECK;

#endif
