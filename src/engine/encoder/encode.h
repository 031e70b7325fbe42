/* encode.h -- vectors of texts, or scores of pairs: the forward pass of an encoder (model/encoder/encoder.h).
 *
 * A step takes several texts. Their rows are adjacent, without padding: products, norms and activations
 * see one matrix, attention sees a request for each text. Attention that is not causal needs no kernel of
 * its own: every query has the position of its text's last token, so it sees all keys.
 *
 *   ids, places -> x = norm(words + places)
 *   for each layer:  q, k, v = W x + b
 *                    x = norm(x + Wo attend(q, k, v) + b)
 *                    x = norm(x + Wdown gelu(Wup x + b) + b)
 *   rows of a text -> mean or first row -> length 1 -> out; of a pair: first row -> head -> out
 *
 * Keys and values are f32 in a few blocks that every layer overwrites; nothing is kept.
 */
#ifndef SP_ENGINE_ENCODER_ENCODE_H
#define SP_ENGINE_ENCODER_ENCODE_H

#include "model/encoder/encoder.h"

typedef struct sp_encode_pass sp_encode_pass;

/* One text of a step. */
typedef struct sp_encode_text {
    const int32_t *ids; /* [n] with the special tokens; each below the encoder's n_vocab */
    int32_t n;          /* 1 .. recipe.max_tokens */
    int32_t n_first;    /* tokens of the first text of a pair, with its special ones: type 0. The others have type 1,
                           where the model has types. 0: all are of type 0 */
    float *out;         /* [E]; of a cross-encoder [1] */
} sp_encode_text;

/* sp_encode_pass_create -- working memory for steps of at most n_tokens tokens (0: a size that suits the
 * caches; never less than the longest text). The encoder must be loaded on `d`; both outlive the pass. */
sp_err sp_encode_pass_create(const sp_encoder *m, sp_device *d, int n_tokens, sp_encode_pass **out) SP_MUST_CHECK;
void sp_encode_pass_destroy(sp_encode_pass *p);

/* sp_encode_fit -- how many of the first texts fit into a step of at most `most` tokens (0: no limit); at least
 * one. */
size_t sp_encode_fit(const sp_encode_pass *p, const sp_encode_text *texts, size_t n, int64_t most);

/* Called between two layers. */
typedef void sp_encode_between(void *user);

/* sp_encode_step -- computes `out` of n texts. A text's result does not depend on the others of its step. between may
 * be NULL.
 * Pre: n <= sp_encode_fit. Errors: those of the device. Thread: one at a time. */
sp_err sp_encode_step(sp_encode_pass *p, const sp_encode_text *texts, size_t n, sp_encode_between *between,
                      void *user) SP_MUST_CHECK;

#endif
