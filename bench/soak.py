"""Does the server lose anything? Many requests of mixed documents, some clients dying during their answer.

The requests come in parts, which differ in reuse policy, size and number of documents, length of answers and in where
the documents are (field or message). KV memory is small, so copies are evicted to the host and to a store all the
time. At the end nothing runs or waits, no more blocks are in use than cached copies have (copies may share blocks), and
the server stops in order: it asserts that without copies all blocks are free, and built with AddressSanitizer
(`make soak`) it reports leaks. Prints a line for each part: answered, left, failed, memory of the process.

    .venv/bin/python bench/soak.py --build build/asan --requests 24000
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

import shared
from shared import ROOT

PARTS = [  # reuse mode, words of a document, documents of a prompt, tokens of an answer, where
    ("full", 20, 3, 8, "field"), ("fusion", 60, 2, 4, "field"), ("prefix", 10, 4, 16, "text"),
    ("blend", 30, 3, 8, "field"), ("off", 15, 2, 8, "field"), ("craft", 40, 2, 6, "field"),
]
KV_MIB, HOST_MIB = 24, 16


class Server:
    """The program as a server, with every kind of memory and little of it."""

    def __init__(self, program, folder, model, parallel):
        self.log = tempfile.TemporaryFile("w+")
        env = {**os.environ, "SPOLIA_CONFIG": "", "XDG_CACHE_HOME": str(folder)}
        env.setdefault("ASAN_OPTIONS", "detect_leaks=1")
        self.process = subprocess.Popen(
            [program, "serve", "-m", model, "--port", "0", "--log-format", "none", "--parallel", str(parallel),
             "--queue", "1000", "--reuse", "full", "--kv-memory", str(KV_MIB), "--host-memory", f"{HOST_MIB}M",
             "--store", folder / "store", "--store-max", "64M", "--documents", folder / "documents.db"],
            stdout=subprocess.PIPE, stderr=self.log, text=True, env=env)
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            raise SystemExit(f"soak: no server: {self.stop()[1].strip()}")
        self.url = line.split()[-1]

    def metrics(self):
        with urllib.request.urlopen(self.url + "/metrics", timeout=60) as r:
            return {n: float(v) for n, v in re.findall(r"^spolia:(\w+) (\S+)$", r.read().decode(), re.M)}

    def rss_mib(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024

    def wait_idle(self, seconds=60):
        """The metrics once nothing runs; clients that died are noticed at the next step."""
        end = time.time() + seconds
        while (m := self.metrics())["num_requests_running"] or m["num_requests_waiting"]:
            if time.time() > end:
                raise SystemExit(f"still running after {seconds} s: {m['num_requests_running']}")
            time.sleep(0.05)
        return m

    def stop(self):
        self.process.terminate()
        code = self.process.wait(timeout=120)
        self.log.seek(0)
        return code, self.log.read()


def run_part(url, number, n, args):
    """The figures of bench/load.py for a part."""
    mode, words, chunks, answer, where = PARTS[number % len(PARTS)]
    done = subprocess.run(
        [sys.executable, ROOT / "bench/load.py", "--url", url, "--json", "--rates", "0", "--requests", str(n), "--concurrency",
         str(args.concurrency), "--random-documents", "300", "--words", str(words), "--chunks", str(chunks), "-n",
         str(answer), "--ignore-end", "--hang-up", str(args.hang_up), "--documents", where, "--seed", str(number + 1),
         "--extra", json.dumps({"reuse": {"mode": mode}})], capture_output=True, text=True)
    if done.returncode != 0 or "Sanitizer" in done.stderr:
        raise SystemExit(f"the load generator: {done.stderr}")
    return json.loads(done.stdout.splitlines()[0]), f"{mode:7} {where}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("-m", "--model", default=ROOT / "demo/model.gguf")
    parser.add_argument("--requests", type=shared.count, default=24000)
    parser.add_argument("--parts", type=shared.count, default=24)
    parser.add_argument("--concurrency", type=shared.count, default=64)
    parser.add_argument("--parallel", type=shared.count, default=8)
    parser.add_argument("--hang-up", type=float, default=0.01)
    args = parser.parse_args()
    program = (ROOT / args.build / "spolia").resolve()
    wrong = []
    with tempfile.TemporaryDirectory(prefix="spolia-soak-") as folder:
        server = Server(program, pathlib.Path(folder), args.model, args.parallel)
        started, sums, rss = time.time(), {"answered": 0, "left": 0, "refused": 0, "failed": 0}, []
        try:
            for number in range(args.parts):
                n = args.requests * (number + 1) // args.parts - args.requests * number // args.parts
                row, what = run_part(server.url, number, n, args)
                for key in sums:
                    sums[key] += row[key]
                m = server.wait_idle()
                rss.append(server.rss_mib())
                uncached = m["kv_blocks"] - m["kv_blocks_free"] - m["cached_blocks"]
                print(f"part {number + 1:3} {what:13} answered {row['answered']:5} left {row['left']:3} failed {row['failed']} "
                      f"evictions {m['evictions_total']:.0f} blocks not cached {max(uncached, 0):.0f} memory {rss[-1]:.0f} MiB "
                      f"after {time.time() - started:.0f} s", flush=True)
                if row["failed"] or row["refused"]:
                    wrong.append(f"part {number + 1}: {row['failed']} failed, {row['refused']} refused: {row['error']}")
                if uncached > 0:
                    wrong.append(f"part {number + 1}: {uncached:.0f} blocks are neither free nor cached")
        finally:
            code, said = server.stop()
    if sum(sums.values()) != args.requests:
        wrong.append(f"{sum(sums.values())} requests are accounted for, not {args.requests}")
    if code != 0 or "Sanitizer" in said:
        wrong.append(f"the server's exit code is {code}: {said[-3000:]}")
    print(json.dumps({**sums, "seconds": round(time.time() - started), "memory_mib_first": round(rss[0]),
                      "memory_mib_last": round(rss[-1]), "wrong": wrong}))
    return 1 if wrong else 0


if __name__ == "__main__":
    shared.run(main)
