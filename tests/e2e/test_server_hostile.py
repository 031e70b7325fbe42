"""`spolia serve`: requests and connections that mean harm. More of them are in test_server.py."""
import contextlib
import json
import random
import resource
import socket
import threading
import time

import pytest

from serving import LONG, Server, chat
from test_server import POST, receive


SERVER = ("--read-timeout", 20)


BIG = 10**400
NESTED = {"a": 1}
for _ in range(40):
    NESTED = {"properties": {"a": NESTED}}


@pytest.mark.parametrize("field, value", [
    (name, value)
    for name in ("n", "max_tokens", "min_tokens", "seed", "top_k", "top_p", "min_p", "temperature", "logprobs", "top_logprobs",
                 "repeat_last_n", "frequency_penalty", "repetition_penalty", "best_of")
    for value in (-10**30, 10**30, 1e308, "1", [], {}, True)
] + [("logit_bias", {str(10**30): 1}), ("logit_bias", {"1": 10**30}), ("logit_bias", [[1]] * 5000), ("logit_bias", [[[]]]),
     ("stop", ["\x00"]), ("stop", ["a" * 100000] * 17), ("documents", [["x"]]), ("documents", "x" * 1000),
     ("messages", [{}]), ("messages", [None]), ("messages", [[]]), ("messages", {}), ("messages", [{"role": "user"}]),
     ("messages", [{"role": "user", "content": [[]]}]), ("messages", [{"role": "assistant", "tool_calls": [1]}]),
     ("tools", [[]]), ("tools", [{"type": "function", "function": {"name": "a" * 10000}}]), ("chat_template_kwargs", 7),
     ("response_format", {"type": "json_schema", "json_schema": {"schema": NESTED}}),
     ("json_schema", {"$ref": "#"}), ("json_schema", {"anyOf": [{"$ref": "#"}]}), ("guided_choice", [""]),
     ("guided_choice", ["a"] * 2000), ("json_schema", {"type": "array", "minItems": 10**9})])
def test_a_field_from_hell(server, field, value):
    status, answer = server.call("/v1/chat/completions", {**chat(max_tokens=1), field: value})
    assert status in (200, 400), answer
    if status == 400:
        assert answer["error"]["message"] and answer["error"]["type"] == "invalid_request_error"
        assert answer["error"]["param"] or "too large to be read" in answer["error"]["message"] or "levels deep" in answer["error"]["message"]


def test_numbers_without_end(server):
    for text in (b"9" * 5000, b"1e99999", b"-1e99999", b"0." + b"9" * 5000, b"NaN", b"Infinity", b"1e-99999"):
        status, answer = server.call("/v1/completions", b'{"prompt": "x", "max_tokens": 1, "temperature": ' + text + b"}")
        assert status in (200, 400), answer


def test_bytes_that_are_no_text(server):
    rng = random.Random(1)
    good = json.dumps({**chat(max_tokens=1), "documents": [{"text": "x"}]}).encode()
    for _ in range(300):
        data = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        status, answer = server.call("/v1/chat/completions", bytes(data))
        assert status in (200, 400), answer
    assert server.call("/health")[0] == 200


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_closes_its_half(server, stream):
    """It has sent all it wants and still reads: as with any client that hangs up, the answer may be canceled, but the
    connection ends in order."""
    body = json.dumps({**LONG, "max_tokens": 5, "stream": stream}).encode()
    for upto in (len(body), len(body) // 2):
        with server.socket() as c:
            c.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body[:upto])
            c.shutdown(socket.SHUT_WR)
            receive(c)
    server.wait_for("num_requests_running", 0)


def test_a_client_that_does_not_read(server):
    """Its stream waits in the socket; others are served meanwhile."""
    body = json.dumps({**LONG, "max_tokens": 400, "stream": True, "logprobs": 5}).encode()
    with server.socket() as c:
        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        c.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert server.call("/v1/completions", {**LONG, "max_tokens": 1})[0] == 200
    server.wait_for("num_requests_running", 0)


def test_many_pipelined_requests(server):
    body = json.dumps({**LONG, "max_tokens": 1}).encode()
    one = POST + b"Content-Length: %d\r\n\r\n" % len(body) + body
    bad = POST + b"Content-Length: 1\r\n\r\n{"
    with server.socket() as c:
        c.sendall((one + bad) * 20 + b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        got = receive(c)
    assert got.count(b"HTTP/1.1 200") == 21 and got.count(b"HTTP/1.1 400") == 20


@pytest.mark.parametrize("head", [
    b"Content-Length: 5\r\nContent-Length: 50\r\n", b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: chunked, identity\r\n", b"X: " + b"y" * 60000 + b"\r\n", b"\r\n" * 5, b"Expect: 100-continue\r\nContent-Length: 2\r\n"])
def test_heads_that_could_be_read_in_two_ways(server, head):
    with server.socket() as c:
        with contextlib.suppress(OSError):  # the server may have refused it and closed
            c.sendall(POST + head + b"\r\n{}0\r\n\r\n")
            c.shutdown(socket.SHUT_WR)
        got = receive(c)
    assert got.count(b"HTTP/1.1 200") == 0, got # nothing of it is a good request
    assert server.call("/health")[0] == 200


def test_paths(server):
    for path in ("/v1/../metrics", "//v1/models", "/v1/models/%00", "/" + "a" * 20000, "/v1/chat/completions/", "/%ff", "/page?x=1"):
        assert server.call(path)[0] in (400, 404, 405, 414, 431)


def test_slow_clients_do_not_hold_others_up(server):
    """Fifty that send a byte now and then, while requests are answered."""
    slow, stop = [server.socket() for _ in range(50)], threading.Event()

    def drip():
        while not stop.is_set():
            for c in slow:
                try:
                    c.sendall(b"P")
                except OSError:
                    pass
            time.sleep(0.2)
    thread = threading.Thread(target=drip)
    thread.start()
    try:
        for _ in range(5):
            assert server.call("/v1/completions", {**LONG, "max_tokens": 2})[0] == 200
    finally:
        stop.set()
        thread.join()
        for c in slow:
            c.close()


def test_ten_thousand_idle_connections():
    """As many as the limits of this machine allow, at most 10,000: one more client is served, and they leave nothing."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    n = min(10000, hard - 200)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, n + 200)), hard))
    s = Server("--connections", n + 10, "--address-connections", n + 10, "--read-timeout", 600)
    held = []
    try:
        while len(held) < n:
            held.append(socket.create_connection(("127.0.0.1", s.port), timeout=300))
        assert s.call("/v1/completions", {**LONG, "max_tokens": 2})[0] == 200
        assert [f for f in open(f"/proc/{s.process.pid}/status") if f.startswith("VmRSS")]
    finally:
        for c in held:
            c.close()
        assert s.call("/health")[0] == 200
        assert s.stop() == 0, s.said
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
