"""`spolia serve`: heads that can be read in two ways, fields without an effect, texts with NUL, texts that cannot fit, calls
that are cut."""
import json
import signal
import time

import pytest

from serving import Server, chat

HEAD = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
BODY = '{"prompt": "a", "max_tokens": 1}'
LENGTH = f"Content-Length: {len(BODY)}\r\n"
CHUNKS = f"{len(BODY):x}\r\n{BODY}\r\n0\r\n\r\n"


def raw(s, text):
    """(status, body) of bytes as they are."""
    with s.socket() as c:
        c.sendall(text.encode())
        c.settimeout(300)
        reply = b""
        while piece := c.recv(65536):
            reply += piece
    head, _, body = reply.partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


@pytest.mark.parametrize("text, why", [
    (HEAD + LENGTH + LENGTH + "\r\n" + BODY, "more than one Content-Length"),
    (HEAD + LENGTH + "Content-Length: 5\r\n\r\n" + BODY, "more than one Content-Length"),
    (HEAD + LENGTH + "Transfer-Encoding: chunked\r\n\r\n" + CHUNKS, "both Content-Length and Transfer-Encoding"),
    (HEAD + "Transfer-Encoding: gzip\r\n\r\n" + CHUNKS, "chunked only"),
    (HEAD + "Transfer-Encoding: identity, chunked\r\n\r\n" + CHUNKS, "chunked only"),
    (HEAD + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKS, "chunked only"),
    (HEAD + "Host: other\r\n" + LENGTH + "\r\n" + BODY, "more than one Host"),
    (HEAD.replace("Host: localhost\r\n", "") + LENGTH + "\r\n" + BODY, "no Host"),
    (HEAD.replace("1.1", "1.0") + "Transfer-Encoding: chunked\r\n\r\n" + CHUNKS, "HTTP/1.0 has no Transfer-Encoding"),
    (HEAD + LENGTH + "Transfer-Encoding:\r\n chunked\r\n\r\n" + CHUNKS, "on one line"),
    (HEAD + LENGTH + "transfer-encoding:\r\n chunked\r\n\r\n" + CHUNKS, "on one line"),
    (HEAD + f"Content-Length:\r\n {len(BODY)}\r\n\r\n" + BODY, "on one line"),
    (HEAD + LENGTH + "X: a\rTransfer-Encoding: chunked\r\n\r\n" + BODY, "a control character in its value"),
    (HEAD + LENGTH + "X: a\x7fb\r\n\r\n" + BODY, "a control character in its value"),
    (HEAD + LENGTH + "\rTransfer-Encoding: chunked\r\n\r\n" + BODY, "a character in its name"),
    (HEAD + "X : a\r\n" + LENGTH + "\r\n" + BODY, "a character in its name")])
def test_heads_that_can_be_read_in_two_ways(server, text, why):
    status, body = raw(server, text)
    assert status == 400 and why in json.loads(body)["error"]["message"]


@pytest.mark.parametrize("length", ["Content-Length: 0\r\n", ""])
def test_a_call_without_a_body_needs_no_type(server, length):
    """Some clients send a length of 0 with DELETE."""
    head = f"DELETE /v1/documents/none HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{length}\r\n"
    assert raw(server, head)[0] == 404


def test_a_process_that_was_stopped_does_not_call_its_clients_late():
    s = Server("--read-timeout", 6)
    try:
        with s.socket() as c:
            c.settimeout(300)
            c.sendall((HEAD + LENGTH + "\r\n").encode())
            assert s.call("/health")[0] == 200  # by now the server has accepted the connection before it
            s.process.send_signal(signal.SIGSTOP)
            time.sleep(8)
            s.process.send_signal(signal.SIGCONT)
            time.sleep(1)  # rounds of the watcher, which would end the connection
            c.sendall(BODY.encode())
            assert c.recv(65536).startswith(b"HTTP/1.1 200 ")
    finally:
        assert s.stop() == 0, s.said


def test_heads_that_cannot(server):
    assert raw(server, HEAD + LENGTH + "\r\n" + BODY)[0] == 200
    assert raw(server, HEAD + "Transfer-Encoding: chunked\r\n\r\n" + CHUNKS)[0] == 200
    assert raw(server, "GET /health HTTP/1.0\r\n\r\n")[0] == 200


@pytest.mark.parametrize("target, host, status", [
    ("http://localhost/health", "localhost", 200), ("HTTP://localhost:1/v1/models?a=/b", "localhost", 200),
    ("https://127.0.0.1/health", "other", 200), ("http://localhost?a=/b", "localhost", 200),
    ("http://localhost/none", "localhost", 404), ("ftp://localhost/health", "localhost", 404),
    ("http://other/health", "localhost", 403), ("http:///health", "localhost", 403),
    ("http://localhost@other/health", "localhost", 403)])
