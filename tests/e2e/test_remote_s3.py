"""Replicas that share copies through an object store (--remote s3://): moto's server, which verifies signatures."""
import contextlib
import json
import os
import signal
import socket
import threading
import time

import pytest

from conftest import ROOT, refuse, succeed
from test_json import valid
from test_remote import ask, read_by_another, sources, text_of, wait_for, wait_until_known
from test_remote_fill import cache, index, precompute  # noqa: F401 -- index is a fixture
from serving import chat, servers
from test_server_documents import register, send

pytest.importorskip("boto3", reason="moto and boto3 are not installed")
from support.object_store import Store  # noqa: E402

MODEL = ROOT / "demo/model.gguf"


@pytest.fixture(scope="module")
def started():
    """The object store that is running, if one is."""
    running = []
    yield running
    for s in running:
        s.stop()


@pytest.fixture
def store(started, tmp_path_factory, monkeypatch):
    """An empty one: that of the test before, unless it was killed."""
    if started and started[0].process.poll() is None:
        started[0].reset()
    else:
        started[:] = [Store(tmp_path_factory.mktemp("store"))]
    (s,) = started
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    for name, value in s.env.items():
        monkeypatch.setenv(name, value)
    return s


@pytest.fixture
def replica(store):
    with servers("--reuse", "full", "--cpu", "ref", "--remote", store.url) as run:
        yield run


def test_what_one_computed_the_other_reuses(store, replica):
    one, two = replica(), replica()
    first = ask(one, "Velm", "Torin")
    assert sources(first) == ["never seen", "never seen"]
    wait_for(lambda: len(store.keys("index")) == 2)
    wait_until_known(two, 2) # it lists the bucket every five seconds
    again = ask(two, "Torin", "Velm")
    assert sources(again) == ["remote", "remote"]
    assert all(d["reused"] == d["tokens"] for d in again["spolia"]["documents"])
    same = ask(one, "Torin", "Velm")
    assert same["choices"][0]["message"]["content"] == again["choices"][0]["message"]["content"]
    read_by_another(replica, ["Velm"], 2) # the index that is there when it starts


def test_smaller_forms_are_read_by_everybody(store, replica):
    ways = {"Velm": [], "Torin": ["--remote-kv", "q8_0"], "Asker": ["--remote-compress", "3"],
            "Brin": ["--remote-kv", "q8_0", "--remote-compress", "3"]}
    sizes, wanted = {}, {}
    for name, options in ways.items():
        wanted[name] = ask(replica(*options), name)["choices"][0]["message"]["content"]
        wait_for(lambda: len(store.keys("index")) == len(wanted))
        sizes[name] = sum(len(store.get(k)) for k in store.keys("copy")) - sum(sizes.values())
    assert sizes["Torin"] < 0.6 * sizes["Velm"] and sizes["Asker"] < sizes["Velm"] and sizes["Brin"] <= sizes["Torin"]
    for options in ([], ways["Brin"]):
        again = read_by_another(lambda: replica(*options), ways, 4)  # noqa: B023
        assert all(again[n]["choices"][0]["message"]["content"] == wanted[n] for n in ("Velm", "Asker"))
    assert (found := cache(store, "verify"))["copies"] == 4 and found["damaged"] == 0


def test_answers_stay_the_same_when_the_store_hangs_or_dies(store, replica):
    one = replica("--load-timeout", "1000")
    wanted = ask(one, "Velm", "Torin")["choices"][0]["message"]["content"]
    wait_for(lambda: len(store.keys("index")) == 2)
    two, three = replica("--load-timeout", "1000"), replica("--load-timeout", "1000")
    store.process.send_signal(signal.SIGSTOP)
    for _ in range(3):
        assert ask(two, "Velm", "Torin")["choices"][0]["message"]["content"] == wanted
    ask(two, "Elsewhere")
    store.stop()
    for s in (two, three):
        assert ask(s, "Velm", "Torin")["choices"][0]["message"]["content"] == wanted
    assert "the remote tier does not answer: s3://copies at http://127.0.0.1:" in two.read_log()


