"""`spolia bench prefill, decode`: a row for every setting and round, shares of a bound
that was measured, what does not fit said and left out; bench/peer.py and bench/plot.py.
No time is held to anything but that it passed.
"""
import csv
import itertools
import json
import shlex
import subprocess
import sys

import pytest

from conftest import PROGRAM, ROOT, refuse, run, succeed

BUNDLED = ROOT / "demo/model.gguf"
NAMES = ("prefill", "decode")
SMALL = {"prefill": ["-m", BUNDLED, "--sizes", "5"],
         "decode": ["-m", BUNDLED, "--batches", "1", "--depths", "0", "-n", "2"]}


def bench(name, path, *options, rounds=1):
    """A run; its CSV with numbers where there are some, and what it said. Models this small lie in
    the caches, so only their answers may pass the bound, which is that of reading memory."""
    done = run("bench", name, "--csv", path, "--rounds", rounds, *options)
    assert done.returncode == 0, done.stderr
    with open(path, newline="") as f:
        rows = list(csv.DictReader(f))
    for row in rows:
        for key in row:
            if key not in ("model", "unit", "bound"):
                row[key] = float(row[key]) if row[key] else None
    check(rows, most=100 if name == "decode" else 1.5)
    return rows, done


def check(rows, most):
    """What every line must be, whatever was measured."""
    for r in rows:
        assert r["seconds"] > 0 and r["rate"] > 0 and r["bound"] in ("fp32", "int8", "read")
        assert 0 < r["share"] <= most
        assert r["share"] == pytest.approx(r["rate"] / r["bound_rate"], rel=1e-3)


def settings(rows, *names):
    return sorted(tuple(r[n] for n in names) for r in rows)


def all_of(*lists):
    """Every combination."""
    return sorted(itertools.product(*lists))


# -- settings --------------------------------------------------------------------------------------

def test_prefill(tmp_path):
    rows, done = bench("prefill", tmp_path / "x.csv", "-m", BUNDLED, "--sizes", "20,48",
                       "--depths", "33,0,16", rounds=2)
    assert settings(rows, "depth", "tokens") == sorted(all_of((0, 16, 33), (20, 48)) * 2)
    assert {(r["model"], r["unit"]) for r in rows} == {(str(BUNDLED), "tok/s")}
    assert [r["round"] for r in rows] == [1] * 6 + [2] * 6
    for r in rows:
        assert r["rate"] * r["seconds"] == pytest.approx(r["tokens"], rel=1e-3)
    assert done.stdout.count(str(BUNDLED)) == 6 and "skipped" not in done.stdout
    assert "fp32" in done.stdout.splitlines()[0] and "GB/s" in done.stdout.splitlines()[0]


def test_models_take_turns(make_model, tmp_path):
    one, two = make_model("tiny-llama", "q8_0"), make_model("tiny-qwen2", "f16", folder=False)
    rows, _ = bench("prefill", tmp_path / "x.csv", "-m", one, "-m", two, "--sizes", "4,9",
                    rounds=2)
    assert [r["model"] for r in rows] == [str(one), str(two)] * 4


def test_decode(tmp_path):
    rows, _ = bench("decode", tmp_path / "x.csv", "-m", BUNDLED, "--batches", "1,3",
                    "--depths", "0,40", "-n", "4")
    assert settings(rows, "depth", "batch") == all_of((0, 40), (1, 3))
    for r in rows:
        assert r["rate"] * r["seconds"] == pytest.approx(4 * r["batch"], rel=1e-3)


def test_weights_are_counted_once(make_model, tmp_path):
    """The bound of one request's answer: all bytes of the weights, at the measured bandwidth."""
    bounds = {}
    for kind in ("f32", "q8_0"):
        path = make_model("tiny-llama", kind)
        rows, done = bench("decode", tmp_path / "x.csv", "-m", path, "--batches", "1", "--depths",
                           "0", "-n", "1")
        tensors = json.loads(succeed("inspect", path, "--json"))["tensors"]
        weights = sum(t["bytes"] for t in tensors if not t["name"].startswith("token_embd"))
        if not any(t["name"] == "output.weight" for t in tensors):
            weights = sum(t["bytes"] for t in tensors)
        reads = float(done.stdout.split("read ")[1].split()[0]) * 1e9
        bounds[kind] = rows[0]["bound_rate"] * weights / reads
        assert rows[0]["bound"] == "read"
    for ratio in bounds.values():  # a little is left for keys, values, and rounding of what is said
        assert 0.9 < ratio < 1.02, bounds


def test_kernels_and_threads(variant, tmp_path):
    _, done = bench("prefill", tmp_path / "x.csv", "--cpu", variant, "--threads", "1", *SMALL["prefill"])
    first = done.stdout.splitlines()[0]
    assert first.startswith("machine, 1 threads") and first.endswith("kernels: " + variant)


# -- what does not fit, and what is refused --------------------------------------------------------

def test_what_does_not_fit_is_skipped(tmp_path):
    rows, done = bench("prefill", tmp_path / "x.csv", "-m", BUNDLED, "-c", "128", "--sizes",
                       "27,28,2000", "--depths", "0,100")
    assert settings(rows, "tokens", "depth") == [(27, 0), (27, 100), (28, 0)]  # with a token of an answer: 128 at most
    assert done.stdout.count("skipped") == 3 and "context of 128 (-c)" in done.stdout
    rows, done = bench("decode", tmp_path / "x.csv", "-m", BUNDLED, "--kv-memory", "1", "-ctk",
                       "f32", "--batches", "1,16", "--depths", "64", "-n", "2")
    assert settings(rows, "batch") == [(1,)]
    assert "batch 16, depth 64: skipped" in done.stdout and "(--kv-memory)" in done.stdout
    refuse("bench", "prefill", "-m", BUNDLED, "-c", "64", "--sizes", "65", naming=["no setting can be measured"])


