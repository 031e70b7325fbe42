"""/v1/rerank, /v1/score and Embedder.score: equal to sentence-transformers' cross-encoders, and to float64."""
import json
import os
import re
import sys
import time

import pytest
from conftest import ROOT, refuse
from serving import MODEL, Server

from reference import encoder

GOLDEN = json.loads((ROOT / "tests/golden/cross-encoders.json").read_text())


@pytest.fixture(scope="module", params=["bert", "xlm-roberta"])
def family(request):
    return request.param


@pytest.fixture(scope="module")
def folder(family, tmp_path_factory):
    return encoder.write_cross_encoder(tmp_path_factory.mktemp("cross") / "tiny-cross", family)


@pytest.fixture(scope="module")
def server(folder):
    with Server("--reranker", folder) as s:
        yield s


@pytest.fixture(scope="module")
def chat_server():
    with Server("--parallel", "4") as s:
        yield s


def score(server, pairs, **fields):
    reply = server.call("/v1/score", {"text_1": [a for a, _ in pairs], "text_2": [b for _, b in pairs], **fields})
    assert reply[0] == 200, reply
    assert [d["index"] for d in reply[1]["data"]] == list(range(len(pairs)))
    return [d["score"] for d in reply[1]["data"]]


def test_scores_equal_sentence_transformers(server, family):
    rows = [r for r in GOLDEN if r["family"] == family]
    assert score(server, [r["pair"] for r in rows]) == pytest.approx([r["score"] for r in rows], abs=1e-5)
    assert max(r["score"] for r in rows) - min(r["score"] for r in rows) > 0.1


def test_scores_equal_the_definition(folder, family, server):
    reference = encoder.CrossEncoder(folder)
    pairs = [[" ".join(encoder.PIECES[i:i + n % 13 + 1]), " ".join(encoder.PIECES[n % 7:n])] for i, n in enumerate(range(9, 31))]
    want = [reference.score(a, b) for a, b in pairs]
    assert score(server, pairs) == pytest.approx(want, abs=1e-5)
    assert score(server, pairs[3:4]) == [score(server, pairs)[3]]  # whatever is computed with it, bit for bit


def test_rerank_orders_and_names_documents(server, folder):
    documents = ["key value", {"text": "Building a WALL of stones"}, "unbuildable rivers", "a b c"]
    texts = [d if isinstance(d, str) else d["text"] for d in documents]
    want = [encoder.CrossEncoder(folder).score("the river", t) for t in texts]
    order = sorted(range(4), key=lambda i: -want[i])
    for path in ("/v1/rerank", "/rerank", "/v2/rerank"):
        status, reply = server.call(path, {"model": "m", "query": "the river", "documents": documents})
        assert status == 200 and reply["model"] == "tiny-cross" and reply["usage"]["total_tokens"] > 20
        assert [r["index"] for r in reply["results"]] == order
        assert [r["relevance_score"] for r in reply["results"]] == pytest.approx([want[i] for i in order], abs=1e-5)
        with_text = [r.get("document") for r in reply["results"]]
        assert with_text == ([None] * 4 if path == "/v2/rerank" else [{"text": texts[i]} for i in order])
    top = server.call("/v1/rerank", {"query": "the river", "documents": documents, "top_n": 2, "return_documents": False, "rank_fields": ["text"]})[1]
    assert [r["index"] for r in top["results"]] == order[:2] and "document" not in top["results"][0]
    assert [m.id for m in server.client().models.list()] == [MODEL.name, "tiny-cross"]


def test_score_takes_one_text_or_lists(server):
    one = server.call("/score", {"text_1": "the river", "text_2": ["key", "wall"]})[1]["data"]
    same = server.call("/v1/score", {"queries": ["the river"], "documents": [{"text": "key"}, "wall"]})[1]["data"]
    assert [d["score"] for d in one] == [d["score"] for d in same] and one[0]["score"] != one[1]["score"]
    status, e = server.call("/v1/score", {"text_1": ["a", "b"], "text_2": ["a", "b", "c"]})
    assert status == 400 and "text_1 has 2 texts, text_2 has 3" in e["error"]["message"]
    assert server.call("/v1/score", {"text_1": "the river", "text_2": "wall"})[1]["data"][0]["score"] == one[1]["score"]


