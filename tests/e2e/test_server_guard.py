"""`spolia serve` against web pages, keys that take everything, and clients without a key."""
import http.client
import json
import socket
import threading
import time

import pytest

from conftest import refuse
from serving import LONG, MODEL, busy, chat


SERVER = ("--allowed-hosts", "spolia.example.com, other.example", "--cors-origins",
               "https://chat.example.com,http://localhost:3000")


def send(s, method, path, body=None, **headers):
    """(status, headers, JSON or text)."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=300)
    try:
        c.request(method, path, json.dumps(body).encode() if isinstance(body, dict) else body, headers)
        r = c.getresponse()
        text = r.read().decode()
    finally:
        c.close()
    try:
        return r.status, r.headers, json.loads(text)
    except ValueError:
        return r.status, r.headers, text


def post(s, body=None, path="/v1/chat/completions", **headers):
    return send(s, "POST", path, body or chat(max_tokens=2), **{"Content_Type": "application/json", **headers})


# -- hosts and web pages -----------------------------------------------------------------------


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8080", "api.localhost", "127.0.0.1:1", "[::1]:8080", "10.1.2.3",
                                  "spolia.example.com", "other.example:443", "spolia.example.com."])
def test_hosts_that_are_allowed(server, host):
    assert send(server, "GET", "/health", Host=host)[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "spolia.example.com.evil", "127.0.0.1.evil.example",
                                  "evil.example:8080", "[::1", "localhost:80x", "", "@localhost"])
def test_dns_rebinding(server, host):
    """A page whose name points to this machine has its own name in Host."""
    status, _, answer = post(server, Host=host)
    assert status == 403 and answer["error"]["code"] == "host_not_allowed" and answer["error"]["param"] == "Host"


def test_any_host_where_the_operator_says_so(start):
    assert send(start("--allowed-hosts", "*"), "GET", "/health", Host="evil.example")[0] == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:3001", "http://127.0.0.1:8080", "file://"])
def test_pages_of_others(server, origin):
    for path in ("/v1/chat/completions", "/v1/documents"):
        status, headers, answer = post(server, {"text": "planted"}, path, Origin=origin)
        assert status == 403 and answer["error"]["code"] == "origin_not_allowed", answer
        assert "Access-Control-Allow-Origin" not in headers and headers["Vary"] == "Origin"
    assert send(server, "OPTIONS", "/v1/documents", Origin=origin, Access_Control_Request_Method="POST")[0] == 403
    assert send(server, "GET", "/v1/documents")[2]["data"] == []


def test_a_cache_does_not_give_one_page_what_it_keeps_of_another(server):
    """What differs with the origin says so, also to those who have none; the page's own files differ with the encoding, too."""
    assert send(server, "GET", "/health")[1].get_all("Vary") == ["Origin"]
    assert sorted(send(server, "GET", "/")[1].get_all("Vary")) == ["Accept-Encoding", "Origin"]


def test_a_page_that_may(server):
    page = {"Origin": "https://chat.example.com"}
    status, headers, _ = send(server, "OPTIONS", "/v1/chat/completions", **page, Access_Control_Request_Method="POST",
                              Access_Control_Request_Headers="authorization, content-type, x-stainless-os")
    assert status == 204 and headers["Access-Control-Allow-Origin"] == page["Origin"]
    assert "POST" in headers["Access-Control-Allow-Methods"] and "x-stainless-os" in headers["Access-Control-Allow-Headers"]
    status, headers, _ = post(server, **page)
    assert status == 200 and headers["Access-Control-Allow-Origin"] == page["Origin"] and "Origin" in headers["Vary"]
    assert "X-Request-Id" in headers["Access-Control-Expose-Headers"]
    status, headers, _ = post(server, {**chat(max_tokens=2), "stream": True}, **page)
    assert status == 200 and headers["Access-Control-Allow-Origin"] == page["Origin"]
    assert post(server, Origin=server.url, Host=server.url.split("//")[1])[0] == 200  # a page of the server itself