class Slow:
    """In front of the store: what it sends crawls."""

    def __init__(self, port):
        self.to, self.listener, self.crawls = port, socket.create_server(("127.0.0.1", 0)), threading.Event()
        self.endpoint = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.to))
            threading.Thread(target=self.carry, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self.carry, args=(server, client, True), daemon=True).start()

    def carry(self, one, other, slowly):
        with contextlib.suppress(OSError):
            while data := one.recv(1000):
                if slowly and self.crawls.is_set():
                    time.sleep(0.2)
                other.sendall(data)
        for s in (one, other):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)


def test_a_store_that_crawls_is_not_waited_for(store, replica, monkeypatch):
    one = replica()
    wanted = ask(one, "Velm", "Torin")["choices"][0]["message"]["content"]
    wait_for(lambda: len(store.keys("index")) == 2)
    slow = Slow(int(store.endpoint.rsplit(":")[-1]))
    monkeypatch.setenv("AWS_ENDPOINT_URL", slow.endpoint)
    two = replica()
    wait_until_known(two, 2)
    slow.crawls.set() # 5 KB a second: a copy would take a minute
    for i in range(3):
        answer = ask(two, "Velm", "Torin")
        assert answer["choices"][0]["message"]["content"] == wanted and "remote" not in sources(answer)
    slow.listener.close()


@pytest.mark.parametrize("seconds", [0, 0.02, 0.1])
def test_a_store_killed_during_loads_costs_no_answer(store, replica, seconds):
    names = [f"Place {i}" for i in range(4)]
    one = replica()
    wanted = ask(one, *names)["choices"][0]["message"]["content"]
    wait_for(lambda: len(store.keys("index")) == len(names))
    two = replica()
    wait_until_known(two, len(names))
    timer = threading.Timer(seconds, store.process.kill)
    timer.start()
    assert ask(two, *names)["choices"][0]["message"]["content"] == wanted
    timer.join()


@pytest.mark.parametrize("form", [[], ["--remote-compress", "3"]])
def test_a_damaged_object_is_a_miss(store, replica, form):
    one = replica(*form)
    wanted = ask(one, "Velm")["choices"][0]["message"]["content"]
    wait_for(lambda: len(store.keys("index")) == 1)
    key = store.keys("copy")[0]
    body = store.get(key)
    if "--remote-compress" in form:
        assert body[:4] == b"SPT1"
    for damaged in (body[:-1], body[:6000] + bytes([body[6000] ^ 1]) + body[6001:], body[:100] + b"x" + body[101:], b""):
        store.put(key, damaged)
        two = replica()
        wait_until_known(two, 1)
        answer = ask(two, "Velm")
        assert answer["choices"][0]["message"]["content"] == wanted and "remote" not in sources(answer)
        assert two.stop() == 0


def test_a_deleted_document_leaves_the_bucket(store, replica):
    one = replica()
    register(one, "velm", text_of("Velm"))
    ask(one, "Torin")
    status, o = send(one, "POST", "/v1/chat/completions", chat(documents=[{"id": "velm"}]))
    assert status == 200, o
    wait_for(lambda: len(store.keys("index")) == 2)
    assert send(one, "DELETE", "/v1/documents/velm")[0] == 200
    assert len(store.keys("copy")) == len(store.keys("index")) == 1


