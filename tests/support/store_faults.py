"""What happens to the stores of tests/remote_faults.py: a Redis server, a cluster of three, an object store."""
import contextlib
import pathlib
import shutil
import signal
import socket
import statistics
import sys
import tempfile
import threading
import time
import urllib.request

from support.redis_cluster import Cluster
from support.redis_server import Redis

SLOWER = 100
PASSWORD = "right"
LOST = ("the remote tier does not answer", "did not deliver")


class Finding(AssertionError):
    pass


def check(holds, *what):
    if not holds:
        raise Finding(" ".join(str(x)[:800] for x in what))


# -- the stores: of what an object of each is, and how servers find it ----------------------------------------------


class OneRedis:
    env, options, words = {}, [], 120  # of a document

    def __init__(self, folder):
        self.redis = Redis(PASSWORD)
        self.port = self.redis.port

    def url(self, port):
        return f"redis://:{PASSWORD}@127.0.0.1:{port}"

    def wipe(self):
        self.redis.do("FLUSHALL")

    def speed(self):
        """What reading takes here: latency, and bytes a second."""
        with socket.create_connection(("127.0.0.1", self.port)) as s, s.makefile("rb") as f:
            s.sendall(f"AUTH {PASSWORD}\r\n".encode())
            f.readline()
            times = []
            for _ in range(20):
                began = time.perf_counter()
                s.sendall(b"PING\r\n")
                f.readline()
                times.append(time.perf_counter() - began)
            self.redis.do("SET", "bytes", "x" * 2**20)
            began = time.perf_counter()
            for _ in range(8):
                s.sendall(b"GET bytes\r\n")
                f.readline()
                f.read(2**20 + 2)
            return statistics.median(times), 8 * 2**20 / (time.perf_counter() - began)

    def stop(self):
        self.redis.stop()


class ThreeRedis:
    """A cluster; the first server has a replica."""

    env, options, words = {}, [], 120

    def __init__(self, folder):
        self.cluster = Cluster(tempfile.mkdtemp(dir=folder), n_replicas=1)
        self.port = None

    def url(self, port):
        return "redis://" + ",".join(f"127.0.0.1:{n.port}" for n in self.cluster.masters)

    def wipe(self):
        for n in self.cluster.serving():
            n.cli("FLUSHALL")

    def stop(self):
        self.cluster.stop()


