"""`spolia bench`: prompts have the sizes that were asked for, and the accounts add up. No time is held to anything here."""
import csv
import json
import math
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from conftest import PROGRAM, ROOT, refuse, run, succeed

HEAD = "Answer the question from the documents."
QUESTION = 20  # tokens


def bench(model, csv_path, *options, **settings):
    """A small run; rows of the CSV with numbers where there are some."""
    given = {"chunks": "4", "chunk-tokens": "24", "ratios": "0,0.3", "policies": "prefix,fusion",
             "orders": "same,shuffled,half-new", "question-tokens": QUESTION, "rounds": 2,
             **{k.replace("_", "-"): v for k, v in settings.items()}}
    named = [x for k, v in given.items() for x in (f"--{k}", v)]
    done = run("bench", "reuse", "-m", model, "--csv", csv_path, *named, *options)
    assert done.returncode == 0, done.stderr
    with open(csv_path, newline="") as f:
        rows = list(csv.DictReader(f))
    for row in rows:
        for key in row:
            if key not in ("policy", "order"):
                row[key] = float(row[key])
    return rows, done


def only(rows, **wanted):
    return [r for r in rows if all(r[k] == v for k, v in wanted.items())]


@pytest.fixture
def model(make_model):
    return make_model("tiny-llama", "q8_0")


def test_help_lists_the_measurements():
    text = succeed("bench", "--help")
    assert all(name in text for name in ("reuse", "plan", "trace"))
    for name in ("reuse", "plan", "trace"):
        assert "--model" in succeed("bench", name, "--help")
    refuse("bench", "nothing", naming=["nothing"], code=2)
    assert run("bench").returncode == 2


# -- bench reuse -----------------------------------------------------------------------------------

@pytest.mark.parametrize("which", ["tiny-llama", "tiny-qwen2", "bundled"])
def test_prompts_have_the_sizes_asked_for(which, make_model, tmp_path):
    path = ROOT / "demo/model.gguf" if which == "bundled" else make_model(which, "f16")
    rows, _ = bench(path, tmp_path / "x.csv", chunks="2,3,5", chunk_tokens="24,33", rounds=1,
                    policies="full")
    heads = {r["prompt_tokens"] - r["chunks"] * r["chunk_tokens"] - QUESTION for r in rows}
    assert len(heads) == 1 and 1 < heads.pop() <= len(HEAD) + 16
    assert len(rows) == 6 * (1 + 3)


def test_the_accounts_add_up(model, tmp_path):
    rows, _ = bench(model, tmp_path / "x.csv")
    assert len(rows) == 2 * (1 + 3 + 3 * 2)
    prompt, chunks = rows[0]["prompt_tokens"], 4 * 24
    head = prompt - chunks - QUESTION
    for r in rows:
        assert r["prompt_tokens"] == prompt and r["ttft_us"] > r["plan_us"] >= 0
    for r in only(rows, policy="off"):
        assert (r["order"], r["reused_tokens"], r["gain"]) == ("new", 0, 1)
    for r in only(rows, policy="prefix"):
        assert r["recomputed_tokens"] == 0
        assert r["bound"] == pytest.approx(prompt / (prompt - r["reused_tokens"]), abs=1e-2)
        if r["order"] == "same":
            assert r["reused_tokens"] == prompt - QUESTION
    for r in only(rows, policy="fusion"):
        known = chunks / 2 if r["order"] == "half-new" else chunks
        again = math.ceil(r["recompute"] * chunks)
        if r["order"] != "half-new":
            assert r["recomputed_tokens"] == again
            assert r["reused_tokens"] == head + known - again
        assert head <= r["reused_tokens"] <= head + known
        new = (chunks - known + QUESTION) / prompt
        assert r["bound"] == pytest.approx(1 / (r["recompute"] + new), rel=1e-3)


