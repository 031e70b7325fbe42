"""`spolia ask` without --store: the copies beside the index, and the small store in the user's cache."""
import json
import os

import pytest
from conftest import PROGRAM, ROOT, run, succeed
import subprocess

MODEL = ROOT / "demo/model.gguf"
QUESTION = "Where do boats leave?"


@pytest.fixture
def index(tmp_path):
    path = tmp_path / "demo.db"
    succeed("index", ROOT / "demo/docs", "-o", path)
    return path


@pytest.fixture
def ask(tmp_path, index):
    """ask(...) -> (JSON or text, what it said), with a cache of its own."""
    def one(*options, json_out=True):
        env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
        del env["SPOLIA_ARG_NO_STORE"]
        done = subprocess.run([PROGRAM, "ask", "-m", MODEL, "--index", index, "-n", "4", "--guard", "0",
                               *(["--json"] if json_out else []), *map(str, options), QUESTION],
                              capture_output=True, text=True, env=env, timeout=300)
        assert done.returncode == 0, done.stderr
        return (json.loads(done.stdout) if json_out else done.stdout), done.stderr
    return one


def reused(answer):
    return answer["usage"]["reused_tokens"]


def test_the_same_question_is_fast_in_the_next_process(ask, tmp_path):
    first, said = ask()
    folder = tmp_path / "cache/spolia/asked"
    assert reused(first) == 0 and said.count("\n") == 1 and str(folder) in said and "--no-store" in said
    assert folder.stat().st_mode & 0o077 == 0
    again, said = ask()
    assert said == ""  # said once
    assert again["text"] == first["text"]
    assert reused(again) > 0.8 * again["usage"]["prompt_tokens"]
    assert {c["from"] for c in again["chunks"]} == {"disk"}


def test_no_store_keeps_nothing(ask, tmp_path):
    for _ in range(2):
        answer, said = ask("--no-store")
        assert reused(answer) == 0 and said == ""
    assert not (tmp_path / "cache/spolia/asked").exists()


def test_a_cache_that_cannot_be_made_is_not_mentioned(ask, tmp_path):
    (tmp_path / "cache").write_text("a file, where a folder is needed")
    answer, said = ask()
    assert answer["text"] and said == ""


def test_approximate_policies_do_not_use_the_cache(ask, tmp_path):
    for _ in range(2):
        assert reused(ask("--reuse", "full")[0]) == 0
    assert not (tmp_path / "cache/spolia/asked").exists()


def test_the_small_store_is_bounded(ask, tmp_path):
    for system in ("Short words.", "Other words.", "Still other words."):  # 170 KiB each
        ask("--store-max", "300K", "--system", system)
    folder = tmp_path / "cache/spolia/asked"
    assert 100 << 10 < sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) <= 300 << 10


def test_an_index_knows_its_copies(ask, index):
    said = run("index", "-o", index, "--precompute", "-m", MODEL, "--fuse", "2").stderr
    assert "--reuse fusion" in said
    answer, said = ask("--reuse", "full")
    assert all(c["from"] == "disk" for c in answer["chunks"]) and said == ""
    answer, _ = ask("--reuse", "full", "--no-store")
    assert reused(answer) == 0


def test_copies_that_the_policy_cannot_use_are_named_once(ask, index):
    succeed("index", "-o", index, "--precompute", "-m", MODEL, "--fuse", "2")
    answer, said = ask()
    assert {c["missed"] for c in answer["chunks"]} == {"other policy"}
    assert said.count("\n") == 1 and "--reuse fusion" in said and f"copies of {len(answer['chunks'])} chunk" in said
    answer, said = ask("--store", f"{index}.kv", "--reuse", "prefix")  # the paths are there now
    assert reused(answer) > 0 and said == ""


def test_a_cache_that_cannot_be_made_is_no_error(ask, tmp_path):
    (tmp_path / "cache").write_text("a file")
    assert ask()[0]["text"]
