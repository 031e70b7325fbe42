"""Sparse decoding through the program and the server: what it saves is in the account, and k = all changes nothing."""
import json
import re
import subprocess
import sys
import time

import pytest

from conftest import bench_sparse, ROOT, refuse, run, succeed
from serving import Server

MODEL = ROOT / "demo/model.gguf"
DOCS = sorted((ROOT / "demo/docs").rglob("*.*"))
ALL, SOME = "sparse:100%,depth=0", "sparse:20%,depth=0"


@pytest.fixture(scope="module")
def prompt():
    """About 1,700 tokens: long enough that a fifth of it is not all of it."""
    text = "\n\n".join(p.read_text() for p in DOCS if p.suffix in (".md", ".txt"))[:5000]
    return f"{text}\n\nQuestion: Who is the keeper of the harbour?\nAnswer:"


def generate(prompt, *options):
    return json.loads(succeed("run", "-m", MODEL, "-f", "-", "-n", "24", "--json", *options, input=prompt))


def test_everything_is_exact(prompt):
    exact, everything = generate(prompt), generate(prompt, "--decode", ALL)
    assert "decode" not in exact
    assert everything["tokens"] == exact["tokens"]
    assert everything["decode"]["keys_read"] == 1
    assert everything["decode"]["sparse_tokens"] >= len(exact["tokens"]) - 1


@pytest.mark.parametrize("selector", ["bounds", "quest", "hash128", "hash256", "keys4", "refine=2", "refine=1"])
def test_a_part_is_read(prompt, selector):
    got = generate(prompt, "--decode", f"{SOME},{selector}")["decode"]
    assert 0.15 < got["keys_read"] < 0.3
    assert got["summary_bytes"] > 0 and got["lists_reused"] == 0


def test_a_second_stage_finds_more_of_the_attention(tmp_path):
    """One stage finds less of what an exact choice would; keys in 4 bits nearly all of it."""
    model, index = tmp_path / "m.gguf", tmp_path / "demo.db"
    model.write_bytes(MODEL.read_bytes())
    succeed("index", ROOT / "demo/docs", "-o", index)
    how = ["sparse:10%,depth=0,refine=1", "sparse:10%,depth=0", "sparse:10%,depth=0,keys4"]
    said = succeed("profile", "--decode", "-m", model, "-i", index, "--questions", ROOT / "demo/questions.jsonl",
                   "--depth", "2400", "--most", "6", "-n", "12", *[x for h in how for x in ("--compare", h)])
    rows = {line.split()[0]: line.split() for line in said.splitlines() if line.startswith("sparse")}
    one, two, keys = (float(rows[h][rows[h].index("%", 8) + 1]) for h in how)
    assert one < two - 3 and two > 95 and keys > 97, said
    n_questions, _, _, n_tokens = said.split()[:4]  # of a prompt, on average
    assert n_questions == "6" and 2200 < int(n_tokens) < 2600, said


def test_long_contexts(tmp_path):
    """The demo's questions among thousands of tokens: the choice is nearly an exact one."""
    subprocess.run([sys.executable, ROOT / "bench/long_contexts.py", tmp_path], check=True)
    succeed("index", tmp_path / "docs", "-o", tmp_path / "docs.db")
    said = succeed("profile", "--decode", "-m", tmp_path / "model.gguf", "-i", tmp_path / "docs.db", "--questions",
                   ROOT / "demo/questions.jsonl", "--depth", "5000", "-k", "40", "-c", "6000", "--most", "1", "-n", "4",
                   "--compare", "sparse:10%")
    row = next(line.split() for line in said.splitlines() if line.startswith("sparse"))
    assert float(row[8 + 2]) > 95, said


