"""Faults of the remote tier: a Redis server that dies, hangs, is full, read-only, damaged, locked or slow, while
clients ask a server that shares its copies there.

    python tests/remote_faults.py [--n 10000] [--seed 1] [--kinds killed,stopped,...] [--build build]

Each request goes to two servers, one after the other in alternating order: one with --remote and one without a remote
tier. Both have memory for a few documents only, so that the first one loads most of its copies from Redis, and the
second one computes them. The two answers, with the probabilities of their tokens, must be equal. For each kind of
fault: how often it happened, from where copies came, and the times of the pairs. In the kind `noise` neither server
has a remote tier: what it shows is the machine's.

After each kind Redis is mended, and the server must load copies from there again, lose no block of KV, and end with 0.
A seed repeats the requests and the moments of the faults; threads may still take turns differently.
"""
import argparse
import collections
import http.client
import json
import os
import pathlib
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from reference import random_model  # noqa: E402
from support.redis_server import Proxy, Redis  # noqa: E402

KEY = b"a key that all replicas have, 32"
DOCUMENTS, WORDS, MEMORY_MIB, SLOWER = 24, 120, 1, 100
BETWEEN = 25  # requests between one fault, or its end, and the next


class Finding(AssertionError):
    pass


def check(holds, *what):
    if not holds:
        raise Finding(" ".join(str(x)[:800] for x in what))


class Server:
    """`spolia serve` and one connection to it."""

    def __init__(self, program, model, folder, name, *options):
        self.log = open(folder / f"{name}.log", "w+")
        command = [program, "serve", "-m", model, "--port", "0", "--reuse", "full", "--guard", "0", "--log-format",
                   "none", "--threads", "1", "--kv-memory", MEMORY_MIB, "--ctx-size", "1024", "--parallel", "1",
                   *options]
        env = {**os.environ, "SPOLIA_CONFIG": "", "SPOLIA_ARG_NO_STORE": "1"}
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=self.log, text=True,
                                        env=env)
        line = self.process.stdout.readline()
        check(line.startswith("listening on "), "the server does not start:", self.said())
        self.port = int(line.rsplit(":", 1)[1])
        self.connection = None

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def call(self, path, body=None):
        """(status, answer, milliseconds)"""
        if not self.connection:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
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
        limit = time.time() + 60
        while lost() and time.time() < limit:
            time.sleep(0.1)
        check(lost() == 0, "blocks are lost:", lost())
        self.process.terminate()
        self.process.wait(120)
        check(self.process.returncode == 0, "the server ends with", self.process.returncode, self.said()[-2000:])
        check("Sanitizer" not in self.said(), self.said()[-6000:])

    def kill(self):
        self.process.kill()
        self.process.wait()


PASSWORD = "right"
LOST = ("the remote tier does not answer", "did not deliver")


# -- what happens to Redis: begin(world), end(world) ------------------------------------------------------------


class Fault:
    """A fault that is there for a while. signs: what the server's log must say of it, any of them; code: of errors
    that Redis must have answered; key: whether copies carry an HMAC."""

    signs, code, key = (), None, True

    def begin(self, world):
        raise NotImplementedError

    def end(self, world):
        pass


class Killed(Fault):
    """It dies at a random moment of the requests that follow, and comes back without its copies."""

    signs = LOST

    def begin(self, world):
        world.later(world.redis.kill)

    def end(self, world):
        world.redis.kill()
        world.redis.start()


class Stopped(Fault):
    signs = LOST

    def begin(self, world):
        world.later(lambda: world.redis.signal(signal.SIGSTOP))

    def end(self, world):
        world.redis.signal(signal.SIGCONT)


HALVE = "for i, k in ipairs(redis.call('KEYS', 'SPOLIA:*:copy:*')) do if i % 2 == 0 then redis.call('DEL', k) end end"
COPIES = """
local function copies(pattern)
  local v = {}
  for _, k in ipairs(redis.call('KEYS', pattern .. ':copy:*')) do
    if redis.call('TYPE', k).ok == 'hash' then v[#v + 1] = k end
  end
  table.sort(v)
  return v
end
"""


