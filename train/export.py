"""Writes a checkpoint as a Hugging Face folder and as GGUF.

    python -m train.export --ckpt DIR/last.pt --tokenizer DIR/tokenizer.json --hf HFDIR --gguf model.gguf --type q8_0

Hugging Face's Llama rotates dimension i with i + d/2; GGUF's `llama` rotates neighbours, so rows of q and k are
interleaved there (as llama.cpp's converter does).  Norm weights and one-dimensional tensors stay f32.
"""
import argparse
import json
import os
import shutil

import gguf
import numpy as np
import torch
from safetensors.numpy import save_file

from . import tokenizer
from .model import Llama, ModelConfig

TYPES = {"f32": gguf.GGMLQuantizationType.F32, "f16": gguf.GGMLQuantizationType.F16, "q8_0": gguf.GGMLQuantizationType.Q8_0}


def load(ckpt):
    d = torch.load(ckpt, map_location="cpu", weights_only=False)
    m = Llama(d["config"])
    m.load_state_dict(d["model"])
    return m.eval()


def hf_config(c, stop, end):
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": c.hidden_size, "num_hidden_layers": c.layers,
            "num_attention_heads": c.heads, "num_key_value_heads": c.kv_heads, "head_dim": c.head_dim, "intermediate_size": c.ffn,
            "vocab_size": c.vocab_size, "rms_norm_eps": c.eps, "rope_theta": c.rope_theta, "hidden_act": "silu",
            "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False, "max_position_embeddings": c.max_positions,
            "bos_token_id": None, "eos_token_id": stop, "pad_token_id": end, "torch_dtype": "float32"}


def hf_tensors(m):
    out = {"model.embed_tokens.weight": m.embed, "model.norm.weight": m.norm}
    for i, b in enumerate(m.blocks):
        p = f"model.layers.{i}."
        out.update({p + "self_attn.q_proj.weight": b.q, p + "self_attn.k_proj.weight": b.k, p + "self_attn.v_proj.weight": b.v,
                    p + "self_attn.o_proj.weight": b.o, p + "mlp.gate_proj.weight": b.gate, p + "mlp.up_proj.weight": b.up,
                    p + "mlp.down_proj.weight": b.down, p + "input_layernorm.weight": b.norm_attn,
                    p + "post_attention_layernorm.weight": b.norm_ffn})
    return {k: np.ascontiguousarray(v.detach().float().numpy()) for k, v in out.items()}


def write_hf(m, enc, folder):
    os.makedirs(folder, exist_ok=True)
    save_file(hf_tensors(m), f"{folder}/model.safetensors", metadata={"format": "pt"})
    json.dump(hf_config(m.c, enc.stop, enc.tok.token_to_id(tokenizer.END)), open(f"{folder}/config.json", "w"), indent=1)
    shutil.copyfile(enc.path, f"{folder}/tokenizer.json")
    tokenizer.hf_files(folder)