def test_preflight_needs_no_key(start, tmp_path):
    (tmp_path / "keys").write_text("one\n")
    s = start("--api-keys", tmp_path / "keys", "--cors-origins", "*")
    page = {"Origin": "https://any.example"}
    status, headers, _ = send(s, "OPTIONS", "/v1/models", **page, Access_Control_Request_Method="GET")
    assert status == 204 and headers["Access-Control-Allow-Origin"] == page["Origin"]
    status, headers, _ = send(s, "GET", "/v1/models", **page)
    assert status == 401 and headers["Access-Control-Allow-Origin"] == page["Origin"]  # the page can read why
    for path in ("/v1/models", "/v1/documents", "/v1/collections"):
        assert send(s, "HEAD", path)[0] == 401


def test_a_packed_body_is_refused_by_name(server):
    for encoding, expected in (("gzip", 415), ("br", 415), ("identity", 200), ("", 200)):
        status, _, answer = send(server, "POST", "/v1/chat/completions", json.dumps(chat()), Content_Type="application/json",
                                 Content_Encoding=encoding)
        assert status == expected, (encoding, answer)
        assert status == 200 or answer["error"]["param"] == "Content-Encoding"


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", None,
                                  "application/jsonp", "application/octet-stream", "text/json"])
def test_types_that_a_page_can_send_without_asking(server, kind):
    headers = {"Content_Type": kind} if kind else {}
    status, _, answer = send(server, "POST", "/v1/chat/completions", json.dumps(chat()), **headers)
    assert status == 415 and answer["error"]["param"] == "Content-Type"
    status, _, answer = send(server, "POST", "/v1/documents", '{"text": "planted"}', **headers)
    assert status == (400 if kind and kind.startswith("multipart") else 415)


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "Application/JSON", "application/vnd.api+json"])
def test_types_of_json(server, kind):
    assert post(server, Content_Type=kind)[0] == 200


# -- methods -----------------------------------------------------------------------------------


def test_head_and_options(server):
    for path in ("/health", "/v1/models", "/v1/documents", "/metrics", "/v1/models/model.gguf"):
        status, headers, body = send(server, "HEAD", path)
        assert status == 200 and body == "" and int(headers["Content-Length"]) > 0
    status, headers, body = send(server, "OPTIONS", "/v1/documents")
    assert status == 204 and {"GET", "HEAD", "POST", "OPTIONS"} == set(headers["Allow"].split(", ")) and body == ""
    assert send(server, "OPTIONS", "/nothing")[0] == 404
    status, headers, _ = send(server, "PUT", "/v1/models")
    assert status == 405 and headers["Allow"] == "GET, HEAD, OPTIONS"


# -- keys --------------------------------------------------------------------------------------

KEYS = """# name: anna
# may: priority
one
# name: bob
two
# name: carl
# limits: requests=3 tokens=400 documents=2 bytes=100
three
"""


@pytest.fixture
def keys(tmp_path):
    (tmp_path / "keys").write_text(KEYS)
    return tmp_path / "keys"


def test_x_api_key(start, keys):
    s = start("--api-keys", keys)
    assert send(s, "GET", "/v1/models", X_Api_Key="one")[0] == 200
    status, headers, body = send(s, "GET", "/v1/models", X_Api_Key="four")
    assert status == 401 and headers["WWW-Authenticate"] == "Bearer" and body["error"]["type"] == "authentication_error"
    assert send(s, "GET", "/v1/models", X_Api_Key="one", Authorization="Bearer four")[0] == 401


def test_401_comes_before_the_body(start, keys):
    """Forty bodies that never end take no memory."""
    s = start("--api-keys", keys)
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    for length in (b"Content-Length: 15000000\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"):
        with s.socket() as c:
            c.sendall(head + length)
            c.settimeout(300)
            reply = c.recv(4096)
            assert reply.startswith(b"HTTP/1.1 401 ") and b"invalid_api_key" in reply


