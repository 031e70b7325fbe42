"""A store on a file system that is mounted read-only is read, and so are registered documents; nothing is written."""
import json
import subprocess

import pytest
from conftest import PROGRAM, ROOT, succeed
from test_server_documents import STORY, ask, compute, register, send

MODEL = ROOT / "demo/model.gguf"


def can_mount(folder):
    if subprocess.run(read_only(folder, "true"), capture_output=True).returncode != 0:
        pytest.skip("nothing can be mounted here")


@pytest.fixture
def stored(tmp_path):
    """(index, a store that has the copies of a question)."""
    index, store = tmp_path / "demo.db", tmp_path / "store"
    can_mount(tmp_path)
    succeed("index", ROOT / "demo/docs", "-o", index)
    first = json.loads(succeed(*question(index, store)))
    assert first["usage"]["reused_tokens"] == 0
    return index, store


def read_only(folder, *command):
    return ["unshare", "-m", "sh", "-c", 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"',
            str(folder), *map(str, command)]


def question(index, store):
    return ["ask", "-m", MODEL, "--index", index, "-n", "4", "--guard", "0", "--json", "--store", store,
            "Where do boats leave?"]


def test_ask_reuses_copies_of_a_read_only_store(stored):
    index, store = stored
    before = {p: p.stat().st_mtime_ns for p in store.rglob("*")}
    done = subprocess.run(read_only(store, PROGRAM, *question(index, store)), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["usage"]["reused_tokens"] > 0
    assert "read-only" in done.stderr
    assert {p: p.stat().st_mtime_ns for p in store.rglob("*")} == before


def test_serve_reads_documents_and_copies_of_a_read_only_store(tmp_path, start):
    can_mount(tmp_path)
    store = tmp_path / "store"
    first = start("--store", store, "--reuse", "full")
    register(first, "story", STORY)
    compute(first, "story")
    answer = ask(first, documents=[{"id": "story"}])["choices"]
    assert first.stop() == 0
    before = {p: p.stat().st_mtime_ns for p in store.rglob("*")}

    server = start("--store", store, "--reuse", "full", under=lambda *command: read_only(store, *command))
    o = ask(server, documents=[{"id": "story"}])
    assert o["choices"] == answer
    assert o["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    assert send(server, "GET", "/v1/documents/story")[1]["chunks"] == 1
    for method, path, body in [("POST", "", {"id": "more", "text": STORY}), ("PUT", "/story", {"text": STORY}),
                               ("PATCH", "/story", {"pinned": True}), ("DELETE", "/story", None)]:
        status, o = send(server, method, "/v1/documents" + path, body)
        assert (status, o["error"]["code"]) == (409, "store_read_only"), o
        assert "read-only" in o["error"]["message"]
    assert server.stop() == 0, server.said
    assert {p: p.stat().st_mtime_ns for p in store.rglob("*")} == before


def test_serve_without_documents_on_a_read_only_file_system(tmp_path, start):
    can_mount(tmp_path)
    server = start("--documents", tmp_path / "documents.db", under=lambda *command: read_only(tmp_path, *command))
    assert send(server, "GET", "/v1/documents")[1]["data"] == []
    assert send(server, "POST", "/v1/documents", {"id": "a", "text": STORY})[0] == 409
