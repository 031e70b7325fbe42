"""Time to the first token and throughput of servers side by side, at several rates: `spolia bench serve` in one sitting.

Starts one server for each --server (options of `spolia serve`) and for --peer (another program), sends the same requests
to all of them in turn, rate by rate, and stops them. --prime N computes the documents of the first N requests of the
trace beforehand, each alone, on the servers that --primed names: their offline stage. Options after -- go to `spolia bench serve`.

    .venv/bin/python bench/serve.py -m q05.gguf --data MULTIHOPRAG -- --rates 0.1,0.2,0.4,0.8,1.6 --requests 100 --csv x.csv
    .venv/bin/python bench/serve.py -m q05.gguf --data MUSIQUE --peer \\
        "llama-server -m {model} --port {port} -c 16384 -np 4 -t {threads} --no-webui" -- --rates 0.1,0.2,0.4
    .venv/bin/python bench/serve.py -m q05.gguf --data MUSIQUE --server "fcfs=--reuse full --queue-order fcfs" \\
        --server "reorder=--reuse full --queue-order reorder" -- --rates 0,4
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shlex
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODES = ["off=--reuse off", "prefix=--reuse prefix", "full=--reuse full", "fusion=--reuse fusion --recompute 0.15"]
SYSTEM = "Answer the question from the documents."  # of `spolia bench serve`
COMMON = ["--guard", "0", "--log-format", "none", "--queue", "2000", "--kv-memory", "1024"]


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


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


def prime(urls: list, trace: pathlib.Path, docs: pathlib.Path, n: int) -> None:
    """Has each document of the first n requests computed alone, without an answer."""
    requests = [json.loads(line) for line in open(trace, encoding="utf-8")][:n]
    ids = {i for r in requests for i in (r.get("context_doc_ids") or r.get("docs") or r["doc_ids"])}
    found = [d for d in map(json.loads, open(docs, encoding="utf-8")) if d["id"] in ids]

    def compute(url, d):
        body = {"max_tokens": 0, "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "-"}],
                "documents": [{"id": d["id"], "title": d.get("title", ""), "text": d["text"]}]}
        request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode())
        urllib.request.urlopen(request, timeout=600).read()
    for name, url in urls:
        start = time.time()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda d: compute(url, d), found))
        print(f"{name}: {len(found)} documents computed in {time.time() - start:.0f} s", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--server", action="append", help="NAME=OPTIONS; default: " + "; ".join(MODES))
    parser.add_argument("--prime", type=int, default=0, metavar="N")
    parser.add_argument("--primed", default="full,fusion", metavar="NAMES")
    parser.add_argument("--peer", help="command with {model}, {port}, {threads}")
    parser.add_argument("-t", "--threads", type=int, default=os.cpu_count())
    parser.add_argument("rest", nargs="*", help="options of `spolia bench serve`")
    args = parser.parse_args()
    program = (ROOT / args.build / "spolia").resolve()
    running, urls = [], []
    try:
        for spec in (args.server or MODES):
            name, _, options = spec.partition("=")
            port = free_port()
            command = [program, "serve", "-m", args.model, "--port", port, "-t", args.threads, *COMMON, *shlex.split(options)]
            running.append(subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL))
            urls += ["--url", f"{name}=http://127.0.0.1:{port}"]
        if args.peer:
            port = free_port()
            command = shlex.split(args.peer.format(model=args.model, port=port, threads=args.threads))
            running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            urls += ["--url", f"peer=http://127.0.0.1:{port}"]
        for process, url in zip(running, urls[1::2]):
            wait_for(url.partition("=")[2], process)
        if args.prime:
            named = [u.split("=", 1) for u in urls[1::2]]
            trace, docs = files_of(args.data)[1::2]
            prime([u for u in named if u[0] in args.primed.split(",")], pathlib.Path(trace), pathlib.Path(docs), args.prime)
        print(f"load average before: {os.getloadavg()[0]:.1f}", flush=True)
        done = subprocess.run([program, "bench", "serve", *urls, *map(str, files_of(args.data)), *args.rest])
        print(f"load average after: {os.getloadavg()[0]:.1f}", flush=True)
        return done.returncode
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(timeout=120)


if __name__ == "__main__":
    sys.exit(main())
