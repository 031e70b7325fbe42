"""Running `spolia serve`: the log and its request ids, draining, copies that outlive the process, the config file."""
import json
import re
import signal
import threading
import time
import urllib.error
import urllib.request

import pytest
from conftest import refuse
from serving import LONG, MODEL, busy, chat, documents


def call(s, path, body=None, **headers):
    """(status, headers, JSON)."""
    headers = {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(s.url + path, data, headers), timeout=300) as r:
            return r.status, r.headers, json.loads(r.read())
    except urllib.error.HTTPError as e:
        return e.code, e.headers, json.loads(e.read())


def logged(s, n):
    """The lines of the log, at least n: a request is logged after its answer is sent."""
    end = time.time() + 300
    while len(lines := s.read_log().splitlines()) < n:
        assert time.time() < end, lines
        time.sleep(0.01)
    return lines


# -- the log ---------------------------------------------------------------------------------------

def test_a_json_log(start, tmp_path):
    (tmp_path / "keys").write_text("# name: anna@shop\nsk-secret-1\nsk-secret-2\n")
    s = start("--log-format", "json", "--api-keys", tmp_path / "keys", "--reuse", "full")
    ask = chat("Who is the keeper of secrets?", documents=documents("logged"))
    one, two = {"Authorization": "Bearer sk-secret-1"}, {"Authorization": "Bearer sk-secret-2"}
    for i, headers in enumerate(({**one, "X_Request_Id": "trace-1:a"}, one, {**two, "X_Request_Id": "bad id"},
                                 {"Authorization": "Bearer sk-wrong", "X_Request_Id": "x" * 65})):
        call(s, "/v1/chat/completions", ask, **headers)
        logged(s, i + 1)
    _, headers, _ = call(s, "/v1/chat/completions", {**ask, "temperature": "hot"}, X_Request_Id="again", **one)
    assert headers["X-Request-Id"] == "again" and logged(s, 5)
    assert call(s, "/nowhere%1b", **one)[0] == 404 and logged(s, 6)
    call(s, "/health"), call(s, "/v1/models", **one)
    logged(s, 7)
    assert s.stop() == 0
    lines = [json.loads(line) for line in s.said.splitlines()]
    assert [x["event"] for x in lines if "event" in x] == ["draining", "stopped"]
    lines = [x for x in lines if "event" not in x]
    assert [(x["method"], x["path"], x["status"]) for x in lines] == [
        *[("POST", "/v1/chat/completions", status) for status in (200, 200, 200, 401, 400)],
        ("GET", "/nowhere\ufffd", 404), ("GET", "/v1/models", 200)]
    assert [x.get("key") for x in lines[:5]] == ["anna@shop", "anna@shop", "key-2", None, "anna@shop"]
    assert lines[0]["id"] == "trace-1:a" and lines[4]["id"] == "again"
    made = [x["id"] for x in (*lines[1:4], *lines[5:])]
    assert len(set(made)) == len(made) and all(re.fullmatch("[0-9a-f]{24}", i) for i in made)
    cold, warm = lines[0]["tokens"], lines[1]["tokens"]
    assert cold["prompt"] == cold["computed"] and cold["generated"] > 0
    assert warm["memory"] > 0 and warm["memory"] + warm["computed"] + warm["recomputed"] == warm["prompt"]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", x["time"]) for x in lines)
    assert 0 < lines[0]["ttft_ms"] <= lines[0]["total_ms"] and "tokens" not in lines[3]
    assert not any(word in s.said for word in ("secret", "sk-wrong", "keeper", "lighthouse"))


def test_the_log_counts_tokens_as_the_usage_does(start):
    s = start("--log-format", "json")
    for n, (path, ask) in enumerate((("/v1/chat/completions", chat(n=3)), ("/v1/completions", {"prompt": ["a b", "c"], "n": 2, "max_tokens": 2}))):
        usage = call(s, path, ask)[2]["usage"]
        tokens = json.loads(logged(s, n + 1)[n])["tokens"]
        assert (tokens["prompt"], tokens["generated"]) == (usage["prompt_tokens"], usage["completion_tokens"])
        assert tokens.get("memory", 0) == usage["prompt_tokens_details"]["cached_tokens"]


