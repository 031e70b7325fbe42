"""What is wrong with a file or a request is said in one line that names the file and the field;
nothing crashes, whatever the bytes.

Two kinds of damage: files with one thing changed, of which the message must speak, and truncation
and random bytes, after which the program may do anything but crash, hang or say nothing.
"""
import json
import os
import shutil
import struct
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from conftest import PROGRAM, ROOT, refuse, run, succeed

from reference import gguf_writer, random_model, safetensors
from reference.gguf import read

N_DAMAGED = 150  # files with random damage, each way
SHARD = "model-00001-of-00002.safetensors"
SHAPE = replace(random_model.PRESETS["tiny-llama"], n_layers=1, n_embd=32, n_heads=2, n_kv_heads=1,
                head=16, n_ff=32, n_vocab=300)


def load_it(path, **options):
    return run("logits", "-m", path, "--tokens", "1,2,3", "--json", **options)


def refuse_it(path, *naming):
    return refuse("logits", "-m", path, "--tokens", "1,2,3", "--json", naming=[path.name, *naming])


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A small GGUF file and a small folder, which the program reads."""
    home = tmp_path_factory.mktemp("good")
    random_model.write_gguf(home / "good.gguf", SHAPE, "q8_0")
    random_model.write_folder(home / "folder", SHAPE, "f16", n_shards=2)
    for path in (home / "good.gguf", home / "folder"):
        succeed("logits", "-m", path, "--tokens", "1,2,3", "--json")
    return home


# -- GGUF: one thing changed -----------------------------------------------------------------------

def rewritten(path, out, metadata=None, without=(), tensors=None):
    """A GGUF file with metadata replaced (None: left out), tensors left out or of another shape."""
    file = read(path)
    for key, x in (metadata or {}).items():
        file.metadata.pop(key, None)
        if x is not None:
            file.metadata[key] = x
    sources = []
    for t in file.tensors.values():
        if t.name not in without:
            shape = (tensors or {}).get(t.name, t.shape)
            n = gguf_writer.Source(t.name, t.type, shape, None).n_bytes
            data = bytes(t.data)[:n].ljust(n, b"\1")
            sources.append(gguf_writer.Source(t.name, t.type, shape, lambda data=data: [data]))
    gguf_writer.write(out, file.metadata, sources)
    return out


METADATA = {
    "no architecture": ("general.architecture", None),
    "unknown architecture": ("general.architecture", "mamba"),
    "architecture of another kind": ("general.architecture", 7),
    "alignment of zero": ("general.alignment", 0),
    "alignment of no power of two": ("general.alignment", 24),
    "no layers given": ("llama.block_count", None),
    "more layers than there are": ("llama.block_count", 2),
    "far more layers": ("llama.block_count", 1 << 31),
    "layers as text": ("llama.block_count", "one"),
    "layers as a list": ("llama.block_count", [1, 2]),
    "width of zero": ("llama.embedding_length", 0),
    "width of another model": ("llama.embedding_length", 64),
    "no heads": ("llama.attention.head_count", 0),
    "heads that do not divide": ("llama.attention.head_count", 3),
    "more key heads than heads": ("llama.attention.head_count_kv", 4),
    "no key heads": ("llama.attention.head_count_kv", 0),
    "feed-forward of another model": ("llama.feed_forward_length", 96),
    "feed-forward as a fraction": ("llama.feed_forward_length", 32.5),
    "no feed-forward": ("llama.feed_forward_length", None),
    "context of zero": ("llama.context_length", 0),
    "eps that is no number": ("llama.attention.layer_norm_rms_epsilon", float("nan")),
    "eps below zero": ("llama.attention.layer_norm_rms_epsilon", -1.0),
    "no eps": ("llama.attention.layer_norm_rms_epsilon", None),
    "odd rotation": ("llama.rope.dimension_count", 15),
    "rotation over the head": ("llama.rope.dimension_count", 64),
    "frequency base of zero": ("llama.rope.freq_base", 0.0),
    "unknown rotary scaling": ("llama.rope.scaling.type", "spiral"),
    "unknown tokenizer": ("tokenizer.ggml.model", "words"),
    "unknown pre-tokenizer": ("tokenizer.ggml.pre", "klingon"),
    "fewer tokens than rows": ("tokenizer.ggml.tokens", ["a", "b", "c"]),
    "tokens that are numbers": ("tokenizer.ggml.tokens", [1, 2, 3]),
    "no tokens": ("tokenizer.ggml.tokens", None),
    "token types of another length": ("tokenizer.ggml.token_type", [1, 1]),
    "unknown token type": ("tokenizer.ggml.token_type", [99] * 300),
    "a merge of one token": ("tokenizer.ggml.merges", ["ab"]),
    "a merge of unknown tokens": ("tokenizer.ggml.merges", ["qqq zzz"]),
    "an end token outside": ("tokenizer.ggml.eos_token_id", 300),
}


# A size that contradicts the tensors may be blamed on either.
SEEN_IN = {"embedding_length": "token_embd", "feed_forward_length": "ffn_", "block_count": "blk.",
           "head_count": "heads"}


@pytest.mark.parametrize("case", METADATA)
def test_gguf_metadata(case, good, tmp_path):
    key, value = METADATA[case]
    path = rewritten(good / "good.gguf", tmp_path / "bad.gguf", {key: value})
    said = refuse_it(path)
    part = key.split(".")[-1]
    assert part in said or SEEN_IN.get(part, part) in said, said


@pytest.mark.parametrize("name", ["token_embd.weight", "blk.0.attn_q.weight", "output_norm.weight"])
def test_gguf_without_a_tensor(name, good, tmp_path):
    refuse_it(rewritten(good / "good.gguf", tmp_path / "bad.gguf", without=[name]), name)


@pytest.mark.parametrize("name, shape", [
    ("blk.0.attn_q.weight", (32, 64)), ("blk.0.attn_k.weight", (32, 32)),
    ("blk.0.ffn_down.weight", (64, 32)), ("blk.0.attn_norm.weight", (33,)),
    ("token_embd.weight", (300, 64)), ("output.weight", (299, 32)),
    ("blk.0.ffn_up.weight", (1024,)), ("blk.0.ffn_up.weight", (4, 8, 32))])
def test_gguf_tensor_of_another_shape(name, shape, good, tmp_path):
    refuse_it(rewritten(good / "good.gguf", tmp_path / "bad.gguf", tensors={name: shape}), name)


def test_gguf_with_rotary_factors_that_do_not_fit(good, tmp_path):
    file = read(good / "good.gguf")
    sources = [gguf_writer.Source(t.name, t.type, t.shape, lambda t=t: [bytes(t.data)])
               for t in file.tensors.values()]
    for factors in (np.ones(3), np.zeros(8), np.full(8, np.nan)):
        extra = gguf_writer.from_array("rope_freqs.weight", "f32", factors)
        gguf_writer.write(tmp_path / "bad.gguf", file.metadata, [extra, *sources])
        refuse_it(tmp_path / "bad.gguf", "rope_freqs.weight")


TENSOR = "blk.0.attn_q.weight"
DIMS, SIZES, TYPE, OFFSET = 0, 4, 20, 24  # what stands behind the name of a matrix


def behind(data, name, field):
    return data.index(name) + len(name) + field


# What to write where: at an offset of the file, or in a field of TENSOR; and what must be named.
PATCHES = {
    "another magic": (0, b"GGML", "magic"),
    "version 1": (4, struct.pack("<I", 1), "version"),
    "version 4": (4, struct.pack("<I", 4), "version"),
    "the other byte order": (4, struct.pack(">I", 3), "version"),
    "too many tensors": (8, struct.pack("<Q", 1 << 62), "tensors"),
    "too many pairs": (16, struct.pack("<Q", 1 << 62), "header"),
    "a key without end": (24, struct.pack("<Q", (1 << 64) - 1), "metadata"),
    "a value of unknown type": (32 + len("general.architecture"), struct.pack("<I", 77),
                                "general.architecture"),
    "no dimensions": (DIMS, struct.pack("<I", 0), TENSOR),
    "nine dimensions": (DIMS, struct.pack("<I", 9), TENSOR),
    "a dimension of zero": (SIZES, struct.pack("<Q", 0), TENSOR),
    "sizes that overflow": (SIZES, struct.pack("<QQ", 1 << 32, 1 << 32), TENSOR),
    "an unknown type": (TYPE, struct.pack("<I", 222), TENSOR),
    "a type that is not supported": (TYPE, struct.pack("<I", 16), TENSOR),
    "an offset beyond the file": (OFFSET, struct.pack("<Q", 1 << 40), TENSOR),
    "an offset that overflows": (OFFSET, struct.pack("<Q", (1 << 64) - 32), TENSOR),
    "an offset out of line": (OFFSET, struct.pack("<Q", 33), TENSOR),
}


@pytest.mark.parametrize("case", PATCHES)
def test_gguf_bytes(case, good, tmp_path):
    at, new, word = PATCHES[case]
    data = bytearray((good / "good.gguf").read_bytes())
    if word == TENSOR:
        at = behind(data, TENSOR.encode(), at)
    data[at:at + len(new)] = new
    (tmp_path / "bad.gguf").write_bytes(data)
    refuse_it(tmp_path / "bad.gguf", word)


RUDE = b"a\nspolia: \x1b[31mred\xff!!"[:len(TENSOR)]


def test_a_message_is_one_line_whatever_a_file_calls_things(good, tmp_path):
    """Names in a file are its maker's; they must not write to the terminal of its user."""
    data = bytearray((good / "good.gguf").read_bytes().replace(TENSOR.encode(), RUDE))
    at = behind(data, RUDE, DIMS)
    data[at:at + 4] = struct.pack("<I", 9)
    (tmp_path / "bad.gguf").write_bytes(data)
    assert refuse_it(tmp_path / "bad.gguf").isprintable()