@pytest.mark.parametrize("path, body, param", [
    ("/v1/rerank", {"documents": ["a"]}, "query"), ("/v1/rerank", {"query": "", "documents": ["a"]}, "query"),
    ("/v1/rerank", {"query": "a"}, "documents"), ("/v1/rerank", {"query": "a", "documents": []}, "documents"),
    ("/v1/rerank", {"query": "a", "documents": ["a", 1]}, "documents"), ("/v1/rerank", {"query": "a", "documents": [{}]}, "documents"),
    ("/v1/rerank", {"query": "a", "documents": ["a"] * 2049}, "documents"), ("/v1/rerank", {"query": "a", "documents": "a"}, "documents"),
    ("/v1/rerank", {"query": "a", "documents": [{"text": "a", "body": "b"}], "rank_fields": ["text", "body"]}, "rank_fields"),
    ("/v1/rerank", {"query": "a", "documents": [{"text": "a", "title": "b"}], "rank_fields": ["title"]}, "rank_fields"),
    ("/v1/rerank", {"query": "a", "documents": ["a"], "rank_fields": "text"}, "rank_fields"),
    ("/v1/rerank", {"query": "a", "documents": ["a"], "top_n": 0}, "top_n"), ("/v1/rerank", {"query": "a", "documents": ["a", ""]}, "documents"),
    ("/v1/score", {"text_1": "", "text_2": "a"}, "text_1"),
    ("/v1/score", {"text_2": "a"}, "text_1"), ("/v1/score", {"text_1": "a"}, "text_2"),
    ("/v1/score", {"text_1": ["a", "b"], "text_2": ["a", "b", "c"]}, "text_1"), ("/v1/score", {"text_1": ["a", "b", "c"], "text_2": ["a", "b"]}, "text_1"), ("/v1/score", {"queries": 1, "documents": "a"}, "queries")])
def test_errors_name_the_field(chat_server, path, body, param):
    status, reply = chat_server.call(path, body)
    assert status == 400 and reply["error"]["param"] == param, reply


@pytest.mark.parametrize("options, path, body", [
    ((), "/v1/rerank", {"query": "Who?", "documents": [f"{i} " + "The ferry leaves. " * 60 for i in range(2048)]}),
    (("--embedding",), "/v1/embeddings", {"input": [f"{i} " + "key value " * 200 for i in range(2048)], "truncate": True})])
def test_a_client_that_leaves_is_in_the_log(tmp_path, options, path, body):
    models = [encoder.write_folder(tmp_path / "tiny-encoder", longest=256)] if options else []
    with Server(*options, *models, "--parallel", "4") as s:
        data = json.dumps(body).encode()
        c = s.socket()
        c.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                  f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
        c.settimeout(0.2)  # it is computing, or still reading: both end the same way
        with pytest.raises(TimeoutError):
            c.recv(1)
        c.close()
        end = time.time() + 300
        while not (said := s.read_log().splitlines()) or path not in said[-1]:
            assert time.time() < end
            time.sleep(0.05)
        assert f"POST {path} 499" in said[-1] and "error" not in said[-1], said[-1]


def test_the_chat_model_ranks_without_a_cross_encoder(chat_server):
    documents = [f"Chapter {i}: the ferry of Velm leaves at {i} o'clock and returns before the night." for i in range(1, 10)]
    body = {"query": "When does the ferry of Velm leave?", "documents": documents}
    first, again = (chat_server.call("/v1/rerank", body)[1] for _ in range(2))
    assert first["results"] == again["results"] and first["model"] == MODEL.name
    scores = [r["relevance_score"] for r in first["results"]]
    assert scores == sorted(scores, reverse=True) and 0 < scores[-1] < scores[0] < 1
    cached = [r["usage"]["prompt_tokens_details"]["cached_tokens"] for r in (first, again)]
    assert cached[1] > cached[0] and cached[1] > again["usage"]["total_tokens"] / 2  # passages are reused
    salted = [chat_server.call("/v1/rerank", {**body, "cache_salt": "a secret"})[1] for _ in range(2)]
    assert [r["results"] for r in salted] == [first["results"]] * 2  # another cache, the same scores
    with_salt = [r["usage"]["prompt_tokens_details"]["cached_tokens"] for r in salted]
    assert with_salt[0] < cached[1] and with_salt[1] == cached[1], (cached, with_salt)
    alone = [chat_server.call("/v1/score", {"text_1": body["query"], "text_2": d})[1]["data"][0]["score"] for d in documents]
    by_index = {r["index"]: r["relevance_score"] for r in first["results"]}
    assert alone == pytest.approx([by_index[i] for i in range(9)], rel=1e-3)
    status, reply = chat_server.call("/v1/rerank", {"query": "a", "documents": ["far too long " * 6000]})
    assert status == 400 and reply["error"]["code"] == "context_length_exceeded"
    queries = "ferry", body["query"]
    length = [len(chat_server.call("/tokenize", {"content": q})[1]["tokens"]) for q in queries]
    read = [chat_server.call("/v1/rerank", {"query": q, "documents": documents[:1]})[1]["usage"]["total_tokens"] for q in queries]
    assert read[1] - read[0] == length[1] - length[0] > 0  # the question's tokens count


def test_what_is_read_to_rank_is_of_the_tokens_of_a_minute(tmp_path):
    (tmp_path / "keys").write_text("# limits: tokens=100\none\n")
    with Server("--api-keys", tmp_path / "keys") as s:
        body = {"query": "When does the ferry leave?", "documents": ["The ferry of Velm leaves at nine. " * 20]}
        status, reply = s.call("/v1/rerank", body, "one")
        assert status == 200 and reply["usage"]["total_tokens"] > 100, reply
        status, reply = s.call("/v1/rerank", body, "one")
        assert status == 429 and "100 tokens a minute" in reply["error"]["message"], reply


