"""`serve --collection`: chats answered from a folder, by field or by the model's name."""
import pytest
from conftest import refuse, succeed
from test_server import MODEL, Server, chat

FILES = {"velm/harbour.md": "# Harbour\n\nThe harbour of Velm was built in 1870. It has room for forty boats.\n",
         "velm/light.md": "# Lighthouse\n\nThe lighthouse of Velm is kept by Anna Berg, who came in 1931.\n",
         "torin.txt": "Torin has two hotels, the Swan and the Anchor, and neither is open in winter.\n",
         "ferry.txt": "The ferry to Torin leaves Velm at nine in the morning, in summer twice a day.\n"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    home = tmp_path_factory.mktemp("docs")
    for name, text in FILES.items():
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text(text)
    return home


@pytest.fixture(scope="module")
def server(folder, tmp_path_factory):
    ready = tmp_path_factory.mktemp("index") / "ready.db"
    succeed("index", folder / "velm", "-o", ready, "--quiet")
    s = Server("--reuse", "full", "--collection", f"docs={folder}", "--collection", f"ready={ready}")
    yield s
    assert s.stop() == 0, s.said
    assert "Sanitizer" not in s.said, s.said


def told(server, question, **more):
    status, o = server.call("/v1/chat/completions", chat(question, **more))
    assert status == 200, o
    return o["spolia"]


def test_a_chat_is_answered_from_a_collection(server):
    first = told(server, "Who keeps the lighthouse of Velm?", collection="docs", top_k=2)
    assert len(first["documents"]) == 2 and "velm/light.md" in [d["id"] for d in first["documents"]]
    assert first["retrieval"]["collection"] == "docs" and first["retrieval"]["found"] == 2
    assert first["retrieval"]["search_ms"] > 0
    again = told(server, "Since when is the lighthouse of Velm kept?", collection={"name": "docs", "top_k": 2}, top_k=40)
    assert any(d["from"] == "memory" for d in again["documents"])
    assert told(server, "zzz qqq", collection="docs")["documents"] == []


def test_the_order_of_the_index(server):
    """Equal sets share a prefix, whatever the question ranks first."""
    orders = {tuple(d["id"] for d in told(server, q, collection="docs")["documents"]) for q in (
        "Velm lighthouse harbour boats, ferry to Torin hotels", "hotels of Torin, ferry, Velm harbour lighthouse")}
    assert orders == {("ferry.txt", "torin.txt", "velm/harbour.md", "velm/light.md")}


def test_a_model_name_is_enough(server):
    ids = [m.id for m in server.client().models.list()]
    assert ids == [MODEL.name, f"docs@{MODEL.name}", f"ready@{MODEL.name}"]
    assert server.call(f"/v1/models/docs@{MODEL.name}")[0] == 200
    ask = {"messages": [{"role": "user", "content": "Which hotels has Torin?"}], "max_tokens": 4}
    assert server.client().chat.completions.create(model="docs@any", **ask).spolia["documents"][0]["id"]
    status, o = server.call("/api/chat", {"model": "ready@m", "stream": False, "messages": ask["messages"], "options": {"top_k": 40}})
    assert status == 200 and "message" in o
    assert "retrieval" not in server.client().chat.completions.create(model="any", **ask).spolia
    given = told(server, "Which hotels?", collection="docs", top_k=1, documents=[{"id": "mine", "text": "A text of my own."}])
    assert [d["id"] for d in given["documents"]] == ["mine", "torin.txt"]


def test_what_is_wrong_is_named(server, folder, tmp_path):
    for body, param in ((chat(collection="none"), "collection"), (chat(collection=3), "collection"),
                        (chat(collection={"top_k": 3}), "collection.name"), (chat(collection="docs", top_k=0), "collection.top_k"),
                        (chat(collection={"name": "docs", "top_k": 5000}), "collection.top_k")):
        status, o = server.call("/v1/chat/completions", body)
        assert status == 400 and o["error"]["param"] == param, o
    status, o = server.call("/v1/completions", {"prompt": "x", "collection": "docs"})
    assert status == 400 and o["error"]["param"] == "collection"
    serve = ["serve", "-m", MODEL, "--port", "0", "--collection"]
    refuse(*serve, f"docs {folder}", naming=("NAME=PATH",))
    refuse(*serve, f"a/b={folder}", naming=("a/b",))
    refuse(*serve, "docs=/nowhere", naming=("/nowhere",))
    refuse(*serve, f"docs={folder}", "--collection", f"docs={folder}", naming=("docs", "twice"))
