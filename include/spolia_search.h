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
                         (a graph), "chroma:URL" (a Chroma server: http://HOST:PORT/COLLECTION); NULL: as the index has
                         it; for a new one flat up to 20,000 chunks, then hnsw */
    sp_index_embed_progress *progress; /* or NULL */
    void *user;
    int n_threads; /* for clusters and graphs; 0: one for each core */
} sp_index_embed_opts;

typedef struct sp_index_embed_stats {
    int64_t n_chunks, n_embedded;
    int64_t n_kept;    /* had their vector, or another chunk of the same text did */
    int64_t n_removed; /* of chunks that are gone */
    const char *kind;
} sp_index_embed_stats;

/* sp_index_embed -- computes the vectors of an index's chunks that have none yet, in the index's file; a graph is in
 * "<path>.graph". Vectors of another encoder are replaced. What is done is kept when it is interrupted. o and stats
 * may be NULL. Errors: SP_E_IO, SP_E_FORMAT, SP_E_ARG (kind), SP_E_CANCELED, SP_E_NOMEM. */
SP_API sp_err sp_index_embed(const char *path, sp_embedder *e, const sp_index_embed_opts *o,
                             sp_index_embed_stats *stats);

/* An index that is open for searches. */
typedef struct sp_retriever sp_retriever;

/* sp_retriever_open -- e: embeds questions, must outlive the retriever; NULL: words alone. An index without vectors is
 * searched by words. Errors: those of sp_index_open; SP_E_ARG: its vectors are another encoder's. */
SP_API sp_err sp_retriever_open(const char *path, sp_embedder *e, sp_retriever **out);
SP_API void sp_retriever_close(sp_retriever *f);
typedef struct sp_retriever_info {
    int64_t n_documents; /* files */
    int64_t n_chunks, n_vectors;
    int64_t n_bytes;     /* of the files */
    const char *kind;    /* "flat", "ivf", "hnsw", "chroma"; "": none, it searches by words */
} sp_retriever_info;

SP_API sp_retriever_info sp_retriever_describe(const sp_retriever *f);

/* Called after each stage of a search with the best chunks so far; borrowed. Return false to end the search. */
typedef bool sp_retrieve_stage_fn(const sp_hits *best, bool last, void *user);

typedef struct sp_retrieve_query {
    const char *text; /* a question in plain words */
    int k;            /* chunks, at most */
    const char *by;   /* "words" (BM25), "vectors", "hybrid" (both, their scores added); NULL: hybrid where
                         there are vectors */
    const char *const *files; /* [n_files] only chunks of these: a file, or a folder and all in it; n_files 0: all */
    int n_files;
    const char *const *tags; /* [n_tags] only chunks of documents with one of these; n_tags 0: all. Files of an index
                                have those of their folder's `.tags` */
    int n_tags;
    int breadth;  /* ivf: clusters that are searched, hnsw: candidates; 0: a sixteenth of the clusters, 64 */
    int n_stages; /* of the search for vectors, about; 0: one */
    bool distinct; /* near-duplicates are left out, as by sp_hits_distinct */
    sp_retrieve_stage_fn *on_stage; /* or NULL */
    void *user;
} sp_retrieve_query;

/* sp_retriever_search -- the best chunks, best first: score is BM25's, the inner product, or, of both, BM25 divided by
 * the best chunk's plus the inner product. What the last stage has is the result, which does not depend on n_stages.
 * Owns: sp_hits_fini. Thread: any. Errors: SP_E_ARG (k, by; vectors that the index has not), SP_E_CANCELED (on_stage),
 * SP_E_IO, SP_E_NOMEM. Source: RAGCache section 6 (staged search). */
SP_API sp_err sp_retriever_search(sp_retriever *f, const sp_retrieve_query *q, sp_hits *out);

/* A file of an index that has chunks. */
typedef struct sp_file_info {
    const char *name;  /* as sp_hit.file */
    const char *tags;  /* of `.tags`, a line each */
    int64_t n_bytes, n_chunks, changed_s; /* changed_s: since 1970 */
} sp_file_info;

typedef struct sp_file_list {
    sp_file_info *v;
    int n;
    void *strings; /* what v points into */
} sp_file_list;

typedef struct sp_file_query {
    const char *name, *after; /* this file alone; files after this one; NULL: all */
    int limit;                /* files, at most; 0: any number */
} sp_file_query;

/* sp_retriever_files -- the files of an index, in the order of their names. Owns: sp_file_list_fini. Thread: any.
 * Errors: SP_E_NOTFOUND (name), SP_E_IO, SP_E_NOMEM. */
SP_API sp_err sp_retriever_files(sp_retriever *f, const sp_file_query *q, sp_file_list *out);
SP_API void sp_file_list_fini(sp_file_list *l);

#ifdef __cplusplus
}
#endif
#endif