class Objects:
    options, words = ["--cpu", "ref"], 64  # fast kernels, and plain C for few words, need less time than moto

    def __init__(self, folder):
        from support.object_store import Store
        self.objects = Store(folder, verifies=False)
        self.port, self.env = self.objects.port, self.objects.env

    def url(self, port):
        self.env["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{port}"
        return self.objects.url

    def wipe(self):
        self.objects.wipe()

    def speed(self):
        def seconds(body):
            where = {"Bucket": self.objects.bucket, "Key": "speed"}
            self.objects.s3.put_object(Body=body, **where)
            url = self.objects.s3.generate_presigned_url("get_object", Params=where)
            began = time.perf_counter()
            urllib.request.urlopen(url, timeout=300).read()
            return time.perf_counter() - began
        latency = statistics.median(seconds(b"x") for _ in range(10))
        return latency, 2**23 / statistics.median(seconds(b"x" * 2**23) for _ in range(3))

    def stop(self):
        self.objects.stop()


def missing(of):
    """Why a store cannot be had here; None: it can."""
    with contextlib.suppress(ImportError):
        if of == "s3":
            import boto3  # noqa: F401
            return None if (pathlib.Path(sys.executable).parent / "moto_server").exists() else "no moto_server"
        return next((f"no {p}" for p in ("redis-server", "redis-cli") if not shutil.which(p)), None)
    return "no boto3"


STORES = {"redis": OneRedis, "cluster": ThreeRedis, "s3": Objects}


# -- faults: begin(world), end(world) --------------------------------------------------------------------------------


class Fault:
    """A fault that is there for a while. of: of which store; signs: what the server's log must say of it, any of them;
    code: of errors that Redis must have answered; key: whether copies carry an HMAC; proxied: the way there leads
    through world.proxy."""

    of, signs, code, key, proxied = "redis", (), None, True, False

    def begin(self, world):
        raise NotImplementedError

    def is_met(self, world):
        """The server has met it, as far as the store can tell."""
        return not self.code or world.redis.errors(self.code)

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
local n = 0
for i, k in ipairs(copies('SPOLIA:*')) do
  local fields = {}
  for _, f in ipairs(redis.call('HKEYS', k)) do
    if redis.call('HSTRLEN', k, f) > 0 then fields[#fields + 1] = f end -- a copy that is being put begins with an empty one
  end
  if #fields > 0 then
    local f = fields[(%d + i) %% #fields + 1]
    local v = redis.call('HGET', k, f)
    local at = (%d * (i + 7)) %% #v + 1
    redis.call('HSET', k, f, v:sub(1, at - 1) .. string.char(bit.bxor(v:byte(at), 2 ^ (%d %% 8))) .. v:sub(at + 1))
    n = n + 1
  end
end
return n
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

    proxied = True

    def __init__(self):
        self.speed = None

    def begin(self, world):
        self.speed = self.speed or world.store.speed()
        world.proxy.latency_s, world.proxy.rate = self.speed[0] * SLOWER, self.speed[1] / SLOWER

    def is_met(self, world):
        return world.proxy.n_delayed

    def end(self, world):
        world.proxy.latency_s = world.proxy.rate = 0
        check(world.proxy.n_delayed, "nothing was slow")


# -- of a cluster -----------------------------------------------------------------------------------------------------


class OneKilled(Fault):
    """A server that has no replica dies, and comes back without its copies."""

    of = "cluster"

    def begin(self, world):
        self.node = world.rng.choice(world.cluster.masters[1:])
        self.had = self.node.copies()
        world.later(self.node.kill)

    def end(self, world):
        self.node.kill()
        self.node.start()
        world.cluster.await_ok()


class TakenOver(Fault):
    """A server dies, its replica takes over, and it comes back as the replica's replica."""

    of = "cluster"

    def begin(self, world):
        world.cluster.await_replicas()
        self.node = world.cluster.master_of(0)
        world.later(self.node.kill)

    def end(self, world):
        limit = time.time() + 300
        while world.cluster.master_of(0) in (self.node, None):
            check(time.time() < limit, "no replica has taken over")
            time.sleep(0.05)
        self.node.start()
        world.cluster.await_ok()


class Moving(Fault):
    """Slots with copies move from server to server all the time: MOVED and ASK."""

    of = "cluster"

    def begin(self, world):
        self.stop, self.failed, self.n_moved = threading.Event(), None, 0
        self.thread = threading.Thread(target=self.move, args=(world.cluster,))
        self.thread.start()
        limit = time.time() + 300
        while not self.n_moved and self.thread.is_alive() and time.time() < limit:
            time.sleep(0.005)  # requests begin amid it, however fast they are

    def move(self, cluster):
        try:
            while not self.stop.is_set():
                masters = cluster.serving()
                for source, target in zip(masters, masters[1:] + masters[:1]):
                    for slot in cluster.slots_with_keys(source)[:8]:
                        if self.stop.is_set():
                            return
                        cluster.move(slot, source, target)
                        self.n_moved += 1
        except Exception as e:  # noqa: BLE001 -- said in end
            self.failed = e

    def end(self, world):
        self.stop.set()
        self.thread.join()
        check(not self.failed, "slots cannot be moved:", repr(self.failed))
        check(self.n_moved, "no slot was moved")


# -- of an object store ---------------------------------------------------------------------------------------------


class ObjectsKilled(Fault):
    of, signs = "s3", LOST

    def begin(self, world):
        world.later(world.store.objects.kill)

    def end(self, world):
        world.store.objects.kill()
        world.store.objects.start()


class ObjectsStopped(Fault):
    of, signs = "s3", LOST

    def begin(self, world):
        world.later(lambda: world.store.objects.signal(signal.SIGSTOP))

    def end(self, world):
        world.store.objects.signal(signal.SIGCONT)


class ObjectsSlow(Slow):
    of = "s3"


def error_page(status, code):
    text = f"<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>at once</Message></Error>"
    return (f"HTTP/1.1 {status} {code}\r\nContent-Type: application/xml\r\nContent-Length: {len(text)}\r\n"
            f"Connection: close\r\n\r\n{text}").encode()


class Errors(Fault):
    """It answers with 500 or 503, in turns."""

    of, signs, proxied = "s3", (": 503", ": 500"), True  # HEAD is answered without the code
    pages = [error_page(503, "SlowDown"), error_page(500, "InternalError")]

    def __init__(self):
        self.n = 0

    def begin(self, world):
        self.before = world.proxy.n_refused
        world.proxy.refusal = self.pages[self.n % 2]
        self.n += 1

    def is_met(self, world):
        return world.proxy.n_refused > self.before

    def end(self, world):
        world.proxy.refusal = None
        check(world.proxy.n_refused > self.before, "nothing was refused")


class ObjectsDamaged(Fault):
    """A bit of every object is flipped, or its end is lost; when it ends, the objects are deleted."""

    of, signs = "s3", ("not authentic", "checksum", "cut short", "record", "header")

    def begin(self, world):
        store = world.store.objects
        for i, key in enumerate(store.keys("copy")):
            body = bytearray(store.get(key))
            if i % 4 == 3:
                del body[world.rng.randrange(len(body)):]
            else:
                body[world.rng.randrange(len(body))] ^= 1 << world.rng.randrange(8)
            store.put(key, bytes(body))

    def end(self, world):
        world.store.wipe()


class ObjectsLocked(Fault):
    """The server's key is not valid any more."""

    of, signs = "s3", (": 403",)

    def begin(self, world):
        world.store.objects.verify("0")

    def end(self, world):
        world.store.objects.verify("1000000000")  # after so many requests


KINDS = {"noise": None, "well": None, "killed": Killed, "stopped": Stopped, "full": Full, "read-only": ReadOnly,
         "damaged": Damaged, "unsealed": Unsealed, "foreign": Foreign, "locked": Locked, "slow": Slow,
         "cluster-well": None, "cluster-killed": OneKilled, "cluster-over": TakenOver, "cluster-moved": Moving,
         "s3-well": None, "s3-killed": ObjectsKilled, "s3-stopped": ObjectsStopped, "s3-slow": ObjectsSlow,
         "s3-errors": Errors, "s3-damaged": ObjectsDamaged, "s3-locked": ObjectsLocked}


def store_of(kind):
    """The name of the store that a kind needs."""
    if KINDS[kind]:
        return KINDS[kind].of
    return kind.split("-")[0] if kind.split("-")[0] in STORES else "redis"
