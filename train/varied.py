"""Graph questions of many kinds: other graphs, other spellings of names, other relations, other wording.

    python -m train.varied --graph NAME=TRIPLES.tsv ... --without HELD_OUT.tsv ... --n 3000 --out DIR/varied.jsonl
    python -m train.varied --graph NAME=TRIPLES.tsv --asked NAME=WC-P2.txt ...

writes the same kind of records as train.metaqa: questions of one and two hops, each with the name of its graph. For a graph
without questions, `vary` writes them. --asked reads questions in the format of IRN's data (question, answer,
entity#relation#entity...); --without drops every triple with an entity that is a subject in a held-out graph, ignoring case
and blanks.

For each task, `vary` draws how names are spelled in the graph and in the question, and what each relation is called: its own
name, another spelling of it, a common noun, or an invented word. Then it writes the question in those words.
"""
import argparse
import collections
import dataclasses
import json
import random
import re

from . import nouns
from .metaqa import Graph, rank, record
from .names import Namer
from .trees import Path, readable

# ---- names

AS_THEY_ARE = str
SPELLINGS = [(AS_THEY_ARE, 6), (str.lower, 2), (lambda s: s.lower().replace(" ", "_"), 5), (lambda s: s.replace(" ", "_"), 3),
             (lambda s: " ".join(w[:1].upper() + w[1:] for w in s.replace("_", " ").split(" ")), 2), (str.upper, 1)]
SAME = 0.85        # share of tasks whose questions spell names as the graph does


def spelling(rng):
    return rng.choices([f for f, _ in SPELLINGS], [w for _, w in SPELLINGS])[0]


# ---- relations

# What a relation may be called in a question beside its own words.
CALLED = {
    "directed by": "director|filmmaker", "written by": "writer|author|screenwriter", "starred actors": "actor|star|lead",
    "release year": "year of release|release date|year", "has genre": "genre|kind|type", "in language": "language", "has tags": "topic|tag|theme",
    "has imdb rating": "rating|score", "has imdb votes": "popularity|votes",
    "occupation": "job|work|profession", "profession": "job|work|occupation", "place of birth": "birthplace|native town|place where he was born",
    "place of death": "death place|place where she died", "country of citizenship": "citizenship|nationality|country",
    "nationality": "country|citizenship|home country", "spouse": "wife|husband|partner", "sibling": "brother|sister", "child": "son|daughter",
    "religion": "faith|belief", "ethnic group": "ethnicity|people", "residence": "home|place of living", "educated at": "school|university",
    "employer": "company|workplace", "gender": "gender", "instrument": "musical instrument", "record label": "label", "founded by": "founder",
    "parent organization": "parent|owner", "head of state": "ruler|head", "influenced by": "influence|model", "member of": "group|band|organisation",
    "plays in club": "club|team|football club", "plays for country": "country|national team", "plays position": "position",
    "wears number": "number|shirt number", "is aged": "age", "is in country": "country|land", "genre": "kind|style", "country": "land|state",
}


def spelled(rng, relation):
    """A relation in another notation."""
    words = readable(relation).replace(",", "").split()
    some = rng.choice(("people", "film", "location", "thing", "base", "topic"))
    return rng.choice(("_".join(words), " ".join(words), words[0] + "".join(w.capitalize() for w in words[1:]), f"/{some}/{some}/{'_'.join(words)}",
                       f"__{some}__{'_'.join(words)}", "-".join(words))) or relation


