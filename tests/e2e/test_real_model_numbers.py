"""The published models against float64 (tests/golden/make-real-models.py).

As float32 the files are computed exactly: what is left is float32's own rounding. As published, kernels round
activations to 8 bits where weights have 4 to 6, and no more than that may show.
"""
import json
from pathlib import Path

import numpy as np
import pytest
from conftest import succeed

from reference.gguf_writer import write_as_floats

GOLDEN = json.loads((Path(__file__).parent.parent / "golden/real-models.json").read_text())
MODELS = list(GOLDEN)


@pytest.fixture(scope="module", params=MODELS)
def floats(request, real_model, tmp_path_factory):
    """(golden, the file as float32); about 1 GB for as long as its tests run."""
    path = tmp_path_factory.mktemp("floats") / "f32.gguf"
    write_as_floats(path, real_model(request.param))
    yield GOLDEN[request.param], path
    path.unlink()


def log_probabilities(folder, model, ids, *more):
    raw = folder / "logits.f32"
    succeed("logits", "-m", model, "--tokens", ",".join(map(str, ids)), "--raw", raw, "--no-pack-cache", *more)
    logits = np.fromfile(raw, "<f4").reshape(len(ids), -1)
    raw.unlink()
    for row in logits:  # in place: 640 rows of 262,144
        row -= row.max()
        row -= np.log(np.exp(row, dtype=np.float64).sum())
    return logits


def nll_of(after, ids):
    return -after[np.arange(len(ids) - 1), ids[1:]].astype(np.float64)


def best_differ(golden, after):
    """The largest difference among the five best log-probabilities of the rows that the golden file has."""
    return max(abs(after[int(row), i] - p) for row, top in golden["top"].items() for i, p in top)


def test_as_float32_a_model_predicts_what_float64_does(floats, tmp_path):
    golden, model = floats
    after = log_probabilities(tmp_path, model, golden["ids"], "-ctk", "f32", "-ctv", "f32")
    assert np.abs(nll_of(after, golden["ids"]) - golden["nll"]).max() < 2e-4
    assert best_differ(golden, after) < 2e-4


def test_as_float32_a_model_writes_what_float64_does(floats):
    golden, model = floats
    for begun in golden["greedy"]:
        made = json.loads(succeed("run", "-m", model, "-p", begun["text"], "-n", "64", "--json", "--no-pack-cache",
                                  "-ctk", "f32", "-ctv", "f32"))
        assert made["tokens"] == begun["tokens"]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kv", ["q16", "f16"])
def test_as_published_only_rounding_shows(name, kv, real_model, tmp_path):
    golden = GOLDEN[name]
    after = log_probabilities(tmp_path, real_model(name), golden["ids"], "-ctk", kv, "-ctv", kv)
    off = nll_of(after, golden["ids"]) - golden["nll"]
    assert np.abs(off).mean() < 0.08 and abs(off.mean()) < 0.02
    assert best_differ(golden, after) < 0.6