def test_all_bodies_together_are_bounded(start):
    s = start("--body", 8, "--bodies", 16)
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    n, held = 7 << 20, []
    try:
        for _ in range(2):
            held.append(s.socket())
            held[-1].sendall(head % n + b" " * (n - 10))
        end, reply = time.time() + 300, b"HTTP/1.1 400 "
        while reply.startswith(b"HTTP/1.1 400 "):  # no JSON: the others have not been received yet
            assert time.time() < end
            with s.socket() as c:
                c.sendall(head % n + b" " * n)
                reply = c.recv(4096)
        assert reply.startswith(b"HTTP/1.1 503 ") and b"too_many_bodies" in reply and b"Retry-After: 1" in reply
        assert post(s)[0] == 200  # small ones have room
    finally:
        for c in held:
            c.close()
    end = time.time() + 300
    while post(s, b" " * n)[0] != 400:  # no JSON: it has been read
        assert time.time() < end
        time.sleep(0.1)


def test_one_address_does_not_take_all_connections(start):
    s = start("--connections", 20, "--address-connections", 8)
    held = [s.socket() for _ in range(20)]
    time.sleep(0.3)
    try:
        with socket.create_connection(("127.0.0.1", s.port), timeout=300, source_address=("127.0.0.2", 0)) as c:
            c.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert c.recv(100).startswith(b"HTTP/1.1 200 ")
    finally:
        for c in held:
            c.close()


class Flood:
    """Requests of one key, `n` at a time, until it is stopped."""

    def __init__(self, s, n, body, **headers):
        self.over = False
        self.threads = [threading.Thread(target=self.run, args=(s, body, headers)) for _ in range(n)]
        for t in self.threads:
            t.start()

    def run(self, s, body, headers):
        while not self.over:
            post(s, body, "/v1/completions", **headers)

    def stop(self):
        self.over = True
        for t in self.threads:
            t.join()


def test_a_flood_of_one_key_leaves_places_to_others(start, keys):
    s = start("--api-keys", keys, "--parallel", 2, "--queue", 10)
    s.key = "one"
    flood = Flood(s, 20, {**LONG, "max_tokens": 60}, X_Api_Key="one")
    try:
        s.wait_for("requests_refused_total", least=1)
        assert [post(s, X_Api_Key="two")[0] for _ in range(3)] == [200] * 3
    finally:
        flood.stop()
    said = [line for line in s.read_log().splitlines() if " 429 " in line]
    assert said and all("key=anna" in line and "queue_full" in line for line in said)


def test_priorities_count_within_a_key(start, keys):
    """`two` floods with the best priority; its requests are no better than others'. `one` may do so."""
    s = start("--api-keys", keys, "--parallel", 1)
    s.key = "one"
    flood = Flood(s, 6, {**LONG, "max_tokens": 40, "priority": -1000000}, X_Api_Key="two")
    try:
        s.wait_for("num_requests_waiting", least=4)
        assert post(s, chat(max_tokens=4), X_Api_Key="three")[0] == 200
    finally:
        flood.stop()
    order, lock = [], threading.Lock()

    def one(name, key, body):
        post(s, {**LONG, "max_tokens": 200, **body}, "/v1/completions", X_Api_Key=key)
        with lock:
            order.append(name)
    work = [("low", "two", {"priority": 5}), ("high", "two", {"priority": -5}), ("first", "one", {"priority": -1})]
    threads = []
    s.wait_for("num_requests_running", 0)
    with busy(s, key="two"):
        others = s.metric("num_requests_waiting")  # the other answers of that stream
        for w in work:
            threads.append(threading.Thread(target=one, args=w))
            threads[-1].start()
            s.wait_for("num_requests_waiting", others + len(threads))
    for t in threads:
        t.join()
    assert order.index("first") < order.index("high") < order.index("low")