def relation_names(rng, relations):
    """{relation: (name in the graph, what a question calls it)}, and whether the wording of a question no longer fits."""
    how = rng.choices(("own", "spelled", "noun", "word"), (4, 3, 2, 2))[0]
    out, used = {}, set()
    name, heads = Namer(rng, "train"), [h for pool in (nouns.KIN, nouns.OFFICES, nouns.PLACES, nouns.FIRMS, nouns.NAMED, nouns.PARTS, nouns.GOODS) for h in pool]
    for r in sorted(relations):
        own = readable(r)
        calls = CALLED.get(own, "").split("|") if own in CALLED and rng.random() < 0.6 else [own]
        if how == "own":
            out[r] = (r, rng.choice(calls))
        elif how == "spelled":
            out[r] = (spelled(rng, r), rng.choice(calls))
        else:
            while True:
                new = name().lower() if how == "word" else rng.choice(heads)
                if rng.random() < 0.4:
                    new = rng.choice(nouns.MODIFIERS) + " " + new
                if new not in used:
                    break
            used.add(new)
            out[r] = (spelled(rng, new), new)
    return out, how in ("noun", "word")


# ---- questions

OF = ["the {p} of {x}", "the {p} of {x}", "{p} of {x}", "{x} 's {p}", "{x}'s {p}", "the {x} 's {p}"]
WHOSE = ["the one whose {p} is {x}", "what has {x} as {p}", "the thing with {p} {x}", "those with the {p} {x}"]
LAST = ["what is {e}", "what is {e}", "who is {e}", "{e}", "name {e}", "tell me {e}", "which is {e}", "give {e}", "do you know {e}", "find {e}"]
LAST_OF = ["which {p} does {x} have", "what {p} has {x}", "{x} has which {p}", "what {p} is {x}", "for {x} , what is the {p}", "{x} {p} what", "which {p} is that of {x}",
           "what is the name of the {p} of {x}"]
LAST_WHOSE = ["whose {p} is {x}", "what has {x} as its {p}", "which ones have the {p} {x}", "{x} is the {p} of what", "what is {x} the {p} of",
              "name one with {x} as {p}", "who has the {p} {x}", "what does {x} have as one with this {p}"]


def word(rng, subject, steps):
    """A question that follows steps [(what the relation is called, inverse)] from a subject."""
    x = subject
    for i, (p, inverse) in enumerate(steps):
        if i + 1 == len(steps) and rng.random() < (0.9 if inverse else 0.4):
            x = rng.choice(LAST_WHOSE if inverse else LAST_OF).format(p=p, x=x)
        else:
            x = rng.choice(WHOSE if inverse else OF).format(p=p, x=x)
            if i + 1 == len(steps):
                x = rng.choice(LAST).format(e=x)
    if rng.random() < 0.5 and not x.startswith(subject):
        x = x[:1].upper() + x[1:]
    return x + rng.choice(("", "?", "?", " ?", " ?"))


def vary(rng, task):
    """The task with other spellings, relations and wording; the same paths and answers."""
    f = spelling(rng)
    g = f if rng.random() < SAME else spelling(rng)
    names, other = relation_names(rng, {r for p in task.paths for r in p.relations})
    key = lambda k: k and (tuple(map(f, k[0])), tuple(names[r][0] for r in k[1]), k[2])
    asks = []
    for a in task.asks:
        if not a.gold:
            if not other and a.question:
                asks.append(dataclasses.replace(a, question=a.question.replace(a.subject, g(a.subject)), subject=g(a.subject)))
            continue
        who, steps = g(a.subject), [(names[r][1], i) for r, i in zip(*a.gold[1:])]
        if a.question and not other and rng.random() < 0.5:
            question, rel, inner = a.question.replace(a.subject, who), a.rel, a.inner
        else:
            question = word(rng, who, steps)
            inner = steps[0][0] if len(steps) == 2 and f"the {steps[0][0]} of {who}" in question else ""
            rel = () if len(steps) > 1 and not inner and steps[0][0] == steps[-1][0] else (steps[-1][0],)
        hop = tuple(x[:n] for x, n in zip(a.gold, (2, 1, 1))) if len(steps) == 2 else None
        asks.append(dataclasses.replace(a, kind=f"varied{min(2, len(steps))}", question=question, answer=f(a.answer), subject=who, gold=key(a.gold), hop=key(hop),
                                        rel=rel, inner=inner))
    return dataclasses.replace(task, paths=[Path(tuple(map(f, p.nodes)), tuple(names[r][0] for r in p.relations), p.inverse) for p in task.paths], asks=asks)


