"""examples/haproxy.cfg, nginx-replicas.conf and kubernetes.yaml: requests are sent by their documents, also while a server drains, has ended or is busy."""
import concurrent.futures
import contextlib
import http.client
import json
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

from conftest import ROOT, succeed
from serving import LONG, Server, chat
from support.ports import free_port

EXAMPLES = ROOT / "examples"
HAPROXY = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin:/sbin")
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/sbin")
NJS = pathlib.Path("/usr/lib/nginx/modules/ngx_http_js_module.so")
needs_haproxy = pytest.mark.skipif(not HAPROXY, reason="haproxy is not installed")
needs_nginx = pytest.mark.skipif(not NGINX or not NJS.exists(), reason="nginx with njs is not installed")
WRITTEN = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]  # folders of nginx


class Proxy:
    """haproxy or nginx with its example; only the ports are others, and where nginx writes."""

    def __init__(self, folder, servers, which):
        self.port = free_port()
        name, listens, command = {
            "haproxy": ("haproxy.cfg", "bind :8000", [HAPROXY, "-db", "-f", "haproxy.cfg"]),
            "nginx": ("nginx-replicas.conf", "listen 8000", [NGINX, "-p", folder, "-c", "nginx-replicas.conf", "-e", "stderr", "-g", "daemon off;"]),
        }[which]
        text = (EXAMPLES / name).read_text().replace("http {", "http {" + "".join(f" {w}_temp_path {w};" for w in WRITTEN), 1)
        for old, new in [(listens, f"{listens.split()[0]} 127.0.0.1:{self.port}"),
                         *((f"127.0.0.1:{8080 + i}", f"127.0.0.1:{s.port}") for i, s in enumerate(servers))]:
            assert text.count(old) == 1
            text = text.replace(old, new)
        (folder / name).write_text(text)
        for script in ("documents.lua", "documents.js"):
            shutil.copy(EXAMPLES / script, folder)
        self.process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
        end = time.time() + 300
        while not self.answers():
            assert self.process.poll() is None and time.time() < end, self.process.stderr.read()
            time.sleep(0.05)

    def answers(self):
        try:
            return self.ask("GET", "/health")[0] == 200
        except OSError:
            return False

    def ask(self, method, path, body=None, **headers):
        """(status, body); until the proxy has closed the connection, too: it does not count the request any more."""
        headers = {"Content-Type": "application/json", "Connection": "close", **{name.replace("_", "-"): v for name, v in headers.items()}}
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        c.request(method, path, None if body is None else json.dumps(body).encode(), headers)
        with c.sock.dup() as s:
            reply = c.getresponse()
            told = reply.status, reply.read()
            with contextlib.suppress(ConnectionError):
                s.recv(1)
        return told

    def stop(self):
        self.process.terminate()
        self.process.communicate(timeout=300)


@pytest.fixture
def servers():
    all_of_them = [Server("--reuse", "full", "--drain", "300", "--log-format", "json") for _ in range(3)]
    yield all_of_them
    for s in all_of_them:
        if s.process.poll() is None:
            s.stop()


@pytest.fixture(params=[pytest.param("haproxy", marks=needs_haproxy), pytest.param("nginx", marks=needs_nginx)])
def proxy(servers, tmp_path, request):
    p = Proxy(tmp_path, servers, request.param)
    yield p
    p.stop()


def counts(servers, path="/v1/chat/completions"):
    """Chats that each server has answered."""
    whole = [s.read_log().rpartition("\n")[0].splitlines() for s in servers]
    return [sum(json.loads(line).get("path") == path for line in lines) for lines in whole]


STREAM = {**LONG, "stream": True, "max_tokens": 600}


def document(i):
    return {"id": f"d{i}", "title": f"Harbour {i}", "text": f"The harbour of town {i} has room for forty boats, and in winter for ten. " * 4}


def send(proxy, servers, *, documents=None, headers=None, **fields):
    """Which server answers this chat."""
    time.sleep(0.05)  # the proxy has seen the end of the one before: two at once may go to two servers
    before = counts(servers)
    body = chat(max_tokens=1, **({"documents": documents} if documents else {}), **fields)
    assert proxy.ask("POST", "/v1/chat/completions", body, **(headers or {}))[0] == 200
    end = time.time() + 300
    while (now := counts(servers)) == before:
        assert time.time() < end
        time.sleep(0.02)
    return [b != n for b, n in zip(before, now)].index(True)


