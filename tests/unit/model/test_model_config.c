/* test_model_config.c -- hyper-parameters from both kinds of files, and the rotary frequencies that
 * follow from them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "tiny_model.h"

#define JSON_PATH "dir/config.json"

static const char base_json[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_size\": 64,"
    " \"intermediate_size\": 96, \"num_hidden_layers\": 3, \"num_attention_heads\": 8,"
    " \"num_key_value_heads\": 2, \"max_position_embeddings\": 4096, \"rms_norm_eps\": 1e-6,"
    " \"vocab_size\": 100, \"hidden_act\": \"silu\", \"rope_theta\": 500000.0}";

/* The base with the members of `changes`; its member "-" names one to omit. */
static sp_err read_json(const char *changes, sp_config *c)
{
    json_t *root = json_loads(base_json, 0, NULL), *with = json_loads(changes, 0, NULL);
    assert_true(root && with);
    const char *gone = json_string_value(json_object_get(with, "-"));
    if (gone) json_object_del(root, gone);
    json_object_del(with, "-");
    assert_int_equal(json_object_update(root, with), 0);
    sp_err err = sp_config_of_json(root, JSON_PATH, c);
    json_decref(root);
    json_decref(with);
    return err;
}

static sp_config good_json(const char *changes)
{
    sp_config c;
    if (read_json(changes, &c) != SP_OK) fail_msg("%s: %s", changes, sp_error_detail());
    return c;
}

static void reads_config_json(void **state)
{
    sp_config c = good_json("{}");
    assert_string_equal(c.hp.arch, "llama");
    assert_true(c.hp.n_layers == 3 && c.hp.n_embd == 64 && c.hp.n_heads == 8 &&
                c.hp.n_kv_heads == 2);
    assert_true(c.hp.head == 8 && c.hp.n_ff == 96 && c.hp.n_vocab == 100 && c.hp.n_ctx == 4096);
    assert_true(c.hp.norm_eps == 1e-6f && c.rope.base == 500000 && c.rope.n_rot == 8);
    assert_true(!c.adjacent && !c.tied && !c.untied && c.hp.sliding_window == 0);
    assert_true(c.rope.scaling == SP_ROPE_PLAIN);

    assert_int_equal(good_json("{\"-\": \"num_key_value_heads\"}").hp.n_kv_heads, 8);
    assert_int_equal(good_json("{\"num_key_value_heads\": null}").hp.n_kv_heads, 8);
    assert_int_equal(good_json("{\"num_hidden_layers\": 1024}").hp.n_layers, 1024);
    assert_int_equal(good_json("{\"vocab_size\": 262208}").hp.n_vocab, 262208);
    assert_int_equal(good_json("{\"head_dim\": 32}").hp.head, 32);
    assert_true(good_json("{\"-\": \"rope_theta\"}").rope.base == 10000);
    assert_true(good_json("{\"rope_theta\": 1000000}").rope.base == 1e6);
    assert_int_equal(good_json("{\"model_type\": \"glm4\", \"partial_rotary_factor\": 0.25}").rope.n_rot, 2);
    assert_int_equal(good_json("{\"partial_rotary_factor\": 1}").rope.n_rot, 8);
    assert_true(good_json("{\"tie_word_embeddings\": true}").tied);
    assert_true(good_json("{\"tie_word_embeddings\": false}").untied);
    assert_true(good_json("{\"rope_parameters\": {\"rope_theta\": 123}}").rope.base == 123);
    assert_string_equal(good_json("{\"-\": \"model_type\"}").hp.arch, "llama");
    assert_string_equal(good_json("{\"model_type\": \"mistral\", \"sliding_window\": null}").hp.arch, "mistral");
}

/* Which of the three layers have a window, as bits. */
static void layers_have_the_windows_that_the_file_says(void **state)
{
    static const struct {
        const char *changes;
        int window;
        unsigned layers;
    } cases[] = {
        {"{\"model_type\": \"mistral\", \"sliding_window\": 1024}", 1024, 7},
        {"{\"model_type\": \"mistral\", \"sliding_window\": 9000}", 9000, 7},
        {"{\"model_type\": \"mistral\", \"sliding_window\": null}", 0, 7},
        {"{\"model_type\": \"qwen2\", \"sliding_window\": 1024}", 0, 0},
        {"{\"model_type\": \"qwen2\", \"sliding_window\": 1024, \"use_sliding_window\": false}", 0,
         0},
        {"{\"model_type\": \"qwen2\", \"sliding_window\": 1024, \"use_sliding_window\": true}", 0,
         0},
        {"{\"model_type\": \"qwen2\", \"sliding_window\": 1024, \"use_sliding_window\": true,"
         " \"max_window_layers\": 1}",
         1024, 6},
        {"{\"model_type\": \"qwen2\", \"sliding_window\": 64, \"use_sliding_window\": true,"
         " \"layer_types\": [\"full_attention\", \"sliding_attention\", \"full_attention\"]}",
         64, 2},
        {"{\"model_type\": \"gemma2\", \"hidden_act\": \"gelu_pytorch_tanh\"}", 4096, 5},
        {"{\"model_type\": \"gemma3_text\", \"hidden_act\": \"gelu_pytorch_tanh\","
         " \"sliding_window\": 512, \"sliding_window_pattern\": 3}",
         512, 3},
        {"{\"sliding_window\": 1024}", 0, 0},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_config c = good_json(cases[i].changes);
        assert_int_equal(c.hp.sliding_window, cases[i].window);
        unsigned layers = 0;
        for (int l = 0; l < 3; l++) layers |= (c.layers[l] & SP_LAYER_LOCAL ? 1u : 0) << l;
        assert_int_equal(layers, cases[i].layers);
        assert_int_equal(c.hp.n_ctx, 4096);
    }
}

