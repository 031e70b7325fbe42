"""`spolia serve`: the life cycle of documents, explanations, trees and graphs, tenants of documents."""
import base64
import json
import pathlib
import threading
import time
import urllib.error
import urllib.request
from concurrent import futures

import pytest

from conftest import refuse, run, succeed
from serving import MODEL, Server, busy, chat

STORY = "The keeper of the northern lighthouse is called Anna Berg and came to the island by boat in 1931."
OTHER = "The eastern harbour was built by the town in 1870 and has room for forty boats in the winter."
SYSTEM = {"role": "system", "content": "Answer briefly."}


def send(server, method, path, body=None, key=None, headers=None):
    """(status, JSON) of any method."""
    data = json.dumps(body).encode() if isinstance(body, dict) else body
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {}), **(headers or {})}
    try:
        with urllib.request.urlopen(urllib.request.Request(server.url + path, data, headers, method=method), timeout=300) as r:
            return r.status, json.loads(r.read())
    except urllib.error.HTTPError as e:
        return e.code, json.loads(e.read())


def register(server, name, text, key=None, **more):
    status, o = send(server, "POST", "/v1/documents", {"id": name, "text": text, **more}, key)
    assert status == 201, o
    return o


def compute(server, name, key=None, seconds=300, **more):
    status, o = send(server, "POST", f"/v1/documents/{name}/precompute", {"system": SYSTEM["content"], **more}, key)
    assert status == 202, o
    end = time.time() + seconds
    while o["status"] not in ("done", "failed"):
        assert time.time() < end, o
        time.sleep(0.05)
        o = send(server, "GET", f"/v1/documents/{name}/precompute", key=key)[1]
    assert o["status"] == "done", o
    return o


def ask(server, key=None, message="Who is the keeper?", **more):
    body = chat(message, **more)
    body["messages"].insert(0, SYSTEM)
    status, o = send(server, "POST", "/v1/chat/completions", body, key)
    assert status == 200, o
    return o


def files_with(folder, text):
    return [p for p in pathlib.Path(folder).rglob("*") if p.is_file() and text in p.read_bytes()]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    with Server("--reuse", "full", "--store", folder) as s:
        s.folder = folder
        yield s


# -- the life of a document -----------------------------------------------------------------------


def test_a_life(server):
    o = register(server, "keeper", STORY, title="Lighthouse")
    assert o["object"] == "document" and o["chunks"] == 1 and o["copies"] == {"device": 0, "store": 0}
    assert send(server, "POST", "/v1/documents", {"id": "keeper", "text": "x"})[0] == 409
    done = compute(server, "keeper")
    assert done["done"] == done["total"] == done["computed"] == 1
    told = ask(server, documents=[{"id": "keeper"}])["spolia"]["documents"]
    assert [(d["id"], d["title"], d["from"]) for d in told] == [("keeper", "Lighthouse", "memory")]
    listed = send(server, "GET", "/v1/documents")[1]["data"]
    assert [d["id"] for d in listed] == ["keeper"]
    assert send(server, "PATCH", "/v1/documents/keeper", {"pinned": True, "ttl_seconds": 1000})[1]["pinned"]
    assert send(server, "PATCH", "/v1/documents/keeper", {"pinned": False})[1]["pinned"] is False
    assert send(server, "GET", "/v1/documents/keeper")[1]["expires"] > time.time() + 900
    assert files_with(server.folder, STORY[10:60].encode())
    status, gone = send(server, "DELETE", "/v1/documents/keeper")
    assert status == 200 and gone["deleted"] and gone["erased"]["device"] >= 1, gone
    assert not files_with(server.folder, STORY[10:60].encode())
    assert send(server, "DELETE", "/v1/documents/keeper")[0] == 404
    status, error = send(server, "POST", "/v1/chat/completions", chat(documents=[{"id": "keeper"}]))
    assert status == 400 and error["error"]["param"] == "documents[0].id"
    again = ask(server, documents=[{"title": "Lighthouse", "text": STORY}])["spolia"]["documents"]
    assert again[0]["missed"] == "never seen"


def test_copies_under_other_titles_are_deleted_too(start, tmp_path):
    s = start("--reuse", "full", "--store", tmp_path / "store")
    forms = [{"text": STORY, "title": "Its title"}, {"text": STORY, "title": "Another"}, STORY]
    register(s, "a", STORY, title="Its title")

    def missed(form):
        return ask(s, documents=[form])["spolia"]["documents"][0]["missed"]
    for form in forms:
        assert missed(form) == "never seen"
        assert missed(form) == ""
    assert s.stop() == 0
    s = start("--reuse", "full", "--store", tmp_path / "store")  # knows of them from the file of documents
    assert send(s, "GET", "/v1/documents/a")[1]["copies"] == {"device": 0, "store": 1}
    assert [missed(form) for form in forms] == [""] * 3
    gone = send(s, "DELETE", "/v1/documents/a")[1]
    assert gone["deleted"] and not gone.get("pending"), gone
    assert [missed(form) for form in forms] == ["never seen"] * 3


