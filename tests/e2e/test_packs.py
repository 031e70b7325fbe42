"""Packed weights are kept in the user's cache: a second start maps them and answers the same."""
import cpus
import pytest
from conftest import run, succeed

needs_avx2 = pytest.mark.skipif(not cpus.runs_here("avx2"), reason="the CPU lacks avx2")  # ref packs nothing


@pytest.fixture(scope="module", params=["file", "folder"])
def model(request, make_model):
    # 35 MiB of output matrix: over the least
    return make_model("tiny-wide", "f16", folder=request.param == "folder", n_vocab=72000)


def packs(home):
    return sorted((home / "spolia" / "packs").glob("*"))


def logits(model, out, cache, monkeypatch, *more):
    """The logits, bit for bit, and what -v says of the weights."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    done = run("logits", "-m", model, "--tokens", "1,2,3,4", "--raw", out, "-v", *more)
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if "weights packed" in line or "weights mapped" in line]
    assert len(said) == 1, done.stderr
    return out.read_bytes(), said[0]


@needs_avx2
def test_the_second_start_packs_nothing(model, tmp_path, monkeypatch):
    cache, out = tmp_path / "cache", tmp_path / "logits"
    wanted, said = logits(model, out, cache, monkeypatch, "--no-pack-cache", "--cpu", "avx2")
    assert "weights packed" in said and not cache.exists()
    first, said = logits(model, out, cache, monkeypatch, "--cpu", "avx2")
    assert "weights packed" in said and [p.suffix for p in packs(cache)] == [".pack"]
    second, said = logits(model, out, cache, monkeypatch, "--cpu", "avx2")
    assert "packed weights mapped" in said
    assert wanted == first == second


@needs_avx2
def test_a_budget_below_the_pack_keeps_nothing(model, tmp_path, monkeypatch):
    cache, out = tmp_path / "cache", tmp_path / "logits"
    for _ in range(2):
        _, said = logits(model, out, cache, monkeypatch, "--pack-cache-max", "16", "--cpu", "avx2")
        assert "weights packed" in said
    assert packs(cache) == []


def test_small_models_leave_no_pack(make_model, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    succeed("logits", "-m", make_model("tiny-llama"), "--tokens", "1,2", "--raw", tmp_path / "logits")
    assert packs(tmp_path) == []
