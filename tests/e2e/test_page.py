"""The page at /: its files as they are sent, and what people do with it in a browser (tests/support/page.py)."""
import gzip
import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from conftest import ROOT, succeed
from serving import Server
from support.ports import free_port

CLIENTS = ROOT / ".venv-clients/bin/python"
CHROMIUM = shutil.which("chromium")
CAN_BROWSE = CLIENTS.exists() and CHROMIUM and subprocess.run([CHROMIUM, "--version"], capture_output=True).returncode == 0
FILES = sorted((ROOT / "src/server/page/files").iterdir())
ROOMS = sorted((ROOT / "tests/support").glob("page_*.py"))
FLOWS = [flow for room in ROOMS for flow in re.findall(r"^def (\w+)\(f\)", room.read_text(), re.M)]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page-server")
    (folder / "velm").mkdir()
    for name, text in (("keeper", "The lighthouse of Velm is kept by Anna Berg."), ("hotels", "Torin has two hotels, the Swan and the Anchor."),
                       ("harbour", "The harbour of Velm was built in 1870.")):
        (folder / "velm" / f"{name}.txt").write_text(text)
    succeed("graph", "import", ROOT / "demo/graph/triples.tsv", "-o", folder / "g.db")
    with Server("--reuse", "full", "--collection", f"velm={folder / 'velm'}", "--graph", folder / "g.db") as s:
        yield s


NGINX = """daemon off; pid {0}/pid; error_log {0}/errors; events {{}}
http {{ access_log off; client_body_temp_path {0}/b; proxy_temp_path {0}/p; fastcgi_temp_path {0}/f; uwsgi_temp_path {0}/u; scgi_temp_path {0}/s;
  server {{ listen 127.0.0.1:{1}; location = /spolia {{ return 301 /spolia/; }}
    location /spolia/ {{ proxy_pass {2}/; proxy_set_header Host $http_host; proxy_buffering off; }} }} }}"""


def listens(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def prefixed(server, tmp_path_factory):
    """The server below /spolia of a proxy; "-" without nginx."""
    if not (nginx := shutil.which("nginx")):
        yield "-"
        return
    folder = tmp_path_factory.mktemp("page-proxy")
    port = free_port()
    (folder / "conf").write_text(NGINX.format(folder, port, server.url))
    process = subprocess.Popen([nginx, "-p", folder, "-c", folder / "conf", "-e", folder / "errors"])
    end = time.time() + 300
    while not listens(port):
        assert process.poll() is None and time.time() < end, (folder / "errors").read_text()
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}/spolia"
    process.terminate()
    process.wait(300)


def get(url, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as r:
        return r.read(), r.headers


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_every_file_is_in_the_program(server, file):
    plain, headers = get(f"{server.url}/page/{file.name}")
    packed, _ = get(f"{server.url}/page/{file.name}", **{"Accept-Encoding": "gzip"})
    assert plain == file.read_bytes() == gzip.decompress(packed)
    assert "default-src 'none'" in headers["Content-Security-Policy"] and headers["X-Content-Type-Options"] == "nosniff"
    kinds = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}
    assert headers["Content-Type"].startswith(kinds[file.suffix])


def test_it_is_small_and_kept_by_browsers(server):
    sizes, tags = [], {}
    for file in FILES:
        packed, headers = get(f"{server.url}/page/{file.name}", **{"Accept-Encoding": "gzip"})
        sizes.append(len(packed))
        tags[file.name] = headers["ETag"]
    assert sum(sizes) < 150_000
    assert len(set(tags.values())) == len(FILES)
    with pytest.raises(urllib.error.HTTPError) as unchanged:
        get(f"{server.url}/page/main.js", **{"Accept-Encoding": "gzip", "If-None-Match": tags["main.js"]})
    assert unchanged.value.code == 304
    for file in FILES:  # after an upgrade, or without gzip after it was with it
        packed, _ = get(f"{server.url}/page/{file.name}", **{"Accept-Encoding": "gzip", "If-None-Match": '"0a1b2c3d-gzip"'})
        plain, _ = get(f"{server.url}/page/{file.name}", **{"If-None-Match": tags[file.name]})
        assert gzip.decompress(packed) == plain == file.read_bytes()


@pytest.mark.parametrize("accepted,packed", [("gzip", True), ("br, gzip;q=0.5", True), ("deflate, gzip ; q=1.0, *;q=0", True),
                                             ("gzip;q=0, identity", False), ("br, gzip; q=0.0", False), ("br", False)])
def test_a_browser_may_refuse_gzip(server, accepted, packed):
    body, headers = get(f"{server.url}/page/main.js", **{"Accept-Encoding": accepted})
    assert (headers["Content-Encoding"] == "gzip") == packed == (body[:2] == b"\x1f\x8b")


