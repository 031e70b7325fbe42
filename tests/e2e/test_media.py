"""Folders of models of several media, whose text part runs: names of tensors, what published files leave out or have in
other places, and what is refused. Their logits are held to transformers in test_architectures.py."""
import json
from pathlib import Path

import pytest
from conftest import refuse, succeed

from reference.architectures import MEDIA, TOKENS, draw, write_arrays, write_folder

GOLDEN = {name: case for name, case in json.loads(
    (Path(__file__).parent.parent / "golden/architectures.json").read_text()).items() if name in MEDIA}
ASKED = ("--tokens", ",".join(map(str, TOKENS)), "-ctk", "f32", "-ctv", "f32")


def logits(tmp_path, model):
    succeed("logits", "-m", model, *ASKED, "--raw", tmp_path / "raw")
    return (tmp_path / "raw").read_bytes()


def write(folder, case, changes=(), inner=()):
    """A folder of this case with changes to config.json and to its text_config."""
    config = {**GOLDEN[case]["config"], **dict(changes)}
    if "text_config" in config and isinstance(config["text_config"], dict):
        config["text_config"] = {**config["text_config"], **dict(inner)}
    write_folder(folder, config, GOLDEN[case]["tensors"])
    return folder


def refused(folder, *naming):
    refuse("logits", "-m", folder, "--tokens", "1", "--json", naming=["config.json", *naming])


# -- names -----------------------------------------------------------------------------------------

@pytest.mark.parametrize("case,names", [
    ("gemma3-media", {"language_model.model.": "model.language_model.", "vision_tower.": "model.vision_tower.",
                      "multi_modal_projector.": "model.multi_modal_projector."}),
    ("mistral3-media", {"language_model.model.": "model.language_model.", "language_model.lm_head": "lm_head"}),
    ("qwen2_vl", {"model.": "model.language_model.", "visual.": "model.visual."}),
    ("qwen2_5_vl", {"model.": "language_model.model."}),
    ("qwen3_vl", {"model.language_model.": "model.", "model.visual.": "visual."})],
    ids=lambda x: x if isinstance(x, str) else "")
def test_the_text_part_is_found_under_every_name(case, names, tmp_path):
    """Programs that save such models differ in them."""
    def renamed(name):
        return next((new + name[len(old):] for old, new in names.items() if name.startswith(old)), name)
    config, tensors = GOLDEN[case]["config"], draw(GOLDEN[case]["config"], GOLDEN[case]["tensors"])
    write_arrays(tmp_path / "old", config, tensors)
    new = {renamed(name): x for name, x in tensors.items()}
    assert new.keys() != tensors.keys()
    write_arrays(tmp_path / "new", config, new)
    assert logits(tmp_path, tmp_path / "old") == logits(tmp_path, tmp_path / "new")


@pytest.mark.parametrize("case,name", [("gemma3-media", "vision_towers.weight"), ("qwen3_vl", "model.audio.weight"),
                                       ("gemma3-media", "language_model.model.layers.0.self_attn.sinks"),
                                       ("mistral3-media", "model.embed_tokens.weight")])
def test_a_tensor_of_no_part_is_refused(case, name, tmp_path):
    write_folder(tmp_path / "model", GOLDEN[case]["config"], {**GOLDEN[case]["tensors"], name: [4]})
    refuse("logits", "-m", tmp_path / "model", "--tokens", "1", "--json", naming=[name])


def test_a_model_of_text_has_no_part_for_pictures(tmp_path):
    golden = GOLDEN["gemma3-media"]
    tensors = {n.replace("language_model.model", "model"): s for n, s in golden["tensors"].items() if "model.l" in n or "_model.model" in n}
    write_folder(tmp_path / "text", golden["config"]["text_config"], tensors)
    succeed("logits", "-m", tmp_path / "text", *ASKED)
    write_folder(tmp_path / "named", golden["config"]["text_config"], golden["tensors"])
    refuse("logits", "-m", tmp_path / "named", "--tokens", "1", "--json", naming=["tensor model.embed_tokens.weight: is missing"])
    write_folder(tmp_path / "both", golden["config"]["text_config"], {**tensors, "vision_tower.weight": [4]})
    refuse("logits", "-m", tmp_path / "both", "--tokens", "1", "--json", naming=["vision_tower.weight"])


# -- config.json -----------------------------------------------------------------------------------

def test_numbers_that_published_files_of_gemma3_leave_out(tmp_path):
    """gemma-3-4b's text_config has these fields alone."""
    said = {"hidden_size": 32, "intermediate_size": 48, "model_type": "gemma3_text", "num_hidden_layers": 7,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 16}
    sizes = {"embed_tokens.weight": [262208, 32], "q_proj.weight": [2048, 32], "k_proj.weight": [1024, 32],
             "v_proj.weight": [1024, 32], "o_proj.weight": [32, 2048], "q_norm.weight": [256], "k_norm.weight": [256]}
    golden = GOLDEN["gemma3-media"]
    tensors = {name: next((size for end, size in sizes.items() if name.endswith(end) and "vision" not in name), shape)
               for name, shape in golden["tensors"].items()}
    write_folder(tmp_path / "short", {**golden["config"], "text_config": said}, tensors)
    full = {**golden["config"]["text_config"], **said, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
            "vocab_size": 262208, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-6, "max_position_embeddings": 131072,
            "rope_theta": 1e6, "rope_local_base_freq": 10000.0}
    del full["rope_parameters"], full["layer_types"]
    write_folder(tmp_path / "full", {**golden["config"], "text_config": full}, tensors)
    assert logits(tmp_path, tmp_path / "short") == logits(tmp_path, tmp_path / "full")
    shown = [json.loads(succeed("inspect", tmp_path / name, "--json")) for name in ("short", "full")]
    assert shown[0]["context"] == 131072 == shown[1]["context"]


