"""Prompts of relation paths as dependency trees, against linear ones on the same engine.

    paths      linear, a line a path, full attention
    preorder   linear, the texts of the nodes in pre-order, full attention
    trees      dependency attention, nothing known
    known      dependency attention, all nodes known: the question is computed

Time to the first token by prompt length (DepCache figure 12). --answer N: tokens a second of an answer over the same nodes: linear;
fresh (trees that this prompt has computed); apart (nodes that other prompts have computed, a path at a time; nodes move together
in longer answers than SHORT, so this is the rate of short ones); packed (the same nodes in an answer of N tokens, with the time of
the move). --deviation: shifted trees that were computed in another prompt against computing them in place, KL of the first token.
--workload: requests over drawn entities, all waiting at the start: rate and share of reused tokens (figures 10, 11 and 13).

    .venv/bin/python bench/graph_prompts.py -m MODEL -c 16384 -t 1 --graph g.db --triples triples.tsv --lengths 1800,4500,8000
"""
import json
import math
import random
import sys
import time

import common
import shared
from common import Keep, check, ffi, lib, text

QUESTION = "Which of them have something in common?"
ARROWS, EXACT, SHIFTED = lib.SP_GRAPH_ARROWS, lib.SP_TREE_EXACT, lib.SP_TREE_SHIFTED
SHORT = 15     # tokens of an answer in which nodes do not move
N_RECENT = 8   # requests from which a temporal workload draws again
N_TOP = 32     # SP_MAX_TOP_LOGPROBS


# -- subgraphs and prompts -------------------------------------------------------------------------

def names_of(triples: str) -> list:
    """Subjects and objects as often as they occur, so frequent ones are drawn more often."""
    with open(triples, encoding="utf-8") as f:
        rows = [line.rstrip("\r\n").split("\t") for line in f]
    names = [x for r in rows if len(r) > 2 for x in (r[0], r[2])]
    return names or sys.exit(f"{triples}: has no triples")


def subgraphs(args, n: int) -> list:
    """The relation paths of n random entities that have enough of them (sp_graph_answer)."""
    keep, draw, names, found, seen = Keep(), random.Random(args.seed), names_of(args.triples), [], set()
    opened = common.out("sp_graph *", lambda to: lib.sp_graph_open(ffi.new("sp_graph_open_opts *", {"where": keep.path(args.graph)}), to))
    o = ffi.new("sp_graph_paths_opts *", {"k": args.paths, "hops": args.hops, "max_entities": 1})
    for _ in range(200 * n):
        if len(found) == n:
            break
        a = ffi.gc(ffi.new("sp_graph_answer *"), lib.sp_graph_answer_fini)
        check(lib.sp_graph_find_paths(opened, keep.string(draw.choice(names)), o, a))
        if a.n_entities == 1 and a.n_paths >= min(args.min_paths, args.paths) and (root := text(a.paths[0].nodes[0])) not in seen:
            found.append(a)
            seen.add(root)
    lib.sp_graph_close(opened)
    if len(found) < n:
        sys.exit(f"{args.graph}: {len(found)} entities with {args.min_paths} paths were found, {n} are needed")
    return found


def line_of(path) -> str:
    """As the trees write it: with arrows that show the direction of a relation."""
    said = text(path.nodes[0])
    for i in range(path.n_hops):
        rel = text(path.relations[i])
        said += (f" <-{rel}- " if path.inverse[i] else f" -{rel}-> ") + text(path.nodes[i + 1])
    return said


def prompt_of(engine, some: list, form: str, n_paths: int, mode=EXACT, question=QUESTION):
    """form: "paths", "preorder" or "trees"; each subgraph of `some` with n_paths at most."""
    p = common.prompt_of(engine, [])
    check(lib.sp_prompt_tree_mode(p.c, mode))
    for a in some:
        n = min(a.n_paths, n_paths)
        if form == "paths":
            p.text("".join(line_of(a.paths[i]) + "\n" for i in range(n)))
            continue
        tree = ffi.gc(ffi.new("sp_graph_tree *"), lib.sp_graph_tree_fini)
        check(lib.sp_graph_tree_build(a.paths, n, ARROWS, tree))
        if form == "preorder":
            p.text("".join(text(tree.v[i].text) for i in range(tree.n)))
        else:
            check(lib.sp_prompt_graph(p.c, tree))
    return p.question(question) if question else p


