"""Heat as the rule for tiers: what each tier serves, in the engine, when copies leave device and host by recency or by heat.

Requests of a real trace, one after another, each over its documents' texts with --reuse full. The device holds --device of the bytes
of all distinct chunks, the host --host, the folder all. Ways: `lru` in all tiers, `heat` (lfu+ghosts: uses, past eviction, too) on
device and host, and the defaults (hazard on the device, lru below), in three engines that take turns. Shares are of the chunks' tokens, and of the requests after the
first quarter: they are counts, the same on every machine, but that a loaded one gives up loads (late: found, and computed). TTFT over that of lru:
of the sums, and the median over requests. Source: FusionRAG section 4.2 (F6).

    .venv/bin/python bench/heat.py -m demo/model.gguf --trace TRACE.jsonl --chunks CHUNKS.jsonl [--requests 150]
"""
import contextlib
import pathlib
import sys
import tempfile

import common
import shared
import trace

WAYS = {"lru": ("lru", "lru"), "heat": ("lfu+ghosts", "lfu+ghosts"), "hazard, lru": ("hazard", "lru")}
PLACES = ("memory", "host", "disk", "late", "")


def requests_of(args) -> list:
    texts = {}
    for chunk in shared.lines(args.chunks, "id", "text"):
        texts[chunk["id"]] = " ".join(chunk["text"].split()[:args.words])
    out = []
    for request in shared.lines(args.trace, "doc_ids"):
        docs = [d for d in request["doc_ids"] if d in texts][:args.docs]
        out.append({"chunks": [{"text": texts[d]} for d in docs], "question": "What happened?"})
    if not any(r["chunks"] for r in out[:args.requests]):
        sys.exit(f"heat: {args.trace}: none of its doc_ids is in {args.chunks}")
    return out[:args.requests]


def run(args, requests: list, bytes_: int) -> dict:
    """Of each way: tokens by place, and the time to the first token of each request. The ways take turns, request by request."""
    got = {way: (dict.fromkeys(PLACES, 0), []) for way in WAYS}
    with contextlib.ExitStack() as stack:
        engines = {}
        for way, (evict, host_evict) in WAYS.items():
            args.evict = evict
            folder = stack.enter_context(tempfile.TemporaryDirectory(dir=args.dir))
            engines[way] = stack.enter_context(common.open_engine(
                args, kv_bytes=args.device_bytes, host_bytes=int(bytes_ * args.host), host_evict=host_evict, store=folder, reuse="full"))
        names = list(WAYS)
        for i, request in enumerate(requests):
            for way in names[i % len(names):] + names[:i % len(names)]:
                said = trace.account(engines[way], request)
                if i < len(requests) // 4:
                    continue
                tokens, ttft = got[way]
                ttft.append(said["ttft_ms"])
                for s in said["segments"]:
                    if s["kind"] == "chunk":
                        tokens[s["from"] or ("late" if s["missed"] == "late" else "")] += s["tokens"]
    return got


def main() -> int:
    p = common.parser(__doc__)
    p.add_argument("--trace", required=True, type=pathlib.Path)
    p.add_argument("--chunks", required=True, type=pathlib.Path)
    p.add_argument("--requests", type=common.count, default=150)
    p.add_argument("--docs", type=common.count, default=5, help="of a request")
    p.add_argument("--words", type=common.count, default=150, help="of a chunk")
    p.add_argument("--device", type=float, default=0.1, help="of the bytes of all distinct chunks")
    p.add_argument("--host", type=float, default=0.2)
    p.add_argument("--dir", help="of the store (the system's temporary folder)")
    args = p.parse_args()
    requests = requests_of(args)
    texts = {c["text"] for r in requests for c in r["chunks"]}
    with common.open_engine(args) as engine:
        n_tokens = len(engine.tokenize("\n\n".join(texts)))
        bytes_ = common.info(engine).kv_block_bytes * (n_tokens // 16)
    longest = max(sum(len(c["text"]) for c in r["chunks"]) for r in requests) / sum(map(len, texts))
    args.device_bytes = int(bytes_ * (args.device + 1.3 * longest))  # and the request that runs
    print(f"{len(requests)} requests, {len(texts)} chunks of {n_tokens} tokens; device {args.device:.0%}, host {args.host:.0%}")
    print(f"{'way':12} {'memory':>8} {'host':>8} {'disk':>8} {'late':>8} {'computed':>8} {'TTFT / lru':>11}")
    got = run(args, requests, bytes_)
    base = got["lru"][1]
    for way, (tokens, ttft) in got.items():
        ratios = [a / b for a, b in zip(ttft, base)]
        print(f"{way:12} " + " ".join(f"{tokens[x] / sum(tokens.values()):8.1%}" for x in PLACES) +
              f" {sum(ttft) / sum(base):6.2f} (median of requests {common.median(ratios):.2f})")
    return 0


if __name__ == "__main__":
    shared.run(main)
