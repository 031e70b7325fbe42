"""\"citations\": true: which documents each sentence of an answer looks at."""
import json

import pytest

DOCUMENTS = [{"id": "ferry", "title": "Ferry", "text": "Boats leave Velm at nine and return at noon."},
             {"id": "hotel", "title": "Hotel", "text": "Torin has two hotels, the Swan and the Anchor."}, "The pier is closed."]


def body(**fields):
    return {"messages": [{"role": "user", "content": "When do boats leave Velm?"}], "documents": DOCUMENTS, "max_tokens": 40, "seed": 5,
            "temperature": 1.2, "ignore_eos": True, **fields}


def check(choice, text):
    sentences = choice["citations"]
    data = text.encode()
    assert [s["start"] for s in sentences] == [0] + [s["end"] for s in sentences[:-1]] and sentences[-1]["end"] == len(data)
    for s in sentences:
        masses = [x["mass"] for x in s["sources"]]
        assert masses, s  # one document at least has its share
        assert masses == sorted(masses, reverse=True) and all(1 / 3 - 1e-9 <= m <= 1 for m in masses) and sum(masses) <= 1 + 1e-6
        for x in s["sources"]:
            d = DOCUMENTS[x["document"]]
            assert x["chunk"] == 0 and x.get("id") == (d["id"] if isinstance(d, dict) else None)


def test_whole_answers(server):
    status, reply = server.call("/v1/chat/completions", body(citations=True, n=2))
    assert status == 200
    for choice in reply["choices"]:
        check(choice, choice["message"]["content"])
    rated = [d["attention"] for d in reply["spolia"]["documents"]]
    assert sum(rated) == pytest.approx(1) and all(x >= 0 for x in rated)
    assert [d["text"] for d in reply["spolia"]["documents"]] == [d["text"] if isinstance(d, dict) else d for d in DOCUMENTS]
    without = server.call("/v1/chat/completions", body(n=2))[1]
    assert [c["message"]["content"] for c in without["choices"]] == [c["message"]["content"] for c in reply["choices"]]
    assert "citations" not in without["choices"][0]


def test_streams_have_them_in_the_last_event(server):
    status, sent = server.call("/v1/chat/completions", body(citations=True, stream=True))
    events = [json.loads(line[6:]) for line in sent.splitlines() if line.startswith("data: {")]
    assert status == 200
    text = "".join(e["choices"][0]["delta"].get("content") or "" for e in events)
    assert all("citations" not in e["choices"][0] for e in events[:-1])
    check(events[-1]["choices"][0], text)


def test_sentences_end_at_their_signs(server):
    sentences = ["Boats leave. ", "At 3.14 or so! ", "So? ", "是。", "不！", "吗？", "Ok\n\n", "End"]
    whole = body(citations=True, max_tokens=200, structured_outputs={"choice": ["".join(sentences)]})
    del whole["ignore_eos"]
    choice = server.call("/v1/chat/completions", whole)[1]["choices"][0]
    data = choice["message"]["content"].encode()
    assert [data[s["start"]:s["end"]].decode() for s in choice["citations"]] == sentences


def test_without_documents_nothing_is_cited(server):
    reply = server.call("/v1/chat/completions", {**body(citations=True), "documents": []})[1]
    assert all(s["sources"] == [] for s in reply["choices"][0]["citations"])
    assert server.call("/v1/chat/completions", body(citations="yes"))[1]["error"]["param"] == "citations"


def test_chunks_of_a_registered_document_are_numbered(server):
    text = "\n\n".join(f"Chapter {i}: " + f"the boat number {i} leaves the harbour of Velm at {i} o'clock. " * 12 for i in range(6))
    assert server.call("/v1/documents", {"id": "book", "title": "Book", "text": text})[0] in (200, 201)
    reply = server.call("/v1/chat/completions", {**body(citations=True), "documents": [{"id": "book"}]})[1]
    sources = [x for s in reply["choices"][0]["citations"] for x in s["sources"]]
    assert {x["id"] for x in sources} == {"book"} and len({x["chunk"] for x in sources}) > 1
    assert all(x["chunk"] == x["document"] for x in sources)


def test_measuring_changes_no_bits_of_a_tree(start):
    """Short nodes are attended to together, but are measured one by one: what is kept of a measured prompt is exact, too."""
    server = start("--reuse", "prefix")
    trees = [{"type": "tree", "paths": [["Anna", "keeps", "light", "is in", "Velm"], ["Velm", "^is in", "pier"]]},
             {"type": "list", "items": ["Boats leave at nine.", "Torin has two hotels."]}, DOCUMENTS[0]]

    def ask(salt, **more):
        o = server.call("/v1/chat/completions", body(documents=trees, temperature=0, max_tokens=8, logprobs=True, cache_salt=salt, **more))[1]
        return [t["logprob"] for t in o["choices"][0]["logprobs"]["content"]], o["usage"]["prompt_tokens_details"]["cached_tokens"], o
    plain, _, _ = ask("a")
    cited, cached, o = ask("b", citations=True)
    assert cited == plain and cached == 0 and o["choices"][0]["citations"]
    reused, cached, _ = ask("b")
    assert reused == plain and cached > 0
