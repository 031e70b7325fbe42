"""`spolia serve` under load: a thousand streams at the same time, and clients that die. The long form is `make soak`."""
import json
import pathlib
import re
import resource
import subprocess
import sys

import pytest
from conftest import PROGRAM, ROOT
from serving import Server


def memory_mib(server, field):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(rf"{field}:\s+(\d+)", status)[1]) / 1024


def test_a_thousand_streams():
    """All of them run at the same time; none fails, and memory is what the options and the connections take."""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 1200:
        pytest.skip("this machine allows too few open files")
    with Server("--parallel", 1000, "--connections", 1100, "--address-connections", 1100, "--reuse", "full", "--kv-memory", 64, "--log-format", "none") as s:
        start = memory_mib(s, "VmRSS")
        done = subprocess.run([sys.executable, ROOT / "bench/load.py", "--url", s.url, "--json", "--rates", "0", "--requests",
                               "1000", "-n", "100", "--ignore-end", "--words", "5", "--chunks", "1", "--random-documents", "20"],
                              capture_output=True, text=True, timeout=300)
        row = json.loads(done.stdout.splitlines()[0])
        assert row["answered"] == 1000 and row["failed"] == row["refused"] == 0, row
        assert row["most_open"] > 500
        s.wait_for("num_requests_running", 0)
        assert s.metric("kv_blocks") <= s.metric("kv_blocks_free") + s.metric("cached_blocks")
        if "asan" not in str(PROGRAM) and "tsan" not in str(PROGRAM):
            assert memory_mib(s, "VmHWM") < start + 64 + 1000 * 0.25
    assert "Sanitizer" not in s.said, s.said


def test_clients_that_die():
    """Mixed documents, policies, places and little memory; every tenth client dies. Nothing is lost."""
    done = subprocess.run([sys.executable, ROOT / "bench/soak.py", "--build", PROGRAM.parent, "--requests", "150", "--parts",
                           "6", "--hang-up", "0.1", "--concurrency", "16"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["answered"] + result["left"] == 150 and result["left"] > 0 and result["wrong"] == []


def test_servers_in_one_sitting(tmp_path):
    """bench/serve.py starts servers, sends all of them the same requests, stops them, and sums up."""
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps({"id": f"d{i}", "text": f"Text {i} of the harbour."}) + "\n" for i in range(5)))
    (tmp_path / "questions.dev.jsonl").write_text(json.dumps({"question": "What?", "doc_ids": ["d1", "d3"]}) + "\n")
    done = subprocess.run([sys.executable, ROOT / "bench/serve.py", "--build", PROGRAM.parent, "-m", ROOT / "demo/model.gguf",
                           "--data", tmp_path, "-t", "1", "--server", "one=--reuse full", "--server", "peer=--reuse off", "--json",
                           "--prime", "1", "--primed", "one", "--",
                           "--rates", "20", "--chunks", "2", "--requests", "5", "-n", "2"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    rows, summary = [r for r in lines if "answered" in r], lines[-1]
    assert [(r["server"], r["answered"]) for r in rows] == [("one", 5), ("peer", 5)]
    assert rows[0]["cached"] > rows[1]["cached"] == 0 and "one: 2 documents computed" in done.stderr
    assert summary["most"]["one"] == {k: rows[0][k] for k in ("requests_s", "tokens_s")}
    assert summary["most_over_peer"] == {"one": rows[0]["requests_s"] / rows[1]["requests_s"]}
