"""Cached relation paths in blocks: nodes packed as they are computed, against a compressed prefix tree (DepCache section 4.2.1, row D5).

    single    each node has blocks of its own
    packed    what the engine does: nodes of a tree that a request computes take consecutive slots of shared blocks; a block is free
              when its last node is gone; leaves are evicted node by node
    merged    the paper's: nodes of an unbranched run are one, with blocks of its own; a branch splits it, a run that becomes
              unbranched is merged again; a whole run is evicted at once

Requests over trees of a real graph, drawn by Zipf's law, evenly, or from recent ones; LRU over leaves in a budget of blocks of 16
tokens. Reused: share of the tokens asked. Full: tokens in a block that is taken, of 16. With --questions the requests are those of
real questions, with the paths that are found for each: drawn by Zipf's law, or each once in the order of the file. Then also:
computed (tokens), moved (tokens of nodes whose slots change because a run is split or merged: they are copied), peak (blocks, before
LRU, beyond any budget: what all of them take), look (us a node to find what is known, by a table of nodes or of runs, in Python: a
ratio). Pure counting: no model runs, a token is four bytes of text.

    bench/graph_tree_blocks.py --graph metaqa.db --triples metaqa/triples.tsv
    bench/graph_tree_blocks.py --graph metaqa.db --questions metaqa/questions.dev.jsonl
"""
import argparse
import json
import random
import subprocess
import sys
import time

import shared
from shared import ROOT

B = 16


def tree_of(args, *words) -> list:
    """Nodes of the paths that are found; none: []."""
    done = subprocess.run([args.program, "graph", "paths", "-g", args.graph, "--json", "--tree", *words], capture_output=True, text=True)
    if done.returncode not in (0, 3):  # 3: no path
        sys.exit(f"graph_tree_blocks: {done.stderr.strip()}")
    return json.loads(done.stdout).get("tree", []) if done.returncode == 0 else []


