"""Every architecture against Hugging Face's transformers, on small random models (tests/golden).

The weights follow from the names of the tensors (reference/architectures.py), so the golden file has
configurations, shapes and logits only.
"""
import json
from pathlib import Path

import numpy as np
import pytest
from conftest import refuse, run, succeed

from reference.architectures import NOT_GGUF as NOT_GGUF_TYPES
from reference.architectures import LONG, MEDIA, ROWS, TOKENS, YARN, draw, write_arrays, write_folder

GOLDEN = json.loads((Path(__file__).parent.parent / "golden/architectures.json").read_text())


def logits(tmp_path, model, *more, variant=None):
    raw = tmp_path / "logits.f32"
    succeed("logits", "-m", model, "--tokens", ",".join(map(str, TOKENS)), "--raw", raw,
            "-ctk", "f32", "-ctv", "f32", *more, variant=variant)
    return np.fromfile(raw, "<f4").reshape(len(TOKENS), -1)


def bound(want):
    """Logits of random configurations reach 40."""
    return 1e-4 * max(1, np.abs(want).max() / 10)


@pytest.mark.parametrize("case", GOLDEN)
def test_a_folder_has_the_logits_of_transformers(case, tmp_path):
    golden = GOLDEN[case]
    write_folder(tmp_path / "model", golden["config"], golden["tensors"])
    got = logits(tmp_path, tmp_path / "model")[list(ROWS)]
    assert np.abs(got - np.array(golden["logits"])).max() < bound(golden["logits"])


# Not in GGUF files: glm and ministral (their files are of another architecture); dynamic scaling, truncation
# and mscale of YaRN, windows of starcoder2 and of some layers of qwen2 (converters drop them); and the scale of
# gemma's queries, which follows from the head. Nor layers that all lack a window, in an architecture that has one.
NOT_GGUF = ("llama-yarn-mscale", "llama-yarn-exact", "gemma2", "cohere2-full", "exaone4-still")


@pytest.mark.parametrize("case", [
    name for name in GOLDEN if name not in (*NOT_GGUF, *MEDIA) and GOLDEN[name]["config"]["model_type"] not in NOT_GGUF_TYPES])
def test_a_gguf_file_has_the_logits_of_transformers(case, tmp_path):
    pytest.importorskip("gguf")
    from reference import to_gguf
    config, tensors = GOLDEN[case]["config"], GOLDEN[case]["tensors"]
    to_gguf.write(tmp_path / "model.gguf", config, draw(config, tensors))
    got = logits(tmp_path, tmp_path / "model.gguf")[list(ROWS)]
    assert np.abs(got - np.array(GOLDEN[case]["logits"])).max() < bound(GOLDEN[case]["logits"])


# -- the same computation under another name -------------------------------------------------------

def test_pangu_is_llama_with_biases(tmp_path):
    """No class of transformers has this architecture; its own has Llama's formulas."""
    golden = GOLDEN["llama-bias"]
    config = {**golden["config"], "model_type": "PanguEmbedded", "bias": True,
              "architectures": ["PanguEmbeddedForCausalLM"]}
    write_folder(tmp_path / "model", config, golden["tensors"])
    got = logits(tmp_path, tmp_path / "model")[list(ROWS)]
    want = np.array(golden["logits"])
    # the weights follow from names and shapes alone, so they are Llama's
    assert np.abs(got - want).max() < 1e-4
    pytest.importorskip("gguf")
    from reference import to_gguf
    config["model_type"] = "pangu-embedded"
    to_gguf.write(tmp_path / "model.gguf", config, draw(config, golden["tensors"]))
    got = logits(tmp_path, tmp_path / "model.gguf")[list(ROWS)]
    assert np.abs(got - want).max() < 1e-4


# What converters write under names whose classes are not part of transformers, or hold more than text.
@pytest.mark.parametrize("name,case", [("exaone", "llama-bias"), ("internlm2", "llama-bias"), ("minicpm", "granite"),
                                       ("qwen2vl", "llama-bias"), ("qwen3vl", "qwen3"), ("qwen3vlmoe", "qwen3moe")])
