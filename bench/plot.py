#!/usr/bin/env python3
"""Pictures of measurements: CSV files of `spolia bench`, `eval` and `sim`, of bench/load.py and bench/reuse_decay.py.

The columns say what a file is. `spolia eval --out PREFIX` writes two: PREFIX.summary.csv (quality and divergence over the
share recomputed) and PREFIX.csv (deviation by layer, reuse over time). Needs matplotlib: pip install matplotlib

    bench/plot.py reuse.csv                        writes reuse.svg
    bench/plot.py eval.summary.csv -o eval.png     the name selects the format
    bench/plot.py mine.csv other.csv --x depth --y rate --by model     any file: a line for each value of --by
"""
import argparse
import collections
import csv
import math
import pathlib
import statistics
import sys

import shared

MARKERS = "os^Dvp<>h*X"
SHARE = "share of chunk tokens recomputed"


def read(path: str) -> list:
    """Rows of a CSV file; numbers are floats, and comment lines are left out."""
    with open(path, newline="", encoding="utf-8") as f:
        rows = list(csv.DictReader(line for line in f if not line.startswith("#")))
    for row in rows:
        for k, v in row.items():
            try:
                row[k] = float(v)
            except (TypeError, ValueError):
                pass
    return rows


def groups(rows: list, *columns: str) -> dict:
    """Rows by the values of columns, in the order of their first."""
    out = collections.defaultdict(list)
    for r in rows:
        out[tuple(r[c] for c in columns) if len(columns) > 1 else r[columns[0]]].append(r)
    return out


def medians(rows: list, x: str, y: str) -> list:
    """(x, median of y), ascending."""
    points = groups([r for r in rows if isinstance(r[y], float) and math.isfinite(r[y])], x)
    return sorted((at, statistics.median(r[y] for r in v)) for at, v in points.items())


class Panel:
    """Lines of one picture: {name: [(x, y)]}; rules: {name: y} across it."""

    def __init__(self, title: str, x: str, y: str, **scales):
        self.title, self.x, self.y, self.scales = title, x, y, scales
        self.lines, self.rules = {}, {}


def setting(r: dict) -> str:
    return f"{r['policy']} {100 * r['recompute']:g} %" if r["recompute"] else r["policy"]


# -- the files -------------------------------------------------------------------------------------

def of_reuse(rows: list) -> list:
    """`bench reuse`: gains over the share recomputed, a panel for each size and order."""
    panels = []
    for (n, tokens, order), part in groups([r for r in rows if r["policy"] != "off"], "chunks", "chunk_tokens", "order").items():
        p = Panel(f"{n:g} x {tokens:g} tokens, {order}", SHARE, "time to first token, off / this", y_log=True, x_percent=True)
        for policy, of in groups(part, "policy").items():
            p.lines[policy] = medians(of, "recompute", "gain")
            if len(p.lines[policy]) == 1 and policy != "full":
                p.rules[policy] = p.lines.pop(policy)[0][1]
            elif len(p.lines[policy]) > 1:
                p.lines["bound"] = medians(of, "recompute", "bound")
        panels.append(p)
    return panels


def of_sim(rows: list) -> list:
    """`sim`: documents found over memory."""
    p = Panel("Replacement policies", "memory, share of distinct tokens", "documents found", x_percent=True, y_percent=True)
    p.lines = {policy: medians(of, "memory", "hit_rate") for policy, of in groups(rows, "policy").items()}
    return [p]


def of_load(rows: list) -> list:
    """bench/load.py: times and throughput over the rates."""
    panels = []
    for column, title, scales in (("ttft_ms", "mean time to first token, ms", {"y_log": True}),
                                  ("ttft_p95_ms", "TTFT, 95 %, ms", {"y_log": True}), ("gap_ms", "time between tokens, ms", {}),
                                  ("tokens_s", "tokens a second", {})):
        panels.append(Panel(title, "requests a second", "", **scales))
        panels[-1].lines = {server: medians([r for r in of if r["rate"] > 0], "rate", column)
                            for server, of in groups(rows, "server").items()}
    return panels


def of_summary(rows: list) -> list:
    """PREFIX.summary.csv of `eval`: F1 of all questions and of each kind, and KL, over the share recomputed."""
    panels = []
    for kind, part in groups(rows, "kind").items():
        panels.append(shares(part, "f1", Panel("Answer quality" if kind == "all" else kind, SHARE, "F1, mean", x_percent=True)))
    kl = Panel("Distance from full attention", SHARE, "KL of the first answer token, nats", x_percent=True, y_log=True)
    panels.append(shares([r for r in rows if r["kind"] == "all" and r["policy"] != "off"], "kl_first", kl))
    return panels


def shares(rows: list, column: str, p: Panel) -> Panel:
    for policy, of in groups(rows, "policy").items():
        if policy == "off" or policy.startswith("full"):
            p.rules[policy] = of[0][column]
        elif any(r["recompute"] or r["alpha"] for r in of):
            p.lines[policy] = medians(of, "recomputed", column)
    return p