@pytest.mark.parametrize("name, options, word", [
    ("prefill", ["--sizes", "0"], "sizes"), ("prefill", ["--sizes", "8,"], "sizes"),
    ("prefill", ["--depths", "-1"], "depths"), ("decode", ["--batches", "257"], "batches"),
    ("decode", ["--predict", "0"], "predict"), ("decode", ["--depths", "x"], "depths")])
def test_usage(name, options, word):
    refuse("bench", name, *SMALL[name], *options, naming=[word], code=2)


@pytest.mark.parametrize("name", NAMES)
def test_usage_of_all(name):
    help_text = succeed("bench", name, "--help")
    assert all(f"--{o}" in help_text for o in ("rounds", "threads", "csv"))
    assert name in succeed("bench", "--help")
    refuse("bench", name, *SMALL[name], "--rounds", "0", naming=["rounds"], code=2)
    refuse("bench", name, *SMALL[name], "more", naming=["more"], code=2)


def test_refusals(tmp_path):
    out = tmp_path / "no/such/folder.csv"
    refuse("bench", "prefill", *SMALL["prefill"], "--csv", out, naming=[out])
    refuse("bench", "prefill", *SMALL["prefill"], "--cpu", "abacus", naming=["abacus"], code=2)
    refuse("bench", "prefill", "-m", tmp_path / "none.gguf", naming=["none.gguf"])
    refuse("bench", "decode", naming=["model"], code=2)


# -- bench/peer.py ---------------------------------------------------------------------------------

def peer(script, tmp_path, *options, match="speed = ([^ ]+)"):
    """bench/peer.py with some Python as the other program."""
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(script)} {{model}} {{tokens}}"
    return subprocess.run([sys.executable, ROOT / "bench/peer.py", "--spolia", PROGRAM, "--peer", command, "--match", match, "--csv",
                           tmp_path / "p.csv", "--rounds", "2", "--", *map(str, options)], capture_output=True, text=True, timeout=300)


def test_another_program_runs_in_turns(tmp_path):
    log, model = tmp_path / "asked", tmp_path / "it's $HOME, \"quoted\".gguf"
    model.symlink_to(BUNDLED)
    script = f"import sys; print(*sys.argv[1:], sep='|', file=open({str(log)!r}, 'a')); print('1 tok/s'); print('speed = 2.5e1 tok/s')"
    done = peer(script, tmp_path, "prefill", "-m", model, "--sizes", "4,6")
    assert done.returncode == 0, done.stderr
    assert log.read_text().splitlines() == [f"{model}|{n}" for n in (4, 6)] * 2
    rows = list(csv.DictReader((tmp_path / "p.csv").open()))
    assert [(r["round"], r["tokens"], r["model"]) for r in rows] == [(r, n, str(model)) for r in "12" for n in "46"]
    assert all(float(r["ours_per_peer"]) == pytest.approx(float(r["ours"]) / 25) for r in rows)
    assert done.stdout.count("ours/peer") == 2 and not done.stderr


@pytest.mark.parametrize("script, words", [
    ("import sys; print('7 tok/s'); print('so far\\nno memory', file=sys.stderr); sys.exit(3)", ["exit code 3", "no memory"]),
    ("print('ready')", ["--match", "ready"]), ("pass", ["printed nothing"]), ("print('speed = 0 ')", ["above 0"])])
def test_a_program_that_fails_ends_the_comparison_only(script, words, tmp_path):
    done = peer(script, tmp_path, *("prefill", *SMALL["prefill"]))
    said = done.stderr.splitlines()
    assert done.returncode == 0 and len(said) == 2 and all(w in said[0] for w in words) and "without the peer" in said[1], said
    assert [r["peer"] for r in csv.DictReader((tmp_path / "p.csv").open())] == ["", ""]


# -- bench/plot.py ---------------------------------------------------------------------------------

def test_pictures(tmp_path):
    """Every kind of file gives its panels and lines; the picture itself needs matplotlib."""
    sys.path.insert(0, str(ROOT / "bench"))
    import plot
    rows = [{"policy": p, "order": "same", "chunks": 4.0, "chunk_tokens": 64.0, "recompute": r, "gain": 2 + r, "bound": 3.0}
            for p, r in (("off", 0.0), ("prefix", 0.0), ("fusion", 0.0), ("fusion", 0.5), ("fusion", 0.5))]
    [panel] = plot.of_reuse(rows)
    assert panel.title == "4 x 64 tokens, same" and panel.rules == {"prefix": 2}
    assert panel.lines == {"fusion": [(0, 2), (0.5, 2.5)], "bound": [(0, 3), (0.5, 3)]}
    path = tmp_path / "x.csv"
    path.write_text("policy,memory,hit_rate\nlru,0.1,0.2\nlru,0.2,0.3\nlfu,0.1,nan\n")
    [panel] = plot.panels_of(plot.read(path), None or plot.argparse.Namespace(x=None, y=None, csv=[path]))
    assert panel.lines == {"lru": [(0.1, 0.2), (0.2, 0.3)], "lfu": []}
    with pytest.raises(SystemExit, match="--x and --y"):
        plot.panels_of([{"a": 1.0}], plot.argparse.Namespace(x=None, y=None, csv=["a.csv"]))
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: no picture is drawn")
    plot.draw([panel], tmp_path / "x.svg")
    assert "lru" in (tmp_path / "x.svg").read_text()
