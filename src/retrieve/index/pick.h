/* pick.h -- rankings of an index's chunks, and the chunks of a ranking. */
#ifndef SP_RETRIEVE_INDEX_PICK_H
#define SP_RETRIEVE_INDEX_PICK_H

#include "base/mem.h"
#include "spolia.h"

typedef SP_VEC(int64_t) sp_ids;

typedef struct sp_ranked {
    int64_t id;
    double score;
} sp_ranked;

typedef SP_VEC(sp_ranked) sp_ranking;

/* sp_ranking_add -- adds to the score of a chunk. Cost: O(n). sp_ranking_sort: best first, ties by id. */
sp_err sp_ranking_add(sp_ranking *r, int64_t id, double score) SP_MUST_CHECK;
void sp_ranking_sort(sp_ranking *r);
/* sp_ranking_words -- the k best by BM25, of the chunks in `allowed` (ascending; NULL: of all). */
sp_err sp_ranking_words(sp_index *ix, const char *question, int k, const sp_ids *allowed,
                        sp_ranking *out) SP_MUST_CHECK;
/* sp_ranking_ids -- adds the ids that a statement with one parameter returns for each of n texts. */
sp_err sp_ranking_ids(sp_index *ix, const char *sql, const char *const *texts, int n, sp_ids *out) SP_MUST_CHECK;
/* sp_ranking_allowed -- ids of the chunks that a query allows, ascending: those of its files and of all files in its
 * folders that also have one of its tags (tags.h). */
sp_err sp_ranking_allowed(sp_index *ix, const sp_retrieve_query *q, sp_ids *out) SP_MUST_CHECK;
/* sp_index_files -- how many files have chunks, and their bytes. */
sp_err sp_index_files(sp_index *ix, int64_t *n, int64_t *n_bytes) SP_MUST_CHECK;
/* sp_index_list -- as sp_retriever_files. */
sp_err sp_index_list(sp_index *ix, const sp_file_query *q, sp_file_list *out) SP_MUST_CHECK;
/* sp_ranking_hits -- the first k chunks, with their scores. Owns: sp_hits_fini. */
sp_err sp_ranking_hits(sp_index *ix, const sp_ranking *r, size_t k, sp_hits *out) SP_MUST_CHECK;

#endif
