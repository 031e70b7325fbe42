"""BERT in float64, without padding, and small random encoders: the definition that `spolia embed` is held to.

Tokens come from the `tokenizers` library. A folder is laid out as sentence-transformers writes it.
"""
import json
import math
import unicodedata
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from . import gguf_writer, safetensors
from .gguf_writer import from_array

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = ["the", "of", "a", "b", "c", "d", "e", "river", "stone", "build", "##ing", "##s", "##e", "##r", "##n", "##a",
          "un", "##able", "old", "new", "wall", ",", ".", "!", "?", "#", "-", "ä", "ß", "中", "文", "1", "##2", "2", "key",
          "##value", "cache"]


def vocabulary():
    return SPECIAL + PIECES


def tokenizer_json(lower=True):
    ids = {token: i for i, token in enumerate(vocabulary())}
    added = [{"id": i, "content": t, "special": True, "normalized": False, "single_word": False, "lstrip": False,
              "rstrip": False} for i, t in enumerate(SPECIAL)]
    cls, sep = ({"SpecialToken": {"id": t, "type_id": 0}} for t in ("[CLS]", "[SEP]"))
    return {"version": "1.0", "added_tokens": added,
            "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                           "strip_accents": None, "lowercase": lower},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {"type": "TemplateProcessing", "single": [cls, {"Sequence": {"id": "A", "type_id": 0}}, sep],
                               "pair": [cls, {"Sequence": {"id": "A", "type_id": 0}}, sep,
                                        {"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
                               "special_tokens": {t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in ("[CLS]", "[SEP]")}},
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                      "max_input_chars_per_word": 100, "vocab": ids}}


TINY = {"architectures": ["BertModel"], "model_type": "bert", "hidden_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "intermediate_size": 96, "max_position_embeddings": 40, "type_vocab_size": 2,
        "layer_norm_eps": 1e-12, "hidden_act": "gelu", "vocab_size": len(SPECIAL) + len(PIECES)}


def random_tensors(config, seed=0):
    """Weights by their names in safetensors files."""
    rng = np.random.default_rng(seed)
    e, f = config["hidden_size"], config["intermediate_size"]

    def matrix(rows, columns):
        return rng.normal(0, 1.5 / math.sqrt(columns), (rows, columns)).astype(np.float32)

    def vector(n, mean=0.0):
        return (mean + rng.normal(0, 0.2, n)).astype(np.float32)

    def norm(name):
        return {f"{name}.weight": vector(e, 1.0), f"{name}.bias": vector(e)}

    t = {"embeddings.word_embeddings.weight": matrix(config["vocab_size"], e),
         "embeddings.position_embeddings.weight": matrix(config["max_position_embeddings"], e) / 2,
         "embeddings.token_type_embeddings.weight": matrix(config["type_vocab_size"], e) / 2, **norm("embeddings.LayerNorm")}
    for i in range(config["num_hidden_layers"]):
        base = f"encoder.layer.{i}."
        for name, rows, columns in (("attention.self.query", e, e), ("attention.self.key", e, e),
                                    ("attention.self.value", e, e), ("attention.output.dense", e, e),
                                    ("intermediate.dense", f, e), ("output.dense", e, f)):
            t[f"{base}{name}.weight"], t[f"{base}{name}.bias"] = matrix(rows, columns), vector(rows)
        t |= norm(base + "attention.output.LayerNorm") | norm(base + "output.LayerNorm")
    return t


def write_folder(folder, config=TINY, pooling="mean_tokens", normalize=True, prompts=None, longest=None, seed=0, lower=True):
    folder = Path(folder)
    (folder / "1_Pooling").mkdir(parents=True, exist_ok=True)
    steps = ["Transformer", "Pooling"] + ["Normalize"] * normalize
    files = {"config.json": config, "tokenizer.json": tokenizer_json(lower),
             "modules.json": [{"idx": i, "name": str(i), "path": f"{i}_{s}" if i else "",
                               "type": f"sentence_transformers.models.{s}"} for i, s in enumerate(steps)],
             "1_Pooling/config.json": {"word_embedding_dimension": config["hidden_size"],
                                       **{f"pooling_mode_{m}": m == pooling for m in ("cls_token", "mean_tokens", "max_tokens")}},
             "config_sentence_transformers.json": {"prompts": prompts or {}, "default_prompt_name": None},
             "sentence_bert_config.json": {"max_seq_length": longest, "do_lower_case": False}}
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    tensors = random_tensors(config, seed)
    safetensors.write(folder / "model.safetensors", [from_array(n, "f32", x) for n, x in tensors.items()])
    return folder


# -- cross-encoders -----------------------------------------------------------------------------------

ROBERTA = {**TINY, "architectures": ["XLMRobertaModel"], "model_type": "xlm-roberta", "max_position_embeddings": 42,
           "type_vocab_size": 1, "layer_norm_eps": 1e-5, "pad_token_id": 1}


