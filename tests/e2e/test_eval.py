"""spolia eval and spolia calibrate on the bundled model, held to what must be true of any model."""
import csv
import json
import os
import re
import shutil
import signal
import string
import subprocess
import time

import pytest

from conftest import PROGRAM, ROOT, choices, refuse, run, succeed

MODEL = ROOT / "demo/model.gguf"
FILE = ROOT / "demo/questions.jsonl"
QUESTIONS = [json.loads(line) for line in FILE.read_text().splitlines()]
SMALL = ["--policies", "off,prefix,full,fusion", "--ratios", "0.15,1", "--limit", "4", "-ctk", "f32"]
N_SETTINGS = 5
TIMES = {"ttft_ms", "speedup", "plan_ms"}


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    path = tmp_path_factory.mktemp("index") / "demo.db"
    succeed("index", ROOT / "demo/docs", "-o", path, "--quiet")
    return path


def rows_of(path):
    return list(csv.DictReader(line for line in path.read_text().splitlines() if line[0] != "#"))


def without_times(rows):
    return [{k: v for k, v in row.items() if k not in TIMES} for row in rows]


def evaluate(index, prefix, *options, questions=FILE):
    succeed("eval", "-m", MODEL, "--questions", questions, "--index", index, "--out", prefix, *options)
    return rows_of(prefix.with_name(prefix.name + ".csv"))


@pytest.fixture(scope="module")
def small(index, tmp_path_factory):
    """Prefix of a small run in one piece."""
    prefix = tmp_path_factory.mktemp("eval") / "small"
    evaluate(index, prefix, *SMALL)
    return prefix


def named(rows, policy, recompute="0"):
    found = [r for r in rows if (r["policy"], r["recompute"]) == (policy, recompute)]
    assert found
    return found


def normalise(text):
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


# -- what is measured ------------------------------------------------------------------------------

def test_ask_and_eval_give_and_count_the_same_answers(index, tmp_path):
    rows = evaluate(index, tmp_path / "off", "--policies", "off", "-n", "64")
    assert all(r["kv_deviation"] == "0" for r in rows)
    asked = succeed("ask", "-m", MODEL, "--index", index, "--reuse", "off", "--guard", "0", "--json",
                    input="".join(q["question"] + "\n" for q in QUESTIONS)).splitlines()
    asked = [json.loads(line)["text"].strip() for line in asked]
    assert asked == [r["answer"].strip() for r in rows]
    matched = [normalise(a) in map(normalise, q["answers"]) for a, q in zip(asked, QUESTIONS)]
    assert matched == [float(r["em"]) == 1 for r in rows] and sum(matched) > 30


def test_all_tokens_again_is_full_attention(small):
    rows = rows_of(small.with_name("small.csv"))
    for off, again in zip(named(rows, "off"), named(rows, "fusion", "1")):
        assert again["id"] == off["id"]
        assert again["answer"] == off["answer"]
        assert again["n_recomputed"] == off["n_chunk"]
        # sums in another order; kernels that round x to 8 bits make 2e-5 and 2e-3 of that, unmended copies 1 and 0.1
        assert float(again["kl_first"]) < 1e-4 and float(again["kl_all"]) < 1e-4
        assert float(again["kv_deviation"]) < 1e-2
        assert again["first_agrees"] == "1"


def test_reused_chunks_are_not_those_of_full_attention(small):
    for r in named(rows_of(small.with_name("small.csv")), "full"):
        layers = [float(x) for x in r["kv_layers"].split(";")]
        assert layers[0] < 1e-4 < 1e-2 < max(layers)
        assert float(r["kv_deviation"]) == pytest.approx(sum(layers) / len(layers), rel=1e-3)
        assert float(r["kl_first"]) > 0
        assert int(r["n_reused"]) > int(r["n_chunk"])  # the system text, too
        assert r["n_recomputed"] == "0"


def test_a_share_of_the_tokens_is_computed_again(small):
    for r in named(rows_of(small.with_name("small.csv")), "fusion", "0.15"):
        assert int(r["n_recomputed"]) == pytest.approx(0.15 * int(r["n_chunk"]), abs=1)