def test_a_gguf_file_under_another_name_is_the_same_computation(name, case, tmp_path):
    pytest.importorskip("gguf")
    from reference import to_gguf
    golden = GOLDEN[case]
    config = {**golden["config"], "model_type": name}
    sections = [2, 1, 1, 0] if "vl" in name else None
    to_gguf.write(tmp_path / "model.gguf", config, draw(golden["config"], golden["tensors"]), sections)
    got = logits(tmp_path, tmp_path / "model.gguf")[list(ROWS)]
    assert np.abs(got - np.array(golden["logits"])).max() < 1e-4


@pytest.mark.parametrize("name", ["qwen3moe", "qwen3vlmoe"])
def test_experts_of_qwen3_sum_up_to_1_also_in_files_that_do_not_say_so(name, tmp_path):
    """Converters leave out `expert_weights_norm`."""
    pytest.importorskip("gguf")
    from reference import to_gguf
    golden = GOLDEN["qwen3moe"]
    assert golden["config"]["norm_topk_prob"]
    config = {**golden["config"], "model_type": name, "norm_topk_prob": None}
    to_gguf.write(tmp_path / "model.gguf", config, draw(golden["config"], golden["tensors"]),
                  [2, 1, 1, 0] if "vl" in name else None)
    got = logits(tmp_path, tmp_path / "model.gguf")[list(ROWS)]
    assert np.abs(got - np.array(golden["logits"])).max() < 1e-4


def test_another_choice_of_experts_is_refused(tmp_path):
    gguf = pytest.importorskip("gguf")
    from reference import to_gguf
    golden = GOLDEN["ernie4_5_moe"]
    to_gguf.write(tmp_path / "model.gguf", golden["config"], draw(golden["config"], golden["tensors"]),
                  gating=gguf.ExpertGatingFuncType.SIGMOID)
    refuse("logits", "-m", tmp_path / "model.gguf", "--tokens", "1", naming=["ernie4_5-moe.expert_gating_func", "2"])


def with_a_layer_that_guesses(case):
    """The model, and a layer after its last one for the token after the next, as it is published."""
    config, tensors = GOLDEN[case]["config"], dict(GOLDEN[case]["tensors"])
    last = config["num_hidden_layers"]
    extra = {name.replace(f"layers.{last - 1}.", f"layers.{last}."): shape for name, shape in tensors.items()
             if f"layers.{last - 1}." in name}
    width = config["hidden_size"]
    return config, {**tensors, **extra, f"model.layers.{last}.eh_proj.weight": [width, 2 * width],
                    f"model.layers.{last}.enorm.weight": [width]}


def test_a_layer_that_guesses_later_tokens_is_not_read(tmp_path):
    config, tensors = with_a_layer_that_guesses("glm4_moe")
    want = np.array(GOLDEN["glm4_moe"]["logits"])
    write_folder(tmp_path / "model", config, tensors)
    assert np.abs(logits(tmp_path, tmp_path / "model")[list(ROWS)] - want).max() < 1e-4
    write_folder(tmp_path / "none", {**config, "num_nextn_predict_layers": 0}, tensors)
    refuse("logits", "-m", tmp_path / "none", "--tokens", "1", naming=["model.layers.4."])
    pytest.importorskip("gguf")
    from reference import to_gguf
    to_gguf.write(tmp_path / "model.gguf", {**config, "num_hidden_layers": 5}, draw(config, tensors))
    assert np.abs(logits(tmp_path, tmp_path / "model.gguf")[list(ROWS)] - want).max() < 1e-4


# -- windows ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("case", ["gemma3", "gemma2-window", "mistral", "mixtral", "qwen2moe", "gpt-oss", "cohere2", "ministral3",
                                  "ernie4_5_moe", "glm4_moe-groups"])
@pytest.mark.parametrize("piece", [1, 7])
def test_pieces_give_the_bits_of_the_whole(case, piece, variant, tmp_path):
    golden = GOLDEN[case]
    write_folder(tmp_path / "model", golden["config"], golden["tensors"])
    whole = logits(tmp_path, tmp_path / "model", variant=variant)
    cut = logits(tmp_path, tmp_path / "model", "-b", piece, variant=variant)
    assert np.abs(whole[list(ROWS)] - np.array(golden["logits"])).max() < 1e-4
    assert cut.tobytes() == whole.tobytes()


# -- what is refused -------------------------------------------------------------------------------

