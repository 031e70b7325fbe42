"""Logits after prompts with dependency trees, in float64 with a dense mask (tests/reference/forward.py),
on random prompts and the random model of the tests in C.

    .venv/bin/python tests/golden/make-trees.py

Writes trees.json beside this file; tests/property/test_tree.c compares the engine with it, and says
which model: SEED, N_LAYERS. A case is {"segs", "parents", "places", "logits"}: the system text, nodes,
the question; the parent of a segment is an index, -1 for the question, which sees everything. Each
prompt comes twice: with positions that count depth, and with consecutive positions in pre-order.
"""
import json
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from reference.forward import forward  # noqa: E402
from reference.tiny_c import Tiny  # noqa: E402

SEED, N_LAYERS, N_VOCAB = 20, 5, 101
TREES = ([0, 1, 1, 0], [0, 1, 2, 1], [0, 0, 0, 0], [0, 1, 2, 3], [0, 0, 2, 2], [0, 1, 0, 3])


def sees(parents, i, j):
    """Whether segment i looks at segment j."""
    if i == len(parents) - 1:
        return True
    while i > j:
        i = parents[i]
    return i == j


def make_case(model, segs, parents, shifted):
    n = len(segs)
    places = [0] * n
    for i in range(1, n):
        after = range(i) if shifted or i == n - 1 else [parents[i]]
        places[i] = max(places[j] + len(segs[j]) for j in after)
    seg = np.repeat(np.arange(n), [len(s) for s in segs])
    tokens = np.concatenate(segs)
    positions = np.concatenate([places[i] + np.arange(len(s)) for i, s in enumerate(segs)])
    of_segments = np.array([[sees(parents, i, j) for j in range(n)] for i in range(n)])
    sight = of_segments[seg[:, None], seg[None, :]] & (positions[:, None] >= positions[None, :])
    logits = forward(model, tokens, positions, sight).logits[-1]
    return {"segs": segs, "parents": parents, "places": places,
            "logits": [float(f"{x:.9g}") for x in logits]}


def make():
    model, rng = Tiny(SEED, N_LAYERS), np.random.default_rng(17)
    for tree in TREES:
        segs = [rng.integers(0, N_VOCAB, rng.integers(1, 40)).tolist() for _ in range(6)]
        for shifted in (False, True):
            yield make_case(model, segs, [-1, *tree, -1], shifted)


if __name__ == "__main__":
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in make())
    (HERE / "trees.json").write_text(f"[\n{lines}\n]\n")