class Full(Fault):
    """It loses a half, so that there is something to put, and takes nothing more."""

    code = "OOM"

    def begin(self, world):
        world.redis.do("EVAL", HALVE, "0")
        world.redis.do("CONFIG", "SET", "maxmemory", "1")

    def end(self, world):
        world.redis.do("CONFIG", "SET", "maxmemory", "0")


class ReadOnly(Fault):
    """The same for a replica of a server that is gone."""

    code = "READONLY"

    def begin(self, world):
        world.redis.do("EVAL", HALVE, "0")
        world.redis.do("REPLICAOF", "127.0.0.1", "1")

    def end(self, world):
        world.redis.do("REPLICAOF", "NO", "ONE")


FLIP = COPIES + """
local names = copies('SPOLIA:*')
for i, k in ipairs(names) do
  local fields = redis.call('HKEYS', k)
  local f = fields[(%d + i) %% #fields + 1]
  local v = redis.call('HGET', k, f)
  local at = (%d * (i + 7)) %% #v + 1
  redis.call('HSET', k, f, v:sub(1, at - 1) .. string.char(bit.bxor(v:byte(at), 2 ^ (%d %% 8))) .. v:sub(at + 1))
end
return #names
"""


class Damaged(Fault):
    """A bit of every copy is flipped, in its header or in a layer; when it ends, the copies are deleted."""

    signs = ("not authentic", "checksum", "layers", "record", "header")

    def begin(self, world):
        said = world.redis.do("EVAL", FLIP % tuple(world.rng.randrange(1, 2**20) for _ in range(3)), "0")
        check(said.startswith(":"), "no bit is flipped:", said)

    def end(self, world):
        world.redis.do("FLUSHALL")


SWAP = COPIES + """
local names = copies('%s')
local others = copies('%s')
for i, k in ipairs(names) do
  local from = others[(i + %d) %% #others + 1]
  if from ~= k then
    local v = redis.call('HGETALL', from)
    redis.call('DEL', k)
    for j = 1, #v, 2 do redis.call('HSET', k, v[j], v[j + 1]) end
  end
end
return #names
"""


class Unsealed(Damaged):
    """The same without a key: checksums notice."""

    signs, key = ("checksum", "damaged", "not a"), False


class Foreign(Fault):
    """Every copy is replaced: by one of another model, or by one of another document of this model."""

    signs = ("not authentic",)

    def __init__(self):
        self.n = 0

    def begin(self, world):
        world.fill_with_another_model()
        self.n += 1
        ours, theirs = world.space, world.other_space
        said = world.redis.do("EVAL", SWAP % (ours, theirs if self.n % 2 else ours, world.rng.randrange(1, 50)), "0")
        check(said.startswith(":"), "no copy is replaced:", said)

    def end(self, world):
        world.redis.do("FLUSHALL")


class Locked(Fault):
    """Its password has changed."""

    code = "WRONGPASS"

    def lock(self, world, password):
        world.redis.do("CONFIG", "SET", "requirepass", password)
        world.redis.password = password
        world.redis.do("CLIENT", "KILL", "TYPE", "normal")
        world.redis.do("CLIENT", "KILL", "TYPE", "pubsub")

    def begin(self, world):
        self.lock(world, "another")

    def end(self, world):
        self.lock(world, PASSWORD)


class Slow(Fault):
    """All that it says takes SLOWER times as long."""

    def begin(self, world):
        world.proxy.latency_s, world.proxy.rate = world.plain_latency_s * SLOWER, world.plain_rate / SLOWER

    def end(self, world):
        world.proxy.latency_s = world.proxy.rate = 0
        check(world.proxy.n_delayed, "nothing was slow")


KINDS = {"noise": None, "well": None, "killed": Killed, "stopped": Stopped, "full": Full, "read-only": ReadOnly,
         "damaged": Damaged, "unsealed": Unsealed, "foreign": Foreign, "locked": Locked, "slow": Slow}


# -- requests -------------------------------------------------------------------------------------------------------


def texts(rng):
    syllables = ["ka", "lo", "mi", "ren", "sta", "vel", "tor", "in", "har", "bour"]
    return [" ".join("".join(rng.choices(syllables, k=2)) for _ in range(WORDS)) for _ in range(DOCUMENTS)]


