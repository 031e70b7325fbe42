"""Does reuse decay? The share of reused tokens over many questions with new orders of documents each time.

Each query draws a random question of the set and 14 of its documents in random order, the needed ones
among them. (Asking the questions in a fixed cycle would make reuse oscillate: only the end of the last
cycle is still cached.) All queries of a policy run in one engine whose KV memory holds a third of the corpus. The share of
reused prompt tokens does not depend on weights, so any small model with a context of some thousand tokens will do. Prints the
means of quarters of the run and writes CSV, of which bench/plot.py draws moving means.

    .venv/bin/python scripts/make-random-model --preset tiny-qwen2 --ctx 8192 --tokenizer GPT2.gguf tiny.gguf
    .venv/bin/python bench/reuse_decay.py -m tiny.gguf --data MUSIQUE
"""
import csv
import pathlib
import random
import sys

import common
import shared
import trace

POLICIES = {"prefix": {"reuse": "prefix"}, "full": {"reuse": "full"},
            "fusion 15 %": {"reuse": "fusion", "recompute": 0.15}, "craft 15 %": {"reuse": "craft", "recompute": 0.15}}


FIELDS = ("question", "doc_ids", "context_doc_ids")


# -- queries ---------------------------------------------------------------------------------------

def make_queries(args, docs: dict, questions: list) -> list:
    """Questions are drawn by Zipf's law over a random ranking; exponent 0: all alike."""
    rng, queries = random.Random(args.seed), []
    ranked = rng.sample(questions, len(questions))
    weights = [(i + 1) ** -args.skew for i in range(len(ranked))]
    for q in rng.choices(ranked, weights, k=args.queries):
        needed = [d for d in q["doc_ids"] if d in docs][:args.docs]
        others = [d for d in q["context_doc_ids"] if d in docs and d not in needed]
        chosen = needed + rng.sample(others, min(args.docs - len(needed), len(others)))
        rng.shuffle(chosen)
        queries.append({"chunks": [{"title": docs[d]["title"], "text": docs[d]["text"]} for d in chosen],
                        "question": q["question"]})
    return queries


# -- runs ------------------------------------------------------------------------------------------

def run(args, name: str, queries: list, kv_bytes: int) -> list:
    """The share of reused tokens of each query."""
    shares = []
    with common.open_engine(args, kv_bytes=kv_bytes, **POLICIES[name]) as engine:
        for query in queries:
            said = trace.account(engine, query)
            shares.append(said["reused_tokens"] / said["prompt_tokens"])
            if sys.stderr.isatty():
                print(f"\r{name}: {len(shares)} of {len(queries)} ", end="", file=sys.stderr)
    return shares


# -- results ---------------------------------------------------------------------------------------

def report(results: dict) -> None:
    print(f"{'policy':12} " + " ".join(f"{f'quarter {i}':>10}" for i in (1, 2, 3, 4)))
    for name, values in results.items():
        cuts = [len(values) * i // 4 for i in range(5)]
        means = [sum(values[a:b]) / max(1, b - a) for a, b in zip(cuts, cuts[1:])]
        print(f"{name:12} " + " ".join(f"{m:10.1%}" for m in means))


def main() -> int:
    parser = common.parser(__doc__)
    parser.add_argument("--data", required=True, type=pathlib.Path,
                        help="folder with docs.jsonl and questions.dev.jsonl (doc_ids, context_doc_ids)")
    parser.add_argument("--queries", type=common.count, default=1000)
    parser.add_argument("--docs", type=common.count, default=14, help="in a query")
    parser.add_argument("--cache", type=float, default=1 / 3, help="share of the corpus that KV memory holds")
    parser.add_argument("--skew", type=float, default=0.0, help="exponent of Zipf's law for the questions; 0: all alike")
    parser.add_argument("--csv", default=str(common.ROOT / "build/reuse_decay.csv"))
    args = parser.parse_args()

    docs = {d["id"]: d for d in shared.lines(args.data / "docs.jsonl", "id", "title", "text")}
    queries = make_queries(args, docs, shared.lines(args.data / "questions.dev.jsonl", *FIELDS))
    with common.open_engine(args) as engine:
        corpus = len(engine.tokenize("".join(f"[{d['title']}]\n{d['text']}\n\n" for d in docs.values())))
    kv_tokens = int(args.cache * corpus)
    print(f"{len(docs)} documents of {corpus} tokens, KV memory for {kv_tokens}; {len(queries)} queries")
    kv_bytes = trace.kv_bytes(args, kv_tokens)
    results = {name: run(args, name, queries, kv_bytes) for name in POLICIES}

    with open(args.csv, "w", newline="") as f:
        rows = csv.writer(f)
        rows.writerow(["query", *results])
        rows.writerows([i, *(f"{v:.4f}" for v in shares)] for i, shares in enumerate(zip(*results.values())))
    report(results)
    return 0


if __name__ == "__main__":
    shared.run(main)
