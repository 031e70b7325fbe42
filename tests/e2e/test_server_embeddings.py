"""/v1/embeddings with OpenAI's client unmodified, and Ollama's: the vectors of `spolia embed`."""
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import refuse, succeed
from serving import MODEL, Server, chat

from reference import encoder

TEXTS = ["the river", "Building a WALL of stones", "key value cache " * 6]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return encoder.write_folder(tmp_path_factory.mktemp("encoder") / "tiny-encoder", prompts={"query": "key: "}, longest=32)


@pytest.fixture(scope="module")
def server(folder):
    with Server("--embedding", f"{folder}//") as s:  # its name is the last part
        yield s


def vectors(folder, texts, *options):
    return np.array([d["embedding"] for d in json.loads(succeed("embed", "-m", folder, "--json", *options, *texts))["data"]])


def test_openais_client(server, folder):
    wanted = vectors(folder, TEXTS)
    for form in ({}, {"encoding_format": "float"}, {"encoding_format": "base64"}):  # the client's own choice is base64
        got = server.client().embeddings.create(model="tiny-encoder", input=TEXTS, **form)
        assert got.model == "tiny-encoder" and [d.index for d in got.data] == [0, 1, 2]
        numbers = [np.frombuffer(__import__("base64").b64decode(d.embedding), "<f4") if isinstance(d.embedding, str)
                   else d.embedding for d in got.data]
        assert np.abs(np.array(numbers) - wanted).max() < 1e-6
    ids = [encoder.Encoder(folder).ids(t) for t in TEXTS]
    assert got.usage.prompt_tokens == got.usage.total_tokens == sum(map(len, ids))
    by_ids = server.client().embeddings.create(model="tiny-encoder", input=ids)
    assert np.abs(np.array([d.embedding for d in by_ids.data]) - wanted).max() < 1e-6
    one = server.client().embeddings.create(model="tiny-encoder", input=ids[1]).data
    assert len(one) == 1 and np.abs(np.array(one[0].embedding) - wanted[1]).max() < 1e-6
    assert [m.id for m in server.client().models.list()] == [MODEL.name, "tiny-encoder"]


def test_dimensions_and_prompts(server, folder):
    short = server.client().embeddings.create(model="m", input=TEXTS, dimensions=16)
    assert np.abs(np.array([d.embedding for d in short.data]) - vectors(folder, TEXTS, "--dimensions", "16")).max() < 1e-6
    for kind in ("query", "search_query", "document", "passage", "search_document"):
        data = server.call("/v1/embeddings", {"input": TEXTS, "input_type": kind})[1]["data"]
        options = ("--as", "query") if "query" in kind else ()
        assert np.abs(np.array([d["embedding"] for d in data]) - vectors(folder, TEXTS, *options)).max() < 1e-6, kind


def test_ollama(server, folder):
    status, many = server.call("/api/embed", {"model": "m", "input": TEXTS})
    assert status == 200 and np.abs(np.array(many["embeddings"]) - vectors(folder, TEXTS)).max() < 1e-6
    assert many["prompt_eval_count"] > 20 and many["total_duration"] > 0 and many["total_duration"] % 1000 == 0  # of whole us
    one = server.call("/api/embeddings", {"model": "m", "prompt": TEXTS[0]})[1]
    assert np.abs(np.array(one["embedding"]) - vectors(folder, TEXTS[:1])[0]).max() < 1e-6
    for path, body in (("/api/embed", {"input": 5}), ("/api/embeddings", {"prompt": {}}), ("/api/embeddings", {"prompt": TEXTS})):  # errors are texts there
        status, reply = server.call(path, body)
        assert status == 400 and isinstance(reply["error"], str), reply


@pytest.mark.parametrize("body, param", [
    ({}, "input"), ({"input": []}, "input"), ({"input": [1, "a"]}, "input"), ({"input": ["a", 1]}, "input"), ({"input": {}}, "input"),
    ({"input": [[1, -1]]}, "input"), ({"input": [[1, 1 - 2**32]]}, "input"), ({"input": [[9999]]}, "input"), ({"input": [[]]}, "input"), ({"input": ["a"] * 2049}, "input"),
    ({"input": "a", "dimensions": 65}, "dimensions"), ({"input": "a", "encoding_format": "int8"}, "encoding_format"),
    ({"input": "a", "input_type": "other"}, "input_type"), ({"input": "a b c " * 30}, "input")])
def test_errors_name_the_field(server, body, param):
    status, reply = server.call("/v1/embeddings", body)
    assert status == 400 and reply["error"]["param"] == param, reply


def test_long_texts_are_cut_if_asked(server, folder):
    long = "a b c " * 30
    reply = server.call("/v1/embeddings", {"input": long, "truncate": True})[1]
    assert reply["usage"]["prompt_tokens"] == 32
    assert np.abs(np.array(reply["data"][0]["embedding"]) - vectors(folder, [long])[0]).max() < 1e-6
    assert server.call("/api/embed", {"input": long})[1]["prompt_eval_count"] == 32
    assert server.call("/api/embed", {"input": long, "truncate": False})[0] == 400


def test_many_at_the_same_time_beside_a_chat(server, folder):
    texts = [[f"{t} {i}" for t in TEXTS] for i in range(24)]
    wanted = [vectors(folder, t) for t in texts[:3]]
    with ThreadPoolExecutor(12) as pool:
        talk = pool.submit(server.call, "/v1/chat/completions", chat())
        got = list(pool.map(lambda t: server.call("/v1/embeddings", {"input": t}), texts))
    assert talk.result()[0] == 200 and all(status == 200 for status, _ in got)
    for want, (_, reply) in zip(wanted, got):
        assert np.abs(np.array([d["embedding"] for d in reply["data"]]) - want).max() < 1e-6


def test_without_an_encoder(tmp_path):
    with Server() as s:
        status, reply = s.call("/v1/embeddings", {"input": "a"})
        assert status == 400 and "--embedding" in reply["error"]["message"]
    refuse("serve", "-m", MODEL, "--port", "0", "--embedding", MODEL, naming=["general.architecture"])


def test_each_model_is_listed_and_found_by_its_whole_name(folder, tmp_path):
    """The chat model, the encoder of texts and that of pairs: in a list, and one by one."""
    cross = encoder.write_cross_encoder(tmp_path / "tiny-cross", "bert")
    with Server("--embedding", folder, "--reranker", cross, "--ctx-size", 1024, "--alias", "tiny") as s:
        listed = s.call("/v1/models")[1]
        assert listed["object"] == "list" and [m["id"] for m in listed["data"]] == ["tiny", "tiny-encoder", "tiny-cross"]
        chat_model, vectors, pairs = listed["data"]
        assert chat_model["max_model_len"] == 1024 and vectors["max_model_len"] == 32
        assert pairs["max_model_len"] not in (1024, 32)
        for m in listed["data"]:
            assert s.call(f"/v1/models/{m['id']}") == (200, m)
        for name in ("tin", "tiny-", "tiny-encode", "tiny-cross2", "TINY"):
            status, e = s.call(f"/v1/models/{name}")
            assert status == 404 and e["error"]["code"] == "model_not_found", (name, e)
