"""`serve --collection`: chats answered from a folder, by field or by the model's name."""
import pytest
from conftest import refuse, run, succeed
from serving import MODEL, Server, chat
from test_server_documents import send

from reference import encoder

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
    with Server("--reuse", "full", "--collection", f"docs={folder}", "--collection", f"ready={ready}") as s:
        yield s


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


@pytest.mark.parametrize("name", ["filter", "filters"])
def test_a_filter_beside_the_collection_holds(server, name):
    """Beside a name, beside an object, in the object, and beside a model's name."""
    for where in ({"collection": "docs", name: {"file": "velm"}}, {"collection": {"name": "docs"}, name: {"file": "velm"}},
                  {"collection": {"name": "docs", name: {"file": "velm"}}}, {"model": "docs@any", name: {"file": "velm"}}):
        found = told(server, "the ferry, the lighthouse and the harbour of Velm", **where)["documents"]
        assert found and all(d["id"].startswith("velm/") for d in found), where


@pytest.mark.parametrize("more, param", [
    ({"collection": {"name": "docs", "filter": {"file": "velm"}}, "filter": {"file": "torin.txt"}}, "filter"),
    ({"collection": {"name": "docs"}, "filter": 7}, "filter"), ({"collection": {"name": "docs"}, "rerank": "yes"}, "rerank"),
    ({"collection": "docs", "filter": {"file": "velm"}, "filters": {"file": "torin.txt"}}, "filter"),
    ({"collection": {"name": "docs", "filter": {"file": "velm"}, "filters": {"file": "torin.txt"}}}, "collection.filter")])
def test_filters_that_contradict_are_refused(server, more, param):
    status, e = server.call("/v1/chat/completions", chat("Who?", **more))
    assert status == 400 and e["error"]["param"] == param, e


def test_ranking_is_asked_for_beside_the_collection(server):
    for where in ({"collection": {"name": "docs"}}, {"model": "docs@any"}):
        assert told(server, "Who keeps the lighthouse of Velm?", **where, rerank=True)["retrieval"]["ranked"] > 0


def test_the_order_of_the_index(server):
    """Equal sets share a prefix, whatever the question ranks first."""
    orders = {tuple(d["id"] for d in told(server, q, collection="docs")["documents"]) for q in (
        "Velm lighthouse harbour boats, ferry to Torin hotels", "hotels of Torin, ferry, Velm harbour lighthouse")}
    assert orders == {("ferry.txt", "torin.txt", "velm/harbour.md", "velm/light.md")}


def test_passages_are_ranked_again(server):
    """The best two of all that were found, as /v1/rerank has them, in the order of the index."""
    differ = 0
    for question in ("Who keeps the lighthouse of Velm?", "When does the ferry to Torin leave Velm?", "Is a hotel of Torin open?"):
        found = told(server, question, collection="docs", top_k=4, citations=True)["documents"] # with their texts
        status, o = server.call("/v1/rerank", {"query": question, "documents": [d["text"] for d in found], "top_n": 2})
        assert status == 200, o
        best = [found[i]["id"] for i in sorted(r["index"] for r in o["results"])]
        ranked = told(server, question, collection="docs", top_k=2, rerank=True)
        assert [d["id"] for d in ranked["documents"]] == best
        assert ranked["retrieval"]["ranked"] == len(found) and ranked["retrieval"]["rank_ms"] > 0 and ranked["retrieval"]["found"] == 2
        differ += best != [d["id"] for d in told(server, question, collection="docs", top_k=2)["documents"]]
        assert told(server, question, collection={"name": "docs", "top_k": 2, "rerank": True})["documents"][0]["id"] == best[0]
        eager = told(server, question, collection={"name": "docs", "top_k": 2, "rerank": True, "ahead": True})
        assert [d["id"] for d in eager["documents"]] == best
        assert eager["retrieval"]["begun_ahead"] == eager["retrieval"]["wrong"] == 0 and eager["retrieval"]["stages"] == 1
    assert differ, "ranking changes nothing"
    assert told(server, "zzz qqq", collection="docs", rerank=True)["documents"] == []
    assert server.call("/v1/chat/completions", chat("x", collection="docs", rerank=3))[0] == 400
    status, e = server.call("/v1/chat/completions", chat("Who keeps the lighthouse? " * 1000, collection="docs", rerank=True))
    assert status == 400 and e["error"]["code"] == "context_length_exceeded", e


def test_a_model_name_that_names_no_collection_is_any_model_name(server):
    ask = {"messages": [{"role": "user", "content": "Who keeps the lighthouse?"}], "max_tokens": 1}
    for name in ("nowhere@any", "org/model@main", "@", "docs"):
        status, answer = server.call("/v1/chat/completions", {**ask, "model": name})
        assert status == 200 and "retrieval" not in answer["spolia"], (name, answer)


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


