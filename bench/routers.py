#!/usr/bin/env python3
"""routers.py -- several servers and HAProxy: which share of tokens each router finds, with and without a shared tier.

    bench/routers.py --trace questions.trace.jsonl --docs chunks.jsonl [-m MODEL] [--replicas 3] [--clients 3]
        [--requests 686] [--tokens 20000]

The proxy is examples/haproxy.cfg; only how it spreads requests is another: random, least (connections), hash (of the
first document), bounded-hash (the file as it is). Each row has fresh servers with KV memory for so many tokens, and,
where it says so, a redis-server of their own. Shares of prompt tokens hardly depend on how busy the machine is; times
do, and all servers share its cores.
"""
import argparse
import concurrent.futures
import contextlib
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import shared
from shared import ROOT

sys.path.insert(0, str(ROOT / "tests"))
from support.redis_server import Redis, free_port  # noqa: E402

AS_IT_IS = "balance hash var(txn.documents_key)\n    hash-type consistent\n    hash-balance-factor 200\n"
ROUTERS = {"random": "balance random(1)\n", "least": "balance leastconn\n",
           "hash": "balance hash var(txn.documents_key)\n    hash-type consistent\n", "bounded-hash": AS_IT_IS}
HAPROXY = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin:/sbin")
BLOCK = 16  # tokens


class Server(shared.Server):
    def __init__(self, model, *options):
        super().__init__([ROOT / "build/spolia", "serve", "-m", model, "--port", "0", "--reuse", "full", "--guard", "0",
                          "--log-format", "none", "--threads", "1", "--parallel", "2", *options])
        self.port = int(self.url.rsplit(":", 1)[1])

    def metric(self, name):
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=60).read().decode()
        return float(re.search(rf"^spolia:{re.escape(name)} (\S+)$", text, re.M)[1])


def memory_for(model, tokens):
    """MiB of KV memory."""
    with Server(model, "--kv-memory", 16) as s:
        blocks = s.metric("kv_blocks")
    return max(1, round(16 * tokens / (BLOCK * blocks)))


class Proxy:
    def __init__(self, folder, router, servers):
        self.port = free_port()
        text = (ROOT / "examples/haproxy.cfg").read_text()
        text = re.sub(r"    server (one|two|three) .*\n?", "", text).replace("bind :8000", f"bind 127.0.0.1:{self.port}")
        assert AS_IT_IS in text
        text = text.replace(AS_IT_IS, ROUTERS[router])
        text += "".join(f"    server s{i} 127.0.0.1:{s.port}\n" for i, s in enumerate(servers))
        (folder / "haproxy.cfg").write_text(text)
        shutil.copy(ROOT / "examples/documents.lua", folder)
        self.process = subprocess.Popen([HAPROXY, "-db", "-f", "haproxy.cfg"], cwd=folder, stderr=subprocess.DEVNULL)
        end = time.time() + 60
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5).read()
                return
            except OSError:
                if time.time() > end:
                    raise
                time.sleep(0.1)

    def stop(self):
        self.process.kill()
        self.process.wait()


def ask(port, body):
    """(ms, tokens of the documents by source)"""
    r = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", body,
                               {"Content-Type": "application/json"})
    began = time.perf_counter()
    o = json.load(urllib.request.urlopen(r, timeout=600))
    ms = (time.perf_counter() - began) * 1000
    found = {"prompt": o["usage"]["prompt_tokens"]}
    for s in o["spolia"]["segments"]:
        found[s["from"]] = found.get(s["from"], 0) + s["reused"]
    return ms, found


def run(args, router, tier, bodies, memory):
    with contextlib.ExitStack() as stack:
        folder, options = stack.enter_context(tempfile.TemporaryDirectory()), []
        if tier:
            redis = Redis()
            stack.callback(redis.kill)
            options = ["--remote", redis.url]
        servers = [stack.enter_context(Server(args.model, "--kv-memory", memory, *options)) for _ in range(args.replicas)]
        proxy = Proxy(pathlib.Path(folder), router, servers)
        stack.callback(proxy.stop)
        with concurrent.futures.ThreadPoolExecutor(args.clients) as pool:
            said = list(pool.map(lambda b: ask(proxy.port, b), bodies))
        counts = [int(s.metric('prompt_tokens_total')) for s in servers]
    n = sum(f["prompt"] for _, f in said)
    share = lambda source: sum(f.get(source, 0) for _, f in said) / n
    return {"router": router, "shared": tier, "memory": share("memory"), "remote": share("remote"),
            "p50_ms": statistics.median(ms for ms, _ in said), "requests": len(said), "tokens": n / len(said),
            "counts": counts}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-m", "--model", default=ROOT / "demo/model.gguf")
    parser.add_argument("--trace", required=True)
    parser.add_argument("--docs", required=True)
    parser.add_argument("--replicas", type=shared.count, default=3)
    parser.add_argument("--clients", type=shared.count, default=3)
    parser.add_argument("--requests", type=shared.count, default=10**9)
    parser.add_argument("--tokens", type=shared.count, default=20000, help="that a server's KV memory has room for")
    parser.add_argument("--routers", default=",".join(ROUTERS), help="of " + ", ".join(ROUTERS))
    args = parser.parse_args()
    if unknown := set(args.routers.split(",")) - set(ROUTERS):
        parser.error(f"--routers: \"{unknown.pop()}\" is none of {', '.join(ROUTERS)}")
    if not HAPROXY:
        sys.exit("routers: haproxy is not installed")
    texts = {d["id"]: d["text"] for d in shared.lines(args.docs, "id", "text")}
    bodies = [json.dumps({"messages": [{"role": "user", "content": q.get("question", "What do they say?")}],
                          "max_tokens": 1,
                          "documents": [{"id": i, "text": texts[i]} for i in q["doc_ids"]]}).encode()
              for q in shared.lines(args.trace, "doc_ids")[:args.requests]]
    memory = memory_for(args.model, args.tokens)
    print(f"{len(bodies)} requests, {args.replicas} servers of {memory} MiB", flush=True)
    for tier in (False, True):
        for router in args.routers.split(","):
            row = run(args, router, tier, bodies, memory)
            print(json.dumps(row), flush=True)
            remote = format(row["remote"], ".0%") if tier else "-"
            print(f"| {router} | {row['memory']:.0%} | {remote} | {row['p50_ms']:.0f} ms |", flush=True)


if __name__ == "__main__":
    shared.run(main)
