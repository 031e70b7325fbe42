/* spolia_embed.h -- vectors of texts, and scores of pairs of texts, by encoders of the BERT family. spolia.h includes
 * it. */
#ifndef SPOLIA_EMBED_H
#define SPOLIA_EMBED_H

#include "spolia_context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sp_embedder sp_embedder;

typedef struct sp_embedder_opts {
    const char *model;       /* GGUF file of architecture "bert", or a folder as sentence-transformers writes it */
    sp_machine_opts machine; /* threads, device and kernels; packs are not used */
    int step_tokens;         /* tokens computed together; 0: as many as suit the CPU's caches */
} sp_embedder_opts;

typedef struct sp_embedder_info {
    const char *path;    /* of the model; borrowed, as all texts here */
    const char *kernels;
    int n_embd;          /* length of a vector */
    int max_tokens;      /* of a text with its special tokens; longer ones are cut */
    int n_vocab, n_layers, n_threads;
    bool normalized;     /* vectors have length 1 */
    bool scores_pairs;   /* a cross-encoder: for sp_embedder_score, not for sp_embedder_embed */
    const char *query_prompt, *document_prompt; /* what the model wants before them; "" if nothing */
    char id[33]; /* hex: vectors can be compared if these are equal */
} sp_embedder_info;

/* sp_embedder_open -- Errors: SP_E_IO, SP_E_FORMAT, SP_E_UNSUPPORTED (each names file and field), SP_E_NOMEM.
 * Owns: close it with sp_embedder_close. */
SP_API sp_err sp_embedder_open(const sp_embedder_opts *o, sp_embedder **out);
SP_API void sp_embedder_close(sp_embedder *e);
SP_API sp_embedder_info sp_embedder_describe(const sp_embedder *e);

/* What a text is: the model may want a different prompt before each kind. */
typedef enum sp_embed_kind { SP_EMBED_PLAIN, SP_EMBED_QUERY, SP_EMBED_DOCUMENT } sp_embed_kind;

/* A text, or its token ids, special tokens included. */
typedef struct sp_embed_input {
    const char *text; /* NULL: ids */
    size_t n;         /* bytes */
    const int32_t *ids;
    size_t n_ids;
} sp_embed_input;

typedef struct sp_embed_opts {
    sp_embed_kind kind;
    int dimensions; /* the first elements of each vector, scaled to length 1 if the model's are; 0: all */
    bool refuse_long; /* a text over max_tokens is an error; otherwise it is cut */
    int document_tokens; /* of sp_embedder_score: first, each document is cut to so many tokens; 0: none is */
    bool (*stop)(void *user); /* called before each step; true: SP_E_CANCELED. NULL: never */
    /* For background work; NULL: none. step_us: called before each step, returns how long it may take; 0: no limit. A
     * step has at least one text. rests: called after each layer; while it returns true, the call pauses and asks
     * again each millisecond, unless a call without `rests` waits for the embedder. */
    int64_t (*step_us)(void *user);
    bool (*rests)(void *user);
    void *user;
} sp_embed_opts;

/* sp_embedder_embed -- the vectors of n inputs. o NULL: defaults.
 * Shape:  out [n, dimensions]; n_tokens [n], tokens that were computed, or NULL
 * Errors: SP_E_ARG (dimensions, a token id; names the input), SP_E_CONTEXT (refuse_long), SP_E_UNSUPPORTED (a
 *         cross-encoder), SP_E_CANCELED, SP_E_NOMEM.
 * Thread: any; calls of several threads take turns, a step at a time. A vector's bits do not depend on the other
 * inputs. */
SP_API sp_err sp_embedder_embed(sp_embedder *e, const sp_embed_input *inputs, size_t n, const sp_embed_opts *o,
                                float *out, int32_t *n_tokens);

/* A query and a document, which a cross-encoder reads together. */
typedef struct sp_pair {
    const char *query, *document;
    size_t n_query, n_document; /* bytes */
} sp_pair;

/* sp_embedder_score -- how well each document answers its query: higher is better. The range depends on the model: 0
 * to 1, or any number. o NULL: defaults; kind and dimensions are ignored. A pair that is too long loses tokens of its
 * longer text.
 * Shape:  out [n]; n_tokens [n] or NULL
 * Errors: SP_E_UNSUPPORTED (not a cross-encoder), SP_E_CONTEXT (refuse_long), SP_E_CANCELED, SP_E_NOMEM.
 * Thread: as sp_embedder_embed. A score's bits do not depend on the other pairs. */
SP_API sp_err sp_embedder_score(sp_embedder *e, const sp_pair *pairs, size_t n, const sp_embed_opts *o, float *out,
                                int32_t *n_tokens);

#ifdef __cplusplus
}
#endif

#endif