def test_inspect_prints_names_that_are_no_text_as_text(good, tmp_path):
    data = (good / "good.gguf").read_bytes().replace(TENSOR.encode(), RUDE)
    (tmp_path / "rude.gguf").write_bytes(data)
    lines = succeed("inspect", tmp_path / "rude.gguf").split("\n")
    assert all(line.isprintable() for line in lines)
    json.loads(succeed("inspect", tmp_path / "rude.gguf", "--json"))
    assert lines.index("metadata:") < lines.index("tensors:")
    told = json.loads(succeed("inspect", good / "good.gguf", "--json"))["tensors"]
    said = succeed("inspect", good / "good.gguf")
    for tensor in told:  # a line each, with its sizes
        assert any(tensor["name"] in line and " x ".join(map(str, tensor["shape"])) in line for line in said.splitlines())


# -- folders: one thing changed --------------------------------------------------------------------

CONFIG = {
    "unknown architecture": ("model_type", "gpt_neox"),
    "no width": ("hidden_size", None),
    "width as text": ("hidden_size", "32"),
    "width of another model": ("hidden_size", 64),
    "layers below zero": ("num_hidden_layers", -1),
    "heads of zero": ("num_attention_heads", 0),
    "a fraction of a head": ("num_key_value_heads", 0.5),
    "a huge context": ("max_position_embeddings", 1 << 40),
    "unknown rotary scaling": ("rope_scaling", {"rope_type": "spiral", "factor": 2.0}),
    "rotary scaling without its factor": ("rope_scaling", {"rope_type": "linear"}),
    "rotary scaling as a list": ("rope_scaling", [1]),
    "another activation": ("hidden_act", "gelu"),
}