# -- by length -------------------------------------------------------------------------------------

def paths_for(engine, some: list, most: int, n_tokens: int) -> int:
    """The most paths a subgraph with which the linear prompt has at most n_tokens."""
    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        with prompt_of(engine, some, "paths", middle) as p:
            low, high = (middle, high) if len(p) <= n_tokens else (low, middle - 1)
    return low


def to_first_token(args, engine, some: list, form: str, n_paths: int) -> dict:
    layout, known = ("trees" if form == "known" else form), form == "known"
    if known:
        with prompt_of(engine, some, layout, n_paths, args.mode, question=None) as p:
            common.ask(engine, p, reuse="prefix", max_tokens=0).close()
    with prompt_of(engine, some, layout, n_paths, args.mode) as p, \
         common.ask(engine, p, reuse="prefix" if known else "off", max_tokens=1) as r:
        return {"tokens": r.result.n_prompt, "computed": r.result.n_computed, "nodes": r.result.n_segments - 2, "s": r.result.ttft_us / 1e6}


def by_length(args, engine, some: list) -> None:
    forms = ("paths", "preorder", "trees", "known")
    for i, length in enumerate(args.lengths):
        n_paths = paths_for(engine, some, args.paths, length)
        got = {f: [] for f in forms}
        for _ in range(args.rounds):
            for f in forms:
                got[f].append(to_first_token(args, engine, some, f, n_paths))
        row = {"subgraphs": len(some), "paths": n_paths, "nodes": got["known"][0]["nodes"]}
        for f in forms:
            s = [x["s"] for x in got[f]]
            row[f] = {"tokens": got[f][0]["tokens"], "computed": got[f][0]["computed"], "ttft_s": common.median(s), "best_s": min(s)}
        if args.json:
            print(json.dumps(row), flush=True)
            continue
        if i == 0:
            print("tokens    paths of     of      nodes  TTFT, ms: paths   preorder      trees      known   dependency  reuse  known\n"
                  "of paths  an entity    trees")
        s = [row[f]["ttft_s"] for f in forms]
        print(f"{row['paths']['tokens']:8}  {n_paths:9}  {row['trees']['tokens']:7}  {row['nodes']:9}  {1e3 * s[0]:15.1f} {1e3 * s[1]:10.1f} "
              f"{1e3 * s[2]:10.1f} {1e3 * s[3]:10.1f} {s[1] / s[2]:11.2f}x {s[2] / s[3]:5.1f}x {s[0] / s[3]:5.1f}x", flush=True)


# -- answers ---------------------------------------------------------------------------------------