def test_a_deletion_says_what_requests_still_read(start):
    """After 10 seconds: of a document, and of a collection, at the same time."""
    s = start("--reuse", "full", "--cpu", "ref", "--parallel", 1)
    register(s, "a", STORY)
    assert send(s, "POST", "/v1/collections", {"name": "c"})[0] == 201
    assert send(s, "POST", "/v1/collections/c/documents", {"id": "b", "text": OTHER})[0] == 201
    paths = ["/v1/documents/a", "/v1/collections/c"]
    question = [{"role": "user", "content": "What has the harbour?"}]
    with busy(s, messages=question, documents=[{"id": "a"}], collection={"name": "c"}):
        with futures.ThreadPoolExecutor(2) as pool:
            for status, o in pool.map(lambda path: send(s, "DELETE", path), paths):
                assert status == 202 and o["deleted"] is False and o["erased"]["pending"] > 0, o
        assert [send(s, "GET", path)[0] for path in paths] == [404, 404]


def test_replace_and_time(server):
    register(server, "a", STORY)
    compute(server, "a")
    assert send(server, "PUT", "/v1/documents/a", {"id": "a", "text": OTHER})[0] == 201
    status, error = send(server, "PUT", "/v1/documents/a", {"id": "other", "text": STORY})
    assert status == 400 and error["error"]["param"] == "id", error
    assert ask(server, documents=[STORY])["spolia"]["documents"][0]["missed"] == "never seen"
    register(server, "b", "A text that is soon gone, with some words in it.", ttl_seconds=1)
    end = time.time() + 300
    while files_with(server.folder, b"that is soon gone"):
        assert time.time() < end
        time.sleep(0.2)
    assert send(server, "GET", "/v1/documents/b")[0] == 404
    assert send(server, "DELETE", "/v1/documents/a")[0] == 200


def test_files(server):
    page = b"<html><title>Boats</title><body><h1>Boats</h1><p>Forty boats.</p></body></html>"
    o = register_file(server, "page.html", page)
    assert o["title"] == "Boats" and o["id"].startswith("doc-")
    form = (b"--form42\r\nContent-Disposition: form-data; name=\"id\"\r\n\r\nform\r\n"
            b"--form42\r\nContent-Disposition: form-data; name=\"pinned\"\r\n\r\ntrue\r\n"
            b"--form42\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.md\"\r\n\r\n# Piers\n\nTwo piers.\n\r\n--form42--\r\n")
    status, o = send(server, "POST", "/v1/documents", form, headers={"Content-Type": "multipart/form-data; boundary=form42"})
    assert status == 201 and o["id"] == "form" and o["title"] == "Piers" and o["pinned"], o
    for body, param in (({"file": {"name": "a.bin", "data": "AAAA"}}, "file"), ({"file": {"name": "a.pdf", "data": "!"}}, "file.data"),
                        ({"file": {"name": "a.jsonl", "data": base64.b64encode(b'{"text": "a"}\n{').decode()}}, "file"),
                        ({"id": "x"}, "text"), ({"text": "a", "ttl_seconds": -1}, "ttl_seconds"), ({"text": ""}, "text"),
                        ({"text": "a", "id": "b/c"}, "id"), ({"text": "a", "id": ""}, "id"), ({"text": "a", "tags": ["b"]}, "tags"),
                        ({"text": "a", "precompute": "all"}, "precompute"), ({"text": "a", "id": "n", "precompute": {"fuse": -1}}, "precompute.fuse"),
                        ({"text": "a", "id": "n", "ttl": 5}, "ttl"), ({"text": "a", "precompute": {"fused": 1}}, "precompute.fused"),
                        ({"file": {"name": "a.txt", "data": "QUJD", "type": "text/plain"}}, "file.type")):
        status, error = send(server, "POST", "/v1/documents", body)
        assert status == 400 and error["error"]["param"] == param, (body, error)
    assert send(server, "GET", "/v1/documents/n")[0] == 404  # what is refused is not registered


def test_unknown_fields_of_our_own_bodies_are_named(server):
    register(server, "fields", "A text about fields.")
    for method, path, body, param in (("PATCH", "/v1/documents/fields", {"ttl": 5}, "ttl"),
                                      ("PATCH", "/v1/documents/fields", {"pinned": True, "cache_salt": "a"}, "cache_salt"),
                                      ("PUT", "/v1/documents/fields", {"text": "b", "tittle": "c"}, "tittle"),
                                      ("POST", "/v1/documents/fields/precompute", {"sytem": "a"}, "sytem"),
                                      ("POST", "/v1/collections", {"name": "fields", "tags": ["a"]}, "tags"),
                                      ("POST", "/v1/search", {"query": "fields", "topk": 3}, "topk"),
                                      ("POST", "/v1/search", {"query": "fields", "by": "luck"}, "by"),
                                      ("POST", "/v1/collections", {"name": "a b"}, "name"),
                                      ("POST", "/v1/graph", {"query": "fields", "k": 3}, "k"),
                                      ("GET", "/v1/documents?limit=5x", None, "limit"),
                                      ("POST", "/v1/chat/completions", chat(collection={"name": "a", "topk": 3}), "collection.topk")):
        status, error = send(server, method, path, body)
        assert status == 400 and error["error"]["param"] == param, (path, body, error)
    for document, param in (({"type": "tree", "nodes": [{"text": "a"}, {"text": "b", "parents": 0}]}, "nodes[1].parents"),
                            ({"type": "list", "items": ["a"], "rows": ["b"]}, "rows"),
                            ({"type": "table", "header": "a", "rows": ["b"], "items": ["c"]}, "items")):
        status, error = send(server, "POST", "/v1/chat/completions", chat(documents=[document]))
        assert status == 400 and error["error"]["param"] == f"documents[0].{param}", error
    body = chat(max_tokens=1, ttl=5, documents=[{"text": "a", "score": 0.5, "metadata": {"page": 3}}])
    assert send(server, "POST", "/v1/chat/completions", body)[0] == 200  # a client's fields


