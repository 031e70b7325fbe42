"""What must hold of graphs that are drawn at random: one in several formats, in another order and in parts; its paths against a
model of ten lines; the prompts of `spolia ask` and of the server. SPOLIA_GRAPHS: how many a test."""
import csv
import io
import json
import os
import random
from xml.sax.saxutils import escape, quoteattr

import pytest

from conftest import CPU, EMULATED, ROOT, run, succeed
from serving import Server

N = int(os.environ.get("SPOLIA_GRAPHS", 1 if EMULATED or CPU == "ref" else 4))
PARTS = ["Anna", "anna", "Öl", "日本", "the", "The", "Who", "X-1", '"q"', "O'Neil", "a,b", "c;d", "%41", "<b>", "&amp;", "Ωμέγα",
         "ß", "İstanbul", "🙂", "1931", "e\u0301", "\\n", "/", "->", "{x}"]
RELATIONS = ["knows", "directed_by", "is a", "行", "starredIn", "http://x/rel#likes", '"r"', "x-y", "R"]
SYSTEM = "Answer the question from the documents."


@pytest.fixture(params=range(N))
def r(request):
    return random.Random(request.param)


def draw(r):
    """Triples with sources, some of them twice; duplicates have the source of the first."""
    names = [" ".join(r.choice(PARTS) for _ in range(r.randint(1, 3))) for _ in range(r.randint(2, 10))]
    found = {(r.choice(names), r.choice(RELATIONS), r.choice(names)): r.choice(["", "s1", "doc é", 'c"3', "x,y"]) for _ in range(25)}
    triples = [(*t, source) for t, source in found.items()]
    return triples + r.sample(triples, min(3, len(triples)))


def table(triples, **options):
    out = io.StringIO()
    csv.writer(out, **options).writerows(triples)
    return out.getvalue()


def nodes(triples):
    return list(dict.fromkeys(x for t in triples for x in (t[0], t[2])))


def graphml(triples):
    def datum(key, text):
        return f'<data key="{key}">{escape(text)}</data>' if text else ""
    return ('<graphml><key id="r" for="edge" attr.name="relation"/><key id="s" for="edge" attr.name="source_id"/><graph>'
            + "".join(f"<node id={quoteattr(n)}/>" for n in nodes(triples))
            + "".join(f"<edge source={quoteattr(s)} target={quoteattr(o)}>{datum('r', p)}{datum('s', d)}</edge>" for s, p, o, d in triples)
            + "</graph></graphml>")


FORMATS = {
    "a.tsv": lambda ts: "".join("\t".join(t if t[3] else t[:3]) + "\n" for t in ts),
    "b.txt": lambda ts: "".join("\t".join(t) + "\r\n" for t in ts),
    "c.csv": lambda ts: table([("subject", "relation", "object", "source"), *ts]),
    "d.csv": lambda ts: "\ufeff" + table([("source", "to", "from", "rel"), *((d, o, s, p) for s, p, o, d in ts)], delimiter=";"),
    "e.csv": lambda ts: table(ts, quoting=csv.QUOTE_ALL),
    "f.jsonl": lambda ts: "".join(json.dumps(t if i % 2 else dict(zip(("head", "rel", "tail", "source"), t))) + "\n" for i, t in enumerate(ts)),
    "g.graphml": graphml,
    "h.json": lambda ts: json.dumps({"entities": [{"entity_name": n} for n in nodes(ts)], "relationships": [
        {"src_id": s, "keywords": p, "tgt_id": o, "source_id": d} for s, p, o, d in ts]}),
    "i.json": lambda ts: json.dumps({"nodes": [{"id": n} for n in nodes(ts)], "edges": [
        {"source": s, "relation": p, "target": o, "source_id": d} for s, p, o, d in ts]}),
}


def load(db, file, text, *options):
    file.write_bytes(text.encode())
    return json.loads(succeed("graph", "import", file, "-o", db, "--json", *options))


def paths(db, question, *options):
    wide = ("-k", 100000, "--degree", 10000, "--steps", 1000000)
    return json.loads(succeed("graph", "paths", "-g", db, "--json", *(options or wide), "--", question))


def seen(db, names):
    """What a graph says: its counts, and the paths from some of its names."""
    told = json.loads(succeed("graph", "show", "-g", db, "--json"))
    told["relations"].sort(key=lambda x: (-x["triples"], x["name"]))
    answers = [paths(db, n) for n in names]
    return told, [sorted((a["entities"][p["entity"]]["ident"], p["nodes"], p["relations"], p["inverse"], p["sources"]) for p in a["paths"])
                  for a in answers]