@pytest.mark.parametrize("case,changes,named", [
    ("llama", {"attn_logit_softcapping": 30.0}, "attn_logit_softcapping"),
    ("llama", {"final_logit_softcapping": 30.0}, "final_logit_softcapping"),
    ("qwen2", {"query_pre_attn_scalar": 24}, "query_pre_attn_scalar"),
    ("qwen3", {"num_experts": 4}, "num_experts"),
    ("mistral", {"logits_scaling": 4.0}, "logits_scaling"),
    ("gemma2", {"hidden_activation": "relu"}, "hidden_activation"),
    ("gemma3", {"use_bidirectional_attention": True}, "use_bidirectional_attention"),
    ("gemma3", {"attn_logit_softcapping": 30.0}, "attn_logit_softcapping"),  # the class has the field and ignores it
    ("qwen3moe", {"mlp_only_layers": [0]}, "mlp_only_layers"),
    ("qwen2moe", {"decoder_sparse_step": 2}, "decoder_sparse_step"),
    ("ernie4_5_moe", {"moe_layer_end_index": 2}, "moe_layer_end_index"),
    ("ernie4_5_moe", {"moe_layer_interval": 2}, "moe_layer_interval"),
    ("ernie4_5_moe", {"moe_layer_start_index": 5}, "moe_layer_start_index"),
    ("ernie4_5_moe", {"moe_k": None}, "is missing"),
    ("glm4_moe", {"use_qk_norm": True}, "use_qk_norm"),
    ("glm4_moe-groups", {"use_qk_norm": False}, "use_qk_norm"),
    ("glm4_moe-groups", {"n_group": 5}, "topk_group"),
    ("glm4_moe-groups", {"topk_group": 5}, "topk_group"),
    ("glm4_moe", {"topk_group": 0}, "topk_group"),
    ("ministral3", {"rope_parameters": None}, "rope_type"),
    ("ministral3", {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "llama_4_scaling": 1}}, "llama_4_scaling"),
    ("smollm3", {"use_sliding_window": True}, "use_sliding_window"),
    ("granite", {"position_embedding_type": "nope"}, "position_embedding_type"),
    ("olmo2", {"clip_qkv": 8.0}, "clip_qkv"),
    ("gpt-oss", {"swiglu_limit": 5.0}, "swiglu_limit"),
    ("gpt-oss", {"quantization_config": {"quant_method": "gptq"}}, "gptq"),
    ("llama", {"quantization_config": {"quant_method": "mxfp4"}}, "mxfp4"),
    ("stablelm", {"use_parallel_residual": True}, "use_parallel_residual"),
    ("ernie4_5_moe", {"moe_norm_min": 0.5}, "moe_norm_min"),
    ("llama-yarn", {"rope_parameters": {**YARN, "original_max_position_embeddings": 6}}, "original_max_position_embeddings"),
    ("stablelm", {"qk_layernorm": True}, "qk_layernorm"),
    ("cohere", {"use_qk_norm": True}, "use_qk_norm"),
    ("nemotron", {"hidden_act": "silu"}, "hidden_act"),
    ("llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
    ("qwen3", {"rope_parameters": {"rope_theta": 10000.0, "partial_rotary_factor": 0.5}}, "partial_rotary_factor"),
    ("llama", {"sliding_window": 9, "layer_types": ["full_attention", "sliding_attention"] * 2}, "layer_types"),
    ("qwen2", {"use_sliding_window": False}, "layer_types"),
    ("mistral", {"sliding_window_pattern": 2}, "sliding_window_pattern"),
    ("starcoder2", {"layer_types": ["full_attention", "sliding_attention"] * 2}, "layer_types"),
    ("olmo3", {"rope_local_base_freq": 1234.0}, "rope_local_base_freq"),
    ("olmo3", {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}, "full_attention"),
    ("phi3-longrope", {"rope_parameters": {**LONG, "rope_type": "yarn", "factor": 4.0}}, "yarn"),  # its class means longrope
])
def test_a_field_that_nothing_reads_is_refused(case, changes, named, tmp_path):
    golden = GOLDEN[case]
    write_folder(tmp_path / "model", {**golden["config"], **changes}, golden["tensors"])
    refuse("logits", "-m", tmp_path / "model", "--tokens", "1", "--json",
           naming=["config.json", named])


