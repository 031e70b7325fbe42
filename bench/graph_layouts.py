"""Accuracy of graph questions by layout and by decoding, on the running engine: the same questions and the same paths for all.

    .venv/bin/python bench/graph_layouts.py paths.jsonl
    .venv/bin/python bench/graph_layouts.py --graph metaqa.db --hops 1,2 -n 200 metaqa/questions.dev.jsonl \\
        --setting "trees=exact" --setting "linear=linear" --setting "sparse 10%=linear sparse:10%,depth=0"

A line of the file is {"kind", "question", "answers", "paths": [{"nodes", "relations", "inverse"}]}: train.evaluate_graph
--dump writes them for the path questions of the generator. With --graph it is {"id", "question", "answers", "hops"}, such as
MetaQA's; retrieval finds the paths, and questions of the test half are asked (--half all: every one, of sets that no training
saw). A setting is NAME=LAYOUT[/STYLE] [DECODE], STYLE that of --style where none is given, LAYOUT one of

    exact     trees, dependency attention, positions count depth        shifted   the same, positions consecutive
    linear    each path a line, full attention

An answer counts when it is any of the right ones; with --contains when it has the words of one, as replies of a chat model do. Intervals are Wilson's; differences are to the first setting, over the same
questions, with McNemar's exact test. ROUGE-L is the mean over the best of the right answers.
"""
import argparse
import collections
import itertools
import json
import pathlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import graph_common as common
import shared
from shared import ROOT

sys.path.insert(0, str(ROOT))

from train import trees  # noqa: E402

SYSTEM = "Answer the question from the documents."
SETTINGS = ["linear=linear", "exact=exact", "shifted=shifted"]


def paths_of(record: dict) -> list:
    return [trees.Path(tuple(p["nodes"]), tuple(p["relations"]), tuple(p["inverse"])) for p in record["paths"]]


def documents(paths: list, layout: str, style: str) -> list:
    """As the training lays them out (train/trees.py)."""
    if not paths:
        return []
    if layout != "linear":
        return [{"type": "tree", "nodes": [{"text": x.segment.text, "parent": x.parent} for x in trees.build(paths, style)]}]
    paths = trees.triplets(paths) if style == "triplets" else paths
    return [{"title": root, "text": "\n".join("".join(s.text for s in trees.segments(p, style)) for p in some)}
            for root, some in itertools.groupby(paths, key=lambda p: p.nodes[0])]


def retrieved(args: argparse.Namespace) -> list:
    """Questions of the asked half with the paths that `spolia graph paths` finds."""
    out, count = [], collections.Counter()
    for q in shared.lines(args.questions, "id", "question", "answers", "hops"):
        if (args.half != "all" and common.is_test(q["id"]) != (args.half == "test")) or q["hops"] not in args.hops or count[q["hops"]] >= args.n:
            continue
        command = [args.program, "graph", "paths", "-g", args.graph, "--json", "--hops", str(max(2, q["hops"])), "--top", str(args.paths), q["question"]]
        done = subprocess.run(command, capture_output=True, text=True)
        found = json.loads(done.stdout)["paths"] if done.stdout else []
        if done.returncode not in (0, 3):      # 3: no path, and the question counts as wrong
            sys.exit(f"{q['question']}: {done.stderr.strip()[:300]}")
        count[q["hops"]] += 1
        out.append({**q, "kind": f"hop{q['hops']}", "paths": found})
    return out


class Server:
    def __init__(self, args: argparse.Namespace):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        command = [args.program, "serve", "-m", args.model, "--port", port, "-t", args.threads, "--guard", "0", "--log-format", "none",
                   "--find-chunks", "none"]
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL)
        for _ in range(400):
            try:
                urllib.request.urlopen(self.url + "/health", timeout=5).read()
                return
            except (urllib.error.URLError, OSError):
                if self.process.poll() is not None:
                    break
                time.sleep(0.05)
        sys.exit("the server does not start")

    def ask(self, record: dict, layout: str, decode: str, args: argparse.Namespace) -> dict:
        layout, _, style = layout.partition("/")
        body = {"max_tokens": args.most, "temperature": 0, "decode": decode,
                "documents": documents(paths_of(record), layout, style or args.style),
                "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": record["question"]}]}
        if layout != "linear":
            body["tree"] = layout
        request = urllib.request.Request(self.url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            return json.loads(urllib.request.urlopen(request, timeout=300).read())
        except urllib.error.HTTPError as e:
            said = e.read().decode(errors="replace")
            if "context_length_exceeded" in said:
                return {}
            sys.exit(f"{e.code}: {said[:500]}")

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=60)


