"""Questions over MetaQA's graph of films, for training and for tests.

    python -m train.metaqa --data DIR --split train --n 3000 --out DIR2/metaqa-train.jsonl
    python -m train.metaqa --data DIR --split test --n 200 --out DIR2/metaqa-test.jsonl

DIR has triples.tsv (subject, relation, object) and questions.dev.jsonl ({"id", "question", "answers", "topic_entity", "hops"}).
A hash of a question's id puts it into the test half or the training half.  The test half is used as it is.  Of the training half
only the wording is used: the entity is cut out, the sequence of relations that gives its answers is found, and other entities are
put in; topic entities of the test half are never among them.

The paths are those that the engine's retrieval would return: `walk` and `rank` follow src/retrieve/graph/walk.c and rank.c.
A line of the output: {"entity", "paths": [{"nodes", "relations", "inverse"}], "questions": [{"id", "hops", "question", "answers",
"pattern": [[relation, inverse]]}]}.
"""
import argparse
import collections
import functools
import json
import math
import random
import re
import zlib

from .trees import Path, readable

COMMON = set("a about all also am an and any are as at be been but by can could did do does for from had has have he her him his how i if in into "
             "is it its list me my name no not of on or our s she so some t tell than that the their them there these they this those to was we "
             "were what when where which who whom whose why will with would you your".split())
MAX_DEGREE, MAX_NAMES = 128, 512
LIKE_LEAST, K1, B, PRIOR, DECAY = 0.35, 1.2, 0.5, 0.05, 0.9


def in_test(question_id):
    return zlib.crc32(("metaqa " + question_id).encode()) % 2 == 0


def words(text):
    return re.findall(r"[^\W_]+", text.lower())


def _trigrams(w):
    return ["^" + w[:2]] + [w[i:i + 3] for i in range(len(w) - 2)]


@functools.lru_cache(None)
def likeness(a, b):
    """Dice coefficient of the letter trigrams of two words."""
    if a == b:
        return 1.0
    if min(len(a), len(b)) < 3:
        return 0.0
    x, y = collections.Counter(_trigrams(a)), collections.Counter(_trigrams(b))
    return 2 * sum((x & y).values()) / (sum(x.values()) + sum(y.values()))


@functools.lru_cache(None)
def like_relation(term, relation):
    best = max((likeness(term, w) for w in words(readable(relation)) if w not in COMMON), default=0.0)
    return best if best >= LIKE_LEAST else 0.0


class Graph:
    def __init__(self, path):
        self.edges = collections.defaultdict(list)      # node: (relation, inverse, node)
        seen = set()
        for line in open(path, encoding="utf-8"):
            t = tuple(line.rstrip("\n").split("\t")[:3])
            if len(t) == 3 and t not in seen and all(t):
                seen.add(t)
                s, r, o = t
                self.edges[s].append((r, False, o))
                self.edges[o].append((r, True, s))
        self.n_triples = len(seen)
        self.hubs = {n for n, e in self.edges.items() if max(collections.Counter(i for _, i, _ in e).values()) > MAX_DEGREE}

    def follow(self, node, pattern):
        """The nodes at the end of a sequence of (relation, inverse), the first node left out."""
        now = {node}
        for rel, inv in pattern:
            now = {o for n in now for r, i, o in self.edges[n] if r == rel and i == inv}
        return now - {node}

    def walk(self, root, hops, max_steps=20000):
        """Simple paths, breadth first: [(parent, pattern, node)], [(parent, relation, inverse, depth)]."""
        steps, patterns, known = [(-1, 0, root)], [(-1, "", False, 0)], {}
        begin = 0
        for hop in range(hops):
            end = len(steps)
            for at in range(begin, end):
                _, pat, node = steps[at]
                if at and node in self.hubs:
                    continue
                line, s = set(), at
                while s >= 0:
                    line.add(steps[s][2])
                    s = steps[s][0]
                count = collections.Counter()
                for r, i, o in self.edges[node]:
                    count[r, i] += 1
                    if o in line or (at == 0 and count[r, i] > MAX_DEGREE):
                        continue
                    if len(steps) > max_steps:
                        return steps, patterns
                    p = known.get((pat, r, i))
                    if p is None:
                        p = known[pat, r, i] = len(patterns)
                        patterns.append((pat, r, i, patterns[pat][3] + 1))
                    steps.append((at, p, o))
            begin = end
        return steps, patterns


