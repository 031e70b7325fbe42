"""scripts/demo: the questions over the World Factbook, here with the bundled model for speed, and the demo without a registry."""
import json
import os
import shutil
import subprocess
import sys
from xml.etree import ElementTree

from conftest import PROGRAM, ROOT

sys.path.insert(0, str(ROOT / "demo"))
import real_model  # noqa: E402


def test_answers_are_in_the_documents():
    texts = " ".join(path.read_text() for path in (real_model.HOME / "docs").glob("*.md")).lower()
    questions = [json.loads(line) for line in (real_model.HOME / "questions.jsonl").read_text().splitlines()]
    assert len(questions) == 20
    assert all(any(a.lower() in " ".join(texts.split()) for a in q["answers"]) for q in questions)


def test_every_question_is_asked_twice_and_reused(tmp_path, capsys):
    real_model.run(PROGRAM, ROOT / "demo/model.gguf", tmp_path, "balanced")
    out = capsys.readouterr().out
    assert out.count(" ms ") >= 20 and out.count(" right ") + out.count(" wrong ") >= 20
    assert "of 20" in out and "reused" in out
    share = int(out.split("tokens reused  ")[1].split("%")[1])
    assert share > 60
    assert "../" not in out, "paths are relative below this folder alone"
    picture = ElementTree.parse(tmp_path / "demo-ttft.svg").getroot()
    assert len(picture.findall("{*}rect")) == 41  # two bars a question


def test_without_a_registry_it_runs_on_the_bundled_model(tmp_path):
    env = {**os.environ, "SPOLIA_MODELS": str(tmp_path), "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    done = subprocess.run([sys.executable, ROOT / "scripts/demo", "--build", PROGRAM.parent, "--questions", "2"],
                          capture_output=True, text=True, env=env, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "runs on the bundled model" in done.stdout and "2 of  2" in done.stdout
    page, command = done.stdout.splitlines()[-2:]
    assert "http://127.0.0.1:8080/" in page and "spolia serve -m " in command and command.endswith("demo/model.gguf")
    assert "cannot be reached" in done.stderr


def test_it_runs_in_a_copy_of_the_checkout_with_its_build_folder(tmp_path):
    copy = tmp_path / "copy"
    for name in ("demo", "scripts"):
        shutil.copytree(ROOT / name, copy / name)
    (copy / "build").mkdir()
    shutil.copy(PROGRAM, copy / "build/spolia")
    subprocess.run([PROGRAM, "index", "-q", ROOT / "demo/docs", "-o", copy / "build/demo.db"], check=True)
    env = {**os.environ, "SPOLIA_MODELS": str(tmp_path), "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    done = subprocess.run([sys.executable, copy / "scripts/demo", "--questions", "1"], capture_output=True, text=True, env=env,
                          timeout=300)
    assert done.returncode == 0, done.stderr
    assert str(ROOT / "demo/docs") not in done.stderr


def test_a_path_is_relative_below_this_folder_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert real_model.shown(tmp_path / "build/spolia") == "build/spolia"
    assert real_model.shown(ROOT / "demo/model.gguf") == str(ROOT / "demo/model.gguf")


def test_it_needs_no_packages_of_the_tests(tmp_path):
    """`make demo` sets up with --demo, and then an empty environment is enough: the scripts import the standard library."""
    make = subprocess.run(["make", "-n", "-C", ROOT, "demo"], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "scripts/setup --demo" in make and not [line for line in make.splitlines() if line.endswith("scripts/setup")]
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    env = {**os.environ, "SPOLIA_MODELS": str(tmp_path)}
    done = subprocess.run([tmp_path / "bare/bin/python", ROOT / "scripts/demo", "--build", PROGRAM.parent, "--bundled",
                           "--questions", "1"], capture_output=True, text=True, env=env, timeout=300)
    assert done.returncode == 0, done.stderr