static const struct {
    const char *changes;
    sp_err code;
    const char *text;
} refused_json[] = {
    {"{\"-\": \"hidden_size\"}", SP_E_FORMAT, "hidden_size: is missing"},
    {"{\"-\": \"vocab_size\"}", SP_E_FORMAT, "vocab_size: is missing"},
    {"{\"num_hidden_layers\": 0}", SP_E_FORMAT, "num_hidden_layers: 0 is not in 1..1024"},
    {"{\"num_hidden_layers\": 1025}", SP_E_FORMAT, "num_hidden_layers: 1025 is not in 1..1024"},
    {"{\"num_hidden_layers\": \"3\"}", SP_E_FORMAT, "num_hidden_layers: is not a number"},
    {"{\"num_hidden_layers\": 2.5}", SP_E_FORMAT, "num_hidden_layers: 2.5 is not a whole number"},
    {"{\"hidden_size\": -64}", SP_E_FORMAT, "hidden_size: -64 is not in"},
    {"{\"hidden_size\": 1e300}", SP_E_FORMAT, "hidden_size: 1e+300 is not in"},
    {"{\"num_key_value_heads\": 3}", SP_E_FORMAT, "num_key_value_heads: 3 does not divide the 8"},
    {"{\"num_key_value_heads\": 16}", SP_E_FORMAT, "num_key_value_heads: 16 does not divide"},
    {"{\"num_attention_heads\": 10}", SP_E_FORMAT,
     "head_dim: is missing and the width 64 is not 10"},
    {"{\"head_dim\": 7}", SP_E_FORMAT, "head_dim: a head of 7 is not an even number"},
    {"{\"rms_norm_eps\": 2}", SP_E_FORMAT, "rms_norm_eps: 2 is not in 0..1"},
    {"{\"model_type\": \"phi3\", \"partial_rotary_factor\": 0.4}", SP_E_FORMAT, "partial_rotary_factor: 3 is not an even"},
    {"{\"model_type\": \"phi3\", \"partial_rotary_factor\": 0.1}", SP_E_FORMAT, "partial_rotary_factor: 0 is not an even"},
    {"{\"partial_rotary_factor\": 0.5}", SP_E_UNSUPPORTED, "partial_rotary_factor: 0.5: rotating a part of a head"},
    {"{\"rope_theta\": 0}", SP_E_FORMAT, "rope_theta: 0 is not in"},
    {"{\"hidden_act\": \"gelu\"}", SP_E_UNSUPPORTED, "hidden_act: \"gelu\" is not supported"},
    {"{\"num_local_experts\": 8}", SP_E_UNSUPPORTED, "num_local_experts: 8: a mixture of experts"},
    {"{\"hidden_activation\": \"gelu\"}", SP_E_UNSUPPORTED, "hidden_activation: \"gelu\" is not supported"},
    {"{\"quantization_config\": {\"quant_method\": \"gptq\"}}", SP_E_UNSUPPORTED,
     "\"gptq\" is not"},
    {"{\"model_type\": \"gpt_oss\", \"quantization_config\": {\"quant_method\": \"gptq\"}}", SP_E_UNSUPPORTED,
     "\"gptq\" is not"},
    {"{\"model_type\": \"gemma2\", \"hidden_act\": \"gelu_pytorch_tanh\", \"sliding_window\": null}", SP_E_FORMAT,
     "sliding_window: is missing"},
    {"{\"model_type\": \"falcon\"}", SP_E_UNSUPPORTED, "model_type: \"falcon\" is not supported"},
    {"{\"model_type\": \"gemma2\"}", SP_E_UNSUPPORTED, "hidden_act: \"silu\" is not supported"},
    {"{\"attn_logit_softcapping\": 50.0}", SP_E_UNSUPPORTED,
     "attn_logit_softcapping: is not supported for llama"},
    {"{\"final_logit_softcapping\": 30.0}", SP_E_UNSUPPORTED, "final_logit_softcapping: is not"},
    {"{\"residual_multiplier\": 0.5}", SP_E_UNSUPPORTED, "residual_multiplier: is not supported for"},
    {"{\"query_pre_attn_scalar\": 8}", SP_E_UNSUPPORTED, "query_pre_attn_scalar: is not supported for"},
    {"{\"num_experts\": 4}", SP_E_UNSUPPORTED, "num_experts: 4: a mixture of experts"},
    {"{\"no_rope_layers\": [1, 0, 1]}", SP_E_UNSUPPORTED, "no_rope_layers: is not supported for llama"},
    {"{\"use_sliding_window\": true}", SP_E_UNSUPPORTED, "use_sliding_window: is not supported for"},
    {"{\"rope_local_base_freq\": 10000}", SP_E_UNSUPPORTED, "rope_local_base_freq: is not supported for llama"},
    {"{\"swiglu_limit\": 8}", SP_E_UNSUPPORTED, "swiglu_limit: 8: this limit of the activation"},
    {"{\"what_nobody_knows\": [0]}", SP_E_UNSUPPORTED, "what_nobody_knows: is not supported for llama"},
    {"{\"what_nobody_knows\": \"yes\"}", SP_E_UNSUPPORTED, "what_nobody_knows: is not supported for"},
    {"{\"model_type\": \"qwen2\", \"layer_types\": [\"full_attention\"]}", SP_E_FORMAT,
     "layer_types: is not a list of 3 layers"},
    {"{\"model_type\": \"qwen2\", \"layer_types\": [\"full_attention\", \"chunked_attention\", 3]}",
     SP_E_UNSUPPORTED, "layer_types: \"chunked_attention\" is not supported"},
    {"{\"model_type\": \"mixtral\", \"num_local_experts\": 2, \"num_experts_per_tok\": 3}",
     SP_E_FORMAT, "num_experts_per_tok: 3 of 2 experts"},
    {"{\"model_type\": \"qwen3_moe\", \"num_experts\": 2, \"num_experts_per_tok\": 1,"
     " \"mlp_only_layers\": [0]}",
     SP_E_UNSUPPORTED, "mlp_only_layers: is not supported for qwen3moe"},
    {"{\"model_type\": \"qwen3_moe\", \"num_experts\": 2, \"num_experts_per_tok\": 1,"
     " \"decoder_sparse_step\": 2}",
     SP_E_UNSUPPORTED, "decoder_sparse_step: 2: a mixture of experts in some layers only"},
    {"{\"-\": \"model_type\", \"architectures\": [\"BertModel\"]}", SP_E_UNSUPPORTED,
     "\"BertModel\""},
    {"{\"-\": \"model_type\", \"architectures\": []}", SP_E_FORMAT, "model_type: is missing"},
    {"{\"rope_scaling\": 3}", SP_E_FORMAT, "rope_scaling: is not an object"},
    {"{\"rope_scaling\": {\"type\": 3}}", SP_E_FORMAT, "rope_scaling.rope_type: is not a string"},
    {"{\"rope_scaling\": {\"type\": \"mrope\", \"factor\": 2}}", SP_E_UNSUPPORTED,
     "rope_scaling: rotary scaling \"mrope\" is not supported"},
    {"{\"rope_parameters\": {\"rope_type\": \"longrope\"}}", SP_E_FORMAT,
     "rope_parameters.original_max_position_embeddings: is missing"},
    {"{\"rope_parameters\": {\"rope_type\": \"longrope\", \"short_factor\": [1, 2, 3],"
     " \"original_max_position_embeddings\": 64}}",
     SP_E_FORMAT, "rope_parameters.short_factor: is not a list of 4 numbers"},
    {"{\"rope_parameters\": {\"rope_type\": \"longrope\", \"short_factor\": [1, 2, 3, 0],"
     " \"original_max_position_embeddings\": 64}}",
     SP_E_FORMAT, "rope_parameters.short_factor: item 3 is not a positive number"},
    {"{\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2, \"short_factor\": [1, 2, 3, 4]}}",
     SP_E_UNSUPPORTED, "\"linear\" is not supported in llama with short_factor"},
    {"{\"rope_scaling\": {\"type\": \"linear\"}}", SP_E_FORMAT, "rope_scaling.factor: is missing"},
    {"{\"rope_scaling\": {\"type\": \"linear\", \"factor\": \"2\"}}", SP_E_FORMAT,
     "rope_scaling.factor: is not a number"},
    {"{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2, \"ramp\": 1}}", SP_E_UNSUPPORTED,
     "rope_scaling.ramp: is not supported"},
    {"{\"rope_parameters\": {\"full_attention\": {}}}", SP_E_UNSUPPORTED,
     "rope_parameters.full_attention: is not supported"},
    {"{\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4,"
     " \"high_freq_factor\": 4, \"original_max_position_embeddings\": 64}}",
     SP_E_FORMAT, "rope_scaling.high_freq_factor: is missing or does not fit"},
    {"{\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1,"
     " \"high_freq_factor\": 4}}",
     SP_E_FORMAT, "rope_scaling.original_max_position_embeddings: is missing"},
};

