"""`GET /v1/copies`: what is cached, as a tree to walk."""
import itertools
import json
import threading
import time
import traceback
import urllib.request

import pytest
from jsonschema import Draft202012Validator

from test_json import SCHEMAS
from serving import Server, chat, documents

SYSTEM = {"role": "system", "content": "Answer briefly."}


def ask(server, name="Velm", key=None, **more):
    body = chat(documents=documents(name), max_tokens=1, **more)
    body["messages"].insert(0, SYSTEM)
    status, o = server.call("/v1/chat/completions", body, key)
    assert status == 200, o


def listed(server, key=None, **query):
    """All of a level, page by page."""
    data, more = [], True
    while more:
        text = "&".join(f"{k}={v}" for k, v in query.items())
        status, page = server.call("/v1/copies?" + text, key=key)
        assert status == 200, page
        Draft202012Validator(SCHEMAS["copies"]).validate(page)
        data += page["data"]
        more = page["has_more"]
        query["after"] = page.get("next")
    assert len({c["name"] for c in data}) == len(data)
    return data


def one(copies, words, kind):
    found = [c for c in copies if words in c["text"] and c["kind"] == kind]
    assert len(found) == 1, copies
    return found[0]


def test_chunks_are_below_the_system_prompt(start):
    s = start("--reuse", "full")
    ask(s)
    ask(s)
    top = listed(s)
    head = one(top, "Answer briefly.", "path")
    below = listed(s, parent=head["name"])
    assert head["below"] == len(below)
    keeper, boats = (one(below, words, "plain") for words in ("Anna Berg", "forty boats"))
    for copy in (head, boats):
        assert copy["tiers"] == ["memory"] and copy["exact"] and copy["tokens"] > 0 and copy["uses"] >= 2
    assert keeper["below"] == 0 and keeper["tiers"] == ["memory"]


def test_a_cost_is_a_part_of_the_time_of_its_request(start):
    s = start("--reuse", "full")
    begin = time.monotonic()
    ask(s)
    passed_ms = 1000 * (time.monotonic() - begin)
    head = one(listed(s), "Answer briefly.", "path")
    costs = [c["cost_ms"] for c in [head, *listed(s, parent=head["name"])] if c["cost_ms"] is not None]
    assert costs and all(0 < c <= passed_ms for c in costs), (costs, passed_ms)


def test_a_prefix_is_a_path_of_chunks(start):
    s = start("--reuse", "prefix")
    ask(s)
    head = one(listed(s), "Answer briefly.", "path")
    keeper = one(listed(s, parent=head["name"]), "Anna Berg", "path")
    boats = one(listed(s, parent=keeper["name"]), "forty boats", "path")
    assert boats["exact"] and boats["below"] >= 1 # the question


def test_pages(start):
    s = start("--reuse", "full")
    for i in range(20):
        ask(s, name=f"town{i}")
    head = one(listed(s), "Answer briefly.", "path")
    all_of_it = listed(s, parent=head["name"], limit=1000)
    assert listed(s, parent=head["name"], limit=7) == all_of_it
    assert head["below"] == len(all_of_it) >= 21
    assert [c["uses"] for c in all_of_it] == sorted((c["uses"] for c in all_of_it), reverse=True)


def test_after_a_restart_the_store_is_walked(start, tmp_path):
    s = start("--reuse", "full", "--store", tmp_path)
    ask(s)
    head = one(listed(s), "Answer briefly.", "path")
    before = one(listed(s, parent=head["name"]), "Anna Berg", "plain")
    assert s.stop() == 0
    s = start("--reuse", "full", "--store", tmp_path)
    again = one(listed(s), "Answer briefly.", "path")
    assert (again["name"], again["tiers"]) == (head["name"], ["disk"])
    copies = {c["id"]: c for c in listed(s, parent=head["name"])}
    stored = copies[before["id"]]
    assert stored["tiers"] == ["disk"] and stored["tokens"] == before["tokens"] and stored["exact"] and not stored["text"]
    ask(s)
    assert one(listed(s, parent=head["name"]), "Anna Berg", "plain")["tiers"] == ["memory", "disk"]


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    keys = tmp_path_factory.mktemp("copies") / "keys"
    keys.write_text("a-key\nb-key\n")
    with Server("--reuse", "full", "--api-keys", str(keys)) as s:
        yield s


