"""What the policies of chunk reuse measure, choose and answer, computed in float64 from the papers'
equations (tests/reference/policies.py), on random prompts and the random model of the tests in C.

    .venv/bin/python tests/golden/make-reuse.py

Writes reuse.json beside this file; tests/property/test_golden_reuse.c compares the engine with it,
and says which model: SEED, N_LAYERS.
"""
import json
import math
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from reference import policies  # noqa: E402
from reference.tiny_c import Tiny  # noqa: E402

SEED, N_LAYERS, N_VOCAB = 20, 5, 101
N_CASES = 4
# The prompts after the first one: which of its four chunks, 0 for a new one.
ORDERS = ([2, 1, 3, 4], [1, 2, 0, 4], [3, 0, 1, 4], [4, 3, 2], [1, 3, 4], [0, 1, 4, 2])
HOW = ({"share": 0.25}, {"alpha": 0.5}, {"share": 0.125}, {"share": 0.75}, {"alpha": 1.5})


def short(x):
    """Seven digits of floats, in whatever they stand; null for infinite ones."""
    if isinstance(x, dict):
        return {k: short(v) for k, v in x.items()}
    if isinstance(x, (list, tuple, np.ndarray)):
        return [short(v) for v in x]
    if isinstance(x, (int, np.integer)):
        return x
    return float(f"{x:.7g}") if math.isfinite(x) else None


class NearTie(Exception):
    """A choice so close that another order of sums may make another one."""


def places(chosen, score, among):
    """Where the chosen tokens stand; where all scores are 0, the first are chosen."""
    left, most = among & ~chosen, score[np.isfinite(score)].max()
    if left.any() and (chosen & among).any() and score.any():
        if score[among & chosen].min() - score[left].max() < 1e-4 * most:
            raise NearTie
    return np.flatnonzero(chosen).tolist()


def by_segment(values, n):
    """[n], null where there is nothing."""
    return [values.get(i) for i in range(n)]


def told(measured, n):
    return by_segment({i: {"inter": short([m.inter.get(j, 0) for j in range(i)]),
                           "intra": short(m.intra), "prior": short(m.prior)}
                       for i, m in measured.items()}, n)


def drawn(rng, n):
    return rng.integers(0, N_VOCAB, n).tolist()


def craft(model, rng, segs, case):
    logits, _, measured, impact = policies.craft_cold(model, segs)
    out = {"logits": short(logits), "measured": told(measured, len(segs)),
           "cci": by_segment(short(impact), len(segs)), "again": []}
    for k in range(3):
        names, how = ORDERS[(3 * case + k) % len(ORDERS)], HOW[(3 * case + k) % len(HOW)]
        chunks = [segs[i] if i else drawn(rng, rng.integers(3, 40)) for i in names]
        now = [segs[0], *chunks, segs[-1]]
        beta, weight, again, watched, logits = policies.craft_again(model, segs, names, now, **how)
        n = len(now)
        for i, name in enumerate(names):
            here = np.repeat(np.arange(n), [len(x) for x in now]) == i + 1
            if name:
                places(again[here], measured[name].prior, np.ones(len(now[i + 1]), bool))
        out["again"].append({
            "segs": now, **how, "beta": by_segment(short(beta), n),
            "weight": by_segment(short(weight), n), "chosen": np.flatnonzero(again).tolist(),
            "measured": told(watched, n), "logits": short(logits)})
    return out


def make_case(model, rng, case):
    segs = [drawn(rng, rng.integers(3, 40)) for _ in range(6)]
    entry = {"segs": segs}
    share, of_chunks = (0.125, 0.25, 0.5, 0.75)[case], policies.Prompt(segs).is_chunk
    for name in ("blend", "fusion", "flow"):
        score, chosen, logits = getattr(policies, name)(model, segs, share)
        entry[name] = {"share": share, "score": short(score),
                       "chosen": places(chosen, score, of_chunks), "logits": short(logits)}
    score, half, _ = policies.fusion(model, segs, share / 2)
    places(half, score, of_chunks)  # flow's first choice
    entry["craft"] = craft(model, rng, segs, case)
    return entry


def make():
    model, rng, cases = Tiny(SEED, N_LAYERS), np.random.default_rng(4), []
    while len(cases) < N_CASES:
        try:
            cases.append(make_case(model, rng, len(cases)))
        except NearTie:
            pass
    return cases


if __name__ == "__main__":
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in make())
    (HERE / "reuse.json").write_text(f"[\n{lines}\n]\n")