static void refuses_config_json(void **state)
{
    for (size_t i = 0; i < SP_COUNT(refused_json); i++) {
        sp_config c = {0};
        sp_err err = read_json(refused_json[i].changes, &c);
        if (err != refused_json[i].code)
            fail_msg("%s: %d, %s", refused_json[i].changes, err, sp_error_detail());
        assert_detail(JSON_PATH ": ");
        assert_detail(refused_json[i].text);
        assert_null(c.arch);
    }
}

/* What says nothing, or what every model is, is no reason to refuse one. */
static void neutral_fields_are_accepted(void **state)
{
    static const char *const changes[] = {
        "{\"what_nobody_knows\": null}", "{\"what_nobody_knows\": []}",   "{\"what_nobody_knows\": \"\"}",
        "{\"what_nobody_knows\": {}}",   "{\"what_nobody_knows\": false}", "{\"what_nobody_knows\": 0}",
        "{\"pretraining_tp\": 2}",       "{\"decoder_sparse_step\": null}", "{\"decoder_sparse_step\": 1}",
        "{\"swiglu_limit\": 7.0}",       "{\"num_experts\": null}",        "{\"num_local_experts\": 0}",
    };
    for (size_t i = 0; i < SP_COUNT(changes); i++) assert_string_equal(good_json(changes[i]).hp.arch, "llama");
}

/* -- GGUF ----------------------------------------------------------------------------------- */

static sp_err read_gguf(const tiny_spec *s, sp_config *c)
{
    sp_bytes file = {0};
    sp_gguf g;
    tiny_file(s, &file);
    assert_int_equal(sp_gguf_parse((const uint8_t *)file.v, file.n, TINY_NAME, &g), SP_OK);
    sp_err err = sp_config_of_gguf(&g, c);
    sp_gguf_close(&g);
    sp_vec_fini(&file);
    return err;
}

static void refuse_entry(const char *drop, void (*more)(gguf_writer *w), sp_err code,
                         const char *text)
{
    sp_config c;
    assert_int_equal(read_gguf(&(tiny_spec){.drop = drop, .more = more}, &c), code);
    assert_detail(TINY_NAME ": ");
    assert_detail(text);
}

