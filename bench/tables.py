#!/usr/bin/env python3
"""Makes the quality tables of docs/benchmarks.md again, and a table of speed, from runs that can be interrupted.

    bench/tables.py [--out FOLDER] [--only NAME,...] [--limit N] [--data DATA] [--models FOLDER] [--judge TITLE=FILE]
                    [--report]

Each table is one run of `spolia eval` (or `bench reuse`) for each model, whose rows are appended to a file in FOLDER
(build/tables); the same command continues what was interrupted, and runs nothing again that is there. FOLDER/tables.md
has the tables, each with its number of questions, and the machine. Without --data the questions are those of
bench/questions, of which some tables have none; with it the report halves of the full sets (bench/split_questions.py).
A FOLDER is for one of the two. Without --only: all tables that have questions, those of judges that were fine-tuned
with --judge alone. --limit N: the first N questions of each set; a larger N continues. --report runs nothing and shows
what is there.

Intervals: 95 % of 2,000 resamples of the questions, paired with full attention, whose mean is resampled with them.
Times are medians of ratios.
"""
import argparse
import csv
import math
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
from dataclasses import dataclass, field

import numpy

import shared
from shared import ROOT

SYSTEM = "Answer the question from the documents, in a few words."
MODELS = {"SmolLM2 135M": "SmolLM2-135M-Instruct.Q4_1.gguf", "Gemma 3 270M": "gemma-3-270m-q4_k_m.gguf"}
EMBEDDING = "all-MiniLM-L6-v2"
STREAM = "full,random@0.15,fusion@0.15,craft@0.15,inplace@0,inplace@0.15"
CURVE = "full,fusion@0.15,inplace@0,inplace@0.15,inplace@0.3,inplace@0.5"
PAPERS = "full,random@0.15,blend@0.15,fusion@0.15,full+fused,blend+fused@0.15,fusion+fused@0.15"
FUSED = "full,full+fused,fusion+fused@0.15,blend+fused@0.15,craft+fused@0.15"
LONG = "full,fusion@0.15,craft@0.15,inplace@0,inplace@0.15"
STREAMED = ("squad_v1", "dragonball_en", "mtrag_un")   # questions about the same documents follow one another
TUNE = "{tune}"                                 # among options: the half of the set that is for tuning
CRAFT = "craft@0,craft@0.15,craft:focus=0@0.15,craft:alpha=0.25,craft:alpha=1"
COPIES = "craft@0,craft@0.15"
LAYERS = "full,random@0.15,blend@0.15,blend:layer=7@0.15,blend:layer=13@0.15"
TRAINED = "full,inplace@0,inplace@0.15"
SEEDS = ",".join(["full", "random@0.15", *(f"random:seed={seed}@0.15" for seed in range(1, 10))])


@dataclass
class Table:
    title: str
    questions: str                              # of the set; "": a table of speed
    policies: str
    options: list = field(default_factory=list)
    measure: str = "both"                       # likelihood: without answers, so without F1
    chunk_words: int = 150                      # of documents that are longer
    beside: str = ""                            # in the index: "vectors" of EMBEDDING; "graph" of bench/names.py