def with_answers(path, answers):
    """The first questions, with other reference answers."""
    lines = [{**q, "answers": [a]} for q, a in zip(QUESTIONS, answers)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_the_likelihood_of_the_reference_answer(small, index, tmp_path):
    own = [r["answer"].strip() for r in named(rows_of(small.with_name("small.csv")), "off")]
    options = ["--policies", "off,full,fusion", "--ratios", "1", "-ctk", "f32", "--measure", "likelihood"]
    likely = evaluate(index, tmp_path / "own", *options, questions=with_answers(tmp_path / "own.jsonl", own))
    wrong = evaluate(index, tmp_path / "wrong", *options,
                     questions=with_answers(tmp_path / "wrong.jsonl", own[1:] + own[:1]))
    for mine, other in zip(named(likely, "off"), named(wrong, "off")):
        assert float(mine["nll"]) + 1 < float(other["nll"])       # its own answer is what the model would say
        assert mine["em"] == "" and mine["f1"] == ""              # it was told the answer
    for off, again, full in zip(named(wrong, "off"), named(wrong, "fusion", "1"), named(wrong, "full")):
        # sums in another order, over tokens that the model finds very unlikely
        assert float(again["nll"]) == pytest.approx(float(off["nll"]), rel=5e-3)
        assert float(again["kl_all"]) < 0.1 * float(full["kl_all"]) + 1e-6
    cold = evaluate(index, tmp_path / "cold", *options, "--cold", questions=tmp_path / "wrong.jsonl")
    for warm, c in zip(named(wrong, "off"), named(cold, "off")):
        assert warm["nll"] == c["nll"]
    assert all(r["nll"] and r["kl_all"] for r in cold if r["policy"] != "off")


def test_answers_and_likelihood_in_one_run(small, index, tmp_path):
    questions = with_answers(tmp_path / "q.jsonl", [q["answers"][0] for q in QUESTIONS[:3]])
    options = ["--policies", "off,full", "-ctk", "f32"]
    both = evaluate(index, tmp_path / "both", *options, "--measure", "both", questions=questions)
    likely = evaluate(index, tmp_path / "nll", *options, "--measure", "likelihood", questions=questions)
    assert [r["nll"] for r in both] == [r["nll"] for r in likely] and all(r["nll"] for r in both)
    plain = evaluate(index, tmp_path / "plain", *options, questions=questions)
    assert [r["kl_all"] for r in both] == [r["kl_all"] for r in likely]
    scores = ["answer", "em", "f1", "n_answer", "n_reused"]
    assert [[r[k] for k in scores] for r in plain] == [[r[k] for k in scores] for r in both]
    cold = evaluate(index, tmp_path / "cold", *options, "--measure", "both", "--cold", questions=questions)
    assert all(r["nll"] and r["f1"] and r["answer"] for r in cold)
    refuse("eval", "-m", MODEL, "--questions", questions, "--index", index, "--measure", "luck", code=2,
           naming=["--measure"])


def test_answers_are_those_of_ask_and_scored_as_squad_does(small, index):
    text = "".join(q["question"] + "\n" for q in QUESTIONS[:4])
    out = succeed("ask", "-m", MODEL, "--index", index, "--ranked", "--reuse", "off", "--json", "-n", 32,
                  "-ctk", "f32", input=text)
    answers = [json.loads(line)["text"].strip() for line in out.splitlines()]
    rows = rows_of(small.with_name("small.csv"))
    assert [r["answer"].strip() for r in named(rows, "off")] == answers
    for r in rows:
        wanted = next(q["answers"] for q in QUESTIONS if q["id"] == r["id"])
        assert r["em"] == str(int(normalise(r["answer"]) in map(normalise, wanted)))


def test_the_summary_is_that_of_the_rows(small):
    rows = rows_of(small.with_name("small.csv"))
    summary = rows_of(small.with_name("small.summary.csv"))
    whole = [s for s in summary if s["kind"] == "all"]
    assert len(whole) == N_SETTINGS and {s["questions"] for s in whole} == {"4"}
    for s in whole:
        mine = named(rows, s["policy"], s["recompute"])
        for field in ("em", "f1", "rouge_l", "kl_first", "kl_all", "first_agrees"):
            assert float(s[field]) == pytest.approx(sum(float(r[field]) for r in mine) / 4, abs=1e-6)
        right = [(off, r) for off, r in zip(named(rows, "off"), mine) if off["em"] == "1"]
        assert float(s["lost"]) == pytest.approx(sum(r["em"] != "1" for _, r in right) / len(right))
        chunk = sum(int(r["n_chunk"]) for r in mine)
        assert float(s["recomputed"]) == pytest.approx(sum(int(r["n_recomputed"]) for r in mine) / chunk,
                                                       abs=1e-6)


def test_kinds_have_summaries_of_their_own(index, tmp_path):
    mixed = [q for kind in ("single", "bridge") for q in QUESTIONS if q["kind"] == kind][:40:16]
    file = tmp_path / "q.jsonl"
    file.write_text("".join(json.dumps(q) + "\n" for q in mixed))
    evaluate(index, tmp_path / "k", "--policies", "off,full", questions=file)
    summary = rows_of(tmp_path / "k.summary.csv")
    kinds = {q["kind"] for q in mixed}
    assert len(kinds) == 2
    assert {s["kind"] for s in summary} == {"all", *kinds}
    for kind in kinds:
        n = sum(q["kind"] == kind for q in mixed)
        assert {s["questions"] for s in summary if s["kind"] == kind} == {str(n)}


def test_every_policy_is_run(index, tmp_path):
    rows = evaluate(index, tmp_path / "all", "--limit", "1", "--ratios", "0.5")
    assert [r["policy"] for r in rows] == choices("ask", "reuse")
    recomputing = [r for r in rows if float(r["recompute"]) > 0]
    assert len(recomputing) > 5
    for r in recomputing:
        assert int(r["n_recomputed"]) == pytest.approx(0.5 * int(r["n_chunk"]), abs=8)  # one a chunk
        assert 0 < float(r["kv_deviation"]) < 1
    assert {r["answer"] for r in rows[:3]} == {rows[0]["answer"]}


def test_parameters_of_a_policy_are_settings(index, tmp_path):
    rows = evaluate(index, tmp_path / "p", "--limit", "1", "--ratios", "0.5,1",
                    "--policies", "random:seed=3,random,craft:alpha=0.3,focus=0,craft+fused:focus=1")
    assert [(r["policy"], float(r["recompute"]), float(r["alpha"])) for r in rows] == [
        ("off", 0, 0), ("random:seed=3", 0.5, 0), ("random:seed=3", 1, 0), ("random", 0.5, 0), ("random", 1, 0),
        ("craft:alpha=0.3,focus=0", 0, 0.3), ("craft+fused:focus=1", 0.5, 0), ("craft+fused:focus=1", 1, 0)]
    seeds = named(rows, "random:seed=3", "0.5") + named(rows, "random", "0.5")
    assert len({r["n_recomputed"] for r in seeds}) == 1 and len({r["kv_deviation"] for r in seeds}) == 2
    command = ("eval", "-m", MODEL, "-i", index, "-q", tmp_path / "none")
    refuse(*command, "--policies", "random:seed=x", naming=["--policies", "seed=x", "seed (0 to"], code=2)
    refuse(*command, "--policies", "full,fusion:alpha=1", naming=["fusion", "alpha=1", "none"], code=2)


def test_a_policy_may_have_a_share_of_its_own(index, tmp_path):
    rows = evaluate(index, tmp_path / "own", "-p", "full,fusion,inplace@0,fusion+fused@0.5,inplace@0.25", "-r", "0.15",
                    "--limit", "1", "-n", "1")
    assert [(r["policy"], r["recompute"]) for r in rows] == [
        ("off", "0"), ("full", "0"), ("fusion", "0.15"), ("inplace", "0"), ("fusion+fused", "0.5"), ("inplace", "0.25")]
    for bad in ("full@0.1", "fusion@2", "fusion@", "fusion@x", "craft:alpha=1@0.5"):
        refuse("eval", "-m", MODEL, "-q", FILE, "-i", index, "-p", bad, naming=["--policies", bad.split("@")[1]], code=2)


def test_solved_examples_precede_the_documents(index, tmp_path):
    """They make the short answers of the set likelier, and are none of the questions that are asked."""
    asked = with_answers(tmp_path / "asked.jsonl", [q["answers"][0] for q in QUESTIONS[:6]])
    examples = tmp_path / "examples.jsonl"
    examples.write_text("".join(json.dumps(q) + "\n" for q in QUESTIONS[6:10]))
    options = ["-p", "off", "--measure", "likelihood"]
    none = evaluate(index, tmp_path / "none", *options, questions=asked)
    some = evaluate(index, tmp_path / "some", *options, "--shots", "3", "--shots-from", examples, questions=asked)
    assert all(int(a["n_prompt"]) + 20 < int(b["n_prompt"]) for a, b in zip(none, some))
    assert all(a["n_chunk"] == b["n_chunk"] and a["nll"] != b["nll"] for a, b in zip(none, some))
    command = ["eval", "-m", MODEL, "-q", asked, "-i", index]
    refuse(*command, "--shots", "1", naming=["--shots-from"], code=2)
    refuse(*command, "--shots", "-1", naming=["--shots"], code=2)
    refuse(*command, "--shots", "5", "--shots-from", examples, naming=["examples.jsonl", "4 questions", "5"])
    refuse(*command, "--shots", "2", "--shots-from", FILE, naming=["questions.jsonl", "line 1", "asked.jsonl"])


@pytest.mark.parametrize("policy", ["fusion", "h2o", "fusion+fused", "inplace"])
def test_a_setting_does_not_depend_on_its_company(policy, index, tmp_path):
    """A question's plain copies are computed once for all settings; what a setting does with them is the same."""
    others = [p for p in ("full", "random", "h2o", "craft", "full+fused", "inplace") if p != policy]
    alone = evaluate(index, tmp_path / "alone", "--limit", "3", "-p", policy, "-r", "0.2", "--fuse", "2")
    among = evaluate(index, tmp_path / "among", "--limit", "3", "-p", ",".join([*others, policy]), "-r", "0.2",
                     "--fuse", "2")
    wanted = without_times(named(alone, policy, "0.2"))
    assert wanted == without_times(named(among, policy, "0.2")) and all(int(r["n_recomputed"]) > 0 for r in wanted)


def test_fused_copies_are_others_than_plain_ones(index, tmp_path):
    _, full, fused = evaluate(index, tmp_path / "fused", "--limit", "1", "--policies", "full,full+fused")
    assert fused["n_reused"] == full["n_reused"]
    assert fused["kv_layers"] != full["kv_layers"]


def test_given_documents_are_fused_with_similar_ones_of_an_index(index, tmp_path):
    names = QUESTIONS[0]["docs"] + QUESTIONS[1]["docs"]
    docs, file = tmp_path / "docs.jsonl", tmp_path / "q.jsonl"
    docs.write_text("".join(json.dumps({"id": n, "text": (ROOT / "demo/docs" / n).read_text()}) + "\n"
                            for n in names))
    file.write_text(json.dumps({**QUESTIONS[0], "docs": names}) + "\n")
    _, full, fused = evaluate(index, tmp_path / "both", "--docs", docs, "--policies", "full,full+fused",
                              questions=file)
    assert fused["n_chunk"] == full["n_chunk"]
    assert fused["kv_layers"] != full["kv_layers"]


def test_a_copy_fused_with_its_neighbour_is_exact_behind_it(tmp_path):
    """Two chunks in the order of their document: the second has seen the first, and only that."""
    docs, file = tmp_path / "docs.jsonl", tmp_path / "q.jsonl"
    lines = [{"id": "a", "text": "Larbar has a purple flag. Zolrat works as a nurse."},
             {"id": "b", "text": "It is governed by Zolrat. It lies on the river Nurkes.", "follows": "a"}]
    docs.write_text("".join(json.dumps(line) + "\n" for line in lines))
    file.write_text(json.dumps({"question": "Who governs Larbar?", "answers": ["Zolrat"], "context_doc_ids": ["a", "b"]}) + "\n")
    succeed("eval", "-m", MODEL, "-q", file, "-d", docs, "-o", tmp_path / "x", "-p", "full,full+fused",
            "--similar", "neighbour")
    _, full, fused = rows_of(tmp_path / "x.csv")
    assert float(full["kv_deviation"]) > 0.01
    assert float(fused["kv_deviation"]) < 1e-3 and float(fused["kl_first"]) < 1e-5
    assert fused["n_reused"] == full["n_reused"]


def test_cold_runs_live_on_earlier_questions(index, tmp_path):
    double = tmp_path / "q.jsonl"
    double.write_text("".join(json.dumps({**QUESTIONS[0], "id": i}) + "\n" for i in "ab"))
    first, second = named(evaluate(index, tmp_path / "cold", "--cold", "--policies", "full",
                                   questions=double), "full")
    assert first["n_reused"] == "0"
    assert int(second["n_reused"]) > int(second["n_chunk"])
    assert second["kv_layers"] == ""


def test_a_cold_run_that_goes_on_has_the_cache_of_one_in_one_piece(index, tmp_path):
    options = ["--cold", "--policies", "full", "-n", "8", "--limit"]
    whole = evaluate(index, tmp_path / "whole", *options, "8")
    evaluate(index, tmp_path / "part", *options, "6")
    assert without_times(evaluate(index, tmp_path / "part", *options, "8")) == without_times(whole)


def trace(index, folder, name, *options, memory="1"):
    """The first 20 questions twice, as a stream; its windows of 10 by setting, and the rows of the file."""
    questions = folder / "stream.jsonl"
    questions.write_text("".join(json.dumps({**q, "id": f"{k}-{i}"}) + "\n"
                                 for k in range(2) for i, q in enumerate(QUESTIONS[:20])))
    rows = evaluate(index, folder / name, "-p", "full,inplace@0.15", "--trace", folder / f"{name}.json", "--window", "10",
                    "--measure", "both", "-n", "2", "-k", "4", "-t", "1", "--kv-memory", memory, *options,
                    questions=questions)
    read = json.loads((folder / f"{name}.json").read_text())
    assert read["questions"] == 40 and read["window"] == 10 and read["kv_memory"] == int(memory) << 20
    return {s["policy"]: s["windows"] for s in read["settings"]}, rows


def test_a_trace_lives_in_bounded_memory(index, tmp_path):
    """Each setting keeps what earlier questions left, and no more than --kv-memory."""
    ample, rows = trace(index, tmp_path, "ample", memory="64")
    for policy in ("full", "inplace"):
        first, _, third, fourth = ample[policy]
        assert first["reused"] < 0.5 < 0.8 < third["reused"] and fourth["evicted"] == 0
        assert 4 * first["kv_bytes"] > fourth["kv_bytes"] > 1 << 20     # it needs more than 1 MiB
        assert [w["first"] for w in ample[policy]] == [1, 11, 21, 31] and ample[policy][-1]["last"] == 40
        second_round = [r for r in rows if r["policy"] == policy and r["id"].startswith("1-")]
        assert all(int(r["n_reused"]) + int(r["n_recomputed"]) > int(r["n_chunk"]) for r in second_round)
    small, rows = trace(index, tmp_path, "small")
    for policy in ("full", "inplace"):
        windows = small[policy]
        assert max(w["kv_bytes"] for w in windows) <= 1 << 20
        assert 0 < windows[0]["evicted"] < windows[1]["evicted"] < windows[2]["evicted"] < windows[3]["evicted"]
        assert 0.02 < windows[2]["reused"] < ample[policy][2]["reused"] - 0.2
    third = [r for r in rows if r["policy"] == "full"][20:30]
    assert small["full"][2]["f1"] == pytest.approx(sum(float(r["f1"]) for r in third) / 10, abs=1e-6)
    assert all(w["saw"] == 0 for w in ample["full"]) and ample["inplace"][3]["saw"] > 0.2   # plain copies saw the head
    refuse("eval", "-m", MODEL, "-q", FILE, "-i", index, "--window", "0", naming=["--window"], code=2)
    refuse("eval", "-m", MODEL, "-q", FILE, "-i", index, "-p", "full", "--limit", "1", "--trace", tmp_path / "no/file",
           naming=["no/file"])
    early = run("eval", "-m", MODEL, "-q", FILE, "-i", index, "-p", "full", "--limit", "1", "--trace", tmp_path / "no/file")
    assert early.returncode == 1 and early.stdout == "", "said before the run, not after it"


def test_tiers_of_a_trace_are_those_of_each_setting(index, tmp_path):
    alone, _ = trace(index, tmp_path, "alone")
    host, _ = trace(index, tmp_path, "host", "--host-memory", "64M")
    assert host["full"][2]["reused"] > alone["full"][2]["reused"] + 0.2
    trace(index, tmp_path, "store", "--store", tmp_path / "copies")
    assert all(any((tmp_path / "copies" / folder).iterdir()) for folder in "12")
    assert not (tmp_path / "copies/0").exists()         # off keeps nothing


def test_copies_from_the_host(index, tmp_path):
    """Unrounded they are those of the device; rounded ones differ a little."""
    options = ["--policies", "off,full", "--limit", "3", "-ctk", "f32", "-t", "1"]
    host = ["--host-memory", "256M", "--from-host"]
    rows = {}
    for name, more in (("device", []), ("host", host), ("q8_0", [*host, "--host-kv", "q8_0"])):
        succeed("eval", "-m", MODEL, "-q", FILE, "-i", index, *options, *more, "--out", tmp_path / name)
        rows[name] = without_times(rows_of(tmp_path / f"{name}.csv"))
    assert rows["host"] == rows["device"]
    exact, rounded = ([float(r["kl_first"]) for r in rows[n] if r["policy"] == "full"] for n in ("device", "q8_0"))
    assert exact != rounded and all(abs(a - b) < 0.05 for a, b in zip(exact, rounded))
    refuse("eval", "-m", MODEL, "-q", FILE, "-i", index, "--from-host", naming=["--host-memory"], code=2)


def test_given_documents_and_a_shuffled_order(tmp_path):
    docs, file = tmp_path / "docs.jsonl", tmp_path / "q.jsonl"
    names = [f"d{i}" for i in range(6)]
    docs.write_text("".join(json.dumps({"id": n, "title": n, "text": f"The colour of {n} is {n}. " * (i + 1)}) +
                            "\n" for i, n in enumerate(names)))
    file.write_text(json.dumps({"question": "Colour?", "answers": ["d1"], "context_doc_ids": names}) + "\n")

    def kl(*options):
        out = tmp_path / "given"
        succeed("eval", "-m", MODEL, "--questions", file, "--docs", docs, "--out", out, "--policies", "full",
                "--restart", *options)
        off, full = rows_of(tmp_path / "given.csv")
        assert off["id"] == "q1"
        return off["n_chunk"], full["kl_first"]

    plain, shuffled, other = kl(), kl("--order", "shuffled"), kl("--order", "shuffled", "--seed", "7")
    assert shuffled == kl("--order", "shuffled")
    assert plain[0] == shuffled[0] == other[0]
    assert len({plain[1], shuffled[1], other[1]}) > 1
    assert int(kl("-k", "2")[0]) < int(plain[0])


def test_questions_without_a_passage_are_named(index, tmp_path):
    file, lost = tmp_path / "q.jsonl", {"question": "Zzyzx qqxk?", "answers": ["yes"]}
    command = ["eval", "-m", MODEL, "--questions", file, "--index", index, "--policies", "full"]
    file.write_text(json.dumps(lost) + "\n")
    refuse(*command, naming=["q.jsonl", "no question has a passage"])
    file.write_text(json.dumps(lost) + "\n" + json.dumps(QUESTIONS[0]) + "\n")
    done = run(*command, "--quiet")
    assert done.returncode == 0 and "1 of 2 questions have no passage" in done.stderr


def test_a_folder_is_indexed_for_the_run_only(index, tmp_path):
    options = ["--policies", "full", "--limit", "2", "--quiet"]
    wanted = without_times(evaluate(index, tmp_path / "index", *options))
    home = tmp_path / "tmp"
    home.mkdir()
    subprocess.run([PROGRAM, "eval", "-m", MODEL, "--questions", FILE, "--docs", ROOT / "demo/docs", "--out",
                    tmp_path / "folder", *options], env={**os.environ, "TMPDIR": str(home)}, check=True,
                   stdout=subprocess.DEVNULL)
    assert without_times(rows_of(tmp_path / "folder.csv")) == wanted
    assert list(home.iterdir()) == []


# -- going on --------------------------------------------------------------------------------------

def test_an_interrupted_run_goes_on(small, index, tmp_path):
    part = tmp_path / "part"
    evaluate(index, part, *SMALL[:-4], "--limit", "2", "-ctk", "f32")
    whole = small.with_name("small.csv").read_text().splitlines(keepends=True)
    with open(tmp_path / "part.csv", "a") as f:  # cut off in the middle of the third question
        f.write("".join(whole[2 + 2 * N_SETTINGS:])[:150])
    rows = evaluate(index, part, *SMALL)
    assert without_times(rows) == without_times(rows_of(small.with_name("small.csv")))
    assert (without_times(rows_of(tmp_path / "part.summary.csv")) ==
            without_times(rows_of(small.with_name("small.summary.csv"))))


def test_known_questions_are_not_asked_again(small, index):
    before = small.with_name("small.csv").read_text()
    evaluate(index, small, *SMALL)
    assert small.with_name("small.csv").read_text() == before


def test_control_c_leaves_whole_questions(index, tmp_path):
    command = [PROGRAM, "eval", "-m", MODEL, "--questions", FILE, "--index", index, "--out", tmp_path / "cut",
               "--policies", "full", "--quiet"]
    file = tmp_path / "cut.csv"
    for _ in range(20):  # all may be over before Ctrl-C is heard
        process = subprocess.Popen(list(map(str, [*command, "--restart"])), stderr=subprocess.PIPE, text=True)
        while process.poll() is None and (not file.exists() or len(file.read_text().splitlines()) < 4):
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=300)[1]
        if process.returncode:
            break
    assert process.returncode == 1 and "interrupted" in said
    n_rows = len(rows_of(file))
    assert 2 <= n_rows < 2 * len(QUESTIONS) and n_rows % 2 == 0 and file.read_text()[-1] == "\n"


