"""Questions over relation paths: from the generator's graphs (tree1, tree2) and from MetaQA (hop1, hop2, hop3).

A task is the paths of one or more entities and questions about them.  `pack` lays it out as trees or as lines (trees.py); the
paths, the questions and the answers are the same in every layout.
"""
import functools
import json
import re
from dataclasses import dataclass, field

import numpy as np

from . import hints, scenes, trees, varied
from .packed import KIND_ID, Packed
from .tokenizer import render_answer, render_question, render_system


@dataclass
class Mix:
    """What a stage of the training asks over graphs."""
    share: float                     # of all sequences
    metaqa: float = 0.55             # of these
    layouts: dict = field(default_factory=lambda: dict(exact=5, shifted=3, linear=2))
    style: scenes.Style = field(default_factory=lambda: scenes.Style(wide=0.5, few=0.4))
    records: str = ""                # file of train.metaqa
    tokens: int = 700                # of a context of several records, about
    most_paths: int = 30             # of a record
    lines: tuple = (0.5, 8)          # of the layout linear: share of the tokens, most paths of a record
    favour: str = ""                 # kind whose questions are asked first
    hops: tuple = (1, 2, 3)          # of MetaQA's questions
    varied: float = 0.0              # share of tasks whose names, relations and wording are varied (varied.py)
    other: float = 0.0               # of these, from the graphs of `others`
    others: str = ""                 # file of train.varied


@dataclass
class Ask:
    """gold, hop: keys (trees.Node.key) of the node that answers and of the one between, or None."""
    kind: str
    question: str
    answer: str
    subject: str
    gold: tuple = None
    hop: tuple = None
    rel: tuple = ()
    inner: str = ""
    docs: tuple = ()                 # as scenes.QA, for hints.question_relations


@dataclass
class Task:
    paths: list
    asks: list


# ---- the generator's graphs

def edges_of(scene, under):
    """{subject: [(relation, object)]} of the path documents of a scene; under: '_' for blanks in relations."""
    out = {}
    for d in scene.docs:
        if d.style == "path":
            for _, s, o, keys in d.links:
                out.setdefault(s, []).append((keys[0].replace(" ", "_") if under else keys[0], o))
    return out


def simple_paths(out, root, inverse, hops=2):
    """All simple paths from root that no other one continues."""
    into = {}
    if inverse:
        for s, es in out.items():
            for r, o in es:
                into.setdefault(o, []).append((r, s))
    done, now = [], [trees.Path((root,), (), ())]
    for _ in range(hops):
        longer = []
        for p in now:
            nexts = [(r, o, False) for r, o in out.get(p.nodes[-1], [])] + [(r, s, True) for r, s in into.get(p.nodes[-1], [])]
            nexts = [x for x in nexts if x[1] not in p.nodes]
            longer += [trees.Path(p.nodes + (o,), p.relations + (r,), p.inverse + (i,)) for r, o, i in nexts]
            if not nexts and p.relations:
                done.append(p)
        now = longer
    return done + now


def invented(rng, split, style, n_chunks=None, n_roots=None, none=0.08):
    """A task from a scene of the generator: the trees of some of its entities, questions about these."""
    scene = scenes.make_scene(rng, split, dict(path=1), n_chunks or rng.randint(3, 10), style)
    out = edges_of(scene, rng.random() < 0.3)
    under = any("_" in r for es in out.values() for r, _ in es)
    roots = rng.sample(list(out), min(len(out), n_roots or rng.randint(1, 6)))
    both = rng.random() < 0.7
    per = [simple_paths(out, s, both) for s in roots]
    for p in per:
        rng.shuffle(p)
    paths = [p for one in per for p in one[:30]]
    known = {e for p in paths for e in zip(p.nodes, p.relations, p.nodes[1:])} | {e for p in paths for e in zip(p.nodes[1:], p.relations, p.nodes)}
    name = lambda noun: noun.replace(" ", "_") if under else noun
    asks = []
    for q in scene.qas:
        if q.subject in roots and q.kind == "path1":
            asks.append(Ask("tree1", q.question, q.answer, q.subject, ((q.subject, q.answer), (name(q.rel[0]),), (False,)), rel=q.rel))
        elif q.subject in roots and q.kind == "path2":
            hop = ((q.subject, q.hop), (name(q.inner),), (False,))
            gold = (hop[0] + (q.answer,), hop[1] + (name(q.rel[0]),), (False, False))
            asks.append(Ask("tree2", q.question, q.answer, q.subject, gold, hop, q.rel, q.inner))
        elif q.kind == "path1" and (q.subject, name(q.rel[0]), q.answer) not in known and rng.random() < none:
            asks.append(Ask("none", q.question, scenes.NOT_STATED, q.subject, rel=q.rel))
    return Task(paths, asks)


# ---- MetaQA