def test_every_policy_is_measured(model, tmp_path):
    rows, _ = bench(model, tmp_path / "x.csv", "--alpha", "0.5", orders="shuffled", rounds=1,
                    policies="prefix,set,full,random,h2o,blend,craft,fusion")
    cells = [(r["policy"], r["recompute"]) for r in rows]
    selecting = [(p, r) for p in ("random", "h2o", "blend", "fusion") for r in (0, 0.3)]
    alone = [(p, 0) for p in ("off", "prefix", "set", "full", "craft")]  # alpha is craft's ratio
    assert sorted(cells) == sorted(alone + selecting)
    for r in rows:
        assert r["recomputed_tokens"] <= math.ceil(0.3 * 4 * 24) or r["policy"] == "craft"
        assert r["reused_tokens"] + r["recomputed_tokens"] <= r["prompt_tokens"] - QUESTION
        assert r["policy"] in ("off", "prefix") or r["reused_tokens"] > 0


def test_half_new_chunks_are_new_each_time(model, tmp_path):
    rows, _ = bench(model, tmp_path / "x.csv", policies="full", orders="half-new", rounds=3)
    head = rows[0]["prompt_tokens"] - 4 * 24 - QUESTION
    assert [r["reused_tokens"] for r in only(rows, policy="full")] == [head + 2 * 24] * 3


def test_sizes_that_do_not_fit_are_skipped(model, tmp_path):
    rows, done = bench(model, tmp_path / "x.csv", chunks="2,40", rounds=1)
    assert {r["chunks"] for r in rows} == {2}
    assert "40 x 24 tokens: skipped" in done.stdout and "context" in done.stdout
    rows, done = bench(model, tmp_path / "x.csv", "-ctk", "f32", kv_memory=2, chunks="2,16",
                       rounds=1)
    assert {r["chunks"] for r in rows} == {2}
    assert "16 x 24 tokens: skipped" in done.stdout and "--kv-memory" in done.stdout


def numbered(path):
    """Rounds of the sizes in a file."""
    with open(path, newline="") as f:
        return [(r["chunks"], r["round"]) for r in csv.DictReader(f)]


def test_a_run_goes_on_where_it_ended(model, tmp_path):
    path, cells = tmp_path / "x.csv", 1 + 3 + 3 * 2
    bench(model, path, "--resume", chunks="2", rounds=1)  # the file begins
    lines = path.read_text().splitlines(keepends=True)
    assert len(lines) == 1 + cells
    _, done = bench(model, path, "--resume", chunks="2,3", rounds=2)
    assert path.read_text().startswith("".join(lines))
    order = [x for i, x in enumerate(numbered(path)) if i % cells == 0]
    assert order == [("2", "1"), ("2", "2"), ("3", "1"), ("3", "2")]
    # with everything known nothing is run, and the tables are the same
    before = path.read_text()
    _, again = bench(model, path, "--resume", chunks="2,3", rounds=2)
    assert path.read_text() == before
    assert done.stdout == again.stdout and "3 x 24 tokens" in again.stdout


def test_a_round_that_was_cut_off_is_run_again(model, tmp_path):
    path, cells = tmp_path / "x.csv", 1 + 3 + 3 * 2
    bench(model, path, chunks="2")
    whole = path.read_text()
    path.write_text(whole[:-40])
    bench(model, path, "--resume", chunks="2")
    assert [r for _, r in numbered(path)] == ["1"] * cells + ["2"] * (cells - 1) + ["2"] * cells
    again = path.read_text()
    bench(model, path, "--resume", chunks="2")
    assert path.read_text() == again
    refuse("bench", "reuse", "-m", model, "--resume", naming=["--csv"], code=2)
    path.write_text("question,answer")
    refuse("bench", "reuse", "-m", model, "--resume", "--csv", path, naming=[path])
    assert path.read_text() == "question,answer"


