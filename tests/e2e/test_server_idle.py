"""Copies of collections that are computed while nobody asks: what is retrieved most first, and never in a request's way."""
import sqlite3
import time

from conftest import succeed
from serving import busy, chat
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


def wait(condition, seconds=300):
    end = time.time() + seconds
    while not condition():
        assert time.time() < end
        time.sleep(0.05)


def with_copies(server, name, n):
    return [f"p{i:02}" for i in range(n)
            if send(server, "GET", f"/v1/collections/{name}/documents/p{i:02}")[1]["copies"]["device"]]


def test_the_first_question_finds_its_passages(start, tmp_path):
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


def test_what_is_retrieved_most_comes_first(start, tmp_path):
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


def test_it_gives_way_to_requests(start, tmp_path):
    """While an answer is generated, no copy is made: at most the one that was at its last layer. Then the rest is made."""
    (tmp_path / "docs").mkdir()
    n = 150
    for i in range(n):  # short ones: what a tenth of the time computes would be many
        (tmp_path / "docs" / f"p{i:03}.txt").write_text(passage(i)[:120])
    n_computed = lambda s: s.metric("collection_copies_computed_total")  # noqa: E731
    for _ in range(20):  # on a busy machine the round may be over before a request comes
        s = start("--reuse", "full", "--collection", f"docs={tmp_path / 'docs'}", "--idle-copies", 0.9, "--parallel", 1)
        computed, i = 0, 0
        while computed < n and i < 3:  # in the middle of the round: a request stops it, the end of one lets it go on
            wait(lambda: n_computed(s) > computed)  # noqa: B023
            with busy(s):
                before = n_computed(s)
                wait(lambda: sum(r["generated"] for r in s.call("/v1/requests")[1]["data"]) > 1000)  # noqa: B023
                computed = n_computed(s)
            assert computed - before <= 1, (before, computed)
            i += 1
        if i > 1:
            break
        assert s.stop() == 0
    assert i > 1, "the round was over before a request came"
    wait(lambda: of(s, "docs")["ahead"] == {"passages": n, "done": n})
    assert s.metric("collection_copies_computed_total") == n and s.metric("num_requests_running") == 0


def test_a_deleted_passage_gets_no_copy(start, tmp_path):
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


def test_others_do_not_wait_for_an_index_that_is_damaged(start, tmp_path):
    (tmp_path / "a.txt").write_text(passage(1))
    index = tmp_path / "docs.db"
    succeed("index", tmp_path / "a.txt", "-o", index, "--quiet")
    s = start("--documents", tmp_path / "documents.db", "--reuse", "full", "--collection", f"docs={index}")
    wait(lambda: of(s, "docs")["ahead"] == {"passages": 1, "done": 1})
    index.write_bytes(b"x" * index.stat().st_size)
    assert s.call("/v1/search", {"query": "Entry 1 of the log?", "collection": "docs"})[0] >= 500
    fill(s, "log", 3)
    wait(lambda: of(s, "log")["ahead"] == {"passages": 3, "done": 3}, 120)


def test_a_passage_that_is_deleted_before_its_turn_gets_no_copy(start, tmp_path):
    """Deletions amid a round, of passages that it has planned: no text of them is found afterwards."""
    s = start("--documents", tmp_path / "documents.db", "--reuse", "full", "--idle-copies", 0.9)
    fill(s, "log", 60)
    s.wait_for("collection_copies_computed_total", least=1)
    gone = range(3, 60, 4)
    for i in reversed(gone):
        assert send(s, "DELETE", f"/v1/collections/log/documents/p{i:02}")[1]["deleted"]
    wait(lambda: of(s, "log")["ahead"]["done"] >= 60 - len(gone))
    for i in gone:
        status, o = s.call("/v1/chat/completions", chat("x", max_tokens=1, documents=[{"text": passage(i)}]))
        assert status == 200 and o["spolia"]["documents"][0]["missed"] == "never seen", (i, o["spolia"])


def test_a_key_begins_its_own(start, tmp_path):
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