TABLES = {
    "stream": Table("SQuAD as a stream, from an empty cache", "squad_v1", STREAM, ["-k", "6", "--cold"]),
    "stream-f1": Table("The same, as many questions as F1 needs", "squad_v1", "inplace@0.15,inplace@0.3",
                       ["-k", "6", "--cold"]),
    "trained": Table("SQuAD as a stream, with models that train/judge.py has fine-tuned", "squad_v1", TRAINED,
                     ["-k", "6", "--cold"]),
    "trained-shares": Table("The same, more of it recomputed", "squad_v1", "inplace@0.3,inplace@0.5",
                            ["-k", "6", "--cold"]),
    "trained-hotpotqa": Table("HotpotQA, all paragraphs known, with the same models", "hotpotqa", TRAINED,
                              ["--order", "shuffled"]),
    "hotpotqa": Table("HotpotQA, all paragraphs known", "hotpotqa", CURVE, ["--order", "shuffled"]),
    "2wiki": Table("2WikiMultihopQA, all paragraphs known", "2wiki", CURVE, ["--order", "shuffled"]),
    "musique": Table("MuSiQue, all paragraphs known", "musique", CURVE, ["--order", "shuffled"]),
    "multihop": Table("MultiHop-RAG as a stream, from an empty cache", "multihop_rag", STREAM, ["-k", "6", "--cold"]),
    "dragonball": Table("DragonBall, long documents in chunks of 200 words, as a stream from an empty cache",
                        "dragonball_en", LONG, ["-k", "6", "--cold"], "likelihood", 200),
    "dragonball-100": Table("The same in chunks of 100 words", "dragonball_en", LONG, ["-k", "12", "--cold"],
                            "likelihood", 100),
    "dragonball-400": Table("The same in chunks of 400 words", "dragonball_en", LONG, ["-k", "3", "--cold"],
                            "likelihood", 400),
    "mtrag": Table("MT-RAG, conversations as a stream from an empty cache", "mtrag_un", LONG, ["-k", "6", "--cold"],
                   "likelihood"),
    "papers": Table("HotpotQA, the papers' policies, on plain copies and on copies fused with one similar paragraph",
                    "hotpotqa", PAPERS, ["--order", "shuffled", "--fuse", "1"], "likelihood"),
    "layers": Table("HotpotQA, CacheBlend's selection at later layers", "hotpotqa", LAYERS, ["--order", "shuffled"],
                    "likelihood"),
    "seeds": Table("HotpotQA, random tokens, ten seeds", "hotpotqa", SEEDS, ["--order", "shuffled"], "likelihood"),
    "bm25": Table("SQuAD, six paragraphs known, on copies fused with the one most similar by words", "squad_v1", FUSED,
                  ["-k", "6", "--fuse", "1"], "likelihood"),
    "together": Table("The same, fused with the one that other questions find with it most often", "squad_v1", FUSED,
                      ["-k", "6", "--fuse", "1", "--similar", "together", "--asked", TUNE], "likelihood"),
    "vectors": Table("The same, fused with the one whose vector is nearest", "squad_v1", FUSED,
                     ["-k", "6", "--fuse", "1", "--similar", "vectors"], "likelihood", beside="vectors"),
    "random": Table("The same, fused with a random one", "squad_v1", FUSED,
                    ["-k", "6", "--fuse", "1", "--similar", "random"], "likelihood"),
    "neighbour": Table("DragonBall, six chunks of 200 words known, fused with the chunk before them", "dragonball_en",
                       FUSED, ["-k", "6", "--fuse", "1", "--similar", "neighbour"], "likelihood", 200),
    "long-bm25": Table("The same, fused with the one most similar by words", "dragonball_en", FUSED,
                       ["-k", "6", "--fuse", "1"], "likelihood", 200),
    "long-vectors": Table("The same, fused with the one whose vector is nearest", "dragonball_en", FUSED,
                          ["-k", "6", "--fuse", "1", "--similar", "vectors"], "likelihood", 200, "vectors"),
    "long-graph": Table("The same, fused with the one that a graph of names links most strongly", "dragonball_en", FUSED,
                        ["-k", "6", "--fuse", "1", "--similar", "graph"], "likelihood", 200, "graph"),
    "craft": Table("SQuAD as a stream: Cache-Craft's shares, alpha, focused chunks", "squad_v1", CRAFT,
                   ["-k", "6", "--cold"], "likelihood"),
    "craft-1": Table("The same with one copy of a chunk", "squad_v1", COPIES,
                     ["-k", "6", "--cold", "--max-variants", "1"], "likelihood"),
    "craft-2": Table("The same with two", "squad_v1", COPIES, ["-k", "6", "--cold", "--max-variants", "2"],
                     "likelihood"),
    "craft-3": Table("The same with three", "squad_v1", COPIES, ["-k", "6", "--cold", "--max-variants", "3"],
                     "likelihood"),
    "speed": Table("Time to the first token, 8 known chunks of 256 tokens in a new order", "",
                   "full,random,fusion,craft,inplace"),
}


