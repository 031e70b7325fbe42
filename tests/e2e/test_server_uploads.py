"""`/v1/collections`: created over HTTP, filled, filtered, searched by words and meaning, kept by a restart, erased."""
import base64
import sqlite3
import subprocess
import threading
import time
from concurrent import futures

import pytest
from serving import MODEL, PROGRAM, Server, busy, chat
from test_server_documents import files_with, send

from reference import encoder

TEXTS = {"harbour": ("The harbour of Velm was built in 1870 by the town, of grey stone. It has room for forty boats.", ["velm", "sea"]),
         "light": ("The lighthouse of Velm is kept by Anna Berg, who came by boat in the spring of 1931.", ["velm"]),
         "hotels": ("Torin has two hotels, the Swan and the Anchor, and neither of them is open in winter.", ["torin"]),
         "ferry": ("The ferry to Torin leaves Velm at nine in the morning, in summer it leaves twice a day.", ["torin", "sea"])}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return encoder.write_folder(tmp_path_factory.mktemp("encoder") / "tiny-encoder", longest=32)


def make(server, name, texts=None, key=None, **more):
    status, o = send(server, "POST", "/v1/collections", {"name": name, **more}, key)
    assert status == 201 and o["documents"] == 0 and o["writable"], o
    for doc, (text, tags) in (TEXTS if texts is None else texts).items():
        status, o = send(server, "POST", f"/v1/collections/{name}/documents", {"id": doc, "text": text, "tags": tags, **more}, key)
        assert status == 201 and o["collection"] == name and o["id"] == doc and o["tags"] == tags, o


def found(server, query, key=None, status=200, **more):
    got, o = send(server, "POST", "/v1/search", {"query": query, **more}, key)
    assert got == status, o
    return [h["document"] for h in o["data"]] if status == 200 else o["error"]


def told(server, question, key=None, **more):
    status, o = server.call("/v1/chat/completions", chat(question, **more), key)
    assert status == 200, o
    return o["spolia"]


def of(server, name, key=None):
    return send(server, "GET", f"/v1/collections/{name}", key=key)[1]


@pytest.fixture(scope="module")
def server(tiny, tmp_path_factory):
    home = tmp_path_factory.mktemp("collections")
    (home / "docs").mkdir()
    (home / "docs/note.md").write_text("# Note\n\nThe mill of Velm burnt down in 1902.\n")
    with Server("--reuse", "full", "--store", home / "store", "--embedding", tiny, "--collection", f"files={home / 'docs'}") as s:
        s.folder = home / "store"
        make(s, "manual")
        yield s


# -- the list ---------------------------------------------------------------------------------------------------------------


def test_the_list_says_what_is_there(server):
    data = {c["name"]: c for c in send(server, "GET", "/v1/collections")[1]["data"]}
    files, manual = data["files"], data["manual"]
    assert (files["documents"], files["chunks"], files["embedded"], files["writable"]) == (1, 1, 1, False)
    assert files["bytes"] == len("# Note\n\nThe mill of Velm burnt down in 1902.\n")
    assert (manual["documents"], manual["chunks"], manual["embedded"], manual["writable"]) == (4, 4, 4, True)
    assert manual["bytes"] == sum(len(t) for t, _ in TEXTS.values())
    assert manual["embedding"] == "tiny-encoder" and manual["rerank"] == MODEL.name
    listed = send(server, "GET", "/v1/collections/manual/documents")[1]["data"]
    assert [d["id"] for d in listed] == sorted(TEXTS) and listed[0]["tags"] == TEXTS["ferry"][1]
    page = send(server, "GET", "/v1/collections/manual/documents?after=ferry&limit=2")[1]
    assert [d["id"] for d in page["data"]] == ["harbour", "hotels"] and page["has_more"]
    page = send(server, "GET", "/v1/collections/manual/documents?after=harbour&limit=2")[1]
    assert len(page["data"]) == 2 and not page["has_more"]
    assert send(server, "GET", "/v1/collections/manual/documents?limit=2x")[0] == 400
    assert send(server, "GET", "/v1/documents")[1]["data"] == [] and found(server, "Velm") == []  # they are not outside


