"""Both published models through every way of reuse: policies, exact prefixes, tiers, trees, sparse decoding, server.

SmolLM2 has 30 layers that see everything; gemma-3-270m has 15 with a window of 512 tokens and 3 without.
"""
import csv
import json

import pytest

from conftest import ROOT, choices, succeed
from serving import Server

COUNTRIES = ROOT / "demo/countries/docs"
NAMES = ("iceland", "chile", "japan", "kenya")
TRIPLES = "Heat\tdirected_by\tMichael Mann\nHeat\tstarred_actors\tAl Pacino\nAli\tdirected_by\tMichael Mann\n"
LIKE_FULL = ["off", "prefix", "set"]          # compute what full attention computes
AS_IT_IS = ["full"]                           # never recompute
EXACT = {"temperature": 0, "max_tokens": 6, "logprobs": 4}


@pytest.fixture(scope="module", params=["smollm2", "gemma3-270m"])
def model(request, real_model):
    return real_model(request.param)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """A folder of four short documents, its index, questions about one of them, and a graph."""
    home = tmp_path_factory.mktemp("shelf")
    (home / "docs").mkdir()
    for name in NAMES:
        (home / f"docs/{name}.md").write_text((COUNTRIES / f"{name}.md").read_text()[:420])
    (home / "questions.jsonl").write_text(json.dumps({"question": "When did people reach Iceland?", "answers": ["874"]}))
    (home / "films.tsv").write_text(TRIPLES)
    succeed("index", home / "docs", "-o", home / "docs.db", "--quiet")
    succeed("graph", "import", home / "films.tsv", "-o", home / "films.db")
    return home


@pytest.fixture(scope="module")
def long_text():
    """About 800 tokens, beyond Gemma's window, which end within a sentence, so that models continue."""
    return "\n\n".join((COUNTRIES / f"{name}.md").read_text() for name in NAMES)[:3600].rsplit(" ", 1)[0]


# -- reuse -----------------------------------------------------------------------------------------

def test_every_policy(model, shelf, tmp_path):
    """With all tokens recomputed a policy is full attention, up to the rounding of activations to 8 bits."""
    succeed("eval", "-m", model, "-q", shelf / "questions.jsonl", "-i", shelf / "docs.db", "-k", "2", "-n", "3",
            "-r", "1", "-ctk", "f32", "-o", tmp_path / "all")
    lines = [line for line in (tmp_path / "all.csv").read_text().splitlines() if line[0] != "#"]
    rows = {r["policy"]: r for r in csv.DictReader(lines)}
    assert set(rows) == set(choices("ask", "reuse"))
    copied = float(rows["full"]["kl_all"])
    assert copied > 1e-3 and int(rows["full"]["n_recomputed"]) == 0 and int(rows["full"]["n_reused"]) > 100
    for policy, row in rows.items():
        if policy in LIKE_FULL:
            assert float(row["kl_all"]) == 0, policy
        elif policy not in AS_IT_IS:
            assert int(row["n_recomputed"]) == int(row["n_chunk"]), policy
            assert float(row["kl_all"]) < 0.25 * copied, policy


def answer(server, prompt):
    status, made = server.call("/v1/completions", {**EXACT, "prompt": prompt})
    assert status == 200, made
    return made["choices"][0], made["usage"]["prompt_tokens_details"]["cached_tokens"]


def test_a_known_prefix_has_the_bits_of_a_cold_prompt_and_the_server_says_what_the_program_says(model, long_text):
    with Server("-c", 1024, "--guard", 0, model=model) as server:
        cold, none = answer(server, long_text)
        known, n_known = answer(server, long_text)
        answer(server, long_text[:2400])
        other, n_other = answer(server, long_text[:2400] + " and the")
    assert none == 0 and n_known > 500 and n_other > 300
    assert known["logprobs"] == cold["logprobs"] and known["text"] == cold["text"]
    said = json.loads(succeed("run", "-m", model, "-f", "-", "-n", "6", "-c", "1024", "--json",
                              input=long_text))
    assert said["text"] == cold["text"] and len(said["tokens"]) == 6
    again = json.loads(succeed("run", "-m", model, "-f", "-", "-n", "6", "-c", "1024", "--json",
                               input=long_text[:2400] + " and the"))
    assert again["text"] == other["text"]


# -- tiers -----------------------------------------------------------------------------------------

def ask(model, shelf, questions, *options):
    out = succeed("ask", "-m", model, "-i", shelf / "docs.db", "-k", "2", "-n", "4", "--guard", "0", "--json", *options,
                  input="".join(q + "\n" for q in questions))
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize("policy", ["prefix", "full"])
def test_the_disk_gives_what_the_device_gives(model, shelf, policy, tmp_path):
    question = "When did people reach Iceland?"
    cold, known = ask(model, shelf, [question] * 2, "--reuse", policy, "--store", tmp_path / "store")
    [stored] = ask(model, shelf, [question], "--reuse", policy, "--store", tmp_path / "store")
    assert {c["from"] for c in stored["chunks"]} == {"disk"}
    assert stored["text"] == known["text"]
    if policy == "prefix":
        assert known["text"] == cold["text"]


def test_the_host_gives_what_the_device_gives(model, shelf):
    """Memory for two questions only: what the first has read is on the host when it is asked again."""
    questions = [f"What is known of {name}?" for name in (*NAMES, NAMES[0])]
    first, *_, again = ask(model, shelf, questions, "--reuse", "full", "--kv-memory", "6", "-c", "200", "-k", "1",
                           "--host-memory", "64M")
    assert {c["from"] for c in again["chunks"]} == {"host"}
    assert again["text"] == first["text"]


# -- trees and sparse decoding ---------------------------------------------------------------------

def test_trees(model, shelf):
    questions = ["who directed Heat", "who directed Ali", "who directed Heat"]
    run = lambda *more: [json.loads(line) for line in succeed(
        "ask", "-m", model, "--graph", shelf / "films.db", "--json", "-n", "4", *more,
        input="".join(q + "\n" for q in questions)).splitlines()]
    first, _, again = run()
    assert first["usage"]["reused_tokens"] == 0 and all(t["reused"] == t["tokens"] > 0 for t in again["trees"])
    assert again["text"] == first["text"]
    assert [a["text"] for a in run("--reuse", "off")] == [a["text"] for a in run()]


def test_sparse_decoding(model, long_text):
    made = lambda *more: json.loads(succeed("run", "-m", model, "-f", "-", "-n", "8", "-c", "1024", "--json",
                                            *more, input=long_text))
    exact, everything, some = made(), made("--decode", "sparse:100%,depth=0"), made("--decode", "sparse:20%,depth=0")
    assert len(exact["tokens"]) == 8 and everything["tokens"] == exact["tokens"] and everything["decode"]["keys_read"] == 1
    assert 0.1 < some["decode"]["keys_read"] < 0.4