def test_other_settings_are_refused(small, index, tmp_path):
    command = ["eval", "-m", MODEL, "--questions", FILE, "--index", index, "--out", small]
    refuse(*command, *SMALL, "--ratios", "0.3", naming=["small.csv", "ratios", "0.15,1", "0.3", "--restart"])
    refuse(*command, *SMALL[:-2], naming=["small.csv", "kv-type"])
    refuse(*command, *SMALL, "--max-variants", "2", naming=["small.csv", "max-variants"])
    refuse(*command, *SMALL, "--decode", "window:64", naming=["small.csv", "decode", "window:64"])
    refuse(*command, *SMALL, "--evict", "lru", naming=["small.csv", "evict", "lru"])
    refuse(*command, *SMALL, "--keep-chunks", "1", naming=["small.csv", "keep-chunks"])
    damaged = tmp_path / "damaged.csv"
    lines = small.with_name("small.csv").read_text().splitlines(keepends=True)
    damaged.write_text("".join(lines[:3]) + lines[3].replace(",1,", ",one,", 1) + "".join(lines[4:]))
    command[-1] = tmp_path / "damaged"
    refuse(*command, *SMALL, naming=["damaged.csv", "line 4"])
    damaged.write_text("".join(lines[:3] + lines[7:]))
    refuse(*command, *SMALL, naming=["damaged.csv", "line 4", "id"])
    damaged.write_text("id,other\n1,2\n")
    refuse(*command, *SMALL, naming=["damaged.csv", "spolia eval"])
    assert damaged.read_text() == "id,other\n1,2\n"