def test_the_sweep_in_parts(model, tmp_path):
    def sweep(*arguments, code=0):
        done = subprocess.run([ROOT / "bench/reuse.sh", "-o", tmp_path / "out", *arguments], capture_output=True,
                              text=True, env={**os.environ, "SPOLIA": str(PROGRAM)})
        assert done.returncode == code, done.stderr
        return done
    small = ["--", "-c", "512", "--chunks", "2", "--chunk-tokens", "24", "--rounds", "1", "--ratios", "0,0.3"]
    done = sweep("-p", "main,orders", model, *small)
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        f"{part}.csv" for part in ("main", "orders")}
    assert numbered(tmp_path / "out/main.csv") == [("2", "1")] * (1 + 2 + 4 * 2)
    assert sweep("-p", "main,orders", model, *small).stdout == done.stdout  # nothing is left to do
    assert "main" in sweep("--help").stdout
    assert "magic" in sweep("-p", "magic", model, code=2).stderr
    assert "give a model" in sweep(code=2).stderr


def test_the_time_that_was_given(model, tmp_path):
    _, done = bench(model, tmp_path / "x.csv", "--minutes", "1", rounds=1)
    assert "--resume" not in done.stdout  # it was enough
    assert "4 x 24 tokens" in done.stdout


@pytest.mark.parametrize("options, word", [
    (["--chunks", "4,"], "chunks"), (["--chunks", "0"], "chunks"), (["--chunks", "1.5"], "chunks"),
    (["--chunks", ",".join(["1"] * 33)], "chunks"), (["--chunk-tokens", "many"], "chunk-tokens"),
    (["--ratios", "0.5,2"], "ratios"), (["--ratios", "nan"], "ratios"), (["--policies", "magic"], "magic"),
    (["--orders", "same,"], "orders"), (["--orders", "x" * 300], "orders"),
    (["--rounds", "0"], "rounds"), (["--question-tokens", "-1"], "question")])
def test_usage(options, word, model):
    refuse("bench", "reuse", "-m", model, *options, naming=[word], code=2)


def test_refusals(model, tmp_path):
    small = ["--chunks", "2", "--chunk-tokens", "24", "--rounds", "1"]
    refuse("bench", "reuse", "-m", tmp_path / "none.gguf", *small, naming=["none.gguf"])
    refuse("bench", "reuse", "-m", model, *small, "--question-tokens", "1", naming=["too few"])
    out = tmp_path / "no/such/folder.csv"
    refuse("bench", "reuse", "-m", model, *small, "--csv", out, naming=[out])


# -- bench plan ------------------------------------------------------------------------------------

def test_planning_with_many_chunks_known(model):
    out = succeed("bench", "plan", "-m", model, "--known", 300, "--rounds", 20, "--chunks", 5,
                  "--policies", "full,craft,h2o,fusion,prefix")
    first, _, *lines = out.splitlines()
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
    out = succeed("bench", "plan", "-m", model, "--known", 5000, "--rounds", 2, "--kv-memory", 4)
    assert "KV memory holds " in out.splitlines()[0]
    refuse("bench", "plan", "-m", model, "--known", 1, naming=["range"], code=2)
    refuse("bench", "plan", "-m", model, "--rounds", 1, "--policies", "magic", "--known", 10,
           naming=["magic"])


# -- bench trace -----------------------------------------------------------------------------------

DOCUMENTS = [{"title": f"T{i}", "text": f"The {w} is number {i}."}
             for i, w in enumerate(["cat", "dog", "bird", "fish", "horse"])]


def trace(model, lines, *options):
    text = "".join(json.dumps(x) + "\n" for x in lines)
    return [json.loads(x) for x in
            succeed("bench", "trace", "-m", model, *options, input=text).splitlines()]


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
    assert [len(a["tokens"]) <= 1 for a in accounts] == [True] * 3


def test_a_small_cache_forgets(model):
    lines = [{"chunks": [d], "question": "Q"} for d in DOCUMENTS * 2]
    warm = trace(model, lines, "--reuse", "full")
    tight = trace(model, lines, "--reuse", "full", "--kv-tokens", 192)
    chunks = [[a["segments"][1]["reused"] > 0 for a in x] for x in (warm, tight)]
    assert chunks[0] == [False] * 5 + [True] * 5
    assert not all(chunks[1][5:])