@pytest.mark.parametrize("case,changes,tensor", [
    ("ernie4_5_moe", {"moe_num_shared_experts": 1}, "model.layers.1.mlp.shared_experts.gate_proj.weight"),
    ("ernie4_5_moe", {"moe_num_shared_experts": 0}, "model.layers.1.mlp.shared_experts.gate_proj.weight"),
    ("ernie4_5_moe-alone", {"moe_num_shared_experts": 1}, "model.layers.0.mlp.shared_experts.gate_proj.weight"),
    ("glm4_moe", {"first_k_dense_replace": 0}, "model.layers.0.mlp.gate.weight"),
    ("glm4_moe", {"first_k_dense_replace": 2}, "model.layers.1.mlp.gate_proj.weight")])
def test_tensors_of_another_mixture_are_refused(case, changes, tensor, tmp_path):
    golden = GOLDEN[case]
    write_folder(tmp_path / "model", {**golden["config"], **changes}, golden["tensors"])
    refuse("logits", "-m", tmp_path / "model", "--tokens", "1", "--json", naming=[tensor])


@pytest.mark.parametrize("case", ["ernie4_5_moe", "glm4_moe", "glm4_moe-groups"])
def test_every_tensor_of_a_mixture_must_be_there(case, tmp_path):
    golden = GOLDEN[case]
    for name in [n for n in golden["tensors"] if ".layers.0." in n or ".layers.3." in n and ".experts.1" not in n]:
        write_folder(tmp_path / "model", golden["config"], {n: s for n, s in golden["tensors"].items() if n != name})
        said = run("logits", "-m", tmp_path / "model", "--tokens", "1", "--json")
        if "moe_statics" in name:  # older files of ERNIE have none
            assert said.returncode == 0
        else:
            assert said.returncode == 1 and ("_norm." in name or name in said.stderr) and "missing" in said.stderr, (name, said.stderr)


@pytest.mark.parametrize("case,field", [
    ("granite", "attention_multiplier"), ("granitemoe", "embedding_multiplier"), ("mistral", "sliding_window"), ("gemma3", "sliding_window"),
    ("cohere2", "sliding_window"), ("exaone4-full", "sliding_window"), ("gpt-oss", "sliding_window")])
def test_a_field_is_missing_whose_default_is_the_classs_own(case, field, tmp_path):
    golden = GOLDEN[case]
    config = {key: value for key, value in golden["config"].items() if key != field}
    write_folder(tmp_path / "model", config, golden["tensors"])
    refuse("logits", "-m", tmp_path / "model", "--tokens", "1", "--json", naming=["config.json", f"{field}: is missing"])


@pytest.mark.parametrize("case", ["cohere", "ernie4_5", "ernie4_5_moe", "llama", "mixtral", "smollm3"])
def test_a_base_of_rotations_is_that_of_the_class_where_none_is_said(case, tmp_path):
    golden = GOLDEN[case]
    config = {key: value for key, value in golden["config"].items() if key != "rope_parameters"}
    write_folder(tmp_path / "model", config, golden["tensors"])
    assert np.abs(logits(tmp_path, tmp_path / "model")[list(ROWS)] - np.array(golden["logits"])).max() < 1e-4


@pytest.mark.parametrize("scaling,case", [
    ({"type": "linear", "factor": 4.0}, "llama-linear"), ({}, "llama"), (None, "llama"),
    ({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}, "llama-yarn")])
def test_rope_scaling_is_read_before_rope_parameters(scaling, case, tmp_path):
    """As it is added to a configuration that newer programs wrote. Its base is then the one beside it."""
    config = {**GOLDEN["llama"]["config"], "rope_scaling": scaling, "rope_theta": 10000.0}
    config["rope_parameters"] = {"rope_type": "default", "rope_theta": 500.0 if scaling else 10000.0}
    write_folder(tmp_path / "model", config, GOLDEN["llama"]["tensors"])
    assert np.abs(logits(tmp_path, tmp_path / "model")[list(ROWS)] - np.array(GOLDEN[case]["logits"])).max() < 1e-4


def test_an_output_matrix_that_config_json_ties_must_be_the_embedding(tmp_path):
    golden = GOLDEN["llama"]
    config = {**golden["config"], "tie_word_embeddings": True}
    tensors = draw(golden["config"], golden["tensors"])
    write_arrays(tmp_path / "other", config, tensors)
    refuse("logits", "-m", tmp_path / "other", "--tokens", "1", "--json", naming=["lm_head.weight", "tie_word_embeddings"])
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    write_arrays(tmp_path / "same", config, tensors)
    del tensors["lm_head.weight"]
    write_arrays(tmp_path / "none", config, tensors)
    assert logits(tmp_path, tmp_path / "same").tobytes() == logits(tmp_path, tmp_path / "none").tobytes()


