/* arch.c -- the table of architectures. */
#include "model/arch.h"

#include <string.h>

#include "model/tensors.h"

/* X(name, gguf, model_type, class, adjacent, qkv_bias, qk_norm, tied, window)
 * GGUF files of mistral name "llama" as their architecture and have its layout. */
#define ARCHITECTURES(X)                                                                           \
    X("llama", "llama", "llama", "LlamaForCausalLM", true, false, false, true, NEVER)              \
    X("mistral", NULL, "mistral", "MistralForCausalLM", true, false, false, true, ALWAYS)          \
    X("qwen2", "qwen2", "qwen2", "Qwen2ForCausalLM", false, true, false, true, FLAG)               \
    X("qwen3", "qwen3", "qwen3", "Qwen3ForCausalLM", false, false, true, true, FLAG)

static const sp_arch archs[] = {
#define X(n, g, m, c, adj, bias, norm, tie, win)                                                   \
    {n, g, m, c, adj, bias, norm, tie, SP_WINDOW_##win},
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

const char *sp_arch_list(void)
{
#define X(n, g, m, c, adj, bias, norm, tie, win) ", " n
    static const char list[] = ARCHITECTURES(X);
#undef X
    return list + 2;
}