def test_the_number_of_passages_is_not_that_of_sampling(server):
    ask = {"collection": "docs", "top_k": 1, "temperature": 2, "max_tokens": 8, "ignore_eos": True}
    said = {server.call("/v1/chat/completions", chat("Which hotels?", **ask, seed=seed))[1]["choices"][0]["message"]["content"]
            for seed in range(4)}
    assert len(said) > 1, said  # of the one likeliest token they would be equal
    ask = {"messages": [{"role": "user", "content": "Which hotels?"}], "stream": False, "options": {"top_k": 40, "num_predict": 2}}
    for path in ("/api/chat", "/api/generate"):  # Ollama's is in "options"
        for passages in ({}, {"top_k": 1}):
            status, o = server.call(path, {**ask, "prompt": "Which hotels?", "collection": "docs", **passages})
            assert status == 200 and o["spolia"]["retrieval"]["top_k"] == passages.get("top_k", 5), o


def test_what_is_wrong_is_named(server, folder, tmp_path):
    for body, param in ((chat(collection="none"), "collection"), (chat(collection=3), "collection"),
                        (chat(collection={"top_k": 3}), "collection.name"), (chat(collection="docs", top_k=0), "top_k"),
                        (chat(collection="docs", filter=3), "filter"), (chat(collection={"name": "docs", "filter": 3}), "collection.filter"),
                        (chat(collection={"name": "docs", "top_k": 5000}), "collection.top_k")):
        status, o = server.call("/v1/chat/completions", body)
        assert status == 400 and o["error"]["param"] == param, o
    status, o = server.call("/v1/completions", {"prompt": "x", "collection": "docs"})
    assert status == 400 and o["error"]["param"] == "collection"
    serve = ["serve", "-m", MODEL, "--port", "0", "--collection"]
    refuse(*serve, f"docs {folder}", naming=("NAME=PATH",), code=2)
    refuse(*serve, f"{64 * 'n'}={folder}/none", naming=("no such file",))
    refuse(*serve, f"{65 * 'n'}={folder}", naming=("NAME=PATH",), code=2)
    refuse(*serve, f"a/b={folder}", naming=("a/b",), code=2)
    refuse(*serve, "docs=/nowhere", naming=("/nowhere",))
    refuse(*serve, f"docs={folder}", "--collection", f"docs={folder}", naming=("docs", "twice"), code=2)


# -- answers that begin while their passages are searched for ------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return encoder.write_folder(tmp_path_factory.mktemp("encoder") / "tiny-encoder", longest=32)


QUESTIONS = ["Who keeps the lighthouse of Velm?", "Which hotels has Torin?", "When does the ferry leave?", "harbour boats 1870"]


@pytest.mark.parametrize("stream", (False, True))
def test_beginning_ahead_never_changes_an_answer(stream, tiny, folder, start):
    """Sampled answers with a seed are equal to the letter, whatever was begun and given up before (R7)."""
    begun = wrong = 0
    s = start("--embedding", tiny, "--collection", f"docs={folder}")
    for k in (1, 2, 3):
        for question in QUESTIONS:
            answers = []
            for ahead in (False, True):
                more = {"collection": {"name": "docs", "top_k": k, "ahead": ahead}, "temperature": 0.8, "seed": k, "max_tokens": 16}
                if stream:
                    events = list(s.client().chat.completions.create(model="m", messages=[{"role": "user", "content": question}],
                                  stream=True, temperature=0.8, seed=k, max_tokens=16, extra_body={"collection": more["collection"]}))
                    account = events[-1].spolia
                    text = "".join(e.choices[0].delta.content or "" for e in events if e.choices)
                else:
                    o = s.call("/v1/chat/completions", chat(question, **more))[1]
                    account, text = o["spolia"], o["choices"][0]["message"]["content"]
                answers.append((text, [d["title"] for d in account["documents"]]))
                told = account["retrieval"]
                assert told["exposed_ms"] <= told["search_ms"] + 1e-3 and told["wrong"] <= told["begun_ahead"]
                assert ahead or told["begun_ahead"] == 0
                begun += told["begun_ahead"]
                wrong += told["wrong"]
            assert answers[0] == answers[1], question
    assert begun >= 12 and 0 < wrong < begun, (begun, wrong)  # right ones and wrong ones
    assert s.metric("retrieval_begun_ahead_total") == begun and s.metric("retrieval_wrong_total") == wrong
    assert s.metric("retrieval_searches_total") == 24 and s.metric("num_requests_running") == 0
    exposed, all_of_it = s.metric("retrieval_exposed_seconds_total"), s.metric("retrieval_search_seconds_total")
    assert 0 < exposed < all_of_it
    assert s.metric('request_success_total{finished_reason="canceled"}') == 0  # what was given up is no request of anybody


