"""Models of random weights: every architecture and variant in small, and real shapes in full.

Small models are drawn as floats and quantised; the same seed gives the same model in every format.
Above EXACT elements the blocks themselves are drawn (blocks.random_blocks), which is as fast as the
disk. Standard deviations are chosen so that activations stay near 1, attention picks a few tokens
out of many, and logits spread by about 2: a model that says nothing, but not always the same.
"""
import json
import math
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from . import gguf_writer, safetensors, vocab
from .blocks import TYPES, random_blocks
from .gguf import read
from .gguf_writer import Source
from .model import hf_name, llama3_factors, plain_freq

EXACT = 1 << 25        # elements up to which a model is drawn as floats
CHUNK = 1 << 22        # elements written at a time
LLAMA3 = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}


@dataclass(frozen=True)
class Shape:
    arch: str
    n_layers: int
    n_embd: int
    n_heads: int
    n_kv_heads: int
    head: int
    n_ff: int
    n_vocab: int
    n_ctx: int
    theta: float = 10000.0
    eps: float = 1e-5
    tied: bool = False
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: bool = False
    scaling: dict | None = None  # as rope_scaling in config.json
    n_experts: int = 0           # of n_ff each, n_used of them for a token; GGUF files only
    n_used: int = 0

    @property
    def permuted(self):
        """Rows of W_q and W_k are in another order in GGUF files than in folders (model.py)."""
        return self.arch in ("llama", "mistral")


TINY = Shape("llama", 2, 128, 4, 2, 32, 192, 384, 512)
QWEN = replace(TINY, arch="qwen2", theta=1e6, eps=1e-6, qkv_bias=True, tied=True)
PRESETS = {
    "tiny-llama": TINY,
    "tiny-llama-mha": replace(TINY, n_embd=64, n_kv_heads=4, head=16, tied=True),
    "tiny-llama-mqa": replace(TINY, n_kv_heads=1, tied=True),
    "tiny-llama-bias": replace(TINY, qkv_bias=True, out_bias=True),
    "tiny-llama-linear": replace(TINY, scaling={"rope_type": "linear", "factor": 4.0}),
    # the original context is short, so that a short prompt meets scaled and unscaled waves
    "tiny-llama3": replace(TINY, theta=5e5, tied=True, scaling={
        **LLAMA3, "factor": 8.0, "original_max_position_embeddings": 64}),
    "tiny-mistral": replace(TINY, arch="mistral", n_kv_heads=2, theta=1e6),
    "tiny-qwen2": QWEN,
    "tiny-qwen2-untied": replace(QWEN, tied=False),
    "tiny-qwen3": replace(QWEN, arch="qwen3", n_embd=96, qkv_bias=False, qk_norm=True),
    # sizes that no kernel likes, and sizes that the types with groups of 256 need
    "tiny-odd": replace(TINY, n_embd=72, n_heads=9, n_kv_heads=3, head=8, n_ff=172, n_vocab=299),
    "tiny-wide": replace(TINY, n_embd=256, n_heads=8, n_ff=512, tied=True),
    "tiny-wide-qwen2": replace(QWEN, n_layers=4, n_embd=256, n_heads=4, head=64, n_ff=256),

    "qwen2.5-0.5b": Shape("qwen2", 24, 896, 14, 2, 64, 4864, 151936, 32768, theta=1e6, eps=1e-6,
                          tied=True, qkv_bias=True),
    "llama-3.2-1b": Shape("llama", 16, 2048, 32, 8, 64, 8192, 128256, 131072, theta=5e5, tied=True,
                          scaling=LLAMA3),
    "llama-3-8b": Shape("llama", 32, 4096, 32, 8, 128, 14336, 128256, 8192, theta=5e5),
    "mixtral-8x7b": Shape("llama", 32, 4096, 32, 8, 128, 14336, 32000, 32768, theta=1e6, n_experts=8,
                          n_used=2),
    "qwen3-30b-a3b": Shape("qwen3moe", 48, 2048, 32, 4, 128, 768, 151936, 40960, theta=1e6, eps=1e-6,
                           qk_norm=True, n_experts=128, n_used=8),
    # what a token of qwen3-30b-a3b reads, in one feed-forward
    "qwen3-a3b-dense": Shape("qwen3", 48, 2048, 32, 4, 128, 6144, 151936, 40960, theta=1e6, eps=1e-6,
                             qk_norm=True),
}
TINY = [name for name in PRESETS if name.startswith("tiny")]


# -- tensors and their types -----------------------------------------------------------------------

@dataclass(frozen=True)
class Draw:
    """What a tensor is drawn from."""
    name: str
    shape: tuple[int, ...]
    std: float
    mean: float = 0.0
    heads: int = 0  # of a permuted matrix or bias


