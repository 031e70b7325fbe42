"""The commands of the pages of docs/, as they are written there."""
import re
import shlex
import shutil
import subprocess

import pytest
from conftest import ROOT, succeed
from serving import MODEL, Server
from test_new_user import pdf

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


def curl_commands(page):
    """The curl commands of a page's blocks, each as a list of words; one may continue on the next lines."""
    commands, open_one = [], ""
    for line in (ROOT / "docs" / page).read_text().splitlines():
        if not open_one and not re.match(r"    curl .*localhost:8080", line):
            continue
        open_one = f"{open_one}\n{line}" if open_one else line
        try:
            commands.append(shlex.split(open_one))
            open_one = ""
        except ValueError:  # a quotation is still open
            pass
    assert not open_one, f"{page}: a quotation does not end: {open_one}"
    return commands


@pytest.fixture
def server(tmp_path):
    succeed("graph", "import", ROOT / "demo/graph/triples.tsv", "-o", tmp_path / "g.db")
    with Server("--collection", f"docs={ROOT / 'demo/docs'}", "--graph", tmp_path / "g.db", model=MODEL) as running:
        yield running


@pytest.mark.parametrize("page, least", [("documents.md", 12), ("server.md", 3)])
def test_the_server_answers_every_curl_command_of_a_page(server, tmp_path, page, least):
    if shutil.which("pdftotext") is None:
        pytest.skip("poppler-utils is not installed")
    for name in ("handbook.pdf", "guide.pdf"):
        (tmp_path / name).write_bytes(pdf("Anna Berg is the keeper.", name))
    commands = curl_commands(page)
    assert len(commands) >= least
    for command in commands:
        here = [word.replace("localhost:8080", f"localhost:{server.port}") for word in command]
        if "parent=" in " ".join(here):
            continue  # the name of a copy of another server
        done = subprocess.run([*here, "-sS", "-w", "\n%{http_code}"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
        status = done.stdout.rsplit("\n", 1)[1]
        assert done.returncode == 0 and status[0] == "2", f"{page}: {shlex.join(command)}: {done.stdout}{done.stderr}"
