"""Faults at random over a whole server (tests/chaos.py): a few seeds; `make chaos` runs more."""
import os
import subprocess
import sys

import pytest

from conftest import ROOT


@pytest.mark.parametrize("kinds, seed, n", [("allocation", 1, 2),
                                            ("read,write,full,short,sync,hang,clock,kill", 1, 2)])
def test_faults_give_the_right_answer_or_an_error(kinds, seed, n):
    if os.environ.get("SPOLIA_BUILD", "build") not in ("build", str(ROOT / "build")):
        pytest.skip("a sanitizer has its own malloc")
    command = [sys.executable, ROOT / "tests/chaos.py", "--seed", str(seed), "--n", str(n), "--steps", "50",
               "--kinds", kinds]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