static void keys_are_needed(void **state)
{
    static const char *const keys[] = {
        "llama.block_count",         "llama.embedding_length",
        "llama.feed_forward_length", "llama.attention.head_count",
        "llama.context_length",      "llama.attention.layer_norm_rms_epsilon"};
    sp_config c;
    for (size_t i = 0; i < SP_COUNT(keys); i++) {
        char text[128];
        snprintf(text, sizeof text, "%s: is missing", keys[i]);
        refuse_entry(keys[i], NULL, SP_E_FORMAT, text);
    }
    assert_int_equal(read_gguf(&(tiny_spec){.drop = "llama.attention.head_count_kv"}, &c), SP_OK);
    assert_int_equal(c.hp.n_kv_heads, TINY_H);
}

/* One function for each entry: adds a key that the writer omitted. */
#define ENTRY(name, statement)                                                                     \
    static void name(gguf_writer *w)                                                               \
    {                                                                                              \
        statement;                                                                                 \
    }

ENTRY(no_layers, gw_u32(w, "llama.block_count", 0))
ENTRY(text_layers, gw_text(w, "llama.block_count", "2"))
ENTRY(negative_layers, gw_number(w, "llama.block_count", SP_GGUF_I32, (uint32_t)-2, 4))
ENTRY(equal_heads, gw_i32s(w, "llama.attention.head_count_kv", 2, (const int32_t[]){2, 2}))
ENTRY(other_heads, gw_i32s(w, "llama.attention.head_count_kv", 2, (const int32_t[]){2, 4}))
ENTRY(empty_heads, gw_i32s(w, "llama.attention.head_count_kv", 0, NULL))
ENTRY(odd_heads, gw_u32(w, "llama.attention.head_count_kv", 3))
ENTRY(nan_eps, gw_f32(w, "llama.attention.layer_norm_rms_epsilon", NAN))
ENTRY(wide_rope, gw_u32(w, "llama.rope.dimension_count", 10))
ENTRY(half_rope, gw_u32(w, "llama.rope.dimension_count", 4))
ENTRY(experts, gw_u32(w, "llama.expert_count", 8))
ENTRY(no_experts, gw_u32(w, "llama.expert_count", 0))
ENTRY(both_ways, gw_bool(w, "llama.attention.causal", false))
ENTRY(other_values, gw_u32(w, "llama.attention.value_length", 16))
ENTRY(longrope, gw_text(w, "llama.rope.scaling.type", "longrope"))
ENTRY(numbered_scaling, gw_u32(w, "llama.rope.scaling.type", 1))
ENTRY(attn_factor, gw_f32(w, "llama.rope.scaling.attn_factor", 2))
ENTRY(cap, gw_f32(w, "llama.attn_logit_softcapping", 50))
ENTRY(no_cap, gw_f32(w, "llama.attn_logit_softcapping", 0))
ENTRY(clamp, gw_f32(w, "llama.attention.clamp_kqv", 8))
ENTRY(unknown_text, gw_text(w, "llama.what_nobody_knows", "yes"))
ENTRY(window, gw_u32(w, "llama.attention.sliding_window", 100))
ENTRY(numbered_arch, gw_u32(w, "general.architecture", 1))

static void entries_are_checked(void **state)
{
    sp_config c;
    refuse_entry("llama.block_count", no_layers, SP_E_FORMAT, "block_count: 0 is not in 1..1024");
    refuse_entry("llama.block_count", text_layers, SP_E_FORMAT, "block_count: is not a number");
    refuse_entry("llama.block_count", negative_layers, SP_E_FORMAT, "block_count: -2 is not in");
    refuse_entry("llama.attention.head_count_kv", other_heads, SP_E_UNSUPPORTED,
                 "from layer to layer");
    refuse_entry("llama.attention.head_count_kv", empty_heads, SP_E_FORMAT, "is not a number");
    refuse_entry("llama.attention.head_count_kv", odd_heads, SP_E_FORMAT,
                 "3 does not divide the 4");
    refuse_entry("llama.attention.layer_norm_rms_epsilon", nan_eps, SP_E_FORMAT, "nan is not in");
    refuse_entry(NULL, wide_rope, SP_E_FORMAT,
                 "llama.rope.dimension_count: 10 is not an even number");
    refuse_entry(NULL, experts, SP_E_FORMAT, "llama.expert_used_count: is missing");
    refuse_entry(NULL, cap, SP_E_UNSUPPORTED, "llama.attn_logit_softcapping: is not supported for llama");
    refuse_entry(NULL, clamp, SP_E_UNSUPPORTED, "llama.attention.clamp_kqv: is not supported for llama");
    refuse_entry(NULL, unknown_text, SP_E_UNSUPPORTED, "llama.what_nobody_knows: is not supported for");
    refuse_entry(NULL, both_ways, SP_E_UNSUPPORTED,
                 "llama.attention.causal: 0: attention that is not");
    refuse_entry(NULL, other_values, SP_E_UNSUPPORTED,
                 "llama.attention.value_length: 16: differs from");
    refuse_entry(NULL, longrope, SP_E_FORMAT,
                 "llama.rope.scaling.original_context_length: is missing");
    refuse_entry(NULL, numbered_scaling, SP_E_FORMAT,
                 "llama.rope.scaling.type: is u32, not a string");
    assert_int_equal(read_gguf(&(tiny_spec){.more = attn_factor}, &c), SP_OK);
    assert_true(c.rope.attention == 2);
    assert_int_equal(read_gguf(&(tiny_spec){.more = no_cap}, &c), SP_OK);

    assert_int_equal(
        read_gguf(&(tiny_spec){.drop = "llama.attention.head_count_kv", .more = equal_heads}, &c),
        SP_OK);
    assert_int_equal(c.hp.n_kv_heads, 2);
    assert_int_equal(read_gguf(&(tiny_spec){.more = half_rope}, &c), SP_OK);
    assert_int_equal(c.rope.n_rot, 4);
    assert_int_equal(read_gguf(&(tiny_spec){.more = no_experts}, &c), SP_OK);
    assert_int_equal(read_gguf(&(tiny_spec){.more = window}, &c), SP_OK);
    assert_true(c.hp.n_ctx == 512 && c.hp.sliding_window == 100);
    assert_true(c.layers[0] == SP_LAYER_LOCAL && c.layers[1] == SP_LAYER_LOCAL);
}

