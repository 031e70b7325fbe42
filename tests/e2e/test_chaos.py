"""Faults at random over a whole server (tests/chaos.py): a few seeds; `make chaos` runs more."""
import collections
import copy
import os
import random
import subprocess
import sys

import pytest

from conftest import ROOT
from support.variants import VARIANTS, available

sys.path.append(str(ROOT / "tests/support"))
import faults  # noqa: E402
from findings import Finding, Trail  # noqa: E402
from oracle import Comparison, Line, Oracle, decision  # noqa: E402
from tenants import Tenant  # noqa: E402


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
    if variant not in available():
        pytest.skip(f"no server for {VARIANTS[variant].shares}")
    run("--seed", 1, "--n", 1, "--steps", 50, "--variant", variant)


@pytest.mark.parametrize("calls", ["embed", "/v1/completions", "stream"])
def test_each_allocation_of_a_call_fails_once(calls):
    run("--each", "--only", calls, "--n", 1)


def test_sparse_decoding_without_memory_is_full_attention():
    run("--each", "--only", "/v1/chat/completions 26", "--variant", "sparse", "--n", 1)


@pytest.mark.parametrize("kind, then", [("write", "go on"), ("full", "fail on"), ("sync", "go on"), ("open", "fail on"),
                                        ("write", "die"), ("sync", "die"), ("change", "die")])
def test_each_call_for_a_file_fails_once(kind, then):
    """Or all from it on, or the server is killed there."""
    run("--each", kind, "--then", then, "--only", "d0", "--variant", "small", "--n", 1)


@pytest.mark.parametrize("variant", ["tenants-redis", "objects"])
def test_each_call_for_a_connection_fails_once(variant):
    if variant not in available():
        pytest.skip(f"no server for {VARIANTS[variant].shares}")
    run("--each", "network", "--only", "d0", "--variant", variant, "--n", 1)


@pytest.mark.parametrize("then", ["go on", "die"])
@pytest.mark.parametrize("scene", ["start", "end", "gc"])
def test_each_write_of_a_start_and_an_end(scene, then):
    run("--each", "write", "--then", then, "--only", scene, "--variant", "small", "--n", 1)


@pytest.fixture
def oracle_of(tmp_path):
    made, program = [], ROOT / os.environ.get("SPOLIA_BUILD", "build") / "spolia"

    def start(variant):
        made.append(Oracle(program, ROOT / "demo/model.gguf", tmp_path / str(len(made)),
                           faults.build_preload(tmp_path, ROOT), VARIANTS[variant]))
        return made[-1]

    yield start
    for oracle in made:
        oracle.stop()


def with_another_probability(answer):
    wrong = copy.deepcopy(answer)
    wrong["choices"][0]["logprobs"]["content"][0]["logprob"] += 1e-3
    return wrong


def test_another_probability_with_the_same_copies_is_a_finding(oracle_of, tmp_path):
    oracle, tenant, counts, log = oracle_of("fused"), Tenant(), collections.Counter(), tmp_path / "log"
    compared = Comparison(oracle, VARIANTS["fused"], counts, log)
    tenant.ids = {name: faults.STORY.format(who) for name, who in (("kept", "Anna Berg"), ("d0", "Ole Dahl"))}
    oracle.mirror(tenant.ids, ["d0"], None)
    body = {**faults.ANSWER, **faults.TOLD, "messages": faults.say("Who is the keeper?"),
            "documents": [faults.BOATS, {"id": "d0"}]}
    for fused in (False, True):
        if fused:
            oracle.fuse("d0", body, None)
        answer = oracle.ask(body)
        assert ("fused" in str(decision(answer))) == fused
        compared.check(body, answer, tenant)
        with pytest.raises(Finding):
            compared.check(body, with_another_probability(answer), tenant)
    wrong = with_another_probability(answer)
    for s in wrong["spolia"]["segments"]:
        s["origin"] = "0"
    compared.check(body, wrong, tenant)  # it cannot be said
    log.write_text("spolia: warning: a copy is not kept: cannot allocate 240 bytes for a cached copy\n")
    compared.check(body, with_another_probability(answer), tenant)  # a chunk was computed twice
    compared.begin()
    with pytest.raises(Finding):
        compared.check(body, with_another_probability(answer), tenant)
    assert counts["equal"] == 5 and counts["of other copies"] == 1 and counts["unkept"] == 1


def test_a_line_of_prompts_is_compared_as_long_as_its_copies_are_the_same(oracle_of, tmp_path):
    call, rng, counts = oracle_of("craft").server.call, random.Random(3), collections.Counter()
    compared = Comparison(oracle_of("craft"), VARIANTS["craft"], counts, tmp_path / "log")
    line = Line(rng, "1")
    line.step(call, compared)
    with pytest.raises(Finding):
        line.step(lambda path, body: (200, with_another_probability(call(path, body)[1])), compared)
    line.step(lambda path, body: call(path, {**body, "cache_salt": "none"}), compared)
    assert line.n_left == 0 and counts["equal"] == 3  # all of it was computed
    line = Line(rng, "2")
    line.step(lambda path, body: (500, {}), compared)
    assert line.n_left == 0


def test_the_last_calls_are_told():
    trail = Trail(2)
    for path in ("/one", "/two", "/three"):
        trail.call(None, path, {"a": 1}, 503, "full")
    assert "/one" not in str(trail) and str(trail).endswith('POST /three {"a": 1} -> 503 full')