def essence(text):
    """What must be equal."""
    choice = json.loads(text)["choices"][0]
    return [choice["message"]["content"], choice["finish_reason"],
            [(t["token"], t["logprob"]) for t in choice["logprobs"]["content"]]]


class World:
    """One kind of fault: its Redis server, the server that shares, the one that does not."""

    def __init__(self, args, folder, kind):
        self.args, self.folder, self.kind = args, folder, kind
        self.rng = random.Random(f"{args.seed} {kind}")
        self.texts = texts(random.Random(args.seed))
        self.program, self.model = ROOT / args.build / "spolia", ROOT / "demo/model.gguf"
        self.sources, self.pairs, self.n_faults = collections.Counter(), [], 0
        self.redis, self.servers, self.timers = Redis(PASSWORD), [], []
        self.fault = KINDS[kind]() if KINDS[kind] else None
        self.key = folder / "key"
        self.key.write_bytes(KEY)
        port = self.redis.port
        if kind == "slow":
            self.proxy = Proxy(self.redis.port)
            port = self.proxy.port
        key = ["--remote-key-file", self.key] if not self.fault or self.fault.key else []
        self.remote = ["--remote", f"redis://:{PASSWORD}@127.0.0.1:{port}", *key]
        self.plain = self.start("plain", self.model)
        self.shares = self.start("shares", self.model, *(self.remote if kind != "noise" else []))
        self.other_space = None

    def start(self, name, model, *options):
        self.servers.append(Server(self.program, model, self.folder, f"{self.kind}-{name}", *options))
        return self.servers[-1]

    def close(self):
        for t in self.timers:
            t.join()
        for s in self.servers:
            if s.process.poll() is None:
                s.kill()
        self.redis.stop()

    def later(self, what):
        """Within the requests that follow: amid a load or a write, if it happens so."""
        self.timers.append(threading.Timer(self.rng.random() * 0.1, what))
        self.timers[-1].start()

    def fill(self):
        """Every document is read once."""
        for i in range(DOCUMENTS):
            self.shares.call("/v1/chat/completions", self.body([i]))

    def body(self, chosen=None, length=None):
        chosen = chosen or [self.rng.randrange(DOCUMENTS)]
        return json.dumps({"messages": [{"role": "user", "content": "What does it say?"}], "max_tokens": 3,
                           "temperature": 0, "logprobs": True,
                           "documents": [{"id": str(i), "text": self.texts[i][:length]} for i in chosen]}).encode()

    def ask(self, turn):
        body = self.body()
        order = [self.shares, self.plain] if turn % 2 else [self.plain, self.shares]
        said = {s: s.call("/v1/chat/completions", body) for s in order}
        (status, text, ms), (right_status, right, right_ms) = said[self.shares], said[self.plain]
        check(status == right_status == 200, self.kind, "request", turn, "is", status, text, right_status)
        check(essence(text) == essence(right), self.kind, "request", turn, "answers", essence(text), "and not",
              essence(right))
        for d in json.loads(text)["spolia"]["documents"]:
            self.sources[d["from"] or "computed"] += 1
        self.pairs.append((ms, right_ms, self.is_faulty))

    def learn_speed(self):
        """What reading from Redis takes here: latency, and bytes a second."""
        with socket.create_connection(("127.0.0.1", self.redis.port)) as s, s.makefile("rb") as f:
            s.sendall(f"AUTH {PASSWORD}\r\n".encode())
            f.readline()
            times = []
            for _ in range(20):
                began = time.perf_counter()
                s.sendall(b"PING\r\n")
                f.readline()
                times.append(time.perf_counter() - began)
            self.plain_latency_s = statistics.median(times)
            self.redis.do("SET", "bytes", "x" * 2**20)
            began = time.perf_counter()
            for _ in range(8):
                s.sendall(b"GET bytes\r\n")
                f.readline()
                f.read(2**20 + 2)
            self.plain_rate = 8 * 2**20 / (time.perf_counter() - began)

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
            status, text, _ = other.call("/v1/chat/completions", self.body([i], length=60))
            check(status == 200, "another model answers", status, text)
        limit = time.time() + 30
        while not (self.other_space or "") and time.time() < limit:
            self.other_space = self.space_of(but=self.space)
            time.sleep(0.05)
        check(self.other_space, "another model has put no copies")
        other.end()

    def run(self, n):
        if self.kind == "slow":
            self.learn_speed()
        self.is_faulty, until = False, 1
        self.fill()
        for turn in range(n):
            if self.fault and turn == until:
                until += self.rng.randint(BETWEEN // 2, 2 * BETWEEN)
                (self.fault.end if self.is_faulty else self.fault.begin)(self)
                self.n_faults += not self.is_faulty
                self.is_faulty = not self.is_faulty
            self.ask(turn)
        if self.is_faulty:
            for t in self.timers:
                t.join()
            self.fault.end(self)
            self.is_faulty = False
        if self.kind != "noise":
            self.check_recovery()
        if self.n_faults:
            self.check_signs()
        for s in (self.shares, self.plain):
            s.end()

    def check_signs(self):
        """The server has met the fault."""
        said, fault = self.shares.said(), self.fault
        check(not fault.signs or any(x in said for x in fault.signs), self.kind, "was not noticed:", said[-2000:])
        check(not fault.code or self.redis.errors(fault.code), self.kind, "was not noticed: no", fault.code)

    def check_recovery(self):
        """Redis works again: so do loads from it."""
        pairs, sources, limit = list(self.pairs), collections.Counter(self.sources), time.time() + self.args.recovery
        self.sources.clear()
        turn = 0
        while not self.sources["remote"]:
            check(time.time() < limit, self.kind, "is over, and nothing is loaded from Redis:",
                  self.shares.said()[-2000:])
            self.ask(turn := turn + 1)
        self.pairs, self.sources = pairs, sources


# -- report -----------------------------------------------------------------------------------------------------------


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))]