def test_limits_of_a_key(start, keys):
    s = start("--api-keys", keys)
    ask = chat(max_tokens=2)
    for left in (2, 1, 0):
        status, headers, _ = post(s, ask, Authorization="Bearer three")
        assert status == 200 and headers["x-ratelimit-limit-requests"] == "3"
        assert headers["x-ratelimit-remaining-requests"] == str(left)
        assert headers["x-ratelimit-limit-tokens"] == "400" and 0 < int(headers["x-ratelimit-remaining-tokens"]) < 400
        assert headers["x-ratelimit-reset-requests"].endswith("s")
    status, headers, answer = post(s, ask, Authorization="Bearer three")
    assert status == 429 and answer["error"]["code"] == "rate_limit_exceeded" and "3 requests a minute" in answer["error"]["message"]
    assert 1 <= int(headers["Retry-After"]) <= 20 and headers["x-ratelimit-remaining-requests"] == "0"
    status, headers, _ = post(s, ask, Authorization="Bearer two")
    assert status == 200 and "x-ratelimit-limit-requests" not in headers


def test_tokens_of_a_minute(start, tmp_path):
    (tmp_path / "keys").write_text("# limits: tokens=100\none\n")
    s = start("--api-keys", tmp_path / "keys")
    status, _, answer = post(s, chat("a word " * 200), X_Api_Key="one")
    assert status == 429 and "longer than the 100 tokens" in answer["error"]["message"]
    assert post(s, {**LONG, "max_tokens": 150}, "/v1/completions", X_Api_Key="one")[0] == 200
    status, headers, answer = post(s, X_Api_Key="one")
    assert status == 429 and "100 tokens a minute" in answer["error"]["message"] and int(headers["Retry-After"]) > 1


def test_documents_of_a_key(start, keys):
    s = start("--api-keys", keys)

    def put(name, text, **more):
        return post(s, {"id": name, "text": text, **more}, "/v1/documents", X_Api_Key="three")
    assert put("a", "one two three")[0] == 201 and put("b", "one two four")[0] == 201
    status, _, answer = put("c", "one two five")
    assert status == 429 and answer["error"]["code"] == "insufficient_quota" and "2 documents" in answer["error"]["message"]
    assert put("b", "another", replace=True)[0] == 201
    assert send(s, "DELETE", "/v1/documents/a", X_Api_Key="three")[0] == 200
    status, _, answer = put("c", "word " * 40)
    assert status == 429 and "100 bytes" in answer["error"]["message"]
    assert put("c", "one two five")[0] == 201
    status, _, answer = put("d", "x", cache_salt="mine")
    assert status == 400 and answer["error"]["param"] == "cache_salt"
    assert post(s, {"id": "c", "text": "word " * 40}, "/v1/documents", X_Api_Key="two")[0] == 201


@pytest.mark.parametrize("text, naming", [("# limits: request=3\none\n", ["line 1", "request=3"]),
                                          ("one\n# may: everything\ntwo\n", ["line 2", "everything"])])
def test_a_key_file_that_says_nothing_sensible(tmp_path, text, naming):
    (tmp_path / "keys").write_text(text)
    refuse("serve", "-m", MODEL, "--port", 0, "--api-keys", tmp_path / "keys", naming=naming)


# -- the log -----------------------------------------------------------------------------------


def test_the_log_says_why(start):
    s = start()
    assert post(s, chat(top_k="many"), X_Request_Id="a")[0] == 400
    assert send(s, "GET", "/nothing", X_Request_Id="b")[0] == 404
    assert post(s, chat(documents=[{"id": "pier"}]))[0] == 400
    assert s.stop() == 0
    assert 'id=a ' in s.said and 'error="top_k must be an integer"' in s.said and 'error="there is no such path"' in s.said
    assert r'error="documents[0].id: there is no document \"pier\""' in s.said # the field once, quotes escaped
    s = start("--log-format", "json")
    assert post(s, chat(top_k="many"))[0] == 400
    assert s.stop() == 0
    (line,) = [o for o in map(json.loads, s.said.splitlines()) if o.get("status") == 400]
    assert line["error"] == "top_k must be an integer"
