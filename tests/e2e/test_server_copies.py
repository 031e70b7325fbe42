"""`GET /v1/copies`: what is cached, as a tree to walk."""
import pytest
from jsonschema import Draft202012Validator

from test_json import SCHEMAS
from test_server import Server, chat, documents, start  # noqa: F401 (a fixture)

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
    s = Server("--reuse", "full", "--api-keys", str(keys))
    yield s
    assert s.stop() == 0, s.said


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
