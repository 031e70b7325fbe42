"""A small byte-level BPE vocabulary, trained on the spot on a paragraph of English, with the
special tokens of ChatML; as the metadata of a GGUF file and as the tokenizer.json of a folder.

Ids: 256 bytes, then one token a merge, then tokens nobody uses if more were asked for, and the
three special tokens last.
"""
import json
import re
from collections import Counter
from dataclasses import dataclass

NORMAL, CONTROL, UNUSED = 1, 3, 5
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHATML = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
          "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
          "{% if add_generation_prompt %}{{'<|im_start|>assistant\\n'}}{% endif %}")
SPLIT = {
    "llama-bpe": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
                 r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
             r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
TEXT = """\
The mason walked through the fallen city and looked at the stones. Some had carried an arch,
some had carried a name, and all of them were older than the king who wanted a new wall before the
winter. There was no time to cut new stones, so he took the old ones where they lay. A column became
a step, a step became a door, and the letters of another language stood upside down in the light of
the morning. Nobody asked what the letters said. The wall was straight, and it was finished first.
Years later a scholar came with paper and charcoal. She read the wall from left to right and from
right to left, and found in it the laws of one town, the debts of a second, and the prayer of a
woman whose house had been near the river. She wrote that the wall remembered more than the city,
because it had thrown nothing away. The question was only where to look, and in which order."""


def byte_letters():
    """The letter that stands for each byte: itself if printable, the others from U+0100 on."""
    keep = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = iter(range(0x100, 0x200))
    return [chr(b) if b in keep else chr(next(rest)) for b in range(256)]


def train(text, n_merges):
    """The merges of byte-pair encoding, most frequent pair first; fewer if the text runs out."""
    words = Counter(re.findall(r" ?[A-Za-z]+", text.replace("\n", " ")))
    words = {tuple(word.replace(" ", "\u0120")): n for word, n in words.items()}
    merges = []
    while len(merges) < n_merges:
        pairs = Counter()
        for word, n in words.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += n
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        words = {join(word, best): n for word, n in words.items()}
    return merges


def join(word, pair):
    out = []
    for letter in word:
        if out and (out[-1], letter) == pair:
            out[-1] += letter
        else:
            out.append(letter)
    return tuple(out)


@dataclass
class Vocab:
    tokens: list[str]
    types: list[int]
    merges: list[tuple[str, str]]
    pre: str  # the pre-tokenizer: "llama-bpe" or "qwen2"

    @property
    def bos(self):
        return len(self.tokens) - len(SPECIAL)

    @property
    def eos(self):
        return len(self.tokens) - 1


def make(n_tokens, pre, text=TEXT):
    n_merges = n_tokens - 256 - len(SPECIAL)
    if n_merges < 0:
        raise ValueError(f"a vocabulary needs {256 + len(SPECIAL)} tokens, not {n_tokens}")
    merges = train(text, min(n_merges, 1000))
    unused = [f"<|unused_{i}|>" for i in range(n_merges - len(merges))]
    tokens = [*byte_letters(), *("".join(pair) for pair in merges), *unused, *SPECIAL]
    types = [NORMAL] * (256 + len(merges)) + [UNUSED] * len(unused) + [CONTROL] * len(SPECIAL)
    return Vocab(tokens, types, merges, pre)


def gguf_metadata(v):
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": v.pre,
        "tokenizer.ggml.tokens": v.tokens,
        "tokenizer.ggml.token_type": v.types,
        "tokenizer.ggml.merges": [f"{a} {b}" for a, b in v.merges],
        "tokenizer.ggml.bos_token_id": v.bos,
        "tokenizer.ggml.eos_token_id": v.eos,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": CHATML,
    }


def json_files(v):
    """tokenizer.json and tokenizer_config.json, by name."""
    added = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True}
             for i, (t, kind) in enumerate(zip(v.tokens, v.types)) if kind != NORMAL]
    split = {"type": "Split", "pattern": {"Regex": SPLIT[v.pre]}, "behavior": "Isolated",
             "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False,
             "use_regex": False}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "NFC"} if v.pre == "qwen2" else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]},
        "post_processor": level, "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False,
                  "ignore_merges": v.pre == "llama-bpe",
                  "vocab": {t: i for i, t in enumerate(v.tokens) if v.types[i] == NORMAL},
                  "merges": [f"{a} {b}" for a, b in v.merges]},
    }
    config = {"bos_token": SPECIAL[0], "eos_token": SPECIAL[2], "add_bos_token": False,
              "add_prefix_space": False, "chat_template": CHATML}
    return {"tokenizer.json": json.dumps(tokenizer, ensure_ascii=False, indent=1),
            "tokenizer_config.json": json.dumps(config, indent=1)}
