"""The benches over the Python package: prompts have the sizes asked for, the accounts add up, counts are the same every time. No time is
held to anything here."""
import csv
import json
import math
import os
import subprocess
import sys

import pytest
from conftest import ROOT, succeed

BUILD = ROOT / os.environ.get("SPOLIA_BUILD", "build")
if not (BUILD / "python/spolia/libspolia.so").exists():
    pytest.skip("make python has not run", allow_module_level=True)
GRAPH_MODEL, N = ROOT / "demo/model.gguf", 12


def script(name, *args, **options):
    env = {**os.environ, "SPOLIA_BUILD": str(BUILD)}
    return subprocess.run([sys.executable, ROOT / f"bench/{name}.py", *map(str, args)], capture_output=True, text=True, timeout=300, env=env,
                          **options)


def prints(name, *args, **options):
    done = script(name, *args, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(name, *args):
    return [json.loads(x) for x in prints(name, *args, "--json").splitlines()]


def refuses(name, *args, naming, **options):
    """Ends with one sentence on standard error, and no traceback."""
    done = script(name, *args, **options)
    assert done.returncode and "Traceback" not in done.stderr, done.stderr
    for word in naming:
        assert word in done.stderr
    return done


@pytest.fixture
def model(make_model):
    return make_model("tiny-llama", "q8_0")


# -- plan ------------------------------------------------------------------------------------------

def test_planning_with_many_chunks_known(model):
    first, _, *lines = prints("plan", "-m", model, "--known", 300, "--rounds", 20, "--chunks", 5, "--policies",
                              "full,craft,h2o,fusion,prefix").splitlines()
    assert first.startswith("300 chunks cached, 5 of 16 tokens in a prompt")
    table = {line.split()[0]: line.split() for line in lines}
    assert list(table) == ["full", "craft", "h2o", "fusion", "prefix"]
    assert all(float(x[2]) <= float(x[4]) for x in table.values())
    assert [int(table[p][1]) for p in ("full", "h2o")] == [301, 301]  # with the system text
    assert int(table["craft"][1]) >= 301
    reused = {policy: float(x[6]) for policy, x in table.items()}
    head, again = reused["full"] - 5 * 16, math.ceil(0.15 * 5 * 16)
    assert reused["fusion"] == reused["h2o"] == head + 5 * 16 - again
    assert head + 5 * 16 - again <= reused["craft"] <= head + 5 * 16  # all of them were found


def test_planning_with_less_memory_than_wanted(model):
    out = prints("plan", "-m", model, "--known", 5000, "--rounds", 2, "--kv-memory", 4)
    assert "KV memory holds " in out.splitlines()[0]
    refuses("plan", "-m", model, "--known", 1, naming=["--chunks"])
    refuses("plan", "-m", model, "--policies", "magic", naming=["magic", "fusion"])


# -- trace, reuse_decay ----------------------------------------------------------------------------

DOCUMENTS = [{"title": f"T{i}", "text": f"The {w} is number {i}."} for i, w in enumerate(["cat", "dog", "bird", "fish", "horse"])]


def trace(model, lines, *options):
    return [json.loads(x) for x in prints("trace", "-m", model, *options, input="".join(json.dumps(x) + "\n" for x in lines)).splitlines()]


def test_a_trace_gets_an_account_for_each_prompt(model):
    lines = [{"system": "S", "chunks": DOCUMENTS[:3], "question": "Which?"},
             {"system": "S", "chunks": DOCUMENTS[2::-1] + DOCUMENTS[3:], "question": "Who?"},
             {"chunks": [{"text": "no title"}], "question": "What?"}]
    accounts = trace(model, lines, "--reuse", "full", "--kv-tokens", "2000")
    assert [a["prompt"] for a in accounts] == [0, 1, 2]
    reused = [[s["reused"] == s["tokens"] for s in a["segments"]] for a in accounts]
    assert reused[0] == [False] * 5
    assert reused[1] == [True, True, True, True, False, False, False]
    assert reused[2][0] is False  # behind another system text
    assert all(a["prompt_tokens"] == sum(s["tokens"] for s in a["segments"]) for a in accounts)


def test_a_small_cache_forgets(model):
    lines = [{"chunks": [d], "question": "Q"} for d in DOCUMENTS * 2]
    warm, tight = trace(model, lines, "--reuse", "full"), trace(model, lines, "--reuse", "full", "--kv-tokens", 192)
    chunks = [[a["segments"][1]["reused"] > 0 for a in x] for x in (warm, tight)]
    assert chunks[0] == [False] * 5 + [True] * 5
    assert not all(chunks[1][5:])


@pytest.mark.parametrize("line, word", [("nonsense", "line 2"), ('{"question": "x"}', "chunks"), ('{"chunks": ["x"], "question": "x"}', "line 2")])
def test_a_line_of_a_trace_that_is_wrong(line, word, model):
    good = json.dumps({"chunks": [], "question": "Q"})
    done = refuses("trace", "-m", model, naming=[word], input=good + "\n" + line + "\n")
    assert len(done.stdout.splitlines()) == 1


def test_reuse_over_many_queries(model, tmp_path):
    docs = [{"id": f"d{i}", "title": f"T{i}", "text": f"What number {i} says. " * 3} for i in range(12)]
    ids = [d["id"] for d in docs]
    questions = [{"question": f"Q{i}?", "doc_ids": ids[i:i + 2], "context_doc_ids": ids[i:i + 6]} for i in range(0, 6, 2)]
    for name, lines in (("docs", docs), ("questions.dev", questions)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    said = prints("reuse_decay", "-m", model, "--data", tmp_path, "--queries", 12, "--docs", 4, "--cache", 2, "--csv", tmp_path / "x.csv")
    assert "12 queries" in said and "quarter 4" in said
    read = list(csv.DictReader((tmp_path / "x.csv").open()))
    assert len(read) == 12
    assert all(float(read[0][p]) == 0 for p in read[0] if p != "query")
    assert float(read[-1]["full"]) > float(read[-1]["fusion 15 %"]) > 0
    sys.path.insert(0, str(ROOT / "bench"))
    import plot
    [panel] = plot.panels_of(plot.read(tmp_path / "x.csv"), plot.argparse.Namespace(x=None, y=None))
    shares = [float(r["full"]) for r in read]
    assert set(panel.lines) == {"prefix", "full", "fusion 15 %", "craft 15 %"} and panel.lines["full"][1][1] == pytest.approx(sum(shares[:2]) / 2)


# -- queue_orders ----------------------------------------------------------------------------------

def test_queue_compares_orders(model):
    """Every order answers the same requests; a cache that holds a part is used more when cached prompts go first."""
    small = ("-m", model, "--documents", 60, "--chunk-tokens", 32, "--chunks", 2, "--rounds", 1, "--kv-memory", 1)
    runs = {run["order"]: run for run in rows("queue_orders", *small, "-n", 300)}
    assert list(runs) == ["fcfs", "reorder", "lpm", "lsp"]
    assert runs["fcfs"]["ttft_ratio"] == 1 and all(run["sched_us"] > 0 for run in runs.values())
    assert runs["lpm"]["cached"] > runs["fcfs"]["cached"] > 0
    first, second = ([{**run, "sched_us": 0} for run in rows("queue_orders", *small, "-n", 300, "--orders", "fcfs,reorder", "--load", 1.2,
                                                            "--clock", "tokens")] for _ in range(2))
    assert first == second  # computed tokens are the same every time
    assert first[1]["tokens"] < first[0]["tokens"] and first[1]["ttft_ratio"] > 1.1
    refuses("queue_orders", "-m", model, "--load", 1, "--rate", 1, naming=["--rate goes with"])
    refuses("queue_orders", "-m", model, "--clock", "sun", naming=["sun"])
    refuses("queue_orders", *small, "-n", 1, "--orders", "best", naming=["best", "reorder, fcfs"])
    refuses("queue_orders", "-m", model, "--documents", 1, "--chunks", 2, naming=["--chunks"])


# -- preload ---------------------------------------------------------------------------------------

def test_ways_to_load_from_a_slow_disk(model):
    """All ways serve from the disk, and none reads it faster than it is."""
    small = ("-m", model, "--requests", 6, "--chunks", 2, "--chunk-tokens", 128, "--question", 32, "--rounds", 1, "--predict", 2)
    _, _, *lines = prints("preload", *small, "--rates", "1,1000", "--kv-memory", 8).splitlines()
    table = {(x[0], x[1]): x for x in map(str.split, lines)}
    assert [way for rate, way in table if rate == "1"] == ["layers", "first", "request", "none", "computed"]
    for (rate, way), (_, _, share, reading, ttft, took, *_) in table.items():
        assert (share == "0%") == (way == "computed") and float(reading) <= float(took) + 1 and float(ttft) <= float(took)
    assert float(table["1", "request"][3]) > 20
    refuses("preload", *small, "--rates", 0, naming=["--rates"])
    refuses("preload", *small, "--ways", "best", naming=["best"])


# -- recompute -------------------------------------------------------------------------------------

def test_scattered_tokens_against_consecutive_ones(tmp_path):
    said = prints("recompute", "-m", GRAPH_MODEL, "--tokens", 64, "--chunk-tokens", 32, "--sizes", "5,64", "--rounds", 2, "--csv", tmp_path / "x.csv")
    read = list(csv.DictReader((tmp_path / "x.csv").open()))
    assert [(r["tokens"], r["how"]) for r in read] == [(n, how) for n in ("5", "64") for how in ("scattered", "consecutive")] * 2
    ms = [[float(r["ttft_ms"]) for r in read if (r["tokens"], r["how"]) == ("5", how)] for how in ("scattered", "consecutive")]
    told = [float(x) for x in said.splitlines()[1].split()[-2:]]
    assert told == pytest.approx([a / b for a, b in zip(*ms)], abs=1e-3)
    refuses("recompute", "-m", GRAPH_MODEL, "--tokens", 70, "--chunk-tokens", 32, naming=["--tokens"])
    refuses("recompute", "-m", GRAPH_MODEL, "--tokens", 64, "--chunk-tokens", 32, "--sizes", "65", naming=["--sizes"])
    refuses("recompute", "-m", GRAPH_MODEL, "--sizes", "0", naming=["--sizes"])
    refuses("recompute", "-m", tmp_path / "none.gguf", naming=["none.gguf"])


# -- graph_prompts ---------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """Every person plays in four films, every film has a year and a director."""
    folder = tmp_path_factory.mktemp("graph")
    lines = [f"Film {(3 * p + i) % N}\tstarred\tPerson {p}" for p in range(N) for i in range(4)]
    lines += [f"Film {f}\tyear\t19{10 + f}" for f in range(N)] + [f"Film {f}\tdirected by\tMann {f}" for f in range(N)]
    (folder / "t.tsv").write_text("".join(x + "\n" for x in lines))
    succeed("graph", "import", folder / "t.tsv", "-o", folder / "g.db")
    return "-m", GRAPH_MODEL, "-g", folder / "g.db", "--triples", folder / "t.tsv", "--min-paths", "3"


@pytest.mark.parametrize("mode", ["exact", "shifted"])
def test_time_to_first_token_by_length(graph, mode):
    short, long = rows("graph_prompts", *graph, "--entities", 4, "--lengths", "200,600", "--rounds", 1, "--tree", mode)
    assert short["paths"]["tokens"] <= 200 < long["paths"]["tokens"] <= 600
    for r in (short, long):
        assert r["trees"]["tokens"] == r["known"]["tokens"] < r["paths"]["tokens"]
        assert all(r[form]["computed"] == r[form]["tokens"] for form in ("paths", "preorder", "trees"))
        assert r["known"]["computed"] < 40  # the question
        assert all(r[form]["ttft_s"] >= r[form]["best_s"] > 0 for form in ("paths", "preorder", "trees", "known"))


def test_workloads(graph):
    done = rows("graph_prompts", *graph, "--entities", 2, "--pool", 6, "--requests", 16, "--paths", 4, "--workload", "temporal,zipf,uniform",
                "--queue-order", "lpm", "--evict", "lacr")
    assert [(r["workload"], r["system"]) for r in done] == [(w, s) for w in ("temporal", "zipf", "uniform") for s in ("linear", "prefix", "trees")]
    for linear, prefix, trees in (done[i:i + 3] for i in range(0, 9, 3)):
        assert linear["hit_rate"] == 0 and 0 <= prefix["hit_rate"] < 1 and 0 < trees["hit_rate"] < 1
        assert trees["tokens"] < linear["tokens"] == prefix["tokens"] and trees["queue"] == "lpm"


def test_deviation_of_shifted_trees(graph):
    done = {r["nodes"]: r for r in rows("graph_prompts", *graph, "--entities", 3, "--pool", 6, "--rounds", 4, "--paths", 6, "--deviation")}
    assert set(done) == {"moved", "siblings", "both"}
    assert all(0 <= r["kl_median"] and 0 < r["kl_mean"] < 5 and r["reused"] > 0.5 for r in done.values())


def test_answers_over_nodes_of_other_prompts(graph):
    """All tokens of the nodes move, and no form answers at no rate."""
    [r] = rows("graph_prompts", *graph, "--entities", 4, "--lengths", 400, "--rounds", 1, "--answer", 24)
    assert 0 < r["packed_tokens"] < r["tokens"] and r["nodes"] > 20 and r["pack_ms"] > 0
    assert all(r[form] > 0 for form in ("linear", "fresh", "apart", "packed"))
    refuses("graph_prompts", *graph, "--answer", 1, naming=["--answer"])


def test_graphs_that_do_not_do(graph, tmp_path):
    refuses("graph_prompts", "-m", GRAPH_MODEL, naming=["--graph"])
    refuses("graph_prompts", *graph, "--tree", "bent", naming=["bent"])
    refuses("graph_prompts", *graph, "--workload", "often", naming=["often"])
    refuses("graph_prompts", *graph, "--entities", 200, naming=["200"])
    (tmp_path / "none.tsv").write_text("x\n")
    refuses("graph_prompts", *graph, "--triples", tmp_path / "none.tsv", naming=["none.tsv"])