# -- runs ------------------------------------------------------------------------------------------

def machine():
    """The processor, its cores, and what else ran."""
    names = [line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
             if line.startswith("model name")]
    return f"{names[0] if names else os.uname().machine}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"


def files_of(given, name):
    """Questions, documents and examples of a set."""
    if not given.data:
        folder = ROOT / "bench/questions"
        return [folder / f"{name}.{part}.jsonl" for part in ("questions", "docs", "examples")]
    folder = given.out / "questions"
    if not (folder / f"{name}.report.jsonl").exists():
        split = [sys.executable, ROOT / "bench/split_questions.py", given.data, folder, name, "--stream", "400"]
        subprocess.run(split, check=True, stdout=subprocess.DEVNULL)
    report = f"{name}.report.stream.jsonl" if name in STREAMED else f"{name}.report.jsonl"
    return [folder / report, given.data / name / "docs.jsonl", folder / f"{name}.tune.jsonl"]


def have_questions(given, name):
    """Whether a table's set is there."""
    return not TABLES[name].questions or bool(given.data) or files_of(given, TABLES[name].questions)[0].exists()


def claim(given):
    """A folder has indexes and rows of one set of questions: those of others would be mixed with them."""
    note, mine = given.out / "questions-of", str(given.data.resolve()) if given.data else "bench/questions"
    if not note.exists():
        note.write_text(mine + "\n")
    elif note.read_text().strip() != mine:
        sys.exit(f"tables: {given.out} has tables of {note.read_text().strip()}; give another --out for those of {mine}")


def index_of(given, table, docs, model):
    """The index of a table's documents, made at its first use; it has its name once it is whole."""
    index = given.out / f"{table.questions}.{table.chunk_words}{table.beside and '.' + table.beside}.db"
    if index.exists():
        return index
    new, triples = index.with_suffix(".new"), index.with_suffix(".tsv")
    new.unlink(missing_ok=True)
    embedding = ["--embedding", pathlib.Path(model).parent / EMBEDDING] if table.beside == "vectors" else []
    subprocess.run([given.program, "index", docs, "-o", new, "--chunk-words", str(table.chunk_words), "--quiet",
                    *embedding], check=True)
    if table.beside == "graph":
        names = [sys.executable, ROOT / "bench/names.py", new, "-o", triples]
        subprocess.run(names, check=True, stdout=subprocess.DEVNULL)
        subprocess.run([given.program, "graph", "import", triples, "-o", new, "--quiet"], check=True)
    new.rename(index)
    return index


def command_of(given, name, model, prefix):
    """What makes the rows of a table, but for the program's path."""
    table = TABLES[name]
    if not table.questions:
        return ["bench", "reuse", "-m", model, "--chunks", "8", "--chunk-tokens", "256", "--orders", "shuffled",
                "--ratios", "0,0.15", "--policies", table.policies, "--rounds", given.rounds, "-t", "1",
                "--csv", f"{prefix}.csv", "--resume"]
    questions, docs, examples = files_of(given, table.questions)
    index = index_of(given, table, docs, model)
    options = [examples if option == TUNE else option for option in table.options]
    given_docs = [] if "-k" in options else ["-d", docs]
    limit = ["--limit", given.limit] if given.limit else []
    return ["eval", "-m", model, "-q", questions, "-i", index, *given_docs, *options, "-p", table.policies,
            "--measure", table.measure, "-n", "16", "-t", "1", "--system", SYSTEM, "--shots", "4",
            "--shots-from", examples, "--stop", "\n", "--out", prefix, *limit]


def run(given, name, model, prefix):
    command = [str(part) for part in command_of(given, name, model, prefix)]
    rows = prefix.with_name(prefix.name + ".csv")
    before = rows.stat().st_mtime_ns if rows.exists() else 0
    print(f"tables: {name}, {pathlib.Path(model).name}", file=sys.stderr, flush=True)
    try:
        done = subprocess.run([given.program, *command], stdout=subprocess.DEVNULL)
        code = f"exit code {done.returncode}" if done.returncode else 0
    except KeyboardInterrupt:
        code = "interrupted; the same command continues"
    if rows.exists() and rows.stat().st_mtime_ns != before:
        prefix.with_name(prefix.name + ".machine").write_text(machine() + "\n")
    if code != 0:
        sys.exit(f"tables: spolia {shlex.join(command)}: {code}")


