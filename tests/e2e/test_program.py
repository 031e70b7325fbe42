"""The program as a whole: help, misspelt names, the environment, output that cannot be written, installation."""
import json
import os
import re
import subprocess
import sys

import pytest
from conftest import PROGRAM, ROOT, refuse, run, succeed

MODEL = ROOT / "demo/model.gguf"


@pytest.fixture(scope="module")
def described():
    return json.loads(succeed("--dump-help"))["commands"]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    path = tmp_path_factory.mktemp("program") / "demo.db"
    succeed("index", ROOT / "demo/docs", "-o", path)
    return path


def leaves(listed, before=()):
    for c in listed:
        if "subcommands" in c:
            yield from leaves(c["subcommands"], (*before, c["name"]))
        else:
            yield (*before, c["name"]), c


# -- help ------------------------------------------------------------------------------------------

def test_a_group_without_a_command_is_an_error(described):
    for name in (c["name"] for c in described if "subcommands" in c):
        done = run(name)
        assert done.returncode == 2 and not done.stdout and done.stderr == succeed(name, "--help")


def test_help_groups_commands(described):
    text = succeed("--help")
    assert text == succeed("-h") == succeed("help")
    for c in described:
        assert f"\n{c['group']}:\n" in text
        assert re.search(rf"^  {c['name']} +{re.escape(c['summary'])}$", text, re.M)
    assert len({c["group"] for c in described}) < len(described)
    groups = [c["group"] for c in described]
    assert groups == sorted(groups, key=groups.index), "the commands of a group are listed together"


def test_each_command_explains_itself(described):
    for words, c in leaves(described):
        short, full = succeed(*words, "--help"), succeed(*words, "--help-all")
        assert short == succeed(*words, "-h") == succeed("help", *words)
        assert short.startswith(f"usage: spolia {' '.join(words)} ")
        for o in c["options"]:
            assert f"{o['dashes']}{o['name']}" in full
            assert f"{o['dashes']}{o['name']}" in short or not (o["common"] or o["required"])
        assert max(map(len, full.splitlines())) <= 110, words
        titles = re.findall(r"^(\S.*):\n  -", full, re.M)
        assert len(titles) == len(set(titles)), words
        hidden = re.search(r"shows (\d+) more options", short)
        n = [sum(line.startswith("  -") for line in text.splitlines()) for text in (short, full)]
        assert n[1] == len(c["options"]) and n[1] - n[0] == (int(hidden.group(1)) if hidden else 0)
    assert succeed("ask", "--help").count("\n  -") <= 15


def test_paragraphs_of_help_are_filled_and_no_line_ends_with_a_blank(described):
    for words, c in leaves(described):
        text = succeed(*words, "--help-all")
        assert not re.search(r" $", text, re.M), words
        about = text.split("\n\n", 1)[1][:len(c["about"])].split("\n")
        for line, following in zip(about[:-1], about[1:-1]):
            if line and following and not following.startswith(" "):
                assert len(line) + 1 + len(following.split()[0]) > 100, (words, line)


