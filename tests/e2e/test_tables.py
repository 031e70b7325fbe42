"""bench/tables.py: an interrupted run of the tables continues; what the tables say is what the rows say; the questions that ship."""
import csv
import json
import re
import shutil
import sqlite3
import subprocess
import sys

import numpy as np
import pytest
from conftest import PROGRAM, ROOT

QUESTIONS = ROOT / "bench/questions"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def lines_of(name):
    return [json.loads(line) for line in (QUESTIONS / name).read_text().splitlines()]


def tables(folder, *options):
    done = subprocess.run([sys.executable, ROOT / "bench/tables.py", "--program", PROGRAM, "--models", folder, "--out",
                           folder / "out", "--rounds", "1", *options], capture_output=True, text=True, timeout=300)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def test_tables_continue_and_say_what_the_rows_say(tmp_path):
    shutil.copy(ROOT / "demo/model.gguf", tmp_path / FILE)
    first = tables(tmp_path, "--only", "stream", "--limit", "3")
    rows = tmp_path / "out" / f"stream.{FILE[:-5]}.csv"
    begun = rows.read_text()
    assert first.returncode == 0 and "3 questions." in first.stdout and "nan" not in first.stdout
    shown = tables(tmp_path, "--only", "stream,speed", "--limit", "9")
    assert shown.returncode == 0 and rows.read_text().startswith(begun)
    assert (tmp_path / "out/tables.md").read_text().strip() == shown.stdout.strip()
    read = list(csv.DictReader(line for line in rows.read_text().splitlines() if line[0] != "#"))
    nll = {p: [float(r["nll"]) for r in read if (r["policy"], r["recompute"]) == (p, "0")] for p in ("off", "full")}
    more = (sum(nll["full"]) / sum(nll["off"]) - 1) * 100
    said = re.search(r"^\| full \| ([-+.0-9]+) % \(([-+.0-9]+) to ([-+.0-9]+)\)", shown.stdout, re.M).groups()
    value, low, high = map(float, said)
    assert value == pytest.approx(more, abs=0.06) and low <= value <= high
    assert "9 questions." in shown.stdout and "1 alternating rounds." in shown.stdout and "cores, load" in shown.stdout
    speed = re.findall(r"^\| ([^|]*) \| [\d.]+x \([\d.]+ to [\d.]+\) \| ([\d ]+) \|$", shown.stdout, re.M)
    assert [name for name, _ in speed] == ["full", "random, 15 %", "fusion, 15 %", "craft, 15 %", "fast", "balanced"]
    n = {name: int(tokens) for name, tokens in speed}
    assert n["full"] == n["fast"] == 0 < n["random, 15 %"] == n["fusion, 15 %"] <= 0.15 * 2063 and "of 2,0" in shown.stdout
    rows.with_name(f"2wiki.{FILE[:-5]}.csv").write_text("".join(begun.splitlines(keepends=True)[:2]))   # no row yet
    again = tables(tmp_path, "--only", "stream,speed,2wiki", "--report")
    assert again.stdout.startswith(shown.stdout.strip())


def test_tables_without_questions_are_left_out(tmp_path):
    """Without --data those of sets that do not ship, and without a judge those of judges that were fine-tuned."""
    (tmp_path / FILE).touch()
    every, own = tables(tmp_path, "--report"), tables(tmp_path, "--report", "--judge", f"Own={tmp_path / FILE}")
    assert every.returncode == 0 and "left out without --data: multihop, dragonball, dragonball-100" in every.stderr
    titles = [set(re.findall("^### (.*)", x.stdout, re.M)) for x in (every, own)]
    assert not any("MultiHop" in t or "DragonBall" in t or "MT-RAG" in t for t in titles[1])
    assert len(titles[0]) >= 12 and titles[0] < titles[1] and all("fine-tuned" in t or "same" in t for t in titles[1] - titles[0])
    named = tables(tmp_path, "--only", "stream,mtrag")
    assert named.returncode == 2 and "--only: mtrag: " in named.stderr and "--data" in named.stderr
    assert not (tmp_path / "out/stream.SmolLM2-135M-Instruct.Q4_1.csv").exists()


def test_a_folder_has_tables_of_one_set_of_questions(tmp_path):
    """An index of the questions that ship is not searched for those of a full set."""
    shutil.copy(ROOT / "demo/model.gguf", tmp_path / FILE)
    assert tables(tmp_path, "--only", "bm25", "--limit", "1").returncode == 0
    other = tables(tmp_path, "--only", "stream", "--data", tmp_path)
    assert other.returncode == 1 and "has tables of bench/questions; give another --out" in other.stderr
    assert tables(tmp_path, "--only", "bm25", "--limit", "2").returncode == 0


