"""Runs fuzz targets, those with the fewest executions first, and logs how many inputs each has had.

    python tests/fuzz/log.py [--seconds 60] [--minutes M] [--only NAME,...] [--build build/fuzz]
    python tests/fuzz/log.py --table

Each run adds a line to tests/fuzz/executions.csv: target, last commit of src, executions, seconds of CPU, findings.
Inputs that reach new code are kept in BUILD/new (`make fuzz-keep` adds them to the corpus). --table prints the sum of
each target, how many inputs a second of CPU its last run had, and the hours of one CPU that are left to GOAL at that
speed. The exit code is 1 when a run ended with a finding.
"""
import argparse
import csv
import pathlib
import re
import resource
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOG = ROOT / "tests/fuzz/executions.csv"
FIELDS = ["target", "commit", "executions", "seconds", "findings"]
GOAL = 10**8


def read_log():
    if not LOG.exists():
        return []
    with open(LOG, newline="") as f:
        rows = list(csv.DictReader(f))
    return [{**row, "executions": int(row["executions"]), "seconds": float(row["seconds"])} for row in rows]


def add_line(row):
    is_new = not LOG.exists()
    with open(LOG, "a", newline="") as f:
        writer = csv.DictWriter(f, FIELDS, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow(row)


def targets():
    return sorted(p.stem for p in (ROOT / "tests/fuzz").glob("fuzz_*.c"))


def counted():
    """target -> its executions in all."""
    sums = dict.fromkeys(targets(), 0)
    for row in read_log():
        sums[row["target"]] = sums.get(row["target"], 0) + row["executions"]
    return sums


def fewest_first(chosen, end):
    """The targets, each once; with an end, always the one with the fewest executions until then."""
    if end is None:
        yield from sorted(chosen, key=counted().get)
    while end and time.monotonic() < end:
        yield min(chosen, key=counted().get)


def commit():
    """The last one that changed src."""
    command = ["git", "log", "-1", "--format=%h", "--abbrev=8", "--", "src"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()


def run(target, seconds, build):
    """Its line of the log."""
    new, corpus = build / "new" / target, ROOT / "tests/fuzz/corpus" / target
    new.mkdir(parents=True, exist_ok=True)
    began = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([build / target, f"-max_total_time={seconds}", "-rss_limit_mb=2048", "-timeout=60",
                           "-print_final_stats=1", f"-artifact_prefix={build}/{target}-", new, corpus],
                          stderr=subprocess.PIPE, text=True, errors="replace")
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime
    n = re.search(r"number_of_executed_units: *(\d+)", done.stderr)
    if done.returncode or not n:
        print(done.stderr[-6000:], flush=True)
    return {"target": target, "commit": commit(), "executions": int(n[1]) if n else 0,
            "seconds": max(0.1, round(cpu, 1)), "findings": int(done.returncode != 0)}


def table():
    print("| target | executions | a second of CPU | hours to 10^8 |\n|---|---|---|---|")
    last = {row["target"]: row["executions"] / row["seconds"] for row in read_log()}
    for target, n in counted().items():
        speed = last.get(target)
        left = f"{max(0, GOAL - n) / speed / 3600:.1f}" if speed else "-"
        print(f"| {target.removeprefix('fuzz_')} | {n:,} | {f'{speed:,.0f}' if speed else '-'} | {left} |")
    print(f"| all | {sum(counted().values()):,} | | |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=int, default=60, help="of one run of a target")
    parser.add_argument("--minutes", type=float, default=0, help="of all runs (0: each target once)")
    parser.add_argument("--only", default="", help="targets, comma-separated")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/fuzz")
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if args.table:
        return table()
    chosen = ["fuzz_" + name.removeprefix("fuzz_") for name in args.only.split(",")] if args.only else targets()
    if unknown := sorted(set(chosen) - set(targets())):
        parser.error(f"--only: {', '.join(unknown)} not in tests/fuzz")
    end = time.monotonic() + 60 * args.minutes
    n_bad = 0
    for target in fewest_first(chosen, end if args.minutes else None):
        row = run(target, args.seconds, args.build.resolve())
        add_line(row)
        n_bad += row["findings"]
        print(row, flush=True)
    return 1 if n_bad else 0


if __name__ == "__main__":
    sys.exit(main())