def row_of(world):
    ratios = [a / b for a, b, _ in world.pairs]
    ours, plain = [a for a, _, _ in world.pairs], [b for _, b, _ in world.pairs]
    bad = [a / b for a, b, f in world.pairs if f] or [0]
    return {"kind": world.kind, "requests": len(ratios), "faults": world.n_faults, "from": dict(world.sources),
            "pairs p50": statistics.median(ratios), "p50": quantile(ours, .5) / quantile(plain, .5),
            "p99": quantile(ours, .99) / quantile(plain, .99), "during p50": statistics.median(bad),
            "slowest ms": max(ours), "slowest plain ms": max(plain),
            "slower": sum(r > 1.1 for r in ratios) / len(ratios),
            "median difference ms": statistics.median(a - b for a, b, _ in world.pairs)}


def say(row):
    print(f"{row['kind']:9} {row['requests']:6} requests, {row['faults']:3} faults: pairs {row['pairs p50']:.2f} "
          f"(during faults {row['during p50']:.2f}), p50 {row['p50']:.2f}, p99 {row['p99']:.2f}, "
          f"slower than 1.1x {row['slower']:.1%}, difference {row['median difference ms']:+.2f} ms, "
          f"slowest {row['slowest ms']:.0f} and {row['slowest plain ms']:.0f} ms; {row['from']}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--build", default="build")
    parser.add_argument("--recovery", type=float, default=90, help="seconds until a mended server must be used again")
    parser.add_argument("--json", help="file for the rows of the table")
    args = parser.parse_args()
    kinds = args.kinds.split(",")
    if not set(kinds) <= set(KINDS):
        parser.error(f"--kinds: some of {','.join(KINDS)}")
    rows, n_bad = [], 0
    with tempfile.TemporaryDirectory(prefix="spolia-faults-") as folder:
        for kind in kinds:
            world = World(args, pathlib.Path(folder), kind)
            try:
                world.run(args.n // len(kinds))
                rows.append(row_of(world))
                say(rows[-1])
            except (Finding, subprocess.TimeoutExpired) as e:
                n_bad += 1
                print(f"{kind}: {e}", flush=True)
            finally:
                world.close()
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(rows, indent=1))
    print(f"{sum(r['requests'] for r in rows)} requests, {sum(r['faults'] for r in rows)} faults: {n_bad} findings")
    return 1 if n_bad else 0


if __name__ == "__main__":
    sys.exit(main())
