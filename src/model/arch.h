/* arch.h -- the architectures that Spolia runs, as data.
 *
 * They share one shape: RMSNorm, attention with rotary positions and grouped heads, SiLU-gated
 * feed-forward. An entry records how an architecture differs; a new one needs code only for a
 * difference that has no field yet.
 */
#ifndef SP_MODEL_ARCH_H
#define SP_MODEL_ARCH_H

#include "base/err.h"
#include "model/vocab_spec.h"

/* Whether the `sliding_window` of a configuration limits attention. */
typedef enum sp_window_rule {
    SP_WINDOW_NEVER,
    SP_WINDOW_ALWAYS,
    SP_WINDOW_FLAG, /* only with "use_sliding_window": true */
} sp_window_rule;

typedef struct sp_arch {
    const char *name;       /* the name in this program */
    const char *gguf;       /* general.architecture; NULL: no GGUF file uses a name of its own */
    const char *model_type; /* config.json */
    const char *class_name; /* config.json: entry of "architectures" */
    bool gguf_adjacent;     /* converters permute the rows of q and k in GGUF files, so that rotary
                               pairs are (2i, 2i+1); Hugging Face files always have halves */
    bool qkv_bias;          /* q, k and v must have biases; otherwise they may */
    bool qk_norm;           /* each head of q and k must have a norm; otherwise it may */
    bool tied;              /* the embedding is the output matrix if the file has none */
    sp_window_rule window;
} sp_arch;

/* The architecture of a GGUF file, or of a config.json; NULL if it is unknown. */
const sp_arch *sp_arch_of_gguf(sp_text_view architecture);
const sp_arch *sp_arch_of_hf(const char *model_type, const char *class_name);

/* sp_arch_list -- the names in the table, "llama, mistral, ...", for messages. */
const char *sp_arch_list(void);

#endif
