"""Time to the first token of prompts whose chunks are on disk: loaded layer by layer, whole, or computed.

    python3 bench/preload.py -m MODEL --chunks CHUNKS.jsonl [--k 8] [--prompts 6] [--rounds 5] [--question-words 8]

CHUNKS has a text a line ({"id", "text"}). A first process computes all chunks and leaves their copies in a store. Then
every way to load them runs in a process of its own, in turn: the store is read around the system's cache (O_DIRECT), so
each run reads from the disk. `none` begins to load when a request is next, which for requests that come one after the
other is when they come; `computed` is the same prompt without the store. Ratios are to `computed` of the same round.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
WAYS = ("layers", "request", "none", "computed")


def run(o, store: str, way: str, prompts: list) -> list:
    """TTFT of each prompt, ms, and the share of tokens that came from disk."""
    how = ["--reuse", "full", "--store", store, "--preload", way] if way != "computed" else ["--reuse", "off"]
    command = [o.program, "bench", "trace", "-m", o.model, "-n", "1", "--kv-memory", str(o.kv_memory), "-c", str(o.ctx), *how]
    done = subprocess.run(command, input="".join(json.dumps(p) + "\n" for p in prompts), capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> int:
    args = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    args.add_argument("--program", default=ROOT / "build/spolia")
    args.add_argument("-m", "--model", required=True)
    args.add_argument("--chunks", type=pathlib.Path, required=True)
    args.add_argument("--k", type=int, default=8, help="chunks in a prompt")
    args.add_argument("--prompts", type=int, default=6)
    args.add_argument("--rounds", type=int, default=5)
    args.add_argument("--question-words", type=int, default=8, help="more of them: a longer prefill to hide loading in")
    args.add_argument("--kv-memory", type=int, default=1024, help="MiB")
    args.add_argument("--ctx", type=int, default=8192)
    args.add_argument("--dir", help="of the store: the disk to read (the system's temporary folder)")
    o = args.parse_args()
    with open(o.chunks, encoding="utf-8") as f:
        texts = [json.loads(line)["text"] for _, line in zip(range(o.k * o.prompts), f)]
        words = " ".join(json.loads(line)["text"] for _, line in zip(range(100), f)).split()
    question = " ".join(["What do these say of one another?", *words][:1 + max(0, o.question_words - 7)])
    groups = [texts[i::o.prompts][:o.k] for i in range(o.prompts)]
    prompts = [{"chunks": [{"text": t} for t in g], "question": question} for g in groups]
    times = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory(dir=o.dir) as folder:
        run(o, f"{folder}/kv", "request", [{**p, "question": "First?"} for p in prompts])
        tokens = 0
        for _ in range(o.rounds):
            for way in WAYS:
                results = run(o, f"{folder}/kv", way, prompts)
                times[way].append(statistics.median(r["timings"]["ttft_ms"] for r in results))
                tokens = statistics.mean(r["usage"]["prompt_tokens"] for r in results)
                if way != "computed" and any(s["from"] != "disk" for r in results for s in r["segments"] if s["kind"] == "chunk"):
                    print(f"{way}: not all chunks came from disk", file=sys.stderr)
    print(f"{o.prompts} prompts of {o.k} chunks, {tokens:.0f} tokens; medians of {o.rounds} rounds")
    for way in WAYS:
        ratio = statistics.median(c / t for c, t in zip(times["computed"], times[way]))
        print(f"{way:9} {statistics.median(times[way]):9.1f} ms {ratio:8.2f}x   rounds {' '.join(f'{t:.0f}' for t in times[way])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
