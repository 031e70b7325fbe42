/* config_claims.c -- refuses what nothing reads: a metadata key or a field of config.json that no table
 * claims might silently change the result. Exceptions are the names listed here, which change no
 * result, and neutral values: null, false, 0, "", and empty lists. */
#include <stdio.h>

#include "model/config_int.h"

/* -- numbers whose neutral value is not 0 --------------------------------------------------- */

static const struct {
    const char *gguf, *hf;
    double neutral;
    const char *what;
} neutral[] = {
    {"expert_count", "num_local_experts", 0, "a mixture of experts"},
    {NULL, "num_experts", 0, "a mixture of experts"},
    {"attention.causal", NULL, 1, "attention that is not causal"},
    {"rope.scaling.yarn_attn_factor", NULL, 1, "this factor on attention"},
    {"rope.scaling.yarn_ext_factor", NULL, 1, "this ramp of YaRN"},
    {"rope.scaling.yarn_log_multiplier", NULL, 0, "this factor on attention"},
    {"expert_gating_func", NULL, 1, "this choice of experts"},
    {"expert_weights_scale", NULL, 1, "this factor on experts"},
    {"interleave_moe_layer_step", "moe_layer_interval", 1, "a mixture of experts in some layers only"},
    {NULL, "decoder_sparse_step", 1, "a mixture of experts in some layers only"},
    {NULL, "pretraining_tp", 1, "weights in slices"},
    {NULL, "swiglu_limit", 7, "this limit of the activation"},
    {NULL, "swiglu_alpha", 1.702, "this factor of the activation"},
    {NULL, "partial_rotary_factor", 1, "rotating a part of a head"},
};

/* -- names ---------------------------------------------------------------------------------- */

/* Keys of an architecture that are read elsewhere, or change no result. */
static const char *const gguf_known[] = {
    "vocab_size",           "attention.value_length",  "rope.scaling.type",
    "tensor_data_layout",   "rope.scaling.finetuned",  "attention.sliding_window_pattern",
    "expert_weights_norm",  "rope.freq_base_swa",      "expert_used_count",
    "expert_feed_forward_length",
};

/* Fields that are read elsewhere, or concern training, files, tokens and other programs. */
static const char *const hf_known[] = {
    "architectures",        "model_type",           "rope_scaling",        "rope_parameters",
    "hidden_act",           "hidden_activation",    "quantization_config", "tie_word_embeddings",
    "layer_types",          "use_sliding_window",   "num_local_experts",   "num_experts",
    "attention_bias",       "mlp_bias",             "bias",                "qkv_bias",
    "use_qkv_bias",         "attention_dropout",    "hidden_dropout",      "embd_pdrop",
    "resid_pdrop",          "dropout",              "initializer_range",   "initializer_factor",
    "torch_dtype",          "dtype",                "transformers_version", "use_cache",
    "bos_token_id",         "eos_token_id",         "pad_token_id",        "sep_token_id",
    "unk_token_id",         "decoder_start_token_id", "auto_map",          "name_or_path",
    "output_router_logits", "router_aux_loss_coef", "router_jitter_noise", "cache_implementation",
    "attn_implementation",  "id2label",             "label2id",            "return_dict",
    "finetuning_task",      "task_specific_params", "problem_type",        "tokenizer_class",
    "prefix",               "torchscript",          "chunk_size_feed_forward", "is_encoder_decoder",
    "max_length",           "min_length",           "do_sample",           "num_beams",
    "num_beam_groups",      "temperature",          "top_k",               "top_p",
    "typical_p",            "repetition_penalty",   "length_penalty",      "diversity_penalty",
    "encoder_no_repeat_ngram_size", "no_repeat_ngram_size", "num_return_sequences", "is_llama_config",
    "model_max_length",     "rope_interleaved",     "max_window_layers",   "is_decoder",
    "_sliding_window_pattern", "sliding_window_pattern", "sliding_window", "original_max_position_embeddings",
    "rope_theta",           "vocab_size",           "image_token_id",
    "transformers.js_config", "quantize",           "hidden_size_per_head", "unsloth_version",
    "unsloth_fixed",        "eos_token",            "bos_token",           "rope_type",
    "tf_legacy_loss",       "use_bfloat16",         "early_stopping",      "exponential_decay_length_penalty",
    "forced_bos_token_id",  "forced_eos_token_id",  "remove_invalid_values", "begin_suppress_tokens",
    "suppress_tokens",      "bad_words_ids",        "output_scores",       "output_attentions",
    "output_hidden_states", "return_dict_in_generate", "use_flash_attn",   "embedding_dropout",
    "residual_dropout",     "head_dim",             "use_bias",            "attention_out_bias",
};