def draws(s):
    """Every tensor of a model, in the order of the file."""
    e, q, kv = s.n_embd, s.n_heads * s.head, s.n_kv_heads * s.head
    yield Draw("token_embd.weight", (s.n_vocab, e), 2 / math.sqrt(e) if s.tied else 1.0)
    for i in range(s.n_layers):
        def at(part, shape, std, mean=0.0, heads=0, kind="weight"):
            return Draw(f"blk.{i}.{part}.{kind}", shape, std, mean, heads)

        yield at("attn_norm", (e,), 0.1, 1.0)
        for part, n, heads, sharp in (("attn_q", q, s.n_heads, 1.5),
                                      ("attn_k", kv, s.n_kv_heads, 1.5), ("attn_v", kv, 0, 1.0)):
            heads = heads if s.permuted else 0
            yield at(part, (n, e), sharp / math.sqrt(e), heads=heads)
            if s.qkv_bias:
                yield at(part, (n,), 0.5, heads=heads, kind="bias")
        if s.qk_norm:
            yield at("attn_q_norm", (s.head,), 0.2, 1.5)
            yield at("attn_k_norm", (s.head,), 0.2, 1.5)
        yield at("attn_output", (e, q), 1 / math.sqrt(q))
        if s.out_bias:
            yield at("attn_output", (e,), 0.1, kind="bias")
        yield at("ffn_norm", (e,), 0.1, 1.0)
        if s.n_experts:
            yield at("ffn_gate_inp", (s.n_experts, e), 1 / math.sqrt(e))
        of, stack = ("_exps", (s.n_experts,)) if s.n_experts else ("", ())
        yield at(f"ffn_gate{of}", (*stack, s.n_ff, e), 1 / math.sqrt(e))
        yield at(f"ffn_up{of}", (*stack, s.n_ff, e), 1 / math.sqrt(e))
        yield at(f"ffn_down{of}", (*stack, e, s.n_ff), 1 / math.sqrt(s.n_ff))
    yield Draw("output_norm.weight", (e,), 0.1, 1.0)
    if not s.tied:
        yield Draw("output.weight", (s.n_vocab, e), 2 / math.sqrt(e))


MIXES = {"q4_k_m": "q4_k", "q5_k_m": "q5_k"}
FALLBACK = {"q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0", "q2_k": "q4_0", "q3_k": "q4_0",
            "iq4_xs": "iq4_nl"}


def tensor_type(d, s, want):
    """The type that a tensor gets in a file of type `want`, as llama.cpp mixes them: vectors stay
    f32; the mixes give more bits to the output, and to values and ffn_down of the first and last
    eighth of the layers and of every third between; a row that is not whole blocks falls back."""
    if len(d.shape) == 1 or "ffn_gate_inp" in d.name:
        return "f32"
    kind = MIXES.get(want, want)
    if want in MIXES:
        part = d.name.split(".")
        if d.name == ("token_embd.weight" if s.tied else "output.weight"):
            kind = "q6_k"
        elif part[-2] in ("attn_v", "ffn_down", "ffn_down_exps") and more_bits(int(part[1]), s.n_layers):
            kind = "q6_k"
    while d.shape[-1] % TYPES[kind].group:
        kind = FALLBACK.get(kind, "f16")
    return kind


def more_bits(i, n):
    return i < n // 8 or i >= 7 * n // 8 or (i - n // 8) % 3 == 2


