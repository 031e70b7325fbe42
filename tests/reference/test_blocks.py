"""The element types: decoding against another implementation, quantisers against their own step."""
import json
from pathlib import Path

import numpy as np
import pytest

from .blocks import TYPES, random_blocks, round_to

GOLDEN = json.loads((Path(__file__).parent.parent / "golden/blocks.json").read_text())

# Largest error of a quantiser on values in [-1, 1]: half a step, or a whole one at the end that the
# codes do not reach, and a little more for types whose steps are quantised themselves.
ERROR = {"f32": 0, "f16": 2.0**-11, "bf16": 2.0**-8, "q8_0": 0.6 / 127, "q4_0": 1.05 / 8,
         "q4_1": 0.55 / 7.5, "q5_0": 1.05 / 16, "q5_1": 0.55 / 15.5, "q4_k": 1.2 / 15,
         "q5_k": 1.4 / 31, "q6_k": 1.1 / 32, "q2_k": 0.5, "q3_k": 1.1 / 4, "iq4_nl": 0.13, "iq4_xs": 0.15,
         "mxfp4": 0.26}


@pytest.mark.parametrize("name", GOLDEN)
def test_decoding_equals_another_implementation(name):
    blocks, values = (bytes.fromhex(GOLDEN[name][part]) for part in ("blocks", "values"))
    want = np.frombuffer(values, "<f4")
    np.testing.assert_array_equal(TYPES[name].decode(blocks, want.shape), want)


@pytest.mark.parametrize("name", TYPES)
def test_quantiser_stays_within_its_step(name):
    x = np.random.default_rng(3).uniform(-1, 1, (64, 256)).astype(np.float32)
    assert np.abs(round_to(name, x) - x).max() <= ERROR[name]


@pytest.mark.parametrize("name", TYPES)
def test_quantiser_keeps_zeros_and_its_own_values(name):
    """Rows of zeros come back as zeros, and a second round changes little: nothing drifts."""
    assert not round_to(name, np.zeros((2, 256), np.float32)).any()
    once = round_to(name, np.random.default_rng(4).standard_normal((8, 256)).astype(np.float32))
    twice = round_to(name, once)
    assert ((twice - once) ** 2).mean() <= 2e-3 * (once ** 2).mean()


@pytest.mark.parametrize("name", TYPES)
def test_random_blocks_have_the_spread_asked_for(name):
    n = 256 * 512
    x = TYPES[name].decode(random_blocks(name, np.random.default_rng(5), n, 0.05), (n,))
    assert np.isfinite(x).all()
    assert abs(x.mean()) < 1e-3 and x.std() == pytest.approx(0.05, rel=0.07 if name == "q2_k" else 0.02)
