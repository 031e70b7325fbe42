"""`spolia tokenize`: the published test vectors of four vocabularies, and the command itself.

The vectors are texts and the ids that the families' own tokenizers give them. They lie outside the
repository, in $SPOLIA_DATA/tokenizers: two vocabularies as GGUF files, two as files of ranks, which
scripts/make-vocab-gguf turns into GGUF.
"""
import base64
import json
import subprocess
import sys

import pytest
from conftest import ROOT, refuse, run, succeed

SEPARATOR = "\n__ggml_vocab_test__\n"
RANKS = {"llama-bpe": ("llama-3", "llama3/tokenizer.model"), "qwen2": ("qwen2", "qwen/qwen.tiktoken")}


def make_vocab(family, ranks, out):
    done = subprocess.run([sys.executable, ROOT / "scripts/make-vocab-gguf", "--family", family, ranks, out],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


def tokens(model, *args):
    return json.loads(succeed("tokenize", "-m", model, "--json", *args))["tokens"]


@pytest.mark.parametrize("name", ["llama-spm", "gpt-2", "llama-bpe", "qwen2"])
def test_published_vectors(name, data, tmp_path):
    home = data / "tokenizers"
    model = home / f"ggml-vocab-{name}.gguf"
    if name in RANKS:
        model = make_vocab(RANKS[name][0], home / RANKS[name][1], tmp_path / "vocab.gguf")
    texts = (home / f"ggml-vocab-{name}.gguf.inp").read_bytes().decode().split(SEPARATOR)
    wanted = (home / f"ggml-vocab-{name}.gguf.out").read_text().split("\n")
    assert len(texts) == len(wanted) == 47
    wrong = {}
    for text, want in zip(texts, wanted):
        (tmp_path / "text").write_bytes(text.encode())
        got = tokens(model, "--no-special", "-f", tmp_path / "text")
        if got != [int(i) for i in want.split()]:
            wrong[text] = got
    assert not wrong, f"{len(wrong)} of 47 differ"


# -- the command, over a vocabulary of the 256 bytes and a few words --------------------------------


@pytest.fixture(scope="module")
def vocab(tmp_path_factory):
    home = tmp_path_factory.mktemp("vocab")
    ranks = [bytes([b]) for b in range(256)] + [b"st", b"on", b"ston", b"stone", b" stone", "é".encode()]
    lines = [f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(ranks)]
    (home / "ranks").write_text("".join(lines))
    return make_vocab("llama-3", home / "ranks", home / "vocab.gguf")


BOS = 262  # the first special token, after the ranks


def test_merges_follow_from_ranks(vocab):
    assert tokens(vocab, "--no-special", "-p", "stone stone ston") == [259, 260, 32, 258]
    assert tokens(vocab, "--no-special", "-p", "éa12") == [261, 97, 49, 50]


def test_special_tokens(vocab):
    assert tokens(vocab, "-p", "a<|eot_id|>b") == [BOS, 97, BOS + 9, 98]
    assert tokens(vocab, "--no-special", "-p", "<|eot_id|>") == [*b"<|eot_id|>"]
    assert tokens(vocab, "-p", "") == [BOS]


def test_lines(vocab):
    out = succeed("tokenize", "-m", vocab, "--no-special", "-p", 'a"\n\xe8b')
    assert [line.split(maxsplit=1) for line in out.splitlines()] == [
        ["97", '"a"'], ["34", '"\\""'], ["10", '"\\n"'], ["195", '"\\xc3"'], ["168", '"\\xa8"'], ["98", '"b"']]


def test_files_byte_for_byte(vocab, tmp_path):
    raw = bytes([*range(0, 256, 2), *range(1, 256, 2)]) * 3
    (tmp_path / "raw").write_bytes(raw)
    assert tokens(vocab, "--no-special", "-f", tmp_path / "raw") == [*raw]
    assert json.loads(succeed("tokenize", "-m", vocab, "--json", "-f", "-", input="b\n"))["tokens"] == [BOS, 98, 10]


def test_wrong_usage(vocab, tmp_path):
    refuse("tokenize", "-m", vocab, code=2)
    refuse("tokenize", "-p", "a", code=2)
    refuse("tokenize", "-m", vocab, "-p", "a", "-f", "b", code=2)
    refuse("tokenize", "-m", tmp_path / "none.gguf", "-p", "a", naming=["none.gguf"])
    assert run("tokenize", "--help").returncode == 0