ENTRY(neutral_keys, gw_u32(w, "llama.expert_gating_func", 0); gw_f32(w, "llama.expert_weights_scale", 0);
      gw_u32(w, "llama.what_nobody_knows", 0); gw_bool(w, "llama.rope.scaling.finetuned", false);
      gw_text(w, "qwen2.what_nobody_knows", "of another architecture"))
ENTRY(expert_widths, gw_u32(w, "llama.expert_feed_forward_length", 5))
ENTRY(two_ropes, gw_f32(w, "llama.rope.freq_base_swa", 10000))
ENTRY(experts_of_qwen2, gw_u32(w, "qwen2.expert_count", 8))
ENTRY(unrotated_granite, gw_bool(w, "granite.rope.scaling.finetuned", false))

/* Keys that say nothing, and those of other architectures, are passed over; what changes the result is refused. */
static void neutral_keys_are_accepted(void **state)
{
    sp_config c;
    if (read_gguf(&(tiny_spec){.more = neutral_keys}, &c) != SP_OK) fail_msg("%s", sp_error_detail());
    refuse_entry(NULL, expert_widths, SP_E_UNSUPPORTED,
                 "llama.expert_feed_forward_length: is not supported for llama");
    refuse_entry(NULL, two_ropes, SP_E_UNSUPPORTED, "llama.rope.freq_base_swa: is not supported for llama");
    assert_int_equal(read_gguf(&(tiny_spec){.arch = "qwen2", .more = experts_of_qwen2}, &c), SP_E_UNSUPPORTED);
    assert_detail("qwen2.expert_count: 8: a mixture of experts is not supported");
    assert_int_equal(read_gguf(&(tiny_spec){.arch = "granite", .more = unrotated_granite}, &c), SP_E_UNSUPPORTED);
    assert_detail("granite.rope.scaling.finetuned: 0: attention without positions");
}

static void architecture_is_needed(void **state)
{
    for (int i = 0; i < 2; i++) {
        gguf_writer w;
        sp_bytes file = {0};
        sp_gguf g;
        sp_config c;
        gw_begin(&w, 3);
        if (i) numbered_arch(&w);
        gw_file(&w, &file);
        assert_int_equal(sp_gguf_parse((uint8_t *)file.v, file.n, TINY_NAME, &g), SP_OK);
        assert_int_equal(sp_config_of_gguf(&g, &c), SP_E_FORMAT);
        assert_detail(i ? "general.architecture: is u32" : "general.architecture: is missing");
        sp_gguf_close(&g);
        sp_vec_fini(&file);
        gw_end(&w);
    }
}

/* -- rotary frequencies --------------------------------------------------------------------- */

#define PAIRS 4 /* of the base's head of 8 */

static void assert_freq(const sp_rope_spec *r, int i, double want)
{
    if (!(fabs(r->freq[i] - want) <= 1e-7 * want))
        fail_msg("pair %d: %.9g, not %.9g", i, (double)r->freq[i], want);
}

static void fill(const char *changes, float *freq, sp_rope_spec *r)
{
    sp_config c = good_json(changes);
    r->freq = freq;
    sp_rope_fill(&c.rope, NULL, c.adjacent, r);
    assert_int_equal(r->n_rot, 2 * PAIRS);
}

static void plain_and_linear_frequencies(void **state)
{
    float freq[PAIRS];
    sp_rope_spec r;
    fill("{}", freq, &r);
    for (int i = 0; i < PAIRS; i++) assert_freq(&r, i, pow(500000, -i / 4.0));
    assert_true(r.magnitude == 1);
    fill("{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.5}}", freq, &r);
    for (int i = 0; i < PAIRS; i++) assert_freq(&r, i, pow(500000, -i / 4.0) / 2.5);
    fill("{\"rope_scaling\": {\"rope_type\": \"default\"}}", freq, &r);
    assert_freq(&r, 3, pow(500000, -0.75));
    fill("{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.5, \"attention_factor\": 2}}", freq, &r);
    assert_true(r.magnitude == 1); /* only YaRN and longrope have one */
}

/* The old name of longrope; what attention is multiplied by follows from the factor. */
static void longrope_has_the_short_factors(void **state)
{
    static const char rope[] = "{\"rope_scaling\": {\"type\": \"%s\", \"short_factor\": [1, 2, 4, 8],"
                               " \"original_max_position_embeddings\": 1024%s}}";
    static const struct {
        const char *type, *more;
        double attention;
    } cases[] = {{"su", "", 1.0954451150103321}, {"longrope", ", \"factor\": 0.5", 1}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        char changes[256];
        float freq[PAIRS];
        sp_rope_spec r;
        snprintf(changes, sizeof changes, rope, cases[i].type, cases[i].more);
        fill(changes, freq, &r);
        for (int k = 0; k < PAIRS; k++) assert_freq(&r, k, pow(500000, -k / 4.0) / (1 << k));
        assert_true(fabs((double)r.magnitude - cases[i].attention) < 1e-6);
        assert_int_equal(good_json(changes).hp.n_ctx, 1024);
    }
}