def test_help_keeps_the_rules_of_the_documents():
    done = subprocess.run([ROOT / "scripts/check-docs", "--program", PROGRAM, ROOT / "README.md"], stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout


def test_names_are_unique(described):
    for words, c in leaves(described):
        names = [o["name"] for o in c["options"]]
        letters = [o["letter"] for o in c["options"] if "letter" in o]
        assert len(set(names)) == len(names) and len(set(letters)) == len(letters), words


def test_version():
    version = re.search(r'SPOLIA_VERSION "(.*)"', (ROOT / "include/spolia.h").read_text()).group(1)
    assert {succeed(word) for word in ("--version", "-V", "version")} == {f"spolia {version}\n"}


def test_policies_of_help_are_those_of_the_library(described, index):
    """Help, eval and the library's own error list the same policies in the same order."""
    said = refuse("ask", "-m", MODEL, "-i", index, "--reuse", "magic", "river", code=2)
    names = re.search(r"unknown: ([a-z0-9, ]+[a-z0-9])", said).group(1)
    options = {o["name"]: o.get("choices") for o in dict(leaves(described))[("ask",)]["options"]}
    assert names.split(", ") == [x["name"] for x in options["reuse"] if ":" not in x["name"]]
    said = refuse("ask", "-m", MODEL, "-i", index, "--evict", "magic", "river", code=2)
    for choice in options["evict"]:
        assert choice["name"] in said and len(choice["help"]) > 10
        assert f" {choice['name']} " in succeed("ask", "--help-all")
    assert names in {o["name"]: o["help"] for o in dict(leaves(described))[("eval",)]["options"]}["policies"]
    for name in names.split(", "):
        succeed("ask", "-m", MODEL, "-i", index, "--reuse", name, "-n", 1, "river")


def test_parameters_of_policies_are_in_help_and_refused_by_name(described, index):
    """What help shows as NAME:key=N is what --reuse takes, and what its errors name."""
    options = {o["name"]: o.get("choices") for o in dict(leaves(described))[("ask",)]["options"]}
    keys = {}
    for choice in options["reuse"]:
        name, _, parameter = choice["name"].partition(":")
        keys.setdefault(name, []).extend([parameter.split("=")[0]] if parameter else [])
    assert keys["craft"] == ["alpha", "focus"] and keys["random"] == ["seed"]
    for name, known in keys.items():
        refuse("ask", "-m", MODEL, "-i", index, "--reuse", f"{name}:nonsense=1", "river", naming=["nonsense=1", *known], code=2)
        for key in known:
            succeed("ask", "-m", MODEL, "-i", index, "--reuse", f"{name}:{key}=1", "-n", 1, "river")
            for value in ("x", "1e9"):
                refuse("ask", "-m", MODEL, "-i", index, "--reuse", f"{name}:{key}={value}", "river",
                       naming=[f"{name}:", f"{key}={value}", *known], code=2)


@pytest.mark.parametrize("words", [
    ["ask", "-i", "INDEX", "river"], ["chat", "hello"], ["run", "-p", "x"], ["serve"], ["precompute", "INDEX"],
    ["index", "INDEX", "-o", "OTHER", "--precompute"], ["perplexity", "-f", "TEXT"], ["logits", "-p", "x"],
    ["graph", "extract", "-i", "INDEX", "-o", "OTHER"], ["bench", "prefill"], ["bench", "decode"], ["bench", "reuse"],
    ["profile"], ["profile", "--decode", "-i", "INDEX", "--questions", "TEXT"],
    ["eval", "-q", "TEXT", "-i", "INDEX"], ["calibrate", "-i", "INDEX"]], ids=lambda words: " ".join(words[:2]))
def test_a_value_that_can_never_be_right_is_wrong_usage(tmp_path, monkeypatch, index, words):
    """Of every command that takes a model: exit code 2, and one line that names the option and what it may be."""
    places = {"INDEX": index, "OTHER": tmp_path / "other", "TEXT": ROOT / "README.md"}
    command = [places.get(w, w) for w in words] + ["-m", MODEL]
    for value in ("many", "-1", "2k", "1e3", ""):
        refuse(*command, "-c", value, naming=[f'--ctx-size: "{value}" is not a whole number from 0 to'], code=2)
    refuse(*command, "-ctk", "f17", naming=["f17", "q8_0"], code=2)
    monkeypatch.setenv("SPOLIA_ARG_BATCH_SIZE", "-5")
    refuse(*command, naming=["SPOLIA_ARG_BATCH_SIZE", "from 0"], code=2)


def test_a_wrong_name_is_wrong_usage(tmp_path, index):
    (tmp_path / "t.tsv").write_text("a\tb\tc\n")
    (tmp_path / "t.jsonl").write_text('{"id": "1", "doc_ids": ["a"]}\n')
    for words in (["graph", "import", tmp_path / "t.tsv", "-o", tmp_path / "g", "--format", "magic"],
                  ["sim", tmp_path / "t.jsonl", "--replicas", "2", "--router", "magic"],
                  ["sim", tmp_path / "t.jsonl", "--replicas", "2", "--remote", "magic"],
                  ["sim", "--generate", "magic"], ["cache", "list", "--remote", "magic://x"],
                  ["search", "-i", index, "river", "--by", "magic"], ["index", "-o", tmp_path / "new"],
                  ["logits", "-m", MODEL, "--tokens", ""],
                  ["index", ROOT / "docs", "-o", tmp_path / "i", "--embedding", tmp_path, "--vectors", "magic"]):
        refuse(*words, code=2)
    refuse("embed", "-m", tmp_path, "x", "--cpu", "magic", naming=["--cpu", "magic"], code=2)
    refuse("search", "-i", index, "--like", "1", "--similar", "magic", naming=["--similar must be bm25"], code=2)
    refuse("sim", "--generate", "zipf", "--top-k", "3000", naming=["twice --top-k"], code=2)


def test_completions_offer_the_values_that_options_list(described, tmp_path):
    subprocess.run([sys.executable, ROOT / "scripts/help-pages", "--program", PROGRAM, tmp_path], check=True)
    options = {o["name"]: o.get("choices") for o in dict(leaves(described))[("ask",)]["options"]}
    for option in ("reuse", "evict", "queue-order"):
        names = [x["name"] for x in options[option] if ":" not in x["name"]]
        asked = f'source "$1"; COMP_WORDS=(spolia ask --{option} ""); COMP_CWORD=3; _spolia; echo "${{COMPREPLY[@]}}"'
        said = subprocess.run(["bash", "-c", asked, "-", tmp_path / "spolia.bash"], capture_output=True, text=True, check=True)
        assert said.stdout.split() == names and len(names) > 3
        assert f"({' '.join(names)})" in (tmp_path / "_spolia").read_text()
        assert f"-l {option} -x -a '{' '.join(names)}'" in (tmp_path / "spolia.fish").read_text()


# -- misspelt names --------------------------------------------------------------------------------

@pytest.mark.parametrize("arguments, words", [
    (["aks"], ['"aks"', 'did you mean "ask"?']), (["evaluate-all"], ["--help"]),
    (["bench", "prefil"], ["bench", 'did you mean "prefill"?']), (["help", "serach"], ['"search"']),
    (["ask", "--ruse", "full"], ["ask", "--ruse", "did you mean --reuse?"]),
    (["bench", "prefill", "--ruonds", "2"], ["--ruonds", "did you mean --rounds?"]),
    (["ask", "--zzzzzz"], ["--zzzzzz", "--help-all"]), (["ask", "-Z"], ["-Z"]),
    (["ask", "--re", "x"], ["--re", "several"]), (["ask", "-m"], ["--model", "PATH"]),
    (["ask", "question", "--kv-memory"], ["--kv-memory", "MiB"]), (["ask", "--json=1"], ["--json", "no argument"]),
    (["cache", "weigh-all"], ["spolia cache --help"]), (["profile"], ["profile: --model"]),
    (["run", "-m", MODEL, "-p", "x", "-n", "-1"], ["--predict", "from 0 to"]),
    (["run", "-m", MODEL, "-p", "x", "-f", "/dev/null"], ["one prompt", "-p or -f"]),
    (["run", "-m", MODEL], ["one prompt", "-p or -f"]),
    (["chat", "-m", MODEL, "Hi", "--temp", "-1"], ["--temp", "from 0 to 100"]),
    (["serve", "-m", MODEL, "--top-p", "0"], ["--top-p", "above 0"]),
    (["ask", "-m", MODEL, "-i", "none.db", "--min-p", "2", "x"], ["--min-p", "from 0 to 1"]),
    (["ask", "-n", "many"], ["--predict", "many"]), (["ask"], ["--index FILE", "usage: spolia ask"])])
def test_wrong_usage(arguments, words):
    refuse(*arguments, naming=words, code=2)


def test_unique_beginnings_are_enough(index):
    assert succeed("search", "--ind", index, "--to", 1, "river") == succeed("search", "-i", index, "-k", 1, "river")


# -- the environment -------------------------------------------------------------------------------

def with_environment(**more):
    return {**os.environ, **{f"SPOLIA_ARG_{k}": v for k, v in more.items()}}


@pytest.mark.parametrize("value, on", [("1", True), ("true", True), ("Yes", True), ("on", True), ("0", False),
                                       ("false", False), ("no", False), ("OFF", False)])
def test_flags_in_the_environment(value, on, index):
    done = subprocess.run([PROGRAM, "search", "-i", index, "river"], env=with_environment(JSON=value),
                          capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("[\n") == on


@pytest.mark.parametrize("name, value, words", [
    ("JSON", "maybe", ["SPOLIA_ARG_JSON", "maybe"]), ("JSON", "", ["SPOLIA_ARG_JSON"]),
    ("TOPP", "3", ["SPOLIA_ARG_TOPP", "SPOLIA_ARG_TOP_P"]), ("MODLE", "x", ["did you mean SPOLIA_ARG_MODEL?"]),
    ("QQQQQQQQQ", "", ["SPOLIA_ARG_QQQQQQQQQ"]), ("TOP", "few", ["SPOLIA_ARG_TOP", "few"])])
def test_wrong_environment(name, value, words, index):
    done = subprocess.run([PROGRAM, "search", "-i", index, "river"], env=with_environment(**{name: value}),
                          capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith("spolia: ") and done.stderr.count("\n") == 1
    assert all(w in done.stderr for w in words), done.stderr


def test_options_of_other_commands_pass(index):
    """A variable for one command is no error in another; the command line wins."""
    env = with_environment(POLICIES="x", TOP="1", KV_MEMORY="64")
    done = subprocess.run([PROGRAM, "search", "-i", index, "river"], env=env, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == succeed("search", "-i", index, "-k", 1, "river")
    done = subprocess.run([PROGRAM, "search", "-i", index, "-k", "2", "river"], env=env, capture_output=True, text=True)
    assert done.stdout == succeed("search", "-i", index, "-k", 2, "river")


@pytest.mark.parametrize("command, name", [("ask", "model"), ("search", "index")])
def test_a_variable_that_is_not_set(command, name):
    """`-m "$MODEL"`: the message names the option, not an empty path."""
    refuse(command, f"--{name}", "", "river", naming=[f"{command}: --{name} ", " is missing"], code=2)


# -- output that cannot be written -----------------------------------------------------------------

@pytest.mark.parametrize("arguments", [
    ["--help"], ["--version"], ["ask", "--help"], ["bench", "--help"], ["--dump-help"], ["inspect", "MODEL"],
    ["inspect", "MODEL", "--json"], ["tokenize", "-m", "MODEL", "-p", "x"], ["search", "-i", "INDEX", "river"],
    ["search", "-i", "INDEX", "--json", "river"], ["run", "-m", "MODEL", "-p", "x", "-q"],
    ["run", "-m", "MODEL", "-p", "x", "--json"], ["ask", "-m", "MODEL", "-i", "INDEX", "river"],
    ["ask", "-m", "MODEL", "-i", "INDEX", "--json", "river"], ["logits", "-m", "MODEL", "--tokens", "1,2"],
    ["perplexity", "-m", "MODEL", "-f", "demo/questions.jsonl", "--json"]])
def test_a_full_disk(arguments, index):
    arguments = [{"MODEL": MODEL, "INDEX": index}.get(a, a) for a in arguments]
    with open("/dev/full", "w") as full:
        done = subprocess.run([PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert done.returncode == 1
    assert "spolia: standard output: No space left on device" in done.stderr


def test_a_reader_that_leaves(index):
    """`yes | spolia ask | head` ends, and so does a batch whose answers cannot be written."""
    ask = f"'{PROGRAM}' ask -m '{MODEL}' -i '{index}' -n 4"
    done = subprocess.run(f"yes river | {ask} 2>/dev/null | head -2", shell=True, timeout=300, capture_output=True)
    assert done.returncode == 0 and done.stdout.count(b"\n") == 2
    done = subprocess.run(f"yes river | {ask} >/dev/full", shell=True, timeout=300, capture_output=True)
    assert done.returncode == 1 and b"spolia: standard output: " in done.stderr


@pytest.mark.parametrize("closed", [">&-", "-v 2>&-"])
def test_what_is_printed_where_nobody_reads_is_in_no_file(closed, tmp_path):
    """`>&-` and `2>&-`: a file of the store does not get the number of the closed stream, nor what is printed."""
    chunks = "=".join(f"The market of town {i} is in June. " * 8 for i in range(4))
    command = [PROGRAM, "run", "-m", MODEL, "-p", chunks, "--separator", "=", "--reuse", "fusion", "-n", "2",
               "--store", tmp_path / "store"]
    shell = " ".join(f"'{a}'" for a in command) + f" {closed}"
    done = subprocess.run(shell, shell=True, executable="/bin/bash", capture_output=True, text=True, timeout=300)
    assert done.returncode == (closed == ">&-"), "what cannot be printed is an error"
    if closed == ">&-":
        assert "spolia: standard output: Bad file descriptor" in done.stderr
    files = [f for f in (tmp_path / "store").rglob("*") if f.is_file()]
    assert any(f.suffix == ".kv" for f in files)
    for f in files:
        assert b"spolia: " not in f.read_bytes() and b" per second" not in f.read_bytes(), f
    succeed("cache", "verify", "--store", tmp_path / "store")


def test_with_json_an_error_is_json_too(tmp_path):
    done = run("index", tmp_path / "none", "-o", tmp_path / "x.idx", "--json")
    assert done.returncode == 1 and done.stderr and json.loads(done.stdout)["error"]["code"] == "E_IO"
    done = run("chat", "-m", tmp_path / "none.gguf", "--json", "Hello")
    assert done.returncode == 1 and done.stderr and json.loads(done.stdout)["error"]["code"] == "E_FAILED"


def test_a_file_over_the_limit(index, tmp_path):
    out = tmp_path / "out.json"
    done = subprocess.run(f"ulimit -f 1; '{PROGRAM}' inspect '{MODEL}' --json >'{out}'", shell=True,
                          executable="/bin/bash", capture_output=True, text=True)
    assert done.returncode == 1 and "spolia: standard output: " in done.stderr


# -- installation ----------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    home = tmp_path_factory.mktemp("installed")
    build = PROGRAM.parent
    if build.name != "build":
        pytest.skip("built with sanitizers, or emulated")
    # nothing is built here: other flags than those of this build would change it
    command = ["make", "-C", ROOT, "install", f"DESTDIR={home}", "PREFIX=/opt/x", "-o", "all", f"BUILD={build}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return home / "opt/x"


def test_what_is_installed(installed, described):
    program = installed / "bin/spolia"
    assert subprocess.run([program, "--version"], capture_output=True, text=True).stdout == succeed("--version")
    man = {page.name for page in (installed / "share/man/man1").iterdir()}
    groups = {f"spolia-{c['name']}.1" for c in described if "subcommands" in c}
    assert man == {"spolia.1", *groups, *(f"spolia-{'-'.join(words)}.1" for words, _ in leaves(described))}
    assert "spolia\\-bench\\-decode" in (installed / "share/man/man1/spolia-bench.1").read_text()
    ask = (installed / "share/man/man1/spolia-ask.1").read_text()
    assert "CacheBlend" in ask and "drops the least recently used copy" in ask
    for words, c in leaves(described):
        text = (installed / f"share/man/man1/spolia-{'-'.join(words)}.1").read_text()
        for o in c["options"]:
            assert ("\\-\\-" if o["dashes"] == "--" else "\\-") + o["name"].replace("-", "\\-") in text
    for path in ("bash-completion/completions/spolia", "zsh/site-functions/_spolia",
                 "fish/vendor_completions.d/spolia.fish"):
        assert (installed / "share" / path).stat().st_size > 1000
    everything = sorted(p for p in installed.rglob("*") if not p.is_dir())
    subprocess.run(["make", "-C", ROOT, "uninstall", f"DESTDIR={installed.parent.parent}.copy", "PREFIX=/opt/x"],
                   capture_output=True, check=True)
    assert everything == sorted(p for p in installed.rglob("*") if not p.is_dir()), "another DESTDIR is left alone"


def test_a_program_over_the_installed_library(installed, tmp_path):
    """pkg-config's flags build examples/rag.c, statically and over the shared library."""
    env = {**os.environ, "PKG_CONFIG_PATH": str(installed / "lib/pkgconfig"),
           "PKG_CONFIG_SYSROOT_DIR": str(installed.parent.parent)}

    def flags(*arguments):
        return subprocess.run(["pkg-config", *arguments, "spolia"], env=env, capture_output=True, text=True,
                              check=True).stdout.split()

    assert flags("--modversion") == [succeed("--version").split()[1]]
    source = ROOT / "examples/rag.c"
    shared, static = tmp_path / "shared", tmp_path / "static"
    subprocess.run(["cc", source, "-o", shared, *flags("--cflags", "--libs"), f"-Wl,-rpath,{installed}/lib"], check=True)
    needed = subprocess.run(["pkg-config", "--libs", *flags("--print-requires-private")], capture_output=True,
                            text=True, check=True).stdout.split()
    needed += re.search("Libs.private: (.*)", (installed / "lib/pkgconfig/spolia.pc").read_text())[1].split()
    subprocess.run(["cc", source, "-o", static, *flags("--cflags"), installed / "lib/libspolia.a", *needed], check=True)
    dynamic = subprocess.run(["readelf", "-d", shared], capture_output=True, text=True).stdout
    assert "[libspolia.so.0]" in dynamic
    for program in (shared, static):
        check_example(program, tmp_path)


def check_example(program, folder):
    with open(ROOT / "demo/questions.jsonl") as f:
        questions = [json.loads(line) for line, _ in zip(f, range(4))]
    done = subprocess.run([program, MODEL, ROOT / "demo/docs", *(q["question"] for q in questions),
                           questions[0]["question"]], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answers = done.stdout.splitlines()[::2]
    assert len(answers) == 5 and answers[0] == answers[4]
    assert sum(a.strip() in q["answers"] for a, q in zip(answers, questions)) >= 3, answers
    reused = [list(map(int, re.findall(r"(\d+) of (\d+) tokens reused", line)[0])) for line in done.stdout.splitlines()[1::2]]
    assert reused[0][0] == 0 and reused[4][0] > reused[4][1] / 2, reused


def test_the_example(tmp_path):
    program = PROGRAM.parent / "examples/rag"
    if not program.exists():
        pytest.skip("make examples builds it")
    check_example(program, tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    done = subprocess.run([program, "none.gguf", ROOT / "demo/docs", "Q"], cwd=other, capture_output=True, text=True)
    assert done.returncode == 1 and "none.gguf" in done.stderr


def test_bash_completion(tmp_path):
    subprocess.run([ROOT / "scripts/help-pages", "--program", PROGRAM, tmp_path], check=True)

    def complete(*words):
        line = " ".join(f"'{w}'" for w in words)
        script = f"source {tmp_path}/spolia.bash; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _spolia; echo ${{COMPREPLY[@]}}"
        return subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=tmp_path).stdout.split()

    assert complete("spolia", "as") == ["ask"]
    assert complete("spolia", "bench", "pre") == ["prefill"]
    assert sorted(complete("spolia", "bench", "reuse", "--re")) == [
        "--recompute", "--remote", "--remote-ca", "--remote-compress", "--remote-key-file", "--remote-kv", "--remote-ttl",
        "--resident-heads", "--resume", "--reuse"]
    assert "_spolia" in complete("spolia", "ask", "-i", "")
    assert complete("spolia", "ask", "--top-k", "") == []
