"""The reference forward pass: against another implementation, and against what must hold anyway."""
import json
from pathlib import Path

import numpy as np
import pytest

from .forward import causal, forward, nmse
from .model import load
from .random_model import PRESETS, TINY, write_folder, write_gguf

TOKENS = np.random.default_rng(0).integers(0, 299, 40)  # as in golden/make-logits.py
GOLDEN = json.loads((Path(__file__).parent.parent / "golden/logits.json").read_text())


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("forward") / "m.gguf"
    write_gguf(path, PRESETS["tiny-llama3"])
    return load(path)


@pytest.mark.parametrize("name", TINY)
def test_logits_equal_another_implementation(name, tmp_path):
    """transformers rotates in float32, hence the bound."""
    write_folder(tmp_path, PRESETS[name], n_shards=2)
    want = GOLDEN[name]
    assert nmse(forward(load(tmp_path), TOKENS).logits[-1, :len(want)], want) < 1e-11


@pytest.mark.parametrize("name", TINY)
def test_a_gguf_file_and_a_folder_are_one_model(name, tmp_path):
    """Above all the order of rows for rotary pairs. Llama 3's factors are float32 in GGUF files."""
    write_folder(tmp_path / "folder", PRESETS[name])
    write_gguf(tmp_path / "m.gguf", PRESETS[name], version=2)
    a, b = (forward(load(tmp_path / x), TOKENS).logits for x in ("folder", "m.gguf"))
    assert nmse(a, b) < 1e-14


def test_only_differences_of_positions_matter(model):
    far = forward(model, TOKENS, positions=np.arange(40) + 300).logits
    assert nmse(far, forward(model, TOKENS).logits) < 1e-20


def test_segments_out_of_sight_are_as_if_alone(model):
    """Two segments that do not see each other, the second at positions of its own."""
    segment = np.repeat([0, 1], [15, 25])
    positions = np.concatenate([np.arange(15), np.arange(25) + 200])
    sight = causal(positions) & (segment[:, None] == segment)
    both = forward(model, TOKENS, positions, sight).logits
    alone = [forward(model, TOKENS[segment == s]).logits for s in (0, 1)]
    assert nmse(both, np.concatenate(alone)) < 1e-20


def test_mass_of_spans_is_the_share_of_attention(model):
    spans = np.repeat([0, 1, 2], [10, 10, 20])
    mass = forward(model, TOKENS, spans=spans).mass
    assert mass.shape == (2, 40, 4, 3)
    np.testing.assert_allclose(mass.sum(-1), 1)
    assert (mass[:, :10, :, 1:] == 0).all() and (mass[:, 39] > 0).all()


@pytest.mark.parametrize("kv, least, most", [("f16", 1e-9, 1e-5), ("bf16", 1e-7, 1e-3),
                                             ("q8_0", 1e-6, 1e-2), ("q16", 1e-10, 1e-6)])
def test_rounding_of_keys_and_values_shows(model, kv, least, most):
    assert least < nmse(forward(model, TOKENS, kv=kv).logits, forward(model, TOKENS).logits) < most
