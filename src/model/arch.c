/* arch.c -- the table of architectures. */
#include "model/arch.h"

#include <stdio.h>
#include <string.h>

#include "model/tensors.h"

#define GEMMA                                                                                      \
    (SP_NORM_PLUS_1 | SP_GELU | SP_EMBED_ROOT | SP_QUERY_SCALAR | SP_POST_NORMS | SP_PRE_FFN_NAME)
#define GLM     (SP_ADJACENT | SP_ADJACENT_HF | SP_FUSED_UP | SP_PARTIAL_ROPE)
#define GRANITE (SP_ADJACENT | SP_MULTIPLIERS)
#define OLMO2   (SP_NO_PRE_NORMS | SP_POST_NORMS | SP_QK_NORM | SP_QK_NORM_WIDE)
#define COHERE  (SP_LAYERNORM | SP_PARALLEL | SP_ADJACENT | SP_ADJACENT_HF | SP_LOGIT_FACTOR)
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
    X("gemma2", "gemma2", "gemma2", "Gemma2ForCausalLM", GEMMA | SP_CAPS | SP_LOGIT_CAP, ALWAYS, 2)\
    X("gemma3", "gemma3", "gemma3_text", "Gemma3ForCausalLM",                                      \
      GEMMA | SP_QK_NORM | SP_TWO_ROPES | SP_LOGIT_CAP, ALWAYS, 6)                                 \
    X("phi3", "phi3", "phi3", "Phi3ForCausalLM", SP_FUSED_QKV | SP_FUSED_UP | SP_PARTIAL_ROPE,      \
      ALWAYS, 0)                                                                                   \
    X("olmo2", "olmo2", "olmo2", "Olmo2ForCausalLM", OLMO2, NEVER, 0)                              \
    X("olmo3", NULL, "olmo3", "Olmo3ForCausalLM", OLMO2 | SP_TWO_ROPES, ALWAYS, 4)                 \
    X("granite", "granite", "granite", "GraniteForCausalLM", GRANITE, NEVER, 0)                    \
    X("granitemoe", "granitemoe", "granitemoe", "GraniteMoeForCausalLM",                           \
      GRANITE | SP_EXPERTS | SP_EXPERTS_GRANITE | SP_NORM_TOP, NEVER, 0)                           \
    X("gpt-oss", "gpt-oss", "gpt_oss", "GptOssForCausalLM",                                        \
      SP_SINKS | SP_EXPERTS | SP_EXPERTS_OSS | SP_NORM_TOP | SP_FFN_NORM_AFTER_NAME, ALWAYS, 2)      \
    X("smollm3", "smollm3", "smollm3", "SmolLM3ForCausalLM", SP_ADJACENT | SP_NO_ROPE_LAYERS,      \
      NEVER, 0)                                                                                    \
    X("glm4", "glm4", "glm4", "Glm4ForCausalLM", GLM | SP_POST_NORMS | SP_GLM_NAMES, NEVER, 0)     \
    X("glm", NULL, "glm", "GlmForCausalLM", GLM, NEVER, 0)                                         \
    X("pangu-embedded", "pangu-embedded", "PanguEmbedded", "PanguEmbeddedForCausalLM", 0, NEVER,   \
      0)                                                                                           \
    X("mistral3", "mistral3", "ministral3", "Ministral3ForCausalLM", SP_ADJACENT | SP_ATTN_TEMPERATURE, \
      ALWAYS, 0)                                                                                   \
    X("ministral", NULL, "ministral", "MinistralForCausalLM", 0, ALWAYS, 0)                        \
    X("arcee", "arcee", "arcee", "ArceeForCausalLM", SP_ADJACENT | SP_PLAIN_FFN | SP_RELU2, NEVER, \
      0)                                                                                           \
    X("nemotron", "nemotron", "nemotron", "NemotronForCausalLM",                                   \
      SP_LAYERNORM | SP_NORM_PLUS_1 | SP_PLAIN_FFN | SP_RELU2 | SP_PARTIAL_ROPE, NEVER, 0)         \
    X("starcoder2", "starcoder2", "starcoder2", "Starcoder2ForCausalLM",                           \
      SP_LAYERNORM | SP_PLAIN_FFN | SP_C_NAMES | SP_GELU, ALWAYS, 0)                               \
    X("stablelm", "stablelm", "stablelm", "StableLmForCausalLM",                                    \
      SP_LAYERNORM | SP_PARTIAL_ROPE, NEVER, 0)                                                    \
    X("command-r", "command-r", "cohere", "CohereForCausalLM", COHERE, NEVER, 0)                   \
    X("cohere2", "cohere2", "cohere2", "Cohere2ForCausalLM", COHERE | SP_LOCAL_ROPE, ALWAYS, 4)    \
    X("exaone", "exaone", NULL, NULL, 0, NEVER, 0)                                                 \
    X("exaone4", "exaone4", "exaone4", "Exaone4ForCausalLM",                                       \
      SP_NO_PRE_NORMS | SP_POST_NORMS | SP_QK_NORM | SP_LOCAL_ROPE, ALWAYS, 4)                     \
    X("ernie4_5", "ernie4_5", "ernie4_5", "Ernie4_5ForCausalLM", SP_ADJACENT | SP_ADJACENT_HF,     \
      NEVER, 0)                                                                                    \
    X("ernie4_5-moe", "ernie4_5-moe", "ernie4_5_moe", "Ernie4_5_MoeForCausalLM",                    \
      SP_ADJACENT | SP_ADJACENT_HF | SP_EXPERTS | SP_NORM_TOP | SP_EXPERTS_LATER | SP_EXPERTS_ERNIE, \
      NEVER, 0)                                                                                    \
    X("glm4moe", "glm4moe", "glm4_moe", "Glm4MoeForCausalLM",                                      \
      SP_PARTIAL_ROPE | SP_EXPERTS | SP_EXPERTS_LATER | SP_EXPERTS_SIGMOID | SP_QK_NORM_MAYBE |    \
          SP_FFN_NORM_AFTER_NAME, NEVER, 0)                                                        \
    X("seed_oss", "seed_oss", "seed_oss", "SeedOssForCausalLM", SP_FFN_NORM_AFTER_NAME, NEVER, 0)  \
    X("olmoe", "olmoe", "olmoe", "OlmoeForCausalLM", SP_EXPERTS | SP_QK_NORM | SP_QK_NORM_WIDE,    \
      NEVER, 0)                                                                                    \
    X("internlm2", "internlm2", NULL, NULL, SP_ADJACENT, NEVER, 0)                                 \
    X("minicpm", "minicpm", NULL, NULL, GRANITE, NEVER, 0)                                         \
    X("qwen2vl", "qwen2vl", "qwen2_vl_text", "Qwen2VLTextModel", SP_QKV_BIAS | SP_TEXT_OF_VISION,  \
      NEVER, 0)                                                                                    \
    X("qwen3vl", "qwen3vl", "qwen3_vl_text", "Qwen3VLTextModel", SP_QK_NORM | SP_TEXT_OF_VISION,   \
      NEVER, 0)                                                                                    \
    X("qwen3vlmoe", "qwen3vlmoe", NULL, NULL,                                                        \
      SP_QK_NORM | SP_EXPERTS | SP_NORM_TOP | SP_TEXT_OF_VISION, NEVER, 0)

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
        if (!archs[i].model_type) continue;
        if (model_type && strcmp(model_type, archs[i].model_type) == 0) return &archs[i];
        if (!model_type && class_name && strcmp(class_name, archs[i].class_name) == 0)
            return &archs[i];
    }
    return NULL;
}

