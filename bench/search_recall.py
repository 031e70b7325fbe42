#!/usr/bin/env python3
"""search_recall.py -- how often `spolia search` finds the documents that answer a question.

    bench/search_recall.py [--program build/spolia] [-k 8] [--questions N] SET ...

A SET is a folder with docs.jsonl (id, title, text) and questions.jsonl or questions.dev.jsonl (question, doc_ids), or a
JSON file in the format of SQuAD (each paragraph is a document, its article's title the title). Each set is indexed
with the program's defaults, and each question searched. Recall@k is the share of a question's documents with a chunk
among the k best, averaged over the questions; `all` counts the questions whose documents are all there; `no hit` those
for which nothing is found. Several programs (--program A --program B) make several rows for each set.
"""
import argparse
import json
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import shared
from shared import ROOT



def read_folder(path: pathlib.Path) -> tuple:
    """(documents, questions): documents are (title, text), a question is (text, numbers of its documents)."""
    docs = shared.lines(path / "docs.jsonl", "id", "text")
    number = {d["id"]: i for i, d in enumerate(docs)}
    file = next((f for f in (path / "questions.dev.jsonl", path / "questions.jsonl") if f.exists()), path / "questions.jsonl")
    questions = [(q["question"], {number[d] for d in q["doc_ids"]}) for q in shared.lines(file, "question") if q.get("doc_ids")]
    if not questions:
        sys.exit(f"{file}: no question has doc_ids")
    return [(d.get("title", ""), d["text"]) for d in docs], questions


def read_squad(path: pathlib.Path) -> tuple:
    docs, questions = [], []
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            questions += [(q["question"], {len(docs)}) for q in paragraph["qas"]]
            docs.append((article.get("title", ""), paragraph["context"]))
    return docs, questions


def index(program: str, docs: list, folder: pathlib.Path) -> tuple:
    """(the index, number of the document of each chunk)"""
    (folder / "docs").mkdir()
    with open(folder / "docs/docs.jsonl", "w", encoding="utf-8") as f:
        f.writelines(json.dumps({"title": title, "text": text}) + "\n" for title, text in docs)
    path = folder / "index.db"
    subprocess.run([program, "index", folder / "docs", "-o", path, "--quiet"], check=True)
    with sqlite3.connect(path) as db:
        return path, {chunk: line - 1 for chunk, line in db.execute("SELECT id, line FROM chunks")}


def search(program: str, path: pathlib.Path, question: str, k: int) -> list:
    done = subprocess.run([program, "search", "-i", path, "-k", str(k), "--json", "--", question],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode not in (0, 3):
        sys.exit(f"{program}: {done.stderr.decode()}")
    return json.loads(done.stdout or "[]")


def measure(program: str, docs: list, questions: list, k: int) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        path, document = index(program, docs, pathlib.Path(folder))
        started = time.monotonic()
        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(lambda q: [document[h["id"]] for h in search(program, path, q[0], k)], questions))
        took = time.monotonic() - started
    shares = [len(wanted & set(got)) / len(wanted) for (_, wanted), got in zip(questions, found)]
    n = len(questions)
    return {"recall": sum(shares) / n, "all": sum(s == 1 for s in shares) / n, "none": sum(not f for f in found),
            "ms": 1e3 * took / n}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", action="append", help="the program (build/spolia); may be repeated")
    parser.add_argument("-k", type=shared.count, default=8)
    parser.add_argument("--questions", type=shared.count, help="only the first N of each set")
    parser.add_argument("sets", nargs="+", type=pathlib.Path)
    args = parser.parse_args()
    print(f"| set | documents | questions | program | recall@{args.k} | all | no hit | ms |\n|---|---|---|---|---|---|---|---|")
    for path in args.sets:
        docs, questions = (read_folder if path.is_dir() else read_squad)(path)
        questions = questions[:args.questions]
        for program in args.program or [str(ROOT / "build/spolia")]:
            m = measure(program, docs, questions, args.k)
            print(f"| {path.name} | {len(docs)} | {len(questions)} | {pathlib.Path(program).name} | {m['recall']:.1%} | {m['all']:.1%} "
                  f"| {m['none']} | {m['ms']:.1f} |", flush=True)
    return 0


if __name__ == "__main__":
    shared.run(main)
