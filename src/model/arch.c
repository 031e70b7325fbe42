/* arch.c -- the table of architectures. */
#include "model/arch.h"

#include <string.h>

#include "model/tensors.h"

#define GEMMA                                                                                      \
    (SP_NORM_PLUS_1 | SP_GELU | SP_EMBED_ROOT | SP_QUERY_SCALAR | SP_POST_NORMS | SP_PRE_FFN_NAME)
#define GLM     (SP_ADJACENT | SP_ADJACENT_HF | SP_FUSED_UP)
#define GRANITE (SP_ADJACENT | SP_MULTIPLIERS)
#define OLMO2   (SP_NO_PRE_NORMS | SP_POST_NORMS | SP_QK_NORM | SP_QK_NORM_WIDE)
#define MIXTRAL (SP_EXPERTS | SP_EXPERTS_MIXTRAL | SP_NORM_TOP)

/* X(name, gguf, model_type, class, traits, window, period)
 * GGUF files of mistral and mixtral name "llama" as their architecture and have its layout. */
#define ARCHITECTURES(X)                                                                           \
    X("llama", "llama", "llama", "LlamaForCausalLM", SP_ADJACENT, NEVER, 0)                        \
    X("mistral", NULL, "mistral", "MistralForCausalLM", SP_ADJACENT, ALWAYS, 0)                    \
    X("mixtral", NULL, "mixtral", "MixtralForCausalLM", SP_ADJACENT | MIXTRAL, ALWAYS, 0)          \
    X("qwen2", "qwen2", "qwen2", "Qwen2ForCausalLM", SP_QKV_BIAS, FLAG, 0)                         \
    X("qwen3", "qwen3", "qwen3", "Qwen3ForCausalLM", SP_QK_NORM, FLAG, 0)                          \
    X("qwen2moe", "qwen2moe", "qwen2_moe", "Qwen2MoeForCausalLM",                                  \
      SP_QKV_BIAS | SP_EXPERTS | SP_SHARED_EXPERT, NEVER, 0)                                       \
    X("qwen3moe", "qwen3moe", "qwen3_moe", "Qwen3MoeForCausalLM", SP_QK_NORM | SP_EXPERTS, NEVER,  \
      0)                                                                                           \
    X("gemma", "gemma", "gemma", "GemmaForCausalLM", SP_NORM_PLUS_1 | SP_GELU | SP_EMBED_ROOT,     \
      NEVER, 0)                                                                                    \
    X("gemma2", "gemma2", "gemma2", "Gemma2ForCausalLM", GEMMA | SP_CAPS, ALWAYS, 2)               \
    X("gemma3", "gemma3", "gemma3_text", "Gemma3ForCausalLM",                                      \
      GEMMA | SP_QK_NORM | SP_TWO_ROPES | SP_CAPS, ALWAYS, 6)                                      \
    X("phi3", "phi3", "phi3", "Phi3ForCausalLM", SP_FUSED_QKV | SP_FUSED_UP, ALWAYS, 0)            \
    X("olmo2", "olmo2", "olmo2", "Olmo2ForCausalLM", OLMO2, NEVER, 0)                              \
    X("granite", "granite", "granite", "GraniteForCausalLM", GRANITE, NEVER, 0)                    \
    X("granitemoe", "granitemoe", "granitemoe", "GraniteMoeForCausalLM",                           \
      GRANITE | SP_EXPERTS | SP_EXPERTS_GRANITE | SP_NORM_TOP, NEVER, 0)                           \
    X("smollm3", "smollm3", "smollm3", "SmolLM3ForCausalLM", SP_ADJACENT | SP_NO_ROPE_LAYERS,      \
      NEVER, 0)                                                                                    \
    X("glm4", "glm4", "glm4", "Glm4ForCausalLM", GLM | SP_POST_NORMS | SP_GLM_NAMES, NEVER, 0)     \
    X("glm", NULL, "glm", "GlmForCausalLM", GLM, NEVER, 0)                                         \
    X("pangu-embedded", "pangu-embedded", "PanguEmbedded", "PanguEmbeddedForCausalLM", 0, NEVER, 0)

static const sp_arch archs[] = {
#define X(n, g, m, c, traits, win, period) {n, g, m, c, traits, SP_WINDOW_##win, period},
    ARCHITECTURES(X)
#undef X
};

const sp_arch *sp_arch_of_gguf(sp_text_view architecture)
{
    for (size_t i = 0; i < SP_COUNT(archs); i++)
        if (archs[i].gguf && sp_view_is(architecture, archs[i].gguf)) return &archs[i];
    return NULL;
}

const sp_arch *sp_arch_of_hf(const char *model_type, const char *class_name)
{
    for (size_t i = 0; i < SP_COUNT(archs); i++) {
        if (model_type && strcmp(model_type, archs[i].model_type) == 0) return &archs[i];
        if (!model_type && class_name && strcmp(class_name, archs[i].class_name) == 0)
            return &archs[i];
    }
    return NULL;
}

const sp_arch *sp_arch_with_experts(const sp_arch *a)
{
    return strcmp(a->name, "llama") == 0 ? sp_arch_of_hf("mixtral", NULL) : NULL;
}

const char *sp_arch_reuse(const sp_arch *a)
{
    return a->traits & SP_NO_ROPE_LAYERS
               ? "prefixes exactly, chunks at any position (some layers do not know positions)"
               : "prefixes exactly, chunks at any position";
}

const char *sp_arch_list(void)
{
#define X(n, g, m, c, traits, win, period) ", " n
    static const char list[] = ARCHITECTURES(X);
#undef X
    return list + 2;
}
