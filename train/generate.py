"""Writes scenes of a split as readable JSON lines: documents, questions, answers, kinds.  For looking at the data and for
tests elsewhere; the trainer makes its own, fresh for every step.

    python -m train.generate --split test --n 100 --chunks 8 --out scenes.jsonl
"""
import argparse
import json
import random
import sys

from . import scenes
from .config import RECIPES


def generate(split, n, chunks, seed, weights=None, style=None):
    rng = random.Random(f"{split} {seed}")
    last = RECIPES["cpu"].stages[-1]
    for _ in range(n):
        yield scenes.make_scene(rng, split, weights or last.weights, chunks, style or last.style)


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--split", choices=("train", "dev", "test"), default="test")
    ap.add_argument("--n", type=int, default=20, help="scenes")
    ap.add_argument("--chunks", type=int, default=8)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--out", default="-")
    a = ap.parse_args()
    f = sys.stdout if a.out == "-" else open(a.out, "w")
    for s in generate(a.split, a.n, a.chunks, a.seed):
        docs = [dict(style=d.style, about=d.about, parent=d.parent, chunks=[dict(title=t, text=x) for t, x in d.chunks]) for d in s.docs]
        qas = [dict(kind=q.kind, question=q.question, answer=q.answer, docs=list(q.docs)) for q in s.qas]
        f.write(json.dumps(dict(documents=docs, questions=qas)) + "\n")


if __name__ == "__main__":
    main()
