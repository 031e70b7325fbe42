"""A conversation with `spolia ask` at a terminal: editing, Ctrl-C, earlier turns, commands."""
import contextlib
import json
import os
import pty
import re
import select
import subprocess
import termios
import time

import pytest

from conftest import PROGRAM, ROOT, succeed

MODEL = ROOT / "demo/model.gguf"
QUESTIONS = [json.loads(line)["question"] for line in (ROOT / "demo/questions.jsonl").read_text().splitlines()]
CTRL_A, CTRL_C, CTRL_D, CTRL_V = "\x01", "\x03", "\x04", "\x16"
PROMPT = r"\n> [^\n]*$"
WAIT = 300


class Terminal:
    """A program on a pseudo-terminal. `unread` is what it has printed after the last text that was waited for."""

    def __init__(self, *args, **env):
        self.own, other = pty.openpty()
        env = {**{k: v for k, v in os.environ.items() if k != "NO_COLOR"}, "TERM": "vt100", **env}
        self.program = subprocess.Popen([PROGRAM, *map(str, args)], stdin=other, stdout=other, stderr=other,
                                        env=env, start_new_session=True, close_fds=True,
                                        preexec_fn=lambda: __import__("fcntl").ioctl(0, 0x540E, 0))
        os.close(other)
        self.all = self.unread = ""

    def until(self, text):
        """What is printed from the last call up to the end of the text. The rest is kept for the next call."""
        start = time.monotonic()
        while not (found := re.search(text, self.unread)):
            assert time.monotonic() - start < WAIT, f"{text!r} does not appear in {self.unread!r}"
            if select.select([self.own], [], [], 1)[0]:
                try:
                    self.unread += os.read(self.own, 65536).decode(errors="replace")
                except OSError:
                    assert re.search(text, self.unread), f"the program ended after {self.unread!r}"
        seen, self.unread = self.unread[:found.end()], self.unread[found.end():]
        self.all += seen
        return seen

    def type(self, text):
        os.write(self.own, text.encode())

    def until_edited(self):
        """Until the program reads keys itself: before that, Ctrl-C is the terminal's."""
        start = time.monotonic()
        while termios.tcgetattr(self.own)[3] & termios.ICANON:
            assert time.monotonic() - start < WAIT
            time.sleep(0.01)

    def ask(self, line):
        self.type(line + "\n")
        return self.until(PROMPT)

    def end(self):
        """Until it is heard: what is typed while an answer runs does not end the conversation."""
        for i in range(WAIT * 10):
            if i % 10 == 0:
                self.type(CTRL_D)
            if select.select([self.own], [], [], 0)[0]: # a program whose output nobody reads does not end
                with contextlib.suppress(OSError):
                    self.all += os.read(self.own, 65536).decode(errors="replace")
            try:
                return self.program.wait(0.1)
            except subprocess.TimeoutExpired:
                pass
        return None

    def close(self):
        if self.program.poll() is None:
            self.program.kill()
        self.program.wait()
        os.close(self.own)


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    path = tmp_path_factory.mktemp("chat") / "demo.db"
    succeed("index", ROOT / "demo/docs", "-o", path)
    return path


@pytest.fixture
def chat(index, tmp_path):
    made = []

    def start(*options, **env):
        t = Terminal("ask", "-m", MODEL, "-i", index, "-n", "8", *options, XDG_STATE_HOME=str(tmp_path), **env)
        made.append(t)
        t.until("Ctrl-D ends[^>]*> ")
        return t
    yield start
    for t in made:
        t.close()


def reused(said):
    """Reused tokens and all tokens of the account in what was printed."""
    return [tuple(map(int, m)) for m in re.findall(r"(\d+) of (\d+) tokens", said)]


def test_earlier_turns_are_reused(chat):
    t = chat()
    ((none, first),) = reused(t.ask(QUESTIONS[0]))
    ((known, second),) = reused(t.ask(QUESTIONS[1]))
    assert none == 0 and second > first and known >= first - 1
    assert re.search(r"\[9\] \S+:1", t.all), "sources are numbered on"
    said = t.ask("/sources")
    assert len(re.findall(r"^ +\d+\. ", said, re.M)) > 8
    t.ask("/clear")
    ((_, cleared),) = reused(t.ask(QUESTIONS[0]))
    assert cleared == first
    assert t.end() == 0


