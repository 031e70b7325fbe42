"""The program's logits against the reference: every architecture, format, weight type, KV type and
set of kernels, on small random models.

Both decode weights to the same floats, and the reference rounds keys and values as the cache does.
What is left is float32 arithmetic, and now and then a key or value near the middle between two
steps of its type that is rounded the other way. With quantized weights, kernels may also round
activations: to 16 bits beside weights of 8 bits where there is no VNNI, else to 8.
"""
import json
import shutil

import gguf
import numpy as np
import pytest
import cpus
from conftest import CPU, EMULATED, ROOT, refuse, run, succeed

from reference.blocks import TYPES
from reference.forward import forward, log_softmax, nmse, perplexity
from reference.model import load
from reference.random_model import MIXES, TINY

# Bounds of NMSE by the type of keys and values. f32: ten times what was measured. The others: a
# tenth of what their rounding amounts to on these models; a reference without it would fail.
BOUND = {"f32": 1e-11, "f16": 4e-8, "bf16": 2e-6, "q16": 2e-9, "q8_0": 2e-5}
WORDS = 4e-8                     # q16 where queries and probabilities are rounded, too: not by ref
TILES = 1e-4                     # q16 where all that attention multiplies is rounded to bf16
ROUNDED = {16: 2e-7, 8: 2e-2}    # by the bits of activations; 8 bits on models of 64 channels
TOKENS = np.random.default_rng(7).integers(0, 299, 40)


@pytest.fixture(scope="module")
def reference():
    """reference(path, kv) -> logits of TOKENS, computed once."""
    known = {}

    def logits(path, kv="f64"):
        if (path, kv) not in known:
            known[path, kv] = forward(load(path), TOKENS, kv=kv).logits
        return known[path, kv]
    return logits


def logits(tmp_path, model, tokens, kv="f32", variant=None, more=()):
    """What the program computes, [tokens, vocabulary]."""
    raw = tmp_path / "logits.f32"
    succeed("logits", "-m", model, "--tokens", ",".join(map(str, tokens)), "--raw", raw,
            "-ctk", kv, "-ctv", kv, *more, variant=variant)
    return np.fromfile(raw, "<f4").reshape(len(tokens), -1)


# -- agreement with the reference ------------------------------------------------------------------

@pytest.mark.parametrize("preset", TINY)
def test_every_architecture(preset, variant, make_model, reference, tmp_path):
    model = make_model(preset)
    assert nmse(logits(tmp_path, model, TOKENS, variant=variant), reference(model)) < BOUND["f32"]


@pytest.mark.parametrize("kind", [*TYPES, *MIXES])
def test_every_weight_type(kind, variant, make_model, reference, tmp_path):
    model = make_model("tiny-wide-qwen2", kind)
    if kind in ("f32", "f16") or (kind == "bf16" and variant != "amx") or variant == "ref":
        bound = BOUND["f32"]
    else:
        bound = ROUNDED[16 if kind == "q8_0" and variant in ("avx2", "avx512") else 8]
    assert nmse(logits(tmp_path, model, TOKENS, variant=variant), reference(model)) < bound


@pytest.mark.parametrize("kind", ["q8_0", "q4_0", "q5_k", "mxfp4"])
def test_exact_products(kind, variant, make_model, reference, tmp_path):
    model = make_model("tiny-wide-qwen2", kind)
    found = logits(tmp_path, model, TOKENS, variant=variant, more=["--exact-products"])
    assert nmse(found, reference(model)) < ROUNDED[16]
    for batch in 3, 16: # all rows that memory is reserved for
        assert np.array_equal(logits(tmp_path, model, TOKENS[:16], variant=variant, more=["--exact-products", "-b", batch]), found[:16])


def test_f16_in_tiles_is_rounded_by_choice_only(make_model, reference, tmp_path):
    model = make_model("tiny-wide-qwen2", "f16")
    if not (EMULATED or cpus.runs_here("amx")):
        refuse("logits", "-m", model, "--tokens", "1,2", "--amx-f16", naming=["amx-f16"])
        return
    found = logits(tmp_path, model, TOKENS, more=["--amx-f16"])
    assert BOUND["f32"] < nmse(found, reference(model)) < ROUNDED[8]
    cut = logits(tmp_path, model, TOKENS, more=["--amx-f16", "-b", 3])
    assert np.array_equal(cut, found)