def test_documents_of_a_collection_are_documents(server):
    """Title, life time, pins and copies are as with /v1/documents."""
    make(server, "lively", {"a": ("Boats are painted in April, before the fishing begins again.", [])})
    path = "/v1/collections/lively/documents/a"
    assert send(server, "POST", "/v1/collections/lively/documents", {"id": "a", "text": "x"})[0] == 409
    assert send(server, "PATCH", path, {"pinned": True})[1]["pinned"]
    assert send(server, "POST", path + "/precompute", {})[0] == 202
    end = time.time() + 300
    while send(server, "GET", path)[1]["copies"]["device"] != 1:
        assert time.time() < end
        time.sleep(0.05)
    assert told(server, "When are boats painted?", collection="lively")["documents"][0]["from"] == "memory"
    o = send(server, "PUT", path, {"text": "Boats are painted in May, for the paint must dry."})[1]
    assert o["chunks"] == 1 and of(server, "lively")["documents"] == 1 and of(server, "lively")["embedded"] == 1
    assert found(server, "painted in April", collection="lively", by="words", top_k=1) == ["a"]
    assert told(server, "When?", documents=[{"id": "lively/a"}])["documents"][0]["id"] == "lively/a"
    send(server, "PATCH", path, {"ttl_seconds": 1})
    while found(server, "boats", collection="lively"):
        assert time.time() < end
        time.sleep(0.2)
    assert of(server, "lively")["documents"] == 0


def test_a_file_is_uploaded_by_a_form(server):
    send(server, "POST", "/v1/collections", {"name": "forms"})
    form = (b"--seam\r\nContent-Disposition: form-data; name=\"tags\"\r\n\r\nold, sea\r\n--seam\r\nContent-Disposition: form-data; name=\"file\"; "
            b"filename=\"guide/velm.md\"\r\n\r\n# Guide\n\nThe lighthouse has 212 steps.\n\r\n--seam--\r\n")
    status, o = send(server, "POST", "/v1/collections/forms/documents", form, headers={"Content-Type": "multipart/form-data; boundary=seam"})
    assert status == 201 and o["file"] == "guide/velm.md" and o["tags"] == ["old", "sea"] and o["title"] == "Guide", o
    assert o["id"].startswith("doc-")
    assert found(server, "How many steps?", collection="forms", filter={"file": "guide"}) == [o["id"]]
    assert found(server, "How many steps?", collection="forms", filter={"file": "guid"}) == []
    assert found(server, "How many steps?", collection="forms", filter={"tag": ["new", "old"]}) == [o["id"]]
    assert found(server, "How many steps?", collection="forms", filter={"tag": "ol"}) == []


def test_a_form_has_one_file(server):
    """Two are not one document with the name of the first."""
    part = b"--seam\r\nContent-Disposition: form-data; name=\"file\"; filename=\"%s.txt\"\r\n\r\n%s\r\n"
    form = part % (b"a", b"The ferry sails at dawn.") + part % (b"b", b"The mill is for sale.") + b"--seam--\r\n"
    status, o = send(server, "POST", "/v1/documents", form, headers={"Content-Type": "multipart/form-data; boundary=seam"})
    assert status == 400 and o["error"]["param"] == "file" and "one document at a time" in o["error"]["message"], o
    assert send(server, "GET", "/v1/documents")[1]["data"] == []


def test_a_long_document_has_all_its_vectors(server):
    """They are made for 128 chunks at a time."""
    for n in (128, 130):
        send(server, "POST", "/v1/collections", {"name": f"long-{n}"})
        text = "".join(f"# Part {i}\n\nBoat {i} is grey.\n\n" for i in range(n))
        text = base64.b64encode(text.encode()).decode()
        status, o = send(server, "POST", f"/v1/collections/long-{n}/documents", {"id": "a", "file": {"name": "a.md", "data": text}})
        assert status == 201, o
        assert of(server, f"long-{n}")["embedded"] == n
        assert len(found(server, "boat", collection=f"long-{n}", by="vectors", top_k=200)) == n


