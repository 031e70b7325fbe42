"""What the page costs a server: CPU time while nobody, one or several browsers watch it.

    .venv/bin/python bench/page_cost.py [-m MODEL] [--seconds 30] [--rounds 3] [--watchers 1]

Each round has four runs: an idle server, and one with a client that asks without a pause, each with no page and with
`--watchers` of them, which ask as src/server/page/files/watch.js does: /metrics and /v1/requests every two seconds.
Prints a line for each run, with the CPU seconds of the server per second; then what one page costs, which is what the
pages add to an idle server (medians of rounds), beside what the busy one takes. Such a share does not depend on what
else the machine does.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import threading
import time
import urllib.request

import shared
from shared import ROOT

EVERY = 2.0
PATHS = ("/metrics", "/v1/requests")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process with all its threads."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def get(url: str) -> int:
    """Bytes of the reply."""
    with urllib.request.urlopen(url) as r:
        return len(r.read())


def watch(url: str, stop: threading.Event, sizes: list) -> None:
    while not stop.is_set():
        sizes += [get(url + path) for path in PATHS]
        stop.wait(EVERY)


def ask(url: str, stop: threading.Event) -> None:
    body = {"model": "any", "messages": [{"role": "user", "content": "Tell me about the harbour."}], "max_tokens": 64, "ignore_eos": True}
    while not stop.is_set():
        request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        urllib.request.urlopen(request).read()


def measure(server: subprocess.Popen, url: str, seconds: float, n_watchers: int, busy: bool) -> dict:
    stop, sizes = threading.Event(), []
    threads = [threading.Thread(target=watch, args=(url, stop, sizes)) for _ in range(n_watchers)]
    threads += [threading.Thread(target=ask, args=(url, stop))] * busy
    for t in threads:
        t.start()
    used, began = cpu_seconds(server.pid), time.monotonic()
    time.sleep(seconds)
    used, took = cpu_seconds(server.pid) - used, time.monotonic() - began
    stop.set()
    for t in threads:
        t.join()
    return {"watchers": n_watchers, "busy": busy, "cpu_share": used / took, "requests": len(sizes), "bytes": sum(sizes)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-m", "--model", default=ROOT / "demo/model.gguf")
    parser.add_argument("--program", default=ROOT / "build/spolia")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--rounds", type=shared.count, default=3)
    parser.add_argument("--watchers", type=shared.count, default=1)
    args = parser.parse_args()
    results = []
    with shared.Server([args.program, "serve", "-m", args.model, "--port", "0", "--guard", "0", "--log-format", "none"]) as server:
        for _ in range(args.rounds):
            for busy in (False, True):
                for n in (0, args.watchers):
                    results.append(measure(server.process, server.url, args.seconds, n, busy))
                    print(json.dumps(results[-1]), flush=True)
    of = lambda n, busy: statistics.median(r["cpu_share"] for r in results if r["watchers"] == n and r["busy"] == busy)
    page = (of(args.watchers, False) - of(0, False)) / args.watchers
    print(f"one page: {100 * page:.2f} % of a core on an idle server, {100 * page / of(0, True):.2f} % of the CPU time of a busy one")


if __name__ == "__main__":
    shared.run(main)
