#!/usr/bin/env python3
"""remote.py -- the first token of a prompt of known chunks: loaded from another server's copies in Redis, from the disk, computed.

    make build/bench/remote_load && bench/remote.py -m MODEL [--chunks 8] [--words 100] [--rounds 5]
    bench/remote.py -m MODEL --remote s3://BUCKET/PREFIX

Starts a redis-server of its own, unless --remote names a store: then the first part is left out. First
bench/remote_load.c: bytes a second of the remote tier, beside a plain client that gets the same values. Then, in each
round, three fresh servers, one after another, get the same prompt of chunks that they have not read: one with --remote,
one with --store, one with neither. Prints the medians of the time to the first token, and of the ratios within rounds.
A round in which a chunk came from elsewhere is printed, and not counted.
"""
import argparse
import contextlib
import json
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import shared
from shared import ROOT, count

WAYS = ("remote", "disk", "computed")


class Server(shared.Server):
    def __init__(self, model, *options):
        super().__init__([ROOT / "build/spolia", "serve", "-m", model, "--port", "0", "--reuse", "full", "--guard", "0",
                          "--log-format", "none", *options])

    def ask(self, texts):
        body = {"messages": [{"role": "user", "content": "What does it say?"}], "max_tokens": 2,
                "documents": [{"id": str(i), "text": t} for i, t in enumerate(texts)]}
        r = urllib.request.Request(self.url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(r, timeout=600))


def texts_of(n, words, seed=1):
    r = random.Random(seed)
    syllables = ["ka", "lo", "mi", "ren", "sta", "vel", "tor", "in", "har", "bour"]
    return [" ".join("".join(r.choices(syllables, k=2)) for _ in range(words)) for _ in range(n)]


@contextlib.contextmanager
def redis_server():
    """The URL of a server of its own."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    process = subprocess.Popen(["redis-server", "--port", str(port), "--save", "", "--appendonly", "no"], stdout=subprocess.DEVNULL)
    try:
        time.sleep(1)
        yield f"redis://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def measure(args, url, texts):
    """The rounds that count."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        options = {"remote": ["--remote", url], "disk": ["--store", folder], "computed": []}
        for way in ("remote", "disk"):
            with Server(args.model, *options[way]) as s:
                s.ask(texts)
                time.sleep(3)  # what it has computed is written
        for i in range(args.rounds):
            row = {}
            for way in sorted(WAYS, key=lambda w: (WAYS.index(w) + i) % 3):
                with Server(args.model, *options[way]) as s:
                    s.ask(["Something else. " * 20])  # the server is warm, and knows what is there
                    time.sleep(1)
                    answer = s.ask(texts)
                sources = {d["from"] for d in answer["spolia"]["documents"]}
                row[way] = answer["timings"]["ttft_ms"]
                row["tokens"] = answer["usage"]["prompt_tokens"]
                if sources != {"" if way == "computed" else way}:
                    row["not counted"] = f"{way}: {sources}"  # a busy machine was too slow for a load
            if "not counted" not in row:
                rows.append(row)
            print(json.dumps(row), flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--chunks", type=count, default=8)
    parser.add_argument("--words", type=count, default=100)
    parser.add_argument("--rounds", type=count, default=5)
    parser.add_argument("--remote", help="URL of a store that is there already")
    args = parser.parse_args()
    texts = texts_of(args.chunks, args.words)
    with contextlib.nullcontext(args.remote) if args.remote else redis_server() as url:
        if not args.remote:
            subprocess.run([ROOT / "build/bench/remote_load", url], check=True)
            subprocess.run(["redis-cli", "-u", url, "FLUSHALL"], check=True, stdout=subprocess.DEVNULL)
        rows = measure(args, url, texts)
    if not rows:
        sys.exit("remote: in no round did all chunks come from where they were to come from")
    for way in WAYS:
        print(f"{way:9} {statistics.median(r[way] for r in rows):9.1f} ms")
    for a, b in (("remote", "disk"), ("computed", "remote")):
        ratios = sorted(r[a] / r[b] for r in rows)
        print(f"{a} / {b}: {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")


if __name__ == "__main__":
    shared.run(main)
