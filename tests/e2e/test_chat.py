"""`spolia chat`: a conversation without documents, by the model's own chat template."""
import json
import re
import os
import pty
import subprocess
import time

import pytest
from conftest import PROGRAM, ROOT, refuse, run, succeed
from test_ask_chat import CTRL_C, Terminal, is_stopped_in, reused

MODEL = ROOT / "demo/model.gguf"


@pytest.fixture
def plain(tmp_path):
    """The model without a chat template."""
    path = tmp_path / "plain.gguf"
    path.write_bytes(MODEL.read_bytes().replace(b"tokenizer.chat_template", b"tokenizer.chat_templatX"))
    return path


def chat(*lines, model=MODEL, options=()):
    said = succeed("chat", "-m", model, "-n", "8", "--json", "--guard", "0", *options,
                   input="".join(line + "\n" for line in lines))
    return [json.loads(line) for line in said.splitlines()]


def tokens_of(messages):
    """Of the conversation as `spolia apply-template` writes it."""
    text = succeed("apply-template", "-m", MODEL, "-", input=json.dumps({"messages": messages}))
    return len(succeed("tokenize", "-m", MODEL, "-p", text.rstrip("\n") + "\n").splitlines())


def test_lines_are_one_conversation(plain):
    for model in (MODEL, plain):
        first, second = chat("Where do boats leave?", "And when?", model=model, options=["--temp", "5", "--seed", "1"])
        assert first["text"]
        (alone,) = chat("And when?", model=model)
        assert second["usage"]["prompt_tokens"] > alone["usage"]["prompt_tokens"]
        assert second["usage"]["reused_tokens"] >= first["usage"]["prompt_tokens"] // 2
        assert first["chunks"] == [] and first["question"] == "Where do boats leave?"


def test_the_prompt_is_the_templates():
    first, second = chat("Where do boats leave?", "And when?", options=["--system", "Be brief."])
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where do boats leave?"}]
    assert first["usage"]["prompt_tokens"] == tokens_of(turns)
    turns += [{"role": "assistant", "content": first["text"]}, {"role": "user", "content": "And when?"}]
    assert abs(second["usage"]["prompt_tokens"] - tokens_of(turns)) <= 2  # the answer is a segment by itself


def test_a_message_on_the_command_line():
    done = run("chat", "-m", MODEL, "-n", "3", "Hello")
    assert done.returncode == 0 and "cut at 3 tokens" in done.stderr
    assert re.match(r"prefix: 0 of \d+ tokens reused; first token ", done.stderr)
    refuse("chat", "-m", MODEL, "two", "words", naming=["one message"], code=2)
    refuse("chat", "-m", MODEL, "", naming=["empty"], code=2)


def test_text_that_is_not_utf8():
    done = subprocess.run([PROGRAM, "chat", "-m", MODEL, "-n", "2"], input=b"caf\xe9?\n", capture_output=True)
    assert done.returncode == 0, done.stderr


def test_a_long_conversation_drops_its_beginning():
    done = run("chat", "-m", MODEL, "-c", "128", "-n", "8", "--json", input=20 * "Where do boats leave in the morning?\n")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and len(answers) == 20 and "questions are dropped" in done.stderr
    assert all(a["usage"]["prompt_tokens"] <= 128 for a in answers)
    # what is left is continued: beginnings are dropped seldom, and most questions reuse what was said before
    assert done.stderr.count("dropped") <= 10 and sum(a["usage"]["reused_tokens"] > 0 for a in answers) >= 10


def test_a_message_that_is_too_long_costs_no_conversation():
    done = run("chat", "-m", MODEL, "-c", "128", "-n", "8", "--json", input="Where?\nAnd when?\n" + "word " * 300 + "\nWho?\n")
    first, second, long, last = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1 and long["error"]["code"] == "E_CONTEXT" and "dropped" not in done.stderr
    assert last["usage"]["prompt_tokens"] > second["usage"]["prompt_tokens"] and last["usage"]["reused_tokens"] > 0


def test_ctrl_c_in_a_long_prompt_does_not_wait_for_the_step():
    """One step computes the whole prompt, for seconds, and gives the first token; a second Ctrl-C does not end the
    program."""
    t = Terminal("chat", "-m", MODEL, "-b", "4096", "-t", "1", "-n", "2", "--reuse", "off", SPOLIA_CPU="ref")
    try:
        t.until("Ctrl-D ends[^>]*> ")
        begin = time.monotonic()
        assert "first token" in t.ask("harbour keeper boats Velm " * 150)
        whole = time.monotonic() - begin

        def within_the_step(part):
            time.sleep(whole * part)
            t.type(CTRL_C)
            time.sleep(0.01)
        parts = [0.25 / 1.5 ** i for i in range(12)]  # the first one may have taken long for other reasons
        assert any(is_stopped_in(t, "Velm boats keeper harbour " * 150, lambda: within_the_step(p)) for p in parts)  # noqa: B023
        assert reused(t.ask("Hello")) and t.end() == 0
    finally:
        t.close()


def test_at_a_terminal(tmp_path):
    outside, inside = pty.openpty()
    env = {**os.environ, "TERM": "dumb", "XDG_STATE_HOME": str(tmp_path)}
    p = subprocess.Popen([PROGRAM, "chat", "-m", MODEL, "-n", "4"], stdin=inside, stdout=inside, stderr=inside, env=env)
    os.close(inside)
    os.write(outside, b"Hello\n/save " + str(tmp_path / "talk.md").encode() + b"\n/quit\n")
    said = b""
    while b"saved" not in said:
        said += os.read(outside, 4096)
    assert b"Type a message." in said and p.wait(300) == 0
    assert (tmp_path / "talk.md").read_text().startswith("## Hello\n")
