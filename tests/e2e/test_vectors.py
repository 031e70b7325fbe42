"""Vectors of an index: built, brought up to date, searched by meaning and by both; `index --embedding`, `search --by`."""
import json
import shutil
import sqlite3
import sys

import numpy as np
import pytest
from conftest import PROGRAM, ROOT, refuse, run, succeed

from reference import encoder

WORDS = "river stone wall key value cache north lamp boat harbour keeper story letter wind rain".split()
KINDS = ("flat", "ivf", "hnsw")
MODEL = ROOT / "tests/golden/tiny.gguf"


def passage(i, n=12):
    rng = np.random.default_rng(i)
    return " ".join(rng.choice(WORDS, n)) + f" number {i}."


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return encoder.write_folder(tmp_path_factory.mktemp("encoder") / "tiny-encoder", prompts={"query": "key: "}, longest=32)


@pytest.fixture(scope="module")
def docs(tmp_path_factory):
    home = tmp_path_factory.mktemp("docs")
    for folder in ("a", "b"):
        (home / folder).mkdir()
        for i in range(20):
            (home / folder / f"{i}.txt").write_text(passage(i + 100 * (folder == "b")))
    return home


def build(tiny, index, *roots, kind=None):
    """What `index --embedding` says of the vectors."""
    out = succeed("index", *roots, "-o", index, "--embedding", tiny, "--json", *(("--vectors", kind) if kind else ()))
    return json.loads(out.splitlines()[-1])


def search(index, question, *options):
    return json.loads(succeed("search", "-i", index, question, "--json", *options))


def vectors_of(tiny, texts, *options):
    return np.array([d["embedding"] for d in json.loads(succeed("embed", "-m", tiny, "--json", *options, *texts))["data"]])


@pytest.mark.parametrize("kind", KINDS)
def test_the_nearest_are_found(kind, tiny, docs, tmp_path):
    index = tmp_path / "i.db"
    told = build(tiny, index, docs, kind=kind)
    assert (told["vectors"], told["chunks"], told["embedded"], told["kept"]) == (kind, 40, 40, 0)
    rows = sqlite3.connect(index).execute("SELECT id, title, text FROM chunks ORDER BY id").fetchall()
    texts = [f"{title}\n{text}" if title else text for _, title, text in rows]
    question = "the keeper of the lamp and the stone wall"
    scores = vectors_of(tiny, texts) @ vectors_of(tiny, [question], "--as", "query")[0]
    wanted = sorted(zip(-scores, [r[0] for r in rows]))[:5]
    found = search(index, question, "--embedding", tiny, "--by", "vectors", "-k", 5, "--breadth", 64)
    assert [h["id"] for h in found] == [i for _, i in wanted]
    assert np.abs([h["score"] + s for h, (s, _) in zip(found, wanted)]).max() < 1e-5
    only = search(index, question, "--embedding", tiny, "--by", "vectors", "-k", 40, "--only", "b/", "--only", "a/3.txt")
    assert sorted(h["file"] for h in only) == sorted(["a/3.txt", *(f"b/{i}.txt" for i in range(20))])


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_may_have_a_single_chunk(kind, tiny, tmp_path):
    (tmp_path / "one.txt").write_text(passage(1))
    assert build(tiny, tmp_path / "i.db", tmp_path / "one.txt", kind=kind)["embedded"] == 1
    assert [h["id"] for h in search(tmp_path / "i.db", "stone", "--embedding", tiny, "--by", "vectors")] == [1]


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_changed_is_computed(kind, tiny, docs, tmp_path):
    home, index, fresh = tmp_path / "docs", tmp_path / "i.db", tmp_path / "fresh.db"
    shutil.copytree(docs, home)
    build(tiny, index, home, kind=kind)
    assert build(tiny, index)["embedded"] == 0
    (home / "a/3.txt").write_text(passage(777))
    (home / "a/4.txt").unlink()
    (home / "b/5.txt").rename(home / "b/5.md")
    (home / "b/5.md").write_text(f"# 5\n\n{passage(31)}\n\n# 6\n\n{passage(32)}\n")
    told = build(tiny, index)
    assert (told["embedded"], told["kept"], told["removed"], told["vectors"]) == (3, 37, 3, kind), told
    (home / "b/5.md").write_text(f"# 5\n\n{passage(31)}\n\n# 6\n\n{passage(33)}\n")  # one chunk of two
    told = build(tiny, index)
    assert (told["embedded"], told["kept"]) == (1, 39), told
    build(tiny, fresh, home, kind=kind)
    for question in (passage(777), passage(4), passage(105)):
        ask = (question, "--embedding", tiny, "-k", 6, "--breadth", 64)
        assert [(h["file"], h["text"]) for h in search(index, *ask)] == [(h["file"], h["text"]) for h in search(fresh, *ask)]