@pytest.mark.parametrize("case", ["gpt-oss", "cohere2"])
def test_a_gguf_file_lacks_the_window_of_its_layers(case, tmp_path):
    pytest.importorskip("gguf")
    from reference import gguf_writer, to_gguf
    from reference.gguf import read
    golden, path = GOLDEN[case], tmp_path / "model.gguf"
    to_gguf.write(path, golden["config"], draw(golden["config"], golden["tensors"]))
    file = read(path)
    sources = [gguf_writer.from_array(name, "f32", t.decode()) for name, t in file.tensors.items()]
    key = f"{case}.attention.sliding_window"
    gguf_writer.write(path, {k: v for k, v in file.metadata.items() if k != key}, sources)
    refuse("logits", "-m", path, "--tokens", "1", "--json", naming=["model.gguf", f"{key}: is missing"])


@pytest.mark.parametrize("case,field", [("glm4", "attention_bias"), ("ernie4_5", "use_bias"),
                                        ("stablelm", "use_qkv_bias"), ("random-qwen2_moe", "qkv_bias")])
def test_biases_that_the_configuration_denies_are_refused(case, field, tmp_path):
    """transformers drops them with a warning."""
    golden = GOLDEN[case]
    assert any(name.endswith("q_proj.bias") for name in golden["tensors"])
    write_folder(tmp_path / "model", {**golden["config"], field: False}, golden["tensors"])
    refuse("logits", "-m", tmp_path / "model", "--tokens", "1", "--json", naming=["q_proj.bias", f"{field}: true"])


@pytest.mark.parametrize("case,tensor,size,field", [
    ("llama", "self_attn.k_proj.bias", 16, "attention_bias"), ("mistral", "self_attn.q_proj.bias", 64, "attention_bias"),
    ("qwen2", "self_attn.o_proj.bias", 32, "attention_bias"), ("llama", "mlp.down_proj.bias", 32, "mlp_bias"),
    ("glm4", "self_attn.o_proj.bias", 32, "attention_bias"),
    ("olmoe", "self_attn.v_proj.bias", 16, "attention_bias"), ("nemotron", "mlp.up_proj.bias", 48, "mlp_bias")])
def test_biases_that_the_configuration_does_not_have_are_refused(case, tensor, size, field, tmp_path):
    """In any layer."""
    golden = GOLDEN[case]
    write_folder(tmp_path / "model", golden["config"], {**golden["tensors"], f"model.layers.1.{tensor}": [size]})
    refuse("logits", "-m", tmp_path / "model", "--tokens", "1", "--json", naming=[f"layers.1.{tensor}", f"{field}: true"])


@pytest.mark.parametrize("case,tensor", [
    ("llama-bias", "model.layers.1.self_attn.k_proj.bias"), ("starcoder2", "model.layers.1.mlp.c_fc.bias"),
    ("nemotron", "model.norm.bias"), ("stablelm", "model.layers.1.input_layernorm.bias"),
    ("ernie4_5", "model.layers.1.mlp.gate_proj.bias")])
def test_biases_that_the_configuration_has_must_be_there(case, tensor, tmp_path):
    tensors = dict(GOLDEN[case]["tensors"])
    del tensors[tensor]
    write_folder(tmp_path / "model", GOLDEN[case]["config"], tensors)
    refuse("logits", "-m", tmp_path / "model", "--tokens", "1", "--json", naming=[f"{tensor}: is missing"])


@pytest.mark.parametrize("name,why", [("deepseek_v3", "compressed"), ("jamba", "state"), ("phimoe", "experts"),
                                      ("qwen3_vl_moe", "several media"), ("gpt_neox", "another form"),
                                      ("internlm2", "GGUF files are supported"), ("bert", "spolia embed")])
def test_an_architecture_is_refused_with_the_reason(name, why, tmp_path):
    golden = GOLDEN["llama"]
    write_folder(tmp_path / "model", {**golden["config"], "model_type": name}, golden["tensors"])
    refuse("logits", "-m", tmp_path / "model", "--tokens", "1", "--json", naming=["config.json", name, why])