def of_eval(rows: list) -> list:
    """PREFIX.csv of `eval`: of each policy the setting nearest to 15 %; deviation by layer, and reuse over time."""
    kv = Panel("Deviation of keys and values from full attention", "layer", "|KV - KV'| / |KV'|")
    reuse = Panel("Reuse over time", "question", "share of prompt tokens reused, last ten questions", y_percent=True, small=True)
    for policy, of in groups(rows, "policy").items():
        nearest = min({r["recompute"] for r in of}, key=lambda x: abs(x - 0.15))
        of = [r for r in of if r["recompute"] == nearest]
        layers = [[float(x) for x in r["kv_layers"].split(";")] for r in of if isinstance(r["kv_layers"], str) and ";" in r["kv_layers"]]
        if layers:
            kv.lines[setting(of[0])] = list(enumerate(map(statistics.fmean, zip(*layers))))
        if policy != "off":
            last = [of[max(0, i - 9):i + 1] for i in range(len(of))]
            reuse.lines[setting(of[0])] = [(i + 1, sum(r["n_reused"] for r in v) / (sum(r["n_prompt"] for r in v) or 1))
                                           for i, v in enumerate(last)]
    return [kv, reuse]


def of_decay(rows: list, window: int = 100) -> list:
    """bench/reuse_decay.py: shares of reused tokens of the last hundred queries."""
    p = Panel("Reuse over many queries", "query", f"reused tokens, mean of the last {window} queries", y_percent=True, small=True)
    for name in (c for c in rows[0] if c != "query"):
        last = [[r[name] for r in rows[max(0, i + 1 - window):i + 1]] for i in range(len(rows))]
        p.lines[name] = [(i, statistics.fmean(v)) for i, v in enumerate(last)]
    return [p]


def of_any(rows: list, args) -> list:
    """Columns that the user names."""
    p = Panel("", args.x, args.y)
    p.lines = {str(k): medians(v, args.x, args.y) for k, v in groups(rows, args.by).items()} if args.by else {"": medians(rows, args.x, args.y)}
    return [p]


KINDS = {("query", "prefix", "full"): of_decay, ("policy", "order", "gain"): of_reuse,
         ("policy", "memory", "hit_rate"): of_sim, ("server", "rate", "ttft_ms"): of_load,
         ("kind", "policy", "f1", "recomputed"): of_summary, ("policy", "kv_layers", "n_reused"): of_eval}


def panels_of(rows: list, args) -> list:
    if args.x and args.y:
        return of_any(rows, args)
    for columns, make in KINDS.items():
        if rows and set(columns) <= set(rows[0]):
            return make(rows)
    raise SystemExit(f"plot: {args.csv[0]}: no file that this knows; --x and --y name its columns")


# -- the picture -----------------------------------------------------------------------------------

def draw(panels: list, path: str) -> None:
    """One large panel, or several in rows of three."""
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("plot: matplotlib is missing: pip install matplotlib") from None
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text
    from matplotlib import pyplot
    from matplotlib.ticker import PercentFormatter
    wide = min(3, len(panels))
    figure, axes = pyplot.subplots(math.ceil(len(panels) / wide), wide, squeeze=False,
                                   figsize=(8, 4.5) if len(panels) == 1 else (5 * wide, 3.6 * math.ceil(len(panels) / wide)))
    names = list(dict.fromkeys(n for p in panels for n in [*p.lines, *p.rules]))
    colours = {n: f"C{i % 10}" for i, n in enumerate(names)}  # a name looks alike in every panel
    for axis, p in zip(axes.flat, panels):
        for name, points in p.lines.items():
            marker = None if p.scales.get("small") else MARKERS[names.index(name) % len(MARKERS)]
            axis.plot(*zip(*points), label=name or None, color=colours[name], marker=marker) if points else None
        for name, y in p.rules.items():
            axis.axhline(y, label=name, color=colours[name], linestyle="--")
        axis.set(title=p.title, xlabel=p.x, ylabel=p.y)
        axis.grid(alpha=0.3)
        if p.scales.get("y_log") and any(y > 0 for v in p.lines.values() for _, y in v):
            axis.set_yscale("log")
        for percent, which in (("x_percent", axis.xaxis), ("y_percent", axis.yaxis)):
            if p.scales.get(percent):
                which.set_major_formatter(PercentFormatter(1))
        if any(names):
            axis.legend(fontsize="small")
    for axis in list(axes.flat)[len(panels):]:
        axis.remove()
    figure.tight_layout()
    try:
        figure.savefig(path)
    except ValueError as e:  # the name's format
        raise SystemExit(f"plot: {path}: {e}") from None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", nargs="+", help="files with the same columns")
    parser.add_argument("-o", "--out", help="the picture (the first file's name with .svg)")
    parser.add_argument("--x", help="column across")
    parser.add_argument("--y", help="column up: its median")
    parser.add_argument("--by", help="column with a line for each value")
    args = parser.parse_args()
    try:
        rows = [r for path in args.csv for r in read(path)]
        panels = panels_of(rows, args)
        if not any(y for panel in panels for y in (*panel.lines.values(), *panel.rules)):
            raise SystemExit(f"plot: {args.csv[0]}: there is nothing to draw: no numbers")
        draw(panels, args.out or str(pathlib.Path(args.csv[0]).with_suffix(".svg")))
    except OSError as e:
        sys.exit(f"plot: {e.filename}: {e.strerror}")
    except KeyError as e:
        sys.exit(f"plot: {args.csv[0]}: no column {e}")


if __name__ == "__main__":
    shared.run(main)