@pytest.mark.parametrize("kind", KINDS)
def test_similar_chunks_by_vectors(kind, tiny, docs, tmp_path):
    """The nearest to a chunk, without itself and without another of the same text."""
    index, home = tmp_path / "i.db", tmp_path / "docs"
    shutil.copytree(docs, home)
    shutil.copy(home / "a/3.txt", home / "b/103.txt")
    build(tiny, index, home, kind=kind)
    rows = sqlite3.connect(index).execute("SELECT id, text FROM chunks ORDER BY id").fetchall()
    v = dict(sqlite3.connect(index).execute("SELECT chunk, v FROM vectors").fetchall())
    v = {i: np.frombuffer(v[i], np.float32).astype(float) for i, _ in rows}
    copies = [i for i, text in rows if text == passage(3) or text.strip() == passage(3)]
    assert len(copies) == 2
    wanted = sorted((-(v[i] @ v[copies[0]]), i) for i, _ in rows if i not in copies)[:5]
    found = json.loads(succeed("search", "-i", index, "--like", copies[0], "--similar", "vectors", "-k", 5, "--json"))
    assert [h["id"] for h in found] == [i for _, i in wanted]
    assert np.abs([h["score"] + s for h, (s, _) in zip(found, wanted)]).max() < 1e-5
    fused = succeed("index", home, "-o", tmp_path / "p.db", "--embedding", tiny, "--precompute", "-m", MODEL, "--fuse", 2,
                    "--similar", "vectors", "--json")
    assert json.loads(fused.splitlines()[-1])["similar"] == 2 * len(rows)


def test_both_rankings_are_fused(tiny, docs, tmp_path):
    index = tmp_path / "i.db"
    build(tiny, index, docs)
    question = passage(7)
    words, vectors = ({h["id"]: h["score"] for h in search(index, question, "--embedding", tiny, "--by", by, "-k", 40)}
                      for by in ("words", "vectors"))
    score = {i: words.get(i, 0) / max(words.values()) + vectors.get(i, 0) for i in {*words, *vectors}}
    fused = search(index, question, "--embedding", tiny, "-k", 10)
    assert [h["id"] for h in fused] == sorted(score, key=lambda i: (-score[i], i))[:10]
    assert np.abs([h["score"] - score[h["id"]] for h in fused]).max() < 1e-6
    assert search(index, question, "-k", 40) == search(index, question, "--embedding", tiny, "--by", "words", "-k", 40)
    for by in ("words", "vectors", "hybrid"):  # among no file at all
        none = run("search", "-i", index, question, "--json", "--embedding", tiny, "--by", by, "--tag", "none")
        assert (none.returncode, none.stdout) == (3, "[]\n"), none.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_what_only_words_rank_has_its_cosine_too(kind, tiny, tmp_path):
    """The score is the sum of both also for a chunk that is not among the nearest hundred vectors."""
    index, home = tmp_path / "i.db", tmp_path / "many"
    home.mkdir()
    (home / "many.jsonl").write_text("".join(json.dumps({"text": passage(i)}) + "\n" for i in range(260)))
    build(tiny, index, home, kind=kind)
    far = 0
    for i in range(0, 260, 26):
        question = f"number {i}"
        vectors = {h["id"]: h["score"] for h in search(index, question, "--embedding", tiny, "--by", "vectors", "-k", 260, "--breadth", 999)}
        best = search(index, question, "--embedding", tiny, "--breadth", 999)[0]
        assert f"number {i}." in best["text"] and abs(best["score"] - 1 - vectors[best["id"]]) < 1e-5
        far += sorted(vectors.values(), reverse=True).index(vectors[best["id"]]) >= 100
    assert far, "all are among the nearest"


def test_a_graph_that_is_lost_is_made_again(tiny, docs, tmp_path):
    index, ask = tmp_path / "i.db", None
    build(tiny, index, docs, kind="hnsw")
    graph = tmp_path / "i.db.graph"
    ask = (passage(5), "--embedding", tiny, "--by", "vectors")
    good = search(index, *ask)
    whole = graph.read_bytes()
    for damage in (whole[:100], whole[:2000] + b"\xff" * 8 + whole[2008:], b""):
        graph.write_bytes(damage)
        assert search(index, *ask) == good
    graph.unlink()
    assert search(index, *ask) == good


