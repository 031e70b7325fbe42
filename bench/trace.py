"""Runs a trace of prompts and prints the account of each: what a cache of this size saves.

A line of standard input is a prompt, {"system", "chunks": [{"title", "text"}, ...], "question"}; system and title are optional. A line
of standard output is its account. All prompts share one engine.

    .venv/bin/python bench/trace.py -m MODEL.gguf --reuse full --kv-tokens 20000 < prompts.jsonl
"""
import json
import sys

import common
import shared
from common import text


def account(engine, line: dict, max_tokens: int = 1) -> dict:
    chunks = [(c.get("title", ""), c["text"]) for c in line["chunks"]]
    with common.prompt_of(engine, chunks, line["question"], line.get("system", common.SYSTEM)) as p:
        with common.ask(engine, p, max_tokens=max_tokens, ignore_end=False) as r:
            got = r.result
            segments = [{"kind": text(s.kind), "tokens": s.n_tokens, "reused": s.n_reused, "recomputed": s.n_recomputed,
                         "from": text(getattr(s, "from")), "missed": text(s.missed)} for s in got.segments[0:got.n_segments]]
            return {"prompt_tokens": got.n_prompt, "reused_tokens": got.n_reused, "recomputed_tokens": got.n_recomputed,
                    "ttft_ms": got.ttft_us / 1e3, "segments": segments}


def kv_bytes(args, n_tokens: int) -> int:
    """KV memory for n_tokens: only an open engine knows the bytes of a block."""
    with common.open_engine(args) as engine:
        return common.info(engine).kv_block_bytes * (n_tokens // 16 + 2)


def main() -> int:
    p = common.parser(__doc__)
    p.add_argument("-n", "--predict", type=int, default=1, help="most tokens to generate")
    p.add_argument("--kv-tokens", type=int, default=0, help="KV memory in tokens, instead of --kv-memory")
    p.add_argument("--reuse")
    p.add_argument("--recompute", type=float)
    args = p.parse_args()
    more = {"kv_bytes": kv_bytes(args, args.kv_tokens)} if args.kv_tokens else {}
    with common.open_engine(args, reuse=args.reuse, recompute=args.recompute, **more) as engine:
        for i, line in enumerate(sys.stdin):
            try:
                said = account(engine, json.loads(line), args.predict)
            except (ValueError, KeyError, TypeError, AttributeError) as e:
                sys.exit(f"line {i + 1}: {type(e).__name__}: {e}")
            print(json.dumps({"prompt": i, **said}), flush=True)
    return 0


if __name__ == "__main__":
    shared.run(main)