def interleave(x, heads):
    """Rows of rotary halves -> rows of rotary pairs, head by head: folder order to GGUF order."""
    return x.reshape(heads, 2, -1, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def source(d, kind, seed, exact, name):
    """A Draw as a tensor to be written. Each has a generator of its own, seeded by its name."""
    def rng():
        return np.random.default_rng([seed, zlib.crc32(d.name.encode())])

    def whole():
        x = rng().standard_normal(d.shape, np.float32) * np.float32(d.std) + np.float32(d.mean)
        yield TYPES[kind].encode(interleave(x, d.heads) if d.heads and name == d.name else x)

    def streamed():
        r, columns = rng(), d.shape[-1]
        step, rows = max(1, CHUNK // columns), math.prod(d.shape[:-1])
        for row in range(0, rows, step):
            n = min(step, rows - row)
            yield random_blocks(kind, r, n * columns, d.std)

    return Source(name, kind, d.shape, whole if exact or kind == "f32" else streamed)


# -- metadata --------------------------------------------------------------------------------------

def gguf_metadata(s, name):
    arch = "llama" if s.arch == "mistral" else s.arch
    metadata = {
        "general.architecture": arch,
        "general.name": name,
        f"{arch}.block_count": s.n_layers,
        f"{arch}.context_length": s.n_ctx,
        f"{arch}.embedding_length": s.n_embd,
        f"{arch}.feed_forward_length": s.n_ff,
        f"{arch}.attention.head_count": s.n_heads,
        f"{arch}.attention.head_count_kv": s.n_kv_heads,
        f"{arch}.attention.layer_norm_rms_epsilon": s.eps,
        f"{arch}.rope.freq_base": s.theta,
        f"{arch}.vocab_size": s.n_vocab,
    }
    if s.n_experts:
        metadata[f"{arch}.expert_count"] = s.n_experts
        metadata[f"{arch}.expert_used_count"] = s.n_used
        if arch != "llama":
            metadata[f"{arch}.expert_feed_forward_length"] = s.n_ff
    if arch == "llama":
        metadata[f"{arch}.rope.dimension_count"] = s.head
    if s.head * s.n_heads != s.n_embd:
        metadata[f"{arch}.attention.key_length"] = s.head
        metadata[f"{arch}.attention.value_length"] = s.head
    if s.scaling and s.scaling["rope_type"] == "linear":
        metadata[f"{arch}.rope.scaling.type"] = "linear"
        metadata[f"{arch}.rope.scaling.factor"] = s.scaling["factor"]
    return metadata


def config_json(s, v, dtype):
    config = {
        "architectures": [f"{s.arch.capitalize()}ForCausalLM"],
        "model_type": s.arch,
        "hidden_size": s.n_embd,
        "intermediate_size": s.n_ff,
        "num_hidden_layers": s.n_layers,
        "num_attention_heads": s.n_heads,
        "num_key_value_heads": s.n_kv_heads,
        "max_position_embeddings": s.n_ctx,
        "rms_norm_eps": s.eps,
        "rope_theta": s.theta,
        "rope_scaling": s.scaling,
        "tie_word_embeddings": s.tied,
        "hidden_act": "silu",
        "vocab_size": s.n_vocab,
        "bos_token_id": v.bos,
        "eos_token_id": v.eos,
        "torch_dtype": {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}[dtype],
    }
    if s.head * s.n_heads != s.n_embd or s.arch == "qwen3":
        config["head_dim"] = s.head
    if s.arch in ("llama", "qwen3"):
        config["attention_bias"] = s.out_bias
    if s.arch in ("mistral", "qwen2"):
        config["sliding_window"] = None
    return json.dumps(config, indent=2) + "\n"


def copied_tokenizer(path, n_vocab):
    """The tokenizer of another GGUF file, filled up with unused tokens to n_vocab, if given."""
    metadata = {k: x for k, x in read(path).metadata.items() if k.startswith("tokenizer.")}
    tokens = metadata["tokenizer.ggml.tokens"]
    more = (n_vocab or len(tokens)) - len(tokens)
    if more < 0:
        raise ValueError(f"{path} has {len(tokens)} tokens, more than {n_vocab}")
    metadata["tokenizer.ggml.tokens"] = tokens + [f"[PAD{len(tokens) + i}]" for i in range(more)]
    for key, filler in (("tokenizer.ggml.token_type", np.int32(vocab.UNUSED)),
                        ("tokenizer.ggml.scores", np.float32(-1e4))):
        if key in metadata:
            metadata[key] = np.append(metadata[key], np.full(more, filler))
    return metadata


# -- files -----------------------------------------------------------------------------------------

def vocabulary(s):
    return vocab.make(s.n_vocab, "qwen2" if s.arch.startswith("qwen") else "llama-bpe")


def rope_factors(s):
    """Llama 3's scaling is a tensor in GGUF files."""
    if not s.scaling or s.scaling["rope_type"] != "llama3":
        return []
    factors = llama3_factors(plain_freq(s.head, s.theta), s.scaling)
    return [gguf_writer.from_array("rope_freqs.weight", "f32", factors)]


def plan(s, want, seed, naming=lambda name: name, fixed=None):
    """The tensors to be written."""
    listed = list(draws(s))
    exact = sum(math.prod(d.shape) for d in listed) <= EXACT
    return [source(d, fixed or tensor_type(d, s, want), seed, exact, naming(d.name))
            for d in listed]


def write_gguf(path, shape, want="f32", seed=1, version=3, tokenizer=None, name="random",
               progress=lambda done, total: None):
    """tokenizer: metadata of one (copied_tokenizer), or None for the built-in vocabulary."""
    metadata = gguf_metadata(shape, name)
    metadata |= tokenizer or vocab.gguf_metadata(vocabulary(shape))
    sources = rope_factors(shape) + plan(shape, want, seed)
    gguf_writer.write(path, metadata, sources, version, counted(progress, sources))


def write_folder(folder, shape, dtype="f32", seed=1, n_shards=1, progress=lambda done, total: None):
    folder, v = Path(folder), vocabulary(shape)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(config_json(shape, v, dtype))
    for name, text in vocab.json_files(v).items():
        (folder / name).write_text(text + "\n")
    sources = plan(shape, dtype, seed, hf_name, fixed=dtype)
    safetensors.write_folder(folder, sources, n_shards, counted(progress, sources))


def counted(progress, sources):
    """progress(done, total) as a function of bytes just written."""
    total, done = sum(s.n_bytes for s in sources), 0

    def more(n):
        nonlocal done
        done += n
        progress(done, total)
    return more