# ---- records

def plain(name):
    return re.sub(r"[\W_]+", " ", name.lower()).strip()


def without(graph, held):
    """The graph without the entities `held`."""
    for n in list(graph.edges):
        if plain(n) in held:
            del graph.edges[n]
        else:
            graph.edges[n] = [e for e in graph.edges[n] if plain(e[2]) not in held]
    return graph


def asked_of(file):
    """{pattern: [question with {s}]} of IRN's files: question, answer, entity#relation#entity...; "_inverse" ends an inverse relation."""
    out = collections.defaultdict(set)
    for line in open(file, encoding="utf-8"):
        t = line.rstrip("\n").split("\t")
        way = t[2].split("#")
        if way[0] in t[0] and "{" not in t[0]:
            rels = [r for r in way[1::2] if not r.startswith("<")]
            out[tuple((r.removesuffix("_inverse"), r.endswith("_inverse")) for r in rels)].add(t[0].strip().replace(way[0], "{s}"))
    return {p: sorted(q) for p, q in sorted(out.items())}


def make(graph, name, told, n, seed):
    rng = random.Random(f"varied {name} {seed}")
    nodes = sorted(e for e in graph.edges if graph.edges[e] and e not in graph.hubs and len(e) < 60 and "{" not in e)
    made = tries = 0
    while made < n and tries < 20 * n:
        tries += 1
        e, hops = rng.choice(nodes), rng.choice((1, 2, 2))
        walked = graph.walk(e, max(hops, rng.choice((1, 2))), 3000)
        steps, patterns = walked
        full = []
        for parent, rel, inv, depth in patterns:
            full.append((full[parent] if depth > 1 else ()) + ((rel, inv),) if depth else ())
        fit = [p for p in set(full) if len(p) == hops]
        if not fit:
            continue
        fit = rng.sample(sorted(fit), min(len(fit), rng.choice((1, 2, 3))))
        asked = [(p, rng.choice(told[p]).replace("{s}", e) if p in told and rng.random() < 0.7 else "") for p in fit]
        lists = [rank(walked, q or " of ".join([readable(r) for r, _ in p[::-1]] + [e]), max(8, 30 // len(asked))) for p, q in asked]
        paths = list(dict.fromkeys(p for one in lists for p in one))
        made += 1
        yield dict(record(e, paths, [dict(id="", hops=hops, question=q, answers=sorted(graph.follow(e, p)), pattern=p) for p, q in asked]), graph=name)


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--graph", nargs="+", required=True, metavar="NAME=FILE", help="subject, relation, object")
    ap.add_argument("--asked", nargs="*", default=[], metavar="NAME=FILE")
    ap.add_argument("--without", nargs="*", default=[], metavar="FILE", help="triples of graphs that are held out")
    ap.add_argument("--n", type=int, default=3000, help="records of each graph")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--out", required=True)
    a = ap.parse_args()
    held = {plain(x) for file in a.without for line in open(file, encoding="utf-8") for x in line.split("\t")[:1]}
    told = {x.split("=", 1)[0]: asked_of(x.split("=", 1)[1]) for x in a.asked}
    with open(a.out, "w", encoding="utf-8") as f:
        for name, file in (x.split("=", 1) for x in a.graph):
            graph, count = without(Graph(file), held), 0
            for r in make(graph, name, told.get(name, {}), a.n, a.seed):
                f.write(json.dumps(r, ensure_ascii=False) + "\n")
                count += 1
            print(f"{name}: {count} records of {sum(map(len, graph.edges.values())) // 2} triples", flush=True)


if __name__ == "__main__":
    main()