# -- searches ---------------------------------------------------------------------------------------------------------------


def test_a_chat_is_answered_from_an_uploaded_collection(server):
    first = told(server, "Who keeps the lighthouse of Velm?", collection="manual", top_k=2)
    assert "light" in [d["id"] for d in first["documents"]] and first["retrieval"]["collection"] == "manual"
    again = told(server, "Since when is the lighthouse of Velm kept?", collection="manual", top_k=2)
    assert any(d["from"] for d in again["documents"])
    named = server.client().chat.completions.create(model=f"manual@{MODEL.name}", max_tokens=2, messages=[
        {"role": "user", "content": "Which hotels has Torin?"}])
    assert "hotels" in [d["id"] for d in named.spolia["documents"]]
    assert f"manual@{MODEL.name}" in [m.id for m in server.client().models.list()]


def test_a_ranking_of_many_finds_a_thousand_at_most(server):
    make(server, "many", {f"n{i}": (f"mill {i}", []) for i in range(300)})
    few, many = (told(server, "mill", collection="many", top_k=k, rerank=True, max_tokens=1)["retrieval"] for k in (70, 251))
    assert (few["ranked"], few["found"]) == (280, 70) and (many["ranked"], many["found"]) == (300, 251)


@pytest.mark.parametrize("by", ("words", "vectors", "hybrid"))
def test_filters_hold_before_the_best_are_chosen(server, by):
    """The only document that a filter leaves is found, however many others match better."""
    if of(server, "crowd").get("error"):
        crowd = {f"n{i:03}": (f"Velm harbour boats velm harbour number {i}.", ["crowd"]) for i in range(150)}
        make(server, "crowd", {**crowd, "zz": ("A mill that nobody asks for, far from Velm, among the fields of the north.", ["rare"])})
    question = {"query": "Velm harbour boats", "collection": "crowd", "by": by}  # by words, all others match better
    everything = found(server, **question, top_k=200)
    assert len(everything) == 151 and (by != "words" or everything[-1] == "zz")
    for given in ({"tag": "rare"}, {"file": "zz"}, {"file": ["none", "zz"], "tag": ["x", "rare"]},
                  {"type": "eq", "key": "tag", "value": "rare"},
                  {"type": "and", "filters": [{"type": "in", "key": "file", "value": ["zz", "n001"]}, {"type": "eq", "key": "tag", "value": "rare"}]}):
        assert found(server, **question, top_k=1, filter=given) == ["zz"], given
        assert found(server, **question, top_k=1, filters=given) == ["zz"], given
    assert found(server, **question, filter={"file": "zz", "tag": "crowd"}) == []
    some = [f"n{i:03}" for i in range(0, 150, 7)]
    among = found(server, **question, top_k=200, filter={"file": some})
    assert sorted(among) == some and among == [d for d in everything if d in some]  # nothing is lost, and the order is kept


def test_a_chat_is_filtered(server):
    for given in ({"collection": "manual", "filter": {"tag": "torin"}}, {"collection": {"name": "manual", "filter": {"tag": "torin"}}},
                  {"model": "manual@m", "filter": {"tag": "torin"}}):
        assert {d["id"] for d in told(server, "Who keeps the lighthouse of Velm?", **given)["documents"]} == {"hotels", "ferry"}
    assert [d["id"] for d in told(server, "The mill?", collection="files", filter={"file": "note.md"})["documents"]] == ["note.md"]
    assert told(server, "The mill?", collection="files", filter={"file": "other.md"})["documents"] == []
    for field in ("filter", "filters"):  # an answer from nothing is not the one that was asked for
        status, o = server.call("/v1/chat/completions", {"messages": [{"role": "user", "content": "The mill?"}], field: {"tag": "x"}})
        assert status == 400 and o["error"]["param"] == "filter" and "collection" in o["error"]["message"], o


