"""The kinds of servers that tests/chaos.py drives, and what replicas share."""
import shutil
import signal
import typing

from support.redis_server import Redis


class Variant(typing.NamedTuple):
    what: str  # a line of --help
    policy: str  # options that answers depend on
    rest: str = ""  # others; {folder}: one whose files do not fail
    exact: bool = True  # an answer depends on nothing but its request
    anywhere: bool = False  # copies of chunks serve at any position, and can be computed ahead
    shares: bool = False  # copies, through Redis, with a second server
    collects: bool = False  # documents in a collection
    keys: tuple = (None,)  # of tenants, in {folder}/keys
    sparse: bool = False  # answers read a part of long prompts
    waits: bool = False  # for a disk that hangs: what requests read is in a file that fails, too
    keeps: bool = True  # copies that were just used are still there

    @property
    def mixes(self):
        """Documents are fused: not where it is checked who had what computed."""
        return self.anywhere and len(self.keys) == 1

    @property
    def options(self):
        return f"{self.policy} {self.rest}"


SMALL = "--kv-memory 1 --host-memory 400K --store-max 2M"
AWAY = "--kv-memory 1 --context-memory 600K --context-dir {folder}/store --host-memory 400K"
SPARSE = "--decode sparse:160,depth=0"
IDLE = "--idle-copies 0.3"
KEYS = "--api-keys {folder}/keys"
TWO = ("red-key", "blue-key")
FULL = {"policy": "--reuse full", "anywhere": True}
VARIANTS = {
    "prefix": Variant("exact reuse, a store", "--reuse prefix"),
    "small": Variant("exact reuse in q8_0; memory, host tier and disk hold a few copies each",
                     "--reuse prefix -ctk q8_0", SMALL),
    "context": Variant("exact reuse in f16; a file, which fails, too, has what --context-memory does not hold",
                       "--reuse prefix -ctk f16", AWAY, waits=True),
    "fused": Variant("copies fused with their neighbours, a collection, idle copies, as small", "--reuse fusion",
                     f"{IDLE} {SMALL}", exact=False, anywhere=True, collects=True),
    "craft": Variant("Cache-Craft, two copies of a chunk, as small", "--reuse craft --max-variants 2", SMALL,
                     exact=False, anywhere=True),
    "tenants": Variant("full reuse, a collection, two API keys with documents of the same names and texts",
                       rest=KEYS, collects=True, keys=TWO, **FULL),
    "sparse": Variant("exact reuse in f16, sparse decoding, as small", f"--reuse prefix -ctk f16 {SPARSE}", SMALL,
                      sparse=True),
    "redis": Variant("full reuse, copies in a Redis that is killed, stopped, full or read-only, and a second server",
                     rest="--load-timeout 500", shares=True, **FULL),
    "sparse-context": Variant("as context, sparse decoding", f"--reuse prefix -ctk f16 {SPARSE}", AWAY, sparse=True,
                              waits=True),
    "sparse-fused": Variant("as fused, in f16, sparse decoding", f"--reuse fusion -ctk f16 {SPARSE}",
                            f"{IDLE} {SMALL.replace('memory 1', 'memory 2')}", exact=False, anywhere=True,
                            collects=True, sparse=True),
    "tenants-small": Variant("as tenants, and small", rest=f"{KEYS} {SMALL}", collects=True, keys=TWO, keeps=False,
                             **FULL),
    "tenants-redis": Variant("as tenants and redis, the tiers above it small",
                             rest=f"--load-timeout 500 {KEYS} {SMALL}", shares=True, keys=TWO, keeps=False, **FULL),
}


def available():
    """Those that can be had here."""
    return [name for name, v in VARIANTS.items() if not v.shares or shutil.which("redis-server")]


def table():
    return "\n".join(f"  {name:14} {v.what}" for name, v in VARIANTS.items())


class Shared:
    """A Redis server and its faults."""

    faults = ("killed", "stopped", "full", "read-only")

    def __init__(self):
        self.redis = Redis()
        self.redis.do("CONFIG", "SET", "rdbcompression", "no")  # so that DUMP shows bytes as they are
        self.fault, self.n_faults = None, 0

    def begin(self, fault):
        self.end()
        self.fault = fault
        self.n_faults += 1
        if fault == "killed":
            self.redis.kill()
        elif fault == "stopped":
            self.redis.signal(signal.SIGSTOP)
        elif fault == "full":
            self.redis.do("CONFIG", "SET", "maxmemory", "1")
        else:
            self.redis.do("REPLICAOF", "127.0.0.1", "1")

    def answers(self):
        return self.fault not in ("killed", "stopped")

    def end(self):
        if self.fault == "killed":
            self.redis.start()
            self.redis.do("CONFIG", "SET", "rdbcompression", "no")
        elif self.fault == "stopped":
            self.redis.signal(signal.SIGCONT)
        elif self.fault == "full":
            self.redis.do("CONFIG", "SET", "maxmemory", "0")
        elif self.fault:
            self.redis.do("REPLICAOF", "NO", "ONE")
        self.fault = None
