"""`spolia run`, `chat` and `ask`: the thoughts of a model apart from its answer."""
import json
import re

import pytest
from conftest import refuse, run, succeed
from reference.gguf import read
from reference.gguf_writer import Source, write
from test_ask_chat import Terminal
from serving import MODEL

TURNS = "{% for m in messages %}{{ m.content ~ '\\n' }}{% endfor %}"
SAMPLED = ("--temp", "3", "--seed", "1")  # greedily it says nothing
OPENED = "{# </think> #}" + TURNS + "{% if add_generation_prompt %}{{ '<think>\\n' }}{% endif %}"


@pytest.fixture(scope="module")
def thinking(tmp_path_factory):
    """The demo's model, whose prompts end with <think>: all that it says are thoughts."""
    f = read(MODEL)
    f.metadata["tokenizer.chat_template"] = OPENED
    path = tmp_path_factory.mktemp("model") / "thinking.gguf"
    write(path, f.metadata, [Source(t.name, t.type, t.shape, lambda t=t: [t.data]) for t in f.tensors.values()])
    return path


def chat(model, *options):
    done = run("chat", "-m", model, "-n", "12", *SAMPLED, *options, "Where do boats leave?")
    assert done.returncode == 0, done.stderr
    return done


def test_thoughts_are_no_part_of_what_is_piped(thinking):
    whole = chat(thinking, "--thoughts", "text").stdout.strip()
    assert len(whole) > 10
    for options in ([], ["--thoughts", "hide"]):
        done = chat(thinking, *options)
        assert done.stdout.strip() == "" and whole not in done.stderr
    done = chat(thinking, "--thoughts", "show")
    assert done.stdout.strip() == "" and done.stderr.startswith(whole + "\n")


def test_json_has_thoughts_apart(thinking):
    whole = json.loads(chat(thinking, "--json", "--thoughts", "text").stdout)
    apart = json.loads(chat(thinking, "--json").stdout)
    assert (apart["thoughts"], apart["text"]) == (whole["text"].strip(), "") and "thoughts" not in whole
    assert apart["tokens"] == whole["tokens"]
    assert "thoughts" not in json.loads(chat(thinking, "--json", "--thoughts", "hide").stdout)
    prompt = ["-m", thinking, "-p", "Where do boats leave?\n<think>\n", *SAMPLED, "--json"]
    assert json.loads(succeed("run", *prompt))["thoughts"]
    assert json.loads(succeed("run", *prompt[:3], "Where do boats", *prompt[4:]))["text"]


def test_an_answer_bound_to_a_schema_has_no_thoughts(thinking, tmp_path):
    schema = tmp_path / "schema.json"
    schema.write_text('{"const": "At nine."}')
    said = json.loads(succeed("run", "-m", thinking, "-p", "When?\n<think>\n", "--json-schema", schema, "--json"))
    assert json.loads(said["text"]) == "At nine." and "thoughts" not in said


def test_a_model_without_thoughts_says_all(thinking):
    plain = chat(MODEL).stdout
    assert plain == chat(MODEL, "--thoughts", "text").stdout and plain.strip()
    refuse("chat", "-m", MODEL, "--thoughts", "loud", "Hello", naming=["--thoughts", "loud", "auto"], code=2)


def test_a_terminal_shows_thoughts_dimmed(thinking):
    t = Terminal("chat", "-m", thinking, "-n", "12", *SAMPLED, TERM="xterm")
    try:
        t.until("Ctrl-D ends[^>]*> ")
        said = t.ask("Where do boats leave?")
        whole = json.loads(chat(thinking, "--json").stdout)["thoughts"]
        dim = re.search("\x1b\\[2m(.*)\x1b\\[0m\r\n\r\n", said, re.S)
        assert dim and dim[1].replace("\x1b[0m", "").replace("\x1b[2m", "").startswith(whole[:20]), said
        assert t.end() == 0
    finally:
        t.close()
