#!/usr/bin/env python3
"""startup -- time of a whole process that prints one token: packing its weights, mapping a pack, and a peer.

    bench/startup.py MODEL.gguf... [--rounds 5] [--peer "llama-simple -m {model} -n 1 hello"] [--csv FILE]

Every round runs each way once, in turn; the first round is not counted, so files are in the page cache. Packs are
kept in a temporary folder. Prints medians, and the ratio to the peer round by round.
"""
import argparse
import csv
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import shared
from shared import ROOT



def timed(command, env):
    """Seconds of wall time and of CPU time."""
    before, start = os.times(), time.monotonic()
    done = subprocess.run(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wall, after = time.monotonic() - start, os.times()
    if done.returncode != 0:
        sys.exit(f"startup: {shlex.join(command)}: {done.stderr.strip() or f'exit code {done.returncode}'}")
    return wall, after.children_user + after.children_system - before.children_user - before.children_system


def ways_of(model, peer):
    ours = [os.environ.get("SPOLIA", str(ROOT / "build" / "spolia")), "run", "-m", model, "-p", "hello", "-n", "1",
            "-c", "512"]
    ways = {"packed": [*ours, "--no-pack-cache"], "mapped": ours}
    if peer:
        ways["peer"] = [part.replace("{model}", model) for part in shlex.split(peer)]
    return ways


def measure(model, peer, rounds, cache):
    env = {**os.environ, "XDG_CACHE_HOME": cache}
    ways, times = ways_of(model, peer), {}
    for number in range(rounds + 1):
        for name, command in ways.items():
            seconds = timed(command, env)
            if number > 0:
                times.setdefault(name, []).append(seconds)
    return times


def report(model, times):
    size = Path(model).stat().st_size / 2**20
    print(f"{Path(model).name}, {size:.0f} MiB")
    for name, runs in times.items():
        walls = [wall for wall, _ in runs]
        line = f"  {name:7} {statistics.median(walls):6.2f} s ({min(walls):.2f} to {max(walls):.2f})"
        line += f", {statistics.median(cpu for _, cpu in runs):5.2f} s of CPU"
        if "peer" in times and name != "peer":
            ratios = [wall / other for (wall, _), (other, _) in zip(runs, times["peer"])]
            line += f", ours/peer {statistics.median(ratios):.2f}x ({', '.join(f'{r:.2f}' for r in ratios)})"
        print(line, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--rounds", type=shared.count, default=5)
    parser.add_argument("--peer", metavar="COMMAND", help="{model} is replaced; it must end after one token")
    parser.add_argument("--csv", type=Path)
    args = parser.parse_args()
    rows = [["model", "way", "round", "wall_s", "cpu_s"]]
    with tempfile.TemporaryDirectory(prefix="spolia-startup-") as cache:
        for model in args.models:
            times = measure(model, args.peer, args.rounds, cache)
            report(model, times)
            rows += [[Path(model).name, name, i, *seconds] for name, runs in times.items()
                     for i, seconds in enumerate(runs, 1)]
    if args.csv:
        with args.csv.open("w", newline="") as out:
            csv.writer(out).writerows(rows)


if __name__ == "__main__":
    shared.run(main)