def test_a_chat_has_up_to_4096_documents(server):
    """Of registered ones each chunk counts. What just fits fails later, as it is too long for the model."""
    few = 4095 * ["A."]
    assert register(server, "one", "Torin.")["chunks"] == 1
    assert register(server, "two", f"{STORY}\n\n{OTHER}\n\n" * 20)["chunks"] > 1
    said = {}
    for name in ("one", "two"):
        status, o = send(server, "POST", "/v1/chat/completions", chat(documents=[*few, {"id": name}]))
        assert status == 400, o
        said[name] = o["error"]
        assert send(server, "DELETE", f"/v1/documents/{name}")[0] == 200
    assert said["two"]["param"] == "documents[4095].id" and "more than 4096 chunks" in said["two"]["message"]
    assert "context" in said["one"]["message"] and said["one"]["param"] != "documents[4095].id", said["one"]


def test_precompute_of_a_form(server):
    def form(value):
        part = "--form42\r\nContent-Disposition: form-data; name=\"{}\"\r\n\r\n{}\r\n".format
        data = part("id", f"form-{value}") + part("text", "A text of a form.") + part("precompute", value) + "--form42--\r\n"
        return send(server, "POST", "/v1/documents", data.encode(), headers={"Content-Type": "multipart/form-data; boundary=form42"})
    assert "precompute" in form("true")[1]
    assert "precompute" not in form("false")[1]
    status, error = form("perhaps")
    assert status == 400 and error["error"]["param"] == "precompute"


def test_copies_of_a_document_are_no_document(server):
    """Their path has methods of its own: a text that is put there replaces none."""
    register(server, "whole", "The mill of Velm burnt down in 1902.")
    before = send(server, "GET", "/v1/documents/whole")[1]
    for method, path in (("PUT", "/precompute"), ("PATCH", "/precompute"), ("POST", "")):
        request = urllib.request.Request(f"{server.url}/v1/documents/whole{path}", b'{"text": "Another."}',
                                         {"Content-Type": "application/json"}, method=method)
        with pytest.raises(urllib.error.HTTPError) as e:
            urllib.request.urlopen(request, timeout=300)
        allowed = e.value.headers["Allow"].split(", ")
        assert e.value.code == 405 and "GET" in allowed and method not in allowed, (method, path, allowed)
    assert send(server, "GET", "/v1/documents/whole")[1] == before


def test_a_document_may_have_the_name_of_a_path(server):
    """In a collection, and outside all."""
    assert send(server, "POST", "/v1/collections", {"name": "names"})[0] == 201
    for path in ("/v1/documents", "/v1/collections/names/documents"):
        assert send(server, "PUT", f"{path}/precompute", {"text": "The mill of Velm burnt down in 1902."})[0] == 201
        assert send(server, "PATCH", f"{path}/precompute", {"pinned": True})[1]["pinned"]
        assert send(server, "GET", f"{path}/precompute")[1]["id"] == "precompute"
        assert send(server, "POST", f"{path}/precompute/precompute")[0] == 202
        assert send(server, "GET", f"{path}/precompute/precompute")[0] == 200
        status, gone = send(server, "DELETE", f"{path}/precompute")
        assert status == 200 and gone["id"] == "precompute"
        assert send(server, "GET", f"{path}/precompute")[0] == 404
    assert send(server, "DELETE", "/v1/collections/names")[0] == 200


def register_file(server, name, data):
    status, o = send(server, "POST", "/v1/documents", {"file": {"name": name, "data": base64.b64encode(data).decode()}})
    assert status == 201, o
    return o


def test_white_space_in_base64(server):
    """Between lines, and after the padding, which says how many bytes there are."""
    for i, data in enumerate(("VGhlIHBpZXIu", "VGhlIHBp\r\nZXI=", "VGhlIHBpZXI=\n", "VGhlIHBpZXI= \t")):
        status, o = send(server, "POST", "/v1/documents", {"id": f"blank-{i}", "file": {"name": "a.txt", "data": data}})
        assert status == 201, o
        status, o = send(server, "POST", "/v1/search", {"query": "pier", "documents": [f"blank-{i}"]})
        assert status == 200 and o["data"][0]["text"].rstrip(".") == "The pier", o