/* Those of some architectures. */
static const struct {
    const char *hf;
    uint64_t when;
} hf_of_traits[] = {
    {"norm_topk_prob", SP_EXPERTS},
    {"intermediate_size", SP_EXPERTS},
    {"no_rope_layers", SP_NO_ROPE_LAYERS},
    {"no_rope_layer_interval", SP_NO_ROPE_LAYERS},
    {"query_pre_attn_scalar", SP_QUERY_SCALAR},
    {"experts_per_token", SP_EXPERTS_OSS}, /* num_experts_per_tok again */
    {"initial_context_length", SP_EXPERTS_OSS},
    {"norm_type", SP_C_NAMES}, /* layer_norm */
    {"moe_norm_min", SP_EXPERTS_ERNIE},
    {"moe_capacity", SP_EXPERTS_ERNIE}, /* this and the next two: of training */
    {"moe_gate", SP_EXPERTS_ERNIE},
    {"moe_use_aux_free", SP_EXPERTS_ERNIE},
    {"use_qk_norm", SP_QK_NORM_MAYBE},
    {"vision_config", SP_TEXT_OF_VISION}, /* this and the next: of pictures */
    {"vision_start_token_id", SP_TEXT_OF_VISION},
    {"vision_end_token_id", SP_TEXT_OF_VISION},
    {"vision_token_id", SP_TEXT_OF_VISION},
    {"video_token_id", SP_TEXT_OF_VISION},
};

/* Of the largest weights of 4,096 experts. A moe_norm_min below it changes nothing. */
#define LEAST_SUM (1.0 / 4096)

static bool listed(const char *const *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], name) == 0) return true;
    return false;
}

static bool in_table(const sp_source *s, sp_params t, const char *name)
{
    for (size_t i = 0; i < t.n; i++)
        if (sp_config_reads(s, &t.v[i]) && strcmp(s->gguf ? t.v[i].gguf : t.v[i].hf, name) == 0)
            return true;
    return false;
}

static bool is_read(const sp_source *s, const char *name)
{
    return in_table(s, sp_config_numbers(), name) || in_table(s, sp_config_rope_numbers(), name);
}

static sp_err refuse(const sp_source *s, const char *name, double x, const char *what)
{
    return sp_fail(SP_E_UNSUPPORTED, "%s: %s: %g: %s is not supported", s->path, name, x, what);
}

/* -- GGUF ----------------------------------------------------------------------------------- */

/* A key of the architecture, after its prefix. */
static bool claims_key(const sp_source *s, const char *name)
{
    const uint64_t traits = s->arch->traits;
    if (strncmp(name, "attention.sliding_window", 24) == 0)
        return s->arch->window != SP_WINDOW_NEVER || strcmp(s->prefix, "llama") == 0;
    if (strcmp(name, "rope.freq_base_swa") == 0) return traits & SP_TWO_ROPES;
    if (strcmp(name, "rope.dimension_sections") == 0 || strcmp(name, "n_deepstack_layers") == 0)
        return traits & SP_TEXT_OF_VISION;
    if (strncmp(name, "expert_", 7) == 0 && !(traits & SP_EXPERTS)) return false;
    return listed(gguf_known, SP_COUNT(gguf_known), name) || is_read(s, name);
}

