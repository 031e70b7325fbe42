"""Does reuse decay? The share of reused tokens over many questions with new orders of documents each time.

Each query draws a random question of the set and 14 of its documents in random order, the needed ones
among them. (Asking the questions in a fixed cycle would make reuse oscillate: only the end of the last
cycle is still cached.) All queries of a policy run in one process (`spolia bench trace`) whose KV memory
holds a third of the corpus. The share of reused prompt tokens does not depend on weights, so any small
model with a context of some thousand tokens will do. Writes CSV and an SVG of moving means,
and prints the means of quarters of the run.

    .venv/bin/python scripts/make-random-model --preset tiny-qwen2 --ctx 8192 --tokenizer GPT2.gguf tiny.gguf
    .venv/bin/python bench/reuse_decay.py -m tiny.gguf --data MUSIQUE
"""
import argparse
import csv
import json
import pathlib
import random
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
POLICIES = {"prefix": ["--reuse", "prefix"], "full": ["--reuse", "full"],
            "fusion 15 %": ["--reuse", "fusion", "--recompute", "0.15"],
            "craft 15 %": ["--reuse", "craft", "--recompute", "0.15"]}
COLORS = ["#4c72b0", "#dd8452", "#55a868", "#c44e52"]


# -- queries ---------------------------------------------------------------------------------------

def read_lines(path: pathlib.Path) -> list:
    with open(path) as f:
        return [json.loads(line) for line in f]


def make_queries(args, docs: dict, questions: list) -> list:
    """Questions are drawn by Zipf's law over a random ranking; exponent 0: all alike."""
    rng, queries = random.Random(args.seed), []
    ranked = rng.sample(questions, len(questions))
    weights = [(i + 1) ** -args.skew for i in range(len(ranked))]
    for q in rng.choices(ranked, weights, k=args.queries):
        needed = [d for d in q["doc_ids"] if d in docs][:args.docs]
        others = [d for d in q["context_doc_ids"] if d in docs and d not in needed]
        chosen = needed + rng.sample(others, min(args.docs - len(needed), len(others)))
        rng.shuffle(chosen)
        queries.append({"chunks": [{"title": docs[d]["title"], "text": docs[d]["text"]} for d in chosen],
                        "question": q["question"]})
    return queries


# -- runs ------------------------------------------------------------------------------------------

def n_tokens(args, docs: dict) -> int:
    """Tokens of the corpus in the model's own vocabulary."""
    text = "".join(f"[{d['title']}]\n{d['text']}\n\n" for d in docs.values())
    done = subprocess.run([args.spolia, "tokenize", "-m", args.model, "--no-special", "--json", "-f", "-"],
                          input=text, stdout=subprocess.PIPE, text=True, check=True)
    return len(json.loads(done.stdout)["tokens"])


def run(args, name: str, options: list, queries: list, kv_tokens: int) -> list:
    """The share of reused tokens of each query."""
    command = [args.spolia, "bench", "trace", "-m", args.model, "--kv-tokens", str(kv_tokens), *options]
    shares = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        for query in queries:
            process.stdin.write(json.dumps(query) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            if not line:
                break
            usage = json.loads(line)["usage"]
            shares.append(usage["reused_tokens"] / usage["prompt_tokens"])
            if sys.stderr.isatty():
                print(f"\r{name}: {len(shares)} of {len(queries)} ", end="", file=sys.stderr)
        process.stdin.close()
    if process.returncode or len(shares) < len(queries):
        sys.exit(f"{name}: stopped after {len(shares)} queries")
    return shares


# -- results ---------------------------------------------------------------------------------------

def moving_mean(values: list, n: int) -> list:
    sums = [0.0]
    for v in values:
        sums.append(sums[-1] + v)
    return [(sums[i + 1] - sums[max(0, i + 1 - n)]) / min(n, i + 1) for i in range(len(values))]


def write_svg(path: str, results: dict, window: int, title: str) -> None:
    w, h, left, top, right, bottom = 720, 360, 60, 40, 20, 50
    n = max(len(v) for v in results.values())

    def at(i, share):
        return left + i / max(n - 1, 1) * (w - left - right), h - bottom - share * (h - top - bottom)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" font-family="sans-serif" '
           f'font-size="12"><rect width="100%" height="100%" fill="white"/>',
           f'<text x="{w / 2}" y="22" text-anchor="middle" font-size="14">{title}</text>',
           f'<text x="{w / 2}" y="{h - 12}" text-anchor="middle">queries (mean of the last {window})</text>']
    for percent in range(0, 101, 20):
        x, y = at(0, percent / 100)
        out.append(f'<path d="M{x:.1f} {y:.1f}H{w - right}" stroke="#ddd"/>'
                   f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{percent} %</text>')
    for i in range(0, n + 1, max(1, n // 5)):
        x, y = at(i, 0)
        out.append(f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="middle">{i}</text>')
    for k, (name, values) in enumerate(results.items()):
        means = list(enumerate(moving_mean(values, window)))[::max(1, n // 250)]
        points = " ".join("%.1f,%.1f" % at(i, v) for i, v in means)
        color = COLORS[k % len(COLORS)]
        out.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5"/>'
                   f'<text x="{left + 10 + 130 * k}" y="{top + 14}" fill="{color}">{name}</text>')
    pathlib.Path(path).write_text("\n".join([*out, "</svg>\n"]))


def report(results: dict) -> None:
    print(f"{'policy':12} " + " ".join(f"{f'quarter {i}':>10}" for i in (1, 2, 3, 4)))
    for name, values in results.items():
        cuts = [len(values) * i // 4 for i in range(5)]
        means = [sum(values[a:b]) / max(1, b - a) for a, b in zip(cuts, cuts[1:])]
        print(f"{name:12} " + " ".join(f"{m:10.1%}" for m in means))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--data", required=True, type=pathlib.Path,
                        help="folder with docs.jsonl and questions.dev.jsonl (doc_ids, context_doc_ids)")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--docs", type=int, default=14, help="in a query")
    parser.add_argument("--cache", type=float, default=1 / 3, help="share of the corpus that KV memory holds")
    parser.add_argument("--skew", type=float, default=0.0, help="exponent of Zipf's law for the questions; 0: all alike")
    parser.add_argument("--window", type=int, default=100, help="queries of the moving mean")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--spolia", default=str(ROOT / "build/spolia"))
    parser.add_argument("--csv", default=str(ROOT / "build/reuse_decay.csv"))
    parser.add_argument("--svg", default=str(ROOT / "build/reuse_decay.svg"))
    args = parser.parse_args()

    docs = {d["id"]: d for d in read_lines(args.data / "docs.jsonl")}
    queries = make_queries(args, docs, read_lines(args.data / "questions.dev.jsonl"))
    corpus = n_tokens(args, docs)
    kv_tokens = int(args.cache * corpus)
    print(f"{len(docs)} documents of {corpus} tokens, KV memory for {kv_tokens}; {len(queries)} queries")
    results = {name: run(args, name, options, queries, kv_tokens) for name, options in POLICIES.items()}

    with open(args.csv, "w", newline="") as f:
        rows = csv.writer(f)
        rows.writerow(["query", *results])
        rows.writerows([i, *(f"{v:.4f}" for v in shares)] for i, shares in enumerate(zip(*results.values())))
    write_svg(args.svg, results, args.window, f"Reused tokens, {args.docs} shuffled documents a query")
    report(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
