"""Iterative retrieval with and without the tree: tokens computed, and time (RAGCache section 9, row R11).

A question is answered in iterations; each retrieves more documents after those that it has, as ITER-RETGEN and FLARE do, and is
a request of its own. `prefix` finds what the iterations before have computed in the tree, `off` computes all of it; the same
questions in turn, on one engine each. Tokens do not depend on the machine, ratios of times are of alternating questions.

    .venv/bin/python bench/iterative.py -m demo/model.gguf --iterations 1,2,4 --questions 12
"""
import common
import shared


def run(engine, args, policy, documents, question, n) -> tuple:
    """Tokens computed and microseconds to the first tokens, of all iterations."""
    tokens, us = 0, 0
    for i in range(1, n + 1):
        with common.prompt_of(engine, documents[:i * args.step], question) as p:
            with common.ask(engine, p, reuse=policy, max_tokens=args.predict) as r:
                tokens += r.result.n_computed
                us += r.result.ttft_us
    return tokens, us


def main():
    p = common.parser(__doc__)
    p.add_argument("--iterations", type=common.numbers(1, 64), default=[1, 2, 4], help="of a question")
    p.add_argument("--step", type=common.count, default=2, help="documents that an iteration adds")
    p.add_argument("--chunk-tokens", type=common.count, default=96)
    p.add_argument("--questions", type=common.count, default=12)
    p.add_argument("--predict", type=common.count, default=8, help="tokens of an answer")
    args = p.parse_args()
    print("| iterations | computed, off | computed, tree | share | time, off / tree (range) |\n|---|---|---|---|---|")
    with common.open_engine(args) as off, common.open_engine(args) as tree:
        words = common.Words(off, args.seed)
        for n in args.iterations:
            tokens, ratios = [0, 0], []
            for _ in range(args.questions):
                documents, question = words.chunks(n * args.step, args.chunk_tokens), words.text("question", 24)
                pair = [run(e, args, policy, documents, question, n) for e, policy in ((off, "off"), (tree, "prefix"))]
                tokens = [a + b[0] for a, b in zip(tokens, pair)]
                ratios.append(pair[0][1] / max(pair[1][1], 1))
            print(f"| {n} | {tokens[0]} | {tokens[1]} | {tokens[1] / tokens[0]:.0%} | {common.median(ratios):.2f} "
                  f"({min(ratios):.2f} to {max(ratios):.2f}) |", flush=True)


if __name__ == "__main__":
    shared.run(main)
