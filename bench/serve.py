"""Time to the first token and throughput of servers side by side, at several rates: bench/load.py in one sitting.

Starts one server for each --server (options of `spolia serve`) and for --peer (another program), sends the same requests
to all of them in turn, rate by rate, and stops them. --prime N computes the documents of the first N requests of the
trace beforehand, each alone, on the servers that --primed names: their offline stage. Options after -- go to bench/load.py;
{data} in them is the name of the --data. --json prints a line for each run and, at the end of a --data, the goodput of each
server, the most requests and tokens that it answered in a second at any rate, and both in terms of the peer's: "limit"
says that only a lower bound of a goodput is known.

    .venv/bin/python bench/serve.py -m q05.gguf --data MULTIHOPRAG -- --rates 0.1,0.2,0.4,0.8,1.6 --requests 100 --csv x.csv
    .venv/bin/python bench/serve.py -m q05.gguf --data MUSIQUE --peer \\
        "llama-server -m {model} --port {port} -c 16384 -np 4 -t {threads} --no-webui" -- --rates 0.1,0.2,0.4
    .venv/bin/python bench/serve.py -m q05.gguf --data MUSIQUE --server "fcfs=--reuse full --queue-order fcfs" \\
        --server "reorder=--reuse full --queue-order reorder" -- --rates 0,4
    .venv/bin/python bench/serve.py -m q05.gguf --json --data traces/psi_multihoprag --data traces/psi_musique --prime 48 --chunks 4 \\
        --primed balanced,fast --server "off=--reuse off" --server "balanced=--reuse fusion --recompute 0.15" \\
        --server "fast=--reuse full" --peer "llama-server -m {model} --port {port} -c 16384 -np 4 -t {threads}" -- \\
        --rates 0.15,0.3,0.8,1.6,3.2,6.4 --requests 8 -n 8 --ignore-end --by median --stop-beyond --limit 120
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys
import time
import urllib.error
import urllib.request

import shared
from shared import ROOT

sys.path.insert(0, str(ROOT / "tests"))
from support.ports import free_port  # noqa: E402

MODES = ["off=--reuse off", "prefix=--reuse prefix", "full=--reuse full", "fusion=--reuse fusion --recompute 0.15"]
SYSTEM = "Answer the question from the documents."  # of bench/load.py
COMMON = ["--guard", "0", "--log-format", "none", "--queue", "2000", "--kv-memory", "4096"]  # room for every document


def wait_for(url: str, process: subprocess.Popen) -> None:
    """Until the server has loaded its model."""
    for _ in range(1200):
        try:
            urllib.request.urlopen(url + "/health", timeout=5).read()
            return
        except (urllib.error.URLError, OSError):
            if process.poll() is not None:
                raise SystemExit(f"{process.args[0]}: exit code {process.returncode}") from None
            time.sleep(0.25)
    raise SystemExit(f"{process.args[0]}: not ready after 5 minutes")


def files_of(data: pathlib.Path) -> list:
    """Trace and documents of a folder of questions, or of a trace NAME with NAME.trace.dev.jsonl and NAME.chunks.jsonl."""
    if data.is_dir():
        return ["--trace", data / "questions.dev.jsonl", "--docs", data / "docs.jsonl"]
    return ["--trace", f"{data}.trace.dev.jsonl", "--docs", f"{data}.chunks.jsonl"]


def prime(urls: list, trace: pathlib.Path, docs: pathlib.Path, n: int, chunks: int | None) -> None:
    """Has each document of the first n requests computed alone, without an answer."""
    requests = [json.loads(line) for line in open(trace, encoding="utf-8")][:n]
    ids = {i for r in requests for i in (r.get("context_doc_ids") or r.get("docs") or r["doc_ids"])[:chunks]}
    found = [d for d in map(json.loads, open(docs, encoding="utf-8")) if d["id"] in ids]

    def compute(url, d):
        body = {"max_tokens": 0, "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "-"}],
                "documents": [{"id": d["id"], "title": d.get("title", ""), "text": d["text"]}]}
        request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        urllib.request.urlopen(request, timeout=600).read()
    for name, url in urls:
        start = time.time()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda d: compute(url, d), found))
        print(f"{name}: {len(found)} documents computed in {time.time() - start:.0f} s", file=sys.stderr, flush=True)


def start(args: argparse.Namespace, running: list) -> list:
    """[(name, url)] of the servers and the peer; their processes are added to `running`."""
    program, named = (ROOT / args.build / "spolia").resolve(), []
    for spec in (args.server or MODES):
        name, _, options = spec.partition("=")
        port = free_port()
        command = [program, "serve", "-m", args.model, "--port", port, "-t", args.threads, *COMMON, *shlex.split(options)]
        running.append(subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL))
        named.append((name, f"http://127.0.0.1:{port}"))
    if args.peer:
        port = free_port()
        command = shlex.split(shared.fill(args.peer, model=args.model, port=port, threads=args.threads))
        running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        named.append(("peer", f"http://127.0.0.1:{port}"))
    for process, (_, url) in zip(running, named):
        wait_for(url, process)
    return named


def summary(data: pathlib.Path, rows: list) -> dict:
    """Goodput and throughput of each server. A peer that does not even keep up at the lowest rate has no goodput, and
    then there is no ratio."""
    found = {r["server"]: r for r in rows if "goodput" in r}
    lowest, most = {}, {}
    for r in rows:
        if "goodput" not in r:
            lowest.setdefault(r["server"], {"rate": r["rate"], "ttft_ms": r["ttft_ms"]})
            best = most.setdefault(r["server"], {"requests_s": 0, "tokens_s": 0})
            most[r["server"]] = {k: max(v, r[k] or 0) for k, v in best.items()}
    peer, peer_most = found.get("peer", {}), most.get("peer", {}).get("requests_s")
    return {"data": data.name, "by": next((r["by"] for r in found.values()), None), "lowest": lowest,
            "goodput": {n: {"rate": r["goodput"], "limit": not r["reached_its_limit"]} for n, r in found.items()},
            "over_peer": {n: r["goodput"] / peer["goodput"] for n, r in found.items()
                          if r["goodput"] and peer.get("goodput") and n != "peer"},
            "most": most,
            "most_over_peer": {n: m["requests_s"] / peer_most for n, m in most.items() if peer_most and n != "peer"}}


def measure(args: argparse.Namespace, data: pathlib.Path) -> int:
    """One sitting: new servers, the same requests to each."""
    running = []
    try:
        named = start(args, running)
        trace, docs = map(pathlib.Path, files_of(data)[1::2])
        if args.prime:
            prime([u for u in named if u[0] in args.primed.split(",")], trace, docs, args.prime, args.chunks)
        print(f"load average before: {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
        command = [sys.executable, ROOT / "bench/load.py", *(["--json"] if args.json else [])]
        for name, url in named:
            command += ["--url", f"{name}={url}"]
        if args.chunks:
            command += ["--chunks", args.chunks]
        command += [*files_of(data), *(o.replace("{data}", data.name) for o in args.rest)]
        rows = []
        with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True) as load:
            for line in load.stdout:
                print(line, end="", flush=True)
                if args.json:
                    rows.append(json.loads(line))
        print(f"load average after: {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
        if args.json:
            print(json.dumps(summary(data, rows)), flush=True)
        return load.returncode
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(timeout=120)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True, action="append", help="one sitting for each")
    parser.add_argument("--server", action="append", help="NAME=OPTIONS; default: " + "; ".join(MODES))
    parser.add_argument("--prime", type=int, default=0, metavar="N")
    parser.add_argument("--primed", default="full,fusion", metavar="NAMES")
    parser.add_argument("--chunks", type=int, help="most documents of a request")
    parser.add_argument("--peer", help="command with {model}, {port}, {threads}")
    parser.add_argument("--json", action="store_true", help="JSON lines, and a summary")
    parser.add_argument("-t", "--threads", type=int, default=os.cpu_count())
    parser.add_argument("rest", nargs="*", help="options of bench/load.py")
    args = parser.parse_args()
    if args.peer:
        shared.fill(args.peer, model=args.model, port=0, threads=args.threads)
    for file in (f for data in args.data for f in files_of(data)[1::2]):  # of the last sitting, too, before the first
        open(file, "rb").close()
    return max(measure(args, data) for data in args.data)


if __name__ == "__main__":
    shared.run(main)
