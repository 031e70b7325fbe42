#!/usr/bin/env python3
"""remote_forms.py -- copies in Redis as they are, in q8_0, compressed: bytes, time to store them, time to the first token.

    bench/remote_forms.py -m MODEL [--chunks 8] [--words 180] [--rounds 5] [--slow BYTES_A_SECOND]

Each form has a database of its own in a redis-server of the bench. In each round a fresh server for each form gets a prompt of chunks
that it has not read, in rotating order. --slow: the server is behind a proxy that passes that many bytes a second. Quality is measured
by spolia eval --from-host --host-kv q8_0, which rounds in the same way.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time
import urllib.parse

from remote import Server, start_redis, texts_of

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
from support.redis_server import Proxy  # noqa: E402

FORMS = {"as they are": [], "zstd 1": ["--remote-compress", 1], "zstd 9": ["--remote-compress", 9], "q8_0": ["--remote-kv", "q8_0"],
         "q8_0, zstd 1": ["--remote-kv", "q8_0", "--remote-compress", 1]}
BYTES = ("local n = 0 for _, k in ipairs(redis.call('KEYS', 'SPOLIA:*:copy:*')) do for _, v in ipairs(redis.call('HVALS', k)) do "
         "n = n + #v end end return n")


def cli(url, *words):
    return subprocess.run(["redis-cli", "-u", url, *words], check=True, capture_output=True, text=True).stdout.strip()


def fill(model, url, options, texts, copies):
    """Seconds from the answer to the last copy."""
    s = Server(model, "--remote", url, *options)
    s.ask(texts)
    began = time.time()
    while int(cli(url, "EVAL", "return #redis.call('KEYS', 'SPOLIA:*:copy:*')", "0")) < copies or cli(url, "KEYS", "*:lock"):
        time.sleep(0.01)
    took = time.time() - began
    s.stop()
    return took


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--chunks", type=int, default=8)
    parser.add_argument("--words", type=int, default=180)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--slow", type=float, default=0)
    args = parser.parse_args()
    texts = texts_of(args.chunks, args.words)
    redis, url = start_redis()
    proxy = Proxy(urllib.parse.urlparse(url).port)
    proxy.rate = args.slow
    rows = {form: {"ttft": [], "loaded": []} for form in FORMS}
    for i, (form, options) in enumerate(FORMS.items()):
        rows[form]["put_s"] = fill(args.model, f"{url}/{i}", options, texts, args.chunks)
        rows[form]["bytes"] = int(cli(f"{url}/{i}", "EVAL", BYTES, "0"))
    for r in range(args.rounds):
        for k in range(len(FORMS)):
            i = (k + r) % len(FORMS)
            s = Server(args.model, "--remote", f"redis://127.0.0.1:{proxy.port}/{i}")
            s.ask(["Something else. " * 20])  # the server is warm, and knows what is there
            time.sleep(1)
            answer = s.ask(texts)
            row = rows[list(FORMS)[i]]
            row["ttft"].append(answer["timings"]["ttft_ms"])
            row["loaded"].append(sum(d["from"] == "remote" for d in answer["spolia"]["documents"]))
            s.stop()
    redis.kill()
    plain = rows["as they are"]
    print(json.dumps(rows))
    for form, row in rows.items():
        ratio = statistics.median(a / b for a, b in zip(row["ttft"], plain["ttft"]))
        print(f"| {form} | {row['bytes'] / plain['bytes']:.2f} | {row['put_s']:.2f} s | {statistics.median(row['ttft']):.0f} ms | "
              f"{ratio:.2f} | {sum(row['loaded'])}/{args.chunks * args.rounds} |")


if __name__ == "__main__":
    main()
