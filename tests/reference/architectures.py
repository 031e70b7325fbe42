"""Small random models of every architecture, as published configurations describe them.

CASES are changes to a small configuration; weights() draws a tensor from its name alone, so that a
model is its configuration and the shapes of its tensors. tests/golden/make-architectures.py runs them
through Hugging Face's transformers; tests/e2e/test_architectures.py writes them as folders and as GGUF
files (to_gguf.py) and compares.
"""
import json
import math
import zlib
from pathlib import Path

import numpy as np

from . import safetensors
from .gguf_writer import from_array

N_VOCAB = 64
TOKENS = np.random.default_rng(3).integers(3, N_VOCAB, 60)
ROWS = (0, 9, 30, 59)  # whose logits are kept

SMALL = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=4,
             num_key_value_heads=2, vocab_size=N_VOCAB, max_position_embeddings=256,
             pad_token_id=0, bos_token_id=1, eos_token_id=2)
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
        "original_max_position_embeddings": 32}
MINISTRAL3 = {**YARN, "original_max_position_embeddings": 16, "mscale": 1.0, "mscale_all_dim": 1.0,
              "llama_4_scaling_beta": 0.3}
LONG = {"rope_type": "longrope", "rope_theta": 10000.0,
        "short_factor": [1.0, 1.3, 1.6, 2.5], "long_factor": [2.0, 4.0, 8.0, 16.0],
        "original_max_position_embeddings": 128}

# Without GGUF files that say the same (test_architectures.py).
NOT_GGUF = ("glm", "ministral", "starcoder2", "qwen2")

# Models of several media, with the smallest part for pictures; the changes are to their text_config.
PICTURES = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=28,
                patch_size=14)
QWEN_PICTURES = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=32)
MROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 2, 2]}
MEDIA = {
    "gemma3-media": ("gemma3", {"head_dim": 8, "sliding_window": 16, "query_pre_attn_scalar": 8, "num_hidden_layers": 7,
                                "rope_parameters": {
                                    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                                    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}},
                     {"vision_config": PICTURES, "mm_tokens_per_image": 4}),
    "mistral3-media": ("mistral3", {"model_type": "mistral", "head_dim": 16, "tie_word_embeddings": False},
                       {"vision_config": {**PICTURES, "head_dim": 8}, "tie_word_embeddings": False}),
    "ministral3-media": ("mistral3", {"model_type": "ministral3", "head_dim": 16, "rope_parameters": MINISTRAL3},
                         {"vision_config": {**PICTURES, "head_dim": 8}}),
    "qwen2_vl": ("qwen2_vl", {"rope_parameters": {**MROPE, "mrope_section": [2, 1, 1]}},
                 {"vision_config": dict(depth=1, embed_dim=16, hidden_size=32, num_heads=2, mlp_ratio=2)}),
    "qwen2_5_vl": ("qwen2_5_vl", {"rope_parameters": {**MROPE, "mrope_section": [2, 1, 1]}, "tie_word_embeddings": True},
                   {"vision_config": QWEN_PICTURES, "tie_word_embeddings": True}),
    "qwen3_vl": ("qwen3_vl", {"head_dim": 16, "rope_parameters": {**MROPE, "mrope_interleaved": True}},
                 {"vision_config": {**QWEN_PICTURES, "num_position_embeddings": 16, "deepstack_visual_indexes": [0]}}),
}

