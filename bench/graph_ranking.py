"""Ranking of relation paths: BM25 of `spolia graph paths` against embeddings of a text encoder, over the same paths (rows D1, D8).

The candidates of a question are the paths that `graph paths --top MOST` finds. Hits at k: an answer is a node of one of the first k
of each entity. The encoder ranks the sentences of the paths by their similarity to the question; `both` adds the ranks (reciprocal
rank fusion, 60).

    .venv/bin/python bench/graph_ranking.py --graph metaqa.db -m all-MiniLM-L6-v2 metaqa/questions.dev.jsonl -n 100
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys

import graph_common as common
import shared
from shared import ROOT


def candidates(args, q) -> list:
    command = [args.program, "graph", "paths", "-g", args.graph, "--json", "--hops", str(max(2, q["hops"])), "--style", "sentences",
               "--top", str(args.most), q["question"]]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 3):
        sys.exit(done.stderr.strip()[:300])
    return json.loads(done.stdout)["paths"] if done.stdout else []


def embed(args, texts) -> list:
    done = subprocess.run([args.program, "embed", "-m", args.model, "-t", "1", "-f", "-"], input="".join(t.replace("\n", " ") + "\n" for t in texts),
                          capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr.strip()[:300])
    return [[float(x) for x in line.split()] for line in done.stdout.splitlines()]


def has_answer(path, answers) -> bool:
    return any(common.normalise(n) in answers for n in path["nodes"][1:])


def hits(order, paths, answers, k) -> bool:
    seen = collections.Counter()
    for i in order:
        e = paths[i]["entity"]
        seen[e] += 1
        if seen[e] <= k and has_answer(paths[i], answers):
            return True
    return False


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("questions", type=pathlib.Path)
    p.add_argument("--program", default=ROOT / "build/spolia")
    p.add_argument("-m", "--model", required=True, help="a text encoder")
    p.add_argument("--graph", required=True)
    p.add_argument("--most", type=int, default=200, help="candidates of an entity")
    p.add_argument("-n", type=shared.count, default=100, help="questions of each number of hops")
    args = p.parse_args()
    ks, names = (1, 3, 5, 10, 30), ("bm25", "embeddings", "both")
    got, count = collections.defaultdict(collections.Counter), collections.Counter()
    for q in shared.lines(args.questions, "question", "answers", "hops"):
        if count[q["hops"]] >= args.n:
            continue
        count[q["hops"]] += 1
        paths, answers = candidates(args, q), {common.normalise(a) for a in q["answers"]}
        if not paths:
            continue
        asked, *vectors = embed(args, [q["question"]] + [x["text"] for x in paths])
        like = [sum(a * b for a, b in zip(asked, v)) for v in vectors]
        bm25 = list(range(len(paths)))
        near = sorted(bm25, key=lambda i: -like[i])
        place = {i: n for n, i in enumerate(near)}
        fused = sorted(bm25, key=lambda i: -(1 / (60 + i) + 1 / (60 + place[i])))
        for name, order in zip(names, (bm25, near, fused)):
            for k in ks:
                got[q["hops"], name][k] += hits(order, paths, answers, k)
    print("| hops | ranking | asked | " + " | ".join(f"at {k}" for k in ks) + " |\n|---|---|---|" + "---|" * len(ks))
    for (hops, name), row in sorted(got.items()):
        print(f"| {hops} | {name} | {count[hops]} | " + " | ".join(f"{row[k] / count[hops]:.0%}" for k in ks) + " |", flush=True)


if __name__ == "__main__":
    shared.run(main)
