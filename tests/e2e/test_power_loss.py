"""Power is lost while a server works (tests/power_loss.py): a few moments; `make power-loss` tries more."""
import os
import subprocess
import sys

import pytest

from conftest import ROOT


def test_a_loss_of_power_loses_nothing_that_was_promised():
    if os.environ.get("SPOLIA_BUILD", "build") not in ("build", str(ROOT / "build")):
        pytest.skip("a sanitizer must be loaded before what logs the calls")
    command = [sys.executable, ROOT / "tests/power_loss.py", "--seed", "1", "--n", "2", "--cuts", "5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