CASES = {
    "llama": ("llama", {}),
    "llama-linear": ("llama", {"rope_parameters": {
        "rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}}),
    "llama-dynamic": ("llama", {"rope_parameters": {
        "rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}}),
    "llama-yarn": ("llama", {"rope_parameters": YARN}),
    "llama-yarn-mscale": ("llama", {"rope_parameters": {
        **YARN, "mscale": 0.707, "mscale_all_dim": 0.5, "beta_fast": 16.0}}),
    "llama-yarn-exact": ("llama", {"head_dim": 32, "rope_parameters": {**YARN, "truncate": False}}),
    "llama-llama3": ("llama", {"rope_parameters": {
        "rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 64}}),
    "llama-bias": ("llama", {"attention_bias": True, "tie_word_embeddings": True}),
    "mistral": ("mistral", {"sliding_window": 13, "head_dim": 16}),
    "qwen2": ("qwen2", {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 2}),
    "qwen3": ("qwen3", {"head_dim": 16}),
    "gemma": ("gemma", {"head_dim": 16, "num_key_value_heads": 1}),
    "gemma2": ("gemma2", {"head_dim": 16, "sliding_window": 11, "query_pre_attn_scalar": 24,
                          "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}),
    "gemma2-window": ("gemma2", {"head_dim": 16, "sliding_window": 11, "query_pre_attn_scalar": 16,
                                 "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}),
    "gemma2-defaults": ("gemma2", {"head_dim": 16, "query_pre_attn_scalar": 16,
                                   "sliding_window": 4096}),
    "gemma3": ("gemma3_text", {"head_dim": 16, "sliding_window": 7, "num_hidden_layers": 7,
                               "query_pre_attn_scalar": 16, "num_key_value_heads": 1}),
    "gemma3-caps": ("gemma3_text", {"head_dim": 8, "sliding_window": 16, "num_hidden_layers": 6,
                                    "query_pre_attn_scalar": 8, "final_logit_softcapping": 4.0}),
    "gemma3-linear": ("gemma3_text", {
        "head_dim": 8, "sliding_window": 16, "query_pre_attn_scalar": 8, "rope_parameters": {
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}}),
    "phi3": ("phi3", {"sliding_window": 20}),
    "phi3-partial": ("phi3", {"head_dim": 16, "rope_parameters": {
        "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}}),
    "phi3-longrope": ("phi3", {"rope_parameters": LONG, "original_max_position_embeddings": 128}),
    "olmo2": ("olmo2", {}),
    "granite": ("granite", {"embedding_multiplier": 6.0, "attention_multiplier": 0.2,
                            "residual_multiplier": 0.4, "logits_scaling": 3.0,
                            "tie_word_embeddings": True}),
    "smollm3": ("smollm3", {"num_hidden_layers": 5}),
    "glm4": ("glm4", {"head_dim": 16, "num_attention_heads": 3, "num_key_value_heads": 1}),
    "glm": ("glm", {"head_dim": 8}),
    "gpt-oss": ("gpt_oss", {"head_dim": 16, "num_local_experts": 5, "num_experts_per_tok": 3, "sliding_window": 9,
                            "rope_parameters": {**YARN, "truncate": False}}),
    "ministral": ("ministral", {"head_dim": 16, "sliding_window": 9,
                                "layer_types": ["full_attention", "sliding_attention"] * 2}),
    "ministral3": ("ministral3", {"head_dim": 16, "rope_parameters": MINISTRAL3}),
    "olmo3": ("olmo3", {"sliding_window": 9, "rope_parameters": {
        "full_attention": YARN, "sliding_attention": {
            "rope_type": "default", "rope_theta": 10000.0}}}),
    "arcee": ("arcee", {"head_dim": 16}),
    "nemotron": ("nemotron", {"head_dim": 16}),
    "starcoder2": ("starcoder2", {"sliding_window": 17}),
    "stablelm": ("stablelm", {"use_qkv_bias": True, "rope_parameters": {
        "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}}),
    "cohere": ("cohere", {"logit_scale": 0.25}),
    "cohere2": ("cohere2", {"head_dim": 16, "sliding_window": 9, "logit_scale": 0.25, "num_hidden_layers": 5}),
    "cohere2-full": ("cohere2", {"sliding_window": 9, "layer_types": ["full_attention"] * 4}),
    "exaone4-still": ("exaone4", {"sliding_window": 9, "layer_types": ["full_attention"] * 4}),
    "exaone4": ("exaone4", {"head_dim": 16, "sliding_window": 9, "num_hidden_layers": 5}),
    "exaone4-full": ("exaone4", {"head_dim": 8, "sliding_window": None, "tie_word_embeddings": True,
                                 "layer_types": ["full_attention"] * 4}),
    "ernie4_5": ("ernie4_5", {"head_dim": 16, "use_bias": True}),
    "ernie4_5_moe": ("ernie4_5_moe", {"moe_num_experts": 6, "moe_k": 3, "moe_intermediate_size": 20,
                                      "moe_num_shared_experts": 2, "moe_layer_start_index": 1}),
    "ernie4_5_moe-alone": ("ernie4_5_moe", {"moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 40, "use_bias": False,
                                            "moe_num_shared_experts": 0, "moe_layer_start_index": 0}),
    "glm4_moe": ("glm4_moe", {"n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 20, "head_dim": 16,
                              "n_shared_experts": 1, "first_k_dense_replace": 1, "attention_bias": True,
                              "routed_scaling_factor": 1.7}),
    "glm4_moe-groups": ("glm4_moe", {"n_routed_experts": 12, "num_experts_per_tok": 3, "moe_intermediate_size": 24,
                                     "n_shared_experts": 2, "first_k_dense_replace": 2, "use_qk_norm": True, "n_group": 4,
                                     "topk_group": 2, "norm_topk_prob": False}),
    "seed_oss": ("seed_oss", {"head_dim": 16}),
    "olmoe": ("olmoe", {"num_experts": 6, "num_experts_per_tok": 3}),
    "mixtral": ("mixtral", {"num_local_experts": 5, "num_experts_per_tok": 2}),
    "qwen2moe": ("qwen2_moe", {"num_experts": 5, "num_experts_per_tok": 3,
                               "moe_intermediate_size": 24,
                               "shared_expert_intermediate_size": 40}),
    "qwen2moe-norm": ("qwen2_moe", {"num_experts": 4, "num_experts_per_tok": 2,
                                    "moe_intermediate_size": 24, "norm_topk_prob": True,
                                    "shared_expert_intermediate_size": 24}),
    "qwen3moe": ("qwen3_moe", {"num_experts": 6, "num_experts_per_tok": 2, "head_dim": 16,
                               "moe_intermediate_size": 20, "norm_topk_prob": True}),
    "granitemoe": ("granitemoe", {"num_local_experts": 4, "num_experts_per_tok": 2,
                                  "embedding_multiplier": 6.0, "attention_multiplier": 0.2,
                                  "residual_multiplier": 0.4, "logits_scaling": 3.0}),
}


SCALED = {"mixtral": "num_local_experts", "granitemoe": "num_local_experts", "gpt_oss": "num_local_experts",
          "ernie4_5_moe": "moe_num_experts", "glm4_moe": "n_routed_experts", "qwen2_moe": "num_experts", "qwen3_moe": "num_experts", "olmoe": "num_experts"}


def random_changes(model_type, fields, seed):
    """Changes to a small configuration that has these fields: odd sizes, tied or not, biases, windows, experts."""
    rng = np.random.default_rng([seed, zlib.crc32(model_type.encode())])
    pick, coin = (lambda *of: of[int(rng.integers(len(of)))]), (lambda: bool(rng.integers(2)))
    kv, group, head = pick(1, 2, 3), pick(1, 2, 3, 5), pick(4, 6, 8, 10, 16, 20, 32)
    some = {"num_attention_heads": kv * group, "num_key_value_heads": kv, "hidden_size": kv * group * head,
            "intermediate_size": int(rng.integers(5, 99)), "num_hidden_layers": int(rng.integers(1, 8)),
            "vocab_size": int(rng.integers(N_VOCAB, 3 * N_VOCAB)), "tie_word_embeddings": coin() or bool(fields.get("tie_word_embeddings"))}
    if "head_dim" in fields:
        some |= {"head_dim": head, "hidden_size": kv * group * int(rng.integers(3, 20))}
    for key in ("rms_norm_eps", "layer_norm_eps", "norm_epsilon", "norm_eps"):
        if key in fields:
            some[key] = pick(1e-6, 1e-5, 1e-2)
    for key in ("attention_bias", "mlp_bias", "use_bias", "use_qkv_bias", "norm_topk_prob"):
        if key in fields and model_type not in ("glm4", "glm", "gpt_oss", "ernie4_5_moe"):
            some[key] = coin()
    if fields.get("sliding_window") is not None or model_type in ("mistral", "phi3", "starcoder2"):
        some["sliding_window"] = int(rng.integers(1, 70))
    for key in ("embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling", "logit_scale"):
        if key in fields:
            some[key] = round(float(rng.uniform(0.2, 1 if key in ("attention_multiplier", "residual_multiplier") else 3)), 3)
    if "query_pre_attn_scalar" in fields:
        some["query_pre_attn_scalar"] = head  # which GGUF files do not say
    for key in ("moe_intermediate_size", "shared_expert_intermediate_size"):
        if key in fields:
            some[key] = int(rng.integers(5, 50))
    if model_type in SCALED:
        some[SCALED[model_type]] = int(rng.integers(2, 9))
        used = "moe_k" if model_type == "ernie4_5_moe" else "num_experts_per_tok"
        some[used] = int(rng.integers(1, some[SCALED[model_type]] + 1))
    for key in ("n_shared_experts", "moe_num_shared_experts", "first_k_dense_replace", "moe_layer_start_index"):
        if key in fields:
            some[key] = int(rng.integers(key == "n_shared_experts", 3 if "experts" in key else some["num_hidden_layers"]))
    rope = fields.get("rope_parameters") or {}
    if "rope_theta" in rope:
        scaled = pick({}, {}, {"rope_type": "linear", "factor": 3.0}, YARN) if model_type != "phi3" else {}
        if model_type == "gpt_oss":
            scaled = {**YARN, "truncate": False}
        if model_type == "ministral3":
            scaled = {**MINISTRAL3, "original_max_position_embeddings": pick(7, 16, 64)}
        some["rope_parameters"] = {"rope_type": "default", **scaled, "rope_theta": pick(100.0, 10000.0, 5e5)}
        if "partial_rotary_factor" in rope and head % 4 == 0:
            some["rope_parameters"]["partial_rotary_factor"] = 0.5
        elif "partial_rotary_factor" in rope:
            some["rope_parameters"]["partial_rotary_factor"] = 1.0
    return some


def weights(name, shape, model_type):
    """A tensor of a Hugging Face folder, float32."""
    noise = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape)
    if len(shape) == 1 and name.endswith("norm.weight"):
        plus_1 = model_type.startswith("gemma") or model_type == "nemotron"
        return (noise * 0.2 + (0 if plus_1 else 1)).astype(np.float32)
    if name.endswith("sinks") or name.endswith("gate_up_proj") and model_type == "gpt_oss":
        return (noise * 1.5).astype(np.float32)  # activations are beyond their limits
    std = 0.3 if len(shape) == 1 else 1.0 if "embed" in name else 1.5 / math.sqrt(shape[-1])
    return (noise * std).astype(np.float32)


def draw(config, shapes):
    return {name: weights(name, tuple(shape), config["model_type"])
            for name, shape in shapes.items()}


def write_folder(folder, config, shapes):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    sources = [from_array(name, "f32", x) for name, x in draw(config, shapes).items()]
    safetensors.write_folder(folder, sources, 1, lambda n: None)


TYPES = {np.dtype(np.uint8): "U8", np.dtype(np.uint16): "BF16", np.dtype(np.float32): "F32"}


def write_arrays(folder, config, tensors, types={}):
    """A folder with one file of safetensors; arrays are float32, bytes, or 16-bit integers for BF16. types: of those
    that are of another type than their arrays say."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    header, at = {}, 0
    for name, x in tensors.items():
        header[name] = {"dtype": types.get(name, TYPES[x.dtype]), "shape": list(x.shape),
                        "data_offsets": [at, at := at + x.nbytes]}
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(
        len(text).to_bytes(8, "little") + text + b"".join(np.ascontiguousarray(x).tobytes() for x in tensors.values()))