def unigram_json():
    """A SentencePiece unigram tokenizer as XLM-RoBERTa's."""
    words = ["\u2581" + w for w in PIECES if not w.startswith("##")] + [w.removeprefix("##") for w in PIECES]
    vocab = ["<s>", "<pad>", "</s>", "<unk>", "\u2581"] + sorted(set(words + list("abcdefghijklmnopqrstuvwxyz")))
    vocab += ["<mask>"] * (len(vocab) < TINY["vocab_size"] + 60)
    added = [{"id": vocab.index(t), "content": t, "special": True, "normalized": False, "single_word": False, "lstrip": False,
              "rstrip": False} for t in ("<s>", "<pad>", "</s>", "<unk>", "<mask>")]
    start, end = ({"SpecialToken": {"id": t, "type_id": 0}} for t in ("<s>", "</s>"))
    a, b = ({"Sequence": {"id": i, "type_id": 0}} for i in "AB")
    return {"version": "1.0", "added_tokens": added, "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
                {"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}]},
            "post_processor": {"type": "TemplateProcessing", "single": [start, a, end], "pair": [start, a, end, end, b, end],
                               "special_tokens": {t: {"id": t, "ids": [vocab.index(t)], "tokens": [t]} for t in ("<s>", "</s>")}},
            "decoder": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
            "model": {"type": "Unigram", "unk_id": 3, "byte_fallback": False,
                      "vocab": [[t, 0.0 if i < 4 else -2.0 - len(vocab) / 50 + len(t) / 2] for i, t in enumerate(vocab)]}}


def write_cross_encoder(folder, family="bert", activation=None, seed=0, **changes):
    """A folder of transformers' ...ForSequenceClassification with one label."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    roberta = family == "xlm-roberta"
    tokenizer = unigram_json() if roberta else tokenizer_json()
    vocab = tokenizer["model"]["vocab"]
    config = {**(ROBERTA if roberta else TINY), "vocab_size": len(vocab), "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0},
              "architectures": [("XLMRoberta" if roberta else "Bert") + "ForSequenceClassification"],
              "sbert_ce_default_activation_function": activation, **changes}
    rng = np.random.default_rng(seed + 1)
    e, prefix = config["hidden_size"], "roberta." if roberta else "bert."
    heads = ("classifier.dense", "classifier.out_proj") if roberta else ("bert.pooler.dense", "classifier")
    tensors = {prefix + n: x for n, x in random_tensors(config, seed).items()}
    for name, rows in zip(heads, (e, 1)):
        tensors[name + ".weight"] = rng.normal(0, 1 / math.sqrt(e), (rows, e)).astype(np.float32)
        tensors[name + ".bias"] = rng.normal(0, 0.2, rows).astype(np.float32)
    special = ("<s>", "</s>", "<pad>", "<unk>") if roberta else ("[CLS]", "[SEP]", "[PAD]", "[UNK]")
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 40, "cls_token": special[0], "sep_token": special[1],
        "pad_token": special[2], "unk_token": special[3],
        "model_input_names": ["input_ids", "attention_mask"] + ["token_type_ids"] * (not roberta)}))
    safetensors.write(folder / "model.safetensors", [from_array(n, "f32", x) for n, x in tensors.items()])
    return folder


GGUF_NAMES = {"attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
              "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
              "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm",
              "embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
              "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm"}


def gguf_name(name):
    """As llama.cpp's converter calls a tensor."""
    stem, end = name.rsplit(".", 1)
    if not stem.startswith("encoder.layer."):
        return f"{GGUF_NAMES[stem]}.{end}"
    _, _, layer, rest = stem.split(".", 3)
    return f"blk.{layer}.{GGUF_NAMES[rest]}.{end}"


def write_gguf(path, config=TINY, pooling=1, seed=0, kind="f32"):
    """A GGUF file as llama.cpp's converter writes it: U+2581 before pieces that begin a word. pooling None: not named."""
    tokens = [t if t in SPECIAL else t[2:] if t.startswith("##") else "\u2581" + t for t in vocabulary()]
    meta = {"general.architecture": "bert", "bert.block_count": config["num_hidden_layers"],
            "bert.context_length": config["max_position_embeddings"], "bert.embedding_length": config["hidden_size"],
            "bert.feed_forward_length": config["intermediate_size"],
            "bert.attention.head_count": config["num_attention_heads"],
            "bert.attention.layer_norm_epsilon": config["layer_norm_eps"], "bert.attention.causal": False,
            "bert.pooling_type": pooling, "tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": [3 if t in SPECIAL else 1 for t in vocabulary()],
            "tokenizer.ggml.token_type_count": config["type_vocab_size"], "tokenizer.ggml.unknown_token_id": 1,
            "tokenizer.ggml.cls_token_id": 2, "tokenizer.ggml.seperator_token_id": 3, "tokenizer.ggml.padding_token_id": 0}
    if pooling is None:
        del meta["bert.pooling_type"]
    tensors = [from_array(gguf_name(n), kind if x.ndim == 2 else "f32", x) for n, x in random_tensors(config, seed).items()]
    gguf_writer.write(path, meta, tensors)
    return path


# -- the definition -----------------------------------------------------------------------------------

ERF = np.vectorize(math.erf)


def layer_norm(x, weight, bias, eps):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred ** 2).mean(-1, keepdims=True) + eps) * weight + bias


