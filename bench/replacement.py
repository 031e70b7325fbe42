#!/usr/bin/env python3
"""replacement.py -- replacement policies over traces, as shares of what belady hits.

    bench/replacement.py [--by content|path] [--tuned NAME,...] [--sim build/spolia] TRACE[:CHUNKS]...

One row a trace and size of memory, then sums: hits of all traces, the mean share of belady's hits, the same of traces
that no policy was tuned on, and how far a policy falls behind the best of the others at worst (traces where belady
has 20 hits or more).

With --long MEAN:SIGMA documents have other sizes: log-normal, drawn by --seeds, of this mean in tokens, 100,000 at
most. So the cost of a token differs: it rises with the tokens before it. Then a cell is the time to the first token
that a policy saves, as a share of computing everything, mean of the seeds; memory is a share of all tokens."""
import argparse
import json
import math
import os
import random
import re
import subprocess
import tempfile

import shared
from shared import ROOT

POLICIES = ["lru", "lfu", "lfu+ghosts", "gdsf", "gdsf+ghosts", "pgdsf", "fr+ghosts", "hazard"]


def simulate(args, trace, chunks):
    command = [args.sim, "sim", trace, "--by", args.by, "--memory", args.memory, "--json",
               "--policy", ",".join(POLICIES + ["belady"])] + (["--chunks", chunks] if chunks else [])
    sizes = {}
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        row = json.loads(line)
        sizes.setdefault(row["memory"], {})[row["policy"]] = round(row["hit_rate"] * row["documents"])
        sizes[row["memory"]]["documents"] = row["documents"]
    return sizes


KV_BYTES = 131072  # of a token: the simulator's default


def with_sizes(trace, mean, sigma, seed, out):
    """Writes the trace with drawn sizes; all tokens."""
    sizes = {}
    with open(trace) as f, open(out, "w") as to:
        for line in f:
            docs = json.loads(line)["doc_ids"]
            for d in docs:
                n = math.exp(math.log(mean) - sigma * sigma / 2 + sigma * random.Random(f"{seed} {d}").gauss(0, 1))
                sizes.setdefault(d, min(100000, max(16, int(n))))
            to.write(json.dumps({"doc_ids": docs, "sizes": [sizes[d] for d in docs]}) + "\n")
    return sum(sizes.values())


def saved(args, trace, share, seed):
    """Of the time without a cache, by policy."""
    mean, sigma = map(float, args.long.split(":"))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.jsonl")
        tokens = with_sizes(trace, mean, sigma, seed, path)
        command = [args.sim, "sim", path, "--by", args.by, "--json", "--policy", ",".join(POLICIES), "--tiers",
                   f"device:{share * tokens * KV_BYTES / 2**30:.6f}G"]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return {r["policy"]: 1 - r["ttft"] / r["ttft_cold"] for r in map(json.loads, lines)}


def long_documents(args):
    print_row(["trace", "memory"], POLICIES)
    print_row(["---"] * 2, ["---"] * len(POLICIES))
    for trace in args.traces:
        for memory in args.memory.split(","):
            all_seeds = [saved(args, trace, float(memory.rstrip("%")) / 100, s) for s in range(1, args.seeds + 1)]
            means = {k: sum(s[k] for s in all_seeds) / args.seeds for k in POLICIES}
            best = max(means.values())
            print_row([name_of(trace), memory], ["%s%.1f %%%s" % ("**" * (means[k] == best), 100 * means[k],
                                                                  "**" * (means[k] == best)) for k in POLICIES])


def name_of(trace):
    return os.path.basename(trace).split(".")[0].removeprefix("psi_")


def share(hits, policy):
    return hits[policy] / hits["belady"]


def print_row(first, cells):
    print("| " + " | ".join(first + cells) + " |")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("traces", metavar="TRACE[:CHUNKS]", nargs="+")
    p.add_argument("--by", choices=("content", "path"), default="content")
    p.add_argument("--memory", default="5%,10%,20%")
    p.add_argument("--tuned", default="2wikimultihopqa,narrativeqa", help="traces that policies were tuned on")
    p.add_argument("--sim", default=str(ROOT / "build/spolia"), help="the program")
    p.add_argument("--long", metavar="MEAN:SIGMA", help="documents of very different length, in tokens")
    p.add_argument("--seeds", type=shared.count, default=3, help="of --long")
    args = p.parse_args()
    if args.long and not re.fullmatch(r"[0-9.]+:[0-9.]+", args.long):
        p.error(f"--long: \"{args.long}\" is not MEAN:SIGMA")
    if args.long:
        return long_documents(args)
    tuned, cells = args.tuned.split(","), []
    print_row(["trace", "memory"], POLICIES + ["belady, %"])
    print_row(["---"] * 2, ["---"] * (len(POLICIES) + 1))
    for item in args.traces:
        trace, _, chunks = item.partition(":")
        for memory, hits in sorted(simulate(args, trace, chunks).items()):
            if not hits["belady"]:
                continue
            cells.append((name_of(trace), hits))
            best = max(hits[k] for k in POLICIES)
            shares = ["%s%.2f%s" % ("**" * (hits[k] == best), share(hits, k), "**" * (hits[k] == best)) for k in POLICIES]
            print_row([name_of(trace), "%.0f%%" % (100 * memory)],
                      shares + ["%.1f" % (100 * hits["belady"] / hits["documents"])])
    held_out = [hits for name, hits in cells if name not in tuned]
    many = [hits for _, hits in cells if hits["belady"] >= 20]
    print()
    print_row(["all traces"], POLICIES)
    print_row(["---"], ["---"] * len(POLICIES))
    print_row(["hits"], ["%d" % sum(h[k] for _, h in cells) for k in POLICIES])
    print_row(["mean share"], ["%.3f" % (sum(share(h, k) for _, h in cells) / len(cells)) for k in POLICIES])
    if held_out:
        print_row(["held out"], ["%.3f" % (sum(share(h, k) for h in held_out) / len(held_out)) for k in POLICIES])
    if many:
        print_row(["worst gap"], ["%.2f" % max((max(h[q] for q in POLICIES) - h[k]) / h["belady"] for h in many)
                                  for k in POLICIES])


if __name__ == "__main__":
    shared.run(main)