def test_reused_chunks_are_read_in_part(prompt):
    """Chunks at other positions than those they were computed for."""
    server = Server("--reuse", "full", "--decode", SOME)
    documents = [{"id": str(i), "text": part} for i, part in enumerate(prompt.split("\n\n")) if len(part) > 40]
    try:
        for turned in (documents, documents[::-1]):
            status, answer = server.call("/v1/chat/completions", {
                "messages": [{"role": "user", "content": "Who is the keeper of the harbour?"}],
                "documents": turned, "max_tokens": 8, "ignore_eos": True, "temperature": 0})
            assert status == 200 and 0.15 < answer["spolia"]["decode"]["keys_read"] < 0.4, answer
        assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] > 500
    finally:
        assert server.stop() == 0, server.said


def test_the_guard_reports_on_reuse_and_on_sparse_decoding(start, prompt):
    s = start("--reuse", "full", "--decode", SOME, "--guard", 1)
    documents = [{"text": part} for part in prompt.split("\n\n") if len(part) > 40]
    for turned in (documents, documents[::-1]):
        status, answer = s.call("/v1/chat/completions", {
            "messages": [{"role": "user", "content": "Who?"}], "documents": turned, "max_tokens": 8, "ignore_eos": True})
        assert status == 200 and answer["spolia"]["decode"]["keys_read"] < 0.4, answer
    end, counts = time.time() + 300, []
    while len(counts) < 2:
        assert time.time() < end, counts
        counts = re.findall(r'^spolia:guard_checked_total{policy="(.*?)"} (\d+)$', s.call("/metrics")[1], re.M)
    assert len({name for name, _ in counts}) == 2 and all(int(n) > 0 for _, n in counts), counts


@pytest.mark.parametrize("how, why", [("sparse", "short"), ("sparse:4096,depth=1", "all")])
def test_why_all_is_read(prompt, how, why):
    got = generate(prompt[-900:], "--decode", how)["decode"]
    assert got["full"] == why and got["sparse_tokens"] == 0 and got["kv_bytes"] == 0


def test_the_account_is_shown(prompt):
    said = run("run", "-m", MODEL, "-f", "-", "-n", "4", "--decode", SOME, input=prompt).stderr
    assert "sparse decoding of 3 tokens: read " in said and "of summaries to choose (" in said
    said = run("run", "-m", MODEL, "-f", "-", "-n", "4", "--decode", "sparse", input=prompt).stderr
    assert "decoded with full attention: the prompt is too short" in said


def test_the_account_counts_bytes(prompt):
    """A tenth of the prompt is read, and of the summaries what the two stages read."""
    got = generate(prompt, "--decode", "sparse,depth=0")["decode"]
    assert got["full"] == "" and 0 < got["choose_ms"]
    assert abs(got["kv_bytes"] / got["full_bytes"] - got["keys_read"]) < 1e-6 and got["keys_read"] < 0.2
    assert 0 < got["choice_bytes"] < got["sparse_tokens"] * got["summary_bytes"] < got["full_bytes"]


def test_bad_words_are_named():
    refuse("run", "-m", MODEL, "-p", "x", "--decode", "sparse:10%,best", naming=["best"], code=2)


def test_settings_are_compared_with_heads_of_other_questions(tmp_path):
    """The heads are those of the first half, whatever the file beside the model said before."""
    model, index, half = tmp_path / "m.gguf", tmp_path / "demo.db", tmp_path / "half.jsonl"
    model.write_bytes(MODEL.read_bytes())
    succeed("index", ROOT / "demo/docs", "-o", index)
    lines = (ROOT / "demo/questions.jsonl").read_text().splitlines()[:4]
    (tmp_path / "all.jsonl").write_text("\n".join(lines) + "\n")
    half.write_text("\n".join(lines[:2]) + "\n")
    heads = tmp_path / "m.gguf.heads.json"

    def profile(questions, *more):
        said = succeed("profile", "--decode", "-m", model, "-i", index, "--questions", questions, "-n", "8", *more)
        return [line for line in said.splitlines() if line.startswith("sparse")], json.loads(heads.read_text())

    how = ["--compare", SOME + ",reuse"]
    rows, found = profile(tmp_path / "all.jsonl", *how)
    assert found == profile(half)[1]
    other = {**found, "importance": [[0 for _ in layer] for layer in found["importance"]]}
    heads.write_text(json.dumps(other))
    assert profile(tmp_path / "all.jsonl", *how) == (rows, found)
    refuse("profile", "--decode", "-m", model, "-i", index, "--questions", half, "--most", "1", *how, naming=["--compare", "two"])


