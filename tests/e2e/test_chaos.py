"""Faults at random over a whole server (tests/chaos.py): a few seeds; `make chaos` runs more."""
import os
import shutil
import subprocess
import sys

import pytest

from conftest import ROOT
from support.variants import VARIANTS


def run(*options):
    if os.environ.get("SPOLIA_BUILD", "build") not in ("build", str(ROOT / "build")):
        pytest.skip("a sanitizer has its own malloc")
    command = [sys.executable, ROOT / "tests/chaos.py", *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kinds, seed, n", [("allocation", 1, 2),
                                            ("read,write,full,short,sync,hang,open,change,stat,clock,kill", 1, 2)])
def test_faults_give_the_right_answer_or_an_error(kinds, seed, n):
    run("--seed", seed, "--n", n, "--steps", 50, "--kinds", kinds, "--variant", "prefix")


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v != "prefix"])
def test_faults_on_every_kind_of_server(variant):
    if VARIANTS[variant].shares and not shutil.which("redis-server"):
        pytest.skip("no redis-server")
    run("--seed", 1, "--n", 1, "--steps", 50, "--variant", variant)


@pytest.mark.parametrize("calls", ["embed", "/v1/completions", "stream"])
def test_each_allocation_of_a_call_fails_once(calls):
    run("--each", "--only", calls, "--n", 1)
