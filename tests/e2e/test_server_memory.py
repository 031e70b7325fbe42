"""`spolia serve` while allocations inside jansson fail: the right answer or 503, and no other."""
import json
import os
import subprocess

import pytest

from conftest import ROOT
from test_server import Server

WHOLE = {"max_tokens": 4, "temperature": 0, "logprobs": True, "top_logprobs": 3,
         "messages": [{"role": "system", "content": "A harbour town in the north, with boats of many colours."},
                      {"role": "user", "content": "What is in the harbour, and who has brought it there? " * 4}],
         "documents": [{"title": "Boats", "text": "Red boats lie at the quay; blue boats are out at sea."}]}
SCHEMA = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}, "b": {"type": "boolean"}}, "required": ["a", "b"],
          "additionalProperties": False}
REQUESTS = [
    ("/v1/chat/completions", WHOLE),
    ("/v1/completions", {"prompt": "The harbour", "max_tokens": 3, "temperature": 0, "logprobs": 2}),
    ("/v1/chat/completions", {"messages": WHOLE["messages"], "max_tokens": 30, "temperature": 0,
                              "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}}),
    ("/tokenize", {"content": "The harbour is full of boats.", "with_pieces": True}),
]


@pytest.fixture(scope="module")
def preload(tmp_path_factory):
    if os.environ.get("SPOLIA_BUILD", "build") != "build":
        pytest.skip("a sanitizer has its own malloc")
    made = tmp_path_factory.mktemp("preload") / "failing_json.so"
    subprocess.run(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", made, ROOT / "tests/support/failing_json.c", "-ldl"],
                   check=True)
    return made


def essence(answer):
    """Without what differs between two runs: names, times, and what was reused."""
    if not isinstance(answer, dict):
        return answer
    answer = {k: v for k, v in answer.items() if k not in ("id", "created", "timings", "spolia")}
    answer.get("usage", {}).pop("prompt_tokens_details", None)
    return json.dumps(answer, sort_keys=True)


def test_an_allocation_that_fails_in_json_gives_503(preload, monkeypatch):
    monkeypatch.setenv("LD_PRELOAD", str(preload))
    monkeypatch.setenv("SPOLIA_FAIL_ONE_IN", "0")
    right = []
    server = Server()
    for path, body in REQUESTS:
        server.call(path, body)
        status, answer = server.call(path, body)
        assert status == 200, answer
        right.append(essence(answer))
    assert server.stop() == 0
    monkeypatch.setenv("SPOLIA_FAIL_ONE_IN", "997")
    server = Server()
    n_failed = n_good = 0
    for i in range(400):
        path, body = REQUESTS[i % len(REQUESTS)]
        status, answer = server.call(path, body)
        assert status in (200, 503), (i, status, answer)
        n_failed += status == 503
        n_good += status == 200
        if status == 200:
            assert essence(answer) == right[i % len(REQUESTS)], i
        else:
            assert answer["error"]["code"] == "out_of_memory", answer
    assert n_failed > 20 and n_good > 20, (n_failed, n_good)
    assert server.stop() == 0
