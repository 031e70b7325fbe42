"""`spolia serve` for a test: with Server(options) as s: s.call(path, body). The fixtures server and start: conftest.py."""
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from conftest import PROGRAM, ROOT

MODEL = ROOT / "demo/model.gguf"
LONG = {"max_tokens": 3000, "prompt": "The harbour", "temperature": 1, "top_k": 2000, "seed": 1, "ignore_eos": True}


class Server:
    def __init__(self, *options, model=MODEL, under=lambda *command: command, env=None):
        """under: makes the command that runs this one; env: more variables."""
        self.key = None  # of metric
        self.log = tempfile.TemporaryFile("w+")
        command = under(PROGRAM, "serve", "-m", model, "--port", "0", *map(str, options))
        self.process = subprocess.Popen(list(command), stdout=subprocess.PIPE, stderr=self.log, text=True,
                                        env={**os.environ, **(env or {})})
        line = self.process.stdout.readline()
        assert line.startswith("listening on http://127.0.0.1:"), line + self.read_log()
        self.url = line.split()[-1]
        self.port = int(self.url.rsplit(":", 1)[1])

    def read_log(self):
        """What it wrote so far. The server shares the file's position, so it must not move: pread leaves it."""
        file = self.log.fileno()
        return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")

    def client(self, key="none"):
        import openai
        return openai.OpenAI(base_url=self.url + "/v1", api_key=key, max_retries=0, timeout=300)

    def call(self, path, body=None, key=None):
        """(status, JSON or text) of a GET, or of a POST with a body: an object, or bytes as they are."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        try:
            with urllib.request.urlopen(urllib.request.Request(self.url + path, data, headers), timeout=300) as r:
                status, text = r.status, r.read().decode()
        except urllib.error.HTTPError as e:
            status, text = e.code, e.read().decode()
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text

    def metric(self, name):
        text = self.call("/metrics", key=self.key)[1]
        return float(re.search(rf"^spolia:{re.escape(name)} (\S+)$", text, re.M)[1])

    def wait_for(self, metric, value=None, least=None):
        """Until the metric has the value, or at least so much."""
        end = time.time() + 300
        while (now := self.metric(metric)) != value and (least is None or now < least):
            assert time.time() < end, f"{metric} is {now}, not {value or least}"
            time.sleep(0.05)

    def socket(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=300)

    def stop(self, number=signal.SIGTERM, seconds=300):
        """Its exit code; what it wrote to standard error is in self.said."""
        self.process.send_signal(number)
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        self.said = self.read_log()
        return self.process.returncode

    def end(self):
        """Stops it, unless the test has. Nothing went wrong in it."""
        if self.process.poll() is None:
            assert self.stop() == 0, self.said
        said = self.read_log()
        assert "Sanitizer" not in said, said

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


@contextlib.contextmanager
def busy(server, running=1, key=None, **fields):
    """A stream that runs for much longer than a block takes: sixteen long answers, canceled at its end. A server with a
    single place computes them one after the other."""
    asked = {**LONG, "n": 16, "stream": True, **fields}
    path = "/v1/completions"
    if "messages" in fields:
        path = "/v1/chat/completions"
        del asked["prompt"]
    body = json.dumps(asked).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    with server.socket() as c:
        c.sendall((head + (f"Authorization: Bearer {key}\r\n" if key else "") + "\r\n").encode() + body)
        server.wait_for("num_requests_running", running)
        yield c


@contextlib.contextmanager
def servers(*always):
    """A function that starts servers with these and more options; they end with the block."""
    with contextlib.ExitStack() as stack:
        yield lambda *options, **more: stack.enter_context(Server(*always, *options, **more))


def documents(name):
    return [{"id": "a", "title": "Harbour", "text": f"The keeper of the {name} lighthouse is called Anna Berg and came in 1931."},
            {"id": "b", "title": "Boats", "text": f"The {name} harbour was built by the town in 1870 and has forty boats."}]


def chat(question="Who is the keeper?", **more):
    return {"model": "any", "messages": [{"role": "user", "content": question}], "max_tokens": 12, **more}
