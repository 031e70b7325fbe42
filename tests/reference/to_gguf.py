"""A Hugging Face model as a GGUF file, as llama.cpp's converters write it, with the `gguf` package: its
table of tensor names, its metadata keys and its writer.

What converters do beside renaming: the rows of a Llama's q and k come in rotary pairs, norms of Gemma
get the 1 that is added to them, experts are stacked, factors of rotary frequencies become tensors.
"""
import math
import re

import gguf
import numpy as np

ARCHS = {"mistral": "llama", "mixtral": "llama", "gemma3_text": "gemma3", "qwen2_moe": "qwen2moe",
         "qwen3_moe": "qwen3moe", "gpt_oss": "gpt-oss", "cohere": "command-r", "olmo3": "olmo2",
         "ministral3": "mistral3", "ernie4_5_moe": "ernie4_5-moe", "glm4_moe": "glm4moe"}
PERMUTED = ("llama", "smollm3", "granite", "granitemoe", "arcee", "internlm2", "minicpm",
            "mistral3")
PLUS_1 = ("gemma", "gemma2", "gemma3", "nemotron")
EXPERT = {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}


def write(path, config, tensors, sections=None, mxfp4=(), gating=None):
    """config: of config.json; tensors: float32 arrays by their names in the folder; sections: of rotary dimensions;
    mxfp4: raw blocks of tensors, by their names in the file, instead of their values."""
    arch = ARCHS.get(config["model_type"], config["model_type"])
    writer = gguf.GGUFWriter(str(path), arch)
    numbers(writer, arch, config, tensors)
    rope(writer, arch, config)
    if gating:
        writer.add_expert_gating_func(gating)
    if sections:
        writer.add_rope_dimension_sections(sections)
    names = gguf.get_tensor_name_map(enum_of(arch), config["num_hidden_layers"])
    for name, x in converted(arch, config, tensors):
        target = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert target, name
        if target in mxfp4:
            writer.add_tensor(target, mxfp4[target], raw_dtype=gguf.GGMLQuantizationType.MXFP4)
        else:
            writer.add_tensor(target, np.ascontiguousarray(x, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def enum_of(arch):
    return next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == arch)


# -- metadata --------------------------------------------------------------------------------------

def numbers(w, arch, c, tensors):
    heads = c["num_attention_heads"]
    head = c.get("head_dim") or c["hidden_size"] // heads
    w.add_block_count(c["num_hidden_layers"])
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(heads)
    w.add_head_count_kv(c["num_key_value_heads"])
    if "rms_norm_eps" in c:
        w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    else:
        w.add_layer_norm_eps(next(c[key] for key in ("layer_norm_eps", "norm_epsilon", "norm_eps") if key in c))
    w.add_vocab_size(c["vocab_size"])
    w.add_key_length(head)
    w.add_value_length(head)
    window = c.get("sliding_window") or 0
    if arch in ("gemma2", "gemma3", "phi3", "gpt-oss", "cohere2", "exaone4") or c["model_type"] in ("mistral", "olmo3"):
        w.add_sliding_window(window)
    for key, add in (("attn_logit_softcapping", w.add_attn_logit_softcapping),
                     ("final_logit_softcapping", w.add_final_logit_softcapping),
                     ("embedding_multiplier", w.add_embedding_scale),
                     ("attention_multiplier", w.add_attention_scale),
                     ("residual_multiplier", w.add_residual_scale),
                     ("logits_scaling", w.add_logit_scale), ("logit_scale", w.add_logit_scale),
                     ("num_experts_per_tok", w.add_expert_used_count),
                     ("moe_intermediate_size", w.add_expert_feed_forward_length),
                     ("shared_expert_intermediate_size", w.add_expert_shared_feed_forward_length)):
        if c.get(key) is not None:
            add(c[key])
    for key, add in (("moe_k", w.add_expert_used_count), ("moe_layer_start_index", w.add_leading_dense_block_count),
                     ("first_k_dense_replace", w.add_leading_dense_block_count), ("n_group", w.add_expert_group_count),
                     ("topk_group", w.add_expert_group_used_count), ("n_shared_experts", w.add_expert_shared_count),
                     ("moe_num_shared_experts", w.add_expert_shared_count),
                     ("routed_scaling_factor", w.add_expert_weights_scale)):
        if c.get(key) is not None:
            add(c[key])
    if arch == "glm4moe" and f"model.layers.{c['num_hidden_layers'] - 1}.eh_proj.weight" in tensors:
        w.add_nextn_predict_layers(1)
    if arch == "glm4moe":
        w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    experts = next((c[key] for key in ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts") if c.get(key)), 0)
    if experts:
        w.add_expert_count(experts)
    if arch == "gpt-oss":
        w.add_expert_feed_forward_length(c["intermediate_size"])
    if c.get("norm_topk_prob") is not None:
        w.add_expert_weights_norm(c["norm_topk_prob"])


def rope(w, arch, c):
    parameters = c["rope_parameters"]
    parameters = parameters.get("full_attention", parameters)
    head = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    n_rot = int(head * parameters.get("partial_rotary_factor", 1.0))
    kind = parameters["rope_type"]
    trained = parameters.get("original_max_position_embeddings")
    w.add_rope_freq_base(parameters["rope_theta"])
    w.add_rope_dimension_count(n_rot)
    if kind in ("linear", "yarn"):
        w.add_rope_scaling_type(gguf.RopeScalingType(kind))
        w.add_rope_scaling_factor(parameters["factor"])
    if kind == "yarn":
        w.add_rope_scaling_orig_ctx_len(trained)
        w.add_rope_scaling_yarn_beta_fast(parameters.get("beta_fast", 32.0))
        w.add_rope_scaling_yarn_beta_slow(parameters.get("beta_slow", 1.0))
    if arch == "mistral3":
        w.add_attn_temperature_scale(parameters["llama_4_scaling_beta"])
        w.add_rope_scaling_yarn_log_mul(parameters["mscale_all_dim"])
    if arch == "phi3":
        w.add_rope_scaling_orig_ctx_len(trained or c["original_max_position_embeddings"])
    if kind == "longrope":
        w.add_rope_scaling_type(gguf.RopeScalingType("longrope"))
        scale = c["max_position_embeddings"] / trained
        w.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(scale) / math.log(trained)))
        w.add_tensor("rope_factors_long.weight", np.array(parameters["long_factor"], np.float32))
        w.add_tensor("rope_factors_short.weight", np.array(parameters["short_factor"], np.float32))
    if kind == "llama3":
        w.add_tensor("rope_freqs.weight", llama3_factors(parameters, n_rot).astype(np.float32))


def llama3_factors(p, n_rot):
    wave = 2 * math.pi * p["rope_theta"] ** (np.arange(0, n_rot, 2) / n_rot)
    turns = p["original_max_position_embeddings"] / wave
    ramp = np.clip((turns - p["low_freq_factor"]) / (p["high_freq_factor"] - p["low_freq_factor"]),
                   0, 1)
    return 1 / ((1 - ramp) / p["factor"] + ramp)


# -- tensors ---------------------------------------------------------------------------------------

def converted(arch, c, tensors):
    """(name, array): experts stacked, rows in pairs, norms as they are used."""
    stacks = {}
    for name, x in tensors.items():
        number = re.search(r"\.experts\.(\d+)\.(\w+)\.", name)
        if number:
            kind = EXPERT.get(number[2], number[2])
            layer = name.split(".")[2]
            stacks.setdefault(f"model.layers.{layer}.mlp.experts.{kind}.weight", {})[int(number[1])] = x
        elif arch == "gpt-oss" and ".mlp.experts." in name:
            yield from experts_of_oss(name, x)
        elif name.endswith("e_score_correction_bias"):
            yield name.replace("_bias", ".bias"), x.reshape(-1)
        elif name.endswith("self_attn.sinks"):
            yield name + ".weight", x
        elif name.endswith("input_linear.weight"):
            base = name.replace("input_linear", "{}").replace("block_sparse_moe", "mlp.experts")
            half = x.shape[1] // 2
            yield base.format("gate_proj"), x[:, :half]
            yield base.format("up_proj"), x[:, half:]
        elif name.endswith("output_linear.weight"):
            base = name.replace("output_linear", "down_proj")
            yield base.replace("block_sparse_moe", "mlp.experts"), x
        else:
            yield name, changed(arch, c, name, x)
    for name, parts in stacks.items():
        yield name, np.stack([parts[i] for i in sorted(parts)])


def experts_of_oss(name, x):
    """Gate and up take turns, and matrices are transposed."""
    base, _, kind = name.partition("_proj")
    kind = ".bias" if kind else ".weight"
    if x.ndim == 3:
        x = x.swapaxes(1, 2)
    if base.endswith(".down"):
        yield f"{base}_proj{kind}", x
        return
    for i, part in enumerate(("gate", "up")):
        yield base.replace("gate_up", part) + "_proj" + kind, x[:, i::2]


def changed(arch, c, name, x):
    if arch in PLUS_1 and name.endswith("norm.weight"):
        return x + 1
    if arch in PERMUTED and ".q_proj." in name:
        return in_pairs(x, c["num_attention_heads"])
    if arch in PERMUTED and ".k_proj." in name:
        return in_pairs(x, c["num_key_value_heads"])
    if name.endswith("shared_expert_gate.weight"):
        return x[0]
    return x


def in_pairs(x, heads):
    halves = x.reshape(heads, 2, x.shape[0] // heads // 2, *x.shape[1:])
    return halves.swapaxes(1, 2).reshape(x.shape)
