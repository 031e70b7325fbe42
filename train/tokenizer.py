"""Byte-level BPE: training and the rules by which a prompt becomes ids.

The first merges are given, not learned: the open syllables of names, in lower case, capitalised and after a space.
The rest is learned from generated text in which names are taken apart, so no merge is spent on a name, and no learned
token can be a piece of a name: without that rule English words make tokens of syllables ("director": "tor"), and the
syllables of held-out names stop being made of tokens that training has seen in names.
Every segment of a prompt is tokenized on its own and the ids are joined: a chunk has the same ids wherever it stands.
"""
import collections
import json
import random
import re

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

from . import facts, names, scenes

END, START, STOP = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIALS = [END, START, STOP]
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
PIECE = re.compile(r"(?:Ġ?(?:{cap})[{c}]?|[{c}])?(?:(?:{low})[{c}]?)*".format(      # of a name, in any place
    cap="|".join(s.capitalize() for s in names.OPEN), low="|".join(names.OPEN), c="".join(names.CODAS)))
TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
            "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")


def render_system(system=scenes.SYSTEM):
    return f"{START}system\n{system}{STOP}\n{START}user\n"


def render_chunk(title, text):
    return (f"[{title}]\n" if title else "") + f"{text}\n\n"


def render_question(question):
    return f"Question: {question}{STOP}\n{START}assistant\n"


def render_answer(answer):
    return f"{answer}{STOP}"


def byte_alphabet():
    """GPT-2's printable stand-ins for the 256 bytes, in the order of the bytes."""
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    out, n = {}, 0
    for b in range(256):
        if b in keep:
            out[b] = chr(b)
        else:
            out[b] = chr(256 + n)
            n += 1
    return out


def build(vocab, merges):
    t = Tokenizer(models.BPE(vocab=vocab, merges=merges, fuse_unk=False, byte_fallback=False))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(SPLIT), "isolated", invert=False),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens(SPECIALS)
    return t


def corpus(seed, n):
    """Word counts of generated training text; a name stands as its syllable tokens, each a word of its own."""
    rng = random.Random(seed)
    pre = build({c: i for i, c in enumerate(byte_alphabet().values())}, []).pre_tokenizer
    weights = dict(single=2, compare=1, bridge=1, alias=2, header=2, path=1, columns=0.5)
    style = scenes.Style(facts=(1, 3), filler=0.4, late=0.1, table=0.1, mark=0.2, wide=0.6)
    counts = collections.Counter()
    name = re.compile(r"(?:%s)+" % "|".join(f"{s}[lnrstkm]?" for s in names.OPEN), re.I)
    known = set("ten to so no me do go he".split())
    words = collections.Counter()
    for i in range(n):
        s = scenes.make_scene(rng, "train", weights, 6, style)
        texts = [render_chunk(t, c) for t, c in s.chunks] + [render_question(q.question) for q in s.qas] + [q.answer for q in s.qas]
        for text in texts + [render_system()]:
            for sp in SPECIALS:
                text = text.replace(sp, "\n")
            words.update(w for w, _ in pre.pre_tokenize_str(text))
    english = {w.lstrip("Ġ[(-") for w, c in words.items() if c > n // 40}
    for w, c in words.items():
        core = w.lstrip("Ġ[(-")
        if core not in english and core[:1].isupper() and core.isalpha() and name.fullmatch(core) and core.lower() not in known:
            continue
        if c > 3:
            counts[w] += c
    return counts


def train(path, vocab_size, seed=1, n=3000):
    alphabet = list(byte_alphabet().values())
    vocab = SPECIALS + alphabet
    merges = []

    def merge(a, b):
        if a + b not in seen:
            merges.append((a, b))
            vocab.append(a + b)
            seen.add(a + b)

    seen = set(vocab)
    for s in names.OPEN:
        merge(s[0], s[1])
    for s in names.OPEN:
        merge(s[0].upper(), s[1])
    for s in names.OPEN:
        merge("Ġ", s.capitalize())
    words = []
    rank = {m: i for i, m in enumerate(merges)}
    for w, c in corpus(seed, n).items():
        parts = list(w)
        while True:      # the given merges first, by rank, as the encoder will
            best = min(((rank.get(p, 1 << 30), i) for i, p in enumerate(zip(parts, parts[1:]))), default=(1 << 30, 0))
            if best[0] == 1 << 30:
                break
            i = best[1]
            parts[i:i + 2] = [parts[i] + parts[i + 1]]
        words.append((parts, c))
    while len(vocab) < vocab_size:
        pairs = collections.Counter()
        for p, c in words:
            for ab in zip(p, p[1:]):
                pairs[ab] += c
        pairs = {ab: c for ab, c in pairs.items() if not PIECE.fullmatch("".join(ab))}
        if not pairs:
            break
        a, b = max(pairs, key=lambda ab: (pairs[ab], ab))
        if a + b in seen:      # the same string by another path: take it out of the running
            merges.append((a, b))
        else:
            merge(a, b)
        for p, _ in words:
            i = 0
            while i < len(p) - 1:
                if p[i] == a and p[i + 1] == b:
                    p[i:i + 2] = [a + b]
                i += 1
    build({t: i for i, t in enumerate(vocab)}, merges).save(str(path))
    return len(vocab)


def from_gguf(path):
    """The tokenizer of a GGUF file that export.py wrote."""
    import gguf
    fields = gguf.GGUFReader(path).fields
    tokens, merges = (fields[f"tokenizer.ggml.{k}"].contents() for k in ("tokens", "merges"))
    return build({t: i for i, t in enumerate(tokens)}, [tuple(m.split(" ")) for m in merges])


class Encoder:
    """From a tokenizer.json or a GGUF file."""

    def __init__(self, path):
        self.path = str(path)
        self.tok = from_gguf(self.path) if self.path.endswith(".gguf") else Tokenizer.from_file(self.path)
        self.tok.encode_special_tokens = False
        self.stop = self.tok.token_to_id(STOP)
        self.vocab_size = self.tok.get_vocab_size()

    def __call__(self, text):
        return self.tok.encode(text, add_special_tokens=False).ids

    def many(self, texts):
        return [e.ids for e in self.tok.encode_batch_fast(texts, add_special_tokens=False)]

    def decode(self, ids):
        return self.tok.decode(ids, skip_special_tokens=False)


def hf_files(folder):
    """tokenizer_config.json and special_tokens_map.json beside tokenizer.json."""
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 4096, "eos_token": STOP, "pad_token": END,
              "bos_token": None, "add_bos_token": False, "clean_up_tokenization_spaces": False, "chat_template": TEMPLATE}
    json.dump(config, open(f"{folder}/tokenizer_config.json", "w"), indent=1)
    json.dump({"eos_token": STOP, "pad_token": END}, open(f"{folder}/special_tokens_map.json", "w"), indent=1)


if __name__ == "__main__":
    import argparse
    ap = argparse.ArgumentParser(description="train the tokenizer on generated text")
    ap.add_argument("--out", default="/tmp/spolia-train/tokenizer.json")
    ap.add_argument("--vocab", type=int, default=1536)
    ap.add_argument("--seed", type=int, default=1)
    a = ap.parse_args()
    print(f"{train(a.out, a.vocab, a.seed)} tokens -> {a.out}")
