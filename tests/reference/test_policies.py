"""The reference of the policies: what is known by hand, what must hold anyway, and that the golden
file is its work."""
import json
import math
from pathlib import Path

import numpy as np
import pytest

from . import policies
from .forward import forward, nmse
from .policies import Measured, Prompt
from .tiny_c import Tiny

GOLDEN = Path(__file__).parent.parent / "golden/reuse.json"


@pytest.fixture(scope="module")
def model():
    return Tiny(3, n_layers=3)


@pytest.fixture(scope="module")
def segs():
    rng = np.random.default_rng(0)
    return [rng.integers(0, 101, n).tolist() for n in (4, 9, 6, 7, 3)]


def plain(model, segs):
    return forward(model, Prompt(segs).tokens).logits[-1]


@pytest.mark.parametrize("policy", [policies.blend, policies.fusion, policies.flow])
def test_all_computed_again_is_full_attention(policy, model, segs):
    assert nmse(policy(model, segs, 1)[2], plain(model, segs)) < 1e-20
    assert nmse(policy(model, segs, 0.25)[2], plain(model, segs)) > 1e-6


def test_craft_in_all_its_tokens_is_full_attention(model, segs):
    cold = policies.craft_cold(model, segs)
    assert nmse(cold[0], plain(model, segs)) < 1e-20
    now = [segs[i] for i in (0, 3, 1, 2, 4)]
    _, _, again, _, logits = policies.craft_again(model, segs, (3, 1, 2), now, share=1)
    assert again.sum() == 22 and nmse(logits, plain(model, now)) < 1e-20


def test_the_same_prompt_again_needs_nothing(model, segs):
    beta, weight, again, watched, logits = policies.craft_again(model, segs, (1, 2, 3), segs, share=.5)
    assert set(beta.values()) == {1.0} and not any(weight.values())
    assert not again.any() and not watched
    assert nmse(logits, plain(model, segs)) < 1e-20


def test_a_deviation_is_that_of_a_token_that_looked_at_others(model, segs):
    """The first chunk stands behind the head, as its copy did; the others do not."""
    score, _, _ = policies.blend(model, segs, 0.5)
    p = Prompt(segs)
    assert score[p.seg == 1].max() < 1e-20 < 1e-3 < score[p.seg == 2].min()
    assert not score[~p.is_chunk].any()


def test_beta_by_hand():
    inter = {1: 3.0, 2: 1.0, 3: 4.0}
    assert policies.beta([], {}, []) == 1 and policies.beta([], {}, [1]) == 0
    assert policies.beta([1, 2, 3], inter, [1, 2, 3]) == 1
    assert policies.beta([1, 2, 3], inter, [1, 9, 2]) == 4 / 8
    assert policies.beta([1, 2, 3], inter, [2, 1, 3]) == pytest.approx(1 - 1 / 3)
    assert policies.beta([1, 2, 3], inter, [3, 9, 1]) == 0  # 7/8 of it, all turned round


def test_impact_by_hand():
    """A chunk of 2 tokens behind one of 4: a = 2 / (2 * 4), b = 1 / 4."""
    p = Prompt([[0], [1] * 4, [2] * 2, [3]])
    assert policies.cci(p, 2, Measured({1: 2.0}, 1.0, None)) == pytest.approx(1 / (1 + math.exp(-1)))


def test_counts_by_hand():
    assert policies.counts([0.5, 0.9, 0], [10, 10, 10], alpha=0.5).tolist() == [3, 5, 0]
    assert policies.counts([0.5, 0.9], [10, 10], alpha=2).tolist() == [10, 10]
    assert policies.counts([0.2, 0.6], [10, 10], share=0.4).tolist() == [2, 6]
    assert policies.counts([0.2, 0.6], [10, 10], share=0.8).tolist() == [6, 10]  # one is taken whole
    assert policies.counts([0, 0.6], [10, 10], share=0.8).tolist() == [0, 10]    # one needs nothing
    assert policies.counts([0.5, 0.5, 0.5], [3, 3, 3], share=5 / 9).tolist() == [2, 2, 1]


def test_the_golden_file_is_what_this_computes():
    case = json.loads(GOLDEN.read_text())[0]
    model = Tiny(20, n_layers=5)  # as in golden/make-reuse.py
    want = case["blend"]
    score, chosen, logits = policies.blend(model, case["segs"], want["share"])
    assert np.flatnonzero(chosen).tolist() == want["chosen"]
    assert np.allclose(score, want["score"], rtol=1e-6) and nmse(want["logits"], logits) < 1e-12
    logits, _, _, impact = policies.craft_cold(model, case["segs"])
    assert nmse(case["craft"]["logits"], logits) < 1e-12
    assert np.allclose(list(impact.values()), case["craft"]["cci"][1:-1], rtol=1e-6)
