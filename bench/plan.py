"""The time to look up and plan a prompt of cached chunks, when many chunks are cached.

Many small chunks are computed first, as many in a prompt as fit the context. Then prompts of a few random ones are run to the
first token. Only sp_result.plan_us counts.

    .venv/bin/python bench/plan.py -m tiny.gguf --known 10000 --policies prefix,full,fusion,blend,craft --rounds 200
"""
import random
import sys

import common
import shared

TARGET_US = 100


def limit(args, engine) -> int:
    """Chunks that three quarters of KV memory hold: running prompts need the rest."""
    most = common.info(engine).kv_blocks * 3 // 4 // -(-args.chunk_tokens // 16)
    if most < args.chunks:
        sys.exit(f"KV memory holds {most} chunks of {args.chunk_tokens} tokens; increase --kv-memory")
    if args.known > most:
        print(f"KV memory holds {most} of {args.known} chunks; increase --kv-memory")
    return min(args.known, most)


def compute(args, engine, words, known: list, policy: str) -> None:
    """Caches all chunks as copies that a policy can use."""
    engine.forget()
    piece = min((common.info(engine).n_ctx - words.n_head) // args.chunk_tokens, 64)
    if piece < 1:
        sys.exit(f"a chunk of {args.chunk_tokens} tokens does not fit the context")
    for at in range(0, len(known), piece):
        with common.prompt_of(engine, known[at:at + piece]) as p:
            common.ask(engine, p, reuse=policy, max_tokens=0).close()


def measure(args, engine, words, known: list, policy: str) -> None:
    n_segments, draw = common.info(engine).cached_segments, random.Random(args.seed)
    us, reused = [], 0
    for _ in range(args.rounds):
        with common.prompt_of(engine, draw.sample(known, args.chunks), words.text("question", 32)) as p:
            with common.ask(engine, p, reuse=policy, recompute=args.recompute, max_tokens=1) as r:
                us.append(r.result.plan_us)
                reused += r.result.n_reused
    median = common.median(us)
    print(f"{policy:8} {n_segments:10} {median:10.0f} us {common.quantile(us, 0.99):10.0f} us {reused / args.rounds:10.1f} "
          f"{'yes' if median < TARGET_US else 'no':>10}", flush=True)


def main() -> int:
    p = common.parser(__doc__)
    p.add_argument("--known", type=common.count, default=10000, help="cached chunks")
    p.add_argument("--chunk-tokens", type=common.count, default=16, help="tokens in each")
    p.add_argument("--chunks", type=common.count, default=8, help="in a prompt")
    p.add_argument("--rounds", type=common.count, default=1000, help="prompts")
    p.add_argument("--policies", default="full,fusion,prefix")
    p.add_argument("--recompute", type=float, default=0.15)
    args = p.parse_args()
    if args.chunks > args.known:
        p.error("--chunks: a prompt has more chunks than are cached")
    own = {x.name: bool(x.own_statistics) for x in common.policies()}
    if unknown := [x for x in args.policies.split(",") if x not in own]:
        p.error(f"--policies: \"{unknown[0]}\" is unknown; there are {', '.join(own)}")
    with common.open_engine(args, max_placed=args.known + 1024) as engine:  # craft's copies are limited by number
        words, maker = common.Words(engine, args.seed), None
        args.known = limit(args, engine)
        known = words.chunks(args.known, args.chunk_tokens)
        print(f"{args.known} chunks cached, {args.chunks} of {args.chunk_tokens} tokens in a prompt, {args.rounds} prompts")
        print(f"{'policy':8} {'segments':>10} {'median':>13} {'99 %':>13} {'reused':>10} {f'< {TARGET_US} us':>10}")
        for policy in args.policies.split(","):
            wants = policy if own[policy] else "full"  # one that reads statistics needs its own
            if wants != maker:
                compute(args, engine, words, known, wants)
                maker = wants
            measure(args, engine, words, known, policy)
    return 0


if __name__ == "__main__":
    shared.run(main)