# -- figures ---------------------------------------------------------------------------------------

def rows_of(path):
    """{setting: {question: row}} of a file of `eval`, settings in its order, whole questions only."""
    settings = {}
    with open(path) as f:
        for row in csv.DictReader(line for line in f if not line.startswith("#")):
            settings.setdefault((row["policy"], float(row["recompute"])), {})[row["id"]] = row
    whole = set.intersection(*map(set, settings.values())) if settings else set()
    return {setting: {i: row for i, row in rows.items() if i in whole} for setting, rows in settings.items()}


def interval(values, of=None):
    """95 % of 2,000 resampled means of values [n_questions], or of their ratios to those of `of`; the same each time.
    Not a number for fewer than 8 questions."""
    if len(values) < 8:
        return numpy.full(2, math.nan)
    picks = numpy.random.default_rng(1).integers(0, len(values), (2000, len(values)))
    means = values[picks].mean(axis=1)
    return numpy.percentile(means / of[picks].mean(axis=1) if of is not None else means, [2.5, 97.5])


def compared(settings, setting):
    """A setting's figures beside those of full attention on the same questions."""
    off, rows = settings["off", 0.0], settings[setting]

    def column(of, name):
        return numpy.array([float(of[i][name] or "nan") for i in off])

    nll, f1 = column(off, "nll"), column(off, "f1") * 100
    more, better = column(rows, "nll") - nll, column(rows, "f1") * 100 - f1
    kl = column(rows, "kl_all")
    reused = column(rows, "n_reused").sum() / column(rows, "n_prompt").sum()
    return {"nll": nll.mean(), "f1": f1.mean(), "more": more.mean() / nll.mean() * 100,
            "more_range": interval(more * 100, nll), "better": better.mean(), "better_range": interval(better), "better_each": better,
            "up": (better > 0.001).sum(), "down": (better < -0.001).sum(),
            "kl": kl.mean(), "kl_range": interval(kl), "reused": reused * 100,
            "speedup": statistics.median(column(rows, "speedup"))}


def label(setting):
    policy, share = setting
    bare = policy.startswith("full") or "alpha=" in policy
    names = {("inplace", 0.15): "balanced", ("inplace", 0.0): "fast"}     # of --quality
    return names.get(setting, policy if bare else f"{policy}, {share * 100:g} %")


def ranged(value, low_high, unit=""):
    if math.isnan(value):
        return ""
    if math.isnan(low_high[0]):
        return f"{value:+.1f}{unit}"
    return f"{value:+.1f}{unit} ({low_high[0]:+.1f} to {low_high[1]:+.1f})"


def spanned(value, low_high, form=".3f"):
    if math.isnan(low_high[0]):
        return f"{value:{form}}"
    return f"{value:{form}} ({low_high[0]:{form}} to {low_high[1]:{form}})"


def over_time(path, width=50):
    """Of a stream: a table with a line for each `width` questions, as the caches fill."""
    settings = rows_of(path)
    shown = [s for s in settings if s[0] in ("full", "fusion", "inplace")]
    if not shown:
        return []
    lines = ["", f"| questions | reused | {' | '.join(label(s) for s in shown)} |", "|---" * (len(shown) + 2) + "|"]
    ids = list(settings["off", 0.0])
    for first in range(0, len(ids) - width + 1, width):
        part = ids[first:first + width]
        window = {s: {i: settings[s][i] for i in part} for s in settings}
        of = {s: compared(window, s) for s in shown}
        cells = [f"{ranged(c['more'], c['more_range'], ' %')}, {c['kl']:.3f}" for c in of.values()]
        lines.append(f"| {first + 1} to {first + width} | {of[shown[0]]['reused']:.0f} % | {' | '.join(cells)} |")
    return lines if len(ids) >= 2 * width else []