class Encoder:
    """Reads a folder; vector(text) is its definition."""

    def __init__(self, folder):
        folder = Path(folder)
        self.config = json.loads((folder / "config.json").read_text())
        tensors = safetensors.read_folder(folder)
        self.w = {n: np.frombuffer(t.data, np.float32).reshape(t.shape).astype(np.float64) for n, t in tensors.items()
                  if not n.startswith("pooler.") and not n.endswith("position_ids")}
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.first = json.loads((folder / "1_Pooling/config.json").read_text())["pooling_mode_cls_token"]
        self.normalize = len(json.loads((folder / "modules.json").read_text())) == 3
        longest = json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"]
        self.tokenizer.enable_truncation(longest or self.config["max_position_embeddings"])

    def ids(self, text):
        return self.tokenizer.encode(text).ids

    def linear(self, name, x):
        return x @ self.w[name + ".weight"].T + self.w[name + ".bias"]

    def norm(self, name, x):
        return layer_norm(x, self.w[name + ".weight"], self.w[name + ".bias"], self.config["layer_norm_eps"])

    def rows(self, ids, types=0, first=0):
        heads = self.config["num_attention_heads"]
        x = (self.w["embeddings.word_embeddings.weight"][ids]
             + self.w["embeddings.position_embeddings.weight"][first:first + len(ids)]
             + self.w["embeddings.token_type_embeddings.weight"][types])
        x = self.norm("embeddings.LayerNorm", x)
        for i in range(self.config["num_hidden_layers"]):
            base = f"encoder.layer.{i}."
            q, k, v = (self.linear(f"{base}attention.self.{n}", x).reshape(len(ids), heads, -1).swapaxes(0, 1)
                       for n in ("query", "key", "value"))
            scores = q @ k.swapaxes(1, 2) / math.sqrt(q.shape[-1])
            p = np.exp(scores - scores.max(-1, keepdims=True))
            seen = (p / p.sum(-1, keepdims=True) @ v).swapaxes(0, 1).reshape(len(ids), -1)
            x = self.norm(base + "attention.output.LayerNorm", x + self.linear(base + "attention.output.dense", seen))
            wide = self.linear(base + "intermediate.dense", x)
            wide = wide * (1 + ERF(wide / math.sqrt(2))) / 2
            x = self.norm(base + "output.LayerNorm", x + self.linear(base + "output.dense", wide))
        return x

    def vector(self, text=None, ids=None):
        x = self.rows(self.ids(text) if ids is None else ids)
        y = x[0] if self.first else x.mean(0)
        return y / np.linalg.norm(y) if self.normalize else y


class CrossEncoder(Encoder):
    """score(query, document) is the definition of a folder of write_cross_encoder."""

    def __init__(self, folder):
        folder = Path(folder)
        self.config = json.loads((folder / "config.json").read_text())
        self.roberta = self.config["model_type"] == "xlm-roberta"
        tensors = safetensors.read_folder(folder)
        self.w = {n.removeprefix("roberta.").removeprefix("bert."): np.frombuffer(t.data, np.float32).reshape(t.shape).astype(np.float64)
                  for n, t in tensors.items()}
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(40, strategy="longest_first")

    def score(self, query, document):
        pair = self.tokenizer.encode(query, document)
        x = self.rows(pair.ids, pair.type_ids, 2 if self.roberta else 0)[0]
        dense, out = ("classifier.dense", "classifier.out_proj") if self.roberta else ("pooler.dense", "classifier")
        y = self.linear(out, np.tanh(self.linear(dense, x)))[0]
        return y if str(self.config["sbert_ce_default_activation_function"]).endswith("Identity") else 1 / (1 + math.exp(-y))


def random_text(rng, n):
    """Characters of all of Unicode, ASCII and accents more often; no line ends."""
    out = []
    while len(out) < n:
        c = int(rng.integers(0, [0x7F, 0x250, 0x3000, 0xFFFF, 0x10FFFF][rng.integers(0, 5)]))
        if c not in (0, 10) and unicodedata.category(chr(c)) != "Cs":
            out.append(chr(c) if rng.random() < 0.8 else " ")
    return "".join(out)
