"""Vectors of an index in a Chroma server: `index --vectors chroma:URL`, as test_vectors has it for those in the file."""
import contextlib
import http.server
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import threading
import time
import urllib.error
import urllib.request

import numpy as np
import pytest
from conftest import ROOT, refuse

from reference import encoder
from support.ports import free_port
from test_vectors import build, passage, search

OWN = ROOT / ".venv-chroma/bin/chroma"
PROGRAM = os.environ.get("SPOLIA_CHROMA") or (str(OWN) if OWN.exists() else shutil.which("chroma"))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return encoder.write_folder(tmp_path_factory.mktemp("encoder") / "tiny-encoder", longest=32)


@pytest.fixture
def docs(tmp_path):
    home = tmp_path / "docs"
    for folder in ("a", "b"):
        (home / folder).mkdir(parents=True)
        for i in range(20):
            (home / folder / f"{i}.txt").write_text(passage(i + 100 * (folder == "b")))
    return home


class Chroma:
    """A server of its own."""

    def __init__(self, folder: pathlib.Path):
        self.url = f"http://127.0.0.1:{free_port()}"
        self.process = subprocess.Popen([PROGRAM, "run", "--path", folder, "--host", "127.0.0.1", "--port", self.url.rsplit(":", 1)[1]],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "ANONYMIZED_TELEMETRY": "False"})
        end = time.time() + 300
        while True:
            with contextlib.suppress(OSError):
                self.do("GET", "/api/v2/heartbeat")
                return
            assert time.time() < end and self.process.poll() is None, "no Chroma server"
            time.sleep(0.2)

    def do(self, method, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        r = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        return json.load(urllib.request.urlopen(r, timeout=300))

    def collections(self):
        return {c["name"]: c for c in self.do("GET", "/api/v2/tenants/default_tenant/databases/default_database/collections")}

    def count(self, name):
        return self.do("GET", f"/api/v2/tenants/default_tenant/databases/default_database/collections/{self.collections()[name]['id']}/count")


@pytest.fixture(scope="module")
def chroma(tmp_path_factory):
    if not PROGRAM:
        pytest.skip("chroma is not installed (scripts/setup --clients)")
    c = Chroma(tmp_path_factory.mktemp("chroma"))
    yield c
    c.process.terminate()
    c.process.wait()


def assert_as_flat(tiny, index, flat, *options):
    for question in ("the keeper of the lamp", "river wind", passage(7)):
        found, wanted = ([(h["file"], h["score"]) for h in search(i, question, "--embedding", tiny, *options)] for i in (index, flat))
        assert [f for f, _ in found] == [f for f, _ in wanted], (found, wanted)
        assert np.abs([a[1] - b[1] for a, b in zip(found, wanted)]).max() < 1e-5


def test_it_finds_what_a_flat_search_finds(chroma, tiny, docs, tmp_path):
    index, flat = tmp_path / "i.db", tmp_path / "flat.db"
    told = build(tiny, index, docs, kind=f"chroma:{chroma.url}/found")
    assert (told["vectors"], told["chunks"], told["embedded"]) == ("chroma", 40, 40)
    assert chroma.count("found") == 40
    assert sqlite3.connect(index).execute("SELECT sum(length(v)) FROM vectors").fetchone() == (0,)  # they are there, not here
    build(tiny, flat, docs)
    assert_as_flat(tiny, index, flat, "--by", "vectors", "-k", 5)
    assert_as_flat(tiny, index, flat, "-k", 10)
    assert_as_flat(tiny, index, flat, "--by", "vectors", "-k", 40, "--only", "b/", "--only", "a/3.txt")
    everything = build(tiny, tmp_path / "j.db", docs, kind=f"chroma:{chroma.url}/default_tenant/default_database/second")
    assert everything["embedded"] == 40 and chroma.count("second") == 40


def test_only_what_changed_is_sent(chroma, tiny, docs, tmp_path):
    index, flat, kind = tmp_path / "i.db", tmp_path / "flat.db", f"chroma:{chroma.url}/changes"
    build(tiny, index, docs, kind=kind)
    assert build(tiny, index)["embedded"] == 0
    (docs / "a/3.txt").write_text(passage(777))
    (docs / "a/4.txt").unlink()
    told = build(tiny, index)  # the kind and the URL are the index's
    assert (told["embedded"], told["kept"], told["removed"], told["vectors"]) == (1, 38, 2, "chroma"), told
    assert chroma.count("changes") == 39
    build(tiny, flat, docs)
    assert_as_flat(tiny, index, flat, "--by", "vectors", "-k", 8)
    chroma.do("DELETE", "/api/v2/tenants/default_tenant/databases/default_database/collections/changes")
    assert build(tiny, index)["embedded"] == 39  # what the server has lost is sent again
    other = encoder.write_folder(tmp_path / "other", longest=16)
    assert build(other, index)["embedded"] == 39 and chroma.count("changes") == 39  # another encoder's replace them
    assert build(other, index, kind="flat")["embedded"] == 39  # back into the file
    assert len(search(index, "lamp", "--embedding", other, "--by", "vectors", "-k", 5)) == 5


def test_collections_of_others_are_not_touched(chroma, tiny, docs, tmp_path):
    mine, yours, kind = tmp_path / "mine.db", tmp_path / "yours.db", f"chroma:{chroma.url}/shared"
    build(tiny, mine, docs, kind=kind)
    refuse("index", docs, "-o", yours, "--quiet", "--embedding", tiny, "--vectors", kind, naming=("shared", "not this index's"))
    assert chroma.count("shared") == 40
    assert search(mine, "lamp", "--embedding", tiny, "--by", "vectors")
    assert search(yours, "lamp", "--embedding", tiny)  # by words


def test_words_need_no_server(chroma, tiny, docs, tmp_path):
    index, server = tmp_path / "x.db", Chroma(tmp_path / "chroma")
    try:
        build(tiny, index, docs, kind=f"chroma:{server.url}/words")
        by_words = search(index, "lamp", "--embedding", tiny, "--by", "words")
    finally:
        server.process.terminate()
        server.process.wait()
    assert by_words and search(index, "lamp", "--embedding", tiny, "--by", "words") == by_words
    refuse("search", "--index", index, "--embedding", tiny, "lamp", naming=[server.url])


@pytest.mark.parametrize("url, naming", [
    ("ftp://x/c", "http://HOST"), ("http://x", "http://HOST"), ("http:///c", "http://HOST"), ("http://me:key@x/c", "http://HOST"),
    ("http://x/a/b", "COLLECTION"), ("http://x/a/b/c/d", "COLLECTION"), ("http://x/a b", "COLLECTION"), ("http://x/c?d", "COLLECTION"),
    ("http://x/", "COLLECTION"), ("http://127.0.0.1:9/c", "127.0.0.1:9")])
def test_wrong_addresses_are_named(url, naming, tiny, docs, tmp_path):
    refuse("index", docs, "-o", tmp_path / "i.db", "--quiet", "--embedding", tiny, "--vectors", f"chroma:{url}", naming=(naming,))


def test_a_token_is_sent_whole_or_refused(tiny, docs, tmp_path, monkeypatch):
    monkeypatch.setenv("SPOLIA_CHROMA_TOKEN", "t" * 5000)
    refuse("index", docs, "-o", tmp_path / "i.db", "--quiet", "--embedding", tiny, "--vectors", "chroma:http://127.0.0.1:9/c",
           naming=("SPOLIA_CHROMA_TOKEN is too long",))


class Broken(http.server.BaseHTTPRequestHandler):
    """Answers with what the test says: a path's end -> status, body."""

    answers = {}

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, body = next((a for end, a in self.answers.items() if self.path.endswith(end)), (404, "none"))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    do_GET = do_POST = do_DELETE = answer

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("answers, naming", [
    ({"/c": (200, "{")}, "not JSON"),
    ({"/c": (200, "[]")}, "no id"),
    ({"/c": (200, '{"id": "../x", "metadata": {"spolia_mark": 5}}')}, "no id"),
    ({"/c": (200, '{"id": "a", "metadata": {"spolia_mark": 6}}')}, "not this index's"),
    ({"/c": (200, '{"id": "a", "metadata": null}')}, "not this index's"),
    ({"/c": (500, "out of disk\nmore")}, "out of disk"),
    ({"/c": (401, "who are you")}, "401"),
    ({"/count": (200, "-1")}, "no count"),
    ({"/query": (200, "{}")}, "no ids"),
    ({"/query": (200, '{"ids": [["3"]], "distances": [[]]}')}, "no ids and distances"),
    ({"/query": (200, '{"ids": [["x"]], "distances": [[0.5]]}')}, "number as an id"),
    ({"/query": (200, '{"ids": [["1"]], "distances": [["near"]]}')}, "a distance"),
    ({"/query": (503, "busy")}, "busy")])
def test_wrong_answers_are_named(answers, naming, tiny, docs, tmp_path):
    """An index as if its vectors were there, and a server that says something else."""
    index = tmp_path / "i.db"
    build(tiny, index, docs)
    good = {"/c": (200, '{"id": "a", "metadata": {"spolia_mark": 5}}'), "/count": (200, "40"),
            "/query": (200, '{"ids": [["1", "2"]], "distances": [[0.25, 0.5]]}')}
    handler = type("Answers", (Broken,), {"answers": good})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        with sqlite3.connect(index) as db:
            db.execute("UPDATE embedding SET kind = ?, graph_hash = 5", (f"chroma:http://127.0.0.1:{server.server_port}/c",))
        ask = ("--embedding", tiny, "--by", "vectors")
        assert [(h["id"], h["score"]) for h in search(index, "lamp", *ask)] == [(1, 0.75), (2, 0.5)]
        handler.answers = {**good, **answers}
        refuse("search", "-i", index, "lamp", *ask, naming=(naming,))
    finally:
        server.shutdown()
        server.server_close()


class Parts(Broken):
    """Finds the last of the vectors that it is asked for."""

    asked = []

    def do_POST(self):
        if not self.path.endswith("/query"):
            self.answer()
            return
        ids = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["ids"]
        self.asked.append([int(i) for i in ids])
        body = json.dumps({"ids": [ids[-1:]], "distances": [[1 - int(ids[-1]) / 10000]]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_many_chosen_passages_are_asked_for_in_parts(tiny, tmp_path):
    index = tmp_path / "i.db"
    for name, n in (("a", 5000), ("b", 100)):
        (tmp_path / "docs" / name).mkdir(parents=True)
        lines = [json.dumps({"text": f"lamp {name} {i}"}) for i in range(n)]
        (tmp_path / "docs" / name / "x.jsonl").write_text("\n".join(lines))
    assert build(tiny, index, tmp_path / "docs")["chunks"] == 5100
    handler = type("Asked", (Parts,), {"asked": [], "answers": {
        "/c": (200, '{"id": "a", "metadata": {"spolia_mark": 5}}'), "/count": (200, "5100")}})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        with sqlite3.connect(index) as db:
            kind = f"chroma:http://127.0.0.1:{server.server_port}/c"
            db.execute("UPDATE embedding SET kind = ?, graph_hash = 5", (kind,))
            chosen = [i for i, in db.execute("SELECT id FROM chunks WHERE text LIKE 'lamp a%' ORDER BY id")]
        found = search(index, "lamp", "--embedding", tiny, "--by", "vectors", "--only", "a/")
    finally:
        server.shutdown()
        server.server_close()
    assert [len(part) for part in handler.asked] == [4096, 904]
    assert sorted(sum(handler.asked, [])) == chosen
    assert [h["id"] for h in found] == sorted((part[-1] for part in handler.asked), reverse=True)
