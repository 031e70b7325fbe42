#!/usr/bin/env python3
"""Another program's benchmark between rounds of `spolia bench`: the ratio of both rates, round by round.

{column} in the peer's command is the value of that column in our row: model, tokens, batch, depth, ... --match is a
regular expression whose group is the rate in the command's output, in our unit; without it the first number counts. A
peer that fails ends the comparison only.

    bench/peer.py --rounds 3 --peer "llama-bench -m {model} -p {tokens} -n 0 -t 2 -o csv" --match "(?m)([0-9.]+)$" -- \\
        prefill -m q05.gguf --sizes 512
"""
import argparse
import csv
import re
import shlex
import statistics
import subprocess
import sys
import tempfile

import shared
from shared import ROOT

RESULTS = ("round", "seconds", "rate", "unit", "bound", "bound_rate", "share")


def ours(args, path: str) -> list:
    """Rows of one round."""
    subprocess.run([args.spolia, "bench", *args.rest, "--rounds", "1", "--csv", path], check=True, stdout=subprocess.DEVNULL)
    with open(path, newline="", encoding="utf-8") as f:
        return list(csv.DictReader(f))


def theirs(args, row: dict) -> float:
    """The peer's rate for a row's setting."""
    command = re.sub(r"\{(\w+)\}", lambda m: shlex.quote(row[m[1]]) if m[1] in row else m[0], args.peer)
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    last = ((done.stderr if done.returncode else done.stdout).strip() or "printed nothing").splitlines()[-1]
    found = re.search(args.match, done.stdout)
    if done.returncode or not found or float(found[1]) <= 0:
        why = f"exit code {done.returncode}" if done.returncode else f"no rate above 0 (--match {args.match})"
        raise ValueError(f"{command}: {why}: {last}")
    return float(found[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spolia", default=str(ROOT / "build/spolia"))
    parser.add_argument("--peer", required=True, metavar="COMMAND")
    parser.add_argument("--match", default=r"([0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?)", metavar="REGEX")
    parser.add_argument("--rounds", type=shared.count, default=3)
    parser.add_argument("--csv", help="a line for each run: ours, peer, ratio")
    parser.add_argument("rest", nargs="+", help="after --: arguments of `spolia bench`")
    args = parser.parse_args()
    if re.compile(args.match).groups != 1:
        parser.error("--match: one group is needed")
    out, compare = [], True
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.rounds):
            for row in ours(args, f"{folder}/x.csv"):
                value = None
                try:
                    value = theirs(args, row) if compare else None
                except ValueError as e:
                    compare = False
                    print(f"peer: {e}\npeer: continuing without the peer", file=sys.stderr)
                named = {k: v for k, v in row.items() if k not in RESULTS}
                rate = float(row["rate"])
                out.append({**named, "round": number + 1, "unit": row["unit"], "ours": rate, "peer": value,
                            "ours_per_peer": rate / value if value else None})
    by_setting = {}
    for r in out:
        by_setting.setdefault(tuple(v for k, v in r.items() if k in r and k not in ("round", "unit", "ours", "peer", "ours_per_peer")), []).append(r)
    for key, rows in by_setting.items():
        ratios = [r["ours_per_peer"] for r in rows if r["peer"]]
        print(*key, f"{statistics.median(r['ours'] for r in rows):.4g} {rows[0]['unit']}", end="")
        print(f", ours/peer {statistics.median(ratios):.3g} ({' '.join(f'{x:.3g}' for x in ratios)})" if ratios else "")
    if args.csv:
        with open(args.csv, "w", newline="", encoding="utf-8") as f:
            table = csv.DictWriter(f, out[0])
            table.writeheader()
            table.writerows(out)
    return 0


if __name__ == "__main__":
    shared.run(main)
