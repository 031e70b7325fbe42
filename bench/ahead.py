#!/usr/bin/env python3
"""ahead.py -- time to the first token of chats over a collection, with answers that begin during the search and without.

    bench/ahead.py -m MODEL --embedding ENCODER --index FILE --questions FILE.jsonl [-n 12] [--delay MS ...]

Each question is asked twice, in turns, each with a cache of its own (cache_salt). Each stage of the search is made
slower by --delay milliseconds (bench/slow_search.c), so that searches have shares of the time to the first token as in
RAGCache's table 3. Prints, for each delay, medians: the search, its share of the time to the first token without
overlap, the part of the search that was not hidden, and the time to the first token as the client sees it.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent


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
    parser.add_argument("--delay", type=int, nargs="+", default=[20, 60])
    args = parser.parse_args()
    with open(args.questions, encoding="utf-8") as f:
        questions = [json.loads(line)["question"] for line in f][:args.n]
    with tempfile.TemporaryDirectory() as folder:
        slow = pathlib.Path(folder) / "slow.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-D_GNU_SOURCE", ROOT / "bench/slow_search.c", "-o", slow], check=True)
        print("| delay | search | share | exposed, without | with | less | TTFT, without | with | ratio | wrong |\n" + "|---" * 10 + "|")
        for delay in args.delay:
            import os
            s = subprocess.Popen([args.program, "serve", "-m", args.model, "--embedding", args.embedding, "--port", "0", "--threads",
                                  args.threads, "--collection", f"set={args.index}", "--log-format", "none"], stdout=subprocess.PIPE,
                                 text=True, env={**os.environ, "LD_PRELOAD": str(slow), "SLOW_SEARCH_MS": str(delay)})
            url = s.stdout.readline().split()[-1]
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
