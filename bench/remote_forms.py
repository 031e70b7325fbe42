#!/usr/bin/env python3
"""remote_forms.py -- copies in Redis or an object store as they are, in q8_0, compressed: bytes, time to store and to load.

    bench/remote_forms.py -m MODEL [--chunks 8] [--words 180] [--rounds 5] [--slow BYTES_A_SECOND] [--s3]

Each form has a database of its own in a redis-server of the bench, with --s3 a prefix of its own in a bucket of moto's
server. In each round a fresh server for each form gets a prompt of chunks that it has not read, in rotating order.
--slow: the store is behind a proxy that passes that many bytes a second. Prints for each form: bytes, as a share of
those as they are; seconds until all copies were there; the median time to the first token, and its ratio; how many
chunks were loaded, of how many: what came too late was computed. Quality is measured by spolia eval --from-host
--host-kv q8_0, which rounds in the same way.
"""
import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse

import shared
from remote import Server, redis_server, texts_of

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
from support.redis_server import Proxy  # noqa: E402

FORMS = {"as they are": [], "zstd 1": ["--remote-compress", 1], "zstd 9": ["--remote-compress", 9], "q8_0": ["--remote-kv", "q8_0"],
         "q8_0, zstd 1": ["--remote-kv", "q8_0", "--remote-compress", 1]}
BYTES = ("local n = 0 for _, k in ipairs(redis.call('KEYS', 'SPOLIA:*:copy:*')) do for _, v in ipairs(redis.call('HVALS', k)) do "
         "n = n + #v end end return n")


def cli(url, *words):
    return subprocess.run(["redis-cli", "-u", url, *words], check=True, capture_output=True, text=True).stdout.strip()


class InRedis:
    def __init__(self, rate, stack):
        self.url = stack.enter_context(redis_server())
        self.proxy = Proxy(urllib.parse.urlparse(self.url).port)
        self.proxy.rate = rate

    def way(self, i):
        """Where form i is."""
        return f"redis://127.0.0.1:{self.proxy.port}/{i}"

    def is_full(self, i, copies):
        url = f"{self.url}/{i}"
        return int(cli(url, "EVAL", "return #redis.call('KEYS', 'SPOLIA:*:copy:*')", "0")) >= copies and not cli(url, "KEYS", "*:lock")

    def bytes(self, i):
        return int(cli(f"{self.url}/{i}", "EVAL", BYTES, "0"))


class InS3:
    def __init__(self, rate, stack):
        from support.object_store import Store
        self.store = Store(pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory())), verifies=False)
        stack.callback(self.store.stop)
        self.proxy = Proxy(self.store.port)
        self.proxy.rate = rate
        os.environ.update(self.store.env, AWS_ENDPOINT_URL=f"http://127.0.0.1:{self.proxy.port}")

    def way(self, i):
        return f"s3://{self.store.bucket}/{i}"

    def objects(self, i, part):
        found = self.store.s3.list_objects_v2(Bucket=self.store.bucket, Prefix=f"{i}/").get("Contents", [])
        return [o["Size"] for o in found if f"/{part}/" in o["Key"]]

    def is_full(self, i, copies):
        return len(self.objects(i, "index")) >= copies

    def bytes(self, i):
        return sum(self.objects(i, "copy"))


def fill(model, store, i, options, texts):
    """Seconds from the answer to the last copy."""
    with Server(model, "--remote", store.way(i), *options) as s:
        s.ask(texts)
        began = time.time()
        while not store.is_full(i, len(texts)):
            if time.time() > began + 300:
                sys.exit("remote_forms: after 5 minutes the store has not all copies")
            time.sleep(0.01)
        return time.time() - began


def measure(args, store, texts):
    rows = {form: {"ttft": [], "loaded": []} for form in FORMS}
    for i, (form, options) in enumerate(FORMS.items()):
        rows[form]["put_s"] = fill(args.model, store, i, options, texts)
        rows[form]["bytes"] = store.bytes(i)
    for r in range(args.rounds):
        for k in range(len(FORMS)):
            i = (k + r) % len(FORMS)
            with Server(args.model, "--remote", store.way(i)) as s:
                s.ask([f"Something else, {r} {i}. " * 20])  # nobody has read it: the server is warm, and knows what is there
                time.sleep(1)
                answer = s.ask(texts)
            row = rows[list(FORMS)[i]]
            row["ttft"].append(answer["timings"]["ttft_ms"])
            row["loaded"].append(sum(d["from"] == "remote" for d in answer["spolia"]["documents"]))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--chunks", type=shared.count, default=8)
    parser.add_argument("--words", type=shared.count, default=180)
    parser.add_argument("--rounds", type=shared.count, default=5)
    parser.add_argument("--slow", type=float, default=0, metavar="BYTES_A_SECOND")
    parser.add_argument("--s3", action="store_true", help="an object store in place of Redis")
    args = parser.parse_args()
    texts = texts_of(args.chunks, args.words)
    with contextlib.ExitStack() as stack:
        rows = measure(args, (InS3 if args.s3 else InRedis)(args.slow, stack), texts)
    plain = rows["as they are"]
    print(json.dumps(rows))
    for form, row in rows.items():
        ratio = statistics.median(a / b for a, b in zip(row["ttft"], plain["ttft"]))
        print(f"| {form} | {row['bytes'] / plain['bytes']:.2f} | {row['put_s']:.2f} s | {statistics.median(row['ttft']):.0f} ms | "
              f"{ratio:.2f} | {sum(row['loaded'])}/{args.chunks * args.rounds} |")


if __name__ == "__main__":
    shared.run(main)
