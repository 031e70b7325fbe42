#!/usr/bin/env python3
"""retrieval.py -- which passages are found by words, by vectors and by both, on sets of questions with their documents.

    bench/retrieval.py --embedding all-MiniLM-L6-v2 [--questions N] [--indexes FOLDER] SET ...

A SET is a folder with docs.jsonl and questions.dev.jsonl (or questions.jsonl), as bench/search_recall.py reads it. Each
set is indexed once with vectors; a server (`serve --collection`) answers POST /v1/search of it. --half asks only what
split_questions.py puts into the half for tuning or into the one for reports. --rerank N also lets POST /v1/rerank order
the N best passages of both, by --reranker or, without one, by the likelihood that --model gives the question; the
others follow in their order. A row is a
ranking: recall@1, @5, @20 is the share of a question's documents that have a chunk among the best 1, 5, 20 documents; nDCG@20
counts a document of rank r as 1 / log2(1 + r). +- is half of a 95 % interval of paired resamples of the questions,
against BM25.
"""
import argparse
import json
import math
import pathlib
import sqlite3
import subprocess
import tempfile
import urllib.request

import numpy as np

import shared
from search_recall import read_folder
from shared import ROOT
from split_questions import split

KS = (1, 5, 20)


class Server(shared.Server):
    def __init__(self, program, model, index, *options):
        super().__init__([program, "serve", "-m", model, "--port", "0", "--no-page", "--log-format", "none", "--collection", f"set={index}",
                          *options])

    def post(self, path, **body):
        r = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(r))

    def search(self, **body):
        return self.post("/v1/search", **body)["data"]

    def rerank(self, question, found):
        """What was found, in the order of /v1/rerank."""
        texts = [f"{h['title']}\n{h['text']}" if h.get("title") else h["text"] for h in found]
        results = self.post("/v1/rerank", query=question, documents=texts)["results"] if found else []
        return [found[r["index"]] for r in results]


def documents_of(found, document):
    """Documents in the order of their best chunk."""
    return list(dict.fromkeys(document[h["chunk"]] for h in found))


def scores(wanted, ranked):
    gain = sum(1 / math.log2(2 + r) for r, d in enumerate(ranked[:20]) if d in wanted)
    best = sum(1 / math.log2(2 + r) for r in range(min(len(wanted), 20)))
    return [len(wanted & set(ranked[:k])) / len(wanted) for k in KS] + [gain / best]


def interval(a, b, seed=1):
    """Half of the 95 % interval of the mean difference, by paired resamples."""
    difference = np.array(a) - np.array(b)
    rng = np.random.default_rng(seed)
    means = difference[rng.integers(0, len(difference), (1000, len(difference)))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return (high - low) / 2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default=str(ROOT / "build/spolia"))
    parser.add_argument("--model", default=str(ROOT / "demo/model.gguf"), help="of the server; it computes nothing")
    parser.add_argument("--embedding", required=True)
    parser.add_argument("--indexes", type=pathlib.Path, help="folder where indexes are kept, SET.db (none)")
    parser.add_argument("--kind", choices=("flat", "ivf", "hnsw"), help="of the vectors")
    parser.add_argument("--questions", type=shared.count, help="only the first N of each set, or of its half")
    parser.add_argument("--half", choices=("tune", "report"))
    parser.add_argument("--rerank", type=int, default=0, metavar="N", help="rerank the N best passages; 0: no reranking")
    parser.add_argument("--reranker", help="a cross-encoder")
    parser.add_argument("--threads", default="1")
    parser.add_argument("sets", nargs="+", type=pathlib.Path)
    args = parser.parse_args()
    print("| set | documents | questions | ranking | recall@1 | @5 | @20 | nDCG@20 |\n|---|---|---|---|---|---|---|---|")
    for path in args.sets:
        docs, questions = read_folder(path)
        if args.half:
            # the lines are shuffled as split_questions.py does it, before those without documents leave
            lines = next(f for f in (path / "questions.dev.jsonl", path / "questions.jsonl") if f.exists()).read_text().splitlines()
            tune, report = (map(json.loads, part) for part in split(lines))
            asked = [q["question"] for q in (tune if args.half == "tune" else report) if q["doc_ids"]]
            wanted_of = dict(questions)
            questions = [(q, wanted_of[q]) for q in asked]
        questions = questions[:args.questions]
        with tempfile.TemporaryDirectory() as folder:
            index = (args.indexes or pathlib.Path(folder)) / f"{path.name}.db"
            kind = ["--vectors", args.kind] if args.kind else []
            subprocess.run([args.program, "index", path / "docs.jsonl", "-o", index, "--quiet", "--embedding", args.embedding,
                            *kind], check=True)
            with sqlite3.connect(index) as db:
                document = {chunk: line - 1 for chunk, line in db.execute("SELECT id, line FROM chunks")}
            rankings = {"words (BM25)": {"by": "words"}, "vectors": {"by": "vectors"}, "both": {"by": "hybrid"}}
            with Server(args.program, args.model, index, "--embedding", args.embedding, "--threads", args.threads,
                        *(["--reranker", args.reranker] if args.reranker else [])) as s:
                results = {}
                for name, how in rankings.items():
                    results[name] = [scores(wanted, documents_of(s.search(query=q, collection="set", top_k=40, **how), document))
                                     for q, wanted in questions]
                if args.rerank:
                    found = [(wanted, q, s.search(query=q, collection="set", top_k=40)) for q, wanted in questions]
                    results["reranked"] = [scores(wanted, documents_of(s.rerank(q, hits[:args.rerank]) + hits[args.rerank:], document))
                                           for wanted, q, hits in found]
        base = np.array(results["words (BM25)"])
        for name, rows in results.items():
            rows = np.array(rows)
            cells = [f"{rows[:, i].mean():.3f}" + (f" +- {interval(rows[:, i], base[:, i]):.3f}" if name != "words (BM25)" else "")
                     for i in range(len(KS) + 1)]
            print(f"| {path.name} | {len(docs)} | {len(questions)} | {name} | {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    shared.run(main)