/* The factors of a file are the only ones: the short ones of its configuration are not used beside them. */
static void factors_of_a_file_replace_those_of_longrope(void **state)
{
    static const float factors[PAIRS] = {1, 3, 5, 7};
    float freq[PAIRS];
    sp_rope_spec r = {.freq = freq};
    sp_config c = good_json("{\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, 2, 4, 8],"
                            " \"original_max_position_embeddings\": 1024}}");
    sp_rope_fill(&c.rope, factors, c.adjacent, &r);
    for (int k = 0; k < PAIRS; k++) assert_freq(&r, k, pow(500000, -k / 4.0) / (1 + 2 * k));
}

/* Wavelengths of the base are 6.28, 167, 4443, 118145 tokens. With 8192 tokens of training, those
 * up to 8192 / 4 stay, those above 8192 / 1 are stretched by 8, and 4443 is on the ramp. */
static void llama3_frequencies(void **state)
{
    float freq[PAIRS];
    sp_rope_spec r;
    fill("{\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1,"
         " \"high_freq_factor\": 4, \"original_max_position_embeddings\": 8192}}",
         freq, &r);
    double ramp = pow(500000, -0.5), wave = 2 * acos(-1) / ramp;
    double smooth = (8192 / wave - 1) / (4 - 1);
    assert_true(smooth > 0.2 && smooth < 0.4);
    assert_freq(&r, 0, 1);
    assert_freq(&r, 1, pow(500000, -0.25));
    assert_freq(&r, 2, (1 - smooth) * ramp / 8 + smooth * ramp);
    assert_freq(&r, 3, pow(500000, -0.75) / 8);
}

/* head 8, base 10000, 4096 tokens: beta 32 is at pair 1.31, beta 1 at pair 2.81; the ramp runs
 * from 1 to 3, so pair 2 is half stretched. The context grows with the factor. */
static void yarn_frequencies(void **state)
{
    static const char yarn[] = "{\"rope_theta\": 10000, \"rope_scaling\": {\"rope_type\": \"yarn\","
                               " \"factor\": 4%s}}";
    char changes[256];
    float freq[PAIRS];
    sp_rope_spec r;
    snprintf(changes, sizeof changes, yarn, "");
    fill(changes, freq, &r);
    assert_freq(&r, 0, 1);
    assert_freq(&r, 1, 0.1);
    assert_freq(&r, 2, 0.5 * 0.01 + 0.5 * 0.01 / 4);
    assert_freq(&r, 3, 0.001 / 4);
    assert_true(r.magnitude == (float)(0.1 * log(4) + 1));
    assert_int_equal(good_json(changes).hp.n_ctx, 16384);
    snprintf(changes, sizeof changes, yarn, ", \"attention_factor\": 1.5");
    fill(changes, freq, &r);
    assert_true(r.magnitude == 1.5f);
    snprintf(changes, sizeof changes, yarn, ", \"truncate\": false");
    fill(changes, freq, &r);
    const double first = log(4096 / (32 * 2 * acos(-1))) / log(10), last = log(4096 / (2 * acos(-1))) / log(10);
    const double stretch = (2 - first) / (last - first);
    assert_freq(&r, 2, stretch * 0.01 / 4 + (1 - stretch) * 0.01);
    fill("{\"rope_theta\": 10, \"max_position_embeddings\": 512,"
         " \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4}}",
         freq, &r); /* the ramp runs from 1 to 8, and ends at 7 */
    assert_freq(&r, 2, pow(10, -0.5) * (1.0 / 6 / 4 + 5.0 / 6));
}

ENTRY(linear, {
    gw_text(w, "llama.rope.scaling.type", "linear");
    gw_f32(w, "llama.rope.scaling.factor", 4);
})
ENTRY(old_linear, gw_f32(w, "llama.rope.scale_linear", 4))
ENTRY(no_scaling, {
    gw_text(w, "llama.rope.scaling.type", "none");
    gw_f32(w, "llama.rope.scaling.factor", 4);
})
ENTRY(yarn_factor, {
    gw_text(w, "llama.rope.scaling.type", "yarn");
    gw_f32(w, "llama.rope.scaling.factor", 4);
    gw_f32(w, "llama.rope.scaling.attn_factor", 2);
})
ENTRY(long_factors, {
    gw_u32(w, "llama.rope.scaling.original_context_length", 64);
    gw_tensor(w, "rope_factors_long.weight", GGUF_F32, 0, PAIRS, 4);
    gw_tensor(w, "rope_factors_short.weight", GGUF_F32, 0, PAIRS, 5);
})
ENTRY(factors, gw_tensor(w, "rope_freqs.weight", GGUF_F32, 0, PAIRS, 5))
ENTRY(wrong_factors, gw_tensor(w, "rope_freqs.weight", GGUF_F32, 0, PAIRS + 1, 5))
ENTRY(zero_factors, {
    gw_pad(&w->data, w->alignment);
    gw_describe(w, "rope_freqs.weight", GGUF_F32, 1, &(uint64_t){PAIRS}, w->data.n);
    gw_int(&w->data, 0, 4 * PAIRS);
})
static void last_factor_zero(gguf_writer *w)
{
    const float ones[PAIRS] = {1, 1, 1};
    gw_pad(&w->data, w->alignment);
    gw_describe(w, "rope_freqs.weight", GGUF_F32, 1, &(uint64_t){PAIRS}, w->data.n);
    gw_raw(&w->data, ones, sizeof ones);
}

