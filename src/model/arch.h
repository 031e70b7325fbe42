/* arch.h -- the architectures that Spolia runs, as data.
 *
 * They share one shape: RMSNorm, attention with rotary positions and grouped heads, a gated
 * feed-forward. A row says how an architecture differs, as traits; a new one needs code only for a
 * difference that has no trait yet. A row also claims what it computes: a tensor, metadata key or
 * configuration field that no trait of the row reads is refused by name (config_claims.c, weights.c).
 */
#ifndef SP_MODEL_ARCH_H
#define SP_MODEL_ARCH_H

#include "base/err.h"
#include "model/tokenizer/vocab_spec.h"

/* Whether the `sliding_window` of a configuration limits attention. */
typedef enum sp_window_rule {
    SP_WINDOW_NEVER,
    SP_WINDOW_ALWAYS,
    SP_WINDOW_FLAG, /* only with "use_sliding_window": true, from layer max_window_layers on */
} sp_window_rule;

typedef enum sp_trait {
    SP_ADJACENT = 1 << 0,      /* converters permute the rows of q and k in GGUF files, so that rotary
                                  pairs are (2i, 2i+1); Hugging Face files have halves */
    SP_ADJACENT_HF = 1 << 1,   /* so have Hugging Face files */
    SP_QKV_BIAS = 1 << 2,      /* q, k and v must have biases; otherwise they may */
    SP_QK_NORM = 1 << 3,       /* each head of q and k must have a norm; otherwise it may */
    SP_QK_NORM_WIDE = 1 << 4,  /* q and k have one norm over all heads */
    SP_NO_PRE_NORMS = 1 << 5,  /* attention and feed-forward read the stream as it is */
    SP_POST_NORMS = 1 << 6,    /* their results are normalised before they are added */
    SP_PRE_FFN_NAME = 1 << 7,  /* the norm before the feed-forward is pre_feedforward_layernorm */
    SP_GLM_NAMES = 1 << 8,     /* norms after are post_self_attn_layernorm, post_mlp_layernorm */
    SP_NORM_PLUS_1 = 1 << 9,   /* Hugging Face files hold norms less one */
    SP_GELU = 1 << 10,         /* GELU (tanh) in place of SiLU */
    SP_EMBED_ROOT = 1 << 11,   /* embeddings times sqrt(E) */
    SP_CAPS = 1 << 12,         /* soft caps on scores and logits */
    SP_QUERY_SCALAR = 1 << 13, /* scores times query_pre_attn_scalar ^ -0.5 */
    SP_MULTIPLIERS = 1 << 14,  /* on embeddings, scores, what is added, and logits */
    SP_FUSED_QKV = 1 << 15,    /* one matrix for q, k, v */
    SP_FUSED_UP = 1 << 16,     /* one matrix for gate and up */
    SP_TWO_ROPES = 1 << 17,    /* layers with a window rotate by a base of their own */
    SP_NO_ROPE_LAYERS = 1 << 18, /* some layers do not rotate */
    SP_EXPERTS = 1 << 19,        /* a mixture of experts in each layer */
    SP_SHARED_EXPERT = 1 << 20,  /* and one that every token uses, behind a gate */
    SP_NORM_TOP = 1 << 21,       /* weights of the chosen experts sum up to 1 */
    SP_UNTIED = 1 << 22,         /* the output matrix must be there; otherwise the embedding is used */
    SP_EXPERTS_MIXTRAL = 1 << 23, /* names of experts in Hugging Face files */
    SP_EXPERTS_GRANITE = 1 << 24, /* the same */
} sp_trait;

typedef struct sp_arch {
    const char *name;       /* the name in this program */
    const char *gguf;       /* general.architecture; NULL: no GGUF file uses a name of its own */
    const char *model_type; /* config.json */
    const char *class_name; /* config.json: entry of "architectures" */
    unsigned traits;        /* of sp_trait */
    sp_window_rule window;
    int period; /* every period-th layer has no window although the others do; 0: all have one */
} sp_arch;

/* The architecture of a GGUF file, or of a config.json; NULL if it is unknown. */
const sp_arch *sp_arch_of_gguf(sp_text_view architecture);
const sp_arch *sp_arch_of_hf(const char *model_type, const char *class_name);
/* sp_arch_with_experts -- the mixture whose GGUF files have this architecture's name, or NULL. */
const sp_arch *sp_arch_with_experts(const sp_arch *a);

/* sp_arch_reuse -- what may be used again, for users. Positions are rotations or none in every row of the
 * table, and attention depends on their differences, windows included: so keys may move. */
const char *sp_arch_reuse(const sp_arch *a);

/* sp_arch_list -- the names in the table, "llama, mistral, ...", for messages. */
const char *sp_arch_list(void);

#endif