def test_heads_are_profiled(prompt, tmp_path):
    """What profile finds is used by the next program, and a damaged file is named."""
    model, index = tmp_path / "m.gguf", tmp_path / "demo.db"
    model.write_bytes(MODEL.read_bytes())
    succeed("index", ROOT / "demo/docs", "-o", index)
    said = succeed("profile", "--decode", "-m", model, "-i", index, "--questions", ROOT / "demo/questions.jsonl", "--depth", "900",
                   "--most", "2", "-n", "4", "--compare", ALL, "--compare", SOME + ",reuse=0.8")
    rows = {line.split()[0]: line.split()[1:] for line in said.splitlines() if line.startswith("sparse")}
    assert rows[ALL][:2] == ["0.0000", "100.0"] and float(rows[SOME + ",reuse=0.8"][5]) >= 0
    heads = tmp_path / "m.gguf.heads.json"
    assert len(json.loads(heads.read_text())["importance"]) == 6
    assert "heads measured with 1 questions, settings compared with others" in said
    assert said.count("threshold") == 4

    def decoded(how):
        return json.loads(succeed("run", "-m", model, "-f", "-", "-n", "24", "--json", "--decode", f"{SOME},{how}",
                                  input=prompt))["decode"]

    some, few, none = (decoded(how) for how in ("reuse", "reuse,eta=1,power=0.01", "reuse=1"))
    assert some["lists_reused"] > few["lists_reused"] and none["lists_reused"] == 0
    assert some["choice_bytes"] == pytest.approx(none["choice_bytes"] * (1 - some["lists_reused"]), rel=0.01)
    heads.write_text('{"version": 1, "importance": [[0, 1]]}')
    refuse("run", "-m", model, "-p", "x", naming=["m.gguf.heads.json", "importance"])


def test_the_bench_compares(tmp_path):
    said = bench_sparse("-m", MODEL, "--sparse", "20%", "--depths", "1024,600", "--batches", "1,2", "--rounds", "2", "-n", "2").stdout
    rows = [line.split() for line in said.splitlines()[2:]]
    assert [(r[0], r[1]) for r in rows] == [("1", "1024"), ("2", "1024"), ("1", "600"), ("2", "600")]
    for r in rows:
        assert float(r[2]) > 0 and float(r[5]) > 1 and 15 < float(r[8]) < 40, r
    assert "best" in bench_sparse("-m", MODEL, "--selector", "best", code=1).stderr
    assert "at most 8" in bench_sparse("-m", MODEL, "--batches", "9", code=2).stderr


def test_the_server_has_the_field(prompt):
    with Server("--decode", "sparse:50%,depth=0") as server:
        def ask(**fields):
            return server.call("/v1/completions", {"prompt": prompt, "max_tokens": 8, "temperature": 0, **fields})

        status, default = ask()
        assert status == 200 and 0.45 < default["spolia"]["decode"]["keys_read"] < 0.6
        status, exact = ask(decode="exact")
        assert status == 200 and "decode" not in exact["spolia"]
        status, everything = ask(decode=ALL)
        assert everything["choices"][0]["text"] == exact["choices"][0]["text"]
        sums = [answer["spolia"]["decode"] for answer in (default, everything)]
        for name, field in (("sparse_tokens", "sparse_tokens"), ("sparse_kv_bytes", "kv_bytes"),
                            ("sparse_full_kv_bytes", "full_bytes"), ("sparse_choice_bytes", "choice_bytes")):
            assert server.metric(f"{name}_total") == sum(s[field] for s in sums) > 0, name
        status, refused = ask(decode="half")
        assert status == 400 and "half" in refused["error"]["message"]
        assert ask(decode=3)[0] == 400
