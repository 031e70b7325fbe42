"""Faults of a Redis server while clients ask (tests/remote_faults.py), a few of each kind; `make remote-faults` runs
10,000 requests."""
import json
import os
import shutil
import subprocess
import sys

import pytest

from conftest import ROOT

pytestmark = pytest.mark.skipif(not shutil.which("redis-server"), reason="redis-server is not installed")

MOST_SECONDS = 900  # under a sanitizer, on a busy machine


def test_no_request_fails_is_wrong_or_waits(tmp_path):
    rows = tmp_path / "rows"
    build = os.environ.get("SPOLIA_BUILD", "build")
    command = [sys.executable, ROOT / "tests/remote_faults.py", "--n", "440", "--build", build, "--json", rows]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired as e:
        pytest.fail(f"not over after {MOST_SECONDS} s: {e.stdout}")
    assert done.returncode == 0, done.stdout + done.stderr
    for row in json.loads(rows.read_text()):
        assert row["faults"] or row["kind"] in ("noise", "well"), row
        assert row["slowest ms"] < 10 * row["slowest plain ms"] + 1000, row  # a wait without a limit is far longer
