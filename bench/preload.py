"""What loading ahead is worth: a burst of requests whose documents are on a disk of a set bandwidth.

Each way to load serves the same requests, all submitted at once, in a process of its own, in turn: `layers` and `request` load
for waiting requests (a request begins when its first Lp layers are there, or all; `first`: always with one), `none` loads for the request that is next alone,
and with --parallel 1 nothing else runs meanwhile: a synchronous loader. `computed` has no store. The disk is the machine's, read
no faster than --rates says: tests/support/faults.c is preloaded into the process. Medians of rounds; ratios are of the same round.
Source: Cache-Craft sections 3.4.2 and 3.5 (C8, C9), FusionRAG section 4.2 (F6).

    .venv/bin/python bench/preload.py -m MODEL.gguf [--rates 50,100,200,400] [--requests 16] [--burst 16]
"""
import argparse
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

import common
import shared
from common import lib

SOURCE = common.ROOT / "tests/support/faults.c"
RATE_AT, CONTROL = 144, 256  # the place of read_mb_s in its control, and the control's bytes
WAYS = ("layers", "first", "request", "none", "computed")


# -- one way, in a process of its own --------------------------------------------------------------

def make_prompts(args) -> dict:
    """Documents, and requests of some of them; every request has documents of its own."""
    with common.open_engine(args) as engine:
        words = common.Words(engine, args.seed)
        n = args.requests * args.chunks
        return {"documents": words.chunks(n, args.chunk_tokens),
                "questions": [words.text("question", args.question) for _ in range(args.requests)]}


def first_token(at: dict, i: int):
    def noted(ids, n) -> None:
        at.setdefault(i, time.monotonic_ns())
    return noted


def serve(args, engine, load: dict, burst: int) -> dict:
    """All requests, in bursts; microseconds from a burst's begin to each first token, and in all."""
    ttft, took, from_disk, n_prompt = [], 0, 0, 0
    for first in range(0, args.requests, burst):
        begun, mine, at = time.monotonic_ns(), [], {}
        for i in range(first, min(first + burst, args.requests)):
            chunks = load["documents"][i * args.chunks:(i + 1) * args.chunks]
            with common.prompt_of(engine, chunks, load["questions"][i]) as p:
                mine.append(common.Request(engine, p, first_token(at, i), max_tokens=args.predict, reuse="full"))
        for r in mine:
            lib.sp_request_wait(r.c, -1)
            got = r.result
            n_prompt += got.n_prompt
            from_disk += sum(s.n_tokens for s in got.segments[0:got.n_segments] if common.text(getattr(s, "from")) == "disk")
            r.close()
        took += time.monotonic_ns() - begun
        ttft += [(t - begun) / 1e3 for t in at.values()]
    token_bytes = common.info(engine).kv_block_bytes / 16
    return {"ttft_us": ttft, "took_us": took / 1e3, "from_disk": from_disk / n_prompt, "bytes": from_disk * token_bytes}


def child(args) -> int:
    load = json.loads(pathlib.Path(args.prompts).read_text()) if os.path.exists(args.prompts) else make_prompts(args)
    pathlib.Path(args.prompts).write_text(json.dumps(load))
    more = {"store": args.store} if args.child != "computed" else {}
    if args.child not in ("computed", "fill"):
        more["preload"] = getattr(lib, f"SP_PRELOAD_{args.child.upper()}")
    with common.open_engine(args, max_requests=args.parallel, **more) as engine:
        print(json.dumps(serve(args, engine, load, args.requests if args.child == "fill" else args.burst)))
    return 0


# -- all ways --------------------------------------------------------------------------------------

def run(args, folder: str, way: str, rate: int) -> dict:
    control = pathlib.Path(folder) / "control"
    control.write_bytes(bytes(RATE_AT) + struct.pack("I", rate) + bytes(CONTROL - RATE_AT - 4))
    env = {**os.environ, "LD_PRELOAD": f"{folder}/faults.so", "SPOLIA_FAULTS": str(control), "SPOLIA_FAULTS_DIR": f"{folder}/kv"}
    command = [sys.executable, *sys.argv, "--child", way, "--store", f"{folder}/kv", "--prompts", f"{folder}/prompts.json"]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def main() -> int:
    p = common.parser(__doc__, kv_memory=2048)
    p.add_argument("--rates", type=common.numbers(1, 100000), default=[50, 100, 200, 400], help="MB/s of the disk, comma-separated")
    p.add_argument("--ways", default=",".join(WAYS))
    p.add_argument("--requests", type=common.count, default=16)
    p.add_argument("--burst", type=common.count, default=16, help="requests submitted at once; 1: one after another")
    p.add_argument("--parallel", type=int, default=0, help="requests that run at once; 0: as the engine chooses")
    p.add_argument("--chunks", type=common.count, default=4)
    p.add_argument("--chunk-tokens", type=common.count, default=256)
    p.add_argument("--question", type=common.count, default=256, help="tokens that are computed in any case")
    p.add_argument("--predict", type=common.count, default=16)
    p.add_argument("--rounds", type=common.count, default=3)
    p.add_argument("--dir", help="of the store (the system's temporary folder)")
    for name in ("--child", "--store", "--prompts"):
        p.add_argument(name, help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.child:
        return child(args)
    ways = args.ways.split(",")
    if unknown := [way for way in ways if way not in WAYS]:
        sys.exit(f"preload: --ways {unknown[0]}: one of {', '.join(WAYS)}")
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        subprocess.run(["cc", "-D_GNU_SOURCE", "-O1", "-shared", "-fPIC", "-o", f"{folder}/faults.so", SOURCE, "-ldl"], check=True)
        run(args, folder, "fill", 0)
        print(f"{args.requests} requests, {args.burst} at once, of {args.chunks} x {args.chunk_tokens} tokens on disk and {args.question} "
              f"that are not; medians of {args.rounds} rounds")
        print("MB/s  way       from disk  reading ms  mean TTFT ms  in all ms  computed / this: TTFT   in all")
        for rate in args.rates:
            rounds = [{way: run(args, folder, way, rate) for way in ways} for _ in range(args.rounds)]
            for way in ways:
                print(line(rate, way, rounds), flush=True)
    return 0


def mean_ttft(got: dict) -> float:
    return sum(got["ttft_us"]) / len(got["ttft_us"])


def line(rate: int, way: str, rounds: list) -> str:
    mine, base = [r[way] for r in rounds], [r.get("computed", r[way]) for r in rounds]
    gains = [mean_ttft(b) / mean_ttft(m) for m, b in zip(mine, base)], [b["took_us"] / m["took_us"] for m, b in zip(mine, base)]
    reading_ms = common.median(m["bytes"] / rate / 1e3 for m in mine)
    return (f"{rate:4}  {way:8} {mine[0]['from_disk']:9.0%} {reading_ms:11.0f} {common.median(map(mean_ttft, mine)) / 1e3:13.0f} "
            f"{common.median(m['took_us'] for m in mine) / 1e3:10.0f} {common.median(gains[0]):22.2f} {common.median(gains[1]):8.2f}")


if __name__ == "__main__":
    shared.run(main)
