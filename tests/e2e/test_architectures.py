"""Every architecture against Hugging Face's transformers, on small random models (tests/golden).

The weights follow from the names of the tensors (reference/architectures.py), so the golden file has
configurations, shapes and logits only.
"""
import json
from pathlib import Path

import numpy as np
import pytest
from conftest import refuse, succeed

from reference.architectures import NOT_GGUF as NOT_GGUF_TYPES
from reference.architectures import ROWS, TOKENS, draw, write_folder

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
# gemma's queries, which follows from the head.
NOT_GGUF = ("llama-yarn-mscale", "llama-yarn-exact", "gemma2")


@pytest.mark.parametrize("case", [
    name for name in GOLDEN if name not in NOT_GGUF and GOLDEN[name]["config"]["model_type"] not in NOT_GGUF_TYPES])
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


# -- windows ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("case", ["gemma3", "gemma2-window", "mistral", "mixtral", "qwen2moe", "gpt-oss", "cohere2"])
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
    ("qwen3moe", {"mlp_only_layers": [0]}, "mlp_only_layers"),
    ("qwen2moe", {"decoder_sparse_step": 2}, "decoder_sparse_step"),
    ("smollm3", {"use_sliding_window": True}, "use_sliding_window"),
    ("granite", {"position_embedding_type": "nope"}, "position_embedding_type"),
    ("olmo2", {"clip_qkv": 8.0}, "clip_qkv"),
    ("gpt-oss", {"swiglu_limit": 5.0}, "swiglu_limit"),
    ("gpt-oss", {"quantization_config": {"quant_method": "mxfp4"}}, "mxfp4"),
    ("stablelm", {"use_parallel_residual": True}, "use_parallel_residual"),
    ("stablelm", {"qk_layernorm": True}, "qk_layernorm"),
    ("cohere", {"use_qk_norm": True}, "use_qk_norm"),
    ("nemotron", {"hidden_act": "silu"}, "hidden_act"),
])
def test_a_field_that_nothing_reads_is_refused(case, changes, named, tmp_path):
    golden = GOLDEN[case]
    write_folder(tmp_path / "model", {**golden["config"], **changes}, golden["tensors"])
    refuse("logits", "-m", tmp_path / "model", "--tokens", "1", "--json",
           naming=["config.json", named])


@pytest.mark.parametrize("name,why", [("deepseek_v3", "compressed"), ("jamba", "state"), ("phimoe", "experts"),
                                      ("qwen2_5_vl", "several media"), ("gpt_neox", "another form"),
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
