/* encoder.h -- a text encoder of the BERT family: weights, tokenizer, and how a text becomes a vector or, with a
 * cross-encoder, two texts become a score.
 *
 *   GGUF file, architecture "bert"                          -- sp_encoder_open --> sizes, weights, tokenizer
 *   folder: config.json, tokenizer.json, *.safetensors,        recipe (pooling, prompts, longest text)
 *           modules.json and others (sentence-transformers)
 *
 * Encoders are not in the table of arch.c: they have no KV cache, no positions that move and no sampling, so reuse
 * does not apply. They share file readers, the tokenizer's interface, the device and its operations with language
 * models. engine/encoder/ computes them.
 *
 * Ownership: the encoder owns its mapped files, its arena and, once loaded, device memory; weights borrow
 * from them. Immutable after sp_encoder_load; any thread may read it.
 */
#ifndef SP_MODEL_ENCODER_ENCODER_H
#define SP_MODEL_ENCODER_ENCODER_H

#include "base/hash.h"
#include "compute/device.h"
#include "model/tokenizer/tokenizer.h"

/* Letters: compute/shapes.h. */
typedef struct sp_encoder_sizes {
    int n_layers; /* L */
    int n_embd;   /* E */
    int n_heads;  /* H; a head has E / H elements */
    int n_ff;     /* F */
    int n_vocab;  /* V */
    int n_ctx;    /* learned positions: most tokens of a text */
    int n_skipped; /* rows of the position table before the first token's: 2 in XLM-RoBERTa */
    int n_types;  /* token types: 2 with pairs of texts */
    float norm_eps;
    sp_act act;
} sp_encoder_sizes;

/* y = W x + b */
typedef struct sp_linear {
    sp_mat w;
    const float *b; /* [w.n_rows] */
} sp_linear;

typedef struct sp_layernorm {
    const float *w, *b; /* [E] */
} sp_layernorm;

typedef struct sp_encoder_layer {
    sp_linear q, k, v, o; /* [E, E] */
    sp_linear up, down;   /* [F, E] [E, F] */
    sp_layernorm attn_norm, ffn_norm; /* on the sums of input and output of attention and feed-forward */
} sp_encoder_layer;

/* Which rows of the last layer become the vector. */
typedef enum sp_pooling { SP_POOL_MEAN, SP_POOL_FIRST } sp_pooling;

/* Which prompt precedes a text. */
typedef enum sp_encode_kind { SP_ENCODE_PLAIN, SP_ENCODE_QUERY, SP_ENCODE_DOCUMENT, SP_ENCODE_KINDS } sp_encode_kind;

/* How a text becomes a vector. */
typedef struct sp_encoder_recipe {
    sp_pooling pooling;
    bool normalize;  /* to length 1 */
    int max_tokens;  /* with the two special tokens; longer texts are truncated */
    const char *prompt[SP_ENCODE_KINDS]; /* "query: " ...; "" where there is none */
} sp_encoder_recipe;

/* How the first row x of the last layer becomes a score: out . tanh(dense x + b) + c, then a sigmoid. */
typedef struct sp_encoder_head {
    const float *dense_w, *dense_b; /* [E, E] [E] */
    const float *out_w, *out_b;     /* [E] [1] */
    bool sigmoid;                   /* false: the sum itself is the score */
} sp_encoder_head;

typedef struct sp_encoder {
    sp_encoder_sizes size;
    sp_encoder_recipe recipe;
    sp_mat words;  /* [V, E] */
    sp_mat places; /* [n_types n_ctx, E] f32: row t n_ctx + p is the sum of type t's and position p's */
    sp_layernorm embed_norm;
    sp_encoder_layer *layers; /* [L] */
    sp_encoder_head *head; /* of a cross-encoder; NULL: texts become vectors */
    int n_between;         /* end tokens between the two texts of a pair: BERT 1, XLM-RoBERTa 2 */
    sp_tokenizer *tokenizer;
    sp_digest id;     /* of sizes, recipe and weights: vectors can be compared if their encoders' ids are equal */
    const char *path;
    sp_mem on_device; /* weights in the layout of its kernels */
    struct sp_model_files *files; /* private to model/ */
} sp_encoder;

/* sp_encoder_open -- path: a GGUF file or a folder. Errors: SP_E_IO, SP_E_FORMAT (a tensor or field is
 * missing or wrong), SP_E_UNSUPPORTED (another architecture, activation, pooling or module); each names
 * file and field. Owns: close it with sp_encoder_close, after everything that borrowed from it. */
sp_err sp_encoder_open(const char *path, sp_encoder **out) SP_MUST_CHECK;
/* sp_encoder_load -- puts the weights on a device, which must outlive the encoder. Call it once. */
sp_err sp_encoder_load(sp_encoder *m, sp_device *d) SP_MUST_CHECK;
void sp_encoder_close(sp_encoder *m);

/* sp_path_is_encoder -- whether the file or folder declares an encoder of this family. */
bool sp_path_is_encoder(const char *path);

#endif