def test_there_is_nothing_else(server):
    for path in ("/page/", "/page/../server.c", "/page/main.js.gz", "/page/nothing.js"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            get(server.url + path)
        assert refused.value.code == 404


def test_no_page():
    s = Server("--no-page")
    for path in ("/", "/page/main.js"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            get(s.url + path)
        assert refused.value.code == 404
    assert s.stop() == 0


def test_texts_are_all_used_and_all_there():
    """One table of texts: each is used, and each that is used is there."""
    sources = {f.name: f.read_text() for f in FILES if f.suffix == ".js"}
    there = set(re.findall(r"(?:^|[,{] )\s*(\w+):\s*\n?\s*\"", sources.pop("texts.js"), re.M))
    code = "".join(sources.values())
    used = set(re.findall(r"text\(\"(\w+)\"(?! \+)", code))
    begun = tuple(re.findall(r"text\(\"(\w+)\" \+", code)) # of a text for each kind
    assert used <= there, used - there
    assert all(any(t.startswith(b) for t in there) for b in begun)
    there -= {t for t in there if t.startswith(begun)}
    words = set(re.findall(r"\"(\w+)\"", code)) | set(re.findall(r"\b(ask|documents|watch)\b", code))
    assert there <= words, there - words


BRIEF = {"role": "system", "content": "Answer briefly."}
N_COPIES, AT_ONCE, N_DOCUMENTS = 10_000, 100, 3_000


def resident(s):
    """Bytes of memory that a server has."""
    return int(re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{s.process.pid}/status").read_text())[1]) * 1024


@pytest.fixture(scope="module")
def many():
    """A server with 10,000 copies of short documents below one system prompt, and 3,000 registered documents."""
    s = Server("--reuse", "full", "--kv-memory", 1024)
    for i in range(0, N_COPIES, AT_ONCE):
        given = [{"text": f"Boat {k} is at pier {k * 7919 % N_COPIES}."} for k in range(i, i + AT_ONCE)]
        body = {"model": "any", "messages": [BRIEF, {"role": "user", "content": "Where?"}], "documents": given, "max_tokens": 1}
        status, o = s.call("/v1/chat/completions", body)
        assert status == 200, o
    for k in range(N_DOCUMENTS):
        status, o = s.call("/v1/documents", {"id": f"crane-{k}", "title": f"Crane {k}", "text": f"Crane {k} lifts {k % 97} tons."})
        assert status in (200, 201), o
    yield s
    assert s.stop() == 0, s.said


def test_ten_thousand_copies_are_walked_in_pages(many):
    """Each once, in little memory, and no page takes long; a request that comes meanwhile does not wait for it."""
    (head,) = [c for c in many.call("/v1/copies")[1]["data"] if "Answer briefly." in c["text"]]
    assert head["below"] >= N_COPIES
    before, copies, longest, query = resident(many), [], 0, f"parent={head['name']}&limit=200"
    for after in iter(lambda: query, None):
        began = time.monotonic()
        status, page = many.call("/v1/copies?" + after)
        longest = max(longest, time.monotonic() - began)
        assert status == 200 and len(page["data"]) <= 200
        copies += page["data"]
        query = f"parent={head['name']}&limit=200&after={page['next']}" if page["has_more"] else None
    assert len(copies) == len({c["name"] for c in copies}) == head["below"]
    assert len({c["text"] for c in copies if "Boat" in c["text"]}) == N_COPIES
    assert resident(many) - before < 32 << 20
    assert longest < 5, longest # a tenth of a second on a machine that does nothing else
    many.call(f"/v1/copies?parent={head['name']}&limit=1000")
    assert many.call("/v1/copies?limit=1001")[0] == 400


def cpu_seconds(s):
    """User and system time of a server."""
    fields = Path(f"/proc/{s.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_page_that_watches_costs_little(many):
    """CPU time of what it asks for every two seconds: under 1 % of a core (bench/page_cost.py measures it on a busy server)."""
    rounds, begin = 100, cpu_seconds(many)
    for _ in range(rounds):
        get(many.url + "/metrics"), get(many.url + "/v1/requests")
    assert (cpu_seconds(many) - begin) / rounds / 2 < 0.01


@pytest.fixture(scope="module")
def reports(server, prefixed, many, tmp_path_factory):
    keys = tmp_path_factory.mktemp("page") / "keys"
    keys.write_text("the-key\n")
    keyed = Server("--api-keys", str(keys))
    pictures = [os.environ["SPOLIA_PICTURES"]] if "SPOLIA_PICTURES" in os.environ else []
    done = subprocess.run([CLIENTS, ROOT / "tests/support/page.py", CHROMIUM, server.url, keyed.url, prefixed, many.url, *pictures],
                          capture_output=True, text=True, timeout=1500)
    keyed.stop()
    assert done.returncode == 0, done.stderr[-3000:]
    return {r["flow"]: r["error"] for r in map(json.loads, done.stdout.splitlines())}


@pytest.mark.skipif(not CAN_BROWSE, reason="scripts/setup --clients could not install Chromium and Playwright")
@pytest.mark.parametrize("flow", sorted(FLOWS))
def test_in_a_browser(reports, flow):
    assert not reports[flow], reports[flow]