/* GGUF files store the scaling of llama3 as one divisor for each pair. */
static void gguf_frequencies(void **state)
{
    static const struct {
        void (*more)(gguf_writer *w);
        double divisor;
    } cases[] = {{linear, 4}, {old_linear, 4}, {no_scaling, 1}, {factors, 0}, {long_factors, 0}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_bytes file = {0};
        sp_model *m;
        tiny_file(&(tiny_spec){.more = cases[i].more}, &file);
        assert_int_equal(tiny_open(&file, &m), SP_OK);
        for (int k = 0; k < PAIRS; k++) {
            double stored = (double)(1 + (k * 37 + 5 * 11) % 101) / 64;
            assert_freq(&m->rope, k,
                        pow(10000, -k / 4.0) / (cases[i].divisor ? cases[i].divisor : stored));
        }
        assert_int_equal(m->hp.n_ctx, cases[i].more == long_factors ? 64 : 512); /* where long ones would begin */
        sp_model_close(m);
        sp_vec_fini(&file);
    }
    tiny_refuse(&(tiny_spec){.more = wrong_factors}, SP_E_FORMAT,
                "tensor rope_freqs.weight: its shape is 5, the configuration asks for 4");
    tiny_refuse(&(tiny_spec){.more = zero_factors}, SP_E_FORMAT,
                "rope_freqs.weight: factor 0 is not positive");
    tiny_refuse(&(tiny_spec){.more = last_factor_zero}, SP_E_FORMAT,
                "rope_freqs.weight: factor 3 is not positive");
    sp_config c;
    assert_int_equal(read_gguf(&(tiny_spec){.more = yarn_factor}, &c), SP_OK);
    assert_true(fabs(c.rope.attention - 2 * (1 + 0.1 * log(4))) < 1e-9);
}

/* Of transformers 5.23 (modeling_rope_utils), for a head of 128: both ends of YaRN's ramp are inside it. */
static void long_heads_have_the_frequencies_of_transformers(void **state)
{
    static const int pairs[] = {0, 15, 22, 28, 33, 40, 46, 63};
    static const struct {
        sp_rope_config c;
        double freq[8];
    } cases[] = {
        {{.scaling = SP_ROPE_YARN, .n_rot = 128, .base = 10000, .factor = 4, .trained_ctx = 4096, .beta_fast = 32,
          .beta_slow = 1},
         {1, 0.115478203, 0.039736785, 0.0136790723, 0.00541227683, 0.00133788679, 0.000333380362, 2.88695483e-05}},
        {{.scaling = SP_ROPE_YARN, .n_rot = 128, .base = 10000, .factor = 4, .trained_ctx = 4096, .beta_fast = 32,
          .beta_slow = 1, .exact_ramp = true},
         {1, 0.115478203, 0.0407834463, 0.0138753708, 0.00540841511, 0.00128563191, 0.000333380362, 2.88695483e-05}},
        {{.scaling = SP_ROPE_LLAMA3, .n_rot = 128, .base = 500000, .factor = 8, .trained_ctx = 8192, .low = 1,
          .high = 4},
         {1, 0.0461640507, 0.0109895291, 0.00321144611, 0.00031269365, 3.42810235e-05, 1.00178686e-05,
          3.06892588e-07}},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        float freq[64];
        sp_rope_spec r = {.freq = freq};
        sp_rope_fill(&cases[i].c, NULL, false, &r);
        for (size_t k = 0; k < SP_COUNT(pairs); k++)
            if (fabs(freq[pairs[k]] - cases[i].freq[k]) > 2e-5 * cases[i].freq[k])
                fail_msg("case %zu, pair %d: %.9g, not %.9g", i, pairs[k], (double)freq[pairs[k]], cases[i].freq[k]);
    }
}

/* What the classes of transformers have where a file says nothing; null turns it off. */
static void defaults_are_those_of_the_classes(void **state)
{
    sp_config c = good_json("{\"model_type\": \"gemma2\", \"hidden_act\": \"gelu_pytorch_tanh\"}");
    assert_true(c.hp.attn_cap == 50 && c.hp.logit_cap == 30 && c.hp.attn_scale == 1.0f / 16);
    c = good_json("{\"model_type\": \"gemma2\", \"hidden_act\": \"gelu_pytorch_tanh\","
                  "\"attn_logit_softcapping\": null, \"final_logit_softcapping\": 20}");
    assert_true(c.hp.attn_cap == 0 && c.hp.logit_cap == 20);
    assert_int_equal(good_json("{\"model_type\": \"glm4\"}").rope.n_rot, PAIRS);
    assert_int_equal(good_json("{\"model_type\": \"nemotron\", \"hidden_act\": \"relu2\"}").rope.n_rot, PAIRS);
    assert_int_equal(good_json("{\"model_type\": \"llama\"}").rope.n_rot, 2 * PAIRS);
    assert_true(good_json("{\"model_type\": \"smollm3\", \"-\": \"rope_theta\"}").rope.base == 2e6);
    assert_true(good_json("{\"model_type\": \"ernie4_5\", \"-\": \"rope_theta\"}").rope.base == 5e5);
    c = good_json("{\"model_type\": \"gemma3_text\", \"hidden_act\": \"gelu_pytorch_tanh\", \"sliding_window\": 9,"
                  " \"-\": \"rope_theta\"}");
    assert_true(c.rope.base == 1e6 && c.rope_local.base == 10000 && c.rope_local.n_rot == 256 && c.hp.head == 256);
}