def answer_rate(args, engine, some: list, form: str, n_paths: int) -> dict:
    """Tokens a second after the first; answers in which nothing may move are short, and several."""
    engine.forget()
    for n in range(1, n_paths + 1) if form in ("apart", "packed") else ():  # each leaves the nodes that it adds
        with prompt_of(engine, some, "trees", n, args.mode, question=None) as p:
            common.ask(engine, p, reuse="prefix", max_tokens=0).close()
    n_tokens = min(SHORT, args.answer) if form in ("fresh", "apart") else args.answer
    n, us = 0, 0
    for _ in range(max(1, args.answer // n_tokens)):
        with prompt_of(engine, some, "preorder" if form == "linear" else "trees", n_paths, args.mode) as p, \
             common.ask(engine, p, reuse="prefix", max_tokens=n_tokens) as r:
            n, us = n + r.result.n_generated - 1, us + r.result.decode_us
            said = {"tokens": r.result.n_prompt, "nodes": r.result.n_segments - 2, "packed_tokens": r.result.decode.n_packed,
                    "pack_ms": r.result.decode.pack_us / 1e3}
    return {**said, "rate": n * 1e6 / us}


def answers(args, engine, some: list) -> None:
    forms = ("linear", "fresh", "apart", "packed")
    for i, length in enumerate(args.lengths):
        n_paths, got = paths_for(engine, some, args.paths, length), {f: [] for f in forms}
        for _ in range(args.rounds):
            for f in forms:
                got[f].append(answer_rate(args, engine, some, f, n_paths))
        row = {k: got["packed"][0][k] for k in ("tokens", "nodes", "packed_tokens")}
        row |= {"pack_ms": common.median([x["pack_ms"] for x in got["packed"]])} | {f: common.median([x["rate"] for x in got[f]]) for f in forms}
        if args.json:
            print(json.dumps(row), flush=True)
            continue
        if i == 0:
            print(f"{'tokens':>8} {'nodes':>8} {'packed':>8} {'in ms':>8}   tokens a second: " + " ".join(f"{f:>8}" for f in forms))
        print(f"{row['tokens']:8} {row['nodes']:8} {row['packed_tokens']:8} {row['pack_ms']:8.2f} {'':18} " +
              " ".join(f"{row[f]:8.1f}" for f in forms), flush=True)


# -- shifted trees ---------------------------------------------------------------------------------

def first_token(engine, some: list, n_paths: int, reuse: str) -> tuple:
    """The most likely first tokens as {id: logprob}, the likeliest first; tokens of the prompt, and reused ones."""
    top = {}

    def take(v, n):
        if not top:
            top.update((v[i].id, v[i].logprob) for i in range(1, n))
    with prompt_of(engine, some, "trees", n_paths, SHIFTED) as p, \
         common.ask(engine, p, on_token=take, top_logprobs=N_TOP, reuse=reuse, max_tokens=1) as r:
        return top, r.result.n_prompt, r.result.n_reused


def divergence(want: dict, got: dict) -> float:
    """KL over the most likely tokens of `want`, the rest as one; a token that `got` lacks has at most its last one's."""
    last = list(got.values())[-1]
    pairs = [(p, got.get(i, last)) for i, p in want.items()]
    kl = sum(math.exp(p) * (p - q) for p, q in pairs)
    p_rest, q_rest = (1 - sum(math.exp(x[k]) for x in pairs) for k in (0, 1))
    return max(0.0, kl + (p_rest * math.log(p_rest / q_rest) if p_rest > 1e-9 and q_rest > 1e-9 else 0))


def deviation(args, engine, some: list) -> None:
    """moved: known from a prompt with the same trees in another order; siblings: with twice as many paths; both."""
    n_paths = (args.paths + 1) // 2
    for case in ("moved", "siblings", "both"):
        draw, kl, same, reused, tokens = random.Random(args.seed), [], 0, 0, 0
        for _ in range(args.rounds):
            here = draw.sample(some, args.entities)
            there = draw.sample(here, len(here)) if case != "siblings" else here
            engine.forget()
            want, _, _ = first_token(engine, here, n_paths, "off")
            with prompt_of(engine, there, "trees", n_paths if case == "moved" else 2 * n_paths, SHIFTED, question=None) as p:
                common.ask(engine, p, reuse="prefix", max_tokens=0).close()
            got, n, known = first_token(engine, here, n_paths, "prefix")
            kl.append(divergence(want, got))
            same, reused, tokens = same + (next(iter(want)) == next(iter(got))), reused + known, tokens + n
        row = {"nodes": case, "prompts": args.rounds, "kl_mean": sum(kl) / len(kl), "kl_median": common.median(kl), "same_token": same,
               "reused": reused / tokens}
        print(json.dumps(row) if args.json else f"{case:9} KL mean {row['kl_mean']:.4f} median {row['kl_median']:.4f}, same first token "
              f"{same} of {args.rounds}, {row['reused']:.0%} reused", flush=True)


# -- workloads -------------------------------------------------------------------------------------

def draw_requests(args, workload: str, n: int) -> list:
    """Entities of each request, all different. temporal: three of four come from the last requests. Source: DepCache section 6.1."""
    draw, requests = random.Random(args.seed), []
    for _ in range(args.requests):
        mine, recent = [], [x for r in requests[-N_RECENT:] for x in r]
        while len(mine) < args.entities:
            if workload == "zipf":
                [one] = draw.choices(range(n), [1 / (1 + i) for i in range(n)])
            else:
                one = draw.choice(recent) if workload == "temporal" and recent and draw.randrange(4) else draw.randrange(n)
            mine += [one] if one not in mine else []
        requests.append(mine)
    return requests


def workloads(args, engine, some: list) -> None:
    for name in args.workload.split(","):
        drawn = draw_requests(args, name, len(some))
        for system in args.systems.split(","):
            engine.forget()
            start, waiting = time.monotonic(), []
            for which in drawn:
                with prompt_of(engine, [some[i] for i in which], "trees" if system == "trees" else "paths", args.paths, args.mode) as p:
                    waiting.append(common.Request(engine, p, reuse="off" if system == "linear" else "prefix", max_tokens=1))
            for r in waiting:
                lib.sp_request_wait(r.c, -1)
            seconds = time.monotonic() - start
            tokens, reused = sum(r.result.n_prompt for r in waiting), sum(r.result.n_reused for r in waiting)
            for r in waiting:
                r.close()
            row = {"workload": name, "system": system, "queue": args.order or "reorder", "requests": len(drawn), "tokens": tokens,
                   "seconds": seconds, "hit_rate": reused / tokens}
            print(json.dumps(row) if args.json else f"{name:10} {system:16} {row['queue']:14} {tokens:8} tokens {len(drawn) / seconds:10.2f} "
                  f"requests/s {reused / tokens:7.1%} reused", flush=True)


# -- options ---------------------------------------------------------------------------------------

def options():
    p = common.parser(__doc__)
    p.add_argument("--graph", "-g", required=True, help="written by spolia graph import")
    p.add_argument("--triples", required=True, help="its TSV file; entities are drawn from it")
    p.add_argument("--tree", choices=("exact", "shifted"), default="exact", help="positions of nodes")
    p.add_argument("--lengths", type=common.numbers(1, 1 << 20), default=[1024, 2048, 4096], help="tokens of the linear prompt at most")
    p.add_argument("--entities", type=common.count, default=20, help="subgraphs of a prompt")
    p.add_argument("--paths", type=common.count, default=50, help="of a subgraph at most")
    p.add_argument("--min-paths", type=common.count, default=20, help="entities with fewer are not drawn")
    p.add_argument("--hops", type=common.count, default=2, help="relations in a path at most")
    p.add_argument("--rounds", type=common.count, default=3, help="alternating runs of each form; medians count")
    p.add_argument("--workload", help="temporal, zipf, uniform")
    p.add_argument("--systems", default="linear,prefix,trees", help="of the workload")
    p.add_argument("--pool", type=common.count, default=200, help="entities of the workload and of --deviation")
    p.add_argument("--requests", type=common.count, default=64, help="of the workload")
    p.add_argument("--answer", type=int, default=0, metavar="N", help="the rate of an answer of N tokens, 2 or more")
    p.add_argument("--deviation", action="store_true")
    p.add_argument("--json", action="store_true", help="a JSON object a line")
    args = p.parse_args()
    for given, known in ((args.workload, {"temporal", "zipf", "uniform"}), (args.systems, {"linear", "prefix", "trees"})):
        if given and (unknown := set(given.split(",")) - known):
            p.error(f"\"{unknown.pop()}\" is unknown; there are {', '.join(sorted(known))}")
    if args.answer == 1 or args.answer < 0:
        p.error("--answer is 2 tokens or more")
    if (args.workload or args.deviation) and args.pool < args.entities:
        p.error("--pool is smaller than --entities")
    args.mode = SHIFTED if args.tree == "shifted" else EXACT
    return args


def main() -> int:
    args = options()
    some = subgraphs(args, args.pool if args.workload or args.deviation else args.entities)
    with common.open_engine(args) as engine:
        measure = workloads if args.workload else deviation if args.deviation else answers if args.answer else by_length
        measure(args, engine, some)
    return 0


if __name__ == "__main__":
    shared.run(main)
