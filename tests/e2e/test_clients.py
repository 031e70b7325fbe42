"""Clients of `spolia serve` that are not changed for it: the examples, as they are."""
import json
import re
import subprocess
import sys

import pytest

from conftest import ROOT
from test_server import Server


@pytest.fixture(scope="module")
def server():
    s = Server("--reuse", "full")
    yield s
    assert s.stop() == 0, s.said


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=120)
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


def test_langchain_parses_and_calls(server):
    langchain_openai = pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")
    pydantic = pytest.importorskip("pydantic")

    class Day(pydantic.BaseModel):
        """A day."""
        number: int
        name: str = pydantic.Field(max_length=6)

    llm = langchain_openai.ChatOpenAI(base_url=server.url + "/v1", api_key="none", model="any", max_tokens=300,
                                      temperature=1, seed=3)
    for method in ("json_schema", "function_calling"):
        assert isinstance(llm.with_structured_output(Day, method=method).invoke("Which day?"), Day)


def test_llama_index(server):
    python = ROOT / ".venv-clients/bin/python"
    if not python.exists():
        pytest.skip("LlamaIndex is large: scripts/setup --clients installs it")
    out, _ = run(python, ROOT / "examples/llama_index_server.py", server.url + "/v1")
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
    assert "data: [DONE]" in out and '"object":"response"' in out and out.splitlines()[-1] == '{"status":"ok"}'
