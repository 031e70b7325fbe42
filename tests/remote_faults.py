"""Faults of the remote tier: a Redis server, a cluster of three or an object store that dies, hangs, is full, read-only,
damaged, locked, slow, or answers errors, while clients ask a server that shares its copies there.

    python tests/remote_faults.py [--n 10000] [--seed 1] [--kinds killed,stopped,...] [--plays 8] [--build build]
                                  [--model MODEL --words 180 --memory 32]

Each request goes to two servers, one after the other in alternating order: one with --remote and one without a remote
tier. Both have memory for a few documents only, so that the first one loads most of its copies from the store, and the
second one computes them. The two answers, with the probabilities of their tokens, must be equal. In the kind `noise`
neither server has a remote tier: what it shows is the machine's.

A cycle is a fault, the requests meanwhile, its end, and requests after it. One in which a request took more than 1.1
times as long as without a remote tier is played again, from the same beginning, until each of its requests was below
that once, or `--plays` times. What is slower than noise: tests/support/pairs.py.

The next fault begins when copies are loaded from the store again. After each kind they must be; the server must have
lost no block of KV, and end with 0. A seed repeats the requests and the moments of the faults; threads may still take
turns differently.
"""
import argparse
import collections
import contextlib
import http.client
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from reference import random_model  # noqa: E402
from support import pairs  # noqa: E402
from support.redis_server import Proxy  # noqa: E402
from support.store_faults import KINDS, STORES, Finding, check, missing, store_of  # noqa: E402

KEY = b"a key that all replicas have, 32"
DOCUMENTS = 24
BETWEEN = 25  # requests between one fault, or its end, and the next
LOADED_AGAIN, MOST_PAUSE_S = 3, 5  # copies, and seconds, before the next fault
MOST_NOTICE_S = 300  # until a fault is in the server's log, and in what the store counts


class Server:
    """`spolia serve` and one connection to it."""

    def __init__(self, program, model, folder, name, *options, env, memory_mib):
        self.log = open(folder / f"{name}.log", "w+")
        command = [program, "serve", "-m", model, "--port", "0", "--reuse", "full", "--guard", "0", "--log-format",
                   "none", "--threads", "1", "--kv-memory", memory_mib, "--ctx-size", "1024", "--parallel", "1",
                   *options]
        env = {**os.environ, **env, "SPOLIA_CONFIG": "", "SPOLIA_ARG_NO_STORE": "1"}
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=self.log, text=True,
                                        env=env)
        line = self.process.stdout.readline()
        check(line.startswith("listening on "), "the server does not start:", self.said())
        self.port = int(line.rsplit(":", 1)[1])
        self.connection = None

    def said(self):
        """What it wrote so far. Server and test share the file's position, so it must not move: pread leaves it."""
        file = self.log.fileno()
        return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")

    def call(self, path, body=None):
        """(status, answer, milliseconds)"""
        if not self.connection:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        began = time.perf_counter()
        try:
            self.connection.request("POST" if body else "GET", path, body, {"Content-Type": "application/json"})
            answer = self.connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as e:
            raise Finding(f"{path}: {e!r}: {self.said()[-2000:]}") from e
        return answer.status, text, (time.perf_counter() - began) * 1000

    def metric(self, name):
        for line in self.call("/metrics")[1].decode().splitlines():
            if line.startswith(f"spolia:{name} "):
                return float(line.split()[1])
        raise Finding(f"there is no {name}")

    def end(self):
        lost = lambda: self.metric("kv_blocks") - self.metric("kv_blocks_free") - self.metric("cached_blocks")
        limit = time.time() + 300
        while lost() and time.time() < limit:
            time.sleep(0.1)
        check(lost() == 0, "blocks are lost:", lost())
        self.process.terminate()
        self.process.wait(300)
        check(self.process.returncode == 0, "the server ends with", self.process.returncode, self.said()[-2000:])
        check("Sanitizer" not in self.said(), self.said()[-6000:])

    def kill(self):
        self.process.kill()
        self.process.wait()


# -- requests -------------------------------------------------------------------------------------------------------


def texts(rng, n_words):
    syllables = ["ka", "lo", "mi", "ren", "sta", "vel", "tor", "in", "har", "bour"]
    return [" ".join("".join(rng.choices(syllables, k=2)) for _ in range(n_words)) for _ in range(DOCUMENTS)]


