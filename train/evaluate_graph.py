"""Accuracy of graph questions: the same paths and questions as lines under self-attention and as trees under dependency attention.

    python -m train.evaluate_graph --n 200 --metaqa DIR/metaqa-test.jsonl --out table.md

An answer counts when it is any of the right ones (exact match of words).  Rows are layouts (trees.py) and styles:

    linear    each path a line, full causal attention
    exact     dependency attention, positions count depth
    shifted   dependency attention, positions in pre-order, as if cached trees were moved there by rotating their keys
    stray     the same, but each tree has the positions of another place: cached keys that were not moved

tree1 and tree2 are path1 and path2 asked over paths from four entities of the graph; names and frames of the test split.
hop1 to hop3 are MetaQA questions of the test half (train.metaqa).
"""
import argparse
import collections
import json
import random
import time

import torch

from . import graphs, trees
from .evaluate import scores, test_style
from .export import add_model_options, open_model
from .batch import sight
from .reuse import Runner

LAYOUTS = trees.LAYOUTS + ("stray",)
KINDS = ("tree1", "tree2", "hop1", "hop2", "hop3")


def tasks(kind, n, split="test", records="", seed=7, wide=0.0):
    """n tasks of one question each, and the answers that count."""
    rng = random.Random(f"graph {split} {kind} {seed}")
    if kind.startswith("hop"):
        some = [r for r in graphs.records_of(records) if r["questions"][0]["hops"] == int(kind[3])][:n] if records else []
        for r in some:
            q = r["questions"][0]
            yield graphs.Task([graphs.path_from(p) for p in r["paths"]], [graphs.Ask(kind, q["question"], q["answers"][0], r["entity"])]), q["answers"]
        return
    found = 0
    while found < n:
        t = graphs.invented(rng, split, test_style(wide), 8, 4, none=0.0)
        fit = [a for a in t.asks if a.kind == kind]
        if fit:
            found += 1
            a = rng.choice(fit)
            yield graphs.Task(t.paths, [a]), [a.answer]


def answer(run, enc, p, most=24):
    """Greedy answer to the one question of a packed task; the answer in it is not shown."""
    n = int(p.first.argmax())
    ids, pos = torch.from_numpy(p.ids[:n]), torch.from_numpy(p.pos[:n])
    if p.end is None:
        ok = torch.ones(n, n, dtype=torch.bool).tril()
    else:
        c = len(p.end)
        ok = sight(torch.cat([torch.from_numpy(p.end), torch.full((n - c,), n)])[None])[0]
        ok[c:] |= torch.ones(n - c, n, dtype=torch.bool).tril(c)        # the question sees all trees
    Ks, Vs, h = run.dense(ids, pos, ok)
    out, at, key_pos = [], int(pos[-1]) + 1, pos
    h = h[-1:]
    while True:
        nxt = int(run.m.logits(h)[0].argmax())
        if nxt == enc.stop or len(out) >= most:
            return enc.decode(out)
        out.append(nxt)
        key_pos = torch.cat([key_pos, torch.tensor([at])])
        x = run.m.embed[torch.tensor([nxt])]
        for i in range(run.c.layers):
            q, k, v = run.project(i, x)
            Ks[i], Vs[i] = torch.cat([Ks[i], k], 1), torch.cat([Vs[i], v], 1)
            x, _ = run.layer(i, x, q, Ks[i], Vs[i], key_pos[-1:], key_pos, torch.ones(1, len(key_pos), dtype=torch.bool))
        h, at = run.final(x), at + 1


def evaluate(model, enc, a):
    run = Runner(model)
    table, tokens = collections.defaultdict(lambda: collections.defaultdict(list)), collections.defaultdict(list)
    with torch.inference_mode():
        for kind in a.kinds:
            for i, (task, golds) in enumerate(tasks(kind, a.n, a.split, a.metaqa, a.seed, a.wide)):
                for style in a.styles:
                    for layout in a.layouts:
                        p = graphs.pack(random.Random(i), enc, task, style, layout)
                        if int(p.pos.max()) >= model.c.max_positions:
                            continue
                        got = answer(run, enc, p, a.most)
                        table[layout, style][kind].append(scores(got, golds)[0])
                        tokens[layout, style].append(int((p.seg == 0).sum()))
                        if a.show and i < a.show:
                            print(f"{kind} {layout} {style}: {task.asks[0].question}  {got!r} ({golds[0]!r})", flush=True)
    return table, tokens


def dump(a):
    """The tasks as JSON lines, for bench/graph_layouts.py, which asks them of the engine."""
    with open(a.dump, "w", encoding="utf-8") as f:
        for kind in a.kinds:
            for task, golds in tasks(kind, a.n, a.split, a.metaqa, a.seed, a.wide):
                paths = [dict(nodes=p.nodes, relations=p.relations, inverse=p.inverse) for p in task.paths]
                f.write(json.dumps(dict(kind=kind, question=task.asks[0].question, answers=golds, paths=paths), ensure_ascii=False) + "\n")


def render(table, tokens, kinds):
    rows = ["| layout | style | context tokens | " + " | ".join(kinds) + " |", "|---|---|---|" + "---|" * len(kinds)]
    for key, t in table.items():
        cell = [f"{100 * sum(t[k]) / len(t[k]):.1f}" if t[k] else "" for k in kinds]
        rows.append(f"| {key[0]} | {key[1]} | {sum(tokens[key]) / len(tokens[key]):.0f} | " + " | ".join(cell) + " |")
    return "\n".join(rows)


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_model_options(ap)
    ap.add_argument("--n", type=int, default=100, help="questions of each kind")
    ap.add_argument("--split", choices=("dev", "test"), default="test")
    ap.add_argument("--seed", type=int, default=7)
    ap.add_argument("--wide", type=float, default=0.0, help="share of scenes whose relations come from the wide pool")
    ap.add_argument("--metaqa", default="", help="records of train.metaqa --split test; none: no hop kinds")
    ap.add_argument("--kinds", nargs="*", default=list(KINDS))
    ap.add_argument("--layouts", nargs="*", default=list(LAYOUTS))
    ap.add_argument("--styles", nargs="*", default=list(trees.STYLES))
    ap.add_argument("--most", type=int, default=32, help="tokens of an answer")
    ap.add_argument("--show", type=int, default=0, help="print the answers to the first questions of each kind")
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--dump", metavar="FILE", help="write the questions and their paths there and answer none")
    ap.add_argument("--out")
    a = ap.parse_args()
    if a.dump:
        return dump(a)
    torch.set_num_threads(a.threads)
    model, enc = open_model(a)
    t = time.time()
    table, tokens = evaluate(model, enc, a)
    text = f"Right answers in per cent, {a.split} split, {a.n} questions a kind; {time.time() - t:.0f} s\n\n{render(table, tokens, a.kinds)}"
    print(text)
    if a.out:
        with open(a.out, "w") as f:
            f.write(json.dumps({f"{k[0]} {k[1]}": t for k, t in table.items()}) if a.out.endswith(".json") else text + "\n")


if __name__ == "__main__":
    main()