def test_tenants_see_their_own(keyed):
    assert keyed.call("/v1/copies")[0] == 401
    ask(keyed, key="a-key")
    mine = one(listed(keyed, key="a-key"), "Answer briefly.", "path")
    assert mine["below"] >= 2
    assert listed(keyed, key="b-key") == []
    assert keyed.call(f"/v1/copies?parent={mine['name']}", key="b-key")[0] == 404
    ask(keyed, key="b-key")
    theirs = one(listed(keyed, key="b-key"), "Answer briefly.", "path")
    assert theirs["name"] != mine["name"]
    ask(keyed, key="a-key", cache_salt="part")
    part = one(listed(keyed, key="a-key", cache_salt="part"), "Answer briefly.", "path")
    assert part["name"] not in (mine["name"], theirs["name"])


@pytest.mark.parametrize("query,param", [("parent=x", "parent"), ("parent=0", "parent"), ("parent=-1", "parent"), ("limit=0", "limit"),
                                         ("limit=1001", "limit"), ("limit=ten", "limit"), ("after=1", "after"),
                                         ("after=1-", "after"), ("after=-1-1", "after")])
def test_what_cannot_be_is_refused(keyed, query, param):
    status, o = keyed.call("/v1/copies?" + query, key="a-key")
    assert status == 400 and o["error"]["param"] == param


def test_an_unknown_parent_is_not_found(keyed):
    status, o = keyed.call("/v1/copies?parent=123456789abcdef1", key="a-key")
    assert status == 404 and o["error"]["code"] == "copy_not_found"


def begin_and_hang_up(s, i):
    """A stream whose client leaves: at once, or after the first bytes."""
    body = json.dumps(chat(f"Question {i}?", documents=documents(f"town{i % 5}"), max_tokens=64, ignore_eos=True, stream=True)).encode()
    with s.socket() as c:
        c.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                  b"Content-Length: %d\r\n\r\n" % len(body) + body)
        if i % 2:
            c.recv(400)


def test_lists_while_requests_come_and_go(start, tmp_path):
    """Copies and requests are listed while others run, are cut off, and while documents come, are computed and deleted: what
    `make tsan` and `make asan` look at."""
    s = start("--reuse", "full", "--store", tmp_path, "--kv-memory", 16, "--parallel", 3)
    over, wrong, seen = threading.Event(), [], {"requests": 0, "copies": 0}

    def repeat(work):
        try:
            for i in itertools.count():
                if over.is_set():
                    return
                work(i)
        except Exception:
            wrong.append(traceback.format_exc())

    def use_documents(i):
        name = f"paper{i % 3}"
        assert s.call("/v1/documents", {"id": name, "text": f"Paper {i} is about boats. " * 40, "replace": True})[0] == 201
        assert s.call(f"/v1/documents/{name}/precompute", {})[0] in (202, 400)
        r = urllib.request.Request(f"{s.url}/v1/documents/{name}", method="DELETE")
        assert urllib.request.urlopen(r, timeout=300).status in (200, 202)

    def look_at_requests(i):
        status, o = s.call("/v1/requests")
        assert status == 200 and all(r["computed"] <= r["to_compute"] for r in o["data"])
        seen["requests"] += len(o["data"])

    def look_at_copies(i):
        for head in s.call("/v1/copies?limit=3")[1]["data"]:
            status, below = s.call(f"/v1/copies?parent={head['name']}&limit=5")
            assert status in (200, 404) # it was dropped meanwhile
            seen["copies"] += len(below.get("data", []))

    work = (lambda i: ask(s, f"town{i % 7}"), lambda i: begin_and_hang_up(s, i), use_documents, look_at_requests, look_at_copies,
            lambda i: s.metric("num_requests_running"))
    threads = [threading.Thread(target=repeat, args=(w,)) for w in work]
    for t in threads:
        t.start()
    begin = time.monotonic()
    while not wrong and (time.monotonic() - begin < 6 or min(seen.values()) < 40) and time.monotonic() - begin < 300:
        time.sleep(0.2) # with a sanitizer it takes longer until much was listed
    over.set()
    for t in threads:
        t.join()
    assert not wrong, wrong[0]
    assert seen["requests"] > 10 and seen["copies"] > 10, seen
    assert s.stop() == 0, s.said
    assert "Sanitizer" not in s.said, s.said