@pytest.fixture
def folder(good, tmp_path):
    """A copy to be damaged."""
    return shutil.copytree(good / "folder", tmp_path / "bad")


def edit(path, change):
    j = json.loads(path.read_text())
    change(j)
    path.write_text(json.dumps(j))


@pytest.mark.parametrize("case", CONFIG)
def test_config_json(case, folder):
    key, value = CONFIG[case]
    edit(folder / "config.json", lambda j: j.pop(key) if value is None else j.update({key: value}))
    said = refuse_it(folder)
    assert key in said or "embed_tokens" in said, said


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"model_type": "llama"', "\xff\xfe", "{}{}"])
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors.index.json"])
def test_json_that_is_none(name, text, folder):
    (folder / name).write_bytes(text.encode("latin-1"))
    refuse_it(folder, name)


@pytest.mark.parametrize("name", ["config.json", SHARD])
def test_a_folder_without_a_file(name, folder):
    (folder / name).unlink()
    refuse_it(folder, name)


def test_an_index_that_leads_out_of_the_folder(folder):
    edit(folder / "model.safetensors.index.json",
         lambda j: j["weight_map"].update({"model.norm.weight": "../other.safetensors"}))
    refuse_it(folder, "model.safetensors.index.json")


HEADERS = {
    "an unknown type": {"dtype": "F8_E4M3"},
    "a type of another size": {"dtype": "F32"},
    "a shape of another size": {"shape": [3, 5]},
    "a shape below zero": {"shape": [-32]},
    "a shape that overflows": {"shape": [1 << 33, 1 << 33]},
    "a shape as text": {"shape": "32"},
    "offsets backwards": {"data_offsets": [64, 0]},
    "offsets beyond the file": {"data_offsets": [1 << 40, (1 << 40) + 64]},
    "offsets below zero": {"data_offsets": [-64, 0]},
    "one offset": {"data_offsets": [0]},
}


