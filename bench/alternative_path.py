"""What an alternative path saves: KV that is stored, and chunks that are computed again (FusionRAG sections 4.1 and 5.3.3, row F5).

The paper's workload: of the chunks that queries ask for, 60 % are in the knowledge base, 30 % are new and shared among users,
10 % are seen once. The knowledge base is computed before. `prefix` stores a chunk once for each path before it; `full` finds
it after the head at any position; `both` asks the queries in turn with one and the other, as clients do that choose a quality.
A chunk is computed again when it was computed before in the run. Nothing is evicted. Counts do not depend on the weights.

    .venv/bin/python bench/alternative_path.py -m tests/golden/tiny.gguf
"""
import random

import common
import shared


def make_queries(args, rng) -> list:
    """Numbers of chunks of each query: the knowledge base, then the shared ones, then those that are asked for once."""
    once, queries = args.base + args.shared, []
    weights = {n: [(i + 1) ** -args.skew for i in range(n)] for n in (args.base, args.shared)}
    for _ in range(args.queries):
        chosen = []
        while len(chosen) < args.top_k:
            x = rng.random()
            if x < 0.9:
                first, n = (0, args.base) if x < 0.6 else (args.base, args.shared)
                c = first + rng.choices(range(n), weights[n])[0]
            else:
                c, once = once, once + 1
            chosen += [c] if c not in chosen else []
        queries.append(chosen)
    return queries


def ask(engine, texts, chunks, policy) -> list:
    """Which of the chunks were computed."""
    with common.prompt_of(engine, [texts[c] for c in chunks], "Which?") as p:
        with common.ask(engine, p, reuse=policy, max_tokens=1) as r:
            said = [s for s in r.result.segments[0:r.result.n_segments] if common.text(s.kind) == "chunk"]
            return [c for c, s in zip(chunks, said) if s.n_reused < s.n_tokens]


def run(args, texts, queries, policies) -> tuple:
    """Chunks computed, those computed again, blocks of KV that are cached at the end."""
    seen, n, again = set(), 0, 0
    with common.open_engine(args) as engine:
        asked = [[c] for c in range(args.base)] + queries
        for i, chunks in enumerate(asked):
            for c in ask(engine, texts, chunks, policies[i % len(policies)]):
                n += 1
                again += c in seen
                seen.add(c)
        return n, again, common.info(engine).cached_blocks


def main():
    p = common.parser(__doc__, kv_memory=1024)
    p.add_argument("--queries", type=common.count, default=1000)
    p.add_argument("--base", type=common.count, default=600, help="chunks of the knowledge base")
    p.add_argument("--shared", type=common.count, default=300, help="chunks that users share")
    p.add_argument("--skew", type=float, default=0, help="exponent of Zipf's law")
    p.add_argument("--top-k", type=common.count, default=5)
    p.add_argument("--tokens", type=common.count, default=96, help="of a chunk")
    args = p.parse_args()
    queries = make_queries(args, random.Random(args.seed))
    with common.open_engine(args) as engine:
        words = common.Words(engine, args.seed).words
    rng = random.Random(args.seed)
    texts = [" ".join(rng.choices(words, k=args.tokens // 2)) for _ in range(1 + max(max(q) for q in queries))]
    rows = {name: run(args, texts, queries, policies) for name, policies in
            (("prefix", ["prefix"]), ("full", ["full"]), ("both", ["prefix", "full"]))}
    print(f"{len(set(c for q in queries for c in q) | set(range(args.base)))} different chunks in {args.queries} queries")
    print("| policy | chunks computed | again | of prefix | KV blocks | of prefix |\n|---|---|---|---|---|---|")
    for name, (n, again, blocks) in rows.items():
        print(f"| {name} | {n} | {again} | {again / max(rows['prefix'][1], 1) - 1:+.1%} | {blocks} | {blocks / rows['prefix'][2] - 1:+.1%} |")


if __name__ == "__main__":
    shared.run(main)