@pytest.mark.parametrize("line, word", [
    ("nonsense", "line 1 is not JSON"), ('{"question": "x"}', "chunks"), ('{"chunks": []}', "question"),
    ('{"chunks": [], "question": 7}', "question"), ('{"chunks": [], "question": "x", "system": 1}', "system"),
    ('{"chunks": ["x"], "question": "x"}', "text of a chunk"),
    ('{"chunks": [{"text": "x", "title": 1}], "question": "x"}', "title of a chunk")])
def test_a_line_of_a_trace_that_is_wrong(line, word, model):
    refuse("bench", "trace", "-m", model, naming=[word], input=line + "\n")
    good = json.dumps({"chunks": [], "question": "Q"})
    done = run("bench", "trace", "-m", model, input=good + "\n" + line + "\n")
    assert done.returncode == 1 and len(done.stdout.splitlines()) == 1 and "line 2" in done.stderr


# -- bench/reuse_decay.py --------------------------------------------------------------------------

def test_reuse_over_many_queries(model, tmp_path):
    docs = [{"id": f"d{i}", "title": f"T{i}", "text": f"What number {i} says. " * 3} for i in range(12)]
    ids = [d["id"] for d in docs]
    questions = [{"question": f"Q{i}?", "doc_ids": ids[i:i + 2], "context_doc_ids": ids[i:i + 6]}
                 for i in range(0, 6, 2)]
    for name, lines in (("docs", docs), ("questions.dev", questions)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    command = [sys.executable, ROOT / "bench/reuse_decay.py", "-m", model, "--data", tmp_path, "--queries", "12",
               "--docs", "4", "--cache", "2", "--window", "4", "--spolia", PROGRAM,
               "--csv", tmp_path / "x.csv", "--svg", tmp_path / "x.svg"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    with open(tmp_path / "x.csv", newline="") as f:
        rows = list(csv.DictReader(f))
    assert len(rows) == 12
    first, last = rows[0], rows[-1]
    assert all(float(first[p]) == 0 for p in first if p != "query")
    assert float(last["full"]) > float(last["fusion 15 %"]) > 0
    assert ElementTree.parse(tmp_path / "x.svg").getroot().tag.endswith("svg")


def test_queue_compares_orders(model):
    """Every order answers the same requests; a cache that holds a part is used more when cached prompts go first."""
    lines = succeed("bench", "queue", "-m", model, "-n", 120, "--documents", 60, "--chunk-tokens", 32, "--chunks", 2,
                    "--rounds", 1, "--kv-memory", 2, "--json").splitlines()
    runs = {run["order"]: run for run in map(json.loads, lines)}
    assert list(runs) == ["fcfs", "reorder", "lpm", "lsp"]
    assert runs["fcfs"]["ttft_ratio"] == 1 and all(run["sched_us"] > 0 for run in runs.values())
    assert runs["lpm"]["cached"] > runs["fcfs"]["cached"] > 0
    runs = [succeed("bench", "queue", "-m", model, "-n", 300, "--documents", 60, "--chunk-tokens", 32, "--chunks", 2,
                    "--rounds", 1, "--kv-memory", 2, "--orders", "fcfs,reorder", "--load", 1.05, "--clock", "tokens",
                    "--json").splitlines() for _ in range(2)]
    first, second = ([{**json.loads(line), "sched_us": 0} for line in run] for run in runs)
    assert first == second  # computed tokens are the same every time
    assert first[1]["tokens"] < first[0]["tokens"] and first[1]["ttft_ratio"] > 1.1
    refuse("bench", "queue", "-m", model, "--load", 1, "--rate", 1, naming=["--rate goes with --load"], code=2)
    refuse("bench", "queue", "-m", model, "--clock", "sun", naming=["sun", "time or tokens"], code=2)
    refuse("bench", "queue", "-m", model, "--orders", "best", naming=["best", "reorder, fcfs"])
    refuse("bench", "queue", "-m", model, "--documents", 1, "--chunks", 2, naming=["range"], code=2)
