"""A remote tier over TLS (rediss://): whom it trusts, and what it refuses."""
import json
import shutil
import subprocess

import pytest

from conftest import ROOT, refuse, succeed
from support.ports import free_port
from test_remote import (Redis, ask, load_by_another, replica, sources, wait_for,  # noqa: F401 -- replica is a fixture
                         wait_until_known)

pytestmark = pytest.mark.skipif(not shutil.which("redis-server") or not shutil.which("openssl"), reason="redis-server or openssl is not installed")

MODEL = ROOT / "demo/model.gguf"


def certificate(folder, name, subject):
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key,
                    "-out", cert, "-days", "2", "-subj", f"/CN={subject}", "-addext", f"subjectAltName={'IP' if subject[0].isdigit() else 'DNS'}:{subject}"],
                   check=True, capture_output=True)
    return cert, key


class Secured(Redis):
    """Redis that speaks TLS on a second port, as `localhost`."""

    def __init__(self, folder, subject="localhost"):
        self.cert, key = certificate(folder, "server", subject)
        tls = free_port()
        self.options = ["--tls-port", str(tls), "--tls-cert-file", self.cert, "--tls-key-file", key, "--tls-auth-clients", "no",
                        "--tls-ca-cert-file", self.cert]
        super().__init__()
        self.url = f"rediss://localhost:{tls}/0"


@pytest.fixture
def redis(tmp_path):
    r = Secured(tmp_path)
    yield r
    r.stop()


def test_copies_are_shared(redis, replica): # noqa: F811
    one, two = replica("--remote-ca", redis.cert), replica("--remote-ca", redis.cert)
    first = ask(one, "Velm", "Torin")
    wait_for(lambda: redis.copies() == 2)
    wait_until_known(two, 2)
    assert sources(ask(two, "Torin", "Velm")) == ["remote", "remote"]
    _, [again] = load_by_another(lambda: replica("--remote-ca", redis.cert), 2, ("Velm", "Torin"))
    assert sources(again) == ["remote", "remote"]
    assert again["choices"][0]["message"]["content"] == first["choices"][0]["message"]["content"]


def test_much_goes_through(redis, tmp_path):
    """Some hundred values each way; every byte is checked."""
    succeed("index", ROOT / "demo/docs", "-o", tmp_path / "x.db", "-q")
    how = ["--remote", redis.url, "--remote-ca", redis.cert, "--json"]
    n = json.loads(succeed("precompute", tmp_path / "x.db", "-m", MODEL, "--fuse", "0", "-t", "1", *how))["fused"]
    assert json.loads(succeed("cache", "verify", *how))["copies"] == n > 50


def test_one_that_is_not_trusted_is_refused(redis):
    refuse("cache", "verify", "--remote", redis.url, naming=["localhost", "self-signed certificate"])


def test_one_of_another_name_is_refused(tmp_path):
    other = Secured(tmp_path, "elsewhere")
    try:
        refuse("cache", "verify", "--remote", other.url, "--remote-ca", other.cert, naming=["localhost", "hostname mismatch"])
    finally:
        other.stop()


def test_one_without_tls_is_refused(redis):
    refuse("cache", "verify", "--remote", f"rediss://127.0.0.1:{redis.port}", "--remote-ca", redis.cert, naming=["TLS"])


def test_certificates_that_are_none_are_named(redis, tmp_path):
    (tmp_path / "none").write_text("nothing")
    for path in ("none", "missing"):
        refuse("cache", "verify", "--remote", redis.url, "--remote-ca", tmp_path / path, naming=[tmp_path / path, "certificates"])
