"""Cache-Craft's copies of a chunk: how many of them (M), and which are dropped when memory is full (f_r or LRU).

Queries as those of bench/reuse_decay.py, over few questions, so that chunks meet the same neighbours again. Each
setting runs all queries in one engine whose KV memory holds a multiple of the chunks' tokens. `as is` and `recomputed`
are shares of the chunks' tokens, `work` is the share of prompt tokens that are computed, recomputed ones included; all
over the last three quarters of the run. Recomputation follows equation 12 with alpha 1: it depends on the model.

    .venv/bin/python bench/craft_variants.py -m demo/model.gguf --data MUSIQUE --questions 12 --queries 160 --cache 1,8

With --restart, copies are in a folder, too, and each number of copies runs twice: in one process, and in one that ends
at half of the queries and begins again with what the folder has. Shares are of the second half.
"""
import pathlib
import sys
import tempfile

import common
import reuse_decay
import shared
import trace

SETTINGS = [("M 1", "lru", 1), ("M 2", "lru", 2), ("M 3", "lru", 3), ("M 5", "lru", 5),
            ("M 5, f_r", "fr", 5), ("M 1, f_r", "fr", 1)]


def run(args, queries: list, kv_bytes: int, evict: str, most: int, from_query: int, **store) -> dict:
    """Sums of tokens from a query on."""
    total = dict.fromkeys(("prompt", "chunks", "reused", "recomputed", "computed"), 0)
    args.evict = evict
    with common.open_engine(args, kv_bytes=kv_bytes, max_variants=most, reuse="craft:alpha=1,focus=0", **store) as engine:
        for i, query in enumerate(queries):
            said = trace.account(engine, query)
            if i < from_query:
                continue
            chunks = [s for s in said["segments"] if s["kind"] == "chunk"]
            total["prompt"] += said["prompt_tokens"]
            total["computed"] += said["prompt_tokens"] - said["reused_tokens"]
            total["chunks"] += sum(s["tokens"] for s in chunks)
            total["reused"] += sum(s["reused"] for s in chunks)
            total["recomputed"] += sum(s["recomputed"] for s in chunks)
            if sys.stderr.isatty():
                print(f"\r{i + 1} of {len(queries)} ", end="", file=sys.stderr)
    return total


def line(name: str, share: float, t: dict) -> str:
    return (f"{share:6g} {name:14} {t['reused'] / t['chunks']:8.1%} {t['recomputed'] / t['chunks']:10.1%} "
            f"{t['computed'] / t['prompt']:8.1%}")


def restarts(args, queries: list, kv_bytes: int, share: float) -> None:
    half = len(queries) // 2
    for most in (1, 2, 3, 5):
        for again in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                if again:
                    run(args, queries[:half], kv_bytes, "lru", most, 0, store=folder)
                t = run(args, queries[half:] if again else queries, kv_bytes, "lru", most, 0 if again else half, store=folder)
            print(line(f"M {most}{', restart' if again else ''}", share, t), flush=True)


def main() -> int:
    parser = common.parser(__doc__)
    parser.add_argument("--data", required=True, type=pathlib.Path,
                        help="folder with docs.jsonl and questions.dev.jsonl (doc_ids, context_doc_ids)")
    parser.add_argument("--questions", type=common.count, default=20)
    parser.add_argument("--queries", type=common.count, default=200)
    parser.add_argument("--docs", type=common.count, default=4, help="in a query")
    parser.add_argument("--cache", type=common.numbers(0.01, 100, float), default=[0.5, 4], metavar="SHARES",
                        help="KV memory, of the tokens of all chunks (0.5,4)")
    parser.add_argument("--restart", action="store_true", help="compare a process that restarts with one that does not")
    parser.add_argument("--skew", type=float, default=1.0, help="exponent of Zipf's law for the questions")
    args = parser.parse_args()
    docs = {d["id"]: d for d in shared.lines(args.data / "docs.jsonl", "id", "title", "text")}
    questions = shared.lines(args.data / "questions.dev.jsonl", *reuse_decay.FIELDS)[:args.questions]
    for q in questions:  # neighbours come back
        q["context_doc_ids"] = q["context_doc_ids"][:2 * args.docs]
    queries = reuse_decay.make_queries(args, docs, questions)
    texts = {c["text"] for q in queries for c in q["chunks"]}
    tokens = sum(len(t) for t in texts) // 4
    print(f"{len(queries)} queries, {len(texts)} chunks")
    print(f"{'cache':>6} {'setting':14} {'as is':>8} {'recomputed':>10} {'work':>8}")
    for share in args.cache:
        size = trace.kv_bytes(args, int(tokens * share))
        if args.restart:
            restarts(args, queries, size, share)
        for name, evict, most in [] if args.restart else SETTINGS:
            print(line(name, share, run(args, queries, size, evict, most, len(queries) // 4)), flush=True)
    return 0


if __name__ == "__main__":
    shared.run(main)
