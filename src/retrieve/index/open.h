/* open.h -- an open index, and hits from any query over it. */
#ifndef SP_RETRIEVE_INDEX_OPEN_H
#define SP_RETRIEVE_INDEX_OPEN_H

#include "base/mem.h"
#include "retrieve/db/db.h"
#include "retrieve/vectors/vectors.h"
#include "spolia.h"

struct sp_index {
    sqlite3 *db;
    char *path;
    int64_t n_chunks;
    bool has_grams;
    int64_t n_noted;     /* questions that sp_index_note_question has counted (together.c) */
    bool has_links;      /* the table of chunks and the entities in their triples is built (linked.c) */
    sp_vectors *vectors; /* of its chunks, once sp_embedding_near has read them; or NULL */
};

/* The columns of a hit, from view hits AS h. */
#define SP_HIT_COLUMNS(score)                                                                      \
    "h.id, " score ", h.file, h.title, h.text, h.first_line, h.last_line, h.page, h.root"

/* sp_hits_take -- runs a statement to its end; its columns are SP_HIT_COLUMNS. */
sp_err sp_hits_take(sp_index *ix, sqlite3_stmt *s, sp_hits *out) SP_MUST_CHECK;

/* sp_index_rank -- the k best chunks for a text, without chunk `like` and its copies; like 0: all chunks. */
sp_err sp_index_rank(sp_index *ix, const char *question, int k, int64_t like,
                     sp_hits *out) SP_MUST_CHECK;

#endif