# -- what is wrong ----------------------------------------------------------------------------------------------------------


def test_what_is_wrong_is_named(server):
    create = lambda body: send(server, "POST", "/v1/collections", body)  # noqa: E731
    for name in ("", "a/b", "a b", "x" * 65, "\u00e4"):
        assert create({"name": name})[0] == 400, name
    assert create({})[1]["error"]["param"] == "name"
    assert create({"name": "manual"})[1]["error"]["code"] == "collection_exists"
    assert create({"name": "files"})[1]["error"]["code"] == "collection_exists"
    put = lambda body, name="manual": send(server, "POST", f"/v1/collections/{name}/documents", body)  # noqa: E731
    assert put({"text": "x"}, "none")[1]["error"]["code"] == "collection_not_found"
    assert put({"text": "x"}, "files")[1]["error"]["code"] == "collection_read_only"
    assert send(server, "DELETE", "/v1/collections/files")[1]["error"]["code"] == "collection_read_only"
    assert send(server, "DELETE", "/v1/collections/none")[0] == 404
    for method, path in [("GET", ""), ("GET", "/x"), ("DELETE", "/x"), ("POST", "/x/precompute"), ("PUT", "/x")]:
        body = {"text": "x"} if method in ("PUT", "POST") else None
        status, answer = send(server, method, f"/v1/collections/none/documents{path}", body)
        assert status == 404 and answer["error"]["code"] == "collection_not_found", (method, path)
    assert send(server, "GET", "/v1/collections/manual/nothing")[0] == 404
    assert send(server, "DELETE", "/v1/collections/manual/documents/none")[1]["error"]["code"] == "document_not_found"
    assert put({"id": "a/b", "text": "x"})[0] == 400 and put({"text": " "})[0] == 400 and put({})[1]["error"]["param"] == "text"
    assert put({"text": "x", "tags": "a\nb"})[0] == 400
    assert put({"text": "x", "tags": ["t"] * 17})[1]["error"]["param"] == "tags"
    assert put({"text": "x", "tags": [3]})[1]["error"]["param"] == "tags"
    error = put({"text": "x", "tags": ["t" * 65]})[1]["error"]
    assert error["param"] == "tags" and "64" in error["message"]
    assert put({"file": {"name": "a.exe", "data": "AAAA"}})[0] == 400
    assert put({"file": {"name": "a.pdf", "data": "AAAA"}})[0] == 400
    assert send(server, "POST", "/v1/documents", {"text": "x", "tags": ["a"]})[0] == 400
    for given in (3, {"file": 3}, {"tag": []}, {"year": "x"}, {"type": "or", "filters": []}, {"type": "eq", "key": "x", "value": "y"},
                  {"type": "and", "filters": [{"type": "eq", "key": "tag", "value": "a"}] * 2}, {"file": ["x"] * 65}):
        assert found(server, "x", status=400, collection="manual", filter=given)["param"] == "filter", given
    assert found(server, "mill", collection="files", filter={"tag": "a"}) == []  # a folder without .tags
    assert of(server, "manual")["documents"] == 4


