"""Time to the first token of graph questions beside another server, in one sitting (DepCache, figures 10 to 12).

    .venv/bin/python bench/graph_peer.py -m q05.gguf --graph metaqa.db --triples metaqa/triples.tsv \\
        --peer "llama-server -m {model} --port {port} -c {context} -np 1 -t {threads} --no-webui"

Prompts over the relation paths of 20 entities, as many of each as make a linear prompt of the wanted length:

    peer     the other server, linear: a line a path            linear   this one, the same text
    trees    this one, dependency trees, nothing known          known    the same, all nodes known

Requests alternate, one at a time, one token each; the time is that of the whole request. The peer and `linear` are asked not to
reuse anything (cache_prompt). Rounds are repeated until --rounds or --minutes is reached; the table has medians.
"""
import argparse
import itertools
import json
import os
import random
import shlex
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request

import shared
from shared import ROOT

sys.path.insert(0, str(ROOT / "tests"))
from support.ports import free_port  # noqa: E402

SYSTEM = "Answer the question from the documents."
FORMS = ("peer", "linear", "trees", "known")


def start(command: list, port: int, stderr=None) -> tuple:
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=stderr)
    for _ in range(1200):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).read()
            return process, f"http://127.0.0.1:{port}"
        except (urllib.error.URLError, OSError):
            if process.poll() is not None:
                break
            time.sleep(0.25)
    process.kill()
    process.wait()
    sys.exit(f"graph_peer: no server: {shlex.join(process.args)}")


def subgraphs(args: argparse.Namespace) -> list:
    """The paths of random entities that have enough of them, as spolia graph paths ranks them."""
    names = [x for line in open(args.triples, encoding="utf-8") for x in line.rstrip("\n").split("\t")[::2][:2]]
    rng, out, taken = random.Random(args.seed), [], set()
    for _ in range(100 * args.entities):
        name = rng.choice(names)
        done = subprocess.run([args.program, "graph", "paths", "-g", args.graph, "-k", "50", "--entities", "1", "--json", name],
                              capture_output=True, text=True)
        if done.returncode not in (0, 3):  # 3: no path
            sys.exit(f"graph_peer: {done.stderr.strip()}")
        paths = json.loads(done.stdout)["paths"] if done.stdout else []
        if len(paths) >= args.least and paths[0]["nodes"][0] not in taken:
            taken.add(paths[0]["nodes"][0])
            out.append(paths)
        if len(out) == args.entities:
            return out
    sys.exit(f"only {len(out)} of {args.entities} entities have {args.least} paths")


def count(args: argparse.Namespace, text: str) -> int:
    done = subprocess.run([args.program, "tokenize", "-m", args.model, "-f", "-", "--json"], input=text, capture_output=True, text=True, check=True)
    return len(json.loads(done.stdout)["tokens"])


def lines(some: list, k: int) -> str:
    return "\n".join(p["text"] for paths in some for p in paths[:k])


def paths_for(args: argparse.Namespace, some: list, length: int) -> int:
    """The most paths of each entity with which the linear prompt has at most `length` tokens."""
    low, high = 1, 50
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(args, lines(some, middle)) <= length - 60 else (low, middle - 1)
    return low


def tree(some: list, k: int) -> dict:
    path = lambda p: [p["nodes"][0]] + [x for r, i, n in zip(p["relations"], p["inverse"], p["nodes"][1:]) for x in ("^" * i + r, n)]
    return {"type": "tree", "paths": [path(p) for paths in some for p in paths[:k]]}


def body_of(form: str, some: list, k: int, question: str) -> dict:
    system = {"role": "system", "content": SYSTEM}
    body = {"max_tokens": 1, "temperature": 0, "cache_prompt": form == "known", "ignore_eos": True}
    if form in ("peer", "linear"):
        return {**body, "messages": [system, {"role": "user", "content": lines(some, k) + "\n\n" + question}]}
    return {**body, "messages": [system, {"role": "user", "content": question}], "documents": [tree(some, k)]}