# -- bad input -------------------------------------------------------------------------------------

BAD_LINES = {
    "no JSON": ("{", []),
    "no object": ("[1]", ["object"]),
    "no question": ('{"answers": ["x"]}', ["question", "missing"]),
    "an empty question": ('{"question": "", "answers": ["x"]}', ["question", "empty"]),
    "a question that is a number": ('{"question": 7, "answers": ["x"]}', ["question"]),
    "no answers": ('{"question": "x"}', ["answers", "missing"]),
    "an empty list": ('{"question": "x", "answers": []}', ["answers", "empty"]),
    "an answer that is a text": ('{"question": "x", "answers": "y"}', ["answers"]),
    "a number among them": ('{"question": "x", "answers": ["y", 2]}', ["answers", "entry 2"]),
    "documents of another type": ('{"question": "x", "answers": ["y"], "docs": "z"}', ["docs"]),
    "an id twice": ('{"question": "x", "answers": ["y"], "id": "a"}', ["id", "line 1"]),
}


@pytest.mark.parametrize("line, words", BAD_LINES.values(), ids=BAD_LINES)
def test_bad_questions_are_named(line, words, index, tmp_path):
    file = tmp_path / "bad.jsonl"
    file.write_text('{"question": "x", "answers": ["y"], "id": "a"}\n\n' + line + "\n")
    refuse("eval", "-m", MODEL, "--questions", file, "--index", index, naming=["bad.jsonl", "line 3", *words])


