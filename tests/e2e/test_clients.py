"""Clients of `spolia serve` that are not changed for it: the examples, as they are."""
import json
import re
import subprocess
import sys

import pytest

from conftest import ROOT


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout, done.stderr


def reused(text):
    return [(int(n), int(of)) for n, of in re.findall(r"(\d+) of (\d+) tokens reused", text)]


@pytest.mark.parametrize("more", [[], ["--stream"]])
def test_langchain(server, more):
    pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")
    out, said = run(sys.executable, ROOT / "examples/langchain_server.py", server.url + "/v1", *more)
    assert len(out.splitlines()) >= 3
    told = reused(said)
    assert told[1][0] > told[1][1] / 2 and told[2][0] > 20, said


CLIENTS = ROOT / ".venv-clients/bin/python"
needs_clients = pytest.mark.skipif(not CLIENTS.exists(), reason="scripts/setup --clients could not install the clients")


@pytest.fixture(scope="module")
def reports(server):
    """What each client says: they run one after the other in one process, since their imports take longest."""
    out, said = run(CLIENTS, ROOT / "tests/support/clients.py", server.url + "/v1")
    return {r["client"]: r for r in map(json.loads, out.splitlines())}


@needs_clients
@pytest.mark.parametrize("client", ["openai", "langchain", "llama_index", "litellm", "pydantic_ai", "instructor", "haystack"])
def test_structured_outputs_and_tools(reports, client):
    assert not reports[client]["error"], reports[client]["error"]


@needs_clients
def test_llama_index(server):
    out, _ = run(CLIENTS, ROOT / "examples/llama_index_server.py", server.url + "/v1")
    (_, _), (again, of) = reused(out)
    assert again > of / 2
    assert "streamed: " in out and "query engine: " in out


def test_front_ends(server):
    out, _ = run(sys.executable, ROOT / "examples/front_ends.py", server.url + "/v1")
    told = reused(out)
    assert len(told) == 6 and told[-1][0] > told[-1][1] / 2 # the second turn reuses the first


def test_curl(server):
    out, _ = run("sh", ROOT / "examples/curl.sh", server.url)
    warm, answer = (json.loads(line) for line in out.splitlines()[:2])
    assert warm["usage"]["completion_tokens"] == 0
    assert answer["spolia"]["documents"][0]["from"] == "memory"
    assert answer["choices"][0]["message"]["content"] == "March" and '"content":"31 euros"' in out
    assert "data: [DONE]" in out and '"object":"response"' in out and out.splitlines()[-1] == '{"status":"ok"}'
