"""Questions over a knowledge graph: paths become trees, and nodes are reused by other questions."""
import json
import os

import pytest

from conftest import ROOT, refuse, run, succeed

MODEL = ROOT / "demo/model.gguf"
TRIPLES = """Heat\tdirected_by\tMichael Mann
Heat\tstarred_actors\tAl Pacino
The Insider\tdirected_by\tMichael Mann
The Insider\tstarred_actors\tAl Pacino
The Insider\twritten_by\tEric Roth
"""


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graph")
    (folder / "movies.tsv").write_text(TRIPLES)
    succeed("graph", "import", folder / "movies.tsv", "-o", folder / "movies.db")
    return folder / "movies.db"


def ask(graph, questions, *options):
    """One process; the account of each question."""
    text = "".join(q + "\n" for q in questions)
    out = succeed("ask", "-m", MODEL, "--graph", graph, "--json", *options, input=text)
    return [json.loads(line) for line in out.splitlines()]


def test_a_question_again_computes_the_question_only(graph):
    first, again = ask(graph, ["who directed Heat"] * 2)
    assert first["text"] == again["text"]
    assert first["usage"]["reused_tokens"] == 0
    question = again["segments"][-1]
    assert question["kind"] == "question"
    assert again["usage"]["computed_tokens"] == question["tokens"]
    assert [t["entity"] for t in again["trees"]] == ["Heat"]
    assert all(t["reused"] == t["tokens"] > 0 for t in again["trees"] + again["paths"])


def test_shifted_trees_are_found_at_other_positions(graph):
    """The tree of The Insider comes first or second; in shifted mode its positions differ."""
    first, second = ask(graph, ["who directed Heat and The Insider", "who wrote The Insider and Heat"], "--tree", "shifted",
                        "--paths", "50")
    assert sum(t["reused"] for t in first["trees"]) == 0
    assert all(t["reused"] == t["tokens"] > 0 for t in second["trees"])
    assert [t["entity"] for t in first["trees"]] == [t["entity"] for t in second["trees"]][::-1]
    exact = ask(graph, ["who wrote The Insider and Heat"], "--paths", "50")[0]
    assert exact["text"] != second["text"]  # its trees begin at the same position
    assert "--tree" in refuse("ask", "-m", MODEL, "--graph", graph, "--tree", "bent", "who", code=2)


def test_the_account_adds_up(graph):
    [a] = ask(graph, ["what did Al Pacino and Michael Mann make"])
    nodes = [s for s in a["segments"] if s["kind"] == "node"]
    assert [t["entity"] for t in a["trees"]] == ["Al Pacino", "Michael Mann"]
    assert sum(t["nodes"] for t in a["trees"]) == len(nodes)
    assert sum(t["tokens"] for t in a["trees"]) == sum(s["tokens"] for s in nodes)
    assert sum(t["paths"] for t in a["trees"]) == len(a["paths"]) < len(nodes)
    assert sum(t["paths"] for t in a["trees"]) == len(a["paths"])
    assert "Michael Mann is directed by of Heat. Heat starred actors Al Pacino." in [p["text"] for p in a["paths"]]


def test_another_question_reuses_what_its_paths_share(graph):
    _, second = ask(graph, ["who directed Heat", "who starred in Heat and The Insider"], "--hops", "1")
    by_entity = {t["entity"]: t for t in second["trees"]}
    assert by_entity["Heat"]["reused"] == by_entity["Heat"]["tokens"]
    assert by_entity["The Insider"]["reused"] == 0


def test_the_account_says_what_moved_for_a_long_answer(graph):
    """A random model: its answers do not end by themselves."""
    question, random = "what did Al Pacino and Michael Mann make", ("-m", ROOT / "tests/golden/tiny.gguf")
    long, short = (ask(graph, ["who starred in Heat and The Insider", question], *random, "-n", n)[1] for n in ("40", "8"))
    nodes = sum(s["tokens"] for s in long["segments"] if s["kind"] == "node")
    assert 0 < long["decode"]["packed_tokens"] <= nodes and "decode" not in short
    told = run("ask", *random, "--graph", graph, "-n", "40", question).stderr
    assert "tokens of nodes moved together for the answer" in told


@pytest.mark.parametrize("style", ["arrows", "sentences", "triplets"])
def test_reuse_changes_no_answer(graph, style):
    questions = ["who directed Heat", "who starred in The Insider", "who directed Heat", "what did Al Pacino make"]
    answers = [[a["text"] for a in ask(graph, questions, "--style", style, "--reuse", policy)]
               for policy in ("off", "prefix", "full")]
    assert answers[0] == answers[1] == answers[2]


def test_a_person_sees_paths_and_reuse(graph):
    done = run("ask", "-m", MODEL, "--graph", graph, "who directed Heat")
    assert done.returncode == 0 and done.stdout.strip()
    assert "Heat directed by Michael Mann." in done.stderr and "reused" in done.stderr


def test_refusals(graph, tmp_path):
    refuse("ask", "-m", MODEL, "--graph", graph, "zzz qqq", code=3, naming=["entity"])
    refuse("ask", "-m", MODEL, "--graph", tmp_path / "none.db", "x", naming=["none.db"])
    refuse("ask", "-m", MODEL, "--graph", graph, "--index", graph, "x", code=2, naming=["--index", "--graph"])
    refuse("ask", "-m", MODEL, "--graph", graph, "--style", "poem", "x", code=2, naming=["poem"])
    [empty] = ask(graph, ["zzz qqq"], "--allow-empty")
    assert empty["trees"] == empty["paths"] == []


def test_a_batch_survives_failures(graph):
    questions = ["who directed Heat", "who directed Heat" + " why" * 700, "zzz qqq", "who directed Heat"]
    done = run("ask", "-m", MODEL, "--graph", graph, "-c", "512", "-n", "4", "--paths", "3", "--json", input="\n".join(questions))
    accounts = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1 and [a["question"] for a in accounts] == questions
    assert [a.get("error", {}).get("code") for a in accounts] == [None, "E_CONTEXT", "E_NO_HIT", None]
    assert [bool(a["paths"]) for a in accounts] == [True, False, False, True]


def test_a_question_that_is_not_utf8_has_an_account(graph):
    question = os.fsdecode(b"who directed Heat \xff")
    a = json.loads(succeed("ask", "-m", MODEL, "--graph", graph, "--json", question))
    assert a["question"] == "who directed Heat \ufffd" and a["paths"] and a["trees"]


def test_the_demo_graph_is_answered(tmp_path):
    """demo/graph/model.gguf was trained on trees; in another order other nodes are known, and the answers are the same."""
    folder = ROOT / "demo/graph"
    succeed("graph", "import", folder / "triples.tsv", "-o", tmp_path / "demo.db")
    questions = [json.loads(line) for line in (folder / "questions.jsonl").read_text().splitlines()]

    def answers(some):
        out = succeed("ask", "-m", folder / "model.gguf", "--graph", tmp_path / "demo.db", "--json",
                      input="".join(q["question"] + "\n" for q in some))
        return {q["id"]: json.loads(line) for q, line in zip(some, out.splitlines())}
    first, back = answers(questions), answers(questions[::-1])
    right = [q["id"] for q in questions if first[q["id"]]["text"].strip() in q["answers"]]
    assert len(right) >= 18, set(first) - set(right)
    assert {i: a["text"] for i, a in first.items()} == {i: a["text"] for i, a in back.items()}
    assert sum(a["usage"]["reused_tokens"] for a in back.values()) > 0