def server_of(proxy, servers, **what):
    """Which server answers such chats: the one that does so twice in succession. While the proxy has not seen the end of
    another request, haproxy may give one away."""
    last = send(proxy, servers, **what)
    for _ in range(30):
        at = send(proxy, servers, **what)
        if at == last:
            return at
        last = at
    return pytest.fail("each time another server")


def test_the_same_documents_go_to_the_same_server(servers, proxy):
    at = [server_of(proxy, servers, documents=[document(i), document(i + 100)]) for i in range(15)]
    assert len(set(at)) > 1
    again = [server_of(proxy, servers, documents=[document(i), document(i + 200)], user=f"someone else {i}") for i in range(15)]
    assert again == at, "the first document decides"


def test_a_key_in_the_body_or_a_header_goes_before(servers, proxy):
    by_key = [server_of(proxy, servers, documents=[document(i)], prompt_cache_key="manual") for i in range(6)]
    assert len(set(by_key)) == 1
    other = next(name for name in (f"group {i}" for i in range(50)) if server_of(proxy, servers, headers={"X_Documents": name}) != by_key[0])
    assert server_of(proxy, servers, prompt_cache_key="manual", documents=[document(1)], headers={"X_Documents": other}) != by_key[0]


def test_one_that_drains_or_ends_costs_no_answer(servers, proxy):
    with concurrent.futures.ThreadPoolExecutor(9) as pool:
        streams = []
        end = time.time() + 300
        # Which server a key goes to depends on the ports, and a stream may end before anyone looks: more are sent until one is seen.
        while not (draining := next((s for s in servers if s.metric("num_requests_running")), None)):
            assert time.time() < end
            streams.append(pool.submit(proxy.ask, "POST", "/v1/completions", STREAM, X_Documents=f"g{len(streams)}"))
        draining.process.send_signal(signal.SIGTERM)
        answers = [proxy.ask("POST", "/v1/chat/completions", chat(max_tokens=1, documents=[document(i)]))[0] for i in range(12)]
        assert answers == [200] * 12
        for s in streams:
            status, events = s.result()
            assert status == 200 and events.rstrip().endswith(b"data: [DONE]")
    assert draining.process.wait(timeout=300) == 0
    assert proxy.ask("POST", "/v1/chat/completions", chat(max_tokens=1))[0] == 200


def test_one_that_is_killed_costs_no_answer_that_had_not_begun(servers, proxy):
    servers[1].process.kill()
    servers[1].process.wait()
    answers = [proxy.ask("POST", "/v1/chat/completions", chat(max_tokens=1, documents=[document(i)])) for i in range(12)]
    assert all(status == 200 for status, _ in answers), answers


@pytest.mark.parametrize("proxy", [pytest.param("haproxy", marks=needs_haproxy)], indirect=True)
def test_a_busy_server_gives_some_away(servers, proxy):
    """Twelve streams about one document: a plain hash would send all of them to one server. On a busy machine one may end
    before the next begins, so there are several rounds."""
    for _ in range(20):
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            streams = [pool.submit(proxy.ask, "POST", "/v1/completions", STREAM, X_Documents="the same") for _ in range(12)]
            assert all(s.result()[0] == 200 for s in streams)
        if sum(n > 0 for n in counts(servers, "/v1/completions")) > 1:
            return
    pytest.fail("one server has all of them")


def test_the_pods_have_options_and_metrics_that_there_are():
    yaml = pytest.importorskip("yaml")
    parts = {d["kind"]: d["spec"] for d in yaml.safe_load_all((EXAMPLES / "kubernetes.yaml").read_text())}
    assert set(parts) == {"Deployment", "Service", "HorizontalPodAutoscaler"}
    pod = parts["Deployment"]["template"]["spec"]
    container, = pod["containers"]
    args = container["args"]
    said = succeed("serve", "--help-all")
    assert all(a in said for a in args if a.startswith("--"))
    assert pod["terminationGracePeriodSeconds"] > int(args[args.index("--drain") + 1])
    assert {container[p]["httpGet"]["path"] for p in ("readinessProbe", "livenessProbe", "startupProbe")} == {"/health"}
    s = Server()
    metric = parts["HorizontalPodAutoscaler"]["metrics"][0]["pods"]["metric"]["name"]
    assert f"\n{metric} 0" in s.call("/metrics")[1]
    assert s.stop() == 0
