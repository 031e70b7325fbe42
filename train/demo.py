"""The demo corpus: some sixty small documents about one invented country, and forty questions about them.

    python -m train.demo --out demo                    writes demo/docs/ and demo/questions.jsonl
    python -m train.demo --out demo --graph            writes demo/graph/: the same facts as triples, and twenty questions about them
    python -m train.demo --out demo --ask              answers the questions (top 8 documents by BM25) and prints exact match

Names are those of the dev split: no training text has them.  The documents agree with one another: a founder named in a
company's report has a letter of his own, a town in a letter is described in the register of towns.
"""
import argparse
import collections
import json
import os
import random
import re

from . import facts, scenes
from .bm25 import BM25
from .export import add_model_options, open_model
from .facts import BY_NAME, BY_TYPE, ask, capital, new_object, say

SPLIT, FORMS = "dev", "train"


class World:
    """Things and their facts: told[s] = {relation: object}.  Objects that are things are drawn from the world itself."""

    def __init__(self, rng, sizes):
        self.rng = rng
        self.b = scenes.Builder(rng, SPLIT, scenes.Style(filler=0.12, title=1.0))
        self.things = {t: [self.b.name() for _ in range(n)] for t, n in sizes.items()}
        self.told = {}
        for t, ss in self.things.items():
            for s in ss:
                rels = rng.sample(BY_TYPE[t], rng.choice([2, 2, 3]))
                self.told[s] = {r.name: self.object(r, s) for r in rels}

    def object(self, rel, s):
        if isinstance(rel.object, str) and rel.object in self.things:
            return self.rng.choice([x for x in self.things[rel.object] if x != s])
        return new_object(self.rng, self.b.name, rel)

    def pairs(self, s):
        return [(BY_NAME[r], o) for r, o in self.told[s].items()]


class Corpus:
    def __init__(self, seed):
        self.rng = r = random.Random(seed)
        self.w = World(r, {"company": 12, "person": 14, "town": 10, "device": 8})
        self.files, self.qas = {}, []
        for t, folder in (("company", "firms"), ("person", "people"), ("town", "towns"), ("device", "products")):
            for s in self.w.things[t]:
                self.entity(folder, t, s)
        self.contracts(4)
        self.stocks(5)
        self.paths(7)
        self.bridges()

    def add(self, path, title, body, facts_of):
        md = path.endswith(".md")
        self.files[path] = (f"# {title}\n\n" if md else "") + body + "\n"
        return path

    def qa(self, kind, question, answer, docs):
        self.qas.append(dict(kind=kind, question=question, answers=[answer], docs=list(docs)))

    def entity(self, folder, t, s):
        r, pairs = self.rng, self.w.pairs(s)
        sheet = t == "device" or (t == "town" and r.random() < 0.4)
        body = self.w.b.sheet(pairs, s) if sheet else self.w.b.prose(pairs, s)
        if t == "person":
            body = f"Dear reader,\n{body}\nWith kind regards"
        path = self.add(f"{folder}/{s.lower()}.{'txt' if t == 'person' else 'md'}", s, body, s)
        self.w.told[s]["file"] = path
        rel, o = r.choice(pairs)
        self.qa("single", ask(r, SPLIT, rel, s), o, [path])
        if r.random() < 0.5:
            other = r.choice([x for x in BY_TYPE[t] if x.name not in self.w.told[s]])
            self.qa("none", ask(r, SPLIT, other, s), scenes.NOT_STATED, [])

    def contracts(self, n):
        r = self.rng
        aliases = r.sample([("company", a) for a in self.w.b.ALIASES["company"]], n)
        for k, (t, alias) in enumerate(aliases):
            e = self.w.b.name()
            rels = r.sample(BY_TYPE[t], 2)
            pairs = [(rel, self.w.object(rel, e)) for rel in rels]
            head = capital(r.choice(self.w.b.NAMED[FORMS]).format(e=e, a=alias))
            body = head + "\n\n" + " ".join(say(r, SPLIT, rel, alias, o, subject_first=True) for rel, o in pairs)
            path = self.add(f"contracts/contract-{k + 1}.md", "Contract", body, e)
            for rel, o in pairs:
                self.qa("alias", ask(r, SPLIT, rel, e), o, [path])

    def stocks(self, n):
        r, b = self.rng, self.w.b
        units = r.sample(b.UNITS, n)
        for k, u in enumerate(units):
            e = b.name()
            lines = [(g, str(r.randrange(10, 100))) for g in r.sample(b.GOODS, 4)]
            body = r.choice(b.HEADERS[FORMS]).format(w="Stock", l="stock", e=e, u=u) + "\n\n" + "\n".join(f"- {g}: {x}" for g, x in lines)
            path = self.add(f"lists/stock-{k + 1}.md", "Stock", body, e)
            for g, x in r.sample(lines, 2):
                self.qa("header", r.choice(b.HEADER_ASK[FORMS]).format(g=g, l="stock", e=e), f"{x} {u}", [path])

    def paths(self, n):
        """A chain of people and firms of its own, an edge or two a file."""
        r, b = self.rng, self.w.b
        typed = {t: [x for x in BY_TYPE[t] if x.object in ("company", "person")] for t in ("company", "person")}
        s, t, before = b.name(), "company", None
        for k in range(n):
            rels = r.sample(typed[t], 2)
            edges = [(rel, b.name()) for rel in rels]
            path = self.add(f"graph/node-{k + 1}.txt", s, "\n".join(f"{s} -{rel.noun}-> {o}" for rel, o in edges), s)
            rel, o = r.choice(edges)
            self.qa("path1", ask(r, SPLIT, rel, s), o, [path])
            if before:
                self.qa("path2", ask(r, SPLIT, rel, f"the {before[1].noun} of {before[0]}"), o, [before[2], path])
            rel, o = r.choice(edges)
            before, s, t = (s, rel, path), o, rel.object

    def bridges(self):
        for s, told in self.w.told.items():
            for name, b in list(told.items()):
                if name != "file" and b in self.w.told and isinstance(BY_NAME[name].object, str) and BY_NAME[name].object in facts.TYPES:
                    rel = BY_NAME[self.rng.choice([x for x in self.w.told[b] if x != "file"])]
                    q = ask(self.rng, SPLIT, rel, f"the {BY_NAME[name].noun} of {s}")
                    self.qa("bridge", q, self.w.told[b][rel.name], [told["file"], self.w.told[b]["file"]])