/* Files of these sizes and no tensors; more: further keys, without the architecture's prefix. */
static sp_config of_keys(const char *arch, int n_layers, const char *const *names, const int *values)
{
    static const char *const keys[] = {
        "block_count",          "embedding_length",       "feed_forward_length", "attention.head_count",
        "attention.key_length", "attention.value_length", "context_length"};
    const int sizes[] = {n_layers, 96, 240, 4, 16, 16, 512};
    char key[80];
    gguf_writer w;
    sp_bytes file = {0};
    sp_gguf g;
    sp_config c = {0};
    gw_begin(&w, 3);
    gw_text(&w, "general.architecture", arch);
    for (size_t i = 0; i < SP_COUNT(keys); i++) {
        snprintf(key, sizeof key, "%s.%s", arch, keys[i]);
        gw_u32(&w, key, (uint32_t)sizes[i]);
    }
    for (int i = 0; names && names[i]; i++) {
        snprintf(key, sizeof key, "%s.%s", arch, names[i]);
        gw_u32(&w, key, (uint32_t)values[i]);
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", arch);
    gw_f32(&w, key, 1e-6f);
    gw_file(&w, &file);
    assert_int_equal(sp_gguf_parse((uint8_t *)file.v, file.n, TINY_NAME, &g), SP_OK);
    if (sp_config_of_gguf(&g, &c) != SP_OK) fail_msg("%s: %s", arch, sp_error_detail());
    sp_gguf_close(&g);
    sp_vec_fini(&file);
    gw_end(&w);
    return c;
}

/* Scores are divided by the root of a head's size; of gemma2-27b and gemma3-27b by that of width / heads (here
 * 96 / 4), which GGUF files do not say: llama.cpp knows them by their layers. config.json says the number. */
static void scores_of_gemma_are_scaled_by_the_scalar_of_the_query(void **state)
{
    static const struct {
        const char *arch;
        int n_layers, scalar;
    } files[] = {{"gemma2", 42, 16}, {"gemma2", 46, 24}, {"gemma2", 62, 16}, {"gemma3", 48, 16},
                 {"gemma3", 62, 24}, {"gemma3", 46, 16}, {"gemma", 46, 16}};
    for (size_t i = 0; i < SP_COUNT(files); i++) {
        const float got = of_keys(files[i].arch, files[i].n_layers, NULL, NULL).hp.attn_scale;
        if (fabs(got - 1 / sqrt(files[i].scalar)) > 1e-6)
            fail_msg("%s, %d: %g", files[i].arch, files[i].n_layers, (double)got);
    }
    static const char *const types[] = {"gemma2", "gemma3_text"};
    for (size_t i = 0; i < SP_COUNT(types); i++) {
        char changes[200];
        snprintf(changes, sizeof changes,
                 "{\"model_type\": \"%s\", \"hidden_act\": \"gelu_pytorch_tanh\","
                 " \"sliding_window\": 9, \"query_pre_attn_scalar\": 144}",
                 types[i]);
        assert_true(good_json(changes).hp.attn_scale == (float)(1 / sqrt(144)));
    }
}

/* Where a file has no width of experts, they divide that of a dense layer, and the shared one has all of it. */
static void experts_have_the_widths_of_the_file(void **state)
{
    static const char *const names[] = {"expert_count", "expert_used_count", "expert_feed_forward_length",
                                        "expert_shared_feed_forward_length", NULL};
    const int values[] = {8, 3, 56, 88};
    static const char *const few[] = {"expert_count", "expert_used_count", NULL};
    const sp_config all = of_keys("qwen2moe", 3, names, values), some = of_keys("qwen2moe", 3, few, values);
    assert_true(all.hp.moe.n_ff == 56 && all.hp.moe.n_shared == 88 && all.hp.n_ff == 88);
    assert_true(some.hp.moe.n_ff == 80 && some.hp.moe.n_shared == 240 && some.hp.n_ff == 240);
    const sp_config json =
        good_json("{\"model_type\": \"qwen2_moe\", \"num_experts\": 4, \"num_experts_per_tok\": 2,"
                  "\"moe_intermediate_size\": 24, \"shared_expert_intermediate_size\": 40}");
    assert_true(json.hp.moe.n_ff == 24 && json.hp.moe.n_shared == 40 && json.hp.n_ff == 40);
    assert_int_equal(of_keys("qwen3moe", 3, few, values).hp.moe.n_shared, 0);
    static const char *const norm[] = {"expert_count", "expert_used_count", "expert_weights_norm", NULL};
    assert_true(of_keys("qwen3moe", 3, few, values).hp.moe.sum_to_1);
    assert_false(of_keys("qwen3moe", 3, norm, (const int[]){8, 3, 0}).hp.moe.sum_to_1);
    assert_true(of_keys("qwen2moe", 3, norm, (const int[]){8, 3, 1}).hp.moe.sum_to_1);
    assert_false(some.hp.moe.sum_to_1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_config_json),
        cmocka_unit_test(layers_have_the_windows_that_the_file_says),
        cmocka_unit_test(refuses_config_json),
        cmocka_unit_test(keys_are_needed),
        cmocka_unit_test(entries_are_checked),
        cmocka_unit_test(neutral_fields_are_accepted),
        cmocka_unit_test(neutral_keys_are_accepted),
        cmocka_unit_test(architecture_is_needed),
        cmocka_unit_test(plain_and_linear_frequencies),
        cmocka_unit_test(longrope_has_the_short_factors),
        cmocka_unit_test(factors_of_a_file_replace_those_of_longrope),
        cmocka_unit_test(llama3_frequencies),
        cmocka_unit_test(long_heads_have_the_frequencies_of_transformers),
        cmocka_unit_test(defaults_are_those_of_the_classes),
        cmocka_unit_test(scores_of_gemma_are_scaled_by_the_scalar_of_the_query),
        cmocka_unit_test(experts_have_the_widths_of_the_file),
        cmocka_unit_test(yarn_frequencies),
        cmocka_unit_test(gguf_frequencies),
    };
    return cmocka_run_group_tests_name("model/config", tests, NULL, NULL);
}
