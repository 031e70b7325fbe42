"""Filling a remote tier ahead (spolia precompute --remote --shard), checking it and cleaning it (spolia cache --remote)."""
import contextlib
import json
import shutil
import socket
import threading

import pytest

from conftest import ROOT, refuse, run, succeed
from test_json import valid
from test_remote import Redis
from support.redis_server import Proxy

pytestmark = pytest.mark.skipif(not shutil.which("redis-server"), reason="redis-server is not installed")

MODEL = ROOT / "demo/model.gguf"


@pytest.fixture
def redis():
    r = Redis()
    yield r
    r.stop()


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    out = tmp_path_factory.mktemp("index") / "x.db"
    succeed("index", ROOT / "demo/docs", "-o", out, "-q")
    return out


def precompute(redis, index, *options):
    return json.loads(succeed("precompute", index, "-m", MODEL, "--remote", redis.url, "--fuse", "0", "--json", "-t", "1", *options))


def cache(redis, what, *options, code=0):
    done = run("cache", what, "--remote", redis.url, "--json", *options)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


class Cut(Proxy):
    """Ends all connections as soon as the server has read the first piece that makes a copy."""

    def __init__(self, port):
        self.pieces, self.lock = [], threading.Lock()
        super().__init__(port)

    def carry(self, source, to, delayed):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                with self.lock:
                    if self.pieces:
                        break
                    to.sendall(data)
                    if not delayed and b"HSET" in data:
                        self.pieces.append(data)
                        self.close()
        for s in (source, to):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)


def test_a_copy_that_has_only_begun_expires(redis, index):
    proxy = Cut(redis.port)
    run("precompute", index, "-m", MODEL, "--remote", f"redis://127.0.0.1:{proxy.port}/0", "--fuse", "0", "-t", "1", "--json")
    assert len(proxy.pieces) == 1
    lives = [redis.do("EVAL", f"local k = redis.call('KEYS', 'SPOLIA:*:copy:*[^k]') return redis.call('TTL', k[{i}] or '')", "0")
             for i in (1, 2)]
    assert 0 < int(lives[0][1:]) <= 300 and lives[1] == ":-2", lives


def test_parts_are_disjoint_and_together_they_are_all(redis, index):
    parts = [precompute(redis, index, "--shard", f"{k}/3") for k in (1, 2, 3)]
    n = parts[0]["chunks"]
    assert all(p["complete"] and p["store"] is None and p["remote"] for p in parts)
    assert sum(p["fused"] for p in parts) == redis.copies() == n - parts[0]["duplicates"]
    assert all(0 < p["fused"] < n and p["fused"] + p["others"] == n for p in parts)
    again = precompute(redis, index)
    assert (again["fused"], again["unchanged"]) == (0, n)


def test_what_was_lost_is_computed_again(redis, index):
    n = precompute(redis, index)["fused"]
    redis.do("EVAL", "local k = redis.call('KEYS', 'SPOLIA:*:copy:*') redis.call('DEL', k[1], k[2], k[3])", "0")
    assert valid("cache-gc-remote", cache(redis, "gc")) == {"store": redis.url, "dropped": 0, "forgotten": 3}
    again = precompute(redis, index)
    assert (again["fused"], again["unchanged"]) == (3, n - 3)


def test_copies_computed_ahead_are_read(redis, index):
    precompute(redis, index)
    options = ["ask", "-m", MODEL, "--index", index, "--reuse", "full", "-n", "4", "--json", "-t", "1", "What is the capital of Larbar?"]
    plain = json.loads(succeed(*options))
    shared = json.loads(succeed(*options, "--remote", redis.url))
    assert shared["text"] == plain["text"]


def test_fused_copies_go_there_too(redis, index):
    first = precompute(redis, index, "--fuse", "2")
    n = first["fused"] + first["alone"]
    kinds = [c["kind"] for c in cache(redis, "list")["copies"]]
    assert kinds.count("fused") == first["fused"] > 0 and kinds.count("plain") == n
    assert precompute(redis, index, "--fuse", "2")["fused"] == 0


def test_a_damaged_copy_is_found_and_deleted(redis, index):
    n = precompute(redis, index)["fused"]
    redis.do("EVAL", "local k = redis.call('KEYS', 'SPOLIA:*:copy:*') local v = redis.call('HGET', k[1], '0') "
                     "redis.call('HSET', k[1], '0', string.char((v:byte(1) + 1) % 256) .. v:sub(2))", "0")
    found = cache(redis, "verify", code=1)
    assert (found["copies"], found["damaged"]) == (n - 1, 1)
    assert cache(redis, "verify")["damaged"] == 0 and redis.copies() == n - 1


def test_copies_that_no_index_names_are_deleted(redis, index):
    n = precompute(redis, index)["fused"]
    redis.do("EVAL", "local i = redis.call('KEYS', 'SPOLIA:*:index')[1] local f = redis.call('HKEYS', i) redis.call('HDEL', i, f[1], f[2])", "0")
    assert cache(redis, "verify")["copies"] == n - 2 and redis.copies() == n
    refuse("cache", "gc", "--remote", redis.url, "--budget", "1M", naming=["--budget"], code=2)
    assert cache(redis, "gc")["dropped"] == 2 and redis.copies() == n - 2
    assert cache(redis, "gc")["dropped"] == 0


def test_copies_of_another_key_are_found(redis, index, tmp_path):
    keys = [tmp_path / name for name in ("ours", "theirs")]
    for k in keys:
        k.write_text(k.name * 10)
    n = precompute(redis, index, "--remote-key-file", keys[0])["fused"]
    assert cache(redis, "verify", "--remote-key-file", keys[0])["copies"] == n
    refuse("cache", "verify", "--remote", redis.url, naming=["--remote-key-file"]) # deletes none
    assert cache(redis, "verify", "--remote-key-file", keys[0])["copies"] == n == redis.copies()
    assert cache(redis, "verify", "--remote-key-file", keys[1], code=1)["damaged"] == n


@pytest.mark.parametrize("shard", ["0/3", "4/3", "3", "a/b", "1/2x", "-1/2"])
def test_wrong_parts_are_named(index, shard):
    refuse("precompute", index, "-m", MODEL, "--remote", "redis://127.0.0.1:1", "--shard", shard, naming=["--shard", shard], code=2)


def test_a_server_that_is_not_there_is_named(index):
    for words in (["precompute", index, "-m", MODEL], ["cache", "verify"], ["cache", "gc"], ["cache", "list"]):
        refuse(*words, "--remote", "redis://:secret@127.0.0.1:1", naming=["127.0.0.1:1", "refused"])


def test_a_cache_command_wants_one_place():
    refuse("cache", "verify", naming=["--store", "--remote"], code=2)
    refuse("cache", "export", "x", "--remote", "redis://127.0.0.1:1", naming=["--store"], code=2)
