"""spolia index --precompute: chunks fused with chunks like them, on disk, and kept up to date."""
import json
import re
import shutil
import signal
import struct
import subprocess
import time

import pytest

from conftest import PROGRAM, ROOT, refuse, run, succeed
from test_ask_chat import Terminal

MODEL = ROOT / "demo/model.gguf"
QUESTION = json.loads((ROOT / "demo/questions.jsonl").read_text().splitlines()[0])["question"]


def index(folder, out, *options, fuse=3):
    """One run; what it says of the index and of the store."""
    text = succeed("index", folder, "-o", out, "--precompute", "-m", MODEL, "--fuse", fuse,
                   "-t", "1", "--json", *options)
    built, store = map(json.loads, text.splitlines())
    assert store["complete"] and store["chunks"] == built["chunks"]
    return store


def ask(out, store, *options, question=QUESTION):
    """The account of one answer, and what was said beside it."""
    done = run("ask", "-m", MODEL, "--index", out, "--store", store, "--reuse", "full", "-t", "1",
               "--json", *options, question)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


PLAIN, FUSED = range(2)
LINE = 88  # bytes of the header and of each line of a store's index


def copies(store, kind=FUSED):
    """What the indices of a store name: (namespace, id, head) -> (segment, page, pages of the header, line)."""
    there = {}
    for index_file in store.glob("*/index"):
        data = index_file.read_bytes()
        for n in range(1, len(data) // LINE):
            line = data[n * LINE:(n + 1) * LINE]
            event, is_kind, *where = struct.unpack_from("<2I40x4I", line)
            name = index_file.parent.name, line[8:40], line[40:48]
            if is_kind == kind and event == 1:
                there[name] = where[0], where[1], where[3], n
            elif is_kind == kind and (event == 2 or there.get(name, ())[:2] == tuple(where[:2])):
                there.pop(name, None)
    return there


def flip(path, at):
    with path.open("r+b") as f:
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 1]))


