/* heads.h -- measurements of a model's heads, and the thresholds derived from them: when a choice of
 * sparse decoding is reused.
 *
 *   importance   of a query head, 0 .. 1: the share of its attention to other than the first 4 and
 *                the last 64 tokens. (DuoAttention trains gates for it; this is measured.)
 *   similarity   mean cosine of the rotated queries of neighbouring answer tokens
 *
 * `spolia profile --decode` measures them and keeps them in a file beside the model, MODEL.heads.json:
 *   {"version": 1, "importance": [[H numbers] for each layer], "similarity": the same}
 * Source: LiteCache sections 4.2 to 4.4. */
#ifndef SP_ENGINE_SPARSE_HEADS_H
#define SP_ENGINE_SPARSE_HEADS_H

#include "base/err.h"

typedef struct sp_heads {
    int n_layers, n_heads, n_kv_heads;
    float *importance, *similarity; /* [L, H] */
} sp_heads;

/* sp_heads_create -- importance and similarity 1. Errors: SP_E_NOMEM. */
sp_err sp_heads_create(int n_layers, int n_heads, int n_kv_heads, sp_heads **out) SP_MUST_CHECK;
void sp_heads_destroy(sp_heads *h);

/* sp_heads_path -- the file of a model; free it with sp_free. NULL: out of memory. */
char *sp_heads_path(const char *model);
/* sp_heads_read -- fills h, whose sizes the file must have. Errors: SP_E_NOTFOUND, SP_E_IO,
 * SP_E_FORMAT (names file and field). */
sp_err sp_heads_read(const char *path, sp_heads *h) SP_MUST_CHECK;
sp_err sp_heads_write(const char *path, const sp_heads *h) SP_MUST_CHECK;

/* sp_heads_tau -- the similarity above which a KV head reuses its choice: for importance 1 eta, for
 * importance 0 -1; power p between, in angles (eq. 3-5). A KV head is as important as its most
 * important query head. */
float sp_heads_tau(const sp_heads *h, int layer, int kv_head, float eta, float p);
/* sp_heads_difficulty -- D = tau - (similarity - epsilon) (section 4.4); similarities of the group
 * are combined by eq. 2. */
float sp_heads_difficulty(const sp_heads *h, int layer, int kv_head, float tau, float epsilon);
/* sp_heads_rank -- D of all KV heads [L, G] with the thresholds of these options (sp_sparse_opts: 0 is the default, a
 * negative power eta for all) and the paper's epsilon. */
void sp_heads_rank(const sp_heads *h, float eta, float power, float *difficulty);

#endif
