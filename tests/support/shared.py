"""What replicas of tests/chaos.py share, and its faults: a Redis server, or an object store."""
import pathlib
import random
import shutil
import signal
import sys

from support.redis_server import Proxy, Redis

FIND = """
local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local expires = redis.call('TTL', key) >= 0 -- what was being written when a server was lost
  local all = expires and '' or key .. redis.call('DUMP', key)
  for _, hex in ipairs(ARGV) do
    local bytes = hex:gsub('%x%x', function(x) return string.char(tonumber(x, 16)) end)
    if all:find(bytes, 1, true) or all:find(hex, 1, true) then
      local is_hash = redis.call('TYPE', key).ok == 'hash'
      found[#found + 1] = key .. (is_hash and '(' .. table.concat(redis.call('HKEYS', key), ',') .. ')' or '')
    end
  end
end
return table.concat(found, ' ')
"""


class SharedStore:
    """One fault at a time. faults: those that there are; refusing: those of them under which nothing can be deleted
    and nothing is lost; silent: those under which nobody can look into it."""

    faults = refusing = silent = ()
    env = {}  # of servers

    def __init__(self):
        self.fault, self.n_faults = None, 0

    def begin(self, fault):
        self.end()
        self.fault = fault
        self.n_faults += 1
        self.start_fault(fault)

    def end(self):
        if self.fault:
            self.end_fault(self.fault)
        self.fault = None

    def answers(self):
        return self.fault not in self.silent


class SharedRedis(SharedStore):
    faults, refusing, silent = ("killed", "stopped", "full", "read-only"), ("stopped", "read-only"), ("killed", "stopped")

    def __init__(self, folder):
        super().__init__()
        self.redis = Redis()
        self.url = self.redis.url
        self.show_bytes()

    def show_bytes(self):
        self.redis.do("CONFIG", "SET", "rdbcompression", "no")  # so that DUMP shows them as they are

    def start_fault(self, fault):
        if fault == "killed":
            self.redis.kill()
        elif fault == "stopped":
            self.redis.signal(signal.SIGSTOP)
        elif fault == "full":
            self.redis.do("CONFIG", "SET", "maxmemory", "1")
        else:
            self.redis.do("REPLICAOF", "127.0.0.1", "1")

    def end_fault(self, fault):
        if fault == "killed":
            self.redis.start()
            self.show_bytes()
        elif fault == "stopped":
            self.redis.signal(signal.SIGCONT)
        elif fault == "full":
            self.redis.do("CONFIG", "SET", "maxmemory", "0")
        else:
            self.redis.do("REPLICAOF", "NO", "ONE")

    def find(self, patterns):
        """The keys of what has one of them."""
        return self.redis.do("EVAL", FIND, "0", *(p.hex() for p in patterns)).split()

    def stop(self):
        self.redis.stop()


class SharedObjects(SharedStore):
    faults = ("killed", "stopped", "errors", "locked")
    refusing, silent = ("stopped", "errors", "locked"), ("killed", "stopped", "locked")

    def __init__(self, folder):
        from support.object_store import NOBODY, Store
        from support.store_faults import Errors
        super().__init__()
        self.all_may, self.pages = NOBODY, Errors.pages
        self.objects = Store(folder, verifies=False)
        self.proxy = Proxy(self.objects.port)
        self.url = self.objects.url
        self.env = {**self.objects.env, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.proxy.port}"}

    def start_fault(self, fault):
        if fault == "killed":
            self.objects.kill()
        elif fault == "stopped":
            self.objects.signal(signal.SIGSTOP)
        elif fault == "errors":
            self.proxy.refusal = random.Random(self.n_faults).choice(self.pages)
        else:
            self.objects.verify("0")

    def end_fault(self, fault):
        if fault == "killed":
            self.objects.start()
        elif fault == "stopped":
            self.objects.signal(signal.SIGCONT)
        elif fault == "errors":
            self.proxy.refusal = None
        else:
            self.objects.verify(self.all_may)

    def find(self, patterns):
        found, s3 = [], self.objects.s3
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=self.objects.bucket):
            for key in [o["Key"] for o in page.get("Contents", [])]:
                try:
                    got = s3.get_object(Bucket=self.objects.bucket, Key=key)
                except s3.exceptions.NoSuchKey:  # a server has deleted it meanwhile
                    continue
                all_of_it = f"{key} {got['Metadata']}".encode() + got["Body"].read()
                if any(p in all_of_it or p.hex().encode() in all_of_it for p in patterns):
                    found.append(key)
        return found and [*found, *self.objects.keys("index")]

    def stop(self):
        self.proxy.close()
        self.objects.stop()


SHARED = {"redis": SharedRedis, "objects": SharedObjects}


def can_share(through):
    """Whether such a store can be had here."""
    if through == "redis":
        return bool(shutil.which("redis-server"))
    return (pathlib.Path(sys.executable).parent / "moto_server").exists()
