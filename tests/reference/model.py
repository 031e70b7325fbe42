"""Hyper-parameters and weights of a model, from a GGUF file or a Hugging Face folder.

Both come out under the tensor names of GGUF: blk.3.attn_q.weight. What differs besides the names
is the order of the rows of a Llama's query and key matrices: GGUF files hold the two elements of a
rotary pair side by side, Hugging Face folders hold them half a head apart.
"""
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from . import gguf, safetensors

HF_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
HF_LAYER_NAMES = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}


def hf_name(name):
    """blk.3.attn_q.bias -> model.layers.3.self_attn.q_proj.bias"""
    if name in HF_NAMES:
        return HF_NAMES[name]
    _, layer, part, kind = name.split(".")
    return f"model.layers.{layer}.{HF_LAYER_NAMES[part]}.{kind}"


@dataclass(frozen=True)
class Config:
    arch: str
    n_layers: int
    n_embd: int
    n_heads: int
    n_kv_heads: int
    head: int
    eps: float
    window: int         # tokens that a token may look back, itself included; 0: all
    adjacent: bool      # rotary pairs (2i, 2i+1), else (i, i + n/2)
    freq: np.ndarray    # angle of pair i at position p: p * freq[i]; [n/2], n <= head
    local: tuple = ()   # per layer: has the window and local_freq; empty: the window is every layer's
    local_freq: np.ndarray | None = None
    norms_after: bool = False  # of what attention and feed-forward add
    gelu: bool = False  # feed-forward with the tanh form of GELU, else SiLU
    embed_scale: float = 1.0
    cap: float = 0.0    # of the logits: cap * tanh(logits / cap); 0: none


class Model:
    """config, and the weights by GGUF name, decoded to float64 on first use."""

    def __init__(self, config, tensors, name_of, metadata):
        self.config, self.tensors, self.name_of, self.metadata = config, tensors, name_of, metadata
        self.decoded = {}

    def weight(self, name):
        """The weight, or None if the model has none of that name."""
        tensor = self.tensors.get(self.name_of(name))
        if tensor is not None and name not in self.decoded:
            self.decoded[name] = tensor.decode().astype(np.float64)
        return self.decoded.get(name)

    def layer(self, i, part, kind="weight"):
        return self.weight(f"blk.{i}.{part}.{kind}")


def load(path):
    return load_folder(Path(path)) if Path(path).is_dir() else load_gguf(path)


# -- GGUF ------------------------------------------------------------------------------------------

ARCHS = ("llama", "mistral", "qwen2", "qwen3", "gemma3")  # what forward.py computes; gemma3 as GGUF
GEMMA3_PERIOD, GEMMA3_LOCAL_THETA = 6, 10000.0  # where the file does not say: of gemma-3's config.json


def load_gguf(path):
    file = gguf.read(path)
    arch = file.metadata["general.architecture"]
    if arch not in ARCHS:
        raise ValueError(f"{path}: the reference does not compute {arch}")

    def get(key, default=None):
        found = file.metadata.get(f"{arch}.{key}", default)
        if found is None:
            raise ValueError(f"{path}: {arch}.{key} is missing")
        return found

    n_embd, n_heads = get("embedding_length"), get("attention.head_count")
    head = get("attention.key_length", n_embd // n_heads)
    freq = plain_freq(get("rope.dimension_count", head), get("rope.freq_base", 10000.0))
    if get("rope.scaling.type", "none") == "linear":
        freq = freq / get("rope.scaling.factor")
    if "rope_freqs.weight" in file.tensors:
        freq = freq / file.tensors["rope_freqs.weight"].decode()
    config = Config(
        arch=arch, n_layers=get("block_count"), n_embd=n_embd, n_heads=n_heads,
        n_kv_heads=get("attention.head_count_kv", n_heads), head=head,
        eps=get("attention.layer_norm_rms_epsilon"), window=get("attention.sliding_window", 0),
        adjacent=arch in ("llama", "mistral"), freq=freq)
    if arch == "gemma3":
        period = get("attention.sliding_window_pattern", GEMMA3_PERIOD)
        theta = get("rope.freq_base_swa", GEMMA3_LOCAL_THETA)
        config = replace(
            config, norms_after=True, gelu=True, embed_scale=math.sqrt(n_embd),
            cap=get("final_logit_softcapping", 0.0),
            local=tuple((i + 1) % period != 0 for i in range(config.n_layers)),
            local_freq=plain_freq(get("rope.dimension_count", head), theta))
    return Model(config, file.tensors, lambda name: name, file.metadata)


# -- Hugging Face folders --------------------------------------------------------------------------

def load_folder(folder):
    c = json.loads((folder / "config.json").read_text())
    if c["model_type"] not in ARCHS[:-1]:
        raise ValueError(f"{folder}: the reference does not compute {c['model_type']}")
    head = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    rope = c.get("rope_parameters") or c.get("rope_scaling") or {}
    freq = plain_freq(head, rope.get("rope_theta", c.get("rope_theta", 10000.0)))
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "linear":
        freq = freq / rope["factor"]
    elif kind == "llama3":
        freq = freq / llama3_factors(freq, rope)
    elif kind != "default":
        raise ValueError(f"{folder}: rope type {kind} is not known here")
    window = c.get("sliding_window") if c.get("use_sliding_window", True) else 0
    config = Config(
        arch=c["model_type"], n_layers=c["num_hidden_layers"], n_embd=c["hidden_size"],
        n_heads=c["num_attention_heads"],
        n_kv_heads=c.get("num_key_value_heads", c["num_attention_heads"]), head=head,
        eps=c["rms_norm_eps"], window=window or 0, adjacent=False, freq=freq)
    return Model(config, safetensors.read_folder(folder), hf_name, c)


# -- rotary frequencies ----------------------------------------------------------------------------

def plain_freq(n, theta):
    return float(theta) ** (-np.arange(0, n, 2) / n)


def llama3_factors(freq, rope):
    """Llama 3.1: what each frequency is divided by. Waves that fit `high` times into the original
    context stay, those that fit less than `low` times are stretched by the factor, between them it
    goes over smoothly."""
    turns = rope["original_max_position_embeddings"] * freq / (2 * math.pi)
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return 1 / ((1 - smooth) / rope["factor"] + smooth)