def test_search(start):
    server = start("--reuse", "full")
    register(server, "north", STORY, title="North")
    register(server, "east", OTHER)
    status, o = send(server, "POST", "/v1/search", {"query": "Who came by boat?"})
    assert status == 200 and [h["document"] for h in o["data"]] == ["north", "east"]
    assert o["data"][0]["title"] == "North" and o["data"][0]["text"] == STORY and o["data"][0]["score"] > o["data"][1]["score"]
    found = lambda **q: [h["document"] for h in send(server, "POST", "/v1/search", {"query": "boat", **q})[1]["data"]]
    assert len(found(top_k=1)) == 1 and found(documents=["east"]) == ["east"] and found(documents=[]) == []
    assert found(documents=1000 * ["east"]) == ["east"] and found(documents=["nobody"]) == [] and found(cache_salt="x") == [] and found(query="zeppelin") == []
    for q, param in (({}, "query"), ({"query": 1}, "query"), ({"query": "a", "top_k": 0}, "top_k"),
                     ({"query": "a", "documents": "north"}, "documents"), ({"query": "a", "documents": [1]}, "documents"),
                     ({"query": "a", "documents": 1001 * ["east"]}, "documents"), ({"query": "a", "by": "vectors"}, "by"),
                     ({"query": "a", "by": "magic"}, "by")):
        status, o = send(server, "POST", "/v1/search", q)
        assert status == 400 and o["error"]["param"] == param, o
    answer = ask(server, documents=[{k: h[k] for k in ("title", "text")} for h in
                                    send(server, "POST", "/v1/search", {"query": "boat"})[1]["data"]])
    assert len(answer["spolia"]["documents"]) == 2
    assert send(server, "DELETE", "/v1/documents/north")[0] == 200
    assert found() == ["east"]


def test_progress_as_events(server):
    register(server, "long", "\n\n".join(f"Boat {i} has {i} sails and a crew of {i + 2}." * 12 for i in range(6)))
    for again in range(2):
        assert send(server, "POST", "/v1/documents/long/precompute", {"fuse": 2})[0] == 202
        with urllib.request.urlopen(server.url + "/v1/documents/long/precompute?stream=true", timeout=300) as r:
            events = [line[6:].strip() for line in r.read().decode().splitlines() if line.startswith("data: ")]
        assert events[-1] == "[DONE]" and all(a != b for a, b in zip(events, events[1:]))
        last = json.loads(events[-2])
        assert last["status"] == "done" and last["done"] == last["total"] > 1
        assert (last["known"] if again else last["computed"]) >= last["total"]  # of this time, not of the time before
        assert (last["computed"] if again else last["known"]) == 0
    assert send(server, "GET", "/v1/documents/long")[1]["copies"]["device"] >= last["total"]


def test_what_was_computed_for_another_document_of_its_name_is_forgotten(server):
    """A document that is replaced, or deleted and registered again, has not been computed."""
    register(server, "twice", "The tower has nine bells.")
    compute(server, "twice")
    assert send(server, "GET", "/v1/documents/twice")[1]["precompute"]["status"] == "done"
    assert "precompute" not in register(server, "twice", "The tower has ten bells.", replace=True)
    assert send(server, "GET", "/v1/documents/twice/precompute")[0] == 404
    compute(server, "twice")
    assert send(server, "DELETE", "/v1/documents/twice")[0] == 200
    assert send(server, "GET", "/v1/documents/twice/precompute")[0] == 404
    assert "precompute" not in register(server, "twice", "The tower has ten bells.")
    long = "\n\n".join(f"Tower {i} has {i} bells and a keeper who rings them." * 12 for i in range(60))
    register(server, "twice", long, replace=True)
    assert send(server, "POST", "/v1/documents/twice/precompute", {"fuse": 2})[0] == 202
    register(server, "twice", "The tower has eleven bells.", replace=True)  # while it is computed, or waits
    assert send(server, "GET", "/v1/documents/twice/precompute")[0] == 404
    assert compute(server, "twice")["total"] == 1
    assert send(server, "DELETE", "/v1/documents/twice")[0] == 200


# -- known chunks in messages ---------------------------------------------------------------------


def test_registered_text_is_found_in_messages(server):
    text = "The western pier burnt down in 1902 and was built again of stone by the same two brothers."
    register(server, "pier", text)
    compute(server, "pier", bare=True)
    pasted = f"### Task\nUse the context.\n<context>\n<source id=\"1\" name=\"pier.md\">{text}</source>\n</context>\nWhen?"
    account = ask(server, message=pasted)["spolia"]
    assert account["found"]["chunks"] == 1
    assert [s["from"] for s in account["segments"] if s["kind"] == "chunk"] == ["memory"]
    first = {"role": "user", "content": "Hello there."}, {"role": "assistant", "content": "Hello."}
    body = chat(pasted)
    body["messages"] = [SYSTEM, *first, *body["messages"]]  # in a later turn, too
    account = send(server, "POST", "/v1/chat/completions", body)[1]["spolia"]
    assert [s["from"] for s in account["segments"] if s["kind"] == "chunk"] == ["memory"]
    assert ask(server, message=pasted, find_chunks=False)["spolia"]["found"]["chunks"] == 0
    exact = ask(server, message=pasted, quality="exact")["choices"][0]["message"]["content"]
    assert exact == ask(server, message=pasted, cache_prompt=False)["choices"][0]["message"]["content"]


