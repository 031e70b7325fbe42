"""Trains the small tokenizers of this folder with Hugging Face `tokenizers` and records what they do.

    python -m venv /tmp/golden && /tmp/golden/bin/pip install tokenizers==0.23.3
    /tmp/golden/bin/python tests/golden/tokenizer/make.py

Writes, beside this file, one folder a kind with tokenizer.json and tokenizer_config.json, and cases.json
with the ids and the decoded text of every test text.
"""
import json
import pathlib
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).resolve().parent
MODERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
CORPUS = """The stones of an earlier building are set again into new walls; masons called them spolia.
A column from a temple carries the roof of a church, and the arch of an emperor wears the reliefs of three others.
What was cut once need not be cut again: it is measured, moved, turned and set where the new wall needs it.
In 1453, 2,024 blocks were counted; 33 of them bore letters. "Who's there?" he'd asked. "We're masons, I'm sure you'll
agree that it's better than we've hoped, and they'd say so." Die Steine früherer Bauten, größer als üblich; les pierres
déjà taillées; старые камни в новых стенах; 古い石を新しい壁に。
\tif (wall) {\n\t\tset(stone);\n\t}\n\n    return wall;\n
""" * 3

TEXTS = [
    "", " ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", " \n ", "\n \n\n \n\n\n \t \t\t \t\n  \n   \n",
    "The stones", " The stones", "  The  stones  ", "stones\n", "stones   \n  walls", "\u00a0The\u3000wall\u2003 \u180e!",
    "a", "aaaaaaaaaaaaaaaa", "set again into new walls", "SET AGAIN", "unbekannte Wörter: größer", "камни стены", "古い石",
    "I'm we're he'd it's they'll you've don't", "I'M WE'RE HE'D IT'S THEY'LL YOU'VE DON'T 'ſ", "'s's'tx 'x", "1 12 123 1234 12345",
    "3.14159, 2,024; ½ ² Ⅷ ٣٤", "!!!???...", "a.b,c;d", "(wall) { stone[0] = 'x'; }\n\treturn;", "==== ---- ~~~~\n\n####",
    "🚀 rocket 👩‍👩‍👧 family", "e\u0301 é", "\ufeffbom", "a\u200bb", "\u2581The\u2581wall", " \u2581 x", "नमस्ते दुनिया", "ไทย ភាសា",
    "<|end|>", "a<|end|>b", "<|end|><|end|>", " <|end|> stones", "<|end", "<|end|", "<|end|>\n<|start|>user\nThe wall<|end|>",
    "<tool>call</tool>", "<tool> call </tool>", "<tool>", "<|end|x", "<|start|>", "<s> stones</s> walls", "<unk>", "<0x41>", "x<s>y",
]


def texts():
    rng = random.Random(7)
    pool = list("aeinrst  ABC'\n\t.,019éßк石🚀\u2581\u00a0") + ["the ", "stone", "wall", " of", "'s", "<|end|>", "<tool>", "<s>"]
    return TEXTS + ["".join(rng.choices(pool, k=rng.randint(3, 14))) for _ in range(20)]


def train(model, pre, normalizer=None, vocab_size=360, alphabet=(), bytes_as_tokens=False):
    t = Tokenizer(model)
    t.pre_tokenizer = pre
    if normalizer:
        t.normalizer = normalizer
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] if bytes_as_tokens else []
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=special, initial_alphabet=list(alphabet),
                                  show_progress=False)
    t.train_from_iterator(CORPUS.splitlines(keepends=True), trainer)
    return json.loads(t.to_str())


def byte_level(pattern, digits=None, **options):
    steps = [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)]
    if pattern:
        steps.insert(0, pre_tokenizers.Split(Regex(pattern), "isolated"))
    pre = pre_tokenizers.Sequence(steps) if pattern else steps[0]
    trained = train(models.BPE(), pre, alphabet=pre_tokenizers.ByteLevel.alphabet())
    vocab, merges = trained["model"]["vocab"], [tuple(m) for m in trained["model"]["merges"]]
    if options.get("ignore_merges"):  # a word that no merge makes: only the whole-word rule finds it
        vocab["spolia"] = len(vocab)
    t = Tokenizer(models.BPE(vocab=vocab, merges=merges, **options))
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens(["<|end|>", "<|start|>"])
    t.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("</tool>", normalized=False)])
    return t


def gpt2():
    return byte_level(None), {"bos_token": "<|end|>", "eos_token": "<|end|>"}


def llama3():
    t = byte_level(MODERN % r"\p{N}{1,3}", ignore_merges=True)
    start = t.token_to_id("<|start|>")
    t.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|start|> $A", special_tokens=[("<|start|>", start)])])
    return t, {"bos_token": {"content": "<|start|>"}, "eos_token": {"content": "<|end|>"}}


def qwen2():
    t = byte_level(MODERN % r"\p{N}")
    return t, {"add_bos_token": False, "bos_token": None, "eos_token": "<|end|>"}


def sentencepiece(normalizer, pre, seen_as):
    """seen_as: what the trainer cuts words with, since llama's own pipeline gives whole lines."""
    trained = train(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True), seen_as, vocab_size=480,
                    bytes_as_tokens=True)
    model = trained["model"]
    t = Tokenizer(models.BPE(vocab=model["vocab"], merges=[tuple(m) for m in model["merges"]], unk_token="<unk>",
                             byte_fallback=True, fuse_unk=True))
    if normalizer:
        t.normalizer = normalizer
    if pre:
        t.pre_tokenizer = pre
    t.add_special_tokens([AddedToken(s, normalized=False, special=True) for s in ("<unk>", "<s>", "</s>", "<|end|>")])
    t.add_tokens([AddedToken("<tool>", normalized=False)])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                   decoders.Strip(" ", 1, 0)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", t.token_to_id("<s>"))])
    return t, {"add_bos_token": True, "bos_token": "<s>", "eos_token": "</s>"}


def llama2():
    return sentencepiece(normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None,
                         pre_tokenizers.Metaspace())


def metaspace_first():
    return sentencepiece(None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False), pre_tokenizers.Metaspace())


def metaspace_split():
    return sentencepiece(None, pre_tokenizers.Metaspace(prepend_scheme="always", split=True), pre_tokenizers.Metaspace())


def as_old_file(spec):
    """Merges as "a b", which files before 2024 have."""
    spec["model"]["merges"] = [" ".join(m) for m in spec["model"]["merges"]]
    return spec


def main():
    cases = {"texts": texts(), "kinds": {}}
    for kind in (gpt2, llama3, qwen2, llama2, metaspace_first, metaspace_split):
        t, config = kind()
        name = kind.__name__
        folder = HERE / name
        folder.mkdir(exist_ok=True)
        spec = json.loads(t.to_str())
        if name in ("gpt2", "llama2"):
            spec = as_old_file(spec)
        (folder / "tokenizer.json").write_text(json.dumps(spec, ensure_ascii=False, separators=(",", ":")) + "\n")
        (folder / "tokenizer_config.json").write_text(json.dumps(config) + "\n")
        special = [t.encode(x, add_special_tokens=False).ids for x in cases["texts"]]
        decoded = [t.decode(ids, skip_special_tokens=True) for ids in special]
        t.encode_special_tokens = True
        plain = [t.encode(x, add_special_tokens=False).ids for x in cases["texts"]]
        cases["kinds"][name] = {"special": special, "plain": plain, "decoded": decoded}
    (HERE / "cases.json").write_text(json.dumps(cases, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