def by_kind(path):
    """Of questions that have kinds: what each kind loses."""
    settings = rows_of(path)
    kinds = {}
    for i, row in settings["off", 0.0].items():
        kinds.setdefault(row["kind"], []).append(i)
    kinds = {kind: ids for kind, ids in kinds.items() if kind and len(ids) >= 8}
    shown = [s for s in settings if s[0] in ("full", "fusion", "craft", "inplace")]
    lines = ["", f"| an answer needs | n | {' | '.join(label(s) for s in shown)} |", "|---" * (len(shown) + 2) + "|"]
    for kind, ids in kinds.items():
        part = {s: {i: rows[i] for i in ids} for s, rows in settings.items()}
        of = [compared(part, s) for s in shown]
        cells = [f"{ranged(c['more'], c['more_range'], ' %')}, {c['kl']:.3f}" for c in of]
        lines.append(f"| {kind} | {len(ids)} | {' | '.join(cells)} |")
    return lines if len(kinds) > 1 else []


def n_for_f1(spread):
    """How many questions show that F1 is within 1 point and its interval within 2, for differences of this standard
    deviation in points: where nothing is lost, nine in ten samples of so many show it."""
    return math.ceil((spread * (1.96 + 1.645) / 2) ** 2)      # an interval's half and what means vary by, in 2 points


def power(path):
    """Of a table with F1: how many questions it would take."""
    settings = rows_of(path)
    if len(settings["off", 0.0]) < 8:
        return []
    lines = ["", "| F1 | deviation of differences, points | questions needed |", "|---|---|---|"]
    for setting in settings:
        of = compared(settings, setting)
        if setting[0] != "inplace" or math.isnan(of["f1"]):
            continue
        spread = of["better_each"].std(ddof=1)
        lines.append(f"| {label(setting)} | {spread:.1f} | {n_for_f1(spread):,} |")
    return lines if len(lines) > 3 else []


def in_order(path):
    """Settings that recompute 15 %, the nearest to full attention by KL first: how much each loses more than the one
    before it, paired by question."""
    settings = rows_of(path)
    off = settings["off", 0.0]

    def column(setting, name):
        return numpy.array([float(settings[setting][i][name]) for i in off])

    nll = column(("off", 0.0), "nll")
    shown = sorted((s for s in settings if s[1] == 0.15), key=lambda s: column(s, "kl_all").mean())
    lines = ["", "| 15 %, more than | NLL | KL |", "|---|---|---|"]
    for less, more in zip(shown, shown[1:]):
        loss, kl = (column(more, name) - column(less, name) for name in ("nll", "kl_all"))
        rise = ranged(loss.mean() / nll.mean() * 100, interval(loss * 100, nll), " %")
        lines.append(f"| {more[0]} than {less[0]} | {rise} | {spanned(kl.mean(), interval(kl), '+.3f')} |")
    return lines if len(shown) > 2 else []


def quality(path):
    """Lines of a Markdown table, and what full attention does."""
    settings = rows_of(path)
    lines = ["| setting | NLL | KL | F1, points | better, worse | reused | off / this |",
             "|---" * 7 + "|"]
    first = None
    for setting in settings:
        if setting[0] == "off":
            continue
        c = compared(settings, setting)
        first = first or c
        moved = "" if math.isnan(c["f1"]) else f"{c['up']}, {c['down']}"
        lines.append(f"| {label(setting)} | {ranged(c['more'], c['more_range'], ' %')} "
                     f"| {spanned(c['kl'], c['kl_range'])} | {ranged(c['better'], c['better_range'])} "
                     f"| {moved} | {c['reused']:.0f} % | {c['speedup']:.1f}x |")
    n = len(settings["off", 0.0])
    answers = "" if math.isnan(first["f1"]) else f", F1 {first['f1']:.1f} %"
    return lines, f"{n} questions. Full attention: NLL {first['nll']:.3f}{answers}."