WANT = dict(single=16, bridge=5, alias=6, header=5, path1=3, path2=2, none=3)


def write(out, seed):
    c = Corpus(seed)
    paths = sorted(c.files)
    bm = BM25([c.files[p] for p in paths])
    for p in paths:
        os.makedirs(os.path.dirname(f"{out}/docs/{p}"), exist_ok=True)
        open(f"{out}/docs/{p}", "w").write(c.files[p])
    r, lines = random.Random(seed), []
    for kind, n in WANT.items():
        fit = [q for q in c.qas if q["kind"] == kind and all(paths.index(d) in bm.top(q["question"], 8) for d in q["docs"])]
        if len(fit) < n:
            raise SystemExit(f"only {len(fit)} questions of kind {kind}: choose another seed")
        lines += r.sample(fit, n)
    with open(f"{out}/questions.jsonl", "w") as f:
        for i, q in enumerate(lines):
            f.write(json.dumps(dict(id=f"q{i + 1:02d}", question=q["question"], answers=q["answers"], docs=q["docs"], kind=q["kind"])) + "\n")
    print(f"{len(paths)} documents, {len(lines)} questions -> {out}")


GRAPH_WANT = dict(path1=12, path2=8)


def write_graph(out, seed):
    """The facts of the corpus as triples; each of its files is the source of its own."""
    c = Corpus(seed)
    r, told, triples, qas = random.Random(seed + 1), c.w.told, [], collections.defaultdict(list)
    for s, facts_of in told.items():
        for rel, o in [(BY_NAME[name], o) for name, o in facts_of.items() if name != "file"]:
            triples.append((s, rel.noun, o, facts_of["file"]))
            qas["path1"].append((ask(r, SPLIT, rel, s), o))
            for second, answer in told.get(o, {}).items():
                if second != "file":
                    qas["path2"].append((ask(r, SPLIT, BY_NAME[second], f"the {rel.noun} of {s}"), answer))
    os.makedirs(f"{out}/graph", exist_ok=True)
    with open(f"{out}/graph/triples.tsv", "w") as f:
        f.writelines("\t".join(t) + "\n" for t in triples)
    with open(f"{out}/graph/questions.jsonl", "w") as f:
        lines = [(kind, *qa) for kind, n in GRAPH_WANT.items() for qa in r.sample(qas[kind], n)]
        for i, (kind, question, answer) in enumerate(lines):
            f.write(json.dumps(dict(id=f"g{i + 1:02d}", question=question, answers=[answer], kind=kind)) + "\n")
    print(f"{len(triples)} triples, {len(lines)} questions -> {out}/graph")


def title_of(path, text):
    """As the engine's index has it: the first heading, or else the file's name."""
    m = re.match(r"# (.*)\n", text)
    return m.group(1) if m else os.path.basename(path)


def answer_all(out, model, enc, k, show=True):
    import torch
    from .evaluate import scores
    from .reuse import Runner, answers, prompt_of
    from .tokenizer import render_chunk, render_question, render_system
    run = Runner(model)
    torch.set_num_threads(1)
    paths = sorted(os.path.relpath(os.path.join(d, f), f"{out}/docs") for d, _, fs in os.walk(f"{out}/docs") for f in fs)
    texts = [open(f"{out}/docs/{p}").read() for p in paths]
    bm, tally = BM25(texts), collections.defaultdict(lambda: [0, 0])
    with torch.inference_mode():
        for q in map(json.loads, open(f"{out}/questions.jsonl")):
            docs = sorted(bm.top(q["question"], k))        # in the order of the index, as `spolia ask` does
            p = prompt_of(enc(render_system()), enc.many([render_chunk(title_of(paths[i], texts[i]), texts[i].strip()) for i in docs]), enc(render_question(q["question"])))
            got = enc.decode(answers(run, p, enc.stop, ())["full", 100][0])
            ok = scores(got, q["answers"])[0]
            tally[q["kind"]][0] += ok
            tally[q["kind"]][1] += 1
            if show:
                print(f"{q['id']} {q['kind']:7} {'ok ' if ok else '-- '} {q['question']}  {got!r} ({q['answers'][0]})")
    print("exact match", sum(a for a, _ in tally.values()), "of", sum(n for _, n in tally.values()), {k: f"{a:.0f}/{n}" for k, (a, n) in tally.items()})


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--out", default="demo")
    ap.add_argument("--seed", type=int, default=12)
    ap.add_argument("--ask", action="store_true", help="answer the questions instead")
    ap.add_argument("--graph", action="store_true", help="write the graph and its questions instead")
    add_model_options(ap)
    ap.add_argument("--k", type=int, default=8, help="documents in a prompt")
    a = ap.parse_args()
    if a.ask:
        answer_all(a.out, *open_model(a), a.k)
    elif a.graph:
        write_graph(a.out, a.seed)
    else:
        write(a.out, a.seed)


if __name__ == "__main__":
    main()