def test_a_text_log(start):
    s = start()
    for number, stream in enumerate((False, True)):
        body = json.dumps({**chat(), "stream": stream}).encode()
        request = urllib.request.Request(s.url + "/v1/chat/completions", body, {"X-Request-Id": f"id-{number}", "Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=300) as r:
            assert r.headers["X-Request-Id"] == f"id-{number}" and r.read()
        logged(s, number + 1)
    assert s.stop() == 0
    lines = s.said.splitlines()
    assert len(lines) == 4, s.said
    for number, line in enumerate(lines[:2]):
        assert re.match(rf"\S+Z POST /v1/chat/completions 200 id=id-{number} prompt=\d+ .*generated=\d+ queue_ms=", line)


def test_no_log_and_wrong_formats(start):
    s = start("--log-format", "none")
    assert call(s, "/v1/models")[0] == 200 and s.stop() == 0 and s.said == ""
    refuse("serve", "-m", MODEL, "--log-format", "xml", naming=["--log-format", "xml", "json"], code=2)
    refuse("serve", "-m", MODEL, "--parallel", "0", naming=["--parallel", "from 1 to 4096"], code=2)


def test_a_client_that_hangs_up_is_logged(start):
    s = start("--log-format", "json")
    body = json.dumps({**LONG, "stream": True}).encode()
    with s.socket() as c:
        c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        c.recv(100)
    s.wait_for("num_requests_running", 0)
    logged(s, 1)
    assert s.stop() == 0
    assert json.loads(s.said.splitlines()[0])["canceled"] is True


# -- shutdown --------------------------------------------------------------------------------------

def test_draining(start):
    """While an answer is finished, /health is 503 and new requests are refused."""
    s, got = start("--drain", 300, "--parallel", 1), []
    ask = {**LONG, "prompt": "The " * 200, "max_tokens": 2500}
    with busy(s):  # so that the answer that is to be finished waits for its turn
        thread = threading.Thread(target=lambda: got.append(call(s, "/v1/completions", {**ask, "priority": 1})))
        thread.start()
        s.wait_for("num_requests_waiting", 16)
        assert call(s, "/health")[0] == 200
        s.process.send_signal(signal.SIGTERM)
        end = time.time() + 300
        while (health := call(s, "/health"))[0] == 200:
            assert time.time() < end
        assert (health[0], health[2]["status"], health[1]["Connection"]) == (503, "draining", "close")
        status, headers, body = call(s, "/v1/completions", {"prompt": "x", "max_tokens": 1})
        assert (status, body["error"]["code"]) == (503, "shutting_down") and int(headers["Retry-After"]) > 0
        assert call(s, "/v1/models")[0] == 200
    assert s.process.wait(timeout=300) == 0
    thread.join()
    assert got[0][0] == 200 and got[0][2]["usage"]["completion_tokens"] == 2500


@pytest.mark.parametrize("policy", [["--reuse", "full"], []])
def test_copies_outlive_the_process(start, tmp_path, policy):
    options = [*policy, "--store", tmp_path / "store", "--log-format", "json"]
    ask = chat(documents=documents("kept"))
    first = start(*options)
    call(first, "/v1/chat/completions", ask)
    assert first.stop() == 0
    second = start(*options)
    told = call(second, "/v1/chat/completions", ask)[2]["spolia"]["documents"]
    assert [d["from"] for d in told] == ["disk", "disk"]
    logged(second, 1)
    assert second.stop() == 0
    tokens = json.loads(second.said.splitlines()[0])["tokens"]
    assert tokens["disk"] >= sum(d["reused"] for d in told) > 0


def test_the_config_file(start, tmp_path):
    path = tmp_path / "config"
    path.write_text("[spolia]\nreuse = full\n[serve]\nalias = mine\nlog-format = none\npredict = 3\nbody = 8\nbodies = 8\n")
    s = start("--config", path)
    assert call(s, "/v1/models")[2]["data"][0]["id"] == "mine"
    assert call(s, "/v1/completions", {**LONG, "max_tokens": None})[2]["usage"]["completion_tokens"] == 3
    assert s.stop() == 0 and s.said == ""
