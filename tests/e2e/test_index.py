"""`spolia index` and `spolia search` as a careless user meets them: wrong folders, odd files, odd names."""
import json
import os
import pty
import zipfile

import pytest

from conftest import PROGRAM, ROOT, refuse, run, succeed

MODEL = ROOT / "demo/model.gguf"


@pytest.fixture
def docs(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.txt").write_text("Apples grow on trees.\n")
    return folder


def build(*args):
    return json.loads(succeed("index", *args, "--json"))


def search(index, question):
    return json.loads(succeed("search", "-i", index, "--json", question))


def test_the_summary_is_for_people(docs, tmp_path):
    said = succeed("index", docs, "-o", tmp_path / "x.db")
    assert "1 chunk of 1 file (1 read" in said and ", 22 bytes in " in said
    (docs / "b.txt").write_text("word " * 3000)
    assert " chunks of 2 files (1 read" in succeed("index", "-o", tmp_path / "x.db")


def test_another_folder_is_refused_added_or_replaces(docs, tmp_path):
    other, index = tmp_path / "other", tmp_path / "x.db"
    other.mkdir()
    (other / "b.txt").write_text("Bananas are yellow.\n")
    build(docs, "-o", index)
    refuse("index", other, "-o", index, naming=[docs, "--add", "--replace"])
    assert search(index, "apples")[0]["file"] == "a.txt"
    added = build("--add", other, "-o", index)
    assert (added["chunks"], added["files"], added["whole"]) == (1, 1, {"files": 2, "chunks": 2})
    assert "1 chunk of 1 file (0 read" in (said := succeed("index", other, "-o", index)) and "the whole index has 2 chunks of 2 files" in said
    assert "whole" not in succeed("index", "-o", index)
    assert [search(index, q)[0]["file"] for q in ("apples", "bananas")] == ["docs/a.txt", "other/b.txt"]
    assert build("-o", index)["unchanged"] == 2
    assert build(other, "--replace", "-o", index)["removed"] == 1
    assert run("search", "-i", index, "apples").returncode == 3


def test_a_folder_without_documents_is_a_failure(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name in ("a.png", "b.png", "c.zip"):
        (folder / name).write_text("")
    done = run("index", folder, "-o", tmp_path / "x.db")
    assert done.returncode == 1 and "no documents" in done.stderr
    assert "0 chunks of 0 files" in done.stdout and "3 files in other formats: 2 .png, 1 .zip" in done.stdout
    (folder / "empty.txt").write_text("")
    done = run("index", folder, "-o", tmp_path / "x.db")
    assert done.returncode == 1 and "0 chunks of 1 file" in done.stdout


def test_bad_lines_are_skipped_counted_and_named(docs, tmp_path):
    (docs / "b.jsonl").write_text('{"text": "one"}\nnonsense\n{"text": "two"}\n')
    done = run("index", docs, "-o", tmp_path / "x.db")
    assert done.returncode == 0 and "b.jsonl:2:" in done.stderr and "1 bad line skipped" in done.stdout
    assert search(tmp_path / "x.db", "two")[0]["first_line"] == 3
    refuse("index", docs, "-o", tmp_path / "y.db", "--strict", naming=["b.jsonl:2:"])


def test_hits_say_where_they_are(docs, tmp_path):
    (docs / "long.md").write_text("# Fruit\n\nIntroduction.\n\n## Pears\n\nPears ripen\nin autumn.\n")
    index = tmp_path / "x.db"
    build(docs, "-o", index)
    hit = search(index, "pears")[0]
    assert (hit["file"], hit["first_line"], hit["last_line"], hit["root"]) == ("long.md", 5, 8, str(docs))
    assert "(long.md:5, chunk" in succeed("search", "-i", index, "pears")


def test_office_documents_are_read(docs, tmp_path):
    with zipfile.ZipFile(docs / "report.docx", "w") as z:
        z.writestr("word/document.xml", "<w:document xmlns:w='urn:w'><w:body><w:p><w:r><w:t>The quarry yields granite."
                                        "</w:t></w:r></w:p></w:body></w:document>")
    (docs / "broken.epub").write_bytes(b"PK\3\4")
    done = run("index", docs, "-o", tmp_path / "x.db", "--json")
    assert done.returncode == 0 and "broken.epub" in done.stderr and json.loads(done.stdout)["skipped"] == 1
    assert search(tmp_path / "x.db", "granite")[0]["file"] == "report.docx"


def test_escape_sequences_stay_in_the_documents(docs, tmp_path):
    evil = "\x1b]0;owned\x07\x1b[31m\u202e\u009b5m"
    (docs / f"n{evil}.txt").write_text("plain zebra\n")
    (docs / "evil.jsonl").write_text(json.dumps({"title": f"T{evil}", "text": f"quagga {evil} text"}) + "\n")
    (docs / f"b{evil}.docx").write_bytes(b"PK")
    index = tmp_path / "x.db"
    done = run("index", docs, "-o", index)
    out = done.stdout + done.stderr + succeed("search", "-i", index, "zebra") + succeed("search", "-i", index, "quagga")
    for c in ("\x1b", "\x07", "\u202e", "\u009b"):
        assert c not in out
    assert "quagga" in out and "zebra" in out


def on_terminal(*args):
    """What the program prints when both streams are a terminal."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(PROGRAM, [str(PROGRAM), *map(str, args)])
    out = b""
    try:
        while data := os.read(fd, 4096):
            out += data
    except OSError:
        pass
    os.close(fd)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), out.decode(errors="surrogateescape")


def test_progress_on_a_terminal_shows_whole_characters(docs, tmp_path):
    name = "\u5f88\u957f\u7684\u6587\u4ef6\u540d" * 8
    (docs / f"{name}.txt").write_text("text\n")
    code, out = on_terminal("index", docs, "-o", tmp_path / "x.db")
    assert code == 0 and not any("\udc80" <= c <= "\udcff" for c in out)


def test_no_hit_has_an_exit_code_of_its_own(docs, tmp_path):
    index = tmp_path / "x.db"
    build(docs, "-o", index)
    done = run("search", "-i", index, "--json", "xylophone")
    assert done.returncode == 3 and json.loads(done.stdout) == [] and "no chunk" in done.stderr
    done = run("ask", "-m", MODEL, "-i", index, "-n", "4", "xylophone")
    assert done.returncode == 3 and done.stdout == "" and "--allow-empty" in done.stderr
    assert run("ask", "-m", MODEL, "-i", index, "-n", "4", "xylophone", "--allow-empty").returncode == 0
    done = run("ask", "-m", MODEL, "-i", index, "-n", "4", "--json", input="xylophone\napples\n")
    first, second = map(json.loads, done.stdout.splitlines())
    assert done.returncode == 3 and first["chunks"] == [] and "error" in first and second["chunks"]


def test_only_names_a_file_or_a_folder_that_is_there(docs, tmp_path):
    index = tmp_path / "x.db"
    for name in "a/b.txt", "a+/c.txt", "a.b/d.txt":
        (docs / name).parent.mkdir()
        (docs / name).write_text(f"Apples of {name}\n")
    build(docs, "-o", index)

    def files(*names):
        hits = json.loads(succeed("search", "-i", index, "--json", "apples", *(f"--only={n}" for n in names)))
        return sorted(h["file"] for h in hits)

    assert files("a") == files("a//") == files("a/b.txt") == ["a/b.txt"]
    assert files("a.txt", "a.b/") == ["a.b/d.txt", "a.txt"]
    for wrong in "b.txt", "a/b", "a/c.txt", "A", str(docs / "a.txt"), "", "/":
        refuse("search", "-i", index, "apples", "--only", "a.txt", "--only", wrong, naming=[f"--only {wrong}:"])


def test_an_older_index_says_how_to_rebuild_it(docs, tmp_path):
    import sqlite3
    index = tmp_path / "x.db"
    build(docs, "-o", index)
    with sqlite3.connect(index) as db:
        db.execute("PRAGMA user_version = 1")
    refuse("search", "-i", index, "apples", naming=["version 1", "--replace"])
    refuse("index", docs, "-o", index, naming=["version 1", "--replace"])
    build(docs, "-o", index, "--replace")
    assert search(index, "apples")


def test_a_list_of_questions_that_is_wrong_is_said_once(docs, tmp_path):
    succeed("index", docs, "-o", tmp_path / "i.db", "-q")
    like = "search", "-i", tmp_path / "i.db", "--like", "1", "--similar", "together", "--asked", tmp_path / "asked"
    refuse(*like, naming=["asked", "No such file"])
    (tmp_path / "asked").write_text('{"text": "apples"}\n')
    refuse(*like, naming=["asked:1", '"question"'])


def test_an_overlap_is_shorter_than_a_chunk(docs, tmp_path):
    start = "index", docs, "-o", tmp_path / "i.db", "-q"
    refuse(*start, "--chunk-words", "9", "--overlap-words", "9", naming=["--overlap-words must be less"], code=2)
    refuse(*start, "--overlap-words", "150", naming=["--overlap-words must be less"], code=2)  # the default size
    succeed(*start, "--chunk-words", "9", "--overlap-words", "8")


@pytest.mark.parametrize("option", [("--system", "Be brief."), ("-m", ROOT / "demo/model.gguf"), ("--fuse", 3), ("-t", 2), ("--store", "x")])
def test_options_of_precomputing_need_it(docs, tmp_path, monkeypatch, option):
    name = {"-m": "--model", "-t": "--threads"}.get(option[0], option[0])
    refuse("index", docs, "-o", tmp_path / "i.db", *option, naming=[name, "needs --precompute"], code=2)
    assert not (tmp_path / "i.db").exists()
    monkeypatch.setenv("SPOLIA_ARG_" + name[2:].upper(), str(option[1]))  # for several commands
    assert run("index", docs, "-o", tmp_path / "i.db", "--quiet").returncode == 0
