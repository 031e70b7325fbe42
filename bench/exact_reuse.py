"""Exact reuse (row R1): time to first token with and without prefix reuse, in alternating runs.

Each round asks the same questions in one process without reuse and in one with it; with it they are asked
twice, so that contexts of `first` share some leading chunks with earlier ones, and those of `again` are
cached. Prints a table and writes CSV.

    .venv/bin/python bench/exact_reuse.py -m MODEL.gguf --index INDEX.db --questions FILE.jsonl
"""
import argparse
import csv
import json
import statistics
import subprocess
import sys

import shared
from shared import ROOT, count



def ask(args, reuse: str, questions: list) -> list:
    command = [args.spolia, "ask", "-m", args.model, "--index", args.index, "-k", str(args.chunks), "-n", "1",
               "--reuse", reuse, "--kv-memory", str(args.kv_memory), "--no-store", "--json"]  # no copies of an earlier run
    done = subprocess.run(command, input="".join(q + "\n" for q in questions), stdout=subprocess.PIPE,
                          text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--index", required=True)
    parser.add_argument("--questions", required=True, help="JSON lines with a field question")
    parser.add_argument("-n", type=count, default=8, help="questions a round")
    parser.add_argument("--rounds", type=count, default=3)
    parser.add_argument("--chunks", type=count, default=8)
    parser.add_argument("--kv-memory", type=count, default=1024, help="MiB")
    parser.add_argument("--spolia", default=str(ROOT / "build/spolia"))
    parser.add_argument("--csv", default=str(ROOT / "build/exact_reuse.csv"))
    args = parser.parse_args()
    questions = [q["question"].replace("\n", " ") for q in shared.lines(args.questions, "question")][:args.n]

    rows = []
    for round_ in range(args.rounds):
        runs = {"off": ask(args, "off", questions)}
        warm = ask(args, "prefix", questions * 2)
        runs["first"], runs["again"] = warm[:len(questions)], warm[len(questions):]
        for name, results in runs.items():
            rows += [(round_, name, i, r["usage"]["prompt_tokens"], r["usage"]["reused_tokens"],
                      r["timings"]["ttft_ms"]) for i, r in enumerate(results)]
        print(f"round {round_ + 1} of {args.rounds}", file=sys.stderr)

    with open(args.csv, "w", newline="") as f:
        csv.writer(f).writerows([("round", "pass", "question", "prompt", "reused", "ttft_ms"), *rows])
    print(f"{'pass':6} {'prompt tokens':>13} {'reused':>8} {'first token, median':>20} {'off / this':>11}")
    base = statistics.median(r[5] for r in rows if r[1] == "off")
    for name in ("off", "first", "again"):
        mine = [r for r in rows if r[1] == name]
        prompt, reused = sum(r[3] for r in mine), sum(r[4] for r in mine)
        ttft = statistics.median(r[5] for r in mine)
        print(f"{name:6} {prompt // len(mine):13} {reused / prompt:8.1%} {ttft:17.1f} ms {base / ttft:10.1f}x")
    return 0


if __name__ == "__main__":
    shared.run(main)
