"""Benchmarks of graph questions: bench/graph_layouts.py asks each in every layout, bench/graph_peer.py times two servers."""
import json
import subprocess
import sys

import pytest

from conftest import PROGRAM, ROOT, succeed

sys.path.insert(0, str(ROOT / "bench"))
import graph_common as common  # noqa: E402


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    path = tmp_path_factory.mktemp("graph") / "g.db"
    succeed("graph", "import", ROOT / "demo/graph/triples.tsv", "-o", path)
    return path


def bench(name, *arguments):
    done = subprocess.run([sys.executable, ROOT / "bench" / name, "--program", PROGRAM, "-t", "1", *map(str, arguments)],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines() if line.startswith("|")][2:]


def test_layouts(graph, tmp_path):
    """The demo's questions: trees and lines answer most, a window that holds little answers fewer; every setting gets every question."""
    asked = tmp_path / "asked.jsonl"
    with open(asked, "w") as f:
        for line in open(ROOT / "demo/graph/questions.jsonl"):
            q = json.loads(line)
            if q["answers"] and len(found := json.loads(succeed("graph", "paths", "-g", graph, "--json", q["question"]))["paths"]) > 2:
                f.write(json.dumps({"kind": "demo", "question": q["question"], "answers": q["answers"], "paths": found}) + "\n")
    rows = bench("graph_layouts.py", asked, "-n", "12", "--setting", "trees=exact", "--setting", "lines=linear", "--setting",
                 "all=linear sparse:100%,depth=0", "--setting", "window=linear window:16", "--answers", tmp_path / "answers.jsonl")
    assert [r[1] for r in rows] == ["trees", "lines", "all", "window"]
    right = {r[1]: float(r[3].rstrip("%")) for r in rows}
    assert right["trees"] >= 75 and right["all"] == right["lines"] >= 50 and right["window"] < right["lines"]
    for line in map(json.loads, open(tmp_path / "answers.jsonl")):
        assert len(line["answers"]) == int(rows[0][2])
        assert sum(line["right"]) == round(right[line["setting"]] * len(line["answers"]) / 100)


def test_retrieved_paths(graph, tmp_path):
    """Questions with ids: the asked half only, wrong where retrieval finds nothing."""
    questions = tmp_path / "q.jsonl"
    questions.write_text("".join(json.dumps({"id": f"q{i}", "question": text, "answers": ["knives"], "hops": 1}) + "\n"
                                 for i, text in enumerate(["What is the product of Ratgol?", "What is it?"] * 8)))
    n = {h: sum(common.is_test(f"q{i}") == (h == "test") for i in range(16)) for h in ("test", "train")}
    for half in n:
        rows = bench("graph_layouts.py", questions, "--graph", graph, "--half", half, "--setting", "trees=exact")
        assert [int(r[2]) for r in rows] == [n[half]]
        named = sum(common.is_test(f"q{i}") == (half == "test") for i in range(0, 16, 2))
        assert rows[0][3] == f"{named / n[half]:.1%}"


def test_beside_another_server(graph):
    rows = bench("graph_peer.py", "-m", ROOT / "demo/graph/model.gguf", "--graph", graph, "--triples", ROOT / "demo/graph/triples.tsv",
                 "--entities", "3", "--least", "2", "--lengths", "200,500", "--rounds", "2", "-c", "1024",
                 "--peer", f"{PROGRAM} serve -m {{model}} --port {{port}} -t {{threads}} --log-format none")
    assert len(rows) == 2 and all(r[3] == "2" and float(r[4]) > 0 for r in rows)
    assert int(rows[0][0]) < int(rows[1][0]) and all(int(r[1]) <= int(r[0]) for r in rows)


def test_scores():
    assert common.is_right("The Clinic.", ["clinic", "x"]) and not common.is_right("clinics", ["clinic"])
    assert common.rouge_l("a cat sat there", ["dog", "cat there"]) == pytest.approx(2 * 2 / (3 + 2))  # "a" is an article
    assert common.rouge_l("", ["x"]) == 0
    mean, low, high, p = common.paired([True] * 9 + [False], [True] * 5 + [False] * 5)
    assert mean == pytest.approx(0.4) and low < 0.4 < high and p == pytest.approx(2 / 2**4)
    assert common.paired([True, False], [True, False])[3] == 1
