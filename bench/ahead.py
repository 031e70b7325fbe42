#!/usr/bin/env python3
"""ahead.py -- time to the first token of chats over a collection, with answers that begin during the search and without.

    bench/ahead.py -m MODEL --embedding ENCODER --index FILE --questions FILE.jsonl [-n 12] [--known] [--vectors 0 300000 1000000]

The index has flat or IVF vectors. --vectors adds so many random ones, of no chunk: they are compared and never found, so
the search has the work of a collection of that size, and the same result. Each question is asked three times, in turns,
each with a cache of its own (cache_salt), which --known fills beforehand: without beginning, with ("ahead": true), and as the server decides by itself.
Prints medians: the search, its share of the time to the first token without, the part of the search that was not hidden,
and the time to the first token as the client sees it, as ratios to that without (medians of the questions' ratios).
"""
import argparse
import json
import pathlib
import shutil
import sqlite3
import statistics
import subprocess
import tempfile
import time
import urllib.request

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODES = {"without": False, "with": True, "decided": None}


def ask(url, question, ahead, salt, k):
    """(seconds to the first token, the account of the retrieval, the answer)"""
    collection = {"name": "set", "top_k": k, **({} if ahead is None else {"ahead": ahead})}
    body = {"messages": [{"role": "user", "content": question}], "stream": True, "max_tokens": 4, "temperature": 0, "ignore_eos": True,
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
    return first, account["retrieval"], text


def add_vectors(index, n):
    """Random vectors of length 1, in random clusters, with ids beyond the chunks'."""
    rng = np.random.default_rng(1)
    with sqlite3.connect(index) as db:
        n_dims, kind, centroids, build = db.execute("SELECT n_dims, kind, centroids, build FROM embedding").fetchone()
        assert kind in ("flat", "ivf"), kind
        n_clusters = len(centroids) // 4 // n_dims if kind == "ivf" else 1
        first = db.execute("SELECT max(chunk) FROM vectors").fetchone()[0] + 1
        for at in range(0, n, 10000):
            v = rng.standard_normal((min(10000, n - at), n_dims), dtype=np.float32)
            v /= np.linalg.norm(v, axis=1, keepdims=True)
            db.executemany("INSERT INTO vectors (chunk, sha256, cluster, build, v) VALUES (?, x'', ?, ?, ?)",
                           [(first + at + i, int(rng.integers(n_clusters)), build, row.tobytes()) for i, row in enumerate(v)])


def measure(url, args, questions, size):
    for i, question in enumerate(questions[:4]):  # warm, and the server sees what searches of it are like
        ask(url, question, None, f"warm-{i}", args.k)
    rows = {mode: [] for mode in MODES}
    for i, question in enumerate(questions):
        answers = set()
        for mode in MODES if args.known else ():
            ask(url, question, MODES[mode], f"{i}-{mode}", args.k)
        modes = list(MODES)
        for mode in modes[i % 3:] + modes[:i % 3]:
            first, told, text = ask(url, question, MODES[mode], f"{i}-{mode}", args.k)
            rows[mode].append((1e3 * first, told))
            answers.add(text)
        assert len(answers) == 1, question

    def median(mode, of):
        return statistics.median(of(*row) for row in rows[mode])

    def ratio(mode):
        return statistics.median(a / b for (a, _), (b, _) in zip(rows["without"], rows[mode]))
    search = median("without", lambda first, told: told["search_ms"])
    share = median("without", lambda first, told: told["search_ms"] / first)
    exposed = {mode: median(mode, lambda first, told: told["exposed_ms"]) for mode in MODES}
    begun = {mode: (sum(told["wrong"] for _, told in rows[mode]), sum(told["begun_ahead"] for _, told in rows[mode])) for mode in MODES}
    print(f"| {size} | {search:.1f} ms | {share:.0%} | {exposed['with']:.1f} ms | {search / max(exposed['with'], 1e-3):.2f}x "
          f"| {median('without', lambda first, told: first):.0f} ms | {ratio('with'):.2f}x | {ratio('decided'):.2f}x "
          f"| {begun['with'][0]} of {begun['with'][1]} | {begun['decided'][0]} of {begun['decided'][1]} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default=str(ROOT / "build/spolia"))
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--embedding", required=True)
    parser.add_argument("--index", type=pathlib.Path, required=True)
    parser.add_argument("--questions", required=True)
    parser.add_argument("-n", type=int, default=12)
    parser.add_argument("-k", type=int, default=2)
    parser.add_argument("--threads", default="1")
    parser.add_argument("--known", action="store_true", help="ask each question once before")
    parser.add_argument("--vectors", type=int, nargs="+", default=[0])
    args = parser.parse_args()
    with open(args.questions, encoding="utf-8") as f:
        questions = [json.loads(line)["question"] for line in f][:args.n]
    print("| vectors | search | share | exposed | less | TTFT without | without / with | without / decided | wrong | wrong, decided |\n"
          + "|---" * 10 + "|")
    for n in args.vectors:
        with tempfile.TemporaryDirectory() as folder:
            index = pathlib.Path(folder) / "set.db"
            shutil.copy(args.index, index)
            if n:
                add_vectors(index, n)
            command = [args.program, "serve", "-m", args.model, "--embedding", args.embedding, "--port", "0", "--threads", args.threads,
                       "--collection", f"set={index}", "--idle-copies", "0", "--log-format", "none"]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
                try:
                    measure(server.stdout.readline().split()[-1], args, questions, n)
                finally:
                    server.terminate()


if __name__ == "__main__":
    main()