def test_nothing_begins_ahead_while_the_pool_is_full(tiny, folder, start):
    s = start("--embedding", tiny, "--collection", f"docs={folder}", "--ahead", 0)
    assert told(s, QUESTIONS[0], collection={"name": "docs", "ahead": True})["retrieval"]["begun_ahead"] == 0
    assert told(s, QUESTIONS[0], collection="docs")["retrieval"]["begun_ahead"] == 0


def documents(server, path="", status=200):
    got, o = server.call(f"/v1/collections/docs/documents{path}")
    assert got == status, o
    return o


def test_the_files_of_a_folder_are_listed(start, folder):
    """As documents of an uploaded collection are: in pages, one by one; what changes them is refused."""
    server = start("--collection", f"docs={folder}")
    data = documents(server)["data"]
    assert [d["id"] for d in data] == sorted(FILES) and [d["file"] for d in data] == sorted(FILES)
    assert [d["bytes"] for d in data] == [len(FILES[name]) for name in sorted(FILES)]
    assert all(d["chunks"] == 1 and d["tags"] == [] and d["collection"] == "docs" and d["object"] == "document" for d in data)
    assert abs(data[0]["created"] - (folder / "ferry.txt").stat().st_mtime) < 2
    page = documents(server, "?limit=2&after=ferry.txt")
    assert [d["id"] for d in page["data"]] == ["torin.txt", "velm/harbour.md"] and page["has_more"]
    assert not documents(server, "?after=torin.txt&limit=2")["has_more"]
    assert documents(server, "/velm/light.md") == data[3]
    assert documents(server, "/velm", 404)["error"]["code"] == "document_not_found"
    documents(server, "?limit=0", 400)
    for method in ("DELETE", "PUT", "PATCH"):
        for path in ("", "/documents/torin.txt"):
            status, o = send(server, method, f"/v1/collections/docs{path}", {"text": "x"})
            assert (status, o["error"]["code"]) == (409, "collection_read_only")


def test_a_collection_may_be_one_file(start, tmp_path):
    """Also one that begins with a part of what files of SQLite begin with."""
    (tmp_path / "database.md").write_text("SQLite format: the catalogue of Velm is one file of the harbour office.\n")
    data = documents(start("--collection", f"docs={tmp_path / 'database.md'}"))["data"]
    assert [(d["id"], d["chunks"]) for d in data] == [("database.md", 1)]


def test_files_have_the_tags_of_their_folder(start, folder, tmp_path):
    """`.tags` names files and folders; bad lines are named and skipped; `spolia search --tag` and filters ask for tags."""
    for name, text in FILES.items():
        (tmp_path / "docs" / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / "docs" / name).write_text(text)
    tags = tmp_path / "docs/.tags"
    tags.write_text("# tags of the tests\nvelm/: velm, sea\n\nferry.txt: sea, boats\n.: all\nno colon here\nvelm/light.md:  light \n")
    index = tmp_path / "docs.db"
    done = run("index", tmp_path / "docs", "-o", index)
    assert done.returncode == 0 and ".tags:6: not NAME: TAG" in done.stderr, done.stderr
    server = start("--collection", f"docs={index}")
    assert {d["id"]: d["tags"] for d in documents(server)["data"]} == {
        "ferry.txt": ["all", "boats", "sea"], "torin.txt": ["all"], "velm/harbour.md": ["all", "sea", "velm"],
        "velm/light.md": ["all", "light", "sea", "velm"]}
    question = "Velm harbour lighthouse, ferry to Torin hotels"

    def found(**given):
        status, o = server.call("/v1/search", {"query": question, "collection": "docs", "filter": given})
        assert status == 200, o
        return sorted(h["document"] for h in o["data"])
    assert found(tag="sea") == ["ferry.txt", "velm/harbour.md", "velm/light.md"] and found(tag="light") == ["velm/light.md"]
    assert found(tag=["light", "boats"]) == ["ferry.txt", "velm/light.md"] and found(tag="none") == []
    assert found(tag="sea", file="velm") == ["velm/harbour.md", "velm/light.md"] and found(tag="boats", file="velm") == []
    assert found(file=["velm", "velm/light.md"]) == ["velm/harbour.md", "velm/light.md"]  # each once
    got = told(server, question, collection="docs", filter={"tag": "light"})["documents"]
    assert [d["id"] for d in got] == ["velm/light.md"]
    tags.write_text("torin.txt: torin\n")
    succeed("index", "-o", index, "--quiet")
    assert "torin.txt" in succeed("search", "-i", index, "--tag", "torin", "--json", question)
    assert run("search", "-i", index, "--tag", "sea", question).returncode == 3
    tags.unlink()
    succeed("index", "-o", index, "--quiet")
    assert run("search", "-i", index, "--tag", "torin", question).returncode == 3
