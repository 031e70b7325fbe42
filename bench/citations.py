#!/usr/bin/env python3
"""citations.py -- whether what an answer cites is what it needs: "citations" against the gold documents of a set.

    bench/citations.py -m MODEL [--program build/spolia] [--skip N] [--questions N] [--tokens 48] [--reuse POLICY] SET ...

A SET is a folder with docs.jsonl (id, title, text) and questions.dev.jsonl or questions.jsonl (question, doc_ids,
context_doc_ids). Each question is asked with the documents of its context, greedily. For each way to choose one document
the share of questions for which that is a gold one, with its 95 % interval (Wilson):

    answer      the source with the largest mass, summed over the sentences by their length
    question    the document with the largest `attention`, which the question looks at
    words       BM25 of the answer's words, and of the question's, over the same documents
    chance      the share of gold documents
"""
import argparse
import collections
import json
import math
import pathlib
import re
import sys
import urllib.request

import shared
from shared import ROOT, count



def wilson(hits: int, n: int) -> tuple:
    p, z = hits / n, 1.96
    middle, half = p + z * z / 2 / n, z * math.sqrt(p * (1 - p) / n + z * z / 4 / n / n)
    return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)


def bm25(query: str, texts: list) -> int:
    """The index of the best text."""
    bags = [collections.Counter(re.findall(r"\w+", t.lower())) for t in texts]
    mean = sum(sum(b.values()) for b in bags) / len(bags)
    score = [0.0] * len(bags)
    for word in set(re.findall(r"\w+", query.lower())):
        n = sum(word in b for b in bags)
        idf = math.log(1 + (len(bags) - n + 0.5) / (n + 0.5))
        for i, b in enumerate(bags):
            score[i] += idf * b[word] * 2.2 / (b[word] + 1.2 * (0.25 + 0.75 * sum(b.values()) / mean))
    return max(range(len(bags)), key=lambda i: score[i])


def ask(url: str, question: str, documents: list, n_tokens: int) -> dict:
    body = {"messages": [{"role": "user", "content": question}], "documents": documents, "max_tokens": n_tokens, "temperature": 0,
            "citations": True}
    r = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(r))


def cited(choice: dict, n: int) -> int:
    mass = [0.0] * n
    for s in choice["citations"]:
        for source in s["sources"]:
            mass[source["document"]] += source["mass"] * (s["end"] - s["start"])
    return max(range(n), key=lambda i: mass[i])


def measure(url: str, folder: pathlib.Path, args: argparse.Namespace) -> None:
    docs = {d["id"]: d for d in shared.lines(folder / "docs.jsonl", "id", "text")}
    path = next((f for f in (folder / "questions.dev.jsonl", folder / "questions.jsonl") if f.exists()), folder / "questions.jsonl")
    hits, chance, n = collections.Counter(), 0.0, 0
    for q in shared.lines(path, "question", "doc_ids")[args.skip:]:
        context, gold = q.get("context_doc_ids", []), set(q["doc_ids"])
        if n == args.questions or not gold & set(context):
            continue
        given = [{k: docs[d].get(k, "") for k in ("id", "title", "text")} for d in context]
        reply = ask(url, q["question"], given, args.tokens)
        choice, texts = reply["choices"][0], [d["title"] + " " + d["text"] for d in given]
        asked = [d.get("attention", 0) for d in reply["spolia"]["documents"]]
        chosen = {"answer": cited(choice, len(given)), "question": max(range(len(given)), key=lambda i: asked[i]),
                  "words of the answer": bm25(choice["message"]["content"], texts), "words of the question": bm25(q["question"], texts)}
        hits.update(name for name, i in chosen.items() if context[i] in gold)
        chance += len(gold & set(context)) / len(context)
        n += 1
        print(n, dict(hits), flush=True)
    if not n:
        sys.exit(f"citations: {path}: no question, from number {args.skip + 1} on, has a document of doc_ids in its context_doc_ids")
    print(f"\n{folder.name}: {n} questions, chance {100 * chance / n:.0f} %")
    for name in ("answer", "question", "words of the answer", "words of the question"):
        low, high = wilson(hits[name], n)
        print(f"  {name:22} {100 * hits[name] / n:5.0f} %  ({100 * low:.0f} to {100 * high:.0f} %)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--program", default=ROOT / "build/spolia")
    parser.add_argument("--questions", type=count, default=40, help="of each set")
    parser.add_argument("--skip", type=int, default=0, help="leave out the first N questions")
    parser.add_argument("--tokens", type=count, default=48, help="of an answer")
    parser.add_argument("--reuse", default="prefix")
    parser.add_argument("--threads", default="1")
    parser.add_argument("sets", metavar="SET", nargs="+", type=pathlib.Path, help="a folder")
    args = parser.parse_args()
    command = [args.program, "serve", "-m", args.model, "--port", "0", "--reuse", args.reuse, "-t", args.threads, "--log-format", "none"]
    with shared.Server(command) as server:
        for folder in args.sets:
            measure(server.url, folder, args)


if __name__ == "__main__":
    shared.run(main)
