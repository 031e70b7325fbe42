"""`spolia bench`: prompts have the sizes that were asked for, and the accounts add up. No time is held to anything here."""
import csv
import math
import os
import subprocess

import pytest

from conftest import EMULATED, PROGRAM, ROOT, choices, refuse, run, succeed
from support import faults

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
    for name in ("reuse", "prefill", "decode"):
        assert name in text and "--model" in succeed("bench", name, "--help")
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
    other, = only(rows, policy="prefix", order="shuffled", round=1)  # an order not seen before
    assert other["reused_tokens"] < prompt - QUESTION
    for r in only(rows, policy="fusion"):
        known = chunks / 2 if r["order"] == "half-new" else chunks
        again = math.ceil(r["recompute"] * (chunks - 24))  # the first chunk follows the head, as its copy did: it is exact
        if r["order"] != "half-new":
            assert r["recomputed_tokens"] == again
            assert r["reused_tokens"] == head + known - again
        assert head <= r["reused_tokens"] <= head + known
        new = (chunks - known + QUESTION) / prompt
        assert r["bound"] == pytest.approx(1 / (r["recompute"] + new), rel=1e-3)


def test_every_policy_is_measured(model, tmp_path):
    rows, done = bench(model, tmp_path / "x.csv", "--alpha", "0.5", orders="shuffled", rounds=1,
                       policies=",".join(choices("ask", "reuse")[1:]) + ",craft:alpha=1,focus=0")
    table = [[cell.strip() for cell in line.split("|")] for line in done.stdout.splitlines() if line.endswith(" us |")]
    for r, said in zip(rows, table, strict=True):
        assert float(said[7].rstrip(" %")) == pytest.approx(100 * r["gain"] / r["bound"], abs=1)
    cells = [(r["policy"], r["recompute"]) for r in rows]
    alone = ["off", "prefix", "set", "full", "craft:alpha=0.5", "craft:alpha=1;focus=0"]  # alpha is craft's ratio
    selecting = [(p, r) for p in choices("ask", "reuse") if p not in (*alone, "craft") for r in (0, 0.3)]
    assert sorted(cells) == sorted([(p, 0) for p in alone] + selecting)
    for r in rows:
        assert r["recomputed_tokens"] <= math.ceil(0.3 * 4 * 24) or r["policy"].startswith("craft")
        assert r["reused_tokens"] + r["recomputed_tokens"] <= r["prompt_tokens"] - QUESTION
        assert r["policy"] in ("off", "prefix") or r["reused_tokens"] > 0


def test_half_new_chunks_are_new_each_time(model, tmp_path):
    rows, _ = bench(model, tmp_path / "x.csv", policies="full", orders="half-new", rounds=3)
    head = rows[0]["prompt_tokens"] - 4 * 24 - QUESTION
    assert [r["reused_tokens"] for r in only(rows, policy="full")] == [head + 2 * 24] * 3


@pytest.mark.skipif(EMULATED, reason="the library of faults is of this machine")
def test_a_measurement_that_fails_ends_the_run(model, tmp_path):
    """One allocation of the last ones fails, most of which are of prompts: a run that ends well has measured everything."""
    control = faults.Faults(tmp_path, faults.build_preload(tmp_path, ROOT))
    arguments = [PROGRAM, "bench", "reuse", "-m", model, "-t", "1", "--chunks", "2", "--chunk-tokens", "24", "--policies", "full",
                 "--ratios", "0", "--orders", "same", "--question-tokens", "20", "--rounds", "1", "--csv", tmp_path / "x.csv"]

    def fails(n):
        """What was said if the n-th allocation failed and the run with it; "": it ended well; None: there is no n-th one."""
        control.fail_nth(n)
        done = subprocess.run([str(a) for a in arguments], env=control.env(tmp_path), capture_output=True, text=True, timeout=300)
        has_failed = control.has_failed()
        control.fail_nth(0)
        assert done.returncode in (0, 1), (n, done.stderr)
        if done.returncode:
            assert done.stderr.startswith("spolia: "), (n, done.stderr)
            return done.stderr
        with open(tmp_path / "x.csv", newline="") as f:
            assert [float(r["prompt_tokens"]) > 68 for r in csv.DictReader(f)] == [True] * 2, n
        return "" if has_failed else None
    few, many = 1, 2
    while fails(many) is not None:
        few, many = many, 2 * many
    while many - few > 8:
        half = (few + many) // 2
        few, many = (half, many) if fails(half) is not None else (few, half)
    said = [fails(n) for n in range(few - 400, few, 17)]
    assert sum(map(bool, said)) > 10, said


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
    assert "-x" in sweep("-x", model, code=2).stderr and "after -p" in sweep("-p", code=2).stderr


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
