/* spolia_index.h -- retrieval: documents -> an index in one file -> the best chunks for a question. spolia.h includes
 * it. */
#ifndef SPOLIA_INDEX_H
#define SPOLIA_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spolia_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Called after each file, and every thousand chunks within one; done and total in files. Return
 * false to cancel. */
typedef bool sp_index_progress(const char *file, int64_t done, int64_t total, void *user);

typedef struct sp_index_opts {
    int size_words;    /* most words in a chunk; 0: the index's setting, or 150 for a new one */
    int overlap_words; /* 0 .. size-1 words at the end of a chunk, repeated in the next */
    bool add;          /* folders that the index does not have yet are added to it */
    bool replace;      /* removes folders that are not named; also rebuilds an index of an older
                          version */
    bool moved;        /* the named folder is one of the index's folders that has moved */
    bool strict;       /* a bad line of a JSONL file is an error instead of being skipped */
    sp_index_progress *progress;
    void *user;
} sp_index_opts;

#define SP_INDEX_SUFFIXES 8

typedef struct sp_index_stats {
    int64_t n_files, n_chunks, n_bytes; /* of the folders that were named */
    int64_t n_unchanged, n_removed;     /* files */
    int64_t n_skipped;   /* files that cannot be read; each has a warning in the log */
    int64_t n_bad_lines; /* of JSONL files; skipped */
    int64_t n_other;     /* files in formats without a reader, by suffix: */
    struct {
        char suffix[16]; /* with its period, or "" */
        int64_t n;
    } other[SP_INDEX_SUFFIXES]; /* the most frequent first; n 0 ends the list */
    int64_t n_all_files, n_all_chunks; /* of the whole index, set at the end */
} sp_index_stats;

/* sp_index_build -- creates or updates an index: a SQLite file with the chunks of documents. `roots` are folders, read
 * recursively, and single files. The index remembers them: n_roots 0 updates all of them; a new root is refused unless
 * `add`, `replace` or `moved` says what to do.
 * Formats, by suffix: text, Markdown, reStructuredText, HTML, JSONL (one document a line, fields
 * title and text, content or contents), CSV and TSV, PDF, DOCX, XLSX, PPTX, ODT, ODS, ODP, EPUB, RTF,
 * JSON, XML, mail, notebooks, any of them packed with gzip (.gz), and source code. Files
 * with unchanged size and time, or unchanged SHA-256, are kept; vanished ones are removed. Linked
 * folders are read once. The build is one transaction: if interrupted, it leaves the old index. o NULL:
 * defaults. *stats (may be NULL) is current while it runs.
 * Errors: SP_E_IO, SP_E_FORMAT, SP_E_CANCELED, SP_E_ARG. */
SP_API sp_err sp_index_build(const char *const *roots, int n_roots, const char *out_path,
                             const sp_index_opts *o, sp_index_stats *stats);

typedef struct sp_index sp_index;

typedef struct sp_hit {
    int64_t id;
    double score;      /* BM25, higher is better */
    const char *file;  /* relative to its root; begins with the root's name if there are several */
    const char *title; /* of the document or heading; may be "" */
    const char *text;
    int64_t first_line, last_line; /* in the file, from 1; 0: its format has no lines */
    int64_t page;                  /* of a PDF, from 1; 0 in other formats */
    const char *root;              /* absolute path of the folder, or of the file */
} sp_hit;

typedef struct sp_hits {
    sp_hit *v;
    int n;
    void *strings; /* what v points into */
} sp_hits;

/* sp_index_open -- opens an index for reading. Errors: SP_E_IO; SP_E_FORMAT when the file is not an index, is damaged,
 * or has another version. */
SP_API sp_err sp_index_open(const char *path, sp_index **out);
SP_API void sp_index_close(sp_index *ix);
SP_API int64_t sp_index_n_chunks(const sp_index *ix);
/* sp_index_search -- the k best chunks for a question in plain words: best first, ties by id. A chunk needs to match
 * one word, after stemming (English) and without accents; scripts without spaces (Chinese, Japanese, Thai ...) and
 * Korean match by pairs of characters, identifiers by their parts. The question has no query syntax. Without a match
 * the list is empty.
 * Thread: one at a time for one index. Owns: sp_hits_fini. */
SP_API sp_err sp_index_search(sp_index *ix, const char *question, int k, sp_hits *out);
SP_API void sp_hits_fini(sp_hits *h);
/* sp_hits_copy -- copies hits and their strings. Errors: SP_E_NOMEM. Owns: sp_hits_fini. */
SP_API sp_err sp_hits_copy(const sp_hits *h, sp_hits *out);
/* sp_hits_distinct -- keeps the k best hits without near-duplicates, which are hits whose words, names, numbers and
 * negations occur in a better one that is kept. h is sorted, best first. *n_left_out (may be NULL): near-duplicates
 * that were skipped. Errors: SP_E_ARG, SP_E_NOMEM. */
SP_API sp_err sp_hits_distinct(sp_hits *h, int k, int *n_left_out);
/* sp_index_chunk -- the chunk with the lowest id above `after` (0: the first), as a list of one;
 * an empty list at the end. */
SP_API sp_err sp_index_chunk(sp_index *ix, int64_t after, sp_hits *out);
/* sp_index_document -- the chunks of the first document whose file or title is `name`. */
SP_API sp_err sp_index_document(sp_index *ix, const char *name, sp_hits *out);
/* sp_index_similar -- the k chunks most similar to chunk `id`, without itself and exact copies of its text. source:
 *   "bm25"       its own words are the question; the default (NULL)
 *   "neighbour"  the chunks before and after it in its document, nearest first
 *   "vectors"    the nearest by meaning, in an index that has vectors (sp_index_embed)
 *   "together"   found most often by the same questions (sp_index_note_question); as "bm25" if none found it
 *   "graph"      their triples, in a graph in the same file, name the same entities, rare ones first; a triple's
 *                source is FILE#ID of its chunk; as "bm25" if none do
 *   "random"     any, the same ones each time: a baseline
 * Errors: SP_E_ARG for another source, an unknown id, "together" without questions, or "graph" without triples of
 * chunks; SP_E_NOTFOUND without vectors. Source: FusionRAG section 3.1. */
SP_API sp_err sp_index_similar(sp_index *ix, const char *source, int64_t id, int k, sp_hits *out);
/* sp_index_note_question -- counts the k best chunks for a question as found together, until the index is closed.
 * Nothing is written to its file. Errors: as sp_index_search. */
SP_API sp_err sp_index_note_question(sp_index *ix, const char *question, int k);

#ifdef __cplusplus
}
#endif

#endif