def test_bad_documents_and_options_are_named(index, tmp_path):
    docs, file = tmp_path / "docs.jsonl", tmp_path / "q.jsonl"
    command = ["eval", "-m", MODEL, "--questions", file]
    file.write_text('{"question": "x", "answers": ["y"], "docs": ["here", "gone"]}\n')
    docs.write_text('{"id": "here", "text": "t"}\n{"id": "here", "text": "t"}\n')
    refuse(*command, "--docs", docs, naming=["docs.jsonl", "line 2", "id"])
    docs.write_text('{"id": "here", "text": 1}\n')
    refuse(*command, "--docs", docs, naming=["docs.jsonl", "line 1", "text"])
    docs.write_text('{"id": "here", "title": "t"}\n')
    refuse(*command, "--docs", docs, naming=["docs.jsonl", "line 1", "field text is missing"])
    docs.write_text('{"id": "here", "contents": "t"}\n')
    refuse(*command, "--docs", docs, naming=["q.jsonl", "line 1", "docs", "gone"])
    docs.write_text('{"id": "here", "text": "t"}\n')
    refuse(*command, "--docs", docs, naming=["q.jsonl", "line 1", "docs", "gone"])
    refuse(*command, "--docs", docs, "--context", "retrieved", naming=["index"])
    refuse(*command, "--docs", docs, "--policies", "fusion+fused", naming=["index"])
    refuse(*command, "--index", index, "--context", "given", naming=["q.jsonl", "docs", "here"])
    refuse("eval", "-m", MODEL, "--questions", FILE, "--index", index, "-c", "64",
           naming=["questions.jsonl", "40 of 40", "64", "-k"])
    refuse(*command, "--index", index, "--policies", "off,magic", naming=["magic"], code=2)
    refuse(*command, "--index", index, "--policies", "prefix+fused", naming=["prefix+fused"], code=2)
    refuse(*command, "--index", index, "--similar", "magic", naming=["similar"], code=2)
    refuse(*command, "--index", index, "--ratios", "0.1,2", naming=["ratios"], code=2)
    refuse(*command, "--index", index, "--ratios", "0.1,", naming=["ratios"], code=2)
    refuse(*command, naming=["--index", "--docs"], code=2)
    refuse(*command, "--index", index, "--docs", tmp_path, naming=["either a folder or an index"])
    for option in (["--reuse", "full"], ["--recompute", "0.5"], ["--alpha", "1"], ["--unfused"]):
        refuse(*command, "--index", index, *option, naming=[option[0], "do not apply", "--policies"], code=2)
    file.write_text("\n")
    refuse(*command, "--index", index, naming=["q.jsonl", "no questions"])