@pytest.mark.parametrize("name", ["model.layers.0.self_attn.sinks", "model.layers.0.mlp.router.bias",
                                  "model.layers.9.input_layernorm.weight", "score.weight"])
def test_a_tensor_that_nothing_reads_is_refused(name, tmp_path):
    golden = GOLDEN["llama"]
    write_folder(tmp_path / "model", golden["config"], {**golden["tensors"], name: [4]})
    refuse("logits", "-m", tmp_path / "model", "--tokens", "1", "--json", naming=["model", name])


@pytest.mark.parametrize("key,value", [
    ("attn_logit_softcapping", 50.0), ("final_logit_softcapping", 30.0), ("residual_scale", 0.5),
    ("embedding_scale", 12.0), ("attention.scale", 0.1), ("attention.clamp_kqv", 8.0),
    ("attention.max_alibi_bias", 8.0), ("use_parallel_residual", True), ("unheard_of", "text"),
    ("rope.dimension_sections", [4, 2, 2, 0]), ("expert_gating_func", 2),
])
def test_a_key_that_nothing_reads_is_refused(key, value, tmp_path):
    pytest.importorskip("gguf")
    from reference import gguf_writer, to_gguf
    from reference.gguf import read
    golden, path = GOLDEN["qwen3"], tmp_path / "model.gguf"
    to_gguf.write(path, golden["config"], draw(golden["config"], golden["tensors"]))
    file = read(path)
    sources = [gguf_writer.from_array(name, "f32", t.decode()) for name, t in file.tensors.items()]
    gguf_writer.write(path, {**file.metadata, f"qwen3.{key}": value}, sources)
    refuse("logits", "-m", path, "--tokens", "1", "--json", naming=["model.gguf", f"qwen3.{key}"])


@pytest.mark.parametrize("name,case,key", [
    ("minicpm", "granite", "embedding_multiplier"), ("minicpm", "granite", "residual_multiplier"),
    ("granite", "granite", "logits_scaling"), ("command-r", "cohere", "logit_scale")])
def test_a_factor_that_is_missing_is_named(name, case, key, tmp_path):
    """Older files of minicpm, whose factors were constants of a program."""
    pytest.importorskip("gguf")
    from reference import to_gguf
    golden = GOLDEN[case]
    in_gguf = {"embedding_multiplier": "embedding_scale", "residual_multiplier": "residual_scale"}.get(key, "logit_scale")
    to_gguf.write(tmp_path / "model.gguf", {**golden["config"], "model_type": name, key: None},
                  draw(golden["config"], golden["tensors"]))
    refuse("logits", "-m", tmp_path / "model.gguf", "--tokens", "1", "--json", naming=[f"{name}.{in_gguf}: is missing"])
    if name != "minicpm":
        config = {k: v for k, v in golden["config"].items() if k != key}
        write_folder(tmp_path / "model", config, golden["tensors"])
        refuse("logits", "-m", tmp_path / "model", "--tokens", "1", "--json", naming=["config.json", f"{key}: is missing"])


# -- gpt-oss as it is published: experts in MXFP4 --------------------------------------------------

