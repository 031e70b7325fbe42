"""Commands while one allocation, or calls for files, fail: what they print and write is as without the fault, or they
end with an error that says why, and the file that they were to write is the one of before, or the new one."""
import hashlib
import re
import shutil
import subprocess

import pytest

from conftest import EMULATED, PROGRAM, ROOT, run, succeed
from support import faults

pytestmark = pytest.mark.skipif(EMULATED, reason="the library of faults is of this machine")

MODEL = ROOT / "demo" / "model.gguf"
QUESTION = "Who keeps the lighthouse?"
PAGES = {
    "harbour.md": "# Velm\n\nThe keeper of the lighthouse is Anna Berg.\n\n## Boats\n\nThey leave at nine.\n",
    "pier.html": "<html><title>Pier</title><body><p>It burnt down.</p><table><tr><td>1931</td></tr></table></html>",
    "people.csv": "name,job\nAnna,keeper\nTorin,smith\n",
    "mill.json": '{"texts": [{"text": "The mill is old."}, {"text": "It has two wheels."}]}',
    "letter.eml": "From: a@velm.example\nSubject: =?utf-8?q?Gr=C3=BC?=\nContent-Type: text/html\n\n<p>It rains.</p>\n",
}
GREEDY = ["--temp", "0", "-n", "6", "-t", "1"]


def seen(*arguments):
    """What a command prints that reads the file; None: nothing is in it yet."""
    done = run(*arguments)
    assert done.returncode == 0 or "creates one" in done.stderr or "names no entity" in done.stderr, done.stderr
    return None if done.returncode else done.stdout


def of_search(folder):
    return seen("search", "-i", folder / "notes.db", "--json", QUESTION)


def of_graph(folder):
    return seen("graph", "paths", "--graph", folder / "firms.db", "Who owns firm 5?")


def of_store(folder):
    return succeed("cache", "list", "--store", folder / "other")


def of_archive(folder):
    return hashlib.sha256((folder / "copies.spolia").read_bytes()).hexdigest()


# Arguments; the file that is written, and how its content is seen.
COMMANDS = {
    "index": (["index", "pages", "-o", "notes.db"], "notes.db", of_search),
    "index again": (["index", "pages", "-o", "notes.db", "--moved"], "notes.db", of_search),
    "search": (["search", "-i", "read.db", QUESTION], None, None),
    "ask": (["ask", "-m", MODEL, "-i", "read.db", *GREEDY, QUESTION], None, None),
    "ask with a store": (["ask", "-m", MODEL, "-i", "read.db", "--store", "store", *GREEDY, QUESTION], None, None),
    "graph import": (["graph", "import", "firms.tsv", "-o", "firms.db"], "firms.db", of_graph),
    "graph search": (["graph", "search", "--graph", "read-firms.db", "firm 5"], None, None),
    "tokenize": (["tokenize", "-m", MODEL, "-p", "The keeper."], None, None),
    "inspect": (["inspect", MODEL, "--json"], None, None),
    "logits": (["logits", "-m", MODEL, "-p", "The keeper"], None, None),
    "cache list": (["cache", "list", "--store", "store"], None, None),
    "cache export": (["cache", "export", "copies.spolia", "--store", "store"], "copies.spolia", of_archive),
    "cache import": (["cache", "import", "read.spolia", "--store", "other"], "other", of_store),
}
FILES = [{"write": 1}, {"write": 3}, {"full": 2}, {"read": 3}, {"sync": 1}, {"short": 2}, {"open": 2}, {"change": 1}]


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """A folder with what the commands read."""
    folder = tmp_path_factory.mktemp("before")
    pages = folder / "pages"
    pages.mkdir()
    for name, text in PAGES.items():
        (pages / name).write_text(text)
    (folder / "firms.tsv").write_text("".join(f"firm {i}\towns\tfirm {i + 1}\n" for i in range(40)))
    succeed("index", pages, "-o", folder / "read.db", "--precompute", "-m", MODEL, "--store", folder / "store")
    succeed("graph", "import", folder / "firms.tsv", "-o", folder / "read-firms.db")
    succeed("cache", "export", folder / "read.spolia", "--store", folder / "store")
    return folder


@pytest.fixture(scope="module")
def control(tmp_path_factory):
    folder = tmp_path_factory.mktemp("control")
    return faults.Faults(folder, faults.build_preload(folder, ROOT))


def printed(done):
    return re.sub(r"in \d+\.\d+ s", "in N s", done.stdout)


class Trial:
    """A command in a folder of its own for each run."""

    def __init__(self, name, before, folder, control):
        self.arguments, self.written, self.look = COMMANDS[name]
        self.before, self.folder, self.control = before, folder, control
        self.updates, self.adds = name == "index again", name == "cache import"  # copies are added one by one

    def content(self):
        """What the file to be written has; None: there is none, or it is empty."""
        path = self.folder / (self.written or "nothing")
        return self.look(self.folder) if path.is_dir() or (path.exists() and path.stat().st_size) else None

    def run(self, n=0, **kinds):
        """What the command said, whether its n-th allocation failed, and the content before."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.before, self.folder)
        if self.updates:
            shutil.copy(self.folder / "read.db", self.folder / "notes.db")
            (self.folder / "pages" / "new.md").write_text("The keeper of the lighthouse left in 1950.\n")
        old = self.content()
        self.control.set(1, **kinds)
        self.control.fail_nth(n)
        done = subprocess.run([PROGRAM, *map(str, self.arguments)], cwd=self.folder, env=self.control.env(self.folder),
                              capture_output=True, text=True, errors="replace", timeout=300)
        failed = self.control.has_failed()
        self.control.set()
        self.control.fail_nth(0)
        return done, failed, old

    def check(self, whole, new, done, old, fault):
        assert done.returncode in (0, 1), f"{fault}: exit code {done.returncode}: {done.stderr[-500:]}"
        if done.returncode == 0:
            assert printed(done) == printed(whole) and self.content() == new, f"{fault}: {done.stdout} {done.stderr}"
        else:
            assert done.stderr.startswith("spolia: "), f"{fault}: {done.stderr}"
            assert self.adds or self.content() in (old, new), f"{fault}: half of a file"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_whose_calls_fail(name, before, control, tmp_path):
    trial = Trial(name, before, tmp_path / "run", control)
    whole, _, _ = trial.run()
    assert whole.returncode == 0, whole.stderr
    new, n, n_failed, failed = trial.content(), 1, 0, True
    while failed:  # to the last allocation, in steps that grow
        done, failed, old = trial.run(n)
        trial.check(whole, new, done, old, f"allocation {n}")
        n_failed += done.returncode != 0
        n += max(1, n // 3)
    assert n_failed > 3
    for kinds in FILES:
        done, _, old = trial.run(**kinds)
        trial.check(whole, new, done, old, kinds)
