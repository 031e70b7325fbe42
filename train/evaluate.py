"""Exact match and F1 by kind, under full attention and under each way of reusing chunks.

    python -m train.evaluate --n 50 --rates 5 15 30 50 --out table.md
    python -m train.evaluate --n 50 --rates 15 --policies query --fusion before 1 2 4      # FusionRAG's preprocessing

Prompts come from the split's own seed: `--split test` has syllables and sentence templates that training never saw.
The model is the shipped file, weights with their rounding, or a run's checkpoint (`--ckpt DIR/last.pt`).
"""
import argparse
import collections
import dataclasses
import json
import random
import re
import time

import torch

from . import scenes
from .bm25 import BM25
from .config import RECIPES
from .export import add_model_options, open_model
from .reuse import POLICIES, Runner, answers, prompt_of
from .tokenizer import render_chunk, render_question, render_system

GROUPS = {"single": dict(single=1), "bridge": dict(bridge=1, single=0.5), "alias": dict(alias=1, single=0.5), "header": dict(header=1, single=0.5),
          "compare": dict(compare=1), "none": dict(single=1, bridge=0.3, path=0.3), "path1": dict(path=1, single=0.3), "path2": dict(path=1, single=0.3)}


def test_style(wide=0.0):
    """As the last stage of the training, but chunks of a document stay apart and names are drawn from all syllables."""
    return dataclasses.replace(RECIPES["cpu"].stages[-1].style, whole=0.0, wide=wide, few=0.0)


def normal(text):
    return re.sub(r"[^\w\s]", " ", text.lower()).split()


def scores(answer, golds):
    """Exact match and F1 of the words, the best over the right answers."""
    em = f1 = 0.0
    a = normal(answer)
    for gold in golds:
        g = normal(gold)
        em = max(em, float(a == g))
        both = sum((collections.Counter(a) & collections.Counter(g)).values())
        if both:
            f1 = max(f1, 2 * both / (len(a) + len(g)))
    return em, f1


def questions(split, n, chunks, style, seed=7, kinds=scenes.KINDS):
    """n questions of each kind, one a prompt: (kind, scene, qa)."""
    for kind in kinds:
        rng = random.Random(f"{split} {kind} {seed}")
        found = 0
        while found < n:
            s = scenes.make_scene(rng, split, GROUPS[kind], chunks, style)
            fit = [q for q in s.qas if q.kind == kind]
            if fit and (chunks < 6 or len(s.chunks) >= chunks - 1):
                yield kind, s, rng.choice(fit)
                found += 1


def neighbours(scene, how):
    """The chunks that each chunk sees while it is computed: "before", the one before it in its document, or its n most
    similar ones in the prompt (BM25 with the chunk as query), in the order of the prompt."""
    if how == "before":
        first = [i == 0 for d in scene.docs for i in range(len(d.chunks))]
        return [[] if f else [c - 1] for c, f in enumerate(first)]
    texts = [render_chunk(*c) for c in scene.chunks]
    bm = BM25(texts)
    return [sorted([j for j in bm.top(t, len(texts)) if j != c][:int(how)]) for c, t in enumerate(texts)]


def evaluate(model, enc, split="test", n=50, chunks=8, rates=(), policies=POLICIES, style=None, seed=7, kinds=scenes.KINDS, fusion=()):
    """{key: {kind: [exact, f1, count, KL to full]}}, key = (policy, rate)."""
    run = Runner(model)
    style = style or test_style()
    table = collections.defaultdict(lambda: collections.defaultdict(lambda: [0.0, 0.0, 0, 0.0]))
    gen = torch.Generator().manual_seed(seed)
    system = enc(render_system())
    with torch.inference_mode():
        for kind, s, qa in questions(split, n, chunks, style, seed, kinds):
            p = prompt_of(system, enc.many([render_chunk(*c) for c in s.chunks]), enc(render_question(qa.question)))
            got = answers(run, p, enc.stop, rates, policies, gen, near={"fusion " + how: neighbours(s, how) for how in fusion})
            ref = got["full", 100][1].log_softmax(-1)
            for key, (ids, logits) in got.items():
                em, f1 = scores(enc.decode(ids), [qa.answer])
                x = table[key][kind]
                x[0] += em
                x[1] += f1
                x[2] += 1
                x[3] += float((ref.exp() * (ref - logits.log_softmax(-1))).sum())
    return table


def mean(x, i):
    return x[i] / max(1, x[2])


def render(table):
    """Markdown: exact match / F1 in per cent, a row a policy and rate, a column a kind."""
    kinds = [k for k in scenes.KINDS if any(k in t for t in table.values())]
    names = {"full": "full attention", "reuse": "Full Reuse", "blend": "CacheBlend", "query": "query-guided", "flow": "attention flow", "random": "random", "oracle": "oracle"}
    rows = ["| policy | recomputed | " + " | ".join(kinds) + " | KL |", "|---|---|" + "---|" * (len(kinds) + 1)]
    names.update({p: p for p, _ in table if p.startswith("fusion ")})
    order = {p: i for i, p in enumerate(("full", "reuse") + POLICIES + tuple(p for p in names if p.startswith("fusion ")))}
    for (policy, rate), t in sorted(table.items(), key=lambda x: (order[x[0][0]], x[0][1])):
        kl = sum(x[3] for x in t.values()) / max(1, sum(x[2] for x in t.values()))
        rows.append(f"| {names[policy]} | {rate} % | " + " | ".join(f"{100 * mean(t[k], 0):.0f} / {100 * mean(t[k], 1):.0f}" for k in kinds) + f" | {kl:.3f} |")
    return "\n".join(rows)


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_model_options(ap)
    ap.add_argument("--split", choices=("train", "dev", "test"), default="test")
    ap.add_argument("--n", type=int, default=50, help="questions of each kind")
    ap.add_argument("--seed", type=int, default=7, help="of the questions")
    ap.add_argument("--chunks", type=int, default=8)
    ap.add_argument("--rates", type=int, nargs="*", default=[5, 15, 30, 50], help="per cent of chunk tokens; none: full attention only")
    ap.add_argument("--policies", nargs="*", default=list(POLICIES))
    ap.add_argument("--fusion", nargs="*", default=[], help="rows of FusionRAG: before, or the number of similar chunks")
    ap.add_argument("--wide", type=float, default=0.0, help="share of scenes whose relations come from the wide pool")
    ap.add_argument("--kinds", nargs="*", default=list(scenes.KINDS))
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--out", help="write the table (.md) or all figures (.json) here")
    a = ap.parse_args()
    torch.set_num_threads(a.threads)
    model, enc = open_model(a)
    t = time.time()
    table = evaluate(model, enc, a.split, a.n, a.chunks, a.rates, a.policies, test_style(a.wide), a.seed, a.kinds, a.fusion)
    text = f"Exact match / F1 in per cent, {a.split} split, {a.n} questions a kind, prompts of {a.chunks} chunks; {time.time() - t:.0f} s\n\n{render(table)}"
    print(text)
    if a.out:
        with open(a.out, "w") as f:
            if a.out.endswith(".json"):
                json.dump({f"{p} {r}": v for (p, r), v in table.items()}, f, indent=1)
            else:
                f.write(text + "\n")


if __name__ == "__main__":
    main()
