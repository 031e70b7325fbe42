"""Copies of collections that are computed while nobody asks: what is retrieved most first, and never in a request's way."""
import sqlite3
import threading
import time

from test_server import Server, chat, start  # noqa: F401 (a fixture)
from test_server_documents import send
from test_server_uploads import of, told

WORDS = "boat harbour quay sail rope anchor tide storm lamp keeper ferry island winter summer north captain".split()


def passage(n):
    """One chunk of about a hundred words; no two are alike."""
    return f"Entry {n} of the log. " + " ".join(f"{WORDS[(n * 7 + k * (3 + n % 5)) % len(WORDS)]} {n * 100 + k}" for k in range(60)) + "."


def fill(server, name, n):
    assert send(server, "POST", "/v1/collections", {"name": name})[0] == 201
    for i in range(n):
        assert send(server, "POST", f"/v1/collections/{name}/documents", {"id": f"p{i:02}", "text": passage(i)})[0] == 201


def wait(condition, seconds=60):
    end = time.time() + seconds
    while not condition():
        assert time.time() < end
        time.sleep(0.05)


def with_copies(server, name, n):
    return [f"p{i:02}" for i in range(n)
            if send(server, "GET", f"/v1/collections/{name}/documents/p{i:02}")[1]["copies"]["device"]]


def test_the_first_question_finds_its_passages(start, tmp_path):  # noqa: F811
    """Of a folder, after the server has started; without idle time for it, they are computed for the question."""
    (tmp_path / "docs").mkdir()
    for i in range(6):
        (tmp_path / "docs" / f"p{i}.txt").write_text(passage(i))
    for share, source in ((0.5, "memory"), (0, "")):
        s = start("--reuse", "full", "--collection", f"docs={tmp_path / 'docs'}", "--idle-copies", share)
        if share:
            wait(lambda: of(s, "docs")["ahead"] == {"passages": 6, "done": 6})  # noqa: B023
            assert s.metric("collection_copies_computed_total") == 6 == s.metric("collection_passages_done")
            assert s.metric("collection_copies_seconds_total") > 0
        account = told(s, "Entry 3 of the log?", collection="docs", top_k=3)
        assert [d["from"] for d in account["documents"]] == [source] * 3
        assert of(s, "docs")["retrieved"] == 3
        assert s.stop() == 0
    s = start("--reuse", "prefix", "--collection", f"docs={tmp_path / 'docs'}")  # which uses no such copies
    time.sleep(1.5)
    assert of(s, "docs")["ahead"] == {"passages": 0, "done": 0} and s.metric("collection_copies_computed_total") == 0


def test_what_is_retrieved_most_comes_first(start, tmp_path):  # noqa: F811
    """There is room for few: after a restart without their copies, those that were asked for have some. The counts are kept."""
    keep = ("--documents", tmp_path / "documents.db", "--reuse", "full")
    s = start(*keep, "--idle-copies", 0)
    fill(s, "log", 20)
    asked = []
    for i in (17, 11, 17, 14, 11, 17):
        asked += [d["id"] for d in told(s, f"Entry {i} of the log {i}05?", collection="log", top_k=1)["documents"]]
    counts = sorted(set(asked), key=lambda d: -asked.count(d))
    assert len(counts) == 3 and of(s, "log")["retrieved"] == 6, asked
    tokens = sum(send(s, "GET", f"/v1/collections/log/documents/{d}")[1]["tokens"] for d in counts)
    room = (tokens - 10) / (16 * s.metric("kv_blocks"))  # for these three
    assert s.stop() == 0
    with sqlite3.connect(tmp_path / "documents.db") as db:
        assert sorted(n for (n,) in db.execute("SELECT n FROM retrieved")) == [1, 2, 3]
    s = start(*keep, "--idle-copies", f"{room:.9f}")
    wait(lambda: s.metric("collection_passages_done") == s.metric("collection_passages_planned") > 2)
    time.sleep(0.5)
    assert with_copies(s, "log", 20) == sorted(counts)


def test_it_gives_way_to_requests(start, tmp_path):  # noqa: F811
    """A request that comes stops it, is not slowed, and the rest is computed afterwards."""
    s = start("--documents", tmp_path / "documents.db", "--reuse", "full")
    n = 30
    threading.Thread(target=fill, args=(s, "log", n)).start()
    answers = 0
    while of(s, "log").get("documents", 0) < n:
        told(s, f"Entry {answers} of the log?", documents=[{"text": "Something else that was never seen " * 20 + str(answers)}])
        answers += 1
    assert answers >= 3 and s.metric("collection_copies_given_up_total") >= 0
    wait(lambda: of(s, "log")["ahead"] == {"passages": n, "done": n})
    assert len(with_copies(s, "log", n)) == n
    assert s.metric("num_requests_running") == 0


def test_a_deleted_passage_gets_no_copy(start, tmp_path):  # noqa: F811
    s = start("--documents", tmp_path / "documents.db", "--reuse", "full")
    fill(s, "log", 8)
    wait(lambda: of(s, "log")["ahead"]["done"] == 8)
    for i in range(8):
        assert send(s, "DELETE", f"/v1/collections/log/documents/p{i:02}")[1]["deleted"]
    status, o = s.call("/v1/chat/completions", chat("x", documents=[{"text": passage(3)}]))
    assert status == 200 and o["spolia"]["documents"][0]["missed"] == "never seen"
    assert send(s, "POST", "/v1/collections/log/documents", {"id": "new", "text": passage(9)})[0] == 201
    wait(lambda: of(s, "log")["ahead"] == {"passages": 1, "done": 1})
    assert send(s, "DELETE", "/v1/collections/log")[1]["deleted"]
    assert send(s, "POST", "/v1/collections", {"name": "other"})[0] == 201
    assert send(s, "POST", "/v1/collections/other/documents", {"text": passage(10)})[0] == 201
    wait(lambda: s.metric("collection_passages_planned") == 1 == s.metric("collection_passages_done"))


def test_a_key_begins_its_own(start, tmp_path):  # noqa: F811
    """Copies are of one key: they are computed once it has used the collection, and serve no other."""
    (tmp_path / "keys").write_text("red\nblue\n")
    (tmp_path / "docs").mkdir()
    for i in range(4):
        (tmp_path / "docs" / f"p{i}.txt").write_text(passage(i))
    s = start("--api-keys", tmp_path / "keys", "--reuse", "full", "--collection", f"docs={tmp_path / 'docs'}")
    told(s, "Entry 0?", "red", collection="docs", top_k=1)
    wait(lambda: of(s, "docs", "red")["ahead"] == {"passages": 4, "done": 4})
    assert of(s, "docs", "blue")["ahead"] == {"passages": 0, "done": 0}
    assert told(s, "Entry 2 of the log?", "red", collection="docs", top_k=2)["documents"][0]["from"] == "memory"
    assert told(s, "Entry 2 of the log?", "blue", collection="docs", top_k=2)["documents"][0]["missed"] == "never seen"
