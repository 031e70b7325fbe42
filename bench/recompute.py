"""Recomputed tokens at scattered positions of a context, compared with as many new tokens after it.

The policy `random` recomputes n tokens of known chunks; `full` takes the chunks as they are, and its question is n tokens longer.
Both compute the same number of tokens over the same copies, in turns. The time is TTFT.

    .venv/bin/python bench/recompute.py -m q05.gguf --sizes 64,128,256 --tokens 4096 -c 8192 -b 512
"""
import csv
import sys

import common
import shared


def measure(args, engine, words, chunks: list, n: int, how: str) -> float:
    """Milliseconds to the first token."""
    scattered = how == "scattered"
    with common.prompt_of(engine, chunks) as p:  # they may have been evicted
        common.ask(engine, p, reuse="full", max_tokens=0).close()
    share = (n - 0.5) / args.tokens if scattered else 0  # it is rounded up to whole tokens
    question = words.text("question", args.question_tokens + (0 if scattered else n))
    with common.prompt_of(engine, chunks, question) as p:
        with common.ask(engine, p, reuse="random" if scattered else "full", recompute=share, max_tokens=1) as r:
            got, want = (r.result.n_computed, r.result.n_recomputed), (args.question_tokens + n, n if scattered else 0)
            if got != want:
                sys.exit(f"{got[0]} tokens were computed, {got[1]} of them recomputed, instead of {want[0]} and {want[1]}; "
                         f"increase --kv-memory")
            return max(r.result.ttft_us, 1) / 1e3


def main() -> int:
    p = common.parser(__doc__)
    p.add_argument("--sizes", type=common.numbers(1, 1 << 20), default=[64, 128, 256], help="recomputed or new tokens")
    p.add_argument("--tokens", type=common.count, default=4096, help="of the cached chunks")
    p.add_argument("--chunk-tokens", type=common.count, default=512, help="tokens in each of them")
    p.add_argument("--question-tokens", type=common.count, default=32)
    p.add_argument("--rounds", type=common.count, default=5)
    p.add_argument("--csv")
    args = p.parse_args()
    if args.tokens % args.chunk_tokens or max(args.sizes) > args.tokens:
        p.error("--tokens: a multiple of --chunk-tokens, and not less than any of --sizes")
    rows = []
    with common.open_engine(args) as engine:
        words = common.Words(engine, args.seed)
        chunks = words.chunks(args.tokens // args.chunk_tokens, args.chunk_tokens)
        for round_ in range(args.rounds):
            for n in args.sizes:
                rows += [(round_, n, how, measure(args, engine, words, chunks, n, how)) for how in ("scattered", "consecutive")]
    print(f"{'tokens':>6} {'scattered':>12} {'consecutive':>14} {'ratio':>7}   by round")
    for n in args.sizes:
        a, b = ([ms for _, size, how, ms in rows if (size, how) == (n, wanted)] for wanted in ("scattered", "consecutive"))
        ratios = [x / y for x, y in zip(a, b)]
        print(f"{n:6} {common.median(a):9.1f} ms {common.median(b):11.1f} ms {common.median(ratios):7.3f}   " + " ".join(f"{r:.3f}" for r in ratios))
    if args.csv:
        with open(args.csv, "w", newline="", encoding="utf-8") as f:
            csv.writer(f).writerows([("round", "tokens", "how", "ttft_ms"), *rows])
    return 0


if __name__ == "__main__":
    shared.run(main)