def test_a_judge_of_ones_own(tmp_path):
    """It is asked in place of those of --models, under its own title and file name."""
    (tmp_path / FILE).touch()
    mine = tmp_path / "tuned.gguf"
    shutil.copy(ROOT / "demo/model.gguf", mine)
    shown = tables(tmp_path, "--only", "trained-hotpotqa", "--limit", "1", "--judge", f"Tuned={mine}")
    assert shown.returncode == 0 and "Tuned: 1 questions." in shown.stdout and "| balanced |" in shown.stdout
    assert {x.name.split(".")[1] for x in (tmp_path / "out").glob("*.csv")} == {"tuned"}
    wrong = tables(tmp_path, "--only", "trained-hotpotqa", "--judge", "Tuned")
    assert wrong.returncode == 2 and "--judge: Tuned: not TITLE=FILE" in wrong.stderr


def test_a_long_stream_may_have_one_policy(tmp_path):
    """Then there is no table of how full, fusion and inplace change over time."""
    (tmp_path / FILE).touch()
    (tmp_path / "out").mkdir()
    names = "id,kind,policy,recompute,f1,nll,kl_all,n_prompt,n_reused,speedup"
    rows = [f"q{i},,{policy},{share},,{3 + share},{share},100,50,{1 + share}" for i in range(120)
            for policy, share in (("off", 0), ("craft", 0.15))]
    (tmp_path / f"out/craft.{FILE[:-5]}.csv").write_text("\n".join([names, *rows]) + "\n")
    shown = tables(tmp_path, "--only", "craft", "--report")
    assert "120 questions." in shown.stdout and "| craft, 15 % | +5.0 %" in shown.stdout


def test_intervals_hold_the_truth():
    """In 19 of 20 samples; those of pairs are narrower than those of the two means, which is what power comes from."""
    sys.path.insert(0, str(ROOT / "bench"))
    from tables import interval
    rng = np.random.default_rng(5)
    off = rng.gamma(2, 1.5, (300, 60))                # mean 3
    more = 0.06 + rng.normal(0, 0.3, off.shape) * off / 3
    held = [low <= 2 <= high for low, high in (interval(m * 100, o) for m, o in zip(more, off))]
    assert 0.90 < np.mean(held) < 0.99
    width = [np.diff(interval(v)) for v in (more[0], more[0] + off[0])]
    assert width[0] < width[1] / 4
    assert np.isnan(interval(more[0, :7])).all()