def test_the_uploads_of_a_key_are_counted_and_its_own(start, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("# limits: documents=3 bytes=300\nred\nblue\n")
    s = start("--api-keys", keys, "--store", tmp_path / "store")
    assert send(s, "GET", "/v1/collections")[0] == 401 and send(s, "DELETE", "/v1/collections/a")[0] == 401
    make(s, "mine", {"a": ("Ships at sea.", [])}, "red")
    make(s, "mine", {"b": ("Trains on land.", [])}, "blue")
    assert found(s, "ships", "red", collection="mine") == ["a"] and found(s, "ships", "blue", collection="mine") == []
    assert [c["name"] for c in send(s, "GET", "/v1/collections", key="blue")[1]["data"]] == ["mine"]
    make(s, "other", {"c": ("Planes.", [])}, "red")
    assert found(s, "x", "blue", 400, collection="other")["param"] == "collection"
    assert send(s, "DELETE", "/v1/collections/other", key="blue")[0] == 404
    assert send(s, "GET", "/v1/collections/mine/documents/a", key="blue")[0] == 404
    assert send(s, "POST", "/v1/documents", {"id": "d", "text": "Trams."}, "red")[0] == 201
    status, o = send(s, "POST", "/v1/collections/mine/documents", {"text": "One more."}, "red")
    assert status == 429 and o["error"]["code"] == "insufficient_quota", o
    assert send(s, "PUT", "/v1/collections/mine/documents/a", {"text": "Ships at rest."}, "red")[0] == 201
    assert send(s, "PUT", "/v1/collections/mine/documents/a", {"text": "x" * 280}, "red")[0] == 201  # instead of those bytes
    assert send(s, "PUT", "/v1/collections/mine/documents/a", {"text": "x" * 400}, "red")[0] == 429
    assert send(s, "POST", "/v1/collections", {"name": "s", "cache_salt": "x"}, "red")[0] == 400
    make(s, "salted", {"e": ("Sledges.", [])}, "blue", cache_salt="x")
    assert found(s, "sledges", "blue", collection="salted", cache_salt="x") == ["e"]
    assert found(s, "sledges", "blue", 400, collection="salted")["param"] == "collection"


# -- restarts and deletion --------------------------------------------------------------------------------------------------


def bytes_of(store, collection):
    """The vectors of a collection as they are in the file."""
    with sqlite3.connect(store / "documents.db") as db:
        return [row[0] for row in db.execute("SELECT v FROM vectors JOIN documents ON row = document WHERE id LIKE ?", [collection + "/%"])]


def test_a_restart_has_it_and_a_deletion_leaves_nothing(start, tiny, tmp_path):
    options = ("--reuse", "full", "--store", tmp_path / "store", "--embedding", tiny)
    secret = "The combination of the safe in the keeper's room is seventeen, four and ninety."
    s = start(*options)
    make(s, "safe", {"secret": (secret, ["hidden-tag"]), "plain": ("The room has a window to the north and one to the sea.", [])})
    assert told(s, "What is the combination of the safe?", collection="safe", top_k=1)["documents"][0]["id"] == "secret"
    before = found(s, "keeper's room", collection="safe", by="vectors")
    assert s.stop() == 0
    vectors = bytes_of(tmp_path / "store", "safe")
    assert len(vectors) == 2 and all(files_with(tmp_path / "store", v) for v in vectors)
    s = start(*options)
    c = of(s, "safe")
    assert (c["documents"], c["embedded"]) == (2, 2) and found(s, "keeper's room", collection="safe", by="vectors") == before
    again = told(s, "The combination of the safe?", collection="safe", top_k=1)["documents"][0]
    assert (again["id"], again["from"]) == ("secret", "disk") and of(s, "safe")["retrieved"] == 2
    status, o = send(s, "DELETE", "/v1/collections/safe/documents/secret")
    assert status == 200 and o["deleted"] and o["erased"]["device"] + o["erased"]["store"] >= 1, o
    assert found(s, "combination of the safe", collection="safe") == ["plain"] and of(s, "safe")["chunks"] == 1
    assert told(s, "x", documents=[{"text": secret}])["documents"][0]["missed"] == "never seen"
    left = [v for v in vectors if not files_with(tmp_path / "store", v)]
    assert len(left) == 1  # the other document's vector is there
    for text in (secret[10:50].encode(), b"hidden-tag"):
        assert not files_with(tmp_path / "store", text), text
    with sqlite3.connect(tmp_path / "store/documents.db") as db:
        assert db.execute("SELECT count(*) FROM retrieved").fetchone()[0] == 0  # no count of the deleted passage
    assert send(s, "DELETE", "/v1/collections/safe")[1]["deleted"]
    assert send(s, "GET", "/v1/collections/safe")[0] == 404 and send(s, "GET", "/v1/collections")[1]["data"] == []
    assert not any(files_with(tmp_path / "store", v) for v in vectors) and not files_with(tmp_path / "store", b"a window to the north")
    assert send(s, "GET", "/v1/documents")[1]["data"] == []
    make(s, "safe", {})
    assert found(s, "window", collection="safe") == []


def wait_until(holds):
    end = time.time() + 300
    while not holds():
        assert time.time() < end
        time.sleep(0.05)


def stored(folder):
    """The kinds of copies in the store."""
    said = subprocess.run([PROGRAM, "cache", "list", "--store", folder], capture_output=True, text=True, check=True).stdout
    return [line.split()[1] for line in said.splitlines()[1:-1]]


def put_titled(server, n):
    make(server, "titled", {})
    for i in range(n):
        body = {"id": f"d{i}", "title": f"Harbour {i}", "text": f"The harbour of Velm, number {i}, has room for {40 + i} boats."}
        assert send(server, "POST", "/v1/collections/titled/documents", body)[0] == 201


def test_what_is_read_to_rank_passages_serves_the_answer_and_is_deleted(start, tmp_path):
    """With its title, as a chat has it: under another form the copies of a deleted document would not be found."""
    s = start("--reuse", "full", "--store", tmp_path)
    put_titled(s, 4)
    answer = told(s, "Which harbour has the most boats?", collection={"name": "titled", "top_k": 2, "rerank": True})
    assert answer["retrieval"]["ranked"] == 4
    assert [d["from"] for d in answer["documents"]] == ["memory"] * 2, answer["documents"]
    wait_until(lambda: stored(tmp_path).count("plain") == 4)
    for i in range(4):
        status, o = send(s, "DELETE", f"/v1/collections/titled/documents/d{i}")
        assert status == 200 and o["deleted"], o
    assert set(stored(tmp_path)) <= {"path"}  # of the text before all documents


def test_passages_that_a_ranking_keeps_are_counted(server):
    """Not those that the search alone has first."""
    make(server, "kept", {name: (f"{text} So it was.", []) for name, (text, _) in TEXTS.items()})  # no other collection has them
    asked, differ = dict.fromkeys(TEXTS, 0), 0
    for question in ("Who keeps the lighthouse of Velm?", "When does the ferry to Torin leave Velm?", "Is a hotel of Torin open?",
                     "Has the harbour room for boats?", "boats in summer, of the town"):
        best = told(server, question, collection={"name": "kept", "top_k": 1, "rerank": True})["documents"][0]["id"]
        asked[best] += 1
        differ += found(server, question, collection="kept", top_k=1) != [best]
    assert differ, "ranking changes nothing"
    assert of(server, "kept")["retrieved"] == 5
    for name, n in asked.items():
        before = of(server, "kept")["retrieved"]
        assert send(server, "DELETE", f"/v1/collections/kept/documents/{name}")[0] == 200
        assert of(server, "kept")["retrieved"] == before - n, name
    assert send(server, "DELETE", "/v1/collections/kept")[0] == 200


def test_a_deletion_waits_for_passages_that_are_being_ranked(start, tmp_path):
    """The ranking of a chat submits one request after another: the last passage has none yet."""
    s = start("--reuse", "full", "--store", tmp_path, "--parallel", "1")
    put_titled(s, 16)
    with futures.ThreadPoolExecutor(2) as pool, busy(s, n=1):
        body = chat("Which harbour has the most boats?", collection={"name": "titled", "top_k": 4, "rerank": True})
        asked = pool.submit(s.call, "/v1/chat/completions", body)
        s.wait_for("num_requests_waiting", least=1)
        deleted = pool.submit(send, s, "DELETE", "/v1/collections/titled/documents/d15")
        wait_until(lambda: of(s, "titled")["documents"] == 15)
    status, answer = asked.result()
    assert status == 200 and len(answer["spolia"]["documents"]) == 4, answer
    assert deleted.result()[0] in (200, 202)
    wait_until(lambda: not files_with(tmp_path, b"number 15"))
    assert send(s, "DELETE", "/v1/collections/titled")[1]["deleted"]
    assert set(stored(tmp_path)) <= {"path"}


def test_another_encoder_makes_new_vectors(start, tiny, tmp_path):
    other = encoder.write_folder(tmp_path / "other-encoder", longest=32, seed=5)
    s = start("--store", tmp_path / "store", "--embedding", tiny)
    make(s, "manual")
    assert s.stop() == 0
    s = start("--store", tmp_path / "store")
    assert of(s, "manual")["embedding"] is None and found(s, "hotels of Torin", collection="manual")[0] == "hotels"
    assert "no vectors" in found(s, "x", status=400, collection="manual", by="vectors")["message"]
    assert s.stop() == 0
    s = start("--store", tmp_path / "store", "--embedding", other)
    end = time.time() + 300
    while of(s, "manual")["embedded"] != 4:
        assert time.time() < end, of(s, "manual")
        time.sleep(0.1)
    assert len(found(s, "hotels of Torin", collection="manual", by="vectors")) == 4


def test_uploads_searches_and_deletions_at_the_same_time(server):
    make(server, "busy", {})
    wrong = []

    def work(n):
        for i in range(8):
            text = f"Log {n}-{i}: the boat number {n} was seen at the quay by watchman {i}."
            a = send(server, "POST", "/v1/collections/busy/documents", {"id": f"{n}-{i}", "text": text})[0]
            b = found(server, f"boat number {n} watchman {i}", collection="busy", top_k=100)
            c = send(server, "DELETE", f"/v1/collections/busy/documents/{n}-{i}")[0] if i % 2 else 200
            d = found(server, f"boat number {n}", collection="busy", top_k=100)
            if (a, c) != (201, 200) or f"{n}-{i}" not in b or (f"{n}-{i}" in d) != (i % 2 == 0):
                wrong.append((n, i, a, c, b, d))
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong, wrong[:2]
    assert of(server, "busy")["documents"] == 16 == of(server, "busy")["embedded"]


def test_hostile_uploads_end_soon_and_are_named(server):
    """A long text in a form is read once, not once a piece; of calls for one id at the same time one wins, others get 409."""
    send(server, "POST", "/v1/collections", {"name": "hostile"})
    path = "/v1/collections/hostile/documents"
    form = {"Content-Type": "multipart/form-data; boundary=seam"}
    text = (b"word " * 20 + b"\n\n") * 60000  # 6 MB: with all pieces copied for each, many minutes
    field = b"--seam\r\nContent-Disposition: form-data; name=\"%s\"\r\n\r\n%s\r\n"
    body = field % (b"tags", b"a") + field % (b"id", b"no/such") + field % (b"text", text) + b"--seam--\r\n"
    began = time.time()
    status, o = send(server, "POST", path, body, headers=form)
    assert status == 400 and "slash" in o["error"]["message"] and time.time() - began < 30, o
    status, o = send(server, "POST", path, field % (b"title", b"") + field % (b"text", b"short text") + b"--seam--\r\n", headers=form)
    assert status == 201 and o["chunks"] == 1, o
    got = []
    calls = [threading.Thread(target=lambda i=i: got.append(send(server, "POST", path, {"id": "same", "text": f"some text {i} " * 2000})))
             for i in range(5)]
    for t in calls:
        t.start()
    for t in calls:
        t.join()
    assert sorted(status for status, _ in got) == [201, 409, 409, 409, 409], got
    assert {o["error"]["code"] for status, o in got if status == 409} == {"document_exists"}
    assert send(server, "DELETE", "/v1/collections/hostile")[0] == 200