def score_patterns(patterns, terms):
    n = len(patterns)
    tf = [dict.fromkeys(terms, 0.0)]
    for parent, rel, _, _ in patterns[1:]:
        tf.append({t: tf[parent][t] + like_relation(t, rel) for t in terms})
    mean = sum(p[3] for p in patterns[1:]) / max(1, n - 1)
    idf = {}
    for t in terms:
        df = sum(x[t] > 0 for x in tf[1:])
        idf[t] = math.log(1 + (n - 0.5 - df) / (df + 0.5))
    out = [0.0]
    for (_, _, _, depth), x in zip(patterns[1:], tf[1:]):
        norm = K1 * (1 - B + B * depth / mean)
        out.append(PRIOR / depth + sum(idf[t] * v * (K1 + 1) / (v + norm) for t, v in x.items()))
    return out


def rank(walked, question, k=30):
    """The k paths most similar to the question, the most similar first."""
    steps, patterns = walked
    entity = set(words(steps[0][2]))
    terms = list(dict.fromkeys(w for w in words(question) if w not in COMMON and w not in entity))[:24]
    score = score_patterns(patterns, terms)
    by = collections.defaultdict(list)
    for i, (_, p, _) in enumerate(steps):
        by[p].append([i, 0.0])
    left = MAX_NAMES
    for p in sorted(range(1, len(patterns)), key=lambda p: -score[p]):
        for x in by[p][:max(0, left)]:
            x[1] = float(sum(w in terms for w in words(steps[x[0]][2])))
        left -= len(by[p])
        by[p].sort(key=lambda x: (-x[1], x[0]))
    covered, nxt, taken = set(), [0] * len(patterns), [0] * len(patterns)
    chosen = {}
    while len(chosen) < k:
        best, value = 0, 0.0
        for p in range(1, len(patterns)):
            while nxt[p] < len(by[p]) and by[p][nxt[p]][0] in covered:
                nxt[p] += 1
            if nxt[p] < len(by[p]):
                v = (score[p] + by[p][nxt[p]][1]) * DECAY ** taken[p]
                if not best or v > value:
                    best, value = p, v
        if not best:
            break
        step, gain = by[best][nxt[best]]
        nxt[best] += 1
        taken[best] += 1
        s, total = step, score[best] + gain
        while s > 0 and s not in covered:
            covered.add(s)
            s = steps[s][0]
        while s > 0 and s not in chosen:
            s = steps[s][0]
        if s > 0:
            total = max(total, chosen.pop(s))
        chosen[step] = total
    return [path_of(steps, patterns, s) for s in sorted(chosen, key=lambda s: (-chosen[s], s))]


def path_of(steps, patterns, s):
    nodes, rels, inv = [], [], []
    while s >= 0:
        parent, p, node = steps[s]
        nodes.append(node)
        if parent >= 0:
            rels.append(patterns[p][1])
            inv.append(patterns[p][2])
        s = parent
    return Path(tuple(nodes[::-1]), tuple(rels[::-1]), tuple(inv[::-1]))


def pattern_of(graph, entity, hops, answers):
    """The sequence of relations whose ends are the answers, and how alike the two sets are (Jaccard)."""
    answers, best = set(answers), (0.0, ())
    level = {(): {entity}}
    for _ in range(hops):
        new = collections.defaultdict(set)
        for pat, nodes in level.items():
            for n in nodes:
                for r, i, o in graph.edges[n]:
                    new[pat + ((r, i),)].add(o)
        level = new
        if sum(map(len, level.values())) > 200000:
            return best
    for pat, nodes in level.items():
        nodes = nodes - {entity}
        best = max(best, (len(nodes & answers) / len(nodes | answers) if nodes | answers else 0.0, pat))
    return best


def templates(graph, questions):
    """{pattern: [question with {s}]} of the training half."""
    out = collections.defaultdict(set)
    for q in questions:
        if in_test(q["id"]) or q["topic_entity"] not in q["question"]:
            continue
        alike, pat = pattern_of(graph, q["topic_entity"], q["hops"], q["answers"])
        if alike >= 0.6:
            out[pat].add(q["question"].replace(q["topic_entity"], "{s}"))
    return {p: sorted(t) for p, t in sorted(out.items())}