def essence(text):
    """What must be equal."""
    choice = json.loads(text)["choices"][0]
    return [choice["message"]["content"], choice["finish_reason"],
            [(t["token"], t["logprob"]) for t in choice["logprobs"]["content"]]]


class Cycle:
    """Requests of one fault: the documents that those during it and after it ask for."""

    def __init__(self, name, n, has_fault):
        self.name = name
        rng = random.Random(name)
        n_bad = min(n, rng.randint(BETWEEN // 2, 2 * BETWEEN)) if has_fault else 0
        self.asked = [rng.randrange(DOCUMENTS) for _ in range(min(n, n_bad + rng.randint(BETWEEN // 2, 2 * BETWEEN)))]
        self.n_bad = n_bad
        self.plays = [[] for _ in self.asked]  # of each request: (ms, ms without a remote tier) of each play

    def is_open(self):
        """A request has been slow whenever it was played."""
        return any(all(map(pairs.is_slow, p)) for p in self.plays)


class World:
    """One kind of fault: its store, the server that shares, the one that does not."""

    def __init__(self, args, folder, kind, store):
        self.args, self.folder, self.kind, self.store = args, folder, kind, store
        self.rng = random.Random(f"{args.seed} {kind}")
        self.texts = texts(random.Random(args.seed), args.words or store.words)
        self.program, self.model = ROOT / args.build / "spolia", args.model or ROOT / "demo/model.gguf"
        self.sources, self.cycles, self.n_faults = collections.Counter(), [], 0
        self.servers, self.timers = [], []
        self.redis, self.cluster = getattr(store, "redis", None), getattr(store, "cluster", None)
        self.fault = KINDS[kind]() if KINDS[kind] else None
        key = folder / "key"
        key.write_bytes(KEY)
        self.proxy = Proxy(store.port) if self.fault and self.fault.proxied else None
        url = store.url(self.proxy.port if self.proxy else store.port)
        self.remote = ["--remote", url, *(["--remote-key-file", key] if not self.fault or self.fault.key else [])]
        store.wipe()
        self.plain = self.start("plain", self.model)
        self.shares = self.start("shares", self.model, *(self.remote if kind != "noise" else []))
        self.other_space = None

    def start(self, name, model, *options):
        self.servers.append(Server(self.program, model, self.folder, f"{self.kind}-{name}",
                                   *([] if self.args.model else self.store.options), *options, env=self.store.env,
                                   memory_mib=self.args.memory))
        return self.servers[-1]

    def close(self):
        for t in self.timers:
            t.join()
        for s in self.servers:
            if s.process.poll() is None:
                s.kill()
        if self.proxy:
            self.proxy.close()

    def later(self, what):
        """Within the requests that follow: amid a load or a write, if it happens so."""
        self.timers.append(threading.Timer(self.rng.random() * 0.1, what))
        self.timers[-1].start()

    def fill(self):
        """Every document is read once."""
        for i in range(DOCUMENTS):
            self.shares.call("/v1/chat/completions", self.body(i))

    def body(self, i, length=None):
        return json.dumps({"messages": [{"role": "user", "content": "What does it say?"}], "max_tokens": 3,
                           "temperature": 0, "logprobs": True,
                           "documents": [{"id": str(i), "text": self.texts[i][:length]}]}).encode()

    def ask(self, i, turn):
        """(ms, ms of the server without a remote tier), and where the document came from."""
        body = self.body(i)
        order = [self.shares, self.plain] if turn % 2 else [self.plain, self.shares]
        said = {s: s.call("/v1/chat/completions", body) for s in order}
        (status, text, ms), (right_status, right, right_ms) = said[self.shares], said[self.plain]
        check(status == right_status == 200, self.kind, "request", turn, "is", status, text, right_status)
        check(essence(text) == essence(right), self.kind, "request", turn, "answers", essence(text), "and not",
              essence(right))
        return (ms, right_ms), json.loads(text)["spolia"]["documents"][0]["from"] or "computed"

    def space_of(self, but=""):
        """The prefix of the keys of a model: the first one of a copy that is not `but`."""
        script = ("for _, k in ipairs(redis.call('KEYS', 'SPOLIA:*:copy:*')) do local s = k:match('^(.-):copy:') "
                  f"if s ~= '{but}' then return {{ok = s}} end end return {{ok = ''}}")
        return self.redis.do("EVAL", script, "0").lstrip("+")

    def fill_with_another_model(self):
        """Another model puts copies of the same documents beside ours."""
        self.space = self.space_of(but=self.other_space or "")
        check(self.space, "there are no copies")
        path = self.folder / "another.gguf"
        if not path.exists():
            random_model.write_gguf(path, random_model.PRESETS["tiny-llama"], "f32")
        other = self.start(f"other-{self.n_faults}", path, "--ctx-size", "512", *self.remote)
        for i in range(5):
            status, text, _ = other.call("/v1/chat/completions", self.body(i, length=60))
            check(status == 200, "another model answers", status, text)
        limit = time.time() + 300
        while not (self.other_space or "") and time.time() < limit:
            self.other_space = self.space_of(but=self.space)
            time.sleep(0.05)
        check(self.other_space, "another model has put no copies")
        other.end()

    def has_signs(self):
        return not self.fault.signs or any(x in self.shares.said() for x in self.fault.signs)

    def end_fault(self):
        """Once it has been met: a busy machine may leave the store alone for all the requests of a fault."""
        for t in self.timers:
            t.join()
        self.timers.clear()
        limit, turn = time.time() + MOST_NOTICE_S, 0
        while not (self.has_signs() and self.fault.is_met(self)) and time.time() < limit:
            self.ask(self.rng.randrange(DOCUMENTS), turn := turn + 1)
        self.fault.end(self)

    def play(self, cycle, n_played):
        if self.n_faults:
            self.await_loads(LOADED_AGAIN, MOST_PAUSE_S)
        self.rng = random.Random(f"{cycle.name} moments")
        if cycle.n_bad:
            self.n_faults += 1
            self.fault.begin(self)
        for turn, i in enumerate(cycle.asked):
            if turn and turn == cycle.n_bad:
                self.end_fault()
            pair, source = self.ask(i, turn + n_played)
            cycle.plays[turn].append(pair)
            self.sources[source] += 1
        if cycle.n_bad == len(cycle.asked):
            self.end_fault()

    def run(self, n):
        self.fill()
        while n > 0:
            cycle = Cycle(f"{self.args.seed} {self.kind} {len(self.cycles)}", n, self.fault)
            self.cycles.append(cycle)
            n -= len(cycle.asked)
            for i in range(self.args.plays):
                if i and not cycle.is_open():
                    break
                self.play(cycle, i)
        if self.kind != "noise":
            check(self.await_loads(1, self.args.recovery), self.kind, "is over, and nothing is loaded:",
                  self.shares.said()[-2000:])
        if self.n_faults:
            self.check_signs()
        for s in (self.shares, self.plain):
            s.end()

    def check_signs(self):
        """The server has met the fault."""
        fault = self.fault
        check(self.has_signs(), self.kind, "was not noticed:", self.shares.said()[-2000:])
        check(not fault.code or self.redis.errors(fault.code), self.kind, "was not noticed: no", fault.code)

    def await_loads(self, n, seconds):
        """The store works again: so do loads from it. False: not within this time."""
        limit, turn = time.time() + seconds, 0
        rng = random.Random(len(self.cycles))
        while n and time.time() < limit:
            n -= self.ask(rng.randrange(DOCUMENTS), turn := turn + 1)[1] == "remote"
        return not n


# -- report -----------------------------------------------------------------------------------------------------------


def row_of(world):
    firsts = [p[0] for c in world.cycles for p in c.plays]
    ratios = [a / b for a, b in firsts]
    bad = [a / b for c in world.cycles for p in c.plays[:c.n_bad] for a, b in p[:1]] or [0]
    begins = [a / b for c in world.cycles if c.n_bad for a, b in c.plays[0]] or [0]
    ours, plain = [a for a, _ in firsts], [b for _, b in firsts]
    return {"kind": world.kind, "requests": len(firsts), "faults": world.n_faults, "from": dict(world.sources),
            "played": sum(len(p) for c in world.cycles for p in c.plays),
            "pairs p50": statistics.median(ratios), "during p50": statistics.median(bad),
            "first p50": statistics.median(begins), "first max": max(begins),
            "p50": pairs.quantile(ours, .5) / pairs.quantile(plain, .5),
            "p99": pairs.quantile(ours, .99) / pairs.quantile(plain, .99),
            "slower": sum(r > pairs.LIMIT for r in ratios) / len(ratios),
            "stays": pairs.stays(p for c in world.cycles for p in c.plays),
            "slowest ms": max(ours), "slowest plain ms": max(plain)}


def say(row):
    print(f"{row['kind']:14} {row['requests']:5} requests, {row['faults']:3} faults: pairs {row['pairs p50']:.2f} "
          f"(during faults {row['during p50']:.2f}, first of a fault {row['first p50']:.2f} to {row['first max']:.2f}), "
          f"p50 {row['p50']:.2f}, p99 {row['p99']:.2f}, beyond 1.1x {row['slower']:.1%}, in each play {row['stays']}, "
          f"slowest {row['slowest ms']:.0f} and {row['slowest plain ms']:.0f} ms; {row['from']}", flush=True)


def judge(rows, plays, most_plays):
    """Says which kinds are slower than noise; how many they are."""
    noise, n = plays["noise"], 0
    print(f"\nbeyond 1.1x, noise: {pairs.share([p[0] for p in noise]):.1%}, in each of {most_plays} plays: "
          f"{pairs.stays(noise)} of {len(noise)}")
    for row in rows:
        kind = row["kind"]
        if kind == "noise":
            continue
        firsts = [p[0] for p in plays[kind]]
        difference, (low, high), _ = pairs.share_beyond(firsts, [p[0] for p in noise])
        row["beyond noise"] = [difference, low, high]
        found = pairs.verdict(plays[kind], noise, most_plays)
        n += bool(found)
        print(f"{kind:14} share beyond 1.1x less that of noise {difference:+.1%} (95 %: {low:+.1%} to {high:+.1%}), "
              f"in each play {row['stays']}{'; SLOWER: ' if found else ''}{'; '.join(found)}", flush=True)
    return n


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n", type=int, default=10000, help="requests of all kinds, without those that are repeated")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--plays", type=int, default=8, help="most plays of a request")
    parser.add_argument("--build", default="build")
    parser.add_argument("--model", help="in place of the bundled one")
    parser.add_argument("--words", type=int, help="of a document; without it: 120, of an object store 64")
    parser.add_argument("--memory", type=int, default=1, help="MiB for keys and values: of a few documents only")
    parser.add_argument("--recovery", type=float, default=90, help="seconds until a mended store must be used again")
    parser.add_argument("--no-times", action="store_true", help="do not judge times")
    parser.add_argument("--json", help="file for the rows of the table")
    args = parser.parse_args()
    args.kinds = args.kinds.split(",")
    if not set(args.kinds) <= set(KINDS):
        parser.error(f"--kinds: some of {','.join(KINDS)}")
    return args


def main():
    args = options()
    rows, plays, n_bad = [], {}, 0
    with tempfile.TemporaryDirectory(prefix="spolia-faults-") as folder, contextlib.ExitStack() as stack:
        folder, stores = pathlib.Path(folder), {}
        for kind in args.kinds:
            of = store_of(kind)
            if why := missing(of):
                print(f"{kind}: skipped: {why}", flush=True)
                continue
            if of not in stores:
                stores[of] = STORES[of](folder)
                stack.callback(stores[of].stop)
            world = World(args, folder, kind, stores[of])
            try:
                world.run(args.n // len(args.kinds))
                rows.append(row_of(world))
                plays[kind] = [p for c in world.cycles for p in c.plays]
                say(rows[-1])
            except (Finding, subprocess.TimeoutExpired) as e:
                n_bad += 1
                print(f"{kind}: {e}", flush=True)
                stores.pop(of)  # the next kind has one of its own
            finally:
                world.close()
    if not args.no_times and "noise" in plays:
        n_bad += judge(rows, plays, args.plays)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(rows, indent=1))
    print(f"{sum(r['requests'] for r in rows)} requests ({sum(r['played'] for r in rows)} with those repeated), "
          f"{sum(r['faults'] for r in rows)} faults: {n_bad} findings")
    return 1 if n_bad else 0


if __name__ == "__main__":
    sys.exit(main())
