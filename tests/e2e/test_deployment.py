"""What examples/ has for servers: the reverse proxy in front of two of them, the systemd unit, the image."""
import json
import re
import shutil
import signal
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest
from conftest import PROGRAM, ROOT, succeed
from serving import LONG, MODEL, Server, busy
from support.ports import free_port

EXAMPLES = ROOT / "examples"
GROUPS = [f"customer-{i}" for i in range(24)]


def needs(program):
    path = shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")
    if not path:
        pytest.skip(f"{program} is not installed")
    return path


# -- nginx -----------------------------------------------------------------------------------------

class Proxy:
    """nginx with examples/nginx.conf; only ports and the paths of the certificate are others."""

    def __init__(self, folder, servers):
        nginx, openssl = needs("nginx"), needs("openssl")
        self.port = free_port()
        subprocess.run([openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-keyout", folder / "key", "-out", folder / "cert", "-days", "2", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
        text = (EXAMPLES / "nginx.conf").read_text()
        for old, new in [("listen 443 ssl", f"listen 127.0.0.1:{self.port} ssl"), ("/etc/ssl/certs/spolia.pem", folder / "cert"),
                         ("/etc/ssl/private/spolia.key", folder / "key"),
                         *((f"127.0.0.1:{8080 + i}", f"127.0.0.1:{s.port}") for i, s in enumerate(servers))]:
            assert text.count(old) == 1
            text = text.replace(old, str(new))
        paths = " ".join(f"{name}_temp_path {folder};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (folder / "conf").write_text(f"daemon off; pid {folder}/pid; error_log {folder}/errors; worker_processes 1;\n"
                                     f"events {{}}\nhttp {{ access_log off; {paths}\n{text}}}\n")
        self.process = subprocess.Popen([nginx, "-p", folder, "-c", folder / "conf", "-e", folder / "errors"],
                                        stderr=subprocess.PIPE, text=True)
        self.context = ssl.create_default_context(cafile=folder / "cert")
        end = time.time() + 300
        while not self.answers():
            assert self.process.poll() is None and time.time() < end, self.process.stderr.read()
            time.sleep(0.05)

    def open(self, path, body=None, **headers):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
        request = urllib.request.Request(f"https://localhost:{self.port}{path}", data, headers)
        return urllib.request.urlopen(request, context=self.context, timeout=300)

    def answers(self):
        try:
            return self.open("/health").status == 200
        except (ConnectionError, urllib.error.URLError):
            return False

    def stop(self):
        self.process.terminate()
        self.process.communicate(timeout=300)


@pytest.fixture(scope="module")
def servers():
    needs("nginx")
    both = [Server("--log-format", "json", "--drain", "300", "--parallel", "2") for _ in range(2)]
    yield both
    for s in both:
        if s.process.poll() is None:
            s.stop()


@pytest.fixture(scope="module")
def proxy(servers, tmp_path_factory):
    p = Proxy(tmp_path_factory.mktemp("nginx"), servers)
    yield p
    p.stop()


def ids(server):
    return [json.loads(line).get("id") for line in server.read_log().rpartition("\n")[0].splitlines()]


def server_of(servers, name, seconds=300):
    """Which server has a request with this id in its log."""
    end = time.time() + seconds
    while True:
        found = [i for i, s in enumerate(servers) if name in ids(s)]
        if found or time.time() > end:
            assert len(found) == 1, (name, found)
            return found[0]
        time.sleep(0.02)


def test_a_group_of_documents_has_one_server(servers, proxy):
    at = {}
    for turn in range(3):
        for group in GROUPS:
            name = f"{group}-{turn}"
            with proxy.open("/v1/models", X_Documents=group, X_Request_Id=name) as reply:
                assert reply.headers["X-Request-Id"] == name
            at.setdefault(group, set()).add(server_of(servers, name))
    assert all(len(which) == 1 for which in at.values())
    assert {next(iter(which)) for which in at.values()} == {0, 1}
    with proxy.open("/v1/models") as reply:
        server_of(servers, reply.headers["X-Request-Id"])  # nginx' own id


def test_events_are_not_held_back(proxy):
    """The first piece that comes has an event or two, not a buffer full of them; on a busy machine now and then."""
    def n_first():
        with proxy.open("/v1/completions", {**LONG, "max_tokens": 1500, "stream": True}) as reply:
            return reply.read1(1 << 16).count(b"data: ")
    assert any(0 < n_first() < 8 for _ in range(20))


def test_one_server_drains_while_the_other_continues(servers, proxy):
    """The last test with both servers: the stream of the one that drains ends as it should."""
    began, lines = threading.Event(), []

    def read():
        with proxy.open("/v1/completions", {**LONG, "stream": True, "priority": -1}, X_Documents=GROUPS[0]) as r:
            for line in r:
                lines.append(line)
                began.set()

    with proxy.open("/v1/models", X_Documents=GROUPS[0], X_Request_Id="where"):
        at = server_of(servers, "where")
    one, other = servers[at], servers[1 - at]
    with busy(one, running=2):  # so that it does not end before the others have been asked
        thread = threading.Thread(target=read)
        thread.start()
        assert began.wait(300)
        one.process.send_signal(signal.SIGTERM)
        end = time.time() + 300
        while one.call("/health")[0] == 200:
            assert time.time() < end
        for i, group in enumerate(GROUPS):
            with proxy.open("/v1/completions", {"prompt": "x", "max_tokens": 1}, X_Documents=group,
                            X_Request_Id=f"drained-{i}") as reply:
                assert reply.status == 200
        assert one.process.poll() is None, "it still answers"
    thread.join()
    assert lines[-2] == b"data: [DONE]\n"
    last = [json.loads(line[6:]) for line in lines if line.startswith(b"data: {")][-1]
    assert last["choices"][0]["finish_reason"] == "length" and last["timings"]["predicted_n"] == LONG["max_tokens"]
    assert one.process.wait(timeout=300) == 0
    while not set(f"drained-{i}" for i in range(len(GROUPS))) <= set(ids(other)):
        assert time.time() < end + 60
        time.sleep(0.02)
    for group in GROUPS:
        assert proxy.open("/v1/models", X_Documents=group).status == 200


# -- systemd ---------------------------------------------------------------------------------------

@pytest.fixture
def unit(tmp_path):
    """The unit, with the program of this build."""
    path = tmp_path / "spolia.service"
    text = (EXAMPLES / "spolia.service").read_text()
    assert "/usr/local/bin/spolia " in text
    path.write_text(text.replace("/usr/local/bin/spolia ", f"{PROGRAM} "))
    return path


def test_the_unit_is_valid(unit):
    done = subprocess.run([needs("systemd-analyze"), "--man=no", "verify", unit], capture_output=True, text=True)
    if "Failed to" in done.stderr and "manager" in done.stderr:
        pytest.skip("systemd-analyze does not run here: " + done.stderr.strip())
    assert done.returncode == 0 and "spolia.service" not in done.stderr, done.stderr


def test_the_unit_is_hardened(unit):
    done = subprocess.run([needs("systemd-analyze"), "security", "--offline=true", unit], capture_output=True, text=True)
    level = re.search(r"exposure level for \S+: ([0-9.]+)", done.stdout)
    if not level:
        pytest.skip("systemd-analyze cannot judge units here: " + done.stderr.strip())
    assert float(level[1]) < 2


def test_the_command_of_the_unit_starts(unit, tmp_path):
    command = re.search(r"^ExecStart=(.*)$", unit.read_text(), re.M)[1].split()
    assert command[:4] == [str(PROGRAM), "serve", "--config", "/etc/spolia/config"]
    text = (EXAMPLES / "spolia.conf").read_text().replace("/var/lib/spolia/store", str(tmp_path / "store"))
    text = text.replace("= 4096", "= 64").replace("50G", "1G")
    (tmp_path / "config").write_text(text)
    s = Server("--config", tmp_path / "config", *command[4:])
    assert s.call("/health")[0] == 200 and s.stop() == 0
    assert json.loads(s.said.splitlines()[0])["event"] == "draining"


def test_the_settings_are_options():
    said = json.loads(succeed("config", "serve", "--json", "--config", EXAMPLES / "spolia.conf"))["settings"]
    assert {s["option"] for s in said if s["from"] == "file"} >= {"model", "store", "log-format", "drain"}


# -- the image -------------------------------------------------------------------------------------

def test_the_image_has_what_the_program_needs():
    stages = (EXAMPLES / "Containerfile").read_text().split("\nFROM ")
    assert len(stages) == 3
    build, image = (set(re.findall(r"[a-z0-9.+-]+", s[s.index("apt-get install"):s.index("COPY")])) for s in stages[1:])
    wanted = set(re.findall(r"\blib[a-z0-9.-]+-dev\b", (ROOT / "scripts/setup").read_text()))
    assert wanted - {"libcmocka-dev", "libsimde-dev"} <= build, "libraries of scripts/setup are missing"
    needed = subprocess.run([needs("readelf"), "-d", PROGRAM], capture_output=True, text=True).stdout
    patterns = [f"*-linux-gnu/{name}" for name in re.findall(r"NEEDED.*\[(.*)\]", needed)]
    found = subprocess.run([needs("dpkg"), "-S", *patterns], capture_output=True, text=True).stdout
    packages = {line.split(":")[0] for line in found.splitlines()}
    assert len(packages) > 10 and packages - {"libc6", "libgcc-s1", "libasan8", "libubsan1", "libtsan2"} <= image


def test_the_image_starts_the_server():
    text = (EXAMPLES / "Containerfile").read_text()
    assert json.loads(re.search(r"^ENTRYPOINT (.*)$", text, re.M)[1]) == ["spolia", "serve"]
    assert "COPY examples/spolia.conf /etc/spolia/config" in text and "SPOLIA_CONFIG=/etc/spolia/config" in text
    assert re.search(r"^USER spolia$", text, re.M)


def test_an_open_server_is_warned_about(tmp_path):
    (tmp_path / "keys").write_text("secret\n")
    said = {}
    for options in (("--host", "0.0.0.0"), ("--host", "127.0.0.2"), ("--host", "0.0.0.0", "--api-keys", tmp_path / "keys")):
        process = subprocess.Popen([PROGRAM, "serve", "-m", MODEL, "--port", "0", *options], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        process.stdout.readline()
        process.terminate()
        said[options] = "no key is needed" in process.communicate(timeout=300)[1]
        assert process.returncode == 0
    assert list(said.values()) == [True, False, False]
