"""`spolia bench graph`: trees and linear prompts have the same paths; the counts add up."""
import csv
import json

import pytest

from conftest import ROOT, refuse, succeed

MODEL = ROOT / "demo/model.gguf"
N = 12


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """Every person plays in four films, every film has a year and a director."""
    folder = tmp_path_factory.mktemp("graph")
    lines = [f"Film {(3 * p + i) % N}\tstarred\tPerson {p}" for p in range(N) for i in range(4)]
    lines += [f"Film {f}\tyear\t19{10 + f}" for f in range(N)] + [f"Film {f}\tdirected by\tMann {f}" for f in range(N)]
    (folder / "t.tsv").write_text("".join(x + "\n" for x in lines))
    succeed("graph", "import", folder / "t.tsv", "-o", folder / "g.db")
    return "-m", MODEL, "-g", folder / "g.db", "--triples", folder / "t.tsv", "--min-paths", "3"


def rows(*args):
    return [json.loads(x) for x in succeed("bench", "graph", "--json", *args).splitlines()]


@pytest.mark.parametrize("mode", ["exact", "shifted"])
def test_time_to_first_token_by_length(graph, mode):
    short, long = rows(*graph, "--entities", "4", "--lengths", "200,600", "--rounds", "1", "--tree", mode)
    assert short["paths"]["tokens"] <= 200 < long["paths"]["tokens"] <= 600
    for r in (short, long):
        assert r["trees"]["tokens"] == r["known"]["tokens"] < r["paths"]["tokens"]
        assert all(r[form]["computed"] == r[form]["tokens"] for form in ("paths", "preorder", "trees"))
        assert r["known"]["computed"] < 40  # the question
        assert all(r[form]["ttft_s"] >= r[form]["best_s"] > 0 for form in ("paths", "preorder", "trees", "known"))


def test_workloads(graph):
    done = rows(*graph, "--entities", "2", "--pool", "6", "--requests", "16", "--paths", "4",
                "--workload", "temporal,zipf,uniform", "--queue-order", "lpm", "--evict", "lacr")
    assert [(r["workload"], r["system"]) for r in done] == [
        (w, s) for w in ("temporal", "zipf", "uniform") for s in ("linear", "prefix", "trees")]
    for linear, prefix, trees in (done[i:i + 3] for i in range(0, 9, 3)):
        assert linear["hit_rate"] == 0 and 0 <= prefix["hit_rate"] < 1 and 0 < trees["hit_rate"] < 1
        assert trees["tokens"] < linear["tokens"] == prefix["tokens"] and trees["queue"] == "lpm"


def test_deviation_of_shifted_trees(graph):
    done = {r["nodes"]: r for r in rows(*graph, "--entities", "3", "--pool", "6", "--rounds", "4", "--paths", "6", "--deviation")}
    assert set(done) == {"moved", "siblings", "both"}
    assert all(0 <= r["kl_median"] and 0 < r["kl_mean"] < 5 and r["reused"] > 0.5 for r in done.values())


def test_wrong_usage(graph, tmp_path):
    refuse("bench", "graph", "-m", MODEL, naming=["--graph"], code=2)
    refuse("bench", "graph", *graph, "--tree", "bent", naming=["bent"], code=2)
    refuse("bench", "graph", *graph, "--workload", "often", naming=["often"], code=2)
    refuse("bench", "graph", *graph, "--entities", "200", naming=["200"])
    (tmp_path / "none.tsv").write_text("x\n")
    refuse("bench", "graph", *graph, "--triples", tmp_path / "none.tsv", naming=["none.tsv"])


def test_attention_over_trees(tmp_path):
    """A system text and a path of three nodes, 16 tokens each: the operations are those of the allowed pairs."""
    def attend(name, *args):
        succeed("bench", "attend", "--types", "q16", "--heads", "4x2x32", "--rows", "64", "--depths", "0", "--rounds", "1",
                "--csv", tmp_path / name, *args)
        return list(csv.DictReader((tmp_path / name).open()))
    trees, linear = attend("t.csv", "--tree", "1x1")
    assert (trees["spans"], linear["spans"]) == ("1x1", "1")
    for row, pairs in ((trees, 4 * 16 * 17 / 2 + 16 * 16 * (1 + 2 + 3)), (linear, 64 * 65 / 2)):
        assert float(row["seconds"]) * float(row["rate"]) == pytest.approx(4 * 4 * 32 * pairs / 1e9, rel=1e-3)
    assert len(attend("l.csv")) == 1
    refuse("bench", "attend", "--tree", "x", naming=["--tree"], code=2)


def test_answers_over_nodes_of_other_prompts(graph):
    """All tokens of the nodes move, and no form answers at no rate."""
    [r] = rows(*graph, "--entities", "4", "--lengths", "400", "--rounds", "1", "--answer", "24")
    assert 0 < r["packed_tokens"] < r["tokens"] and r["nodes"] > 20 and r["pack_ms"] > 0
    assert all(r[form] > 0 for form in ("linear", "fresh", "apart", "packed"))
    refuse("bench", "graph", *graph, "--answer", "1", naming=["--answer"], code=2)
