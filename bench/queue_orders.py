"""What the order of the queue does to many waiting requests: time to the first token, and the cost of choosing.

Requests of a few documents, drawn by Zipf's law, arrive at once or as a Poisson process. Every order gets the same requests in
turn, on an empty cache. "sched us" is the time of all steps without the model's own, for each request: look-ups, the choice,
plans, eviction, keeping. The clock is time, or the tokens that the model has computed (--clock tokens): then arrivals and times
depend on the orders alone, and two runs are equal on any machine. Source: RAGCache figure 18, table 4 (R5, R10).

    .venv/bin/python bench/queue_orders.py -m demo/model.gguf -n 1000 --documents 400 --chunks 2 --rounds 1 --kv-memory 12 \\
        --load 1.1 --clock tokens
"""
import argparse
import itertools
import json
import random
import time

import common
import shared
from common import check, ffi, lib


class Workload:
    """The requests of all orders."""

    def __init__(self, args, engine):
        words, draw = common.Words(engine, args.seed), random.Random(args.seed)
        self.documents = words.chunks(args.documents, args.chunk_tokens)
        weights = list(itertools.accumulate((i + 1) ** -args.zipf for i in range(args.documents)))
        self.drawn, self.gaps = [], []
        for _ in range(args.requests):
            mine = []
            while len(mine) < args.chunks:
                [i] = draw.choices(range(args.documents), cum_weights=weights)
                mine += [i] if i not in mine else []
            self.drawn.append(mine)
            self.gaps.append(draw.expovariate(1))  # in mean gaps
        self.questions = [words.text("question", 32) for _ in range(args.requests)]


class Run:
    """One order on an empty cache; times by the clock: tokens, or microseconds."""

    def __init__(self, args, engine, load: Workload, gap: float):
        self.args, self.engine, self.load = args, engine, load
        lib.sp_context_stop(engine.c)  # the steps are made here
        self.due = [int(gap * at) for at in itertools.accumulate(load.gaps)]
        self.first, self.requests = [None] * len(self.due), []
        self.start = 0
        self.serve()
        n, results = len(self.due), [r.result for r in self.requests]
        ttft = [a - b for a, b in zip(self.first, self.due)]
        self.ttft, self.p95, self.all = sum(ttft) / n, common.quantile(ttft, 0.95), self.now()
        self.cached = sum(r.n_reused + r.n_recomputed for r in results) / sum(r.n_prompt for r in results)
        said = common.info(engine)
        self.sched_us = (said.step_us - said.compute_us) / n
        for r in self.requests:
            r.close()

    def now(self) -> int:
        at = common.info(self.engine).n_computed if self.args.clock == "tokens" else time.monotonic_ns() // 1000
        return at - self.start

    def submit(self, i: int) -> None:
        def on_token(v, n):
            if self.first[i] is None:
                self.first[i] = self.now()
        documents = [self.load.documents[k] for k in self.load.drawn[i]]
        with common.prompt_of(self.engine, documents, self.load.questions[i]) as p:
            self.requests.append(common.Request(self.engine, p, on_token, max_tokens=self.args.predict))

    def serve(self) -> None:
        """Submits what is due between steps, until all are answered."""
        busy, i, n = ffi.new("bool *"), 0, len(self.due)
        self.start = self.now()
        while busy[0] or i < n:
            if not busy[0] and self.args.clock == "tokens":  # tokens do not pass while nothing is computed
                self.start -= max(self.due[i] - self.now(), 0)
            while i < n and self.now() >= self.due[i]:
                self.submit(i)
                i += 1
            check(lib.sp_context_step(self.engine.c, busy))


def report(args, order: str, round_: int, run: Run, first: Run) -> None:
    tokens = args.clock == "tokens"
    ttft, p95, whole = (run.ttft, run.p95, run.all) if tokens else (run.ttft / 1e3, run.p95 / 1e3, run.all / 1e6)
    ratio = first.ttft / run.ttft
    if args.json:
        unit, long = ("tokens", "tokens") if tokens else ("ms", "seconds")
        print(json.dumps({"order": order, "round": round_, f"ttft_{unit}": ttft, f"ttft_p95_{unit}": p95, long: whole, "cached": run.cached,
                          "sched_us": run.sched_us, "ttft_ratio": ratio}), flush=True)
    else:
        print(f"{order:8} {round_:5} {ttft:12.1f} {p95:12.1f} {whole:9.{0 if tokens else 2}f} {run.cached:10.1%} {run.sched_us:9.1f} "
              f"{ratio:8.2f}x", flush=True)


def options() -> argparse.Namespace:
    p = common.parser(__doc__)
    p.add_argument("-n", "--requests", type=common.count, default=1000)
    p.add_argument("--documents", type=common.count, default=2000, help="different ones")
    p.add_argument("--chunk-tokens", type=common.count, default=64, help="tokens in each")
    p.add_argument("--chunks", type=common.count, default=4, help="documents in a prompt")
    p.add_argument("--zipf", type=float, default=1, help="document i is drawn in proportion to i^-ZIPF")
    p.add_argument("--rate", type=float, default=0, help="requests a second; 0: all at once")
    p.add_argument("--load", type=float, default=0, help="instead: times the rate that the first order sustains, which is measured first")
    p.add_argument("--clock", choices=("time", "tokens"), default="time")
    p.add_argument("--predict", type=common.count, default=1, help="tokens of an answer")
    p.add_argument("--orders", default="fcfs,reorder,lpm,lsp", help="the first is what the others are compared with")
    p.add_argument("--reuse")
    p.add_argument("--recompute", type=float)
    p.add_argument("--rounds", type=common.count, default=3, help="times that each order runs, in turn")
    p.add_argument("--json", action="store_true", help="one JSON line for each run")
    args = p.parse_args()
    if args.chunks > args.documents:
        p.error("--chunks: a prompt has more documents than there are")
    if args.rate and (args.load or args.clock == "tokens"):
        p.error("--rate goes with neither --load nor --clock tokens")
    return args


def main() -> int:
    args, load = options(), None

    def run(order: str, gap: float) -> Run:
        nonlocal load
        with common.open_engine(args, order=order, reuse=args.reuse, recompute=args.recompute) as engine:
            load = load or Workload(args, engine)
            return Run(args, engine, load, gap)
    orders = args.orders.split(",")
    gap = 1e6 / args.rate if args.rate else 0
    if args.load:
        gap = run(orders[0], 0).all / args.requests / args.load
    if not args.json:
        tokens = args.clock == "tokens"
        print(f"{'order':8} {'round':>5} {'TTFT tokens' if tokens else 'TTFT ms':>12} {'95 % tokens' if tokens else '95 % ms':>12} "
              f"{'computed' if tokens else 'seconds':>9} {'cached':>10} {'sched us':>9} {'TTFT':>9}")
    for round_ in range(args.rounds):
        first = None
        for order in orders:
            result = run(order, gap)
            first = first or result
            report(args, order, round_, result, first)
    return 0


if __name__ == "__main__":
    shared.run(main)
