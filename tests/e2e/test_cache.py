"""spolia cache: what a store holds, and changes to it, without a model."""
import fcntl
import json
import os
import re
import shutil
import struct

import pytest

from conftest import ROOT, refuse, run, succeed
from test_json import valid

MODEL = ROOT / "demo/model.gguf"
PAGE = 4096


def cache(command, store, *args):
    """The JSON of one command, which must succeed."""
    return valid(f"cache-{command}", json.loads(succeed("cache", command, *args, "--store", store, "--json")))


def ids(store):
    return [c["id"] for c in cache("list", store)["copies"]]


def a_chunk(store):
    return next(c["id"] for c in cache("list", store)["copies"] if c["kind"] == "plain")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store with plain and fused copies of twelve chunks, and the system text before them."""
    home = tmp_path_factory.mktemp("made")
    docs = home / "docs"
    docs.mkdir()
    for town, thing in (("Velm", "boats"), ("Torin", "hotels"), ("Rask", "mines")):
        sections = (f"## {part}\n\nThe {part} of {town} is about {thing}, says number {i}.\n\n"
                    for i, part in enumerate(("north", "east", "south", "west")))
        (docs / f"{town}.md").write_text(f"# {town}\n\n" + "".join(sections))
    succeed("index", docs, "-o", home / "x.db", "--precompute", "-m", MODEL, "--fuse", "3", "-t", "1", "-q")
    return home / "x.db.kv"


@pytest.fixture
def store(made, tmp_path):
    return shutil.copytree(made, tmp_path / "store")


def segment(store):
    return next(iter(sorted(store.glob("*/*.kv"))))


def flip(path, at):
    with path.open("r+b") as f:
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 1]))


def test_list_and_show(store):
    listed = cache("list", store)
    assert sorted(c["kind"] for c in listed["copies"]) == ["fused"] * 12 + ["path"] + ["plain"] * 12
    assert sum(c["bytes"] for c in listed["copies"]) == listed["bytes"] <= listed["file_bytes"]
    assert all(c["cost_ms"] > 0 for c in listed["copies"])
    chosen = a_chunk(store)
    shown = cache("show", store, chosen[:9])["copies"]
    assert [c["id"] for c in shown] == [chosen] * 2 and {c["kind"] for c in shown} == {"plain", "fused"}
    after = {c["kind"]: c["before"] for c in shown}
    assert len(after["plain"]) == 1 and len(after["fused"]) == 4 and after["fused"][0] == after["plain"][0]
    assert set(after["fused"][1:]) <= set(ids(store))
    text = succeed("cache", "list", "--store", store)
    assert len(text.splitlines()) == 27 and chosen[:12] in text
    text = succeed("cache", "show", chosen, "--store", store)
    assert "before the first chunk" in text
    cost = [float(ms) for ms in re.findall(r"^  cost +([0-9.]+) ms$", text, re.M)]
    assert cost == pytest.approx([c["cost_ms"] for c in cache("show", store, chosen)["copies"]], abs=0.06)
    refuse("cache", "show", "", "--store", store, naming=["several"])
    refuse("cache", "show", "xyz", "--store", store, naming=["xyz", store])


def test_verify_finds_damage(store):
    assert cache("verify", store) | {"seconds": 0} == {
        "store": str(store), "copies": 25, "bytes": cache("list", store)["bytes"], "damaged": 0, "quarantined": True,
        "seconds": 0}
    flip(segment(store), 2 * PAGE + 100)  # in a layer
    done = run("cache", "verify", "--store", store, "--json")
    found = valid("cache-verify", json.loads(done.stdout))
    assert done.returncode == 1 and found["damaged"] == 1 and found["copies"] == 24
    assert "checksum" in done.stderr
    assert cache("verify", store)["damaged"] == 0 and len(ids(store)) == 24  # it is out of the store


def test_a_lost_index_is_rebuilt(store):
    n = len(ids(store))
    flip(next(store.glob("*/index")), 20)
    refuse("cache", "list", "--store", store, naming=["spolia cache verify"])
    done = run("cache", "verify", "--store", store, "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 1 and found["damaged"] == 1 and found["copies"] == n
    assert cache("verify", store)["damaged"] == 0 and len(ids(store)) == n


def test_export_and_import(store, tmp_path):
    archive, there = tmp_path / "copies.spolia", tmp_path / "there"
    written = cache("export", store, archive)
    assert written["copies"] == 25 and written["bytes"] == archive.stat().st_size
    refuse("cache", "import", archive, "--store", there, "-m", MODEL, "-ctk", "f16", naming=[archive, "KV type"])
    assert cache("import", there, archive, "-m", MODEL)["copies"] == 25
    assert sorted(ids(there)) == sorted(ids(store))
    assert cache("import", there, archive)["copies"] == 25 and len(ids(there)) == 25
    flip(archive, 2 * PAGE + 100)
    done = run("cache", "import", archive, "--store", tmp_path / "third", "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["damaged"] == 1
    assert len(ids(tmp_path / "third")) == 24
    (tmp_path / "text").write_text("no archive" * 1000)
    refuse("cache", "import", tmp_path / "text", "--store", there, naming=[tmp_path / "text"])
    refuse("cache", "export", tmp_path / "no" / "file", "--store", store, naming=["no/file"])


def test_stores_of_several_models(store, tmp_path):
    archive = tmp_path / "copies.spolia"
    cache("export", store, archive)
    other = tmp_path / "other"
    succeed("run", "-m", MODEL, "-p", "Answer. # Velm has many boats. # Why?", "--separator", " # ", "-n", "1",
            "-ctk", "f16", "--reuse", "full", "--store", other, "-q")
    name = cache("list", other)["copies"][0]["namespace"]
    refuse("cache", "import", archive, "--store", other, naming=[archive, other])
    cache("import", other, archive, "-m", MODEL)
    refuse("cache", "export", archive, "--store", other, naming=["several", "--namespace"])
    assert cache("export", other, archive, "--namespace", name[:10])["copies"] == len(ids(other)) - 25


def test_drop_and_gc(store):
    one = a_chunk(store)
    assert cache("drop", store, one)["dropped"] == 2
    assert one not in ids(store) and len(ids(store)) == 23
    listed = cache("list", store)
    before = listed["file_bytes"]
    assert listed["bytes"] < before == sum(f.stat().st_size for f in store.glob("*/*.kv"))  # the place of the dropped
    made = cache("gc", store, "--budget", f"{before // 2048}K")
    assert 0 < made["copies"] < 23 and made["dropped"] + made["copies"] == 23 and made["file_bytes"] <= before // 2
    on_disk = sum(f.stat().st_size for f in store.glob("*/*.kv"))
    assert on_disk == made["file_bytes"] and cache("verify", store)["damaged"] == 0
    assert cache("gc", store, "--budget", "1G")["dropped"] == 0
    text = re.fullmatch(r"0 copies deleted, \d+ left; (.+) of (.+)\n", succeed("cache", "gc", "--store", store, "--budget", "1G"))
    less = succeed("cache", "gc", "--store", store, "--budget", "1K")
    assert text[1] == text[2] and less.endswith(f" of {text[1]}\n") and f"{text[1]} of" not in less
    assert cache("gc", store, "--budget", "1K")["copies"] == 0 and ids(store) == []
    refuse("cache", "gc", "--store", store, naming=["--budget"], code=2)


def test_drop_takes_what_continues(tmp_path):
    """Paths of the default policy: without one of their segments nothing finds them."""
    store, said = tmp_path / "paths", "Answer briefly. # Velm has {} boats. # Torin has two hotels. # Why?"
    for n in ("many", "nine"):
        succeed("run", "-m", MODEL, "-p", said.format(n), "--separator", " # ", "-n", "1", "--store", store, "-q")
    paths = [c["id"] for c in cache("list", store)["copies"]]
    shown = {i: len(cache("show", store, i)["copies"][0]["before"]) for i in set(paths)}
    assert len(paths) == 5 and sorted(shown.values()) == [0, 1, 1, 2]  # the second chunk twice
    second = next(i for i, n in shown.items() if n == 1)
    assert cache("drop", store, second)["dropped"] == 2
    left = ids(store)
    assert len(left) == 3 and second not in left
    root = next(i for i, n in shown.items() if n == 0)
    assert cache("drop", store, root)["dropped"] == 3 and ids(store) == []


def test_one_process_writes(store):
    """Another process holds the lock: changes are refused in one line, looking is not."""
    lock = next(store.glob("*/lock"))
    fd = os.open(lock, os.O_RDWR)
    fcntl.fcntl(fd, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))  # F_OFD_SETLK
    one = a_chunk(store)
    for command in (["drop", one], ["gc", "--budget", "1K"]):
        refuse("cache", *command, "--store", store, naming=["another process", "writes this store"])
    assert len(cache("show", store, one)["copies"]) == 2
    flip(segment(store), 2 * PAGE + 100)
    done = run("cache", "verify", "--store", store, "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["quarantined"] is False
    os.close(fd)
    assert json.loads(run("cache", "verify", "--store", store, "--json").stdout)["damaged"] == 1


def test_what_is_no_store(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder" / "sub").mkdir(parents=True)
    for path in ("file", "folder", "nothing"):
        for command in (["list"], ["show", "1"], ["verify"], ["drop", "1"], ["gc", "--budget", "1G"], ["export", "x"]):
            refuse("cache", *command, "--store", tmp_path / path, naming=[tmp_path / path])
    refuse("cache", "list", naming=["--store"], code=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder"]
    assert [p.name for p in (tmp_path / "folder").iterdir()] == ["sub"]