def report(kind: str, rows: dict) -> None:
    """A table row a setting; rows: {name: [(right, rouge, tokens, answer)]}."""
    first = None
    for name, r in rows.items():
        right = [x[0] for x in r]
        k, n = sum(right), len(r)
        low, high = common.wilson(k, n)
        text = f"| {kind} | {name} | {n} | {k / n:.1%} | {low:.1%} - {high:.1%} | {sum(x[1] for x in r) / n:.3f} | {sum(x[2] for x in r) / n:.0f} |"
        if first is None:
            first, text = right, text + " | |"
        else:
            mean, low, high, p = common.paired(right, first)
            text += f" {100 * mean:+.1f} ({100 * low:+.1f} to {100 * high:+.1f}) | {p:.3g} |"
        print(text, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("questions", type=pathlib.Path)
    parser.add_argument("--program", default=ROOT / "build/spolia")
    parser.add_argument("-m", "--model", default=ROOT / "demo/graph/model.gguf")
    parser.add_argument("-t", "--threads", type=shared.count, default=1)
    parser.add_argument("--graph", help="retrieve the paths from this graph")
    parser.add_argument("--hops", type=shared.numbers(1, kind=int), default=[1, 2], help="with --graph (1,2)")
    parser.add_argument("--half", choices=("test", "train", "all"), default="test", help="with --graph: of MetaQA")
    parser.add_argument("--paths", type=shared.count, default=30, help="with --graph: paths of an entity")
    parser.add_argument("--contains", action="store_true", help="an answer that has the words of a right one counts")
    parser.add_argument("-n", type=shared.count, default=400, help="questions of each kind")
    parser.add_argument("--setting", action="append", help="NAME=LAYOUT [DECODE]; default: " + "; ".join(SETTINGS))
    parser.add_argument("--style", choices=trees.ALL_STYLES, default="arrows")
    parser.add_argument("--most", type=shared.count, default=32, help="tokens of an answer")
    parser.add_argument("--answers", metavar="FILE", help="write each answer there")
    args = parser.parse_args()
    settings = {name: (text.split() + ["exact"])[:2] for name, _, text in (s.partition("=") for s in args.setting or SETTINGS)}
    records = retrieved(args) if args.graph else shared.lines(args.questions, "kind", "question", "answers", "paths")
    count, results = collections.Counter(), collections.defaultdict(lambda: collections.defaultdict(list))
    server, n_long = Server(args), 0
    try:
        for record in records:
            if count[record["kind"]] >= args.n:
                continue
            replies = {name: server.ask(record, layout, decode, args) for name, (layout, decode) in settings.items()}
            if not all(replies.values()):
                n_long += 1
                continue
            count[record["kind"]] += 1
            for name, reply in replies.items():
                text = reply["choices"][0]["message"]["content"]
                right = (common.contains if args.contains else common.is_right)(text, record["answers"])
                results[record["kind"]][name].append((right, common.rouge_l(text, record["answers"]),
                                                      reply["usage"]["prompt_tokens"], text))
    finally:
        server.close()
    print("| kind | setting | asked | right | 95 % | ROUGE-L | tokens | against the first | p |\n|---|---|---|---|---|---|---|---|---|")
    for kind, rows in results.items():
        report(kind, rows)
    if n_long:
        print(f"\n{n_long} questions left out: with one of the layouts their prompt does not fit the context.")
    if args.answers:
        with open(args.answers, "w", encoding="utf-8") as f:
            for kind, rows in results.items():
                for name, r in rows.items():
                    f.write(json.dumps({"kind": kind, "setting": name, "right": [x[0] for x in r], "answers": [x[3] for x in r]}) + "\n")
    return 0


if __name__ == "__main__":
    shared.run(main)