STEPS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def mxfp4(shape, seed):
    """Random weights [experts, rows, columns] as the two tensors of a folder, and their values, as published in
    transformers (integrations/mxfp4.py): a byte has two values, the first in its low bits."""
    rng = np.random.default_rng(seed)
    blocks = rng.integers(0, 256, (*shape[:-1], shape[-1] // 32, 16), np.uint8)
    scales = rng.integers(122, 126, (*shape[:-1], shape[-1] // 32), np.uint8)
    values = np.empty((*blocks.shape[:-1], 32))
    values[..., 0::2], values[..., 1::2] = STEPS[blocks & 15], STEPS[blocks >> 4]
    values *= 2.0 ** (scales[..., None].astype(int) - 127)
    return blocks, scales, values.reshape(shape).astype(np.float32)


def blocks_of_gguf(blocks, scales):
    """The same weights as a GGUF file has them: codes of values j and j + 16 share a byte."""
    codes = np.empty((*blocks.shape[:-1], 32), np.uint8)
    codes[..., 0::2], codes[..., 1::2] = blocks & 15, blocks >> 4
    packed = np.concatenate([scales[..., None], codes[..., :16] | codes[..., 16:] << 4], axis=-1)
    return np.ascontiguousarray(packed.reshape(*packed.shape[:-2], -1))


def small_oss():
    """A configuration whose rows are whole groups, shapes of its tensors without the experts' weights, and these."""
    golden = GOLDEN["gpt-oss"]
    wide, width = golden["config"]["hidden_size"], 64
    n = golden["config"]["num_local_experts"]  # all are used: rounding does not change the choice
    config = {**golden["config"], "hidden_size": width, "intermediate_size": 96, "num_experts_per_tok": n}
    own_rows = ("q_proj.weight", "k_proj.weight", "v_proj.weight", "q_proj.bias", "k_proj.bias", "v_proj.bias")
    kept = {}
    for name, shape in golden["tensors"].items():
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            continue
        if name.endswith("o_proj.weight"):
            kept[name] = [width, shape[1]]
        elif name.endswith("gate_up_proj_bias"):
            kept[name] = [shape[0], 192]
        elif name.endswith(own_rows) and len(shape) == 1 or shape[-1] != wide:
            kept[name] = shape
        else:
            kept[name] = [*shape[:-1], width]
    experts = {}
    for l in range(config["num_hidden_layers"]):
        for k, (name, shape) in enumerate((("gate_up_proj", (n, 192, width)), ("down_proj", (n, width, 96)))):
            experts[f"model.layers.{l}.mlp.experts.{name}"] = mxfp4(shape, 10 * l + k)
    return config, kept, experts


def mxfp4_tensors(config, kept, experts):
    parts = {f"{name}_{end}": x for name, (b, s, _) in experts.items() for end, x in (("blocks", b), ("scales", s))}
    return {**draw(config, kept), **parts}


def test_experts_in_mxfp4_are_those_of_a_gguf_file(tmp_path):
    gguf = pytest.importorskip("gguf")
    from reference import to_gguf
    config, kept, experts = small_oss()
    write_arrays(tmp_path / "model", {**config, "quantization_config": {
        "quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}}, mxfp4_tensors(config, kept, experts))
    plain = {**draw(config, kept), **{name: values.transpose(0, 2, 1) for name, (_, _, values) in experts.items()}}
    write_arrays(tmp_path / "plain", config, plain)
    raw = {}
    for name, (blocks, scales, values) in experts.items():
        packed = blocks_of_gguf(blocks, scales)
        assert np.array_equal(gguf.quants.dequantize(packed, gguf.GGMLQuantizationType.MXFP4), values)
        l = name.split(".")[2]
        halves = {"gate": packed[:, 0::2], "up": packed[:, 1::2]} if "gate_up" in name else {"down": packed}
        raw |= {f"blk.{l}.ffn_{part}_exps.weight": half for part, half in halves.items()}
    to_gguf.write(tmp_path / "model.gguf", config, plain, mxfp4=raw)
    got = logits(tmp_path, tmp_path / "model")
    assert logits(tmp_path, tmp_path / "model.gguf").tobytes() == got.tobytes()
    want = logits(tmp_path, tmp_path / "plain")  # float32 weights: activations are not rounded there
    assert np.abs(got - want).max() < 0.1 * np.abs(want).max()


@pytest.mark.parametrize("part,change,said", [
    ("down_proj_scales", lambda x: None, "down_proj_scales: is missing"),
    ("down_proj_blocks", lambda x: None, "down_proj_blocks: is missing"),
    ("down_proj_scales", lambda x: x[:, :-1], "its shape is 5 x 63 x 3, the configuration asks for 5 x 64 x 3"),
    ("gate_up_proj_blocks", lambda x: x[:, :, :1], "its shape is 5 x 192 x 1 x 16"),
    ("gate_up_proj_blocks", lambda x: x.astype(np.float32), "its type is f32, MXFP4 weights are U8"),
])
def test_a_wrong_part_of_mxfp4_is_refused_by_name(part, change, said, tmp_path):
    config, kept, experts = small_oss()
    tensors = mxfp4_tensors(config, kept, experts)
    name = f"model.layers.1.mlp.experts.{part}"
    changed = change(tensors.pop(name))
    if changed is not None:
        tensors[name] = changed
    write_arrays(tmp_path / "model", config, tensors)
    refuse("logits", "-m", tmp_path / "model", "--tokens", "1", "--json", naming=["model.layers.1.mlp.experts", said])