def record(entity, paths, questions):
    return dict(entity=entity, paths=[dict(nodes=p.nodes, relations=p.relations, inverse=p.inverse) for p in paths], questions=questions)


def make_train(graph, questions, n, seed, share=(5, 3, 2)):
    """Records about entities of the graph: one to four questions each, paths ranked for them together.  share: of 1, 2 and 3 hops."""
    rng = random.Random(f"metaqa {seed}")
    told = templates(graph, questions)
    kept_out = {q["topic_entity"] for q in questions if in_test(q["id"])}
    by_hops = {h: [p for p in told if len(p) == h] for h in (1, 2, 3)}
    nodes = {False: [], True: []}
    for e, out in sorted(graph.edges.items()):
        if e not in kept_out and e not in graph.hubs:
            nodes[False].extend([e] * any(not i for _, i, _ in out))
            nodes[True].extend([e] * any(i for _, i, _ in out))
    made = 0
    while made < n:
        hops = rng.choices((1, 2, 3), share)[0]
        first = rng.choice(by_hops[hops])
        e = rng.choice(nodes[first[0][1]])
        fit = [(p, a) for p in by_hops[hops] if (a := graph.follow(e, p))]
        if not fit or "{" in e:
            continue
        fit = rng.sample(fit, min(len(fit), rng.choice((1, 2, 4))))
        asked = [(p, rng.choice(told[p]).replace("{s}", e), a) for p, a in fit]
        walked = graph.walk(e, max(hops, rng.choice((1, 2))), 5000)
        lists = [rank(walked, q, max(8, 30 // len(asked))) for _, q, _ in asked]
        paths = list(dict.fromkeys(p for one in lists for p in one))
        made += 1
        yield record(e, paths, [dict(id="", hops=hops, question=q, answers=sorted(a), pattern=p) for p, q, a in asked])


def make_test(graph, questions, n, seed, walk_hops=2, k=30):
    """n questions a hop count of the test half, each with its own paths; all paths of as many hops as the question needs, or walk_hops."""
    rng = random.Random(f"metaqa test {seed}")
    for hops in (1, 2, 3):
        some = [q for q in questions if q["hops"] == hops and in_test(q["id"])]
        for q in rng.sample(some, min(n, len(some))):
            paths = rank(graph.walk(q["topic_entity"], max(hops, walk_hops)), q["question"], k)
            yield record(q["topic_entity"], paths, [dict(id=q["id"], hops=hops, question=q["question"], answers=q["answers"], pattern=[])])


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--data", required=True, help="folder with triples.tsv and questions.dev.jsonl")
    ap.add_argument("--split", choices=("train", "test"), required=True)
    ap.add_argument("--n", type=int, default=3000, help="records; for the test split, questions of each hop count")
    ap.add_argument("--hops", type=int, default=2, help="test: hops of the walk at least")
    ap.add_argument("--k", type=int, default=30, help="test: paths")
    ap.add_argument("--share", type=int, nargs=3, default=(5, 3, 2), help="train: weights of 1, 2 and 3 hops")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--out", required=True)
    a = ap.parse_args()
    graph = Graph(f"{a.data}/triples.tsv")
    questions = [json.loads(x) for x in open(f"{a.data}/questions.dev.jsonl", encoding="utf-8")]
    records = make_train(graph, questions, a.n, a.seed, a.share) if a.split == "train" else make_test(graph, questions, a.n, a.seed, a.hops, a.k)
    with_gold, count = collections.Counter(), collections.Counter()
    with open(a.out, "w", encoding="utf-8") as f:
        for r in records:
            f.write(json.dumps(r, ensure_ascii=False) + "\n")
            f.flush()
            for q in r["questions"]:
                count[q["hops"]] += 1
                with_gold[q["hops"]] += any(set(q["answers"]) & set(p["nodes"][1:]) for p in r["paths"])
    print(f"{sum(count.values())} questions -> {a.out}; an answer is on a path for", {h: f"{100 * with_gold[h] / n:.0f} %" for h, n in sorted(count.items())})


if __name__ == "__main__":
    main()
