"""A store on a file system that is mounted read-only is read; nothing is written to it."""
import json
import os
import subprocess

import pytest
from conftest import PROGRAM, ROOT, succeed

MODEL = ROOT / "demo/model.gguf"


@pytest.fixture
def stored(tmp_path):
    """(index, a store that has the copies of a question)."""
    index, store = tmp_path / "demo.db", tmp_path / "store"
    if subprocess.run(read_only(store.parent, "true"), capture_output=True).returncode != 0:
        pytest.skip("nothing can be mounted here")
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