@pytest.mark.parametrize("case", HEADERS)
def test_safetensors_header(case, folder):
    file, name = safetensors_with(folder, "model.norm.weight")
    data = file.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    header[name].update(HEADERS[case])
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + n:])
    refuse_it(folder, file.name, name)


def safetensors_with(folder, name):
    """The shard that holds a tensor."""
    return next(f for f in folder.glob("*.safetensors") if name in safetensors.read(f)), name


@pytest.mark.parametrize("n", [0, 1, (1 << 63) - 1, (1 << 64) - 1, 1 << 40])
def test_safetensors_with_a_wrong_header_length(n, folder):
    file = folder / SHARD
    file.write_bytes(struct.pack("<Q", n) + file.read_bytes()[8:])
    refuse_it(folder, file.name)


TOKENIZER = {
    "another model": ("model", lambda m: m.update(type="WordLevel")),
    "no vocabulary": ("vocab", lambda m: m.pop("vocab")),
    "a vocabulary as a list": ("vocab", lambda m: m.update(vocab=[1, 2])),
    "an id as text": ("vocab", lambda m: m["vocab"].update(a="1")),
    "an id below zero": ("vocab", lambda m: m["vocab"].update(a=-5)),
    "a huge id": ("vocab", lambda m: m["vocab"].update(a=1 << 40)),
    "merges as text": ("merges", lambda m: m.update(merges="a b")),
    "a merge of unknown tokens": ("merges", lambda m: m.update(merges=["qqq zzz"])),
    "a merge of one token": ("merges", lambda m: m.update(merges=["ab"])),
}


@pytest.mark.parametrize("case", TOKENIZER)
def test_tokenizer_json(case, folder):
    word, change = TOKENIZER[case]
    edit(folder / "tokenizer.json", lambda j: change(j["model"]))
    refuse_it(folder, "tokenizer.json", word)


# -- any damage at all -----------------------------------------------------------------------------

def in_good_order(done, what):
    """Success, or exit code 1 with one line; never a signal or a sanitizer's report."""
    assert done.returncode in (0, 1), f"{what}: exit code {done.returncode}: {done.stderr[:2000]}"
    assert "Sanitizer" not in done.stderr and "runtime error" not in done.stderr, done.stderr
    if done.returncode == 1:
        assert done.stderr.startswith("spolia: ") and done.stderr.count("\n") == 1, done.stderr


def cuts(header, end, rng):
    """Lengths to cut a file to: some in the header, some in the data, and the last byte missing."""
    return [*rng.integers(0, header, 20), *rng.integers(header, end, 5), end - 1]


def test_truncated_gguf(good, tmp_path):
    data, path = (good / "good.gguf").read_bytes(), tmp_path / "cut.gguf"
    tensors = read(good / "good.gguf").tensors.values()
    header, end = min(t.offset for t in tensors), max(t.offset + len(t.data) for t in tensors)
    for n in cuts(header, end, np.random.default_rng(11)):
        path.write_bytes(data[:n])
        refuse_it(path)


@pytest.mark.parametrize("name", [SHARD, "tokenizer.json", "config.json"])
def test_truncated_file_of_a_folder(name, folder):
    data = (folder / name).read_bytes().rstrip()
    for n in cuts(min(len(data) - 1, 600), len(data), np.random.default_rng(12)):
        (folder / name).write_bytes(data[:n])
        refuse_it(folder, name)