@pytest.fixture
def docs(tmp_path):
    """Three documents of four sections each, three chunks or more apart in what they say."""
    folder = tmp_path / "docs"
    folder.mkdir()
    for town, thing in (("Velm", "boats"), ("Torin", "hotels"), ("Rask", "mines")):
        sections = (f"## {part}\n\nThe {part} of {town} is about {thing}, says number {i}.\n\n"
                    for i, part in enumerate(("north", "east", "south", "west")))
        (folder / f"{town}.md").write_text(f"# {town}\n\n" + "".join(sections))
    return folder


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The bundled documents, precomputed."""
    home = tmp_path_factory.mktemp("demo")
    store = index(ROOT / "demo/docs", home / "demo.db", fuse=4)
    assert store["fused"] == store["chunks"] == 60 and store["unchanged"] == 0
    return home / "demo.db", home / "demo.db.kv"


def test_a_second_run_does_nothing(demo):
    out, store = demo
    before = copies(store)
    again = index(ROOT / "demo/docs", out, fuse=4)
    assert (again["fused"], again["unchanged"], again["removed"]) == (0, 60, 0)
    assert len(before) == 60 and {k: v[:3] for k, v in copies(store).items()} == {k: v[:3] for k, v in before.items()}


def test_answers_come_from_the_store(demo):
    answer, _ = ask(*demo)
    assert len(answer["chunks"]) == 8
    assert all(c["from"] == "disk" and c["reused"] == c["tokens"] for c in answer["chunks"])
    unfused, _ = ask(*demo, "--unfused")  # the plain copies that the fused ones were made among
    assert all(c["from"] == "disk" and c["reused"] == c["tokens"] for c in unfused["chunks"])
    other, _ = ask(*demo, "--system", "Say something else.")
    assert all(c["reused"] == 0 for c in other["chunks"])
    exact, _ = ask(*demo, "-ctk", "f32")
    assert all(c["reused"] == 0 for c in exact["chunks"])


def test_damaged_copies_are_computed_again(demo, tmp_path):
    out, store = demo
    broken = tmp_path / "kv"
    shutil.copytree(store, broken)
    for (space, *_), (*_, line) in copies(broken, PLAIN).items():
        flip(broken / space / "index", line * LINE + 80)  # its line does not count any more
    whole, _ = ask(out, broken)
    there = copies(broken)
    in_layers = set()
    for i, (name, (segment, page, head_pages, _)) in enumerate(there.items()):
        # every second copy in its header, the others in their keys and values
        flip(broken / name[0] / f"{segment:08x}.kv", (page + (head_pages if i % 2 else 0)) * 4096 + 100)
        in_layers |= {name} if i % 2 else set()
    answer, said = ask(out, broken)
    assert all(c["reused"] == 0 for c in answer["chunks"])
    assert len(answer["chunks"]) == len(whole["chunks"])
    # headers are read when the store is opened, layers when a chunk is used
    assert len(there) - len(in_layers) < said.count("not used: ") <= len(there) - len(in_layers) + len(answer["chunks"])
    # keys and values are verified when they are loaded, so some damage was not seen yet
    unseen = in_layers & set(copies(broken))
    assert index(ROOT / "demo/docs", out, "--store", broken, fuse=4)["fused"] == 60 - len(unseen)
    healed, said = ask(out, broken)
    assert "not used" not in said
    assert healed["text"] == whole["text"]
    assert all(c["from"] == "disk" for c in healed["chunks"])


def test_only_changed_neighbourhoods_are_fused_again(docs, tmp_path):
    out = tmp_path / "x.db"
    options = "--similar", "neighbour"
    first = index(docs, out, *options)
    n = first["chunks"]
    assert first["fused"] == n >= 12
    with (docs / "Velm.md").open("a") as f:
        f.write("## harbour\n\nThe harbour of Velm is new.\n")
    second = index(docs, out, *options)
    assert second["chunks"] == n + 1
    # three neighbours: the new chunk, and those at the end that have it among theirs now
    assert 2 <= second["fused"] <= 4
    assert second["unchanged"] == n + 1 - second["fused"]
    (docs / "Torin.md").unlink()
    third = index(docs, out, *options)
    assert third["fused"] == 0
    assert third["removed"] == 2 * (n + 1 - third["chunks"])  # fused and plain
    assert len(copies(tmp_path / "x.db.kv")) == third["chunks"]


def test_an_added_document_changes_its_neighbourhood(docs, tmp_path):
    out = tmp_path / "x.db"
    n = index(docs, out, fuse=2)["chunks"]
    (docs / "Zorn.md").write_text("# Zorn\n\nGlaciers, ptarmigan, gentian, edelweiss, chamois.\n")
    added = index(docs, out, fuse=2)
    assert added["fused"] + added["unchanged"] + added["alone"] == n + 1
    assert added["fused"] < n / 2
    assert added["alone"] <= 1


def test_chunks_that_say_the_same_share_a_copy(docs, tmp_path):
    shutil.copy(docs / "Velm.md", docs / "Wave.md")
    first = index(docs, tmp_path / "x.db", "--similar", "neighbour")
    assert first["duplicates"] > 0
    assert first["fused"] + first["duplicates"] == first["chunks"]
    assert index(docs, tmp_path / "x.db", "--similar", "neighbour")["fused"] == 0


def test_what_fits_the_context(docs, tmp_path):
    done = run("index", docs, "-o", tmp_path / "x.db", "--precompute", "-m", MODEL, "--fuse", "9",
               "-c", "120", "-t", "1", "--json")
    assert done.returncode == 0, done.stderr
    store = json.loads(done.stdout.splitlines()[1])
    assert done.stderr.count("fit into the context of 120 tokens") == 1
    assert store["fused"] > 0 and store["similar"] < 9 * store["fused"]


def test_a_store_of_others_is_not_swept(demo, docs, tmp_path):
    foreign = tmp_path / "kv"
    shutil.copytree(demo[1], foreign)
    store = index(docs, tmp_path / "x.db", "--store", foreign)
    assert store["removed"] == 0
    assert len(copies(foreign)) == 60 + store["fused"]
    own = index(docs, tmp_path / "x.db")
    assert own["store"] == str(tmp_path / "x.db.kv") and own["fused"] == store["fused"]
    (docs / "Velm.md").unlink()
    assert index(docs, tmp_path / "x", "--store", own["store"])["removed"] == 0  # its path begins the owner's


def test_what_another_kv_type_keeps_stays(docs, tmp_path):
    out, store = tmp_path / "x.db", tmp_path / "x.db.kv"
    n = index(docs, out)["fused"]
    assert index(docs, out, "-ctk", "q8_0")["fused"] == n and len(copies(store)) == 2 * n
    (docs / "Velm.md").unlink()
    assert index(docs, out, "--similar", "neighbour")["removed"] == 2 * (n // 3)
    assert len(copies(store)) == 2 * n - n // 3


def test_search_shows_what_is_fused(docs, tmp_path):
    succeed("index", docs, "-o", tmp_path / "x.db", "--json")
    options = "search", "--index", tmp_path / "x.db", "--json", "-k", "3", "--like"
    like = json.loads(succeed(*options, "2"))
    assert len(like) == 3 and all(h["id"] != 2 for h in like)
    beside = json.loads(succeed(*options, "2", "--similar", "neighbour"))
    assert [h["id"] for h in beside] == [1, 3, 4]
    refuse(*options, "9999", naming=["9999"])
    refuse(*options, "2", "--similar", "magic", naming=["--similar must be bm25"], code=2)
    assert run(*options, "2", "a question").returncode == 2


def test_chunks_that_the_same_questions_find(docs, tmp_path):
    """What users asked says which chunks are read together: lines of text, lines of JSON; nothing of it stays in the index."""
    index_file, asked = tmp_path / "x.db", tmp_path / "asked.jsonl"
    succeed("index", docs, "-o", index_file, "--json")
    search = "search", "--index", index_file, "--json"
    first, *others = [h["id"] for h in json.loads(succeed(*search, "What is in the north?", "-k", 8))]
    asked.write_text("What is in the north?\n\n" + json.dumps({"question": "The north of Velm, and hotels?", "id": 1}) + "\n")
    like = search + ("--like", first, "--similar", "together", "--asked")
    before = index_file.read_bytes()
    together = json.loads(succeed(*like, asked, "-k", 20))
    assert index_file.read_bytes() == before
    assert set(others) < {h["id"] for h in together} and first not in [h["id"] for h in together]
    assert {h["score"] for h in together} == {2, 1}
    fuse = "index", "-o", index_file, docs, "--precompute", "-m", MODEL, "--fuse", 1, "--json", "--similar", "together"
    done = json.loads(succeed(*fuse, "--asked", asked).splitlines()[-1])
    assert done["similar"] == done["fused"] > 0
    refuse(*fuse, naming=["--asked"], code=2)
    refuse(*search, "--like", first, "--asked", asked, naming=["--similar together"], code=2)
    asked.write_text('{"query": "Who?"}\n')
    refuse(*like, asked, naming=["asked.jsonl:1", "question"])
    asked.write_text('Who?\n{"question": "Who?"\n')
    refuse(*like, asked, naming=["asked.jsonl:2", "'}' expected"])
    refuse(*like, tmp_path / "none", naming=["none"])


def test_interrupted_and_gone_on(tmp_path):
    args = ["index", ROOT / "demo/docs", "-o", tmp_path / "x.db", "--precompute", "-m", MODEL,
            "--fuse", "4", "-t", "1", "--json"]
    store = tmp_path / "x.db.kv"
    for _ in range(20):  # all may be over before Ctrl-C is heard
        p = subprocess.Popen([PROGRAM, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while p.poll() is None and not copies(store):
            time.sleep(0.001)
        p.send_signal(signal.SIGINT)
        out, said = p.communicate(timeout=300)
        if p.returncode:
            break
        shutil.rmtree(store)
    assert p.returncode == 1 and "continues from there" in said
    part = json.loads(out.splitlines()[1])
    assert not part["complete"] and 0 < part["fused"] == len(copies(store)) < 60
    rest = index(ROOT / "demo/docs", tmp_path / "x.db", fuse=4)
    assert rest["fused"] == 60 - part["fused"] and rest["unchanged"] == part["fused"]


def test_progress_counts_tokens_from_the_first_moment(tmp_path):
    """The first chunk takes long: its similar chunks get plain copies. Ctrl-C ends it within a layer."""
    t = Terminal("index", ROOT / "demo/docs", "-o", tmp_path / "x.db", "--precompute", "-m", MODEL, "-t", "1",
                 SPOLIA_CPU="ref")
    try:
        t.until(r"[1-9]\d*/\d+ tokens  0/60 chunks")
        t.until(r" [3-9]/60 chunks")
        frames = re.findall(r"(\d+)/(\d+) tokens  (\d+)/60 chunks  .*?  (\?|\d+:\d\d:\d\d) left", t.all)
        done = [int(frame[0]) for frame in frames]
        assert done == sorted(done) and len(set(done)) > 2 and {frame[1] for frame in frames} == {frames[0][1]}
        assert all(frame[3] != "0:00:00" for frame in frames), "it is not nearly done"
        t.type("\x03")
        assert "continues from there" in t.until("continues from there")
        assert t.program.wait(300) == 1
    finally:
        t.close()


def test_a_restart_finds_all_of_it(demo):
    """No flag but the store's: each policy that reuses chunks anywhere takes them from disk."""
    for policy in ("full", "fusion", "blend", "random", "flow", "craft"):
        done = run("ask", "-m", MODEL, "--index", demo[0], "--store", demo[1], "--reuse", policy, "-t", "1", "-n", "2",
                   "--recompute", "0.2", "--json", QUESTION)
        account = json.loads(done.stdout)
        assert [c["from"] for c in account["chunks"]] == ["disk"] * 8, (policy, done.stderr)
        assert account["usage"]["recomputed_tokens"] > 0 or policy == "full"


