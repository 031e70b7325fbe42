#!/usr/bin/env python3
"""ahead.py -- time to the first token of chats over a collection, with answers that begin during the search and without.

    bench/ahead.py -m MODEL --embedding ENCODER --index FILE --questions FILE.jsonl [-n 12] [-k 2] [--known] [--rounds 1] [--tokens 4]
                   [--vectors 0 300000 1000000]

The index has flat or IVF vectors. --vectors adds so many random ones, of no chunk: they are compared and never found, so
the search has the work of a collection of that size, and the same result. A round asks each question three times, in
turns: without beginning, with ("ahead": true), and as the server decides by itself. Each time has a cache of its own
(cache_salt); with --known, a question has one cache, which is filled beforehand. Prints medians: the search, its share
of the time to the first token without, what of the search was not hidden, with and decided, and how many times sooner
the first token (the median of the questions' ratios, with a 95 % interval of resampled questions) and the last one come.
"""
import argparse
import contextlib
import json
import pathlib
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
import urllib.request

import numpy as np

import shared
from shared import ROOT, count

MODES = {"without": False, "with": True, "decided": None}


def ask(url, question, ahead, salt, args):
    """(seconds to the first and to the last token, the account of the retrieval, the answer)"""
    collection = {"name": "set", "top_k": args.k, **({} if ahead is None else {"ahead": ahead})}
    body = {"messages": [{"role": "user", "content": question}], "stream": True, "max_tokens": args.tokens, "temperature": 0, "ignore_eos": True,
            "logprobs": True, "collection": collection, "cache_salt": salt}
    r = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    began, first, text, account = time.monotonic(), None, "", None
    for line in urllib.request.urlopen(r):
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        choice = event["choices"][0] if event.get("choices") else {}
        if choice.get("logprobs") and first is None:
            first = time.monotonic() - began
        text += choice.get("delta", {}).get("content") or ""
        account = event.get("spolia", account)
    return first, time.monotonic() - began, account["retrieval"], text


def add_vectors(index, n):
    """Random vectors of length 1, in random clusters, with ids beyond the chunks'."""
    rng = np.random.default_rng(1)
    with sqlite3.connect(index) as db:
        n_dims, kind, centroids, build = db.execute("SELECT n_dims, kind, centroids, build FROM embedding").fetchone()
        n_clusters = len(centroids) // 4 // n_dims if kind == "ivf" else 1
        first = db.execute("SELECT max(chunk) FROM vectors").fetchone()[0] + 1
        for at in range(0, n, 10000):
            v = rng.standard_normal((min(10000, n - at), n_dims), dtype=np.float32)
            v /= np.linalg.norm(v, axis=1, keepdims=True)
            db.executemany("INSERT INTO vectors (chunk, sha256, cluster, build, v) VALUES (?, x'', ?, ?, ?)",
                           [(first + at + i, int(rng.integers(n_clusters)), build, row.tobytes()) for i, row in enumerate(v)])


def check_vectors(index):
    """Exits where an index is none that vectors can be added to."""
    with contextlib.closing(shared.database(index)) as db:
        try:
            kind = (db.execute("SELECT kind FROM embedding").fetchone() or ("none",))[0]
        except sqlite3.OperationalError:  # older than vectors
            kind = "none"
    if kind not in ("flat", "ivf"):
        sys.exit(f"ahead: {index}: its vectors are {kind}, and must be flat or ivf (spolia index --embedding)")


def interval(ratios):
    """95 % of the medians of resampled questions."""
    rng = np.random.default_rng(1)
    medians = np.median(np.array(ratios)[rng.integers(0, len(ratios), (2000, len(ratios)))], axis=1)
    return np.percentile(medians, [2.5, 97.5])


def measure(url, args, questions, size):
    for i, question in enumerate(questions[:4]):  # warm, and the server sees what searches of it are like
        ask(url, question, None, f"warm-{i}", args)
    rows = {mode: [] for mode in MODES}
    for turn in range(args.rounds * len(questions)):
        r, i = divmod(turn, len(questions))
        answers, modes = set(), list(MODES)
        if args.known and r == 0:
            ask(url, questions[i], False, f"{i}", args)
        for mode in modes[(i + r) % 3:] + modes[:(i + r) % 3]:
            first, whole, told, text = ask(url, questions[i], MODES[mode], f"{i}" if args.known else f"{r}-{i}-{mode}", args)
            rows[mode].append({"first": 1e3 * first, "whole": 1e3 * whole, "i": i, **told})
            answers.add(text)
        assert len(answers) == 1, questions[i]

    def median(mode, of):
        return statistics.median(of(row) for row in rows[mode])

    def by_question(mode, what):
        ratios = [(row["i"], a[what] / row[what]) for a, row in zip(rows["without"], rows[mode])]
        return [statistics.median(x for j, x in ratios if j == i) for i in range(len(questions))]

    def cells(mode):
        ratios = by_question(mode, "first")
        low, high = interval(ratios)
        begun, wrong = (sum(row[k] for row in rows[mode]) for k in ("begun_ahead", "wrong"))
        return (f" {statistics.median(ratios):.2f}x ({low:.2f} to {high:.2f}) | {statistics.median(by_question(mode, 'whole')):.2f}x "
                f"| {wrong} of {begun} |")
    exposed = ", ".join(f"{median(mode, lambda row: row['exposed_ms']):.1f}" for mode in ("with", "decided"))
    share = median("without", lambda row: row["search_ms"] / row["first"])
    print(f"| {size} | {median('without', lambda row: row['search_ms']):.1f} ms | {share:.0%} | {exposed} ms  "
          f"| {median('without', lambda row: row['first']):.0f} ms |{cells('with')}{cells('decided')}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default=str(ROOT / "build/spolia"))
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--embedding", required=True)
    parser.add_argument("--index", type=pathlib.Path, required=True)
    parser.add_argument("--questions", required=True)
    parser.add_argument("-n", type=count, default=12, help="questions")
    parser.add_argument("-k", type=count, default=2, help="passages of a prompt")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--known", action="store_true", help="each question was asked before")
    parser.add_argument("--rounds", type=count, default=1)
    parser.add_argument("--tokens", type=count, default=4, help="of an answer")
    parser.add_argument("--vectors", type=int, nargs="+", default=[0], help="added to the index, one table row each")
    args = parser.parse_args()
    questions = [q["question"] for q in shared.lines(args.questions, "question")][:args.n]
    check_vectors(args.index)
    print("| vectors | search | of TTFT | not hidden, with, decided | TTFT | sooner, with | last token | wrong | sooner, decided "
          "| last token | wrong |\n" + "|---" * 11 + "|")
    for n in args.vectors:
        with tempfile.TemporaryDirectory() as folder:
            index = pathlib.Path(folder) / "set.db"
            shutil.copy(args.index, index)
            if n:
                add_vectors(index, n)
            command = [args.program, "serve", "-m", args.model, "--embedding", args.embedding, "--port", "0", "--threads", args.threads,
                       "--collection", f"set={index}", "--idle-copies", "0", "--log-format", "none"]
            with shared.Server(command) as server:
                measure(server.url, args, questions, n)


if __name__ == "__main__":
    shared.run(main)