def test_outside_sets_run(data, tmp_path):
    out = tmp_path / "musique"
    succeed("eval", "-m", MODEL, "--questions", data / "musique/questions.dev.jsonl", "--kind-field", "hops",
            "--docs", data / "musique/docs.jsonl", "-k", "4", "--limit", "3", "-n", "4", "--policies", "full,fusion",
            "--ratios", "0.15", "--out", out)
    assert len(rows_of(tmp_path / "musique.csv")) == 3 * 3


def test_the_hard_questions_of_the_tree(tmp_path):
    """demo/hard: 24 questions of each of eight kinds; full attention answers most, copies as they are lose the hard kinds."""
    folder = ROOT / "demo/hard"
    questions = [json.loads(line) for line in (folder / "questions.jsonl").read_text().splitlines()]
    kinds = [q["kind"] for q in questions]
    assert len(questions) == 192 and {kinds.count(kind) for kind in kinds} == {24} and len(set(kinds)) == 8
    known = {json.loads(line)["id"] for line in (folder / "docs.jsonl").read_text().splitlines()}
    assert all(set(q["context_doc_ids"]) <= known for q in questions)
    hard = tmp_path / "hard.jsonl"
    hard.write_text("".join(json.dumps(q) + "\n" for q in questions if q["kind"] in ("alias", "header")))
    succeed("eval", "-m", MODEL, "--docs", folder / "docs.jsonl", "-q", hard, "-p", "off,full", "--out", tmp_path / "e")
    rows = rows_of(tmp_path / "e.csv")
    exact = {policy: sum(float(r["em"]) for r in rows if r["policy"] == policy) for policy in ("off", "full")}
    assert exact["off"] == 48 and exact["full"] < 6
    lost = {s["policy"]: float(s["lost"]) for s in rows_of(tmp_path / "e.summary.csv") if s["kind"] == "all"}
    assert lost == {"off": 0, "full": pytest.approx(1 - exact["full"] / 48)}


# -- calibrate -------------------------------------------------------------------------------------

@pytest.fixture
def model(tmp_path):
    """A copy of the model, which results can be kept beside."""
    return shutil.copy(MODEL, tmp_path / "model.gguf")


def calibrate(model, index, *options):
    return ["calibrate", "-m", model, "--questions", FILE, "--index", index, "--measure", "answers", "--limit", "2",
            "--force", *options]


def recomputed(model, index, *options):
    """Tokens that the second of two equal questions computes again, of how many that may need it: the first chunk follows
    the system text as it did before, so its copy is exact. The log, too."""
    question = QUESTIONS[0]["question"] + "\n"
    done = run("ask", "-m", model, "--index", index, "--json", "-v", *options, input=2 * question)
    assert done.returncode == 0, done.stderr
    account = json.loads(done.stdout.splitlines()[1])
    chunks = account["chunks"]
    again = sum(s["recomputed"] for s in chunks)
    assert account["usage"]["recomputed_tokens"] == again
    assert all(s["reused"] + s["recomputed"] == s["tokens"] and s["from"] == "memory" for s in chunks)
    assert chunks[0]["recomputed"] == 0
    return again / sum(s["tokens"] for s in chunks[1:]), done.stderr