def damaged(data, end, rng):
    """A few bytes before `end` replaced, at random places by random or extreme values."""
    data = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        at, n = rng.integers(0, end - 8), rng.choice([1, 4, 8])
        data[at:at + n] = rng.choice([rng.bytes(n), b"\xff" * n, b"\0" * n]) or b"\0" * n
    return bytes(data)


@pytest.mark.parametrize("seed", range(3))
def test_gguf_with_random_damage(seed, good, tmp_path):
    data, rng = (good / "good.gguf").read_bytes(), np.random.default_rng(seed)
    header = min(t.offset for t in read(good / "good.gguf").tensors.values())
    for i in range(N_DAMAGED // 3):
        (tmp_path / "bad.gguf").write_bytes(damaged(data, header, rng))
        in_good_order(load_it(tmp_path / "bad.gguf"), f"seed {seed}, file {i}")


@pytest.mark.parametrize("name, end", [(SHARD, 900), ("config.json", 400),
                                       ("tokenizer.json", 1 << 20)])
def test_file_of_a_folder_with_random_damage(name, end, folder):
    data, rng = (folder / name).read_bytes(), np.random.default_rng(21)
    for i in range(N_DAMAGED // 3):
        (folder / name).write_bytes(damaged(data, min(end, len(data)), rng))
        in_good_order(load_it(folder), f"{name}, file {i}")


# -- files that cannot be read ---------------------------------------------------------------------

@pytest.mark.parametrize("command", [["logits", "--tokens", "1"], ["run", "-p", "x"],
                                     ["tokenize", "-p", "x"], ["perplexity", "-f", os.devnull]])
def test_a_model_that_does_not_exist(command, tmp_path):
    refuse(command[0], "-m", tmp_path / "none.gguf", *command[1:], naming=["none.gguf"])


def test_inspect_a_file_that_does_not_exist(tmp_path):
    refuse("inspect", tmp_path / "none.gguf", "--json", naming=["none.gguf"])


@pytest.mark.parametrize("command", ["inspect", "logits"])
def test_a_file_of_another_kind(command, tmp_path):
    path = tmp_path / "text.gguf"
    for content in (b"", b"\0", b"GGUF", b"just a text\n" * 100):
        path.write_bytes(content)
        arguments = [path] if command == "inspect" else ["-m", path, "--tokens", "1"]
        refuse(command, *arguments, naming=["text.gguf"])


def test_an_empty_folder(tmp_path):
    refuse_it(tmp_path, "config.json")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(good, tmp_path):
    path = shutil.copy(good / "good.gguf", tmp_path / "closed.gguf")
    path.chmod(0)
    refuse_it(path)


def test_a_text_that_does_not_exist(good, tmp_path):
    for command in ("perplexity", "tokenize", "run"):
        refuse(command, "-m", good / "good.gguf", "-f", tmp_path / "none.txt", naming=["none.txt"])


def test_text_for_a_model_without_a_tokenizer(good, tmp_path):
    """Ids may be scored, text is refused."""
    path = rewritten(good / "good.gguf", tmp_path / "bare.gguf",
                     {k: None for k in read(good / "good.gguf").metadata if k.startswith("tokenizer.")})
    succeed("logits", "-m", path, "--tokens", "1,2")
    for command in ("logits", "run", "tokenize"):
        refuse(command, "-m", path, "-p", "x", naming=["tokenizer"])


def test_logits_to_a_place_that_cannot_be_written(good, tmp_path):
    out = tmp_path / "no/such/folder"
    refuse("logits", "-m", good / "good.gguf", "--tokens", "1", "--raw", out, naming=[out])
    refuse("logits", "-m", good / "good.gguf", "--tokens", "1", "--raw", "/dev/full", naming=["/dev/full", "No space"])


def test_inspect_tells_of_models_that_cannot_run(good, tmp_path):
    """An unknown architecture is no obstacle to looking at a file."""
    path = rewritten(good / "good.gguf", tmp_path / "m.gguf", {"general.architecture": "mamba"})
    assert "mamba" in succeed("inspect", path, "--json")


# -- requests that cannot be met -------------------------------------------------------------------

@pytest.mark.parametrize("tokens, word", [("1,300", "300"), ("1,-1", "-1"),
                                          ("2147483647", "2147483647")])
def test_token_ids_out_of_range(tokens, word, good):
    refuse("logits", "-m", good / "good.gguf", "--tokens", tokens, naming=[word])


def test_a_prompt_over_the_context(good, tmp_path):
    many = ",".join(["1"] * 513)
    refuse("logits", "-m", good / "good.gguf", "--tokens", many, naming=["513", "512"])
    refuse("logits", "-m", good / "good.gguf", "--tokens", "1,2,3", "-c", 2, naming=["3", "2"])
    (tmp_path / "long.txt").write_text("\x01" * 600)
    refuse("run", "-m", good / "good.gguf", "-f", tmp_path / "long.txt", naming=["600", "512"])


def test_an_empty_prompt(good, tmp_path):
    """The model has no BOS token: there is nothing to continue."""
    (tmp_path / "empty.txt").write_text("")
    refuse("run", "-m", good / "good.gguf", "-p", "", naming=["empty"])
    refuse("logits", "-m", good / "good.gguf", "-p", "", naming=["empty"])
    refuse("logits", "-m", good / "good.gguf", "--tokens", "", naming=["empty"], code=2)
    refuse("perplexity", "-m", good / "good.gguf", "-f", tmp_path / "empty.txt")


def test_out_of_kv_memory(make_model):
    """A token of this model takes 4 KiB of keys and values in f32."""
    model, many = make_model("tiny-wide-qwen2"), ",".join(["1"] * 500)
    refuse("logits", "-m", model, "--tokens", many, "--kv-memory", 1, "-ctk", "f32", naming=["KV"])


def test_kv_types_that_there_are_not(good):
    refuse("logits", "-m", good / "good.gguf", "--tokens", "1", "-ctk", "f17", naming=["f17"], code=2)


def test_a_kv_type_that_does_not_fit_the_head(good):
    """q8_0 holds groups of 32; this model's heads are 16 wide."""
    refuse("logits", "-m", good / "good.gguf", "--tokens", "1", "-ctk", "q8_0", "-ctv", "q8_0",
           naming=["q8_0"])


@pytest.mark.parametrize("arguments", [
    [], ["dance"], ["logits"], ["logits", "-m"], ["logits", "-m", "MODEL"], ["run", "-m", "MODEL"],
    ["logits", "-m", "MODEL", "--tokens", "1", "--shiny"],
    ["logits", "-m", "MODEL", "--tokens", "one"],
    ["logits", "-m", "MODEL", "--tokens", "1,,2"], ["logits", "-m", "MODEL", "--tokens", "1,"],
    ["logits", "-m", "MODEL", "--tokens", "1", "-p", "x"],
    ["logits", "-m", "MODEL", "--tokens", "99999999999999999999"],
    ["logits", "-m", "MODEL", "--tokens", "1", "-b", "many"], ["logits", "--tokens", "1"],
    ["inspect"], ["perplexity", "-m", "MODEL"]])
def test_usage(arguments, good):
    """Exit code 2, and a word about it on the standard error."""
    done = run(*[good / "good.gguf" if a == "MODEL" else a for a in arguments])
    assert done.returncode == 2, f"exit code {done.returncode}: {done.stderr}"
    assert done.stderr.strip() and not done.stdout


# -- tests/damaged_models.py -----------------------------------------------------------------------

def damaged_models(build, n):
    pytest.importorskip("gguf")
    command = [sys.executable, ROOT / "tests/damaged_models.py", "--n", str(n), "--seed", "7", "--build", build]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_damaged_models_are_computed_or_refused():
    done = damaged_models(PROGRAM.parent, 8)
    assert done.returncode == 0 and "8 files: " in done.stdout and "0 findings" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("ends", ["kill -SEGV $$", "echo 'x.c:1:2: runtime error: overflow' >&2; exit 1", "exit 1"])
def test_a_damaged_model_that_ends_the_program_otherwise_is_a_finding(ends, tmp_path):
    (tmp_path / "spolia").write_text(f"#!/bin/sh\n{ends}\n")
    (tmp_path / "spolia").chmod(0o755)
    done = damaged_models(tmp_path, 1)
    assert done.returncode == 1 and "1 findings" in done.stdout and "seed 7, " in done.stdout
