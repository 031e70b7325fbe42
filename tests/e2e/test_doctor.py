"""`spolia doctor`: what it says of this machine and a model, and that it finds what will not work."""
import json
import os
import pathlib
import subprocess

import pytest
from conftest import PROGRAM, ROOT, refuse, run, succeed
from test_json import valid

MODEL = ROOT / "demo/model.gguf"


def doctor(*arguments, code=0, **env):
    """{(group, name): finding}."""
    done = subprocess.run([PROGRAM, "doctor", "--json", *map(str, arguments)], env={**os.environ, **env},
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stdout + done.stderr
    told = valid("doctor", json.loads(done.stdout))
    assert told["works"] == (code == 0) == all(f["state"] != "problem" for f in told["findings"])
    return {(f["group"], f["name"]): f for f in told["findings"]}


def test_the_machine(tmp_path):
    told = doctor()
    (tmp_path / "pdftotext").touch(0o755)
    assert doctor(PATH=f"/nowhere:{tmp_path}")["system", "pdftotext"]["state"] == "ok"
    assert "more threads than cores" not in (told["machine", "cores"].get("advice") or "")
    assert 0 < told["machine", "memory"]["available_bytes"] <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert told["machine", "cores"]["n_cores"] == len(os.sched_getaffinity(0))
    assert "FTS5" in told["system", "SQLite"]["value"] and not any(group == "model" for group, _ in told)
    lost = doctor(PATH="/nowhere")["system", "pdftotext"]
    said = subprocess.run([PROGRAM, "doctor"], env={**os.environ, "PATH": "/nowhere"}, capture_output=True, text=True)
    assert lost["state"] == "warning" and f"-> {lost['advice']}" in said.stdout
    assert doctor("-t", 1)["machine", "cores"]["n_threads"] == 1
    ref = doctor("--cpu", "ref")["machine", "kernels"]
    assert (ref["value"], ref["state"]) == ("ref", "warning") and ref["advice"]
    kernels, has_amx = told["machine", "kernels"], "amx_bf16" in pathlib.Path("/proc/cpuinfo").read_text()
    assert ("--cpu amx" in (kernels.get("advice") or "")) == (has_amx and kernels["value"] == "vnni")
    pages = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
    never = "[never]" in pages.read_text() if pages.exists() else None
    assert never is None or told["machine", "huge pages"]["state"] == ("warning" if never else "ok")
    assert all(f["value"] == f["value"].strip() for f in told.values())
    rounding = told["machine", "rounding"]
    assert (0 < rounding["other_bits"] < 15) == ("--exact-products" in (rounding.get("advice") or ""))
    assert "15 bits" in doctor("--exact-products")["machine", "rounding"]["value"] or rounding["other_bits"] == 0


def test_a_model(tmp_path):
    told = doctor("-m", MODEL, "-ctk", "f16", "--kv-memory", 6, "-c", 2048, "--store", tmp_path / "new" / "store")
    assert told["model", "KV memory"]["bytes_per_token"] == 6 * 2 * 2 * 32 * 2  # layers, K and V, heads, head, bytes
    assert told["model", "KV memory"]["tokens"] == 4096 and told["model", "KV memory"]["state"] == "ok"
    assert told["model", "memory"]["weight_bytes"] > told["model", "model"]["n_params"]
    assert told["model", "prefill"]["tokens_per_second"] > 0 and told["model", "decode"]["tokens_per_second"] > 0
    disk = os.statvfs(tmp_path)
    assert 0.5 < told["store", "folder"]["free_bytes"] / (disk.f_bavail * disk.f_frsize) < 2
    room = told["model", "store"]["tokens"] * told["model", "KV memory"]["bytes_per_token"]
    assert 0.45 < room / told["store", "folder"]["free_bytes"] < 0.55  # what a store without --store-max takes
    small = doctor("-m", MODEL, "-ctk", "f16", "--store", tmp_path, "--store-max", "3M")["model", "store"]
    assert small["tokens"] == 2048
    large = doctor("-m", MODEL, "-ctk", "f16", "--store", tmp_path, "--store-max", "1000000G")["model", "store"]
    assert 0.8 < large["tokens"] / told["model", "store"]["tokens"] < 1.25  # no more than without --store-max
    assert not (tmp_path / "new").exists()
    few = doctor("-m", MODEL, "--kv-memory", 1, "-c", 4096)["model", "KV memory"]
    assert few["state"] == "warning" and "--kv-memory" in few["advice"]


def test_a_context_is_not_as_long_as_a_model_allows(make_model):
    told = doctor("-m", make_model("tiny-llama", n_ctx=16384))["model", "KV memory"]
    assert told["value"].endswith("context 8192")


def test_the_speed_is_about_what_bench_measures(tmp_path):
    told = doctor("-m", MODEL)["model", "prefill"]["tokens_per_second"]
    pieces = doctor("-m", MODEL, "-b", 16)["model", "prefill"]["tokens_per_second"]  # of a whole prompt: no faster
    assert pieces / told < 12
    succeed("bench", "prefill", "-m", MODEL, "--sizes", 2048, "--rounds", 3, "--csv", tmp_path / "csv")
    lines = [line.split(",") for line in (tmp_path / "csv").read_text().splitlines()]
    seconds = min(float(line[lines[0].index("seconds")]) for line in lines[1:])
    assert 0.1 < told / (2048 / seconds) < 10


@pytest.mark.parametrize("arguments, where", [
    (["-m", "/nowhere.gguf"], ("model", "model")), (["-m", ROOT / "README.md"], ("model", "model")),
    (["-m", MODEL, "-c", 9999], ("model", "KV memory")), (["-m", MODEL, "--kv-memory", 1 << 30], ("model", "memory")),
    (["-m", MODEL, "-ctk", "q4_0"], ("model", "KV type")), (["-m", MODEL, "-ctk", "x"], ("model", "KV type")),
    (["-m", MODEL, "-c", -5], ("settings", "options")), (["-m", MODEL, "-b", -5], ("settings", "options")),
    (["-t", -3], ("settings", "options")), (["-t", 1025], ("settings", "options")),
    (["--cpu", "magic"], ("machine", "kernels")), (["--store", "/dev/null/x"], ("store", "folder"))])
def test_problems(arguments, where):
    finding = doctor(*arguments, code=1)[where]
    assert finding["state"] == "problem" and finding["value"] and finding["advice"]


@pytest.mark.parametrize("arguments", [
    ["-ctk", "f16", "-ctv", "q8_0"], ["-ctk", "x"], ["--reuse", "x"], ["--quality", "fast", "--reuse", "full"], ["--evict", "x"],
    ["--decode", "x"], ["--host-kv", "x"], ["--preload", "x"], ["--remote", "ftp://a"], ["--recompute", 7],
    ["--resident-heads", "auto"]])
def test_what_commands_refuse_is_a_problem(arguments):
    """With and without a model, in the words of the commands."""
    for model in ([], ["-m", MODEL]):
        finding = doctor(*arguments, *model, code=1)["settings", "options"]
        assert finding["state"] == "problem" and finding["advice"]
    refuse("run", "-m", MODEL, "-p", "a", *arguments, naming=[] if 7 in arguments else [finding["value"]], code=2)


def test_text_for_people(tmp_path):
    text = succeed("doctor", "-m", MODEL)
    for word in ("machine\n", "kernels", "memory", "io_uring", "prefill", "tokens/s"):
        assert word in text
    done = run("doctor", "-m", tmp_path / "none")
    assert done.returncode == 1 and "  problem  model" in done.stdout and "-> spolia inspect" in done.stdout
    refuse("doctor", "more", naming=["more"], code=2)