def test_what_was_calibrated_is_used(model, index, tmp_path):
    file = tmp_path / "model.gguf.reuse.json"
    share, log = recomputed(model, index, "--reuse", "fusion")
    assert share == pytest.approx(0.15, abs=0.01) and "not calibrated" in log
    out = succeed(*calibrate(model, index, "--policy", "fusion", "--ratios", "1,0.5"))
    entry = json.loads(file.read_text())["policies"]["fusion"]
    assert entry["recompute"] in (0.5, 1) and entry["questions"] == 2 and entry["quality"] >= 0.95
    assert out.count("<-") == 1 and file.name in out and "2 questions: 95 % interval" in out
    share, log = recomputed(model, index, "--reuse", "fusion")
    assert share == pytest.approx(entry["recompute"], abs=0.01) and "calibrated: " in log
    assert recomputed(model, index, "--reuse", "fusion", "--recompute", "0.25")[0] == pytest.approx(0.25, abs=0.01)
    assert recomputed(model, index, "--reuse", "random")[0] == pytest.approx(0.15, abs=0.01)
    succeed(*calibrate(model, index, "--policy", "craft", "--alphas", "0.5"))
    policies = json.loads(file.read_text())["policies"]
    assert policies["fusion"] == entry and policies["craft"]["alpha"] == 0.5
    assert "craft:alpha=0.5," in recomputed(model, index, "--reuse", "craft")[1]
    assert [p.name for p in sorted(tmp_path.iterdir())] == ["model.gguf", "model.gguf.reuse.json"]


def test_the_least_recomputation_is_chosen(model, index, tmp_path):
    out = succeed(*calibrate(model, index, "--policy", "random", "--ratios", "1,0.3,0.6", "--dry-run",
                             "--keep", "0.001"))
    assert out.splitlines()[3].split()[0] == "0.3" and "<-" in out.splitlines()[3]
    assert not (tmp_path / "model.gguf.reuse.json").exists()


def test_calibration_is_refused_without_a_measure(model, index, tmp_path):
    file = tmp_path / "q.jsonl"
    file.write_text(json.dumps({"question": QUESTIONS[0]["question"], "answers": ["nothing like it"]}) + "\n")
    command = calibrate(model, index, "--ratios", "0")
    command[4] = file
    refuse(*command, naming=["full attention", "1 questions"])
    for options in (["--policy", "full"], ["--keep", "2"], ["--policy", "fusion", "--alphas", "1"], ["--loss", "0"], ["--measure", "x"]):
        refuse(*calibrate(model, index, *options), naming=[options[-2]], code=2)
    for option, given, entry in (("--ratios", "x", "x"), ("--ratios", "0.1,2", "2"), ("--ratios", "0.1,", "")):
        refuse(*calibrate(model, index, option, given, "--measure", "likelihood"), naming=[f'{option}: "{entry}" is not a number from 0 to 1'],
               code=2)
    refuse(*calibrate(model, index, "--policy", "craft", "--alphas", "1,1e7"), naming=['"1e7"', "from 0 to 1000000"], code=2)
    assert not (tmp_path / "model.gguf.reuse.json").exists()


def test_few_questions_are_refused(model, index, tmp_path):
    few = [option for option in calibrate(model, index) if option != "--force"]
    refuse(*few, naming=["2 questions", "20", "--force"])
    assert not (tmp_path / "model.gguf.reuse.json").exists()


def test_questions_that_tell_nothing_apart_are_refused(model, index, tmp_path):
    """With one chunk after the same system text every policy is exact."""
    easy = ["calibrate", "-m", model, "--questions", FILE, "--index", index, "--limit", "20", "-k", "1",
            "--ratios", "0,1", "--quiet"]
    done = run(*easy)
    assert done.returncode == 1 and "nothing can be told apart" in done.stderr
    assert not (tmp_path / "model.gguf.reuse.json").exists()
    succeed(*easy, "--force")
    assert (tmp_path / "model.gguf.reuse.json").exists()


