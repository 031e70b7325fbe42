/* arch.h -- the architectures that Spolia runs, as data.
 *
 * They share one shape: norms, attention with rotary positions and grouped heads, a feed-forward. A row says how
 * an architecture differs, as traits; a new one needs code only for a difference that has no trait yet. A row also
 * claims what it computes: a tensor, metadata key or configuration field that no trait of the row reads is refused by
 * name (config_claims.c, weights.c).
 */
#ifndef SP_MODEL_ARCH_H
#define SP_MODEL_ARCH_H

#include <stdint.h>

#include "base/err.h"
#include "model/tokenizer/vocab_spec.h"

/* Whether the `sliding_window` of a configuration limits attention. */
typedef enum sp_window_rule {
    SP_WINDOW_NEVER,
    SP_WINDOW_ALWAYS,
    SP_WINDOW_FLAG, /* only with "use_sliding_window": true, from layer max_window_layers on */
} sp_window_rule;

/* Traits: how an architecture differs from the common shape, one bit each. */
#define SP_TRAIT(n) ((uint64_t)1 << (n))
#define SP_ADJACENT            SP_TRAIT(0)  /* converters permute the rows of q and k in GGUF files, so that rotary
                                               pairs are (2i, 2i+1); Hugging Face files have halves */
#define SP_ADJACENT_HF         SP_TRAIT(1)  /* Hugging Face files have these pairs, too */
#define SP_QKV_BIAS            SP_TRAIT(2)  /* q, k and v must have biases; otherwise they may */
#define SP_QK_NORM             SP_TRAIT(3)  /* each head of q and k has a norm */
#define SP_QK_NORM_WIDE        SP_TRAIT(4)  /* q and k have one norm over all heads */
#define SP_NO_PRE_NORMS        SP_TRAIT(5)  /* attention and feed-forward read the stream as it is */
#define SP_POST_NORMS          SP_TRAIT(6)  /* their results are normalised before they are added */
#define SP_PRE_FFN_NAME        SP_TRAIT(7)  /* the norm before the feed-forward is pre_feedforward_layernorm */
#define SP_GLM_NAMES           SP_TRAIT(8)  /* norms after are post_self_attn_layernorm, post_mlp_layernorm */
#define SP_NORM_PLUS_1         SP_TRAIT(9)  /* Hugging Face files hold norms less one */
#define SP_GELU                SP_TRAIT(10) /* GELU (tanh) in place of SiLU */
#define SP_EMBED_ROOT          SP_TRAIT(11) /* embeddings times sqrt(E) */
#define SP_CAPS                SP_TRAIT(12) /* a soft cap on scores */
#define SP_QUERY_SCALAR        SP_TRAIT(13) /* scores times query_pre_attn_scalar ^ -0.5 */
#define SP_MULTIPLIERS         SP_TRAIT(14) /* on embeddings, scores, what is added, and logits */
#define SP_FUSED_QKV           SP_TRAIT(15) /* one matrix for q, k, v */
#define SP_FUSED_UP            SP_TRAIT(16) /* one matrix for gate and up */
#define SP_TWO_ROPES           SP_TRAIT(17) /* layers with a window rotate by a base of their own */
#define SP_NO_ROPE_LAYERS      SP_TRAIT(18) /* some layers do not rotate */
#define SP_EXPERTS             SP_TRAIT(19) /* a mixture of experts in each layer */
#define SP_SHARED_EXPERT       SP_TRAIT(20) /* and one that every token uses, behind a gate */
#define SP_NORM_TOP            SP_TRAIT(21) /* weights of the chosen experts sum to 1 */
#define SP_LOGIT_CAP           SP_TRAIT(22) /* a soft cap on logits */
#define SP_EXPERTS_MIXTRAL     SP_TRAIT(23) /* names of experts in Hugging Face files */
#define SP_EXPERTS_GRANITE     SP_TRAIT(24) /* the same, of Granite */
#define SP_SINKS               SP_TRAIT(25) /* a score of each head takes part of the probability and adds no value */
#define SP_EXPERTS_OSS         SP_TRAIT(26) /* names of gpt-oss; biases of the router and the experts; its
                                               activation */
#define SP_FFN_NORM_AFTER_NAME SP_TRAIT(27) /* GGUF files call the norm before the feed-forward post_attention_norm */
#define SP_LAYERNORM           SP_TRAIT(28) /* LayerNorm in place of RMSNorm, with biases unless SP_PARALLEL */
#define SP_PLAIN_FFN           SP_TRAIT(29) /* a feed-forward without a gate: w_down act(w_up x) */
#define SP_C_NAMES             SP_TRAIT(30) /* its matrices are c_fc and c_proj */
#define SP_RELU2               SP_TRAIT(31) /* ReLU squared in place of SiLU */
#define SP_PARALLEL            SP_TRAIT(32) /* the feed-forward reads what attention reads */
#define SP_LOCAL_ROPE          SP_TRAIT(33) /* layers without a window do not rotate, if others have one */
#define SP_LOGIT_FACTOR        SP_TRAIT(34) /* logits times logit_scale */
#define SP_TEXT_OF_VISION      SP_TRAIT(35) /* positions of pictures have three parts; those of text have one */
#define SP_PARTIAL_ROPE        SP_TRAIT(36) /* config.json says which part of a head rotates */
#define SP_ATTN_TEMPERATURE    SP_TRAIT(37) /* queries grow with their position; two factors of YaRN cancel */
#define SP_EXPERTS_LATER       SP_TRAIT(38) /* the first layers have no mixture; a bias takes part in the choice of
                                               experts; the shared one has no gate */
#define SP_EXPERTS_SIGMOID     SP_TRAIT(39) /* experts are weighed by sigmoids in place of a softmax */
#define SP_EXPERTS_ERNIE       SP_TRAIT(40) /* names of ERNIE in config.json */
#define SP_QK_NORM_MAYBE       SP_TRAIT(41) /* each head of q and k has a norm in the larger models */

typedef struct sp_arch {
    const char *name;       /* the name in this program */
    const char *gguf;       /* general.architecture; NULL: no GGUF file uses a name of its own */
    const char *model_type; /* config.json; NULL: folders are not supported */
    const char *class_name; /* config.json: entry of "architectures"; or NULL */
    uint64_t traits;        /* SP_TRAIT bits */
    sp_window_rule window;
    int period; /* every period-th layer has no window although the others do; 0: all have one */
} sp_arch;

/* The architecture of a GGUF file, or of a config.json; NULL if it is unknown. */
const sp_arch *sp_arch_of_gguf(sp_text_view architecture);
const sp_arch *sp_arch_of_hf(const char *model_type, const char *class_name);
/* sp_arch_with -- the architecture whose GGUF files have a's name and also this key, or NULL. */
const sp_arch *sp_arch_with(const sp_arch *a, const char *key);

/* sp_arch_reuse -- which reuse is possible, as text for users. In every row of the table positions are rotations or
 * absent, and attention, windows included, depends on differences of positions only: keys can be moved. With
 * SP_ATTN_TEMPERATURE that holds for positions before the first factor; after it, for those with the same. */
const char *sp_arch_reuse(const sp_arch *a);

/* sp_arch_why_not -- why an architecture that is not in the table is unsupported; NULL: it is unknown. */
const char *sp_arch_why_not(sp_text_view name);

/* sp_arch_list -- the names in the table, "llama, mistral, ...", for messages. */
const char *sp_arch_list(void);

#endif