def test_ctrl_d_ends_a_line_that_has_nothing_else_and_deletes_in_others(chat):
    t = chat()
    t.until_edited()
    t.type("x/help" + CTRL_A + CTRL_D + "\n")
    assert "/sources" in t.until(PROMPT)
    t.until_edited()
    t.type(CTRL_V + CTRL_D) # as a character: so it comes when the terminal changes its mode meanwhile
    t.until(r"\^D")
    t.type(CTRL_D)
    assert t.program.wait(WAIT) == 0


def test_ctrl_c_at_the_prompt_clears_the_line(chat):
    t = chat()
    t.until_edited()
    t.type("rubbish " + CTRL_C)
    said = t.ask(QUESTIONS[0])
    assert reused(said), "the program goes on, and answers what was typed after Ctrl-C"
    assert "rubbish" not in t.ask("/sources")
    assert t.end() == 0


def is_stopped_in(t, question, moment):
    """Asks and types Ctrl-C at that moment; whether the answer then has no first token: it may have had one before."""
    t.ask("/clear")
    t.type(question + "\n")
    moment()
    t.type(CTRL_C)
    return "first token" not in t.until(PROMPT)


def test_ctrl_c_stops_the_reading(chat):
    t = chat("-b", "8", "--reuse", "off")
    assert any(is_stopped_in(t, QUESTIONS[0], lambda: t.until(r"reading \d+/\d+ tokens")) for _ in range(20))
    said = t.ask(QUESTIONS[1])
    assert reused(said) and "first token" in said, "the next question is answered"
    assert t.end() == 0


def answer_of(said):
    """What was printed between the progress of the prompt and the sources."""
    return said.rsplit("\x1b[K", 1)[1].split("\x1b[2mSources")[0].replace("^C", "").strip()


def test_ctrl_c_stops_the_answer(chat):
    """It ends elsewhere than otherwise, if Ctrl-C comes before that; the terminal may have lost a part before Ctrl-C."""
    t = chat("-n", "400", "--temp", "100", "--seed", "1", "--reuse", "off")
    whole = answer_of(t.ask(QUESTIONS[0]))
    assert len(whole) > 100

    def is_stopped():
        t.ask("/clear")
        t.type(QUESTIONS[0] + "\n")
        said = t.until(r"reading [^\r]*tokens\r\x1b\[K[^r]")
        t.type(CTRL_C)
        answer = answer_of(said + t.until(PROMPT))
        return answer and not whole.endswith(answer[-20:])
    assert any(is_stopped() for _ in range(20))
    said = t.ask(QUESTIONS[1])
    assert reused(said) and "first token" in said, "the next question is answered"
    assert t.end() == 0


def test_commands(chat, tmp_path):
    t = chat()
    assert "/sources" in t.ask("/help")
    assert "/help" in t.ask("/nonsense")
    assert "fusion" in t.ask("/reuse magic")
    assert "2" in t.ask("/reuse fusion 2")
    assert "share 1\r" in t.ask("/reuse fusion 1")
    assert "share 0.5" in t.ask("/reuse fusion 0.5")
    t.ask(QUESTIONS[0])
    assert "recomputed" in t.ask(QUESTIONS[0] + " Again: " + QUESTIONS[1]) or "0 of" in t.all
    saved = tmp_path / "talk.md"
    assert "2 questions" in t.ask(f"/save {saved}")
    text = saved.read_text()
    assert f"## {QUESTIONS[0]}\n" in text and re.search(r"^1\. \S+:1$", text, re.M)
    assert "exists" in t.ask(f"/save {saved}")
    t.type("/quit\n")
    assert t.program.wait(WAIT) == 0


def test_history_and_colour(chat, tmp_path):
    t = chat()
    assert "\033[2m" in t.ask(QUESTIONS[0])
    assert t.end() == 0
    assert (tmp_path / "spolia/history").stat().st_mode & 0o077 == 0
    t = chat(NO_COLOR="1")
    t.until_edited()
    t.type("\x10")  # Ctrl-P: the line of the last session
    t.until(re.escape(QUESTIONS[0][:12]))
    said = t.ask("")
    assert reused(said) and "\033[2m" not in said
    assert t.end() == 0
