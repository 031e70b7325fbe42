#!/usr/bin/env python3
"""graph_answers.py -- how many questions over a knowledge graph `spolia ask --graph` answers.

    bench/graph_answers.py --graph metaqa.db -n 400 QUESTIONS.jsonl [options of spolia ask ...]
    bench/graph_answers.py --graph metaqa.db -n 400 QUESTIONS.jsonl --tree shifted

A line of QUESTIONS is {"id", "question", "answers", "hops"}, such as MetaQA's. An answer counts when it is any of the
right ones (exact match of words). Only questions of the test half are asked: those whose wording and topic entity the
training of demo/graph/model.gguf did not see (train/metaqa.py). The graph is given by retrieval, not by the question's
annotation, so an answer that no path has counts as wrong. The interval is Wilson's, 95 %. ROUGE-L is
the mean over the best of the right answers.
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys

import graph_common as common
import shared
from shared import ROOT


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("questions", type=pathlib.Path)
    parser.add_argument("--program", default=ROOT / "build/spolia")
    parser.add_argument("-m", "--model", default=ROOT / "demo/graph/model.gguf")
    parser.add_argument("--graph", required=True)
    parser.add_argument("-n", type=shared.count, default=400, help="questions of each number of hops")
    parser.add_argument("--show", type=int, default=0, help="print that many wrong answers of each")
    args, more = parser.parse_known_args()
    by_hops = collections.defaultdict(list)
    for q in shared.lines(args.questions, "id", "question", "answers", "hops"):
        if common.is_test(q["id"]) and len(by_hops[q["hops"]]) < args.n:
            by_hops[q["hops"]].append(q)
    print(f"{'hops':>4} {'asked':>6} {'right':>6} {'share':>8}   95 % interval  ROUGE-L  tokens  reused   TTFT (median)")
    for hops, questions in sorted(by_hops.items()):
        command = [args.program, "ask", "-m", args.model, "--graph", args.graph, "--json", "--allow-empty", "-n", "24", *more]
        command += ["--no-store"] if "--store" not in more else []  # no copies of an earlier run
        done = subprocess.run(command, input="".join(q["question"] + "\n" for q in questions), capture_output=True, text=True)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        if len(answers) != len(questions):
            sys.exit(f"{len(answers)} answers to {len(questions)} questions: {done.stderr.strip()[:500]}")
        wrong = [(q, a) for q, a in zip(questions, answers) if not common.is_right(a.get("text", ""), q["answers"])]
        rouge = sum(common.rouge_l(a.get("text", ""), q["answers"]) for q, a in zip(questions, answers)) / len(questions)
        k, n = len(questions) - len(wrong), len(questions)
        usage = [a["usage"] for a in answers if "usage" in a]
        ttft = sorted(a["timings"]["ttft_ms"] for a in answers if "timings" in a)
        low, high = common.wilson(k, n)
        print(f"{hops:4} {n:6} {k:6} {k / n:8.1%}   {low:6.1%} - {high:6.1%} {rouge:8.3f} {sum(u['prompt_tokens'] for u in usage) / n:8.0f} "
              f"{sum(u['reused_tokens'] for u in usage) / max(1, sum(u['prompt_tokens'] for u in usage)):7.1%} {ttft[len(ttft) // 2]:9.1f} ms", flush=True)
        for q, a in wrong[:args.show]:
            print(f"     {q['question']} -> {a.get('text', '')!r} (wanted: {', '.join(q['answers'][:3])})")
    return 0


if __name__ == "__main__":
    shared.run(main)