def test_attention_in_tiles_is_rounded_by_choice_only(make_model, reference, tmp_path):
    model = make_model("tiny-wide-qwen2")
    if not (EMULATED or cpus.runs_here("amx")):
        refuse("logits", "-m", model, "--tokens", "1,2", "--amx-attend", naming=["amx-attend"])
        return
    found = logits(tmp_path, model, TOKENS, "q16", more=["--amx-attend"])
    assert WORDS < nmse(found, reference(model)) < TILES
    cut = logits(tmp_path, model, TOKENS, "q16", more=["--amx-attend", "-b", 3])
    assert np.array_equal(cut, found)
    assert nmse(logits(tmp_path, model, TOKENS, "f32", more=["--amx-attend"]), reference(model)) < BOUND["f32"]


@pytest.mark.parametrize("kind", ["f16", "q8_0", "q4_k"])
def test_rows_that_are_not_whole_blocks(kind, make_model, reference, tmp_path):
    model = make_model("tiny-odd", kind)
    assert nmse(logits(tmp_path, model, TOKENS), reference(model)) < BOUND["f32"]


@pytest.mark.parametrize("preset", ["tiny-llama3", "tiny-qwen2-untied", "tiny-qwen3", "tiny-wide"])
@pytest.mark.parametrize("kv", ["f16", "bf16", "q16", "q8_0"])
def test_every_kv_type(kv, preset, variant, make_model, reference, tmp_path):
    model = make_model(preset)
    got = logits(tmp_path, model, TOKENS, kv, variant)
    bound = WORDS if kv == "q16" and variant != "ref" else BOUND[kv]
    assert nmse(got, reference(model, kv)) < bound


def test_the_default_kv_type_is_q16(make_model, tmp_path):
    model = make_model("tiny-llama")
    succeed("logits", "-m", model, "--tokens", "1,2,3,4", "--raw", tmp_path / "default")
    assert (tmp_path / "default").read_bytes() == \
        logits(tmp_path, model, [1, 2, 3, 4], "q16").tobytes()


def test_a_prompt_of_many_blocks(variant, make_model, tmp_path):
    """More than one step of computation (256 tokens), more than one tile of keys."""
    model = make_model("tiny-qwen3")
    tokens = np.random.default_rng(8).integers(0, 384, 500)
    got = logits(tmp_path, model, tokens, "f16", variant)
    assert nmse(got, forward(load(model), tokens, kv="f16").logits) < BOUND["f16"]


@pytest.mark.parametrize("preset", TINY)
def test_folders(preset, make_model, reference, tmp_path):
    model = make_model(preset, folder=True)
    assert nmse(logits(tmp_path, model, TOKENS), reference(model)) < BOUND["f32"]


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("n_shards", [1, 3])
def test_folders_of_other_types_and_in_shards(kind, n_shards, make_model, reference, tmp_path):
    model = make_model("tiny-llama3", kind, folder=True, n_shards=n_shards)
    bound = ROUNDED[8] if kind == "bf16" and CPU == "amx" else BOUND["f32"]
    assert nmse(logits(tmp_path, model, TOKENS), reference(model)) < bound


def test_gguf_version_2(make_model, reference, tmp_path):
    model = make_model("tiny-qwen3", "q8_0", version=2)
    got = logits(tmp_path, model, TOKENS, variant="ref")
    assert nmse(got, reference(model)) < BOUND["f32"]


# -- exactness: the same bits, however the work is cut ---------------------------------------------

def test_a_shorter_prompt_has_the_logits_of_the_longer(variant, make_model, tmp_path):
    model = make_model("tiny-llama", "q4_0")
    whole = logits(tmp_path, model, TOKENS, "f16", variant)
    for n in (1, 2, 15, 16, 17, 33):
        assert logits(tmp_path, model, TOKENS[:n], "f16", variant).tobytes() == whole[:n].tobytes()


@pytest.mark.parametrize("piece", [1, 7, 16])
@pytest.mark.parametrize("kv", ["f32", "f16", "q8_0"])
def test_pieces_give_the_bits_of_the_whole(piece, kv, variant, make_model, tmp_path):
    model = make_model("tiny-wide-qwen2", "q4_k_m")
    whole = logits(tmp_path, model, TOKENS, kv, variant)
    cut = logits(tmp_path, model, TOKENS, kv, variant, more=("-b", piece))
    assert cut.tobytes() == whole.tobytes()


