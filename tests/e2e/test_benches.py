"""Every script in bench/: --help says what it is for and does nothing, and what a user gives wrong is named in a sentence; no server or
file stays behind."""
import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import time

import pytest
from conftest import PROGRAM, ROOT, succeed

BUILD = ROOT / os.environ.get("SPOLIA_BUILD", "build")
SCRIPTS = {p.stem: p.read_text(encoding="utf-8") for p in sorted((ROOT / "bench").glob("*.py"))}
PROGRAMS = [name for name, text in SCRIPTS.items() if "__main__" in text]
MODEL, FILE = ROOT / "demo/model.gguf", ROOT / "demo/questions.jsonl"


def bench(name, *args, **changes):
    """changes: of the environment."""
    if "import common\n" in SCRIPTS[name] and not (BUILD / "python/spolia/libspolia.so").exists():
        pytest.skip("make python has not run")
    return subprocess.run([sys.executable, ROOT / f"bench/{name}.py", *map(str, args)], capture_output=True, text=True, timeout=120,
                          env={**{k: v for k, v in os.environ.items() if k != "SPOLIA_ARG_NO_STORE"}, "SPOLIA": str(PROGRAM), **changes})


def refuses(words, name, *args):
    done = bench(name, *args)
    said = done.stderr.strip()
    assert done.returncode and "Traceback" not in said and words in said, (name, args, words, said)