# Words of a question that ask for a relation, for the hints: the beginning of the word.
ASKED = {"directed_by": "direct|filmmaker", "written_by": "writ|wrote|screenwriter|author|script", "starred_actors": "star|act|appear",
         "release_year": "releas|year|date|when", "has_genre": "genre|type|kind|sort", "in_language": "language|speak|spoken",
         "has_tags": "about|descri|topic|words|tag", "has_imdb_rating": "rating|rated|popular|good|think", "has_imdb_votes": "vot|famous|popular"}


@functools.lru_cache(8)
def records_of(file, hops=(1, 2, 3)):
    return [r for r in map(json.loads, open(file, encoding="utf-8")) if r["questions"][0]["hops"] in hops]


@functools.lru_cache(8)
def graphs_of(file):
    """Records of train.varied, a list for each graph."""
    out = {}
    for r in map(json.loads, open(file, encoding="utf-8")):
        out.setdefault(r["graph"], []).append(r)
    return list(out.values())


def asked_words(question, entity, relation):
    """The words of a question that ask for a relation, each once, the last first."""
    begins = ASKED.get(relation)
    text = question.replace(entity, " " * len(entity))
    return tuple(dict.fromkeys(re.findall(rf"\b(?:{begins})\w*", text)[::-1])) if begins else ()


def path_from(p):
    return trees.Path(tuple(p["nodes"]), tuple(p["relations"]), tuple(p["inverse"]))


def golds_of(paths, question):
    """Keys of the nodes that answer a question; with a pattern, only where the relations are those of the pattern."""
    answers, pat = set(question["answers"]), [tuple(x) for x in question["pattern"]]
    out = {}
    for p in paths:
        for h in range(1, len(p.nodes)):
            if p.nodes[h] in answers and (not pat or list(zip(p.relations[:h], p.inverse[:h])) == pat):
                out[p.nodes[:h + 1], p.relations[:h], p.inverse[:h]] = True
    return list(out)


def from_records(rng, records, tokens, most_paths=30):
    """A task of one or more records, each with some of its paths, an answer of every question among them."""
    task, used = Task([], []), 0
    while True:
        r = rng.choice(records)
        paths = [path_from(p) for p in r["paths"]]
        keep = rng.randint(3, most_paths)
        must = set()
        for q in r["questions"]:
            golds = golds_of(paths, q)
            if golds:
                g = rng.choice(golds)
                must.add(next(i for i, p in enumerate(paths) if p.nodes[:len(g[0])] == g[0] and p.relations[:len(g[1])] == g[1]))
        rest = [i for i in range(len(paths)) if i not in must]
        chosen = must | set(rng.sample(rest, max(0, min(len(rest), keep - len(must)))))
        size = sum(3 * len(x.split()) + 6 for i in chosen for x in paths[i].nodes[1:])          # rough
        if task.paths and (used + size > tokens or r["entity"] in {p.nodes[0] for p in task.paths}):
            return task
        used += size
        paths = [p for i, p in enumerate(paths) if i in chosen]
        task.paths += paths
        for q in r["questions"]:
            golds = golds_of(paths, q)
            if golds:
                g = rng.choice(golds)
                rel = asked_words(q["question"], r["entity"], g[1][-1])
                task.asks.append(Ask(f"hop{q['hops']}", q["question"], g[0][-1], r["entity"], g, rel=rel))


# ---- to tensors

def draw(rng, mix, layout):
    share, most = mix.lines if layout == "linear" else (1.0, mix.most_paths)
    size = int(mix.tokens * share), min(mix.most_paths, most)
    is_varied = bool(mix.varied) and rng.random() < mix.varied
    if is_varied and mix.others and rng.random() < mix.other:
        task = from_records(rng, rng.choice(graphs_of(mix.others)), *size)
    elif mix.records and rng.random() < mix.metaqa:
        task = from_records(rng, records_of(mix.records, mix.hops), *size)
    else:
        task = invented(rng, "train", mix.style)
    return varied.vary(rng, task) if is_varied else task


def make_pack(rng, enc, mix, gaps):
    layout = rng.choices(list(mix.layouts), mix.layouts.values())[0]
    task = draw(rng, mix, layout)
    if mix.favour:
        task.asks = sorted(rng.sample(task.asks, len(task.asks)), key=lambda a: a.kind != mix.favour)[:14]
    task.asks = rng.sample(task.asks, min(len(task.asks), 14))
    return pack(rng, enc, task, rng.choice(trees.STYLES), layout, gaps)


def token_at(coded, char):
    for i, (a, b) in enumerate(coded.offsets):
        if a <= char < b:
            return i
    return -1


