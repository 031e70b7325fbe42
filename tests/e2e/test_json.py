"""What --json prints is what docs/json.md says."""
import json
import re

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from conftest import ROOT, run
from reference import encoder

MODEL = ROOT / "demo/model.gguf"
QUESTION = json.loads((ROOT / "demo/questions.jsonl").read_text().splitlines()[0])["question"]
PAGE = (ROOT / "docs/json.md").read_text()
SCHEMAS = {s["$id"]: s for s in map(json.loads, re.findall(r"^```json\n(.*?)^```", PAGE, re.S | re.M))}
REGISTRY = Registry().with_resources(
    (name, Resource(contents=s, specification=DRAFT202012)) for name, s in SCHEMAS.items())


def valid(name, value):
    Draft202012Validator(SCHEMAS[name], registry=REGISTRY).validate(value)
    return value


def invalid(name, value):
    return not Draft202012Validator(SCHEMAS[name], registry=REGISTRY).is_valid(value)


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    path = tmp_path_factory.mktemp("json") / "demo.db"
    done = run("index", ROOT / "demo/docs", "-o", path, "--json")
    valid("index", json.loads(done.stdout))
    return path


def test_schemas_are_schemas():
    caches = {f"cache-{name}" for name in ("list", "show", "verify", "export", "import", "drop", "gc", "gc-remote")}
    assert caches | {"error", "run", "ask", "search", "index", "precompute", "tokenize", "embed", "inspect", "config", "pull",
                     "doctor", "copies", "requests"} == set(SCHEMAS)
    for schema in SCHEMAS.values():
        Draft202012Validator.check_schema(schema)


def test_embed(tmp_path):
    folder = encoder.write_folder(tmp_path / "m")
    valid("embed", json.loads(run("embed", "-m", folder, "the river", "a wall", "--json").stdout))


def test_ask(index):
    done = run("ask", "-m", MODEL, "-i", index, "-n", "4", "--json", "--reuse", "fusion",
               input=f"{QUESTION}\nxylophone\n{QUESTION}\n")
    first, none, second = [valid("ask", json.loads(line)) for line in done.stdout.splitlines()]
    assert "error" in none and "error" not in first and len(second["chunks"]) == 8
    for broken in ({**first, "more": 1}, {**first, "error": none["error"]}, {**first, "finish": "?"},
                   {**first, "chunks": [{**first["chunks"][0], "from": "the cloud"}]}, {"question": "", "chunks": []}):
        assert invalid("ask", broken)


def test_run_and_tokenize_and_inspect():
    for options in ([], ["--separator", "\n"], ["--decode", "sparse"]):
        done = run("run", "-m", MODEL, "-p", "Velm\nTorin\nRask", "-n", "3", "--json", *options)
        valid("run", json.loads(done.stdout))
    assert valid("tokenize", json.loads(run("tokenize", "-m", MODEL, "-p", "Velm", "--json").stdout))["tokens"]
    valid("inspect", json.loads(run("inspect", MODEL, "--json").stdout))


def test_a_folder_is_inspected_alike(make_model):
    valid("inspect", json.loads(run("inspect", make_model("tiny-llama", folder=True), "--json").stdout))


def test_search(index):
    assert valid("search", json.loads(run("search", "-i", index, "--json", QUESTION).stdout))
    assert valid("search", json.loads(run("search", "-i", index, "--json", "xylophone").stdout)) == []


def test_precompute(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    for town in ("Velm", "Torin", "Rask"):
        (docs / f"{town}.txt").write_text(f"{town} has boats and hotels.\n")
    done = run("index", docs, "-o", tmp_path / "x.db", "--precompute", "-m", MODEL, "--json")
    first, second = map(json.loads, done.stdout.splitlines())
    valid("index", first)
    assert valid("precompute", second)["complete"]


@pytest.mark.parametrize("command", [
    ["ask", "-m", MODEL, "-i", "NONE", "Q"], ["ask", "-m", "NONE", "-i", "INDEX", "Q"],
    ["run", "-m", "NONE", "-p", "x"], ["run", "-m", MODEL, "-p", "x", "-c", "1"],
    ["run", "-m", MODEL, "-f", "NONE"], ["search", "-i", "NONE", "x"], ["tokenize", "-m", "NONE", "-p", "x"],
    ["inspect", "NONE"], ["index", "NONE", "-o", "OUT"]], ids=lambda c: " ".join(map(str, c[:1])))
def test_failures(command, index, tmp_path):
    places = {"NONE": tmp_path / "none", "INDEX": index, "OUT": tmp_path / "out.db"}
    done = run(*(places.get(word, word) for word in command), "--json")
    assert done.returncode == 1 and done.stderr.startswith("spolia: ")
    said = valid("error", json.loads(done.stdout))["error"]
    assert said["message"] and said["message"] in done.stderr


def test_an_index_without_documents(tmp_path):
    (tmp_path / "empty").mkdir()
    done = run("index", tmp_path / "empty", "-o", tmp_path / "x.db", "--json")
    assert done.returncode == 1 and valid("index", json.loads(done.stdout))["chunks"] == 0