def test_repeats_between_messages_become_chunks(server):
    passages = [" ".join(f"In year {1800 + 7 * i + k} the {name} of Velm had {k + 3} boats." for k in range(8))
                for i, name in enumerate(("pier", "mole", "wharf", "dock"))]
    reused = []
    for i, pair in enumerate(((0, 1), (2, 1), (1, 3))):
        context = "".join(f"<source id=\"{i + k}\">{passages[p]}</source>\n" for k, p in enumerate(pair))
        account = ask(server, message=f"Context {i}:\n{context}Which one is question {i}?", find_chunks="repeats")["spolia"]
        chunks = [s for s in account["segments"] if s["kind"] == "chunk"]
        reused.append((len(chunks), sum(s["reused"] for s in chunks) > 0))
    assert reused[0] == (0, False) and reused[1][0] >= 1 and reused[2][1], reused
    status, error = send(server, "POST", "/v1/chat/completions", chat(find_chunks="all"))
    assert status == 400 and error["error"]["param"] == "find_chunks"


# -- explanations and metrics ---------------------------------------------------------------------


def test_explain(server):
    doc = {"id": "d", "text": "The southern mole has a crane that lifts six tons and a bench for two."}
    first, second = ask(server, documents=[doc]), ask(server, documents=[doc])
    one = send(server, "GET", f"/v1/requests/{first['id']}/explain")[1]
    two = send(server, "GET", f"/v1/requests/{second['id']}/explain")[1]
    assert one["documents"][0]["missed"] == "never seen" and two["documents"][0]["from"] == "memory"
    assert two["policy"] == "full" and two["documents"] == second["spolia"]["documents"]
    assert two["timings"]["ttft_ms"] > 0 and two["finish"] in ("stop", "length")
    assert send(server, "GET", "/v1/requests/nothing/explain")[0] == 404
    body = {**chat(documents=[doc], stream=True), "max_tokens": 2}
    headers = {"X-Request-Id": "of-the-client", "Content-Type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(server.url + "/v1/chat/completions", json.dumps(body).encode(), headers)).read()
    assert send(server, "GET", "/v1/requests/of-the-client/explain")[1]["documents"][0]["id"] == "d"


def test_metrics(server):
    for _ in range(2):
        ask(server, documents=[{"id": "m", "text": "The bell of the northern pier rings twice in fog and once at noon."}])
    assert server.metric("segment_lookups_total") >= server.metric("segment_hits_total") > 0
    assert server.metric('prompt_tokens_by_source_total{source="memory"}') > 0
    assert server.metric("evictions_total") >= 0


# -- tenants --------------------------------------------------------------------------------------


@pytest.fixture
def keys(tmp_path):
    (tmp_path / "keys").write_text("red\nblue\n")
    return tmp_path / "keys"


def test_another_tenant_gets_a_miss_at_every_tier(start, keys, tmp_path):
    for restarted in range(2):
        s = start("--reuse", "full", "--api-keys", keys, "--store", tmp_path / "store")
        if not restarted:
            register(s, "a", STORY, "red")
            compute(s, "a", "red")
        assert send(s, "GET", "/v1/documents/a", key="blue")[0] == 404
        assert send(s, "DELETE", "/v1/documents/a", key="blue")[0] == 404
        assert send(s, "GET", "/v1/documents", key="blue")[1]["data"] == []
        mine = ask(s, "red", documents=[{"id": "a"}])
        assert mine["spolia"]["documents"][0]["from"] == ("disk" if restarted else "memory")
        theirs = ask(s, "blue", documents=[STORY], cache_salt=f"round {restarted}")["spolia"]["documents"][0]
        assert theirs["missed"] == "never seen" and theirs["reused"] == 0
        assert send(s, "GET", f"/v1/requests/{mine['id']}/explain", key="blue")[0] == 404
        assert send(s, "GET", f"/v1/requests/{mine['id']}/explain", key="red")[0] == 200
        assert s.stop() == 0


def test_another_tenant_takes_as_long_as_the_first(start, keys):
    s = start("--reuse", "full", "--api-keys", keys)
    times = {"cold": [], "theirs": [], "mine": []}

    def as_long():
        mine = sorted(times["mine"][-5:])[2]  # on a loaded machine any other may take twice as long, none a tenth
        return min(times["theirs"][-5:]) > 5 * mine and min(times["cold"][-5:]) > 5 * mine
    while len(times["mine"]) < 5 or (not as_long() and len(times["mine"]) < 50):  # a tenant who shares is never as slow
        i = len(times["mine"])
        text = " ".join(f"Ship {i}-{k} left the harbour on day {k}." for k in range(90))
        for name, key in (("cold", "red"), ("mine", "red"), ("theirs", "blue")):
            o = ask(s, key, documents=[text], max_tokens=1)
            times[name].append(o["timings"]["prompt_ms"])
    assert as_long(), times


def test_cache_salt_of_a_set_of_documents(start, keys):
    s = start("--reuse", "full", "--api-keys", keys)
    register(s, "a", STORY, "red", cache_salt="set one")
    assert send(s, "GET", "/v1/documents/a", key="red")[0] == 404
    assert send(s, "GET", "/v1/documents/a?cache_salt=set%20one", key="red")[0] == 200
    ask(s, "red", documents=[{"id": "a"}], cache_salt="set one")
    assert ask(s, "red", documents=[STORY], cache_salt="set one")["spolia"]["documents"][0]["from"] == "memory"
    assert ask(s, "red", documents=[STORY])["spolia"]["documents"][0]["missed"] == "never seen"
    assert send(s, "DELETE", "/v1/documents/a?cache_salt=set%20one", key="red")[1]["deleted"]


def test_every_path_but_health_needs_a_key(start, keys):
    s = start("--api-keys", keys)
    assert send(s, "GET", "/health")[0] == 200
    for method, path in (("GET", "/v1/documents"), ("POST", "/v1/documents"), ("GET", "/v1/documents/a"), ("PUT", "/v1/documents/a"),
                         ("PATCH", "/v1/documents/a"), ("DELETE", "/v1/documents/a"), ("POST", "/v1/documents/a/precompute"),
                         ("GET", "/v1/requests/a/explain"), ("GET", "/metrics"), ("GET", "/v1/models"), ("GET", "/version"),
                         ("POST", "/v1/chat/completions"), ("POST", "/tokenize")):
        assert send(s, method, path, {} if method != "GET" else None)[0] == 401, path


# -- iterative retrieval ----------------------------------------------------------------------------


def test_each_iteration_shares_the_tree(start):
    s = start("--reuse", "prefix")
    texts = [f"Passage {i} says that boat {i} left the harbour on day {i} and came back with {i + 3} nets." for i in range(4)]
    for n in range(1, 5):  # one more passage in each iteration
        told = ask(s, documents=texts[:n])["spolia"]["documents"]
        assert [d["reused"] == d["tokens"] for d in told] == [True] * (n - 1) + [False]
    body = chat("Which boat left first?", documents=texts)
    body["messages"].insert(0, SYSTEM)
    answer = send(s, "POST", "/v1/chat/completions", body)[1]["choices"][0]["message"]
    turn = {"role": "user", "content": f"{OTHER} And now?"}  # an answer, and what it led to
    pasted = {"role": "user", "content": "".join(f"{t}\n\n" for t in texts) + "Question: Which boat left first?"}
    account = send(s, "POST", "/v1/chat/completions", {**body, "documents": [], "messages": [SYSTEM, pasted, answer, turn]})[1]
    assert account["spolia"]["found"]["chunks"] == 4
    assert account["usage"]["prompt_tokens_details"]["cached_tokens"] > account["usage"]["prompt_tokens"] / 2


# -- trees and graphs -----------------------------------------------------------------------------

PATHS = [["Anna Berg", "keeps", "lighthouse", "is in", "Velm"], ["Anna Berg", "keeps", "lighthouse", "was built in", "1870"],
         ["Velm", "^is in", "pier"]]


def test_trees(server):
    tree = {"type": "tree", "id": "t", "paths": PATHS}
    first = ask(server, documents=[tree])["spolia"]
    assert first["policy"] == "prefix" and first["documents"][0]["reused"] == 0
    nodes = [s for s in first["segments"] if s["kind"] == "node"]
    assert len(nodes) == first["documents"][0]["nodes"] == 10  # of 13 names: a beginning of 3 is shared
    second = ask(server, documents=[{**tree, "paths": PATHS[:1]}])["spolia"]["documents"][0]
    assert second["reused"] == second["tokens"] > 0  # a branch is exact, whatever its siblings are
    nulls = ask(server, documents=[{**tree, "nodes": None}])["spolia"]["documents"][0]
    assert nulls["nodes"] == 10 and nulls["reused"] == nulls["tokens"]
    for change in ({}, {"nodes": [{"text": "Boats:", "parent": None}, {"text": " forty", "parent": 0}], "paths": None}):
        listed = {"type": "tree", "nodes": [{"text": "Boats:"}, {"text": " forty", "parent": 0}], **change}
        assert ask(server, documents=[listed, STORY])["spolia"]["documents"][0]["nodes"] == 2
    for bad in ({"paths": [["a", "b"]]}, {"nodes": [{"text": "x", "parent": 0}]}, {"paths": []}, {},
                {"paths": [["a", "b", "c"]], "nodes": [{"text": "x"}]}):
        status, error = send(server, "POST", "/v1/chat/completions", chat(documents=[{"type": "tree", **bad}]))
        assert status == 400 and error["error"]["param"] == "documents[0]", error


LIST = {"type": "list", "items": ["Boats leave Velm at nine.", "The Anchor has twelve rooms.", "Torin has two hotels."]}
TABLE = {"type": "table", "header": "boat | leaves", "rows": ["Tern | nine", "Gull | noon"]}


def test_shifted_trees(server):
    trees = [{"type": "tree", "paths": [p]} for p in (["Elm", "near", "Oak"], ["Ash", "near", "Yew", "by", "Fir"])]
    first = ask(server, documents=trees, tree="shifted")["spolia"]["documents"]
    assert [d["reused"] for d in first] == [0, 0]
    moved = ask(server, documents=trees[::-1], tree="shifted")["spolia"]["documents"]
    assert all(d["reused"] == d["tokens"] > 0 for d in moved)
    exact = ask(server, documents=trees, tree="exact")["spolia"]["documents"]
    assert [d["reused"] for d in exact] == [0, 0]  # what was moved is not exact
    status, error = send(server, "POST", "/v1/chat/completions", chat(documents=trees, tree="bent"))
    assert status == 400 and error["error"]["param"] == "tree", error


@pytest.mark.parametrize("document, part", [(LIST, "items"), (TABLE, "rows")])
def test_lists_and_tables(server, document, part):
    first = ask(server, documents=[document])["spolia"]["documents"][0]
    assert first["reused"] == 0 and first["nodes"] == len(document[part]) + ("header" in document)
    turned = ask(server, documents=[{**document, part: document[part][::-1]}])["spolia"]["documents"][0]
    assert turned["reused"] == turned["tokens"] > 0  # no item sees another
    for bad in ({part: []}, {part: ["a", 1]}, {part: "a"}, {part: None}):
        status, error = send(server, "POST", "/v1/chat/completions", chat(documents=[{**document, **bad}]))
        assert status == 400 and error["error"]["param"] == "documents[0]", error


def test_a_table_needs_a_header(server):
    status, error = send(server, "POST", "/v1/chat/completions", chat(documents=[{"type": "table", "rows": ["a"]}]))
    assert status == 400 and "header" in error["error"]["message"], error


def test_a_graph(start, tmp_path):
    """One of its names is a word that begins questions."""
    (tmp_path / "t.tsv").write_text("Anna Berg\tkeeps\tlighthouse\nlighthouse\tis in\tVelm\nVelm\thas\tharbour\nWhere\tis a\tfilm\n")
    succeed("graph", "import", tmp_path / "t.tsv", "-o", tmp_path / "g.db")
    s = start("--graph", tmp_path / "g.db")
    for reused in (False, True):
        told = ask(s, message="Where is the lighthouse that Anna Berg keeps?", graph=True)["spolia"]["documents"]
        assert [d["id"] for d in told] == ["graph"] and told[0]["nodes"] >= 3
        assert (told[0]["reused"] == told[0]["tokens"]) == reused
    assert ask(s, message="Hello?", graph=True)["spolia"]["documents"][0].get("nodes", 0) == 0
    status, found = send(s, "POST", "/v1/graph", {"query": "Where is the lighthouse that Anna Berg keeps?"})
    assert status == 200 and ["Anna Berg", "keeps", "lighthouse", "is in", "Velm"] in found["paths"]
    told = ask(s, message="Where is the lighthouse that Anna Berg keeps?", graph=True)["spolia"]
    assert sum(x["kind"] == "node" for x in told["segments"]) == len(found["nodes"]) and found["nodes"][0]["parent"] == -1
    same = ask(s, message="Where is the lighthouse that Anna Berg keeps?", documents=[{"type": "tree", "paths": found["paths"]}])["spolia"]
    assert same["documents"][0]["reused"] == same["documents"][0]["tokens"]  # what the graph gave is what a client can send
    near = send(s, "POST", "/v1/graph", {"query": "Velm", "hops": 1, "top_k": 1})[1]["paths"]
    assert len(near) == 1 and len(near[0]) == 3
    assert send(s, "POST", "/v1/graph", {"query": "Velm", "hops": 8})[0] == 200
    assert send(s, "POST", "/v1/graph", {"query": "Nobody"})[1] == {"object": "graph.paths", "paths": [], "nodes": []}
    for bad, param in (({}, "query"), ({"query": 1}, "query"), ({"query": "a", "hops": 9}, "hops"), ({"query": "a", "top_k": 0}, "top_k")):
        status, error = send(s, "POST", "/v1/graph", bad)
        assert status == 400 and error["error"]["param"] == param, error
    plain = start()
    for path, body in (("/v1/chat/completions", chat(graph=True)), ("/v1/graph", {"query": "a"})):
        status, error = send(plain, "POST", path, body)
        assert status == 400 and "--graph" in error["error"]["message"]


def test_relations_may_begin_with_a_caret(start, tmp_path):
    """The graph has a relation and others whose names are it with carets; what it gives is what a client can send."""
    triples = [("Anna Berg", "keeps", "Velm"), ("Velm", "^keeps", "lighthouse"), ("lighthouse", "^^keeps", "Torin"), ("Torin", "^", "pier")]
    (tmp_path / "t.tsv").write_text("".join("\t".join(t) + "\n" for t in triples))
    succeed("graph", "import", tmp_path / "t.tsv", "-o", tmp_path / "g.db")
    s = start("--graph", tmp_path / "g.db")
    there = ["Anna Berg", "keeps", "Velm", "^^keeps", "lighthouse", "^^^^keeps", "Torin", "^^", "pier"]
    back = ["pier", "^^^", "Torin", "^^^^^keeps", "lighthouse", "^^^keeps", "Velm", "^keeps", "Anna Berg"]
    for path in (there, back):
        assert path in send(s, "POST", "/v1/graph", {"query": path[0], "hops": 4})[1]["paths"]
        paths = send(s, "POST", "/v1/graph", {"query": path[0]})[1]["paths"]
        told = ask(s, message=path[0], graph=True)["spolia"]["documents"][0]
        same = ask(s, message=path[0], documents=[{"type": "tree", "paths": paths}])["spolia"]["documents"][0]
        assert same["reused"] == same["tokens"] == told["tokens"]
    single = [{"type": "tree", "paths": [["Torin", name, "pier"]]} for name in ("^", "^^")]
    assert ask(s, documents=single[:1]) and ask(s, documents=single[1:])["spolia"]["documents"][0]["reused"] > 0


def test_a_server_that_only_reads_the_store_deletes_nothing(start, tmp_path):
    """Two servers share a store: the second refuses, and names neither the folder nor the process."""
    writer = start("--reuse", "full", "--store", tmp_path / "store")
    register(writer, "a", OTHER)
    reader = start("--reuse", "full", "--store", tmp_path / "store")
    assert send(reader, "GET", "/v1/documents/a")[0] == 200
    status, answer = send(reader, "DELETE", "/v1/documents/a")
    assert status == 409 and answer["error"]["code"] == "store_read_only", answer
    said = answer["error"]["message"]
    assert str(tmp_path) not in said and str(writer.process.pid) not in said
    assert send(reader, "GET", "/v1/documents/a")[0] == 200  # it is as it was
    assert send(writer, "DELETE", "/v1/documents/a")[0] == 200
    assert send(reader, "GET", "/v1/documents/a")[0] == 404


# -- a damaged file --------------------------------------------------------------------------------


def test_damaged_documents_are_repaired(start, tmp_path):
    """The server names the command; the command saves what can be read, names the rest, and the server starts."""
    file = tmp_path / "documents.db"
    server = start("--documents", file)
    for i in range(30):
        register(server, f"doc-{i}", f"{STORY} Chapter{i} " + "long " * 900)
    assert server.stop() == 0
    data = bytearray(file.read_bytes())
    at = data.index(b"Chapter17") & ~4095
    data[at:at + 4096] = bytes(4096)
    file.write_bytes(data)

    said = refuse("serve", "-m", MODEL, "--port", "0", "--documents", file, naming=["documents.db", "malformed"])
    assert f"spolia documents repair {file}" in said and "spolia index" not in said
    done = run("documents", "repair", "--json", file)
    o = json.loads(done.stdout)
    lost = [d["id"] for d in o["lost"]]
    assert done.returncode == 1 and o["saved"] + len(lost) == 30 and 1 <= len(lost) <= 4, o
    assert "doc-17" in lost
    assert (tmp_path / "documents.db.damaged").read_bytes() == data

    server = start("--documents", file)
    there = {d["id"] for d in send(server, "GET", "/v1/documents")[1]["data"]}
    assert there == {f"doc-{i}" for i in range(30)} - set(lost)
    assert server.stop() == 0
    assert json.loads(succeed("documents", "repair", "--json", file))["whole"] is True


def test_a_long_registration_does_not_undo_a_later_one(server):
    """Nor what the later one has had computed. The long one is being cut when the other arrives."""
    long = " ".join(f"harbour{i}" for i in range(200000))

    def put(text, ended, **more):
        status, o = send(server, "PUT", "/v1/documents/raced", {"text": text, **more})
        assert status == 201 and o["id"] == "raced", o
        ended.append(time.monotonic())

    for wait in (0.3, 0.6, 1.2, 2.4, 4.8): # until the long one has arrived, on a busy machine
        first, second = [], []
        thread = threading.Thread(target=put, args=(long, first))
        thread.start()
        time.sleep(wait)
        put(STORY, second, precompute=True)
        thread.join()
        o = send(server, "GET", "/v1/documents/raced")[1]
        if second < first and o["bytes"] == len(STORY):
            break
    assert second < first and o["bytes"] == len(STORY) and o["precompute"]["status"] in ("queued", "running", "done"), o
    send(server, "DELETE", "/v1/documents/raced")


def test_documents_that_cannot_be_read_are_rebuilt(start, tmp_path):
    file = tmp_path / "documents.db"
    server = start("--documents", file)
    register(server, "a", STORY)
    assert server.stop() == 0
    file.write_bytes(b"noise" * 20 + file.read_bytes()[100:])
    refuse("documents", "repair", file, naming=[f"spolia documents rebuild {file}"])
    succeed("documents", "rebuild", file)
    server = start("--documents", file)
    assert send(server, "GET", "/v1/documents")[1]["data"] == []
    refuse("documents", "repair", tmp_path / "none.db", naming=["none.db"])
    assert not (tmp_path / "none.db").exists()
