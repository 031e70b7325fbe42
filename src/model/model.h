/* model.h -- a language model opened from a GGUF file or a Hugging Face folder.
 *
 * The model borrows its weights from mapped files, until a device loads them; opening checks every
 * size and offset, so that nothing later can read outside them. What differs between architectures
 * is data: an entry of the table in arch.c and the weights that are present.
 */
#ifndef SP_MODEL_MODEL_H
#define SP_MODEL_MODEL_H

#include "base/mem.h"
#include "compute/device.h"

typedef struct sp_tokenizer sp_tokenizer;

/* A mixture of experts: each token uses n_used of n feed-forwards, and a shared one. n 0: none. */
typedef struct sp_moe {
    int n, n_used;
    int n_ff;      /* of an expert */
    int n_shared;  /* of the shared one; 0: none */
    bool sum_to_1; /* weights of the chosen experts sum to 1 */
    bool sigmoid;  /* an expert's weight is a sigmoid; else a softmax over all */
    float scale;   /* factor on the weights; 0: none */
    int n_groups, n_groups_used; /* the experts chosen are of the best groups; 0: no groups */
    int n_dense;   /* layers before the first mixture */
    int n_dense_ff; /* of their feed-forward */
} sp_moe;

/* Sizes and constants, whatever the file called them. Letters: compute/shapes.h. */
typedef struct sp_hparams {
    const char *arch; /* name in the architecture table: "llama", "qwen2", "gemma3" */
    int n_layers;     /* L */
    int n_embd;       /* E */
    int n_heads;      /* H */
    int n_kv_heads;   /* G */
    int head;         /* D */
    int n_ff;         /* F */
    int n_vocab;      /* V, rows of the embedding */
    int n_ctx;        /* context that the model was trained for, tokens */
    float norm_eps;
    float attn_scale;   /* 1 / sqrt(D) unless the architecture says otherwise */
    float attn_growth;  /* a query at p times 1 + attn_growth log(1 + floor(p / attn_period)); 0: no factor */
    int attn_period;    /* tokens */
    int sliding_window; /* tokens, of the layers that have one (sp_layer.window); 0: none */
    sp_act act;
    bool wide_qk_norm; /* one norm over all heads of q, and of k */
    bool layer_norm;   /* LayerNorm in place of RMSNorm, except on heads */
    bool parallel;     /* the feed-forward reads what attention reads */
    /* factors and soft caps; 0: none */
    float embed_scale;    /* on embeddings */
    float residual_scale; /* on what attention and feed-forward add */
    float logit_scale;    /* on logits */
    float attn_cap, logit_cap;
    sp_moe moe;
} sp_hparams;

/* The model's rotary embedding: the angle of pair i at position p is p * freq[i]. All scalings (linear, llama3,
 * per-pair factors of the file) are already in freq. */
typedef struct sp_rope_spec {
    int n_rot;
    bool adjacent;
    float *freq;     /* [n_rot / 2], double precision rounded once */
    float magnitude; /* factor on cos and sin; 1 except for yarn */
} sp_rope_spec;

/* How the feed-forward part of a layer is computed (engine/ffn.c). */
typedef enum sp_ffn_kind {
    SP_FFN_GATED,  /* w_down (act(w_gate x) * (w_up x)), the same for all rows */
    SP_FFN_EXPERTS /* the weighted sum of the experts that the router chooses for a row */
} sp_ffn_kind;

/* The feed-forward of a layer or of an expert. */
typedef struct sp_mlp {
    sp_mat w_gate, w_up, w_down;          /* [F, E] or no data, [F, E], [E, F]; F of an expert: sp_moe.n_ff */
    const float *b_gate, *b_up, *b_down; /* [F] [F] [E] or NULL */
} sp_mlp;

/* Which rotary table a layer uses. */
typedef enum sp_rope_kind { SP_ROPE_MAIN, SP_ROPE_LOCAL, SP_ROPE_NONE, SP_ROPE_N } sp_rope_kind;

/* Weights of one layer. Matrices are [outputs, inputs]; vectors f32; absent ones have data ==
 * NULL. */