def trees_of(args, rng) -> list:
    """A tree is a list of (parent, tokens) in pre-order; of entities with 10 nodes or more."""
    names = [x for line in open(args.triples, encoding="utf-8") for x in line.rstrip("\n").split("\t")[::2]]
    out, seen = [], set()
    while len(out) < args.pool:
        name = rng.choice(names)
        if name in seen:
            continue
        seen.add(name)
        nodes = tree_of(args, "--entities", "1", "-k", "200", name)
        if len(nodes) >= 10:
            out.append([(n["parent"], max(1, len(n["text"].encode()) // 4)) for n in nodes])
    return out


def paths_of(args, question) -> list:
    return tree_of(args, "--hops", str(args.hops), "-k", "30", question)


def requests_of(args) -> tuple:
    """Trees by their roots, each a list of (parent, tokens) that grows; for each question [(tree, its nodes)]; and for each question
    its nodes as the engine meets them: (parent's place in the list or -1, text)."""
    trees, of_root, place, requests, texts = [], {}, {}, [], []
    for line in open(args.questions, encoding="utf-8"):
        if len(requests) == args.requests:
            break
        nodes, at, parts = paths_of(args, json.loads(line)["question"]), [], {}
        for n in nodes:
            root = n["parent"] < 0
            t = of_root.setdefault(n["text"], len(of_root)) if root else at[n["parent"]][0]
            if t == len(trees):
                trees.append([])
            key = (t, -1 if root else at[n["parent"]][1], n["text"])
            if key not in place:
                place[key] = len(trees[t])
                trees[t].append((key[1], max(1, len(n["text"].encode()) // 4)))
            at.append((t, place[key]))
            parts.setdefault(t, set()).add(place[key])
        if nodes:
            requests.append([(t, sorted(v)) for t, v in sorted(parts.items())])
            texts.append([(n["parent"], n["text"]) for n in nodes])
    return trees, requests, texts


def part_of(tree, rng, share) -> list:
    """Indices of a request's part: some leaves, as another question prunes other paths, and all above them."""
    inner = {p for p, _ in tree}
    leaves = [i for i in range(len(tree)) if i not in inner]
    keep = set()
    for i in rng.sample(leaves, max(1, round(share * len(leaves)))):
        while i >= 0:
            keep.add(i)
            i = tree[i][0]
    return sorted(keep)


class Cache:
    """Nodes are (tree, index). A unit is what is evicted at once; here a node."""

    def __init__(self, trees, budget):
        self.trees, self.budget, self.used, self.clock, self.moved, self.peak = trees, budget, {}, 0, 0, 0

    def request(self, parts) -> tuple:
        """Tokens reused and asked."""
        self.clock += 1
        hit = asked = 0
        for t, part in parts:
            missing = []
            for i in part:
                n = self.trees[t][i][1]
                asked += n
                if (t, i) in self.used:
                    hit += n
                    self.used[t, i] = self.clock
                else:
                    missing.append(i)
            if missing:
                self.insert(t, missing)
        self.peak = max(self.peak, self.blocks())
        while self.blocks() > self.budget:
            if not self.evict():
                break
        self.settle()
        return hit, asked

    def settle(self):
        """After a request."""

    def full(self):
        return sum(self.trees[t][i][1] for t, i in self.used) / max(1, B * self.blocks())


class Packed(Cache):
    def __init__(self, trees, budget, single=False):
        super().__init__(trees, budget)
        self.single, self.holders, self.where, self.next = single, {}, {}, 0

    def blocks(self):
        return len(self.holders)

    def insert(self, t, missing):
        slot = self.next * B
        for i in missing:
            if self.single:
                slot = (slot + B - 1) // B * B
            n = self.trees[t][i][1]
            mine = range(slot // B, (slot + n - 1) // B + 1)
            for b in mine:
                self.holders[b] = self.holders.get(b, 0) + 1
            self.where[t, i] = mine
            self.used[t, i] = self.clock
            slot += n
        self.next = slot // B + 1

    def evict(self):
        inner = {(t, self.trees[t][i][0]) for t, i in self.used}
        leaves = [n for n in self.used if n not in inner and self.used[n] < self.clock]
        if not leaves:
            return False
        leaves.sort(key=lambda n: (self.used[n], -n[1]))
        for n in leaves:
            del self.used[n]
            for b in self.where.pop(n):
                self.holders[b] -= 1
                if not self.holders[b]:
                    del self.holders[b]
            if self.blocks() <= self.budget:
                break
        return True


class Merged(Cache):
    """Runs follow from what is cached, so splits and merges are there at once, as if copying cost nothing."""

    def insert(self, t, missing):
        for i in missing:
            self.used[t, i] = self.clock
        self.known = None

    def settle(self):
        """Nodes that were there before and begin at another slot of a block, or in another run, are copied."""
        where = {}
        for run, _ in self.runs():
            slot = 0
            for n in run:
                where[n] = (run[0], slot)
                slot += self.trees[n[0]][n[1]][1]
        for n, (first, slot) in where.items():
            old = self.where.get(n)
            if old and old[1] % B != slot % B:
                self.moved += self.trees[n[0]][n[1]][1]
        self.where = where

    def __init__(self, trees, budget):
        super().__init__(trees, budget)
        self.where = {}

    def runs(self):
        kids = {}
        for t, i in self.used:
            p = self.trees[t][i][0]
            kids.setdefault((t, p), []).append((t, i))
        out, stack = [], [n for (t, p), v in kids.items() if p < 0 for n in v]
        while stack:
            run = [stack.pop()]
            while len(kids.get(run[-1], ())) == 1:
                run.append(kids[run[-1]][0])
            below = kids.get(run[-1], ())
            out.append((run, not below))
            stack += below
        return out

    def blocks(self):
        if getattr(self, "known", None) is None:
            self.known = sum(-(-sum(self.trees[t][i][1] for t, i in run) // B) for run, _ in self.runs())
        return self.known

    def evict(self):
        ends = [run for run, leaf in self.runs() if leaf and max(self.used[n] for n in run) < self.clock]
        if not ends:
            return False
        ends.sort(key=lambda run: max(self.used[n] for n in run))
        over = self.blocks() - self.budget
        for run in ends:  # parents whose last child goes are merged before the next pass
            over -= -(-sum(self.trees[t][i][1] for t, i in run) // B)
            for n in run:
                del self.used[n]
            if over <= 0:
                break
        self.known = None
        return True


def look_up_us(texts) -> list:
    """Microseconds a node: a table of nodes, and one of runs (a node is the next of its parent's run, or begins a run), both with all
    nodes of all questions."""
    nodes, runs, first = {}, {}, {}
    for q in texts:
        at = []
        for parent, text in q:
            key = (at[parent] if parent >= 0 else -1, text)
            at.append(nodes.setdefault(key, len(nodes)))
    kids = {}
    for (parent, text), n in nodes.items():
        kids.setdefault(parent, []).append((text, n))
    stack = [(-1, None, 0)]
    while stack:  # runs: [texts]; first: (run or None, place, text) -> run
        node, run, i = stack.pop()
        below = kids.get(node, [])
        if run is not None and len(below) == 1:
            run.append(below[0][0])
            stack.append((below[0][1], run, i + 1))
            continue
        for text, n in below:
            new = [text]
            first[id(run), i, text] = new
            runs[id(new)] = new
            stack.append((n, new, 0))

    def by_nodes(q):
        at = []
        for parent, text in q:
            at.append(nodes[at[parent] if parent >= 0 else -1, text])

    def by_runs(q):
        at = []
        for parent, text in q:
            run, i = at[parent] if parent >= 0 else (None, 0)
            if run is not None and i + 1 < len(run) and run[i + 1] == text:
                at.append((run, i + 1))
            else:
                at.append((first[id(run), i, text], 0))

    out = []
    for way in (by_nodes, by_runs):
        best = None
        for _ in range(5):
            begun = time.perf_counter()
            for q in texts:
                way(q)
            took = (time.perf_counter() - begun) / sum(map(len, texts)) * 1e6
            best = min(best or took, took)
        out.append(best)
    return out + [len(nodes), len(runs)]


def questions(args) -> None:
    trees, requests, texts = requests_of(args)
    all_blocks = sum(-(-n // B) for t in trees for _, n in t)
    by_nodes, by_runs, n_nodes, n_runs = look_up_us(texts)
    print(f"{len(requests)} questions, {sum(map(len, texts)) / len(texts):.0f} nodes each; {n_nodes} nodes in {n_runs} runs; look-up "
          f"{by_nodes:.2f} us a node by nodes, {by_runs:.2f} by runs\n")
    print("| requests | budget | blocks | reused | computed | moved | peak | full |\n|---|---|---|---|---|---|---|---|")
    for kind in ("zipf", "once"):
        for budget in args.budget:
            for name, make in (("single", lambda b: Packed(trees, b, True)), ("packed", lambda b: Packed(trees, b)),
                               ("merged", lambda b: Merged(trees, b))):
                rng, cache, hit, asked = random.Random(2), make(int(budget * all_blocks)), 0, 0
                for i in range(len(requests)):
                    h, a = cache.request(requests[draw(kind, rng, len(requests), []) if kind == "zipf" else i])
                    hit, asked = hit + h, asked + a
                print(f"| {kind} | {budget:.0%} | {name} | {hit / asked:.1%} | {asked - hit} | {cache.moved} | {cache.peak} | "
                      f"{cache.full():.0%} |", flush=True)


def draw(kind, rng, n, recent) -> int:
    if kind == "temporal" and recent and rng.random() < 0.8:
        return rng.choice(recent)
    return rng.choices(range(n), [1 / (i + 1) for i in range(n)] if kind == "zipf" else None)[0]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--program", default=ROOT / "build/spolia")
    p.add_argument("--graph", required=True)
    p.add_argument("--triples")
    p.add_argument("--questions", help="JSON lines with a question; --requests of them")
    p.add_argument("--hops", type=shared.count, default=2)
    p.add_argument("--pool", type=shared.count, default=150, help="entities")
    p.add_argument("--requests", type=shared.count, default=300)
    p.add_argument("--entities", type=shared.count, default=8, help="of a request")
    p.add_argument("--share", type=float, default=0.5, help="of the leaves of a tree that a request has")
    p.add_argument("--budget", type=float, nargs="*", default=[0.1, 0.3, 1.0], help="blocks, as a share of what single takes for all")
    args = p.parse_args()
    if bool(args.questions) == bool(args.triples):
        p.error("one of --triples and --questions")
    if args.questions:
        return questions(args)
    trees = trees_of(args, random.Random(1))
    all_blocks = sum(-(-n // B) for t in trees for _, n in t)
    print("| requests | budget | " + " | ".join(f"{n}: reused | full" for n in ("single", "packed", "merged")) + " |\n|---|---|" + "---|" * 6)
    for kind in ("zipf", "temporal", "uniform"):
        for budget in args.budget:
            cells = []
            for make in (lambda b: Packed(trees, b, True), lambda b: Packed(trees, b), lambda b: Merged(trees, b)):
                rng, cache, hit, asked, recent = random.Random(2), make(int(budget * all_blocks)), 0, 0, []
                for _ in range(args.requests):
                    chosen = {draw(kind, rng, len(trees), recent) for _ in range(args.entities)}
                    recent = (recent + sorted(chosen))[-64:]
                    h, a = cache.request([(t, part_of(trees[t], rng, args.share)) for t in sorted(chosen)])
                    hit, asked = hit + h, asked + a
                cells.append(f"{hit / asked:.1%} | {cache.full():.0%}")
            print(f"| {kind} | {budget:.0%} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    shared.run(main)
