#!/usr/bin/env python3
"""The first question after a start, with and without copies that were computed while nobody asked (serve --idle-copies).

    bench/idle_copies.py --model MODEL [--embedding ENCODER] [--rounds N] [--top-k K] FILE...

Starts the server N times with --idle-copies 0.5, waits until it has the copies, and N times with 0, alternating; each
time asks one question that was not asked before, and prints the times to the first token and their ratio. Half of KV
memory may be too small for copies of all passages: it waits no longer once no copy was added for --settle seconds.
"""
import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
import urllib.request

import shared
from shared import ROOT



def call(url, body=None):
    data = json.dumps(body).encode() if body is not None else None
    with urllib.request.urlopen(urllib.request.Request(url, data, {"Content-Type": "application/json"}), timeout=600) as r:
        return json.loads(r.read())


def first_question(options, folder, share, question):
    """(ms to the first token, tokens of documents reused, seconds until no copy was to come, passages with a copy, all)."""
    command = [options.program, "serve", "-m", options.model, "--port", "0", "--reuse", "full", "--collection", f"docs={folder}",
               "--idle-copies", str(share), "--log-format", "none"]
    if options.embedding:
        command += ["--embedding", options.embedding]
    with shared.Server(command, env={**os.environ, "SPOLIA_ARG_NO_STORE": "1"}) as server:
        url = server.url
        began = added = time.time()
        done, collection = 0, call(url + "/v1/collections/docs")
        while share and done < collection["chunks"] and time.time() - added < options.settle:
            time.sleep(0.2)
            collection = call(url + "/v1/collections/docs")
            if collection["ahead"]["done"] > done:
                done, added = collection["ahead"]["done"], time.time()
        waited = added - began
        call(url + "/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello."}], "max_tokens": 1})  # pages are in
        answer = call(url + "/v1/chat/completions", {"messages": [{"role": "user", "content": question}], "max_tokens": 1,
                                                     "collection": {"name": "docs", "top_k": options.top_k}})
        documents = answer["spolia"]["documents"]
        return answer["timings"]["prompt_ms"], sum(d["reused"] for d in documents), waited, done, collection["chunks"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=ROOT / "build/spolia")
    parser.add_argument("--model", required=True)
    parser.add_argument("--embedding")
    parser.add_argument("--rounds", type=shared.count, default=5)
    parser.add_argument("--top-k", type=shared.count, default=5)
    parser.add_argument("--settle", type=float, default=20, metavar="SECONDS")
    parser.add_argument("files", metavar="FILE", nargs="+")
    options = parser.parse_args()
    times = {0.5: [], 0: []}
    with tempfile.TemporaryDirectory() as home:
        for f in options.files:
            shutil.copy(f, home)
        for i in range(options.rounds):
            for share in times:
                ms, reused, waited, done, chunks = first_question(options, home, share, f"How is a copy on disk kept, case {i}?")
                times[share].append(ms)
                print(f"idle-copies {share}: {ms:.0f} ms, {reused} tokens reused, copies of {done} of {chunks} passages after {waited:.1f} s", flush=True)
    ratios = [a / b for a, b in zip(times[0], times[0.5])]
    print(f"without / with: {statistics.median(ratios):.1f} (median of {len(ratios)}; {min(ratios):.1f} to {max(ratios):.1f})")


if __name__ == "__main__":
    shared.run(main)