static sp_err check_key(const sp_source *s, const sp_gguf_entry *e)
{
    char full[SP_CONFIG_NAME_BYTES];
    const size_t n = strlen(s->prefix) + 1;
    double x = 1;
    snprintf(full, sizeof full, "%.*s", (int)SP_MIN(e->key.n, sizeof full - 1), e->key.s);
    const char *name = full + SP_MIN(n, strlen(full));
    const bool is_number = sp_gguf_number(e, 0, &x);
    /* In granite's files it means that no layer rotates; elsewhere it changes nothing. */
    if (s->arch->traits & SP_MULTIPLIERS && strcmp(name, "rope.scaling.finetuned") == 0 && x == 0)
        return refuse(s, full, x, "attention without positions");
    for (size_t i = 0; i < SP_COUNT(neutral); i++) {
        if (!neutral[i].gguf || strcmp(neutral[i].gguf, name) != 0 || !is_number) continue;
        if (is_read(s, name)) return SP_OK;
        return x == neutral[i].neutral || (x == 0 && strncmp(name, "expert_", 7) == 0)
                   ? SP_OK
                   : refuse(s, full, x, neutral[i].what);
    }
    if ((is_number && x == 0) || claims_key(s, name)) return SP_OK;
    return sp_fail(SP_E_UNSUPPORTED, "%s: %s: is not supported for %s", s->path, full,
                   s->arch->name);
}

static sp_err check_gguf(const sp_source *s)
{
    const size_t n = strlen(s->prefix);
    for (size_t i = 0; i < s->gguf->entries.n; i++) {
        const sp_gguf_entry *e = &s->gguf->entries.v[i];
        if (e->key.n > n && memcmp(e->key.s, s->prefix, n) == 0 && e->key.s[n] == '.')
            SP_TRY(check_key(s, e));
    }
    return SP_OK;
}

/* -- config.json ---------------------------------------------------------------------------- */

static bool is_neutral(const json_t *j)
{
    if (json_is_number(j)) return json_number_value(j) == 0;
    if (json_is_string(j)) return json_string_length(j) == 0;
    if (json_is_array(j)) return json_array_size(j) == 0;
    if (json_is_object(j)) return json_object_size(j) == 0;
    return !json_is_true(j);
}

static bool claims_field(const sp_source *s, const char *name)
{
    for (size_t i = 0; i < SP_COUNT(hf_of_traits); i++)
        if (s->arch->traits & hf_of_traits[i].when && strcmp(hf_of_traits[i].hf, name) == 0)
            return true;
    if (strcmp(name, "use_sliding_window") == 0) return s->arch->window == SP_WINDOW_FLAG;
    if (strcmp(name, "rope_local_base_freq") == 0) return strcmp(s->arch->name, "gemma3") == 0;
    return name[0] == '_' || listed(hf_known, SP_COUNT(hf_known), name) || is_read(s, name);
}

static sp_err check_field(const sp_source *s, const char *name, const json_t *value)
{
    for (size_t i = 0; i < SP_COUNT(neutral); i++) {
        if (!neutral[i].hf || strcmp(neutral[i].hf, name) != 0) continue;
        if (!json_is_number(value) || json_number_value(value) == neutral[i].neutral) return SP_OK;
        if (is_read(s, name)) return SP_OK;
        if (strcmp(name, "pretraining_tp") == 0) return SP_OK; /* how sums were split in training */
        return refuse(s, name, json_number_value(value), neutral[i].what);
    }
    if (strcmp(name, "moe_norm_min") == 0 && json_number_value(value) > LEAST_SUM)
        return refuse(s, name, json_number_value(value), "a least sum of the weights of experts");
    if (is_neutral(value) || claims_field(s, name)) return SP_OK;
    return sp_fail(SP_E_UNSUPPORTED, "%s: %.100s: is not supported for %s", s->path,
                   name, s->arch->name);
}

sp_err sp_config_claims(const sp_source *s)
{
    const char *name;
    json_t *value;
    if (s->gguf) return check_gguf(s);
    json_object_foreach((json_t *)s->root, name, value)
    {
        SP_TRY(check_field(s, name, value));
    }
    return SP_OK;
}
