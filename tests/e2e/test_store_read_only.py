"""A store on a file system that is mounted read-only is read, and so are registered documents; nothing is written."""
import json
import os
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


def as_other_user(*command):
    """As one whom the bits of files bind: root loses the right to pass over them."""
    drop = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    return [*drop, *map(str, command)]


@pytest.fixture
def beside(tmp_path):
    """An index with a store of its own; what may(bits) gives to all in it ends with the test."""
    index = tmp_path / "demo.db"
    succeed("index", ROOT / "demo/docs", "-o", index, "-q", "--precompute", "-m", MODEL, "--fuse", "0")
    store = tmp_path / "demo.db.kv"
    inner = sorted(store.rglob("*"))
    folders_of_store, files_of_store = [store, *(p for p in inner if p.is_dir())], [p for p in inner if p.is_file()]

    def may(folders, files):
        """Nothing in a folder can be changed by one who may not enter it: they come first, and last."""
        for p in folders_of_store:
            p.chmod(0o700)
        for p in files_of_store:
            p.chmod(files)
        for p in reversed(folders_of_store):
            p.chmod(folders)
    yield index, store, may
    may(0o700, 0o600)


def ask_beside(index, *options):
    command = as_other_user(PROGRAM, "ask", "-m", MODEL, "--index", index, "-n", "4", "--guard", "0", "--json",
                            *options, "Where do boats leave?")
    env = {**os.environ, "SPOLIA_ARG_NO_STORE": "0", "XDG_CACHE_HOME": str(index.parent / "cache")}
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=300)


def test_ask_reads_the_store_of_another_user(beside):
    index, store, may = beside
    may(0o555, 0o444)
    before = {p: p.stat().st_mtime_ns for p in store.rglob("*")}
    done = ask_beside(index, "--reuse", "full", "--unfused")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["usage"]["reused_tokens"] > 0, done
    assert done.stderr.count("may not write") == 1 and len(done.stderr.splitlines()) == 1, done.stderr
    other = ask_beside(index, "--reuse", "full", "--unfused", "-ctk", "f32")  # there are no copies of this type
    assert other.returncode == 0 and json.loads(other.stdout)["usage"]["reused_tokens"] == 0, other.stderr
    assert other.stderr.count("may not write") == 1, other.stderr
    assert {p: p.stat().st_mtime_ns for p in store.rglob("*")} == before


def test_ask_leaves_out_a_store_that_it_may_not_read(beside):
    index, store, may = beside
    for folders in (0o000, 0o311):
        may(folders, 0o000)
        done = ask_beside(index)
        assert done.returncode == 0 and json.loads(done.stdout)["text"], done.stderr
        assert "demo.db.kv: Permission denied; its copies are not used" in done.stderr
    may(0o000, 0o000)
    store.chmod(0o755)  # but not what is in it
    assert "its copies are not used" in ask_beside(index).stderr
    named = ask_beside(index, "--store", store)
    assert named.returncode == 1 and "Permission denied" in named.stderr, named


def test_serve_reads_the_store_of_another_user_with_documents_of_its_own(tmp_path, beside, start):
    index, store, may = beside
    may(0o555, 0o444)
    command = as_other_user(PROGRAM, "serve", "-m", MODEL, "--store", store, "--port", "0")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and "demo.db.kv: this user may not write here" in done.stderr, done.stderr
    assert "--documents" in done.stderr and "--documents" in (ROOT / "docs/store.md").read_text(encoding="utf-8")
    server = start("--store", store, "--documents", tmp_path / "own.db",
                   under=lambda *command: as_other_user(*command))
    register(server, "story", STORY)
    assert ask(server, documents=[{"id": "story"}])["choices"]
    assert server.stop() == 0, server.said


def test_a_collection_that_may_not_be_read_ends_the_start(beside):
    index, _, may = beside
    index.chmod(0o000)
    command = as_other_user(PROGRAM, "serve", "-m", MODEL, "--collection", f"demo={index}", "--port", "0")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done
    assert done.stderr.splitlines()[-1].endswith("demo.db: Permission denied"), done.stderr


def test_a_table_that_may_not_be_written_says_why(tmp_path):
    tmp_path.chmod(0o555)
    command = as_other_user(PROGRAM, "bench", "decode", "-m", MODEL, "--csv", tmp_path / "x.csv")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and "x.csv: cannot be written: Permission denied" in done.stderr, done.stderr


def test_precompute_needs_a_store_that_it_may_write(beside):
    index, _, may = beside
    may(0o555, 0o444)
    command = as_other_user(PROGRAM, "precompute", index, "-m", MODEL)
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and "this user may not write here" in done.stderr, done.stderr
    assert "demo.db.kv: the store is only read (see above): name another with --store" in done.stderr


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


def within(folder, *command):
    return ["sh", "-c", 'cd "$0" && exec "$@"', str(folder), *map(str, command)]


@pytest.mark.parametrize("mounted", [False, True])
def test_documents_in_memory_need_no_folder(tmp_path, start, mounted):
    """The working folder of a service is mostly "/", which it may not write."""
    if mounted:
        can_mount(tmp_path)
    tmp_path.chmod(0o555)
    limit = read_only if mounted else lambda folder, *command: as_other_user(*command)
    server = start("--reuse", "fusion", "--recompute", "1",
                   under=lambda *command: limit(tmp_path, *within(tmp_path, *command)))
    register(server, "story", STORY)
    register(server, "other", STORY.upper())
    compute(server, "story", fuse=1)
    assert ask(server, documents=[{"id": "story"}])["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    assert send(server, "POST", "/v1/collections", {"name": "box"})[0] == 201
    assert send(server, "PUT", "/v1/collections/box/documents/a", {"text": STORY})[0] == 201
    found = send(server, "POST", "/v1/search", {"query": "boats", "collection": "box"})
    assert found[0] == 200, found
    assert server.stop() == 0, server.said
    tmp_path.chmod(0o755)