@pytest.mark.parametrize("case", ["qwen2_vl", "qwen2_5_vl"])
def test_older_files_of_qwen_have_the_numbers_beside_those_of_pictures(case, tmp_path):
    config = {**GOLDEN[case]["config"]}
    text = {**config.pop("text_config")}
    rope = text.pop("rope_parameters")
    flat = {**text, **config, "rope_theta": rope["rope_theta"], "use_sliding_window": False, "sliding_window": 4096,
            "rope_scaling": {"type": "mrope", "mrope_section": rope["mrope_section"]}, "vision_token_id": 7}
    write_folder(tmp_path / "flat", flat, GOLDEN[case]["tensors"])
    assert logits(tmp_path, tmp_path / "flat") == logits(tmp_path, write(tmp_path / "model", case))


@pytest.mark.parametrize("case,base", [("qwen2_vl", 1e6), ("qwen2_5_vl", 1e6), ("qwen3_vl", 5e5)])
def test_a_base_of_rotations_is_that_of_the_class(case, base, tmp_path):
    rope = {k: v for k, v in GOLDEN[case]["config"]["text_config"]["rope_parameters"].items() if k != "rope_theta"}
    short = write(tmp_path / "short", case, inner={"rope_parameters": rope})
    assert logits(tmp_path, short) == logits(tmp_path, write(
        tmp_path / "full", case, inner={"rope_parameters": {**rope, "rope_theta": base}}))


@pytest.mark.parametrize("case,changes,inner", [
    ("qwen3_vl", {"tie_word_embeddings": None}, {"tie_word_embeddings": True}),
    ("mistral3-media", {"tie_word_embeddings": True}, {"tie_word_embeddings": None})])
def test_either_part_may_tie_the_output_matrix(case, changes, inner, tmp_path):
    """Then the file's own must be the same."""
    refuse("logits", "-m", write(tmp_path / "model", case, changes, inner), "--tokens", "1", "--json",
           naming=["lm_head.weight", "tie_word_embeddings"])


def test_an_output_matrix_that_neither_part_ties_must_be_there(tmp_path):
    golden = GOLDEN["mistral3-media"]
    tensors = {name: shape for name, shape in golden["tensors"].items() if "lm_head" not in name}
    write_folder(tmp_path / "model", golden["config"], tensors)
    refuse("logits", "-m", tmp_path / "model", "--tokens", "1", "--json",
           naming=["tensor language_model.lm_head.weight: is missing"])


@pytest.mark.parametrize("case,changes,inner,named", [
    ("gemma3-media", {"text_config": None}, {}, "text_config: is not an object"),
    ("qwen3_vl", {"text_config": [1]}, {}, "text_config: is not an object"),
    ("gemma3-media", {}, {"model_type": "llama"}, "text_config.model_type: \"llama\" is not supported in gemma3"),
    ("mistral3-media", {}, {"model_type": "gemma3_text"}, "text_config.model_type"),
    ("qwen3_vl", {}, {"model_type": "qwen3_5_text"}, "text_config.model_type"),
    ("gemma3-media", {"quantization_config": {"quant_method": "awq"}}, {}, "awq"),
    ("gemma3-media", {}, {"quantization_config": {"quant_method": "gptq"}}, "gptq"),
    ("gemma3-media", {}, {"use_bidirectional_attention": True}, "text_config: use_bidirectional_attention"),
    ("qwen3_vl", {}, {"clip_qkv": 8.0}, "text_config: clip_qkv"),
    ("qwen3_vl", {}, {"hidden_size": None}, "text_config: hidden_size: is missing"),
    ("mistral3-media", {}, {"rope_parameters": {"rope_type": "mrope", "rope_theta": 1e4}}, "scaling \"mrope\""),
    ("mistral3-media", {}, {"rope_parameters": {"rope_type": "default", "mrope_section": [4, 4]}}, "mrope_section"),
    ("qwen2_vl", {}, {"use_sliding_window": True, "sliding_window": 8}, "use_sliding_window")])
def test_what_is_not_computed_is_refused(case, changes, inner, named, tmp_path):
    refused(write(tmp_path / "model", case, changes, inner), named)


@pytest.mark.parametrize("case", ["gemma3-media", "qwen3_vl"])
def test_text_config_is_missing(case, tmp_path):
    config = {k: v for k, v in GOLDEN[case]["config"].items() if k != "text_config"}
    write_folder(tmp_path / "model", config, GOLDEN[case]["tensors"])
    refused(tmp_path / "model", "text_config: is missing")


def test_a_text_part_without_a_type_is_the_usual_one(tmp_path):
    config = {**GOLDEN["mistral3-media"]["config"]}
    config["text_config"] = {k: v for k, v in config["text_config"].items() if k != "model_type"}
    write_folder(tmp_path / "model", config, GOLDEN["mistral3-media"]["tensors"])
    assert logits(tmp_path, tmp_path / "model") == logits(tmp_path, write(tmp_path / "typed", "mistral3-media"))
