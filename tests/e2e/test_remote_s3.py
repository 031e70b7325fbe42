"""Replicas that share copies through an object store (--remote s3://): moto's server, which verifies signatures."""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from conftest import PROGRAM, ROOT, refuse, run, succeed
from test_json import valid
from test_remote import ask, sources, text_of, wait_for
from test_server import Server, chat
from test_server_documents import register, send

boto3 = pytest.importorskip("boto3", reason="moto and boto3 are not installed")
MODEL = ROOT / "demo/model.gguf"
ALLOWED = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]})


class Store:
    """A server of its own with a bucket and one user; from then on it refuses wrong signatures."""

    bucket = "copies"
    url = f"s3://{bucket}/corpus/one"

    def __init__(self, folder):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.endpoint = f"http://127.0.0.1:{s.getsockname()[1]}"
        self.log = folder / "moto.log"
        self.process = subprocess.Popen([pathlib.Path(sys.executable).parent / "moto_server", "-p", self.endpoint.rsplit(":")[-1]],
                                        stdout=subprocess.DEVNULL, stderr=self.log.open("w"))
        wait_for(self.answers)
        iam = self.client("iam", "any", "any")
        iam.create_user(UserName="spolia")
        iam.put_user_policy(UserName="spolia", PolicyName="all", PolicyDocument=ALLOWED)
        made = iam.create_access_key(UserName="spolia")["AccessKey"]
        self.key, self.secret = made["AccessKeyId"], made["SecretAccessKey"]
        self.s3 = self.client("s3", self.key, self.secret)
        self.s3.create_bucket(Bucket=self.bucket)
        self.call("/moto-api/reset-auth", b"0")
        self.env = {"AWS_ACCESS_KEY_ID": self.key, "AWS_SECRET_ACCESS_KEY": self.secret, "AWS_ENDPOINT_URL": self.endpoint,
                    "AWS_SHARED_CREDENTIALS_FILE": str(folder / "none"), "AWS_CONFIG_FILE": str(folder / "none"),
                    "AWS_EC2_METADATA_DISABLED": "true"}

    def call(self, path, body=None):
        r = urllib.request.Request(self.endpoint + path, body, {"Content-Type": "text/plain"})
        return urllib.request.urlopen(r, timeout=30).read()

    def answers(self):
        try:
            self.call("/moto-api/")
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False
        return True

    def client(self, service, key, secret):
        return boto3.client(service, endpoint_url=self.endpoint, region_name="us-east-1", aws_access_key_id=key, aws_secret_access_key=secret)

    def keys(self, part):
        found = self.s3.list_objects_v2(Bucket=self.bucket).get("Contents", [])
        return [o["Key"] for o in found if f"/{part}/" in o["Key"]]

    def copies(self):
        return len(self.keys("copy"))

    def stop(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()


@pytest.fixture
def store(tmp_path, monkeypatch):
    s = Store(tmp_path)
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    for name, value in s.env.items():
        monkeypatch.setenv(name, value)
    yield s
    s.stop()


@pytest.fixture
def replica(store):
    started = []

    def begin(*options):
        started.append(Server("--reuse", "full", "--cpu", "ref", "--remote", store.url, *options))
        return started[-1]
    yield begin
    for s in started:
        if s.process.poll() is None:
            assert s.stop() == 0, s.said
            assert "Sanitizer" not in s.said, s.said


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    out = tmp_path_factory.mktemp("index") / "x.db"
    succeed("index", ROOT / "demo/docs", "-o", out, "-q")
    return out


def precompute(store, index, *options):
    return json.loads(succeed("precompute", index, "-m", MODEL, "--remote", store.url, "--fuse", "0", "--json", "-t", "1", *options))


def cache(store, what, *options, code=0):
    done = run("cache", what, "--remote", store.url, "--json", *options)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)




def test_what_one_computed_the_other_reuses(store, replica):
    one, two = replica(), replica()
    first = ask(one, "Velm", "Torin")
    assert sources(first) == ["never seen", "never seen"]
    wait_for(lambda: len(store.keys("index")) == 2)
    time.sleep(6) # the other server lists the bucket every five seconds
    again = ask(two, "Torin", "Velm")
    assert sources(again) == ["remote", "remote"]
    assert all(d["reused"] == d["tokens"] for d in again["spolia"]["documents"])
    same = ask(one, "Torin", "Velm")
    assert same["choices"][0]["message"]["content"] == again["choices"][0]["message"]["content"]
    late = replica() # reads what is there when it starts
    time.sleep(1)
    assert sources(ask(late, "Velm")) == ["remote"]
