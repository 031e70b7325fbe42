"""Faults of a Redis server, a cluster and an object store while clients ask (tests/remote_faults.py), a few of each kind;
`make remote-faults` runs 10,000 requests, and judges times."""
import json
import os
import random
import shutil
import subprocess
import sys

import pytest

from conftest import ROOT
from support import pairs
from support.store_faults import KINDS, STORES, missing, store_of

pytestmark = pytest.mark.skipif(not shutil.which("redis-server"), reason="redis-server is not installed")

MOST_SECONDS = 900  # under a sanitizer, on a busy machine
EACH = 12


def test_no_request_fails_is_wrong_or_waits(tmp_path):
    """The stores beside each other: most of the time is spent waiting."""
    running = {}
    for of in (of for of in STORES if not missing(of)):
        kinds = [k for k in KINDS if store_of(k) == of and k != f"{of}-well"]
        command = [sys.executable, ROOT / "tests/remote_faults.py", "--n", EACH * len(kinds), "--kinds", ",".join(kinds),
                   "--plays", 1, "--no-times", "--recovery", 300, "--build", os.environ.get("SPOLIA_BUILD", "build"), "--json", tmp_path / of]
        running[of] = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for of, process in running.items():
        try:
            said, _ = process.communicate(timeout=MOST_SECONDS)
        except subprocess.TimeoutExpired:
            process.terminate()
            pytest.fail(f"{of}: not over after {MOST_SECONDS} s: {process.communicate()[0]}")
        assert process.returncode == 0, said
        for row in json.loads((tmp_path / of).read_text()):
            assert row["faults"] or row["kind"] in ("noise", "well"), row
            assert row["slowest ms"] < 10 * row["slowest plain ms"] + 5000, row  # a wait without a limit is far longer


def plays(n, rng, slow=1.0, each=8):
    """Pairs of n requests, of which a fifth is slow by chance, ours `slow` times as long; played again while they are."""
    all_plays = []
    for _ in range(n):
        all_plays.append([])
        while not all_plays[-1] or (len(all_plays[-1]) < each and all(map(pairs.is_slow, all_plays[-1]))):
            all_plays[-1].append((slow * rng.lognormvariate(0, 0.1), rng.lognormvariate(0, 0.1)))
    return all_plays


def test_what_is_slower_than_noise_is_told_from_it():
    rng = random.Random(1)
    noise = plays(500, rng)
    assert 0.15 < pairs.share([p[0] for p in noise]) < 0.35
    assert all(pairs.verdict(plays(500, rng), noise, 8) == [] for _ in range(3))
    assert pairs.verdict(plays(500, rng, slow=0.5), noise, 8) == []
    assert "a larger share" in pairs.verdict(plays(500, rng, slow=1.1), noise, 8)[0]
    few = plays(490, rng) + plays(10, rng, slow=1.6)  # such as the first request of each fault
    assert any("in each of 8 plays" in x for x in pairs.verdict(few, noise, 8))
