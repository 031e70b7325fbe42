#!/usr/bin/env python3
"""beside.py -- what a long job of embeddings or reranking costs answers that stream at the same time.

    bench/beside.py -m MODEL --embedding ENCODER [--reranker CROSS_ENCODER] [--program build/spolia] [--rounds 6]

In turns: a stream alone, beside a client that embeds lists of texts, beside one that reranks (by --reranker, or by the
chat model). Prints tokens a second of the stream and its ratio to the same round's stream alone, and how many texts the
job did meanwhile.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = "The harbour of Velm was built in 1870 and has room for forty boats; the ferry leaves at nine and returns at noon. "


def post(url: str, body: dict) -> bytes:
    r = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(r) as reply:
        return reply.read()


def stream(url: str, n: int) -> float:
    """Tokens a second, after the first."""
    body = {"messages": [{"role": "user", "content": "Tell me a long story."}], "max_tokens": n, "ignore_eos": True, "stream": True}
    last = [line for line in post(url + "/v1/chat/completions", body).decode().splitlines() if '"timings"' in line][-1]
    return json.loads(last[6:])["timings"]["predicted_per_second"]


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
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=64)
    args = parser.parse_args()
    command = [args.program, "serve", "-m", args.model, "--embedding", args.embedding, "--port", "0", "--log-format", "none"]
    with subprocess.Popen(command + ["--reranker", args.reranker] * bool(args.reranker), stdout=subprocess.PIPE, text=True) as server:
        try:
            url = server.stdout.readline().split()[-1]
            count = iter(range(10**9))

            def embed():
                post(url + "/v1/embeddings", {"input": [f"{next(count)} {TEXT}" * 3 for _ in range(32)]})
                return 32

            def rerank():
                post(url + "/v1/rerank", {"query": "When does the ferry leave?", "documents": [f"{next(count)} {TEXT}" for _ in range(8)]})
                return 8

            ratios = {"embeddings": [], "reranking": []}
            for i in range(args.rounds + 1):
                alone = stream(url, args.tokens)
                for name, call in (("embeddings", embed), ("reranking", rerank)):
                    job = Job(call)
                    time.sleep(0.3)
                    beside = stream(url, args.tokens)
                    done = job.stop()
                    if i:  # the first round warms up
                        ratios[name].append(beside / alone)
                    print(f"alone {alone:.1f}, beside {name} {beside:.1f} tokens a second; {done} texts", flush=True)
            for name, r in ratios.items():
                print(f"{name}: {statistics.median(r):.2f} of the stream alone ({min(r):.2f} to {max(r):.2f})")
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