@pytest.mark.parametrize("name", PROGRAMS)
def test_help_does_nothing_else(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = bench(name, "--help")
    assert done.returncode == 0, done.stderr
    said = done.stdout.split("options:")[0]
    assert said.startswith("usage: ") and len(said.split("\n\n")) > 1, "no description"
    assert not done.stderr and not os.listdir()


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    path = tmp_path_factory.mktemp("index") / "demo.db"
    succeed("index", ROOT / "demo/docs", "-o", path, "--quiet")
    return path


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """The triples of the demo, and their graph."""
    folder = tmp_path_factory.mktemp("graph")
    triples = ROOT / "demo/graph/triples.tsv"
    succeed("graph", "import", triples, "-o", folder / "g.db")
    return triples, folder / "g.db"


def test_mistakes_are_named(index, graph, tmp_path):
    triples, known = graph
    gone = tmp_path / "gone"
    (tmp_path / "set").mkdir()
    (tmp_path / "set/docs.jsonl").write_text('{"id": "a", "text": "A boat."}\n')
    (tmp_path / "set/questions.jsonl").write_text('{"question": "What?", "doc_ids": ["a"], "context_doc_ids": []}\n')
    (tmp_path / "broken.jsonl").write_text('{"question": "What?"}\nnonsense\n')
    (tmp_path / "words.csv").write_text("at,what\n1,x\n2,y\n")
    (tmp_path / "set/questions.dev.jsonl").write_text((tmp_path / "set/questions.jsonl").read_text())
    serves = ("-m", gone, "--embedding", gone)
    mistakes = [  # what is said, the bench, its arguments
        ("gone", "ahead", *serves, "--index", gone, "--questions", FILE),
        ("gone", "ahead", *serves, "--index", index, "--questions", gone),
        ("its vectors are none", "ahead", *serves, "--index", index, "--questions", FILE),
        ("broken.jsonl: line 2: ", "ahead", *serves, "--index", index, "--questions", tmp_path / "broken.jsonl"),
        ("no server", "beside", *serves, "--program", PROGRAM),
        ("embeddings", "beside", *serves, "--only", "all"),
        ("--tokens", "beside", *serves, "--tokens", 1),
        ("no server", "citations", "-m", gone, "--program", PROGRAM, tmp_path / "set"),
        ("context_doc_ids", "citations", "-m", MODEL, "--program", PROGRAM, tmp_path / "set"),
        ("gone/docs.jsonl", "citations", "-m", MODEL, "--program", PROGRAM, gone),
        ("ask -m", "exact_reuse", "-m", gone, "--index", index, "--questions", FILE, "--spolia", PROGRAM),
        ("-n: \"0\" is not a whole number above 0", "exact_reuse", "-m", MODEL, "--index", index, "--questions", FILE, "-n", 0),
        ("gone", "graph_answers", "--graph", known, gone),
        ("gone", "graph_layouts", gone),
        ("questions.jsonl: line 1: no field paths", "graph_layouts", FILE),
        ("questions.jsonl: line 1: no field id", "graph_answers", "--graph", known, tmp_path / "set/questions.jsonl"),
        ("docs.jsonl: line 1: no field question", "exact_reuse", "-m", MODEL, "--index", index, "--questions", tmp_path / "set/docs.jsonl"),
        ("--hops", "graph_layouts", FILE, "--graph", known, "--hops", "0,x"),
        ("gone", "graph_peer", "-m", MODEL, "--graph", known, "--triples", gone),
        ("cannot open the graph", "graph_peer", "-m", MODEL, "--graph", gone, "--triples", triples, "--program", PROGRAM),
        ("cannot open the graph", "graph_tree_blocks", "--graph", gone, "--triples", triples, "--program", PROGRAM),
        ("gone", "idle_copies", "--model", MODEL, gone),
        ("OUT", "long_contexts"),
        ("gone", "names", gone, "-o", tmp_path / "x.tsv"),
        ("not a database", "names", FILE, "-o", tmp_path / "x.tsv"),
        ("no server", "page_cost", "-m", gone, "--program", PROGRAM),
        ("bench prefill", "peer", "--spolia", PROGRAM, "--peer", "echo 5", "--", "prefill", "-m", gone),
        ("no vectors", "real_vectors", index, tmp_path / "v.f32"),
        ("gone", "replacement", gone, "--sim", PROGRAM),
        ("MEAN:SIGMA", "replacement", gone, "--long", "x"),
        ("index", "retrieval", "--embedding", gone, tmp_path / "set", "--program", PROGRAM),
        ("gone", "search_recall", gone),
        ("gone", "search_recall", tmp_path / "set", "--program", gone),
        ("exit code", "serve", "-m", gone, "--data", tmp_path / "set", "--build", BUILD, "--server", "off"),
        ("gone.trace.dev.jsonl", "serve", "-m", MODEL, "--data", tmp_path / "set", "--data", gone, "--build", BUILD),
        ("placeholders are {model}, {port}, {threads}", "serve", "-m", MODEL, "--data", tmp_path / "set", "--peer", "x {nothing}"),
        ("{context}", "graph_peer", "-m", MODEL, "--graph", known, "--triples", triples, "--peer", "x {"),
        ("no numbers", "plot", tmp_path / "words.csv", "--x", "at", "--y", "what"),
        ("no server: spolia: ", "soak", "-m", gone, "--build", BUILD),
        ("gone/squad_v1", "split_questions", gone, tmp_path / "out"),
        ("there is no such file", "startup", gone),
        ("--mib", "tiers", "--mib", 0),
        ("bench/questions has none", "tables", "--only", "multihop", "--out", tmp_path / "tables"),
    ]
    for mistake in mistakes:
        refuses(*mistake)
    assert not (tmp_path / "x.tsv").exists() and not (tmp_path / "v.f32").exists()


def test_mistakes_of_benches_over_the_package_are_named(tmp_path):
    gone = tmp_path / "gone"
    refuses("gone", "heat", "-m", MODEL, "--trace", gone, "--chunks", gone)
    refuses("gone", "reuse_decay", "-m", MODEL, "--data", gone)
    refuses("gone", "craft_variants", "-m", MODEL, "--data", gone)
    refuses("prompt of", "iterative", "-m", MODEL, "--iterations", "64", "--questions", 1)
    refuses('"0" is not a list of numbers from 1 to 64', "iterative", "-m", MODEL, "--iterations", "0")


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_what_a_bench_starts_ends_with_it(tmp_path):
    """A redis-server, when the servers that were to use it do not start."""
    (tmp_path / "redis-server").write_text(f"#!/bin/sh\necho $$ >{tmp_path}/pid\nexec sleep 600\n")
    (tmp_path / "redis-server").chmod(0o755)
    for name in ("remote", "remote_forms"):
        done = bench(name, "-m", tmp_path / "gone", PATH=f"{tmp_path}:{os.environ['PATH']}")
        assert done.returncode and "Traceback" not in done.stderr, done.stderr
        if not (tmp_path / "pid").exists():
            continue  # a machine so busy that it did not run for a second
        pid = int((tmp_path / "pid").read_text())
        end = time.time() + 20
        while alive(pid) and time.time() < end:
            time.sleep(0.05)
        assert not alive(pid)
        (tmp_path / "pid").unlink()


@pytest.mark.skipif(not list(pathlib.Path("/proc/self/task").glob("*/children")), reason="the system does not list children")
def test_a_bench_that_is_terminated_ends_its_server():
    bench = subprocess.Popen([sys.executable, ROOT / "bench/page_cost.py", "--program", PROGRAM, "--seconds", "60", "--rounds", "1"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    children = pathlib.Path(f"/proc/{bench.pid}/task/{bench.pid}/children")
    end = time.time() + 60
    while not (server := children.read_text().split()) and time.time() < end:
        time.sleep(0.05)
    time.sleep(1)  # it measures
    bench.terminate()
    assert "terminated" in bench.communicate(timeout=60)[1] and bench.returncode == 1
    assert server and not alive(int(server[0]))


def test_long_contexts_are_written_where_they_are_asked_for(tmp_path):
    done = bench("long_contexts", tmp_path / "out", 4)
    assert done.returncode == 0 and (tmp_path / "out/model.gguf").stat().st_size == MODEL.stat().st_size
    assert len(list((tmp_path / "out/docs").iterdir())) == 16


def test_names_of_an_index_are_triples(index, tmp_path):
    done = bench("names", index, "-o", tmp_path / "names.tsv")
    lines = [line.split("\t") for line in (tmp_path / "names.tsv").read_text().splitlines()]
    assert done.returncode == 0 and f"{len(lines)} triples" in done.stdout
    assert {x[1] for x in lines} == {"names"} and all(len(x) == 4 for x in lines)


def test_page_cost_has_four_runs(tmp_path):
    done = bench("page_cost", "--program", PROGRAM, "--seconds", 0.3, "--rounds", 1)
    *runs, last = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert [(r["watchers"], r["busy"]) for r in map(json.loads, runs)] == [(0, False), (1, False), (0, True), (1, True)]
    assert [r["requests"] for r in map(json.loads, runs)] == [0, 2, 0, 2] and last.startswith("one page: ")


def test_a_second_run_finds_nothing_of_the_first(index, graph, tmp_path):
    """ask keeps prompts on disk by default, a bench of an empty cache must not."""
    for _ in range(2):
        done = bench("exact_reuse", "-m", MODEL, "--index", index, "--questions", FILE, "-n", 3, "--rounds", 2, "--spolia", PROGRAM, "--csv",
                     tmp_path / "x.csv", XDG_CACHE_HOME=str(tmp_path))
        assert done.returncode == 0, done.stderr
        rows = list(csv.DictReader((tmp_path / "x.csv").open()))
        share = {p: sum(int(r["reused"]) for r in rows if r["pass"] == p) / sum(int(r["prompt"]) for r in rows if r["pass"] == p)
                 for p in ("off", "first", "again")}
        assert share["off"] == 0 and share["first"] < 0.3 and share["again"] > 0.9
    asked = [{**json.loads(line), "hops": 1} for line in (ROOT / "demo/graph/questions.jsonl").read_text().splitlines()]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(x) + "\n" for x in asked))
    said = [bench("graph_answers", "--program", PROGRAM, "--graph", graph[1], "-n", 4, tmp_path / "q.jsonl", XDG_CACHE_HOME=str(tmp_path))
            for _ in range(2)]
    assert all(x.returncode == 0 for x in said), said[0].stderr
    first, second = (x.stdout.splitlines()[1].split() for x in said)  # hops asked right share low - high rouge tokens reused TTFT
    assert first[:10] == second[:10] and int(first[8]) > 20 and float(first[9].rstrip("%")) < 50
    assert not (tmp_path / "spolia/asked").exists()


def test_idle_copies_waits_for_those_that_fit(tmp_path):
    """Of a collection that half of KV memory cannot hold it waits for no more than come."""
    (tmp_path / "large.txt").write_text("".join(f"The boat {i} leaves the harbour of town {i * i}. " * 12 + "\n\n" for i in range(2500)))
    done = bench("idle_copies", "--program", PROGRAM, "--model", MODEL, "--rounds", 1, "--settle", 3, tmp_path / "large.txt")
    assert done.returncode == 0, done.stderr
    with_copies, none, ratio = done.stdout.splitlines()
    n, every = map(int, re.search(r"copies of (\d+) of (\d+) passages", with_copies).groups())
    assert 0 < n < every and "0 tokens reused, copies of 0 of" in none and ratio.startswith("without / with: ")


def test_http_cost_asks_the_library_and_a_server():
    program = PROGRAM.parent / "bench/http_cost"
    if not program.exists():
        pytest.skip("build/bench/http_cost is not built")
    done = subprocess.run([program, MODEL, PROGRAM, "3"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    rows = [line.split(",") for line in done.stdout.splitlines()]
    assert [r[0] for r in rows] == ["clock", "wall", "cpu"] and all(float(x) > 0 for r in rows[1:] for x in r[1:5])
    done = subprocess.run([program, MODEL.with_name("none.gguf"), PROGRAM, "3"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "the server does not start" in done.stderr