def test_formats_orders_and_parts_make_one_graph(r, tmp_path):
    triples = draw(r)
    names = r.sample(nodes(triples), 1)
    first = load(tmp_path / "a.db", tmp_path / "a.tsv", FORMATS["a.tsv"](triples))
    want = seen(tmp_path / "a.db", names)
    for name in r.sample(list(FORMATS)[1:], 3):
        made = load(tmp_path / f"{name}.db", tmp_path / name, FORMATS[name](triples), "--batch", r.choice([1, 3, 100000]))
        assert seen(tmp_path / f"{name}.db", names) == want, name
        assert [made[x] for x in ("triples", "entities", "duplicates", "bad")] == [first[x] for x in ("triples", "entities", "duplicates", "bad")]
    r.shuffle(triples)
    at = r.randint(1, len(triples) - 1)
    for i, part in enumerate((triples[:at], triples[at:])):
        name = r.choice(list(FORMATS))
        load(tmp_path / "parts.db", tmp_path / f"{i}{name}", FORMATS[name](part))
        assert load(tmp_path / "parts.db", tmp_path / f"{i}{name}", FORMATS[name](part))["triples"] == 0
    assert seen(tmp_path / "parts.db", names) == want


def all_paths(edges, nodes, relations, hops):
    """The longest simple paths of up to so many hops."""
    on = [e for e in edges.get(nodes[-1], ()) if e[2] not in nodes] if len(relations) < hops else []
    if not on and relations:
        yield tuple(nodes), tuple(relations)
    for relation, inverse, node in on:
        yield from all_paths(edges, [*nodes, node], [*relations, (relation, inverse)], hops)


def test_paths_are_those_of_a_model(r, tmp_path):
    triples = draw(r)
    load(tmp_path / "g.db", tmp_path / "g.tsv", FORMATS["a.tsv"](triples))
    edges = {}
    for s, p, o in dict.fromkeys(t[:3] for t in triples):
        edges.setdefault(s, []).append((p, False, o))
        edges.setdefault(o, []).append((p, True, s))
    for name in r.sample(nodes(triples), 1):
        exact = json.loads(succeed("graph", "search", "-g", tmp_path / "g.db", "--json", "--", name))
        assert name in [e["ident"] for e in exact if e["match"] == "exact"]
        found = paths(tmp_path / "g.db", name)
        for i, e in enumerate(found["entities"]):
            got = [(tuple(p["nodes"]), tuple(zip(p["relations"], p["inverse"]))) for p in found["paths"] if p["entity"] == i]
            assert sorted(got) == sorted(set(all_paths(edges, [e["ident"]], [], 2)))
        made = paths(tmp_path / "g.db", name, "-k", "3", "--tree", "--style", "arrows")
        text, leaves, inner = [], [], {n["parent"] for n in made["tree"]}
        for i, n in enumerate(made["tree"]):
            text.append((text[n["parent"]] if n["parent"] >= 0 else "") + n["text"])
            leaves += [text[-1]] if i not in inner else []
        assert sorted(leaves) == sorted({p["text"] for p in made["paths"]})


def test_the_server_asks_the_graph_as_the_program_does(r, tmp_path):
    triples, model = draw(r), ROOT / "demo/graph/model.gguf"
    load(tmp_path / "g.db", tmp_path / "g.tsv", FORMATS["a.tsv"](triples))
    names = nodes(triples)
    questions = [" ".join([r.choice(["Who", "The", "What"]), r.choice(["knows", "is"]), r.choice(names), r.choice(names)]) for _ in range(2)]
    ask = ("ask", "-m", model, "-g", tmp_path / "g.db", "-n", "6", "--no-store", "--json")
    with Server("--graph", tmp_path / "g.db", model=model) as s:
        for question in questions:
            tree = paths(tmp_path / "g.db", question, "--tree")["tree"]
            told = s.call("/v1/graph", {"query": question})[1]
            assert [(n["text"], n["parent"]) for n in told["nodes"]] == [(n["text"], n["parent"]) for n in tree]
            talk = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
            status, got = s.call("/v1/chat/completions", {"messages": talk, "graph": True, "max_tokens": 6, "temperature": 0})
            want = json.loads(run(*ask, "--", question).stdout)
            if want.get("error", {}).get("code") == "E_CONTEXT":
                assert status == 400 and got["error"]["code"] == "context_length_exceeded"
                continue
            assert want["text"] == got["choices"][0]["message"]["content"]
            assert want["usage"]["prompt_tokens"] == got["usage"]["prompt_tokens"]
