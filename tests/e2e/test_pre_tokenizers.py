"""Every pre-tokenizer of src/model/tokenizer/pre_table.c against the `tokenizers` library, on random Unicode.

The expressions are written here once more, as the families published them, for the library's engine. A vocabulary whose
merges cross the borders of words shows each difference in the splitting as different ids.
"""
import json
import random
import re
import shutil
import unicodedata

import pytest
from conftest import ROOT, succeed
from reference import gguf_writer

tokenizers = pytest.importorskip("tokenizers")
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers  # noqa: E402

S = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
CLASSIC = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def modern(digits, letters=r"\p{L}", signs=r"\p{L}\p{N}", start=S + "|"):
    return (start + r"[^\r\n\p{L}\p{N}]?" + letters + "+|" + digits + r"| ?[^\s" + signs
            + r"]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def cased(end, digits, but=""):
    lead, up, low = r"[^\r\n\p{L}\p{N}]?", r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}" + but + "]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}" + but + "]"
    return (f"{lead}{up}*{low}+{end}|{lead}{up}+{low}*{end}|{digits}"
            + r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


PUNCTUATION = r"[\p{P}\$\+<=>\^~\|`]+"
HAN, KANA = "[一-龥ࠀ-一가-퟿]+", "[一-龥぀-ゟ゠-ヿ]+"
STOPS = r" ?[^(\s|.,!?…。，、।۔،)]+"
STEPS = {  # name in GGUF files: the steps
    "gpt-2": [CLASSIC], "mpt": [CLASSIC], "olmo": [CLASSIC], "jais": [CLASSIC],
    "llama-bpe": [modern(r"\p{N}{1,3}")], "dbrx": [modern(r"\p{N}{1,3}")], "chatglm-bpe": [modern(r"\p{N}{1,3}")],
    "qwen2": [modern(r"\p{N}")], "stablelm2": [modern(r"\p{N}")],
    "qwen35": [modern(r"\p{N}", r"[\p{L}\p{M}]", r"\p{L}\p{M}\p{N}")],
    "smollm": [r"\p{N}", CLASSIC], "starcoder": [r"\p{N}", CLASSIC], "refact": [r"\p{N}", CLASSIC],
    "command-r": [r"\p{N}", CLASSIC], "codeshell": [r"\p{N}", CLASSIC], "exaone": [r"\p{N}", CLASSIC],
    "falcon": [PUNCTUATION, CLASSIC, "[0-9][0-9][0-9]"],
    "deepseek-coder": ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", HAN, r"\p{N}"],
    "deepseek-v3": [r"\p{N}{1,3}", KANA, r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|"""
                    "[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"],
    "poro-chat": [STOPS], "bloom": [STOPS], "viking": [STOPS, r"\p{N}"],
    "tekken": [cased("", r"\p{N}")], "gpt-4o": [cased(S + "?", r"\p{N}{1,3}")],
    "superbpe": [r"\p{N}+", r"(?=(\d{3})+(?!\d))"],
    "bailingmoe": [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|"
                   r"\s+(?!\S)|\s+"],
    "seed-coder": [S + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "exaone-moe": [S + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|"
                   r"\s*[\r\n]|\s+(?!\S)|\s+"],
    "chameleon": ["<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", r"([\t\n]|    |  )", r"\p{N}",
                  r"[\p{P}!-/:-@\[-`{-~]", CLASSIC],
    "minicpm5": [r"\p{N}{1,3}", modern(r"\p{N}+")],
    "laguna": [r"[^\n]+|[\n]+", modern(r"\p{N}")],
    "tiny_aya": [r"\d{1,3}(?=(?:\d{3})*\b)", cased(S + "?", r"\p{N}{1,3}")],
    "cohere2moe": [r"\d{1,3}(?=(?:\d{3})*\b)", cased(S + "?", r"\p{N}{1,3}")],
    "ufakzeka": [modern(r"\p{N}", start="")], "hy_v4": [], "talkie": [cased(S + "?", r"\p{N}{1,3}")],
    # The engine of the library has the intersection of classes that Kimi's pattern needs.
    "kimi-k2": [r"[\p{Han}]+|" + cased(S + "?", r"\p{N}{1,3}", r"&&[^\p{Han}]").replace("[\\r\\n/]*", "[\\r\\n]*")],
}
STEPS["hy_v4"] = STEPS["deepseek-v3"]
IGNORE_MERGES = {"llama-bpe", "tekken", "minicpm5"}

COMMON = list("aaaeeiostnrlABCD.,!?'\"()-/$+<=>^~|`:;#@") + [" "] * 12 + list("\n\n\r\t0123456789")
ENGLISH = ["'s", "'LL", "don't", " I've", "1234567", "  ", "\r\n", " \n", "HTTPServer", "<sentinel:12>", "IMGIMGABZ", "    "]


def strange_characters():
    """Characters of all classes; of control characters only those that are spaces, no surrogates."""
    blocks = [range(0x80, 0x3000), range(0x3000, 0x3100), range(0x4E00, 0x4F00), range(0xAC00, 0xAD00), range(0xFF00, 0xFFF0),
              range(0x10000, 0x10800), range(0x1F300, 0x1F700)]
    return [chr(c) for block in blocks for c in block if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]


def random_texts(n, seed):
    rng, strange = random.Random(seed), strange_characters()
    by_class = {}
    for c in strange:
        by_class.setdefault(unicodedata.category(c), []).append(c)
    def part():
        kind = rng.random()
        if kind < 0.15:
            return rng.choice(ENGLISH)
        if kind < 0.55:
            return "".join(rng.choices(COMMON, k=rng.randint(1, 5)))
        return "".join(rng.choices(rng.choice(list(by_class.values())), k=rng.randint(1, 3)))
    return ["".join(part() for _ in range(rng.randint(1, 25))) for _ in range(n)]


@pytest.fixture(scope="module")
def vocabulary():
    """Merges learnt with whole texts as words, so that they cross all borders; as in tokenizer.json."""
    learning = Tokenizer(models.BPE())
    learning.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(vocab_size=2500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False, min_frequency=2)
    texts = random_texts(1500, 1) + ["It's 12345, don't you know?  Yes.\n\nI'll go."] * 9
    learning.train_from_iterator(texts, trainer)
    return json.loads(learning.to_str())["model"]


def library(vocabulary, steps, ignore_merges):
    merges = [tuple(m.split(" ")) if isinstance(m, str) else tuple(m) for m in vocabulary["merges"]]
    made = Tokenizer(models.BPE(vocabulary["vocab"], merges, ignore_merges=ignore_merges))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(s), "isolated") for s in steps]
        + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return made


def write_gguf(path, vocabulary, name):
    tokens = sorted(vocabulary["vocab"], key=vocabulary["vocab"].get)
    merges = [m if isinstance(m, str) else " ".join(m) for m in vocabulary["merges"]]
    gguf_writer.write(path, {"general.architecture": "llama", "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": name,
                             "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.merges": merges,
                             "tokenizer.ggml.token_type": [1] * len(tokens)}, [])


def ids(model, texts, tmp_path):
    out = []
    for text in texts:
        (tmp_path / "t").write_bytes(text.encode())
        out.append(json.loads(succeed("tokenize", "-m", model, "--json", "--no-special", "-f", tmp_path / "t"))["tokens"])
    return out


@pytest.mark.parametrize("name", STEPS)
def test_equals_the_library(name, vocabulary, tmp_path):
    wanted = library(vocabulary, STEPS[name], name in IGNORE_MERGES)
    write_gguf(tmp_path / "v.gguf", vocabulary, name)
    texts = ["".join(random_texts(30, seed)) for seed in range(10, 30)]
    for text, got in zip(texts, ids(tmp_path / "v.gguf", texts, tmp_path)):
        want = wanted.encode(text).ids
        if got != want:
            at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
            pytest.fail(f"{name}: token {at}: {[wanted.id_to_token(i) for i in got[at - 2:at + 3]]}, "
                        f"not {[wanted.id_to_token(i) for i in want[at - 2:at + 3]]}")


@pytest.mark.parametrize("name", ["smollm", "falcon", "tekken", "gpt-4o", "deepseek-v3", "superbpe"])
def test_tokenizer_json_is_recognised(name, vocabulary, make_model, tmp_path):
    """The same file as the library writes it."""
    made = library(vocabulary, STEPS[name], name in IGNORE_MERGES)
    steps = [pre_tokenizers.Split(Regex(s), "isolated") for s in STEPS[name] if s != CLASSIC]
    if name == "smollm":
        steps = [pre_tokenizers.Digits(individual_digits=True)]
    if name == "falcon":
        steps = [pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False),
                 pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")]
    else:
        steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=CLASSIC in STEPS[name]))
    made.pre_tokenizer = pre_tokenizers.Sequence(steps)
    made.decoder = tokenizers.decoders.ByteLevel()
    text = "".join(random_texts(60, 5))
    folder = tmp_path / "model"
    shutil.copytree(make_model("tiny-llama", folder=True, n_vocab=len(vocabulary["vocab"])), folder)
    (folder / "tokenizer_config.json").unlink(missing_ok=True)
    made.save(str(folder / "tokenizer.json"))
    got = ids(folder, [text], tmp_path)[0]
    assert got == made.encode(text).ids


def test_every_row_is_here_or_an_alias():
    table = (ROOT / "src/model/tokenizer/pre_table.c").read_text()
    rows = dict(re.findall(r'\{"([^"]+)", (SP_PRE_\w+)', table[table.index("rows[]"):]))
    untested = {kind for kind in rows.values()} - {rows[name] for name in STEPS}
    assert untested == {"SP_PRE_DEEPSEEK_LLM", "SP_PRE_YOUTU"}  # long classes; tests/unit/model/test_bpe.c
