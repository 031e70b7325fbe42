#!/usr/bin/env python3
"""beside.py -- what a long job of embeddings or reranking costs answers that stream at the same time.

    bench/beside.py -m MODEL --embedding ENCODER [--reranker CROSS_ENCODER] [--program build/spolia] [--rounds 6]

Each round has, in an order that turns: a stream alone, beside a client that embeds lists of texts, beside one that
reranks (by --reranker, or by the chat model). Prints for each the time of a token (mean and median of the gaps between
tokens, the longest gap) and its ratio to the stream alone of the same round, the median over rounds with its range, and
how many texts the job did. A job has run for some seconds when its stream begins, so that a stream of --tokens sees the
steady state. On a machine that other programs use, compare the range of "alone / alone" (two streams alone in each
round) with the others: it is what the machine does by itself.
"""
import argparse
import json
import statistics
import threading
import time
import urllib.request

import shared
from shared import ROOT

TEXT = "The harbour of Velm was built in 1870 and has room for forty boats; the ferry leaves at nine and returns at noon. "


def post(url: str, body: dict) -> bytes:
    r = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(r) as reply:
        return reply.read()


def stream(url: str, n: int) -> dict:
    """Milliseconds between tokens: mean, median, longest."""
    body = {"messages": [{"role": "user", "content": "Tell me a long story."}], "max_tokens": n, "ignore_eos": True, "stream": True,
            "logprobs": True}
    r = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    times = []
    with urllib.request.urlopen(r) as reply:
        for line in reply:
            if line.startswith(b"data: {") and b'"delta"' in line:
                event = json.loads(line[6:])
                tokens = (event["choices"][0].get("logprobs") or {}).get("content") or []
                times += [time.monotonic()] * len(tokens)
    gaps = [1e3 * (b - a) for a, b in zip(times, times[1:])]
    return {"mean": 1e3 * (times[-1] - times[0]) / (len(times) - 1), "median": statistics.median(gaps), "longest": max(gaps)}


class Job:
    """Calls one after another until it is told to stop."""

    def __init__(self, call):
        self.call, self.n, self.ends = call, 0, threading.Event()
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self):
        while not self.ends.is_set():
            self.n += self.call()

    def stop(self) -> int:
        self.ends.set()
        n = self.n
        self.thread.join()
        return n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--embedding", required=True)
    parser.add_argument("--reranker")
    parser.add_argument("--program", default=ROOT / "build/spolia")
    parser.add_argument("--rounds", type=shared.count, default=6)
    parser.add_argument("--tokens", type=shared.count, default=400, help="of a stream; 2 or more")
    parser.add_argument("--settle", type=float, default=3, help="seconds that a job runs before its stream")
    parser.add_argument("--only", nargs="+", choices=("embeddings", "reranking"), default=["embeddings", "reranking"])
    args = parser.parse_args()
    if args.tokens < 2:
        parser.error("--tokens: there is no time between tokens of fewer than 2")
    command = [args.program, "serve", "-m", args.model, "--embedding", args.embedding, "--port", "0", "--log-format", "none"]
    with shared.Server(command + ["--reranker", args.reranker] * bool(args.reranker)) as server:
        url = server.url
        count = iter(range(10**9))

        def embed():
            post(url + "/v1/embeddings", {"input": [f"{next(count)} {TEXT}" * 3 for _ in range(32)]})
            return 32

        def rerank():
            post(url + "/v1/rerank", {"query": "When does the ferry leave?", "documents": [f"{next(count)} {TEXT}" for _ in range(8)]})
            return 8

        def alone():
            return stream(url, args.tokens), 0

        def beside(call):
            job = Job(call)
            time.sleep(args.settle)
            before = job.n
            told = stream(url, args.tokens)
            return told, job.stop() - before

        runs = {"alone": alone, "alone again": alone, "embeddings": lambda: beside(embed), "reranking": lambda: beside(rerank)}
        runs = {name: run for name, run in runs.items() if name.split()[0] in ("alone", *args.only)}
        told = {name: [] for name in runs}
        alone()  # warms up
        for i in range(args.rounds):
            names = list(runs)
            for name in names[i % len(names):] + names[:i % len(names)]:
                times, n_texts = runs[name]()
                told[name].append(times)
                print(f"{i}: {name}: {times['mean']:.1f} ms a token, median {times['median']:.1f}, longest {times['longest']:.0f}"
                      + (f"; {n_texts} texts" if n_texts else ""), flush=True)
        for name in list(runs)[1:]:
            for what in ("mean", "median", "longest"):
                r = [b[what] / max(a[what], 1e-3) for a, b in zip(told["alone"], told[name])]
                print(f"{name}: {what} time of a token {statistics.median(r):.2f} of alone ({min(r):.2f} to {max(r):.2f})")


if __name__ == "__main__":
    shared.run(main)