def test_tenants_and_keys_do_not_share(store, replica, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("anna-key\nbert-key\n")
    macs = [tmp_path / name for name in ("ours", "theirs")]
    for k in macs:
        k.write_text(k.name * 10)
    one = replica("--api-keys", keys, "--remote-key-file", macs[0])
    ask(one, "Velm", key="anna-key")
    wait_for(lambda: len(store.keys("index")) == 1)
    two, three = (replica("--api-keys", keys, "--remote-key-file", k) for k in macs)
    two.key = "anna-key"
    wait_until_known(two, 1)
    assert sources(ask(two, "Velm", key="bert-key")) == ["never seen"]
    assert sources(ask(two, "Velm", key="anna-key")) == ["remote"]
    assert "remote" not in sources(ask(three, "Velm", key="anna-key"))
    assert "not authentic" in three.read_log()


def test_parts_are_disjoint_and_together_they_are_all(store, index):  # noqa: F811
    parts = [precompute(store, index, "--shard", f"{k}/3") for k in (1, 2, 3)]
    n = parts[0]["chunks"]
    assert all(p["complete"] and p["store"] is None and p["remote"] for p in parts)
    assert sum(p["fused"] for p in parts) == store.copies() == n - parts[0]["duplicates"]
    assert all(0 < p["fused"] < n and p["fused"] + p["others"] == n for p in parts)
    again = precompute(store, index)
    assert (again["fused"], again["unchanged"]) == (0, n)


def test_copies_are_verified_listed_dropped_and_cleaned(store, index):  # noqa: F811
    n = precompute(store, index)["fused"]
    assert cache(store, "verify")["copies"] == n
    copies = valid("cache-list", cache(store, "list"))["copies"]
    assert len(copies) == n
    assert cache(store, "drop", copies[0]["id"])["dropped"] == 1 and store.copies() == n - 1
    assert len(cache(store, "show", copies[1]["id"])["copies"]) == 1
    key = store.keys("copy")[0]
    body = bytearray(store.get(key))
    body[-1] ^= 1
    store.put(key, bytes(body))
    found = cache(store, "verify", code=1)
    assert (found["copies"], found["damaged"]) == (n - 2, 1)
    assert cache(store, "verify")["damaged"] == 0 and store.copies() == n - 2
    store.delete(store.keys("copy")[0]) # a lifecycle rule took a copy, ...
    name = store.keys("copy")[0].split("/")[-1]
    store.delete(next(k for k in store.keys("index") if name in k)) # ... and the notice of another one
    assert valid("cache-gc-remote", cache(store, "gc")) == {"store": store.url, "dropped": 1, "forgotten": 1}
    assert cache(store, "gc")["dropped"] == 0 and store.copies() == len(store.keys("index")) == n - 4


def test_copies_computed_ahead_are_read(store, index):  # noqa: F811
    precompute(store, index)
    options = ["ask", "-m", MODEL, "--index", index, "--reuse", "full", "-n", "4", "--json", "-t", "1", "What is the capital of Larbar?"]
    plain = json.loads(succeed(*options))
    shared = json.loads(succeed(*options, "--remote", store.url))
    assert shared["text"] == plain["text"]


@pytest.mark.parametrize("change, words", [
    ({"AWS_SECRET_ACCESS_KEY": "wrong"}, ["403", "SignatureDoesNotMatch", "AWS_ACCESS_KEY_ID", "s3://copies"]),
    ({"AWS_ACCESS_KEY_ID": "AKIAWRONG"}, ["403", "InvalidAccessKeyId", "AWS_ACCESS_KEY_ID"]),
    ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, ["http://127.0.0.1:1", "connect"]),
    ({"AWS_ENDPOINT_URL": "127.0.0.1:1"}, ["AWS_ENDPOINT_URL"]),
    ({"AWS_SECRET_ACCESS_KEY": ""}, ["AWS_SECRET_ACCESS_KEY"]),
    ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, ["AWS_ACCESS_KEY_ID", "none"]),
    ({"AWS_PROFILE": "nobody"}, ["AWS_PROFILE", "nobody"]),
])
def test_wrong_settings_are_named(store, index, monkeypatch, change, words):
    for name, value in change.items():
        monkeypatch.setenv(name, value)
    for command in (["precompute", index, "-m", MODEL], ["cache", "verify"], ["cache", "gc"]):
        refuse(*command, "--remote", store.url, naming=words)


@pytest.mark.parametrize("url, words, code", [
    ("s3://no-such-bucket/x", ["bucket no-such-bucket does not exist"], 1), ("s3://X", ["bucket"], 2), ("s3://good/a b", ["prefix"], 2)])
def test_wrong_buckets_are_named(store, index, url, words, code):
    refuse("precompute", index, "-m", MODEL, "--remote", url, naming=words, code=code)


def test_keys_of_a_file_are_used(store, index, monkeypatch, tmp_path):
    (tmp_path / "credentials").write_text(f"[default]\naws_access_key_id = x\naws_secret_access_key = y\n\n[team]\n"
                                          f"aws_access_key_id = {store.key}\naws_secret_access_key = {store.secret}\n")
    (tmp_path / "config").write_text(f"[profile team]\nregion = us-east-1\nendpoint_url = {store.endpoint}\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "team")
    assert precompute(store, index)["fused"] == store.copies()