const sp_arch *sp_arch_with(const sp_arch *a, const char *key)
{
    static const struct {
        const char *name, *key, *model_type;
    } others[] = {{"llama", "expert_count", "mixtral"}, {"olmo2", "attention.sliding_window", "olmo3"}};
    for (size_t i = 0; i < SP_COUNT(others); i++)
        if (strcmp(a->name, others[i].name) == 0 && strcmp(key, others[i].key) == 0)
            return sp_arch_of_hf(others[i].model_type, NULL);
    return NULL;
}

/* Names of GGUF files and of config.json. */
static const struct {
    const char *names; /* between blanks */
    const char *why;
} refused[] = {
    {" mamba mamba2 jamba falcon_h1 falcon-h1 granitehybrid granitemoehybrid nemotron_h nemotron_h_moe lfm2 "
     "lfm2moe lfm2_moe plamo2 qwen3next qwen3_next qwen3_5 qwen35 qwen35moe rwkv6 rwkv7 rwkv6qwen2 arwkv7 "
     "recurrent_gemma bamba zamba2 kimi-linear kimi_linear minimax minimax_m1 ",
     "a state that runs through all tokens cannot be reused in pieces"},
    {" deepseek2 deepseek_v2 deepseek_v3 deepseek_v32 minicpm3 plm kimi_k2 longcat_flash ",
     "keys and values are compressed together"},
    {" deepseek dots1 bailingmoe bailingmoe2 bailing_moe "
     "hunyuan-moe hunyuan_v1_moe minimax-m2 minimax_m2 afmoe grok dbrx arctic smallthinker phimoe "
     "granitemoeshared exaone-moe mimo2 ",
     "experts are chosen, or shared, in a way that is not computed"},
    {" gpt2 gptneox gpt_neox gptj bloom mpt falcon gpt_bigcode starcoder phi2 phi codeshell refact jais "
     "xverse baichuan baichuan2 qwen plamo orion openelm olmo chatglm internlm3 bitnet t5 t5encoder opt ",
     "its positions, norms or layers have another form"},
    {" hunyuan-dense hunyuan_v1_dense apertus gemma3n gemma4 llama4 chameleon cogvlm deci ",
     "its attention or feed-forward has another form"},
    {" qwen3_vl_moe mllama llava llava_next idefics3 smolvlm "
     "internvl phi4mm minicpmv pixtral glm4v qwen2_audio voxtral ",
     "a model of several media; GGUF files of its text part may be supported"},
    {" internlm2 exaone minicpm ", "folders of this model need code of their own; its GGUF files are supported"},
    {" bert nomic-bert modernbert modern-bert roberta xlm-roberta jina-bert-v2 gemma-embedding ",
     "an encoder: spolia embed reads folders of some"},
    {" llada llada-moe dream diffucoder rnd1 ", "it does not write from left to right"},
};

const char *sp_arch_why_not(sp_text_view name)
{
    char word[64];
    if (name.n == 0 || name.n + 3 > sizeof word || memchr(name.s, ' ', name.n)) return NULL;
    snprintf(word, sizeof word, " %.*s ", (int)name.n, name.s);
    for (size_t i = 0; i < SP_COUNT(refused); i++)
        if (strstr(refused[i].names, word)) return refused[i].why;
    return NULL;
}

const char *sp_arch_reuse(const sp_arch *a)
{
    if (a->traits & SP_ATTN_TEMPERATURE)
        return "prefixes exactly, chunks at any position (queries grow with long contexts)";
    return a->traits & (SP_NO_ROPE_LAYERS | SP_LOCAL_ROPE)
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
