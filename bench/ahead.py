#!/usr/bin/env python3
"""ahead.py -- time to the first token of chats over a collection, with answers that begin during the search and without.

    bench/ahead.py -m MODEL --embedding ENCODER --index FILE --questions FILE.jsonl [-n 12] [--share 0.34 0.5 0.77]

Each question is asked twice, in turns, each with a cache of its own (cache_salt). Each stage of the search is made
slower (bench/slow_search.c): by --delay milliseconds, or so that the search takes --share of the time to the first token
without overlap, as measured on the first questions; the shares of RAGCache's table 3 are 0.34 to 0.77. Prints, for each delay, medians: the search, its share of the time to the first token without
overlap, the part of the search that was not hidden, and the time to the first token as the client sees it.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
TRIAL_MS = 200  # each stage of the searches that say how many stages wait


def ask(url, question, ahead, salt, k):
    """(seconds to the first token, the account of the retrieval, the answer)"""
    body = {"messages": [{"role": "user", "content": question}], "stream": True, "max_tokens": 4, "temperature": 0,
            "collection": {"name": "set", "top_k": k, "ahead": ahead}, "cache_salt": salt}
    r = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    began, first, text, account = time.monotonic(), None, "", None
    for line in urllib.request.urlopen(r):
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        piece = event["choices"][0]["delta"].get("content") if event.get("choices") else None
        if piece and first is None:
            first = time.monotonic() - began
        text += piece or ""
        account = event.get("spolia", account)
    return first, account["retrieval"], text


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default=str(ROOT / "build/spolia"))
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--embedding", required=True)
    parser.add_argument("--index", required=True)
    parser.add_argument("--questions", required=True)
    parser.add_argument("-n", type=int, default=12)
    parser.add_argument("-k", type=int, default=2)
    parser.add_argument("--threads", default="1")
    parser.add_argument("--delay", type=int, nargs="+", default=[])
    parser.add_argument("--share", type=float, nargs="+", default=[])
    args = parser.parse_args()
    with open(args.questions, encoding="utf-8") as f:
        questions = [json.loads(line)["question"] for line in f][:args.n]
    with tempfile.TemporaryDirectory() as folder:
        slow = pathlib.Path(folder) / "slow.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-D_GNU_SOURCE", ROOT / "bench/slow_search.c", "-o", slow], check=True)
        print("| delay | search | share | exposed, without | with | less | TTFT, without | with | ratio | wrong |\n" + "|---" * 10 + "|")
        serve = [args.program, "serve", "-m", args.model, "--embedding", args.embedding, "--port", "0", "--threads", args.threads,
                 "--collection", f"set={args.index}", "--log-format", "none"]

        def start(delay):
            s = subprocess.Popen(serve, stdout=subprocess.PIPE, text=True,
                                 env={**os.environ, "LD_PRELOAD": str(slow), "SLOW_SEARCH_MS": str(delay)})
            return s, s.stdout.readline().split()[-1]

        if args.share:
            searches, rests = [], []
            for delay in (0, TRIAL_MS):  # a stage that finds nothing new reads nothing: how many do is measured
                s, url = start(delay)
                base = [ask(url, q, False, f"base-{i}", args.k)[:2] for i, q in enumerate(questions[:5])][1:]
                s.terminate()
                s.wait()
                searches.append(statistics.median(told["search_ms"] for _, told in base))
                rests.append(statistics.median(1e3 * first - told["search_ms"] for first, told in base))
            slower = max((searches[1] - searches[0]) / TRIAL_MS, 0.5)
            args.delay += [max(1, round((share / (1 - share) * min(rests) - searches[0]) / slower)) for share in args.share]
        for delay in args.delay:
            s, url = start(delay)
            rows = {False: [], True: []}
            for i, question in enumerate(questions):
                answers = []
                for ahead in (False, True) if i % 2 else (True, False):
                    first, told, text = ask(url, question, ahead, f"{delay}-{i}-{ahead}", args.k)
                    rows[ahead].append((first, told))
                    answers.append(text)
                assert answers[0] == answers[1], question
            s.terminate()
            s.wait()

            def median(ahead, of):
                return statistics.median(of(*row) for row in rows[ahead])
            share = median(False, lambda first, told: told["search_ms"] / 1e3 / first)
            exposed = [median(a, lambda first, told: told["exposed_ms"]) for a in (False, True)]
            ttft = [median(a, lambda first, told: first) for a in (False, True)]
            wrong = sum(told["wrong"] for _, told in rows[True]), sum(told["begun_ahead"] for _, told in rows[True])
            print(f"| {delay} ms | {median(False, lambda first, told: told['search_ms']):.0f} ms | {share:.0%} | {exposed[0]:.0f} ms "
                  f"| {exposed[1]:.0f} ms | {exposed[0] / max(exposed[1], 1e-3):.2f}x | {ttft[0]:.2f} s | {ttft[1]:.2f} s "
                  f"| {ttft[0] / ttft[1]:.2f}x | {wrong[0]} of {wrong[1]} |", flush=True)


if __name__ == "__main__":
    main()
