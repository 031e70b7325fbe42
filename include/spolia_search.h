/* spolia_search.h -- search by words and by meaning: vectors beside an index's BM25. spolia.h includes it. */
#ifndef SPOLIA_SEARCH_H
#define SPOLIA_SEARCH_H

#include "spolia_embed.h"
#include "spolia_index.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Called after each batch of chunks, then while a graph is built. Return false to cancel. */
typedef bool sp_index_embed_progress(int64_t done, int64_t total, void *user);

typedef struct sp_index_embed_opts {
    const char *kind; /* how vectors are searched: "flat" (all of them), "ivf" (those of the nearest clusters), "hnsw"
                         (a graph), "chroma:URL" (a Chroma server: http://HOST:PORT/COLLECTION); NULL: the index's
                         kind, for a new index flat up to 20,000 chunks, then hnsw */
    sp_index_embed_progress *progress; /* or NULL */
    void *user;
    int n_threads; /* for clusters and graphs; 0: one for each core */
} sp_index_embed_opts;

typedef struct sp_index_embed_stats {
    int64_t n_chunks, n_embedded;
    int64_t n_kept;    /* chunks whose text had a vector */
    int64_t n_removed; /* vectors of removed chunks */
    const char *kind;
} sp_index_embed_stats;

/* sp_index_embed -- computes the missing vectors of an index's chunks and stores them in the index's file, an HNSW
 * graph in "<path>.graph". Vectors of another encoder are replaced. If interrupted, finished vectors are kept. o and
 * stats may be NULL. Errors: SP_E_IO, SP_E_FORMAT, SP_E_ARG (kind), SP_E_CANCELED, SP_E_NOMEM. */
SP_API sp_err sp_index_embed(const char *path, sp_embedder *e, const sp_index_embed_opts *o,
                             sp_index_embed_stats *stats);

/* An index that is open for searches. */
typedef struct sp_retriever sp_retriever;

/* sp_retriever_open -- e: embeds questions, must outlive the retriever; NULL: search by words only. An index without
 * vectors is searched by words. Errors: those of sp_index_open; SP_E_ARG: its vectors are from another encoder. */
SP_API sp_err sp_retriever_open(const char *path, sp_embedder *e, sp_retriever **out);
SP_API void sp_retriever_close(sp_retriever *f);
typedef struct sp_retriever_info {
    int64_t n_documents; /* files */
    int64_t n_chunks, n_vectors;
    int64_t n_bytes;     /* of the files */
    const char *kind;    /* "flat", "ivf", "hnsw", "chroma"; "": no vectors, it searches by words */
} sp_retriever_info;

SP_API sp_retriever_info sp_retriever_describe(const sp_retriever *f);

/* Called after each stage of a search with the best chunks so far; borrowed. Return false to end the search. */
typedef bool sp_retrieve_stage_fn(const sp_hits *best, bool last, void *user);

typedef struct sp_retrieve_query {
    const char *text; /* a question in plain words */
    int k;            /* chunks, at most */
    const char *by;   /* "words" (BM25), "vectors", "hybrid" (both, their scores added); NULL: hybrid where
                         there are vectors */
    const char *const *files; /* [n_files] search only these files and folders; n_files 0: all */
    int n_files;
    const char *const *tags; /* [n_tags] search only documents with one of these tags; n_tags 0: all. Files of an index
                                have the tags of their folder's `.tags` */
    int n_tags;
    int breadth;  /* ivf: clusters to search, hnsw: candidates; 0: a sixteenth of the clusters, 64 */
    int n_stages; /* approximate number of stages of the search by vectors; 0: one */
    bool distinct; /* leave out near-duplicates, as sp_hits_distinct does */
    sp_retrieve_stage_fn *on_stage; /* or NULL */
    void *user;
} sp_retrieve_query;

/* sp_retriever_search -- the best chunks, best first. The score is BM25, the inner product, or (hybrid) BM25 relative
 * to the best chunk's plus the inner product. The result is that of the last stage and does not depend on n_stages.
 * Owns: sp_hits_fini. Thread: any. Errors: SP_E_ARG (k, by; the index has no vectors), SP_E_CANCELED (on_stage),
 * SP_E_IO, SP_E_NOMEM. Source: RAGCache section 6 (staged search). */
SP_API sp_err sp_retriever_search(sp_retriever *f, const sp_retrieve_query *q, sp_hits *out);

/* A file of an index that has chunks. */
typedef struct sp_file_info {
    const char *name;  /* as sp_hit.file */
    const char *tags;  /* from `.tags`, one a line */
    int64_t n_bytes, n_chunks, changed_s; /* changed_s: since 1970 */
} sp_file_info;

typedef struct sp_file_list {
    sp_file_info *v;
    int n;
    void *strings; /* what v points into */
} sp_file_list;

typedef struct sp_file_query {
    const char *name, *after; /* only this file; only files after this one; NULL: all */
    int limit;                /* most files; 0: no limit */
} sp_file_query;

/* sp_retriever_files -- the files of an index, in the order of their names. Owns: sp_file_list_fini. Thread: any.
 * Errors: SP_E_NOTFOUND (name), SP_E_IO, SP_E_NOMEM. */
SP_API sp_err sp_retriever_files(sp_retriever *f, const sp_file_query *q, sp_file_list *out);
SP_API void sp_file_list_fini(sp_file_list *l);

#ifdef __cplusplus
}
#endif
#endif
