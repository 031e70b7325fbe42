"""What the tests of the program share: the program, models made on demand, expectations of errors.

SPOLIA_BUILD names the build folder (default build); SPOLIA_CPU the only kernels to be tested (default:
all, and the best of this machine where a test does not ask); SPOLIA_EMULATED says that the program
needs none of their instructions; SPOLIA_DATA is a folder of data outside the repository, without
which some tests are skipped; SPOLIA_MODELS the cache of scripts/real-models.
"""
import functools
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

if not os.environ.get("SPOLIA_DATA"):
    os.environ.pop("SPOLIA_DATA", None)
os.environ["SPOLIA_CONFIG"] = ""  # not the user's own config file
os.environ["SPOLIA_ARG_NO_STORE"] = "1"  # one test's prompts are not known to the next one
# The published models are in the user's cache; nothing else is taken from there.
os.environ.setdefault("SPOLIA_MODELS",
                      str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spolia" / "models"))
CACHE = tempfile.TemporaryDirectory(prefix="spolia-test-cache-")
os.environ["XDG_CACHE_HOME"] = CACHE.name

import cpus  # noqa: E402
from reference import random_model  # noqa: E402

PROGRAM = ROOT / os.environ.get("SPOLIA_BUILD", "build") / "spolia"
CPU = os.environ.get("SPOLIA_CPU") or None  # all tests are about these kernels only
EMULATED = bool(os.environ.get("SPOLIA_EMULATED"))


def run(*args, variant=None, seconds=300, **options):
    """Runs the program; variant: the kernels, by default those of SPOLIA_CPU, or the best here."""
    env = dict(os.environ)
    if variant:
        env["SPOLIA_CPU"] = variant
    return subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True, env=env,
                          errors="replace", timeout=600 if EMULATED else seconds, **options)


def succeed(*args, **options):
    """Runs the program, which must succeed; its standard output."""
    done = run(*args, **options)
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr}"
    return done.stdout


@functools.lru_cache(None)
def choices(command, option):
    """The values that an option lists in its help, without parameters of policies: `choices("ask", "reuse")`."""
    (described,) = [c for c in json.loads(succeed("--dump-help"))["commands"] if c["name"] == command]
    (listed,) = [o["choices"] for o in described["options"] if o["name"] == option]
    return [x["name"] for x in listed if ":" not in x["name"]]


def refuse(*args, naming=(), code=1, **options):
    """Runs the program, which must fail in good order: exit code, one line, the words named. A server that starts
    nevertheless is ended soon."""
    done = run(*args, seconds=60, **options)
    said = done.stderr.strip()
    assert done.returncode == code, f"exit code {done.returncode}: {done.stdout[:99]} {said[:2000]}"
    assert "Sanitizer" not in said and "runtime error" not in said, said
    assert said.startswith("spolia: ") and "\n" not in said, said
    for word in naming:
        assert str(word) in said, f"{word!r} is not named in: {said}"
    return said


def bench_sparse(*args, code=0):
    """build/bench/sparse, which the tests' build makes."""
    if not (program := PROGRAM.parent / "bench/sparse").exists():
        pytest.skip("build/bench/sparse is not built")
    done = subprocess.run([program, *map(str, args)], capture_output=True, text=True, timeout=300)
    assert done.returncode == code, f"exit code {done.returncode}: {done.stderr}"
    return done


@pytest.fixture(params=[CPU] if CPU else cpus.NEEDS)
def variant(request):
    """Each set of kernels that this machine can run, or the one that all is about."""
    if not EMULATED and not cpus.runs_here(request.param):
        pytest.skip(f"the CPU lacks {request.param}")
    return request.param


@pytest.fixture(scope="session")
def real_model():
    """real_model(name) -> path of a published model in the cache; without it the test is skipped by name."""
    def find(name):
        done = subprocess.run([sys.executable, ROOT / "scripts/real-models", "--find", name], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"{name} is not here: scripts/real-models {name} fetches it")
        return Path(done.stdout.strip())
    return find


@pytest.fixture(scope="session")
def make_model(tmp_path_factory):
    """make_model(preset, type, folder=..., ...) -> path; made once a session."""
    home, made = tmp_path_factory.mktemp("models"), {}

    def make(preset, kind="f32", folder=False, version=3, n_shards=1, **changes):
        key = (preset, kind, folder, version, n_shards, *sorted(changes.items()))
        if key not in made:
            name = "-".join(str(x) for x in (preset, kind, len(made)))
            shape = replace(random_model.PRESETS[preset], **changes)
            if folder:
                random_model.write_folder(home / name, shape, kind, n_shards=n_shards)
            else:
                name += ".gguf"
                random_model.write_gguf(home / name, shape, kind, version=version)
            made[key] = home / name
        return made[key]
    return make


@pytest.fixture(scope="session")
def data():
    """The folder of outside data, or a skip."""
    if "SPOLIA_DATA" not in os.environ:
        pytest.skip("SPOLIA_DATA is not set, and there is no folder shared/data beside the checkout")
    return Path(os.environ["SPOLIA_DATA"])


@pytest.fixture(scope="module")
def server(request):
    """A server with the options SERVER of the test's file."""
    from serving import Server
    with Server(*getattr(request.module, "SERVER", ("--reuse", "full"))) as s:
        yield s


@pytest.fixture
def start():
    """start(options): servers that end with the test."""
    from serving import servers
    with servers() as run:
        yield run
