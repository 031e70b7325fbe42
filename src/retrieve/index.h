/* index.h -- a folder of documents as chunks in one SQLite file, searched with BM25 (FTS5). */
#ifndef SP_RETRIEVE_INDEX_H
#define SP_RETRIEVE_INDEX_H

#include "retrieve/chunker.h"

typedef struct sp_index sp_index;

typedef struct sp_index_stats {
    int64_t n_files, n_chunks, n_unchanged, n_removed, n_skipped, n_bytes;
} sp_index_stats;

/* Called after each file; done/total in files. Return false to cancel. */
typedef bool sp_index_progress(const char *file, int64_t done, int64_t total, void *user);

/* sp_index_build -- reads *.txt *.md *.markdown *.jsonl *.html *.htm below `dir` (recursively, sorted)
 * into the SQLite file `out_path`, created or brought up to date: files with the same size, time and
 * SHA-256 are kept, vanished ones removed. JSONL: one document a line, fields title and text (or
 * content, contents); a bad line is an error naming file and line. HTML: visible text by libxml2,
 * headings kept. Unreadable files and invalid UTF-8 are skipped with a warning (counted). One
 * transaction: an interrupted build leaves the old index.
 * Errors: SP_E_IO, SP_E_FORMAT, SP_E_CANCELED, SP_E_ARG. */
sp_err sp_index_build(const char *dir, const char *out_path, const sp_chunk_opts *o,
                      sp_index_progress *progress, void *user, sp_index_stats *stats) SP_MUST_CHECK;

/* sp_index_open -- read-only. Errors: SP_E_IO; SP_E_FORMAT when it is no index of ours or another version. */
sp_err sp_index_open(const char *path, sp_index **out) SP_MUST_CHECK;
void sp_index_close(sp_index *ix);
int64_t sp_index_n_chunks(const sp_index *ix);

typedef struct sp_hit {
    int64_t id;
    double score;      /* BM25, higher is better */
    const char *file;  /* relative to the indexed folder */
    const char *title; /* of the document or heading; may be "" */
    const char *text;
} sp_hit;

typedef struct sp_hits {
    sp_hit *v;
    int n;
    sp_arena arena; /* holds the strings */
} sp_hits;

/* sp_index_search -- the k best chunks for a question in plain words: best first, ties by id. Words are
 * matched after stemming, any of them; nothing in the question is taken as query syntax. No match is
 * an empty list. Thread: one at a time on one sp_index. Owns: sp_hits_fini. */
sp_err sp_index_search(sp_index *ix, const char *question, int k, sp_hits *out) SP_MUST_CHECK;
void sp_hits_fini(sp_hits *h);

#endif
