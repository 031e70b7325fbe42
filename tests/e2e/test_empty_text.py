"""Empty texts in every role, with a chat template and without: no crash, and the rest of the conversation is answered."""
import json
import os
import sys

import pytest
from conftest import ROOT, run, succeed
from serving import Server

BUILD = ROOT / os.environ.get("SPOLIA_BUILD", "build")
BUNDLED = ROOT / "demo/model.gguf"
ROLES = ["system", "user", "assistant", "tool"]
EMPTY = [[{"role": role, "content": ""}] for role in ROLES] + [
    [{"role": "system", "content": ""}, {"role": "user", "content": ""}],
    [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}, {"role": "user", "content": "Hi"}],
    [{"role": "system", "content": ""}, {"role": "user", "content": "Hi"}]]


@pytest.fixture(scope="module", params=["template", "no template"])
def model(request, tmp_path_factory):
    if request.param == "template":
        return BUNDLED
    path = tmp_path_factory.mktemp("plain") / "plain.gguf"
    data = BUNDLED.read_bytes()
    assert b"tokenizer.chat_template" in data
    path.write_bytes(data.replace(b"tokenizer.chat_template", b"tokenizer.chat_templatX"))
    return path


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    path = tmp_path_factory.mktemp("empty") / "demo.db"
    succeed("index", ROOT / "demo/docs", "-o", path)
    return path


def test_ask(model, index):
    said = succeed("ask", "-m", model, "--index", index, "--system", "", "--json", "-n", "2", "Where do boats go?")
    assert json.loads(said)["usage"]["prompt_tokens"] > 0


def test_run_refuses_an_empty_prompt(model):
    done = run("run", "-m", model, "-p", "", "-n", "2")
    assert done.returncode in (0, 1), done.stderr  # a model with BOS continues it


def test_precompute(model, index):
    succeed("index", ROOT / "demo/docs", "-o", index, "--precompute", "-m", model, "--store", f"{index}.{model.stem}",
            "--fuse", "1", "--quiet")


def test_the_server_stays(model):
    server = Server("-m", model)
    try:
        for messages in EMPTY:
            status, said = server.call("/v1/chat/completions", {"messages": messages, "max_tokens": 2})
            assert status in (200, 400), said
        for extra in ({"instructions": ""}, {"instructions": "", "input": ""}):
            status, said = server.call("/v1/responses", {"input": "Hi", "max_output_tokens": 16, **extra})
            assert status in (200, 400), said
        status, said = server.call("/v1/chat/completions",
                                   {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2})
        assert status == 200, said
    finally:
        server.process.terminate()
        assert server.process.wait(300) == 0


def test_python(model):
    sys.path.insert(0, str(BUILD / "python"))
    spolia = pytest.importorskip("spolia", reason="make python has not run")
    with spolia.open(model) as engine:
        for messages in EMPTY:
            if messages[-1]["role"] == "system" or len(messages) == 1:
                continue
            engine.chat(messages, max_tokens=2)
        for role in ROLES:
            engine.chat([{"role": role, "content": ""}, {"role": "user", "content": "Hi"}], max_tokens=2)