def post(url: str, body: dict) -> tuple:
    """Seconds and tokens of the prompt."""
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    begin = time.perf_counter()
    try:
        reply = json.loads(urllib.request.urlopen(request, timeout=600).read())
    except urllib.error.HTTPError as e:
        sys.exit(f"{url}: {e.code}: {e.read()[:500].decode(errors='replace')}")
    return time.perf_counter() - begin, reply["usage"]["prompt_tokens"]


def measure(args: argparse.Namespace, urls: dict, some: list, sizes: dict) -> dict:
    """{length: {form: [seconds]}, ...} and the tokens of each form."""
    begin, longest = time.time(), 0.0
    got = {n: {f: [] for f in urls} for n in sizes}
    tokens = {n: {} for n in sizes}
    for turn in range(args.rounds):
        if turn and time.time() - begin + longest > 60 * args.minutes:
            break
        now = time.time()
        for length, form in itertools.product(sizes, urls):
            if form == "known":
                ahead = body_of(form, some, sizes[length], "-")
                post(urls[form], {**ahead, "max_tokens": 0})
            seconds, n = post(urls[form], body_of(form, some, sizes[length], f"Which of them have {turn + 2} things in common?"))
            got[length][form].append(seconds)
            tokens[length][form] = n
        longest = max(longest, time.time() - now)
    return got, tokens


def report(got: dict, tokens: dict, sizes: dict) -> None:
    forms = list(next(iter(got.values())))
    heads = [f"{f}, ms" for f in forms] + [f"{f}, of {forms[0]}" for f in forms[1:]]
    print("| tokens, linear | of trees | paths | runs | " + " | ".join(heads) + " |\n|" + "---|" * (4 + len(heads)))
    for length, row in got.items():
        s = {f: statistics.median(v) for f, v in row.items()}
        cells = [f"{1e3 * s[f]:.0f}" for f in forms] + [f"{s[forms[0]] / s[f]:.1f}x" for f in forms[1:]]
        print(f"| {tokens[length][forms[0]]} | {tokens[length]['trees']} | {sizes[length]} | {len(row[forms[0]])} | " + " | ".join(cells) + " |")
        print(f"  range, ms: " + ", ".join(f"{f} {1e3 * min(v):.0f} - {1e3 * max(v):.0f}" for f, v in row.items()), file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default=ROOT / "build/spolia")
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--graph", required=True)
    parser.add_argument("--triples", required=True, help="TSV file of the graph; entities are drawn from it")
    parser.add_argument("--peer", help="command with {model}, {port}, {threads}, {context}; none: this server alone")
    parser.add_argument("--lengths", type=shared.numbers(1), default=[1024, 2048, 4096, 8000])
    parser.add_argument("--entities", type=shared.count, default=20)
    parser.add_argument("--least", type=shared.count, default=20, help="paths of an entity, at least")
    parser.add_argument("--rounds", type=shared.count, default=5)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("-c", "--context", type=shared.count, default=8192)
    parser.add_argument("-t", "--threads", type=shared.count, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if args.peer:
        shared.fill(args.peer, model=args.model, port=0, threads=args.threads, context=args.context)
    some = subgraphs(args)
    sizes = {n: paths_for(args, some, n) for n in args.lengths}
    running, urls = [], {}
    try:
        if args.peer:
            port = free_port()
            command = shared.fill(args.peer, model=args.model, port=port, threads=args.threads, context=args.context)
            process, urls["peer"] = start(shlex.split(command), port, subprocess.DEVNULL)
            running.append(process)
        port = free_port()
        process, url = start([args.program, "serve", "-m", args.model, "--port", port, "-t", args.threads, "-c", args.context, "--guard", 0,
                              "--log-format", "none", "--find-chunks", "none"], port)
        running.append(process)
        urls |= dict.fromkeys(FORMS[1:], url)
        print(f"load average before: {os.getloadavg()[0]:.1f}", flush=True)
        report(*measure(args, urls, some, sizes), sizes)
        print(f"load average after: {os.getloadavg()[0]:.1f}", flush=True)
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(timeout=120)
    return 0


if __name__ == "__main__":
    shared.run(main)