@pytest.mark.parametrize("n", [1, 5, 20])
def test_documents_are_cut_to_tokens(server, folder, n):
    tokenizer = encoder.CrossEncoder(folder).tokenizer
    words = "the river wall stones key value building a wall b c the river the key " * 3

    def ids(text):
        return tokenizer.encode(text, add_special_tokens=False).ids
    k = max(k for k in range(len(words) + 1) if ids(words[:k]) == ids(words)[:n])
    body = {"query": "the river", "documents": [words, words[:k]]}

    def rank(n):
        status, reply = server.call("/v1/rerank", {**body, "max_tokens_per_doc": n})
        assert status == 200, reply
        return reply
    cut, one = rank(n), rank(1)
    assert cut["results"][0]["relevance_score"] == cut["results"][1]["relevance_score"], cut
    assert {r["document"]["text"] for r in cut["results"]} == {words, words[:k]}  # as they were sent
    assert cut["usage"]["total_tokens"] - one["usage"]["total_tokens"] == 2 * (n - 1)
    assert rank(1000)["results"] == server.call("/v1/rerank", body)[1]["results"] != cut["results"]


def test_the_chat_model_ranks_documents_that_are_cut(chat_server):
    text = "The ferry of Velm leaves at nine, \u00e0 c\u00f4t\u00e9 of the \U0001F600 pier. " * 30

    def usage(**fields):
        status, reply = chat_server.call("/v1/rerank", {"query": "When?", "documents": [text, {"text": text, "title": "T"}], **fields})
        assert status == 200, reply
        return reply["usage"]["total_tokens"]
    n = {k: usage(max_tokens_per_doc=k) for k in (1, 2, 17, 100, 101)}
    assert n[2] - n[1] in (0, 2) and n[100] - n[17] in range(2 * 80, 2 * 86) and n[101] - n[100] in range(0, 3), n
    assert usage(max_tokens_per_doc=100000) == usage() > n[101] + 400
    for wrong in (0, -1, "ten", 1.5):
        status, reply = chat_server.call("/v1/rerank", {"query": "When?", "documents": [text], "max_tokens_per_doc": wrong})
        assert status == 400 and reply["error"]["param"] == "max_tokens_per_doc", reply


def test_what_is_not_supported_is_named(tmp_path):
    def altered(**changes):
        return encoder.write_cross_encoder(tmp_path / "m", **changes)
    def start(folder, option="--reranker"):
        return ("serve", "-m", MODEL, "--port", "0", option, folder)
    refuse(*start(altered(id2label={"0": "a", "1": "b"})), naming=["config.json", "id2label", "2 labels"])
    refuse(*start(altered(activation="torch.nn.modules.activation.Tanh")), naming=["activation_fn", "Tanh"])
    refuse(*start(altered(sentence_transformers={"activation_fn": "torch.nn.modules.activation.ReLU"})), naming=["activation_fn", "ReLU"])
    refuse(*start(altered(), "--embedding"), naming=["cross-encoder"])
    refuse(*start(encoder.write_folder(tmp_path / "v")), naming=["cross-encoder"])
    refuse("embed", "-m", altered(), "a", naming=["cross-encoder"])
    folder = altered()
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes().replace(b"classifier.bias", b"classifier.bigs"))
    refuse(*start(folder), naming=["classifier.bias"])
    file = altered() / "model.safetensors"
    turned = re.sub(rb'("classifier.weight":[^}]*?\[)(\d+)(, ?)(\d+)', rb"\1\4\3\2", file.read_bytes())
    file.write_bytes(turned)
    refuse(*start(file.parent), naming=["classifier.weight", "its shape is not what"])


@pytest.mark.parametrize("last", [-1, 2**31, 2**63 - 1])
def test_positions_begin_after_that_of_padding(last, tmp_path):
    folder = encoder.write_cross_encoder(tmp_path / "m", "xlm-roberta", pad_token_id=last)
    refuse("serve", "-m", MODEL, "--port", "0", "--reranker", folder, naming=["pad_token_id", str(last)])


def test_the_package_scores(folder, family, server):
    sys.path.insert(0, str(ROOT / os.environ.get("SPOLIA_BUILD", "build") / "python"))
    spolia = pytest.importorskip("spolia", reason="make python builds the package")
    with spolia.Embedder(folder, threads=1) as e:
        assert e.scores_pairs
        documents = ["Building a WALL of stones", "the wall"]
        for query in ("the river", "é of the wall"):
            assert e.score(query, documents) == pytest.approx(score(server, [[query, d] for d in documents]), abs=1e-7)
        with pytest.raises(spolia.ContextTooLong):
            e.score("a", ["a b c " * 30], strict=True)
        with pytest.raises(spolia.Error, match="cross-encoder"):
            e.embed("a")


def test_identity_leaves_the_sum(tmp_path, family):
    rows = [r for r in GOLDEN if r["family"] == family]
    folder = encoder.write_cross_encoder(tmp_path / "m", family, activation="torch.nn.modules.linear.Identity")
    with Server("--reranker", folder) as s:
        assert score(s, [r["pair"] for r in rows]) == pytest.approx([r["raw"] for r in rows], abs=1e-5)
