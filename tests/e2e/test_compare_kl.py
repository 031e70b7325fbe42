"""scripts/compare-kl: small random models stay within a bound that a wrong rotation breaks, and a peer
that speaks llama.cpp's HTTP interface is measured by the same rule.

The peer here is a server whose distributions are the reference's own, computed rightly or wrongly.
"""
import json
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from conftest import CPU, PROGRAM, ROOT

from reference.forward import forward, log_softmax
from reference.model import load

# Mean KL by the type of keys and values: ten times what was measured, and less than a tenth of what a
# rotation that is off by a thousandth costs.
BOUND = {"f32": 2e-11, "f16": 1e-5}
ROUNDED = {16: 4e-7, 8: 6e-3}  # by the bits of activations, ten times what was measured


def compare(*args, cpu=CPU):
    command = [sys.executable, ROOT / "scripts/compare-kl", "--spolia", PROGRAM, "--positions", "24",
               "--tokens", "150", *args, *(["--cpu", cpu] if cpu else [])]
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=600)


def rows(*args, cpu=CPU):
    done = compare(*args, "--json", cpu=cpu)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def refusal(*args):
    """The one line that the script ends with."""
    done = compare(*args)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("compare-kl: ")]
    return said[-1]


# -- a peer ----------------------------------------------------------------------------------------

@contextmanager
def serving(answer):
    """The address of a server whose /completion is answer(ids), a row of logits, a status, or JSON."""
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert self.path == "/completion" and body["n_predict"] == 1
            found = answer(body["prompt"])
            if isinstance(found, np.ndarray):
                order = np.argsort(-found)[:body["n_probs"]]
                best = [{"id": int(i), "logprob": float(log_softmax(found)[i])} for i in order]
                found = {"completion_probabilities": [{"top_logprobs": best}]}
            data = json.dumps(found).encode()
            self.send_response(found if isinstance(found, int) else 200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


# -- ours ------------------------------------------------------------------------------------------

@pytest.mark.parametrize("preset", ["tiny-llama3", "tiny-qwen3"])
@pytest.mark.parametrize("kv", BOUND)
def test_ours_are_near(kv, preset, variant, make_model):
    [row] = rows(make_model(preset), "--kv-type", kv, cpu=variant)
    assert row["engine"] == f"spolia {variant}" and row["positions"] == 24
    assert 0 <= row["median"] <= row["max"] and row["mean"] < BOUND[kv] and row["agreement"] == 1


@pytest.mark.parametrize("kind", ["q8_0", "q4_k"])
def test_rounded_activations_cost_little(kind, variant, make_model):
    [row] = rows(make_model("tiny-wide-qwen2", kind), "--kv-type", "f32", cpu=variant)
    bits = 16 if kind == "q8_0" and variant in ("avx2", "avx512") else 8
    assert row["mean"] < (BOUND["f32"] if variant == "ref" else ROUNDED[bits])


def test_a_table_of_models_and_kernels(make_model, tmp_path):
    text = tmp_path / "text"
    text.write_text("The wall remembered more than the city.")
    done = compare(make_model("tiny-llama"), make_model("tiny-qwen2"), "--text", text, cpu="ref,ref")
    assert done.returncode == 0, done.stderr
    lines = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| tiny-")]
    assert [line[1] for line in lines] == ["spolia ref"] * 4


# -- beside a peer ---------------------------------------------------------------------------------

def test_a_peer_that_rotates_wrongly_is_far(make_model):
    """By a thousandth: far outside the bound of our own, which can fail, then."""
    path = make_model("tiny-llama")
    model = load(path)
    model.config = replace(model.config, freq=model.config.freq * 1.001)
    with serving(lambda ids: forward(model, ids).logits[-1]) as url:
        ours, peer = rows(path, "--peer", url)
    assert peer["engine"] == "peer" and peer["mean"] > 10 * BOUND["f16"]
    assert ours["ours/peer"] == pytest.approx(ours["mean"] / peer["mean"]) and ours["ours/peer"] < 0.01


def test_a_peer_that_computes_exactly_has_no_distance(make_model):
    path = make_model("tiny-llama")
    model = load(path)
    with serving(lambda ids: forward(model, ids).logits[-1]) as url:
        _, peer = rows(path, "--peer", url)
    assert abs(peer["max"]) < 1e-12 and peer["agreement"] == 1


@pytest.mark.parametrize("answer, naming", [
    (lambda ids: 500, "500"),
    (lambda ids: {"content": "x"}, "no log-probabilities"),
    (lambda ids: np.zeros(300), "84 of 384 tokens"),
])
def test_a_peer_that_fails_is_named(answer, naming, make_model):
    with serving(answer) as url:
        assert naming in refusal(make_model("tiny-llama"), "--peer", url)


def test_errors_are_one_line(make_model, tmp_path):
    model, empty = make_model("tiny-llama"), tmp_path / "empty"
    empty.write_text("")
    assert "none.gguf" in refusal(tmp_path / "none.gguf")
    assert "the peer ended" in refusal(model, "--peer-server", f"{sys.executable} -c 1 {{port}}")
    assert "no-such" in refusal(model, "--peer-server", "no-such-program {model}")
    assert "--peer-server" in refusal(model, "--peer-server", "x {unknown}")
    assert "127.0.0.1:9" in refusal(model, "--peer", "http://127.0.0.1:9")
    assert compare(model, model, "--peer", "http://127.0.0.1:9").returncode == 2