def test_an_absolute_target_is_read_by_its_path_and_names_the_host(server, target, host, status):
    assert raw(server, f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")[0] == status


def test_an_absolute_target_of_a_request_with_a_body(server):
    status, body = raw(server, HEAD.replace("/v1", "http://localhost/v1") + LENGTH + "\r\n" + BODY)
    assert status == 200 and json.loads(body)["object"] == "text_completion"


@pytest.mark.parametrize("field, value", [
    ("typical_p", 0.9), ("truncate_prompt_tokens", 10), ("include_stop_str_in_output", True), ("tfs_z", 0.5), ("top_a", 0.1),
    ("samplers", ["top_k"]), ("lora", [{"id": 0, "scale": 1}]), ("mirostat", 2), ("add_generation_prompt", False),
    ("skip_special_tokens", False), ("detokenize", False), ("length_penalty", 2), ("top_n_sigma", 1), ("n_probs", 5),
    ("modalities", ["text", "audio"]), ("prompt_logprobs", 1), ("functions", [{"name": "f"}])])
def test_fields_that_cannot_be_honoured(server, field, value):
    status, answer = server.call("/v1/chat/completions", chat(max_tokens=1, **{field: value}))
    assert status == 400 and answer["error"]["param"] == field and field in answer["error"]["message"]


def test_fields_that_ask_for_nothing(server):
    nothing = {"typical_p": 1.0, "truncate_prompt_tokens": None, "include_stop_str_in_output": False, "tfs_z": 1, "samplers": [],
               "lora": [], "mirostat": 0, "add_generation_prompt": True, "skip_special_tokens": True, "detokenize": True,
               "length_penalty": 1.0, "top_n_sigma": -1, "modalities": ["text"], "dry_multiplier": 0.0, "user": "me",
               "store": False, "metadata": {}, "service_tier": "auto", "slot_id": 3, "prediction": None}
    status, answer = server.call("/v1/chat/completions", chat(max_tokens=1, **nothing))
    assert status == 200, answer


def test_nul_in_a_text_is_a_space(server):
    with_nul, with_space = (chat("What\0is it?".replace("\0", c), max_tokens=4, documents=[{"id": "a", "text": f"The{c}harbour."}])
                            for c in ("\0", " "))
    assert "\\u0000" in json.dumps(with_nul)
    status, one = server.call("/v1/chat/completions", with_nul)
    two = server.call("/v1/chat/completions", with_space)[1]
    assert status == 200 and one["usage"]["prompt_tokens"] == two["usage"]["prompt_tokens"]
    assert one["choices"][0]["message"] == two["choices"][0]["message"] and two["spolia"]["documents"][0]["reused"] > 0
    status, answer = server.call("/v1/documents", {"id": "nul", "text": "One\0two"})
    assert status == 201, answer


@pytest.mark.parametrize("body", [chat("word " * 2000000), {"prompt": "word " * 2000000},
                                  chat(documents=[{"text": "word " * 1000000}] * 2)])
def test_a_text_that_cannot_fit_is_not_tokenized(server, body):
    status, answer = server.call("/v1/completions" if "prompt" in body else "/v1/chat/completions", body)
    assert status == 400 and answer["error"]["code"] == "context_length_exceeded", answer
    assert "bytes of text cannot fit" in answer["error"]["message"]


LARGE = "The harbour of Velm was built by the town in 1870. " * 60


@pytest.mark.parametrize("path, body", [
    ("/v1/chat/completions", chat(LARGE, max_tokens=4)), ("/v1/chat/completions", chat(LARGE, max_tokens=4, stream=True)),
    ("/v1/chat/completions", chat(documents=[{"text": LARGE}], max_tokens=4)),
    ("/v1/completions", {"prompt": LARGE, "max_tokens": 4}), ("/v1/messages", chat(LARGE, max_tokens=4)),
    ("/v1/responses", {"input": LARGE}), ("/api/generate", {"prompt": LARGE}), ("/completion", {"prompt": LARGE})])
def test_a_prompt_larger_than_all_memory_is_the_clients_error(start, path, body):
    server = start("--kv-memory", 1)
    status, answer = server.call(path, body)
    said = answer["error"] if isinstance(answer["error"], str) else answer["error"]["message"]
    assert status == 400 and "the KV memory, which holds 640: raise --kv-memory" in said, answer
    if isinstance(answer["error"], dict):
        assert answer["error"]["code"] == "context_length_exceeded", answer
    assert server.call("/v1/completions", {"prompt": "The harbour", "max_tokens": 4})[0] == 200


TOOLS = [{"type": "function", "function": {"name": "boats", "parameters": {
    "type": "object", "properties": {"why": {"type": "string", "minLength": 400}}, "required": ["why"]}}}]


@pytest.mark.parametrize("n", [1, 4, 12, 150])
def test_a_required_call_that_is_cut_is_an_incomplete_call(server, n):
    ask = chat(max_tokens=n, tools=TOOLS, tool_choice="required")
    choice = server.call("/v1/chat/completions", ask)[1]["choices"][0]
    assert choice["finish_reason"] == "length" and not choice["message"]["content"]
    calls = choice["message"].get("tool_calls", [])
    events = list(server.client().chat.completions.create(**{**ask, "model": "any"}, stream=True))
    texts = [e.choices[0].delta.content for e in events if e.choices]
    assert not "".join(t for t in texts if t)
    assert [e.choices[0].finish_reason for e in events if e.choices and e.choices[0].finish_reason] == ["length"]
    if n == 150:
        assert [c["function"]["name"] for c in calls] == ["boats"] and '"why"' in calls[0]["function"]["arguments"]
        deltas = [d for e in events if e.choices for d in e.choices[0].delta.tool_calls or []]
        assert "".join(d.function.arguments or "" for d in deltas) == calls[0]["function"]["arguments"]


def test_rules_that_are_nested_too_deeply(server):
    rules = ["root ::= r0"] + [f'r{i} ::= r{i + 1} "z"' for i in range(400)] + ['r400 ::= "a"']
    status, answer = server.call("/v1/completions", {"prompt": "a", "grammar": "\n".join(rules)})
    assert status == 400 and "400 rules at once" in answer["error"]["message"], answer