def context_hints(nodes, coded, starts, n):
    """As hints.context_hints: objects look at the entity and at the relation before them on their path."""
    alias, bind, rel = np.full((3, n), -1)
    for i, node in enumerate(nodes):
        if not node.key or len(node.key[0]) < 2 or len(node.key[1]) != len(node.key[0]) - 1:
            continue
        up = nodes[node.parent]
        at = slice(starts[i], starts[i] + len(coded[i].ids))
        of = token_at(coded[node.parent], up.segment.mark)
        rel[at] = starts[node.parent] + of if of >= 0 else -1
        who, mark = (node.parent, up.segment.subject) if up.segment.subject >= 0 else (up.parent, nodes[up.parent].segment.mark)
        of = token_at(coded[who], mark)
        bind[at] = starts[who] + of if of >= 0 else -1
    return alias, bind, rel


def question_hints(ask, question, answer, nodes, coded, starts):
    """As hints.question_hints; question, answer: (text, encoding)."""
    nq, n = len(question[1].ids), len(question[1].ids) + len(answer[1].ids)
    out = np.full((5, n), -1)
    bind, rel, inner, hop, point = out
    q = hints.Spans([0], [question[0]], [question[1].offsets])
    at = q.find(0, ask.subject) if len(question[0].lower()) == len(question[0]) else -1
    if at >= 0:
        bind[nq - 1] = q.last(0, at, ask.subject)
    if ask.rel:
        rel[nq - 1], inner[nq - 1] = hints.question_relations(q, ask)
    if ask.kind == "none":
        point[nq - 1] = 0
    where = {node.key: i for i, node in reversed(list(enumerate(nodes)))}
    if ask.hop in where:
        i = where[ask.hop]
        hop[nq - 1] = starts[i] + token_at(coded[i], nodes[i].segment.mark)
    if ask.gold in where:
        i = where[ask.gold]
        for j, (a, _) in enumerate(answer[1].offsets):
            c = a + (answer[0][a] == " ")
            if c < len(ask.answer):
                of = token_at(coded[i], c + 1)
                point[nq - 1 + j] = starts[i] + of if of >= 0 else -1
    return out


def place(rng, nodes, lengths, begin, layout, gaps):
    """Positions of all node tokens, and the position of the question."""
    if layout == "exact":
        first = trees.positions(nodes, lengths, begin)
    else:
        jump = rng.choice([4, 16, 64, 200]) if rng.random() < gaps else 0
        first, at, total = [], begin, sum(lengths)
        for node, n in zip(nodes, lengths):
            if node.parent < 0 and jump and node.key:
                at += rng.randrange(jump)
            if node.parent < 0 and layout == "stray":      # as if the tree's KV came from another place and were not moved
                at = begin + rng.randrange(total)
            first.append(at)
            at += n
    pos = [p for f, n in zip(first, lengths) for p in range(f, f + n)]
    return pos, begin + sum(lengths) if layout == "stray" else max(pos, default=begin - 1) + 1


def pack(rng, enc, task, style, layout, gaps=0.0):
    nodes = trees.lines(task.paths, style) if layout == "linear" else trees.build(task.paths, style)
    texts = [render_system()] + [x.segment.text for x in nodes]
    for a in task.asks:
        texts += [render_question(a.question), render_answer(a.answer)]
    coded = enc.tok.encode_batch(texts, add_special_tokens=False)
    system, coded, asked = coded[0].ids, coded[1:len(nodes) + 1], coded[len(nodes) + 1:]
    lengths = [len(c.ids) for c in coded]
    starts = (len(system) + np.cumsum([0] + lengths)).tolist()
    ids = list(system) + [t for c in coded for t in c.ids]
    n = len(ids)
    pos, at = place(rng, nodes, lengths, len(system), layout, gaps)
    pos = list(range(len(system))) + pos
    end = None
    if layout != "linear":
        end = np.array([n] * len(system) + [e for e, k in zip(trees.ends(nodes, lengths, len(system)), lengths) for _ in range(k)])
    seg, kind, first = [0] * n, [-1] * n, [False] * n
    told = [np.full((8, n), -1)]
    told[0][:3] = context_hints(nodes, coded, starts, n)
    for j, a in enumerate(task.asks):
        q, b = asked[2 * j], asked[2 * j + 1]
        both = q.ids + b.ids
        ids += both
        pos += range(at, at + len(both))
        seg += [j + 1] * len(both)
        kind += [-1] * len(q.ids) + [KIND_ID[a.kind]] * len(b.ids)
        first += [False] * len(q.ids) + [True] + [False] * (len(b.ids) - 1)
        told.append(np.full((8, len(both)), -1))
        told[-1][3:] = question_hints(a, (render_question(a.question), q), (render_answer(a.answer), b), nodes, coded, starts)
    chunk = np.where(np.array(seg) == 0, 0, -1)
    chunk[:len(system)] = -1
    return Packed(np.array(ids), np.array(pos), np.array(seg), chunk, np.array(kind), np.array(first), np.concatenate(told, 1), end)