def test_size_is_known_before(docs, tmp_path):
    out = tmp_path / "x.db"
    options = "index", docs, "-o", out, "--precompute", "-m", MODEL, "--fuse", "3", "-t", "1"
    refuse(*options, "-q", "--store-max", "300K", naming=["--store-max", "KiB", "nothing was computed"])
    assert copies(tmp_path / "x.db.kv") == {}
    done = run(*options, "--json", "--store-max", "8M")
    store = json.loads(done.stdout.splitlines()[1])
    assert 0 < store["bytes"] <= store["bytes_expected"] < 7 << 20
    assert " tokens take " in done.stderr and " are free" in done.stderr
    assert "0 bytes of it new" in run(*options).stderr
    refuse(*options, "-q", "--store-max", f"{store['bytes_expected'] // 1024 + 1}K", naming=["--store-max", "nothing was"])  # no room to move
    refuse(*options, "--store-max", "much", naming=["--store-max", "much", "such as 500M"], code=2)


def test_refusals(docs, tmp_path):
    start = "index", docs, "-o", tmp_path / "x.db", "--precompute"
    refuse(*start, naming=["model"], code=2)
    refuse(*start, "-m", MODEL, "--fuse", "-1", naming=["--fuse"], code=2)
    refuse(*start, "-q", "-m", MODEL, "--similar", "magic", naming=["--similar must be bm25"], code=2)
    refuse(*start, "-m", tmp_path / "none.gguf", naming=["none.gguf"])
    (tmp_path / "file").write_text("x")
    refuse(*start, "-m", MODEL, "--store", tmp_path / "file", naming=[tmp_path / "file"])