def interleave(w, heads):
    """Rows of each head from (0..d/2-1, d/2..d-1) to (0, d/2, 1, d/2+1, ...)."""
    rows, cols = w.shape
    return w.reshape(heads, 2, rows // heads // 2, cols).swapaxes(1, 2).reshape(rows, cols)


def gguf_tensors(m):
    yield "token_embd.weight", m.embed
    yield "output_norm.weight", m.norm
    for i, b in enumerate(m.blocks):
        p = f"blk.{i}."
        for name, w, heads in (("attn_q", b.q, m.c.heads), ("attn_k", b.k, m.c.kv_heads), ("attn_v", b.v, 0), ("attn_output", b.o, 0),
                               ("ffn_gate", b.gate, 0), ("ffn_up", b.up, 0), ("ffn_down", b.down, 0), ("attn_norm", b.norm_attn, 0),
                               ("ffn_norm", b.norm_ffn, 0)):
            yield p + name + ".weight", torch.from_numpy(interleave(w.detach().numpy(), heads)) if heads else w


def write_gguf(m, enc, path, kind, name="spolia-demo", note=""):
    c, w = m.c, gguf.GGUFWriter(path, "llama")
    w.add_name(name)
    w.add_description(note or "Answers short questions from documents; trained from generated text by train/.")
    w.add_context_length(c.max_positions)
    w.add_embedding_length(c.hidden_size)
    w.add_block_count(c.layers)
    w.add_feed_forward_length(c.ffn)
    w.add_head_count(c.heads)
    w.add_head_count_kv(c.kv_heads)
    w.add_key_length(c.head_dim)
    w.add_value_length(c.head_dim)
    w.add_rope_dimension_count(c.head_dim)
    w.add_rope_freq_base(c.rope_theta)
    w.add_layer_norm_rms_eps(c.eps)
    w.add_vocab_size(c.vocab_size)
    w.add_file_type({"f32": gguf.LlamaFileType.ALL_F32, "f16": gguf.LlamaFileType.MOSTLY_F16, "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0}[kind])
    j = json.load(open(enc.path))
    vocab = sorted(enc.tok.get_vocab(with_added_tokens=True).items(), key=lambda x: x[1])
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("qwen2")
    w.add_token_list([t for t, _ in vocab])
    w.add_token_types([gguf.TokenType.CONTROL if t in tokenizer.SPECIALS else gguf.TokenType.NORMAL for t, _ in vocab])
    w.add_token_merges([x if isinstance(x, str) else " ".join(x) for x in j["model"]["merges"]])
    w.add_eos_token_id(enc.stop)
    w.add_pad_token_id(enc.tok.token_to_id(tokenizer.END))
    w.add_add_bos_token(False)
    w.add_chat_template(tokenizer.TEMPLATE)
    for n, t in gguf_tensors(m):
        a = t.detach().float().numpy()
        q = TYPES[kind] if a.ndim == 2 else TYPES["f32"]
        w.add_tensor(n, gguf.quants.quantize(np.ascontiguousarray(a), q), raw_dtype=q)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def read_gguf(path):
    """The model of a GGUF file that write_gguf wrote, or of another of the architecture `llama` with tied embeddings; weights as the
    file has them (so with their rounding)."""
    r = gguf.GGUFReader(path)
    get = lambda key: r.fields["llama." + key].contents()
    head_dim = get("attention.key_length") if "llama.attention.key_length" in r.fields else get("embedding_length") // get("attention.head_count")
    c = ModelConfig(vocab_size=get("vocab_size"), hidden_size=get("embedding_length"), layers=get("block_count"), heads=get("attention.head_count"),
                    kv_heads=get("attention.head_count_kv"), ffn=get("feed_forward_length"), head_dim=head_dim,
                    rope_theta=get("rope.freq_base"), eps=get("attention.layer_norm_rms_epsilon"), max_positions=get("context_length"))
    t = {x.name: torch.from_numpy(np.array(gguf.quants.dequantize(x.data, x.tensor_type))) for x in r.tensors}
    m = Llama(c)
    for (name, p), (_, heads) in zip(gguf_tensors_raw(m), heads_of(m)):
        w = t[name].float()
        if heads:
            rows, cols = w.shape
            w = w.view(heads, rows // heads // 2, 2, cols).transpose(1, 2).reshape(rows, cols)
        p.data.copy_(w)
    return m.eval()


def add_model_options(ap):
    ap.add_argument("--gguf", default="demo/model.gguf", help="the model, with its tokenizer")
    ap.add_argument("--ckpt", help="a checkpoint of a run in place of the GGUF file; its folder has the tokenizer")


def open_model(a):
    """Model and encoder that add_model_options' options name."""
    if a.ckpt:
        return load(a.ckpt), tokenizer.Encoder(os.path.join(os.path.dirname(a.ckpt), "tokenizer.json"))
    return read_gguf(a.gguf), tokenizer.Encoder(a.gguf)


def heads_of(m):
    for name, _ in gguf_tensors_raw(m):
        yield name, m.c.heads if "attn_q." in name else m.c.kv_heads if "attn_k." in name else 0


def gguf_tensors_raw(m):
    yield "token_embd.weight", m.embed
    yield "output_norm.weight", m.norm
    for i, b in enumerate(m.blocks):
        for name, p in (("attn_q", b.q), ("attn_k", b.k), ("attn_v", b.v), ("attn_output", b.o), ("ffn_gate", b.gate), ("ffn_up", b.up),
                        ("ffn_down", b.down), ("attn_norm", b.norm_attn), ("ffn_norm", b.norm_ffn)):
            yield f"blk.{i}.{name}.weight", p


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--ckpt", required=True)
    ap.add_argument("--tokenizer", required=True)
    ap.add_argument("--hf")
    ap.add_argument("--gguf")
    ap.add_argument("--type", choices=list(TYPES), default="q8_0")
    a = ap.parse_args()
    m, enc = load(a.ckpt), tokenizer.Encoder(a.tokenizer)
    if a.hf:
        write_hf(m, enc, a.hf)
    if a.gguf:
        write_gguf(m, enc, a.gguf, a.type)
        print(f"{a.gguf}: {os.path.getsize(a.gguf) / 1e6:.2f} MB, {m.n_params() / 1e6:.2f} M parameters")


if __name__ == "__main__":
    main()
