/* embedding_int.h -- the vectors of an index: embedding.c reads them, embedding_build.c brings them up to date. */
#ifndef SP_RETRIEVE_INDEX_EMBEDDING_INT_H
#define SP_RETRIEVE_INDEX_EMBEDDING_INT_H

#include <sqlite3.h>

#include "retrieve/index/embedding.h"

enum { SP_EMBEDDING_URL = 1024 };

/* The row of table embedding. */
typedef struct sp_embedding_facts {
    char id[65], url[SP_EMBEDDING_URL]; /* url: of a database; "" for vectors in the file */
    int64_t n_dims, build;
    int64_t graph_hash, graph_build; /* of a database: the mark of its collection, 0 */
    sp_vectors_kind kind;
    SP_VEC(float) centroids;
} sp_embedding_facts;

/* sp_embedding_kind -- of "flat", "ivf", "hnsw", "chroma:URL"; url [SP_EMBEDDING_URL]. sp_embedding_kind_name -- the
 * first word. */
sp_err sp_embedding_kind(const char *name, sp_vectors_kind *out, char *url) SP_MUST_CHECK;
const char *sp_embedding_kind_name(sp_vectors_kind kind);
/* sp_embedding_facts_read -- *there is false if the index has no vectors. Owns: sp_vec_fini of centroids. */
sp_err sp_embedding_facts_read(sqlite3 *db, const char *path, sp_embedding_facts *out, bool *there) SP_MUST_CHECK;

/* Vectors read from the table. */
typedef struct sp_vector_rows {
    SP_VEC(int64_t) ids;
    SP_VEC(uint32_t) clusters;
    SP_VEC(float) v;
} sp_vector_rows;

void sp_vector_rows_fini(sp_vector_rows *r);

typedef sp_err sp_vector_rows_fn(sp_vector_rows *r, void *user);

/* Where rows come from. */
typedef struct sp_vector_source {
    sqlite3 *db;
    const char *path;
    size_t n_dims;
} sp_vector_source;

#define SP_VECTOR_ROWS "SELECT chunk, cluster, v FROM vectors"

/* sp_vector_rows_each -- calls fn with the rows of a statement (chunk, cluster, v), some thousands at a time. */
sp_err sp_vector_rows_each(const sp_vector_source *from, const char *sql, int64_t parameter, sp_vector_rows_fn *fn,
                           void *user) SP_MUST_CHECK;

/* A table being loaded into x. */
typedef struct sp_embedding_load {
    sp_vectors *x;
    sp_team *team;
    sp_index_embed_progress *progress;
    void *user;
    int64_t done, total;
} sp_embedding_load;

/* sp_embedding_load_all -- loads the table into memory; for a database, opens a client. */
sp_err sp_embedding_load_all(sqlite3 *db, const char *path, const sp_embedding_facts *f,
                             sp_embedding_load *l) SP_MUST_CHECK;
/* sp_embedding_write_graph -- writes the graph beside the index, renamed once complete; *hash is its checksum. */
sp_err sp_embedding_write_graph(const sp_vectors *x, const char *path, int64_t *hash) SP_MUST_CHECK;

#endif