def test_threads_do_not_change_bits(variant, make_model, tmp_path):
    model = make_model("tiny-odd")
    one = logits(tmp_path, model, TOKENS, "q16", variant, more=("-t", 1))
    for threads in (2, 3, 5):
        many = logits(tmp_path, model, TOKENS, "q16", variant, more=("-t", threads))
        assert one.tobytes() == many.tobytes()


# -- the other outputs -----------------------------------------------------------------------------

def test_json_has_the_best_log_probabilities(make_model, tmp_path):
    model = make_model("tiny-qwen2")
    answer = json.loads(succeed("logits", "-m", model, "--tokens", "5,6,7", "--json"))
    assert answer["tokens"] == [5, 6, 7] and len(answer["logprobs"]) == 3
    want = log_softmax(logits(tmp_path, model, [5, 6, 7], "q16").astype(np.float64))
    for listed, row in zip(answer["logprobs"], want):
        assert [entry["id"] for entry in listed] == np.argsort(-row)[:10].tolist()
        np.testing.assert_allclose([entry["logprob"] for entry in listed], -np.sort(-row)[:10],
                                   atol=1e-4)


def test_equal_logits_are_listed_by_id(make_model, tmp_path):
    model = shutil.copy(make_model("tiny-llama-mha"), tmp_path / "m.gguf")  # its output rows are its embeddings
    rows = next(t.data for t in gguf.GGUFReader(model, "r+").tensors if t.name == "token_embd.weight")
    rows[:] = rows[0]
    rows.flush()
    answer = json.loads(succeed("logits", "-m", model, "--tokens", "5", "--json", "--cpu", "ref"))
    assert [entry["id"] for entry in answer["logprobs"][0]] == list(range(10))


def test_a_text_is_its_tokens(make_model, tmp_path):
    model, text = make_model("tiny-llama"), "The wall remembered more than the city.\n"
    tokens = json.loads(succeed("tokenize", "-m", model, "-p", text, "--json"))["tokens"]
    succeed("logits", "-m", model, "-p", text, "--raw", tmp_path / "text")
    assert (tmp_path / "text").read_bytes() == logits(tmp_path, model, tokens, "q16").tobytes()


def test_tokens_are_shown_with_their_bytes():
    lines = succeed("tokenize", "-m", ROOT / "demo/model.gguf", "-p", 'a\t"\\\x7fé\n').splitlines()
    assert [line.split()[1] for line in lines] == ['"a"', r'"\t"', r'"\""', r'"\\"', r'"\x7f"', r'"\xc3"', r'"\xa9"', r'"\n"']


def test_perplexity(make_model, tmp_path):
    model, file = make_model("tiny-qwen3"), tmp_path / "text.txt"
    file.write_text("A column became a step, a step a door. Nobody asked what it said.\n" * 3)
    answer = json.loads(succeed("perplexity", "-m", model, "-f", file, "--json"))
    tokens = json.loads(succeed("tokenize", "-m", model, "-f", file, "--json"))["tokens"]
    want = perplexity(forward(load(model), tokens, kv="f16").logits, tokens)
    assert answer["perplexity"] == pytest.approx(want, rel=1e-4)
    assert answer["n_tokens"] == len(tokens) - 1
    short = json.loads(succeed("perplexity", "-m", model, "-f", file, "--json", "-c", "32"))  # every token but the first, once
    assert short["n_tokens"] == len(tokens) - 1 and short["perplexity"] != answer["perplexity"]
    refuse("perplexity", "-m", model, "-f", file, "-c", "1", naming=["context of 1 token"])


def test_greedy_text_follows_the_logits(make_model):
    """Without randomness, run continues with the best token of each step."""
    model = make_model("tiny-llama")
    prompt = "The mason walked"
    tokens = json.loads(succeed("tokenize", "-m", model, "-p", prompt, "--json"))["tokens"]
    answer = json.loads(succeed("run", "-m", model, "-p", prompt, "-n", 12, "--temp", 0, "--json"))
    reference, wanted = load(model), []
    for _ in range(len(answer["tokens"])):
        wanted.append(int(forward(reference, tokens + wanted, kv="f16").logits[-1].argmax()))
    assert answer["tokens"] == wanted


def test_a_variant_that_does_not_exist_is_refused(make_model):
    done = run("logits", "-m", make_model("tiny-llama"), "--tokens", "1", "--json", variant="none")
    assert done.returncode == 1 and "none" in done.stderr