def test_what_is_wrong_is_named(tiny, docs, tmp_path):
    index, other = tmp_path / "i.db", encoder.write_folder(tmp_path / "other", longest=16)
    build(tiny, index, docs / "a")
    refuse("search", "-i", index, "x", "--embedding", other, naming=("another encoder",))
    pooled = encoder.write_folder(tmp_path / "pooled", prompts={"query": "key: "}, longest=32, pooling="cls_token")
    refuse("search", "-i", index, "x", "--embedding", pooled, naming=("another encoder",))  # of the same weights
    refuse("search", "-i", index, "x", "--by", "vectors", naming=("no vectors",))
    refuse("search", "-i", index, "--like", "1", "--similar", "smell", naming=("--similar must be", "vectors"), code=2)
    refuse("search", "-i", index, "x", "--by", "smell", naming=("smell", "hybrid"), code=2)
    refuse("index", "-o", index, "--vectors", "flat", naming=("--embedding",), code=2)
    refuse("index", "-o", index, "--embedding", tiny, "--vectors", "tree", naming=("tree", "hnsw"), code=2)
    assert build(other, index)["embedded"] == 20  # replaces them
    plain = tmp_path / "plain.db"
    succeed("index", docs, "-o", plain, "--quiet")
    assert search(plain, "lamp", "--embedding", tiny)  # no vectors: by words, and says so
    assert "has no vectors" in run("search", "-i", plain, "lamp", "--embedding", tiny).stderr
    refuse("search", "-i", plain, "--like", "1", "--similar", "vectors", naming=("no vectors",))
    db = sqlite3.connect(index)
    db.execute("UPDATE vectors SET v = x'00' WHERE chunk = 3")
    db.commit()
    refuse("search", "-i", index, "x", "--embedding", other, naming=("damaged row in table vectors",))


def test_ask_finds_by_meaning_too(tiny, docs, tmp_path):
    """A question without a word of the documents has passages by their vectors alone; with one, both rankings count."""
    index, model = tmp_path / "a.db", ROOT / "demo/model.gguf"
    build(tiny, index, docs)
    ask = lambda question, *options: json.loads(succeed("ask", "-m", model, "-i", index, "-k", 3, "-n", 2, "--no-store", "--json",  # noqa: E731
                                                        "--allow-empty", *options, question))["chunks"]
    for question in ("qqq zzz", passage(3)):
        found = sorted(h["id"] for h in search(index, question, "--embedding", tiny, "-k", 3))
        assert [c["id"] for c in ask(question, "--embedding", tiny, "--keep-duplicates")] == found and len(found) == 3
    assert ask("qqq zzz") == []
    refuse("ask", "-m", model, "-i", index, "--embedding", tmp_path / "none", "x", naming=("none",))
    without = tmp_path / "b.db"
    succeed("index", docs, "-o", without, "--quiet")
    done = run("ask", "-m", model, "-i", without, "-n", 2, "--no-store", "--embedding", tiny, passage(3))
    assert done.returncode == 0 and "has no vectors" in done.stderr


def test_pythons_index_finds_by_meaning_too(tiny, docs, tmp_path):
    sys.path.insert(0, str(PROGRAM.parent / "python"))
    spolia = pytest.importorskip("spolia", reason="make python has not run")
    with spolia.Embedder(tiny) as encoder:
        index = spolia.Index.build(docs, tmp_path / "a.db", embedder=encoder)
        assert index.vectors == "flat" and spolia.Index(tmp_path / "a.db").vectors == ""
        for by in (None, "words", "vectors", "hybrid"):
            theirs = search(tmp_path / "a.db", passage(3), "--embedding", tiny, "-k", 4, *(["--by", by] if by else []))
            assert [(h.id, pytest.approx(h.score)) for h in index.search(passage(3), 4, by=by)] == [(h["id"], h["score"]) for h in theirs], by
        one = theirs[-1]["file"]
        assert {h.file for h in index.search(passage(3), 4, files=[one])} == {one}
        assert spolia.Index(tmp_path / "a.db").search("qqq zzz") == []
        with spolia.open(ROOT / "demo/model.gguf") as engine:
            asked = engine.ask("qqq zzz", index=index, k=3, max_tokens=2)
            assert sorted(h.id for h in asked.sources) == sorted(h.id for h in index.search("qqq zzz", 3, distinct=True))
            assert len(engine.ask("qqq zzz", index=tmp_path / "a.db", embedder=tiny, k=3, max_tokens=2).sources) == 3
            assert engine.ask("qqq zzz", index=tmp_path / "a.db", k=3, max_tokens=2).sources == ()