def speed(path):
    """Medians over the rounds of the gain in time to the first token. Without shares of 0 that are `full`."""
    gains, recomputed = {}, {}
    with open(path) as f:
        for row in csv.DictReader(f):
            setting = row["policy"], float(row["recompute"])
            gains.setdefault(setting, []).append(float(row["gain"]))
            recomputed.setdefault(setting, []).append(int(row["recomputed_tokens"]))
            of = int(row["prompt_tokens"]) - int(row["question_tokens"])
    n_rounds = len(gains.pop(("off", 0.0)))
    lines = [f"| setting | off / this | tokens recomputed, of {of:,} |", "|---|---|---|"]
    for setting, v in gains.items():
        if setting[1] == 0 and setting[0] not in ("full", "inplace"):
            continue
        low, high = min(recomputed[setting]), max(recomputed[setting])
        lines.append(f"| {label(setting)} | {statistics.median(v):.1f}x ({min(v):.1f} to {max(v):.1f}) "
                     f"| {low if low == high else f'{low} to {high}'} |")
    return lines, f"{n_rounds} alternating rounds."


def section(given, name, prefixes):
    """A table for each model that has rows."""
    table = TABLES[name]
    out = [f"### {table.title}", ""]
    for model, prefix in prefixes.items():
        path = prefix.with_name(prefix.name + ".csv")
        if not path.exists() or (table.questions and not rows_of(path)):
            continue
        lines, about = (quality if table.questions else speed)(path)
        seen = prefix.with_name(prefix.name + ".machine")
        where = seen.read_text().strip() if seen.exists() else "machine unknown"
        lines += over_time(path) if "--cold" in table.options else []
        if table.questions:
            lines += by_kind(path) + power(path) + in_order(path)
        out += [f"{model}: {about} {where}.", "", *lines, ""]
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/spolia"))
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/tables")
    parser.add_argument("--data", type=pathlib.Path, help="folder of full sets; none: bench/questions")
    parser.add_argument("--models", type=pathlib.Path, help="folder of the judges (that of scripts/real-models)")
    parser.add_argument("--judge", action="append", default=[], metavar="TITLE=FILE", help="this model, not those of --models")
    parser.add_argument("--only", metavar="NAME,...", help="tables, of " + ", ".join(TABLES))
    parser.add_argument("--limit", type=int, default=0, metavar="N")
    parser.add_argument("--rounds", type=shared.count, default=3, metavar="N", help="of the table of speed (3)")
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    wanted = given.only.split(",") if given.only else [name for name in TABLES if given.judge or not name.startswith("trained")]
    if set(wanted) - set(TABLES):
        parser.error(f"--only: {', '.join(sorted(set(wanted) - set(TABLES)))}: not of {', '.join(TABLES)}")
    without = [name for name in wanted if not have_questions(given, name)]
    if without and given.only:
        parser.error(f"--only: {', '.join(without)}: bench/questions has none of that set; give --data")
    wanted = [name for name in wanted if name not in without]
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "spolia/models"
    models = given.models or pathlib.Path(os.environ.get("SPOLIA_MODELS", cache))
    given.out.mkdir(parents=True, exist_ok=True)
    here = {title: models / file for title, file in MODELS.items() if (models / file).exists()}
    for judge in given.judge:
        if "=" not in judge:
            parser.error(f"--judge: {judge}: not TITLE=FILE")
    if given.judge:
        here = {title: pathlib.Path(file) for title, file in (judge.split("=", 1) for judge in given.judge)}
    if not here:
        sys.exit(f"tables: {models}: no model; `make real-models` fetches them")
    if not given.report:
        claim(given)
    if without:
        print(f"tables: left out without --data: {', '.join(without)}", file=sys.stderr, flush=True)
    for name in wanted:
        for title, path in here.items():
            prefix = given.out / f"{name}.{path.stem}"
            if not given.report:
                run(given, name, path, prefix)
    lines = []
    for name in wanted:
        lines += section(given, name, {title: given.out / f"{name}.{path.stem}" for title, path in here.items()})
    (given.out / "tables.md").write_text("\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    shared.run(main)