typedef struct sp_layer {
    sp_ffn_kind ffn;
    sp_rope_kind rope;
    int window;                        /* tokens that a query sees, itself included; 0: all */
    const float *attn_norm, *ffn_norm; /* [E] on their inputs, or NULL */
    const float *b_attn_norm, *b_ffn_norm;       /* [E] or NULL; layer_norm */
    const float *attn_post_norm, *ffn_post_norm; /* [E] on their outputs, or NULL */
    sp_mat wq, wk, wv, wo;             /* [H D, E] [G D, E] [G D, E] [E, H D] */
    const float *bq, *bk, *bv, *bo;    /* [H D] [G D] [G D] [E] or NULL */
    const float *q_norm, *k_norm;      /* [D] RMSNorm on each head before RoPE, or NULL; wide_qk_norm:
                                          [H D] and [G D] on all heads */
    const float *sinks;                /* [H] as in sp_attend_args, or NULL */
    sp_mlp mlp;
    sp_mat router;                     /* [X, E]; this and the rest: SP_FFN_EXPERTS */
    const float *b_router;             /* [X] or NULL */
    const float *b_choice;             /* [X] added to weights where experts are chosen, or NULL */
    sp_mlp *experts;                   /* [X] */
    sp_mlp shared;
    sp_mat shared_gate;                /* [1, E]; absent: weight 1 */
} sp_layer;

typedef struct sp_model {
    sp_hparams hp;
    sp_rope_spec rope, rope_local; /* rope_local.n_rot 0: not used */
    sp_mat embed;  /* [V, E] */
    sp_mat output; /* [V, E]; the embedding when tied */
    bool tied;
    const float *output_norm;  /* [E] */
    const float *b_output_norm; /* [E] or NULL; layer_norm */
    sp_layer *layers;          /* [L] */
    sp_tokenizer *tokenizer;   /* NULL: the file has none, token ids only */
    const char *chat_template; /* Jinja text from the file, or NULL */
    uint8_t id[32]; /* SHA-256 over architecture, sizes, tensor directory: a KV namespace */
    const char *path;
    sp_device *device;   /* where the weights are; NULL: in host memory, as in the file */
    sp_mem on_device;    /* weights that the device does not read from a file */
    size_t mapped_bytes; /* weights in the device's layout that are mapped from a pack */
    struct sp_model_files *files; /* private to model/; NULL: made in memory */
    struct sp_model_packs *packs; /* private to load.c */
} sp_model;

/* sp_model_open -- path: a GGUF file (v2, v3), or a folder with config.json and *.safetensors.
 * A GGUF file without tensors (vocabulary only) opens with n_layers = 0.
 * Errors: SP_E_IO, SP_E_FORMAT (names file and field), SP_E_UNSUPPORTED (unknown architecture or
 * tensor type, by name), SP_E_NOMEM.
 * Owns: close it with sp_model_close after everything that borrowed from it. */
sp_err sp_model_open(const char *path, sp_model **out) SP_MUST_CHECK;
void sp_model_close(sp_model *m);

/* Where packed weights are kept for the next start. Zeroed: nowhere. */
typedef struct sp_pack_opts {
    const char *dir;  /* created when a pack is written; NULL: none */
    size_t max_bytes; /* of all packs in it; the least recently used ones are removed */
    size_t min_bytes; /* weights smaller than this are packed at each start */
} sp_pack_opts;

/* sp_model_load -- puts the weights on a device, in the layout of its kernels: packs them, on the
 * CPU about a second per gigabyte and thread, or maps a pack that an earlier start left. A background
 * thread writes what was packed to `packs`; failing to write is not an error.
 * Call it once, before an engine is created. The device must outlive the model.
 * Errors: SP_E_NOMEM; the model is then unchanged. */
sp_err sp_model_load(sp_model *m, sp_device *d, const sp_pack_opts *packs) SP_MUST_CHECK;
/* sp_model_unload -- waits for the pack to be written and frees what load took; the weights are unusable
 * afterwards. sp_model_close calls it. */
void sp_model_unload(sp_model *m);

/* sp_model_next_matrix -- the matrix at *i, which starts at 0 and is
 * advanced, in the order in which a step reads them: embedding, layers,
 * output (even if it is tied to the embedding). NULL after the last. */
sp_mat *sp_model_next_matrix(sp_model *m, int *i);
/* sp_model_n_params -- elements of all matrices, a tied output counted once. */
int64_t sp_model_n_params(sp_model *m);

/* sp_model_inspect -- appends a description of the file to `out` as
 * JSON: format, metadata (arrays shortened), tensors with type, shape,
 * offset and bytes, totals. Works for unknown architectures, too. */
sp_err sp_model_inspect(const char *path, sp_bytes *out) SP_MUST_CHECK;

#endif