def test_separators_make_chunks(tmp_path):
    """`run --separator`: the same chunks in another order give other segments, and a whole text."""
    text = "Answer.\n# #\nVelm has boats.\n# #\nTorin has hotels.\n# #\nWhat has Velm?"
    for separator, kinds in (("\n# #\n", ["text", "chunk", "chunk", "text"]), (None, ["text"])):
        options = ["--separator", separator] if separator else []
        out = succeed("run", "-m", MODEL, "-p", text, "-n", "2", "-t", "1", "--json", *options)
        assert [s["kind"] for s in json.loads(out)["segments"]] == kinds


def test_plain_copies_take_what_is_said_and_no_more(tmp_path):
    """--fuse 0 makes one copy of a chunk: size, room and what is new are of that one."""
    options = ("index", ROOT / "demo/docs", "-o", tmp_path / "x.db", "--precompute", "-m", MODEL, "--fuse", "0", "--json")
    done = run(*options)
    store = json.loads(done.stdout.splitlines()[1])
    assert store["bytes_expected"] * 0.7 < store["bytes"] <= store["bytes_expected"], store
    assert (store["fused"], store["alone"]) == (60, 0)
    assert "(a copy of" in done.stderr
    again = run(*options)
    assert " 0 bytes of it new" in again.stderr, again.stderr
    fused = json.loads(run(*options[:-2], "1", "--json").stdout.splitlines()[1])
    assert fused["bytes_expected"] > 1.8 * store["bytes_expected"]