def test_a_folder_that_cannot_be_written_is_named(model, index, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    tmp_path.chmod(0o500)
    said = refuse(*calibrate(model, index, "--ratios", "0"), naming=[tmp_path])
    tmp_path.chmod(0o700)
    assert "--dry-run" in said


def test_a_file_that_takes_no_result_is_named_before_the_run(model, index, tmp_path):
    """Its other results may be needed, so it is not replaced; --dry-run does not read it."""
    file = tmp_path / "model.gguf.reuse.json"
    file.write_text('{"version": 2, "policies": {}}')
    said = refuse(*calibrate(model, index, "--ratios", "0.5"), naming=["model.gguf.reuse.json", "version", "cannot be added"])
    assert "question" not in said and file.read_text() == '{"version": 2, "policies": {}}'
    assert "<-" in succeed(*calibrate(model, index, "--ratios", "0.5", "--dry-run", "--keep", "0.01"))


def test_an_index_of_one_chunk_measures_nothing_and_says_so(model, tmp_path):
    """No chunk follows another one, so nothing is recomputed: a result is saved by --force alone, and has no share of it."""
    (tmp_path / "a.txt").write_text("The employer of Anna Berg is Velm, on which river boats of one flag and colour lie.")
    index, file = tmp_path / "one.db", tmp_path / "model.gguf.reuse.json"
    succeed("index", tmp_path / "a.txt", "-o", index, "--quiet")
    refuse("calibrate", "-m", model, "--index", index, naming=["one.db", "no chunk is long enough", "--questions"])
    command = ["calibrate", "-m", model, "-q", FILE, "--index", index, "--limit", "20", "--ratios", "0.2", "--quiet"]
    done = run(*command)
    assert done.returncode == 1 and "nothing can be told apart" in done.stderr and "nan" not in done.stdout
    assert not file.exists()
    succeed(*command, "--force")
    assert json.loads(file.read_text())["qualities"]["balanced"]["recomputed"] == 0
    (tmp_path / "b.txt").write_text("Boats leave the harbour of Velm at nine every day of the week. " * 12)
    succeed("index", tmp_path / "b.txt", "-o", tmp_path / "long.db", "--quiet")
    refuse("calibrate", "-m", model, "--index", tmp_path / "long.db", naming=["too few passages", "--questions"])


def test_passages_of_the_index_calibrate_without_questions(model, tmp_path):
    """No labels: the divergence along passages of the index; what recomputes everything loses nothing."""
    index = tmp_path / "pages.db"
    succeed("index", ROOT / "bench/questions/squad_v1.docs.jsonl", "-o", index, "--quiet")
    file = tmp_path / "model.gguf.reuse.json"
    command = ["calibrate", "-m", model, "--index", index, "-k", "3", "--limit", "24", "-t", "2", "--quiet"]
    out = succeed(*command, "--ratios", "0.5,1", "--dry-run", "--loss", "0.002")
    rows = [line.split() for line in out.splitlines()[2:5]]
    n = int(out.split()[0])
    assert n >= 20 and out.split()[1:3] == ["passages,", "inplace;"] and [r[0] for r in rows] == ["0", "0.5", "1"]
    full, half, everything = (float(r[3]) for r in rows)
    assert full > half > everything < 0.1 and rows[2][-1] == "<-" and not file.exists()
    refuse(*command, "--ratios", "0.05", "--loss", "0.00001", naming=["no share of inplace", "nothing was saved"])
    assert not file.exists()
    succeed(*command, "--ratios", "0.4,1", "--loss", str(full / 100 * 0.999))
    found = json.loads(file.read_text())
    balanced, fast = found["qualities"]["balanced"], found["qualities"]["fast"]
    assert balanced == found["policies"]["inplace"] and (balanced["policy"], balanced["recompute"]) == ("inplace", 0.4)
    assert balanced["loss_low"] <= balanced["loss"] <= balanced["loss_high"] <= 1 and balanced["measured"] == "passages"
    assert (fast["policy"], fast["recompute"], fast["questions"]) == ("inplace", 0, n) and fast["loss"] > balanced["loss"]


def test_a_loss_that_could_be_chance_is_refused(model, index, tmp_path):
    """The mean keeps the bound, its interval does not: more questions are asked for, and --force saves."""
    command = ["calibrate", "-m", model, "-q", FILE, "--index", index, "--limit", "20", "-k", "3", "--ratios", "0.15",
               "--quiet"]
    dry = succeed(*command, "--dry-run", "--loss", "1")
    ranges = [(float(words[3]) / 100, float(words[7]) / 100) for words in map(str.split, dry.splitlines()[2:4])]
    bound = str(min((max(mean, 0) + most) / 2 for mean, most in ranges))
    assert all(mean < most for mean, most in ranges)
    refuse(*command, "--loss", bound, naming=["chance", "20 questions", "--force"])
    assert not (tmp_path / "model.gguf.reuse.json").exists()
    succeed(*command, "--loss", bound, "--force")
    assert json.loads((tmp_path / "model.gguf.reuse.json").read_text())["qualities"]["balanced"]["recompute"] in (0, 0.15)


def test_quality_is_what_was_calibrated(model, index, tmp_path):
    """exact, balanced, fast on the command line."""
    share, log = recomputed(model, index, "--quality", "balanced") # of the same prompt again: it is exact
    assert share == 0 and "balanced: inplace, recompute 0.15, the default, not calibrated" in log
    (tmp_path / "model.gguf.reuse.json").write_text(json.dumps({"version": 1, "policies": {
        "inplace": {"recompute": 0.5, "alpha": 0}}}))
    share, log = recomputed(model, index, "--quality", "balanced")
    assert share == 0 and "balanced: inplace, recompute 0.5" in log and "calibrated: " in log
    (tmp_path / "model.gguf.reuse.json").write_text(json.dumps({"version": 1, "policies": {}, "qualities": {
        "balanced": {"policy": "random", "recompute": 0.25, "alpha": 0}}}))
    share, log = recomputed(model, index, "--quality", "balanced")
    assert share == pytest.approx(0.25, abs=0.01) and "balanced: random" in log
    assert recomputed(model, index, "--quality", "fast")[0] == 0
    assert recomputed(model, index, "--quality", "exact")[0] == 0
    command = ["ask", "-m", model, "--index", index, QUESTIONS[0]["question"]]
    exact, off = succeed(*command, "--quality", "exact"), succeed(*command, "--reuse", "off")
    assert exact == off
    refuse(*command, "--quality", "fast", "--reuse", "full", naming=["--quality", "--reuse"], code=2)
    refuse(*command, "--quality", "best", naming=["best", "balanced"], code=2)


BAD_CALIBRATIONS = {
    "no JSON": ("{", ["line 1"]),
    "another version": ('{"version": 2, "policies": {}}', ["version"]),
    "no policies": ('{"version": 1}', ["policies"]),
    "no number": ('{"version": 1, "policies": {"fusion": {"recompute": "x", "alpha": 0}}}',
                  ["policies.fusion.recompute"]),
    "over 1": ('{"version": 1, "policies": {"fusion": {"recompute": 1.5, "alpha": 0}}}',
               ["policies.fusion.recompute"]),
    "below 0": ('{"version": 1, "policies": {"fusion": {"recompute": 0.5, "alpha": -1}}}',
                ["policies.fusion.alpha"]),
    "no entry": ('{"version": 1, "policies": {"fusion": 7}}', ["policies.fusion"]),
    "no qualities": ('{"version": 1, "policies": {}, "qualities": 7}', ["qualities"]),
}


def test_a_bad_quality_is_named(model, index, tmp_path):
    (tmp_path / "model.gguf.reuse.json").write_text(
        '{"version": 1, "policies": {}, "qualities": {"balanced": {"policy": "x", "recompute": 0.1, "alpha": 0}}}')
    refuse("ask", "-m", model, "--index", index, QUESTIONS[0]["question"], "--quality", "balanced",
           naming=["model.gguf.reuse.json", "qualities.balanced.policy"])


@pytest.mark.parametrize("text, words", BAD_CALIBRATIONS.values(), ids=BAD_CALIBRATIONS)
def test_a_bad_calibration_is_named(text, words, model, index, tmp_path):
    (tmp_path / "model.gguf.reuse.json").write_text(text)
    command = ["ask", "-m", model, "--index", index, QUESTIONS[0]["question"]]
    refuse(*command, "--reuse", "fusion", naming=["model.gguf.reuse.json", *words])
    assert run(*command, "--reuse", "fusion", "--recompute", "0.2").returncode == 0