def test_so_many_questions_show_that_f1_is_kept():
    """Of answers that keep their F1 nine samples in ten show it; with a third of the questions half do not."""
    sys.path.insert(0, str(ROOT / "bench"))
    from tables import n_for_f1
    rng = np.random.default_rng(6)

    def shown(n):
        means = rng.normal(0, 8, (2000, n)).mean(axis=1)
        return np.mean((abs(means) <= 1) & (abs(means) + 1.96 * 8 / n ** 0.5 <= 2))

    n = n_for_f1(8)
    assert 0.87 < shown(n) < 0.93 and shown(n // 3) < 0.5


def test_conversations_are_asked_turn_by_turn():
    sys.path.insert(0, str(ROOT / "bench"))
    from split_questions import split, stream
    said = [{"speaker": s, "text": f"{s} {i}"} for i in (1, 2) for s in ("user", "agent")]
    lines = [json.dumps({"conversation": f"c{c}", "history": said, "question": "user 3", "answers": [f"last {c}"]})
             for c in range(4)]
    for half in split(lines):
        asked = [json.loads(line) for line in half]
        assert [q["kind"] for q in asked] == ["a first turn"] * 2 + ["a later turn"] * 4
        assert [q["question"] for q in asked[:2]] == ["user 1"] * 2
        first, second = {q["id"].split("-")[0] for q in asked}
        assert [json.loads(line)["id"] for line in stream("mtrag_un", half, 3)] == [
            f"{c}-{turn}" for turn in (1, 2, 3) for c in sorted((first, second))]
        third = next(q for q in asked if q["id"] == f"{first}-3")
        assert third["question"] == "user 1\nAnswer: agent 1\n\nQuestion: user 2\nAnswer: agent 2\n\nQuestion: user 3"
        assert third["answers"] == [f"last {first[1:]}"]


def test_long_documents_are_cut_as_the_table_says(tmp_path):
    """Chunks of 100 and of 400 words, and a line for each kind of question."""
    shutil.copy(ROOT / "demo/model.gguf", tmp_path / FILE)
    folder = tmp_path / "data/dragonball_en"
    folder.mkdir(parents=True)
    text = " ".join(f"The harbour of town {i} was built in the year {1500 + i}." for i in range(80))
    (folder / "docs.jsonl").write_text(json.dumps({"id": "d", "text": text}) + "\n")
    types = ["Factual Question", "Summarization Question"]
    (folder / "questions.dev.jsonl").write_text("".join(
        json.dumps({"id": f"q{i}", "question": f"When was the harbour of town {i} built?", "answers": [str(1500 + i)],
                    "doc_ids": ["d"], "type": types[i % 2]}) + "\n" for i in range(44)))
    for words, n in ((100, "1"), (400, "22")):
        shown = tables(tmp_path, "--data", tmp_path / "data", "--only", f"dragonball-{words}", "--limit", n)
        assert shown.returncode == 0, shown.stderr
    n_chunks = [int(sqlite3.connect(tmp_path / f"out/dragonball_en.{words}.db").execute(
        "select count(*) from chunks").fetchone()[0]) for words in (100, 400)]
    assert n_chunks[0] >= 8 and n_chunks[1] <= 3
    for kind in ("one chunk", "a whole document"):
        assert re.search(rf"^\| {kind} \| \d+ \| [-+]", shown.stdout, re.M)


def test_names_of_chunks_become_the_graph_of_an_index(tmp_path):
    """A name is a run of capitals, its parts, or a word inside a sentence; no first word of a sentence."""
    shutil.copy(ROOT / "demo/model.gguf", tmp_path / FILE)
    folder = tmp_path / "data/dragonball_en"
    folder.mkdir(parents=True)
    texts = ["The harbour was rebuilt by Ada Quill of Larbar.", "Seven ships were sold to Ada Quill.", "Rain fell in May."]
    (folder / "docs.jsonl").write_text("".join(json.dumps({"id": f"d{i}", "text": t}) + "\n"
                                               for i, t in enumerate(texts)))
    (folder / "questions.dev.jsonl").write_text("".join(
        json.dumps({"id": f"q{i}", "question": f"Who rebuilt harbour {i}?", "answers": ["Ada Quill"], "doc_ids": ["d0"]})
        + "\n" for i in range(12)))
    done = tables(tmp_path, "--data", tmp_path / "data", "--only", "long-graph", "--limit", "1")
    assert done.returncode == 0 and "1 questions." in done.stdout, done.stderr
    names = [line.split("\t") for line in (tmp_path / "out/dragonball_en.200.graph.tsv").read_text().splitlines()]
    assert {(chunk, name) for chunk, _, name, _ in names} == {
        ("chunk 1", "Ada Quill of Larbar"), ("chunk 1", "Ada Quill"), ("chunk 2", "Ada Quill"), ("chunk 3", "May")}
    assert all(chunk[6:] == source.split("#")[1] for chunk, _, _, source in names)
    count = "select count(*) from graph_triples"
    assert sqlite3.connect(tmp_path / "out/dragonball_en.200.graph.db").execute(count).fetchone() == (4,)


def test_tables_say_what_is_missing(tmp_path):
    assert "make real-models" in tables(tmp_path).stderr
    assert "magic" in tables(tmp_path, "--only", "magic").stderr


@pytest.mark.parametrize("name", ["squad_v1", "hotpotqa", "2wiki", "musique"])
def test_the_questions_that_ship(name):
    """Each has its documents; examples are other questions, and the README names set and licence."""
    questions, examples = lines_of(f"{name}.questions.jsonl"), lines_of(f"{name}.examples.jsonl")
    known = {doc["id"] for doc in lines_of(f"{name}.docs.jsonl")}
    assert all(set(q.get("context_doc_ids", q["doc_ids"])) <= known and q["answers"] for q in questions)
    assert len(examples) == 4 and not {q["question"] for q in examples} & {q["question"] for q in questions}
    assert f"`{name}.*`" in (QUESTIONS / "README.md").read_text()


def test_the_questions_are_small():
    assert sum(path.stat().st_size for path in QUESTIONS.iterdir()) < 300_000
