"""The config file: which one is read, what wins, what is refused, and what `spolia config` and --help say of it."""
import json
import os
import subprocess

import pytest
from conftest import PROGRAM, ROOT, refuse, succeed
from test_json import valid

MODEL = ROOT / "demo/model.gguf"


@pytest.fixture(autouse=True)
def nothing_else_is_set(monkeypatch):
    monkeypatch.delenv("SPOLIA_ARG_NO_STORE")


@pytest.fixture
def config(tmp_path):
    """config(text) -> path of a file with this text."""
    def write(text):
        path = tmp_path / "config"
        path.write_text(text)
        return path
    return write


def settings(*arguments, **env):
    """{option: setting} of `spolia config`."""
    done = subprocess.run([PROGRAM, "config", "--json", *map(str, arguments)], env={**os.environ, **env},
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {s["option"]: s for s in valid("config", json.loads(done.stdout))["settings"]}


# -- what wins -------------------------------------------------------------------------------------

def test_line_over_environment_over_section_over_all(config):
    path = config("[spolia]\npredict = 1\ntop-k = 1\ntemp = 0.5\nseed = 1\n[run]\npredict = 2\ntop-k = 2\nseed = 2\n")
    said = settings("run", "--config", path, SPOLIA_ARG_PREDICT="3")
    assert (said["predict"]["value"], said["predict"]["from"]) == ("3", "environment")
    assert said["predict"]["variable"] == "SPOLIA_ARG_PREDICT"
    assert (said["top-k"]["value"], said["top-k"]["section"], said["top-k"]["line"]) == ("2", "run", 8)
    assert (said["temp"]["value"], said["temp"]["section"], said["temp"]["line"]) == ("0.5", "spolia", 4)
    assert (said["top-p"]["value"], said["top-p"]["from"], said["top-p"]["default"]) == (None, "default", "1")
    assert settings("ask", "--config", path)["predict"]["value"] == "1"


def listed(*arguments, **env):
    """What is set, of all commands: (option, value, line)."""
    others = {k: v for k, v in os.environ.items() if not k.startswith("SPOLIA_ARG_")}
    done = subprocess.run([PROGRAM, "config", "--json", *map(str, arguments)], env={**others, **env},
                          capture_output=True, text=True)
    return [(s["option"], s["value"], s.get("line")) for s in json.loads(done.stdout)["settings"]]


def test_a_setting_of_several_commands_is_listed_once(config):
    path = config("[spolia]\nsystem = here\n[run]\npredict = 2\n[ask]\npredict = 3\n")
    assert sorted(listed("--config", path)) == [("predict", "2", 4), ("predict", "3", 6), ("system", "here", 2)]
    path = config("")
    assert listed("--config", path, SPOLIA_ARG_SYSTEM="a", SPOLIA_ARG_PREDICT="1") == [("system", "a", None), ("predict", "1", None)]
    assert listed("--config", path, SPOLIA_ARG_SYSTEM="\udcff.") == [("system", "\ufffd.", None)]  # not UTF-8
    long = "x" * 2000
    assert f" {long} SPOLIA_ARG_SYSTEM\n" in subprocess.run([PROGRAM, "config", "--config", path], capture_output=True, text=True,
                                                          env={**os.environ, "SPOLIA_ARG_SYSTEM": long}).stdout


def test_the_file_reaches_the_command(config):
    words = ["run", "-p", "The harbour", "-q"]
    path = config(f"[spolia]\nmodel = {MODEL}\n[run]\npredict = 3\n[ask]\npredict = 9\n")
    assert succeed(*words, "--config", path) == succeed(*words, "-m", MODEL, "-n", 3)
    assert succeed(*words, f"--config={path}", "-n", 5) == succeed(*words, "-m", MODEL, "-n", 5)
    env = {**os.environ, "SPOLIA_CONFIG": str(path), "SPOLIA_ARG_PREDICT": "4"}
    done = subprocess.run([PROGRAM, *words], env=env, capture_output=True, text=True)
    assert done.stdout == succeed(*words, "-m", MODEL, "-n", 4)


def test_flags_and_lists(config):
    index = config("").parent / "demo.db"
    succeed("index", ROOT / "demo/docs", "-o", index)
    path = config(f"[search]\nindex = {index}\njson = yes\ntop = 2\n")
    assert len(json.loads(succeed("search", "river", "--config", path))) == 2
    path = config("[spolia]\nstop = all\n[run]\nstop = one\nstop = two ; a comment\n  more\n# a comment\n")
    assert settings("run", "--config", path)["stop"]["value"] == ["one", "two\nmore"]
    assert settings("run", "--config", path, SPOLIA_ARG_STOP="x")["stop"]["value"] == ["x"]
    assert settings("ask", "--config", path)["stop"]["value"] == ["all"]


# -- which file ------------------------------------------------------------------------------------

def test_places(tmp_path):
    def found(*arguments, **env):
        clean = {k: v for k, v in os.environ.items() if k not in ("SPOLIA_CONFIG", "XDG_CONFIG_HOME")}
        done = subprocess.run([PROGRAM, "config", "--json", *map(str, arguments)], env={**clean, **env},
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        return told["exists"], told["settings"][0]["value"] if told["settings"] else None

    for name in ("home/.config", "xdg"):
        (tmp_path / name / "spolia").mkdir(parents=True)
        (tmp_path / name / "spolia/config").write_text(f"[spolia]\nmodel = {name}\n")
    for name in ("variable", "option"):
        (tmp_path / name).write_text(f"[spolia]\nmodel = ~/{name}\n")
    env = {"HOME": str(tmp_path / "home")}
    assert found(**env) == (True, "home/.config")
    env["XDG_CONFIG_HOME"] = str(tmp_path / "xdg")
    assert found(**env) == (True, "xdg")
    env["SPOLIA_CONFIG"] = str(tmp_path / "variable")
    assert found(**env) == (True, str(tmp_path / "home/variable"))
    assert found("--config", tmp_path / "option", **env) == (True, str(tmp_path / "home/option"))
    assert found(HOME=str(tmp_path / "nowhere")) == (False, None)
    assert found(**{**env, "SPOLIA_CONFIG": ""}) == (False, None)


# -- what is refused -------------------------------------------------------------------------------

@pytest.mark.parametrize("text, words", [
    ("[spolia]\nmodle = x\n", [":2: ", "modle", "any command", "did you mean model?"]),
    ("[spolia]\n\n[serve]\nprot = 1\n", [":4: ", "prot", "serve", "did you mean port?"]),
    ("[serve]\nfile = x\n", [":2: ", "file is not an option of serve"]),
    ("[sevre]\nport = 1\n", [":2: ", "[sevre]", "did you mean [serve]?"]),
    ("[zzzzzzzz]\nport = 1\n", [":2: ", "[zzzzzzzz]", "[spolia]"]),
    ("port = 1\n", [":1: ", "port is not in a section"]),
    ("[serve]\nport = x\n", [":2: port: ", '"x" is not a whole number from 0 to 65535']),
    ("[run]\njson = maybe\n", [":2: json: ", "maybe"]),
    ("[serve]\nport = 1\nport = 2\n", [":3: port is already set in line 2"]),
    ("[serve]\nport = 1\n  host = 2\n", [":3: ", "indented"]),
    ("[serve]\n= 1\n", [":2: ", "name of an option is missing"]),
    ("[serve]\nport\n", [":2: ", "option = value"]), ("[serve\n", [":1: ", "[command]"]),
    ("[serve]\n\0port = 1\n", [":2: ", "NUL"]), ("[serve]\nalias = " + "x" * 300 + "\n", [":2: ", "too long"])])
def test_refusals(text, words, config):
    path = config(text)
    refuse("config", "--config", path, naming=[path, *words], code=2)


def test_a_bad_value_of_another_command_passes(config):
    path = config("[serve]\nport = x\n")
    assert succeed("tokenize", "-m", MODEL, "-p", "x", "--config", path)
    refuse("serve", "-m", MODEL, "--config", path, naming=[f"{path}:2: port"], code=2)


def test_wrong_usage(config, tmp_path):
    path = config("")
    refuse("config", "--config", tmp_path / "none", naming=["none", "No such file"], code=2)
    refuse("config", "--config", tmp_path, naming=[f"{tmp_path}: cannot be read: Is a directory"], code=2)
    refuse("config", "--config", "/dev/zero", naming=["/dev/zero:1"], code=2)
    refuse("config", "--config", PROGRAM, naming=[PROGRAM], code=2)
    refuse("config", "--config", naming=["--config", "FILE"], code=2)
    refuse("config", "--conf", path, naming=["--config", "in full"], code=2)
    refuse("config", "magic", naming=["magic", "--help"], code=2)
    refuse("config", "sreve", naming=['did you mean "serve"?'], code=2)
    refuse("config", "graph imprt", naming=['did you mean "graph import"?'], code=2)


# -- what is said ----------------------------------------------------------------------------------

def test_help_says_where_a_value_is_from(config):
    path = config("[serve]\nport = 8099\n")
    env = {**os.environ, "SPOLIA_ARG_HOST": "::1"}
    text = subprocess.run([PROGRAM, "serve", "--help", "--config", path], env=env, capture_output=True, text=True).stdout
    text = " ".join(text.split())
    assert f"[now 8099, from {path}:2]" in text and "[now ::1, from SPOLIA_ARG_HOST]" in text
    assert "[now" not in succeed("serve", "--help")


def test_text_for_people(config):
    path = config("[spolia]\nmodel = a\x1bb\n[bench reuse]\nrecompute = 0.2\n")
    text = succeed("config", "--config", path)
    assert text.startswith(f"config file: {path}\n") and "\x1b" not in text
    assert [line.split()[:2] for line in text.splitlines()[1:]] == [["model", "a\ufffdb"], ["recompute", "0.2"]]
    assert "  top-p              (1) " in succeed("config", "run", "--config", path)
    assert "[bench reuse], line 4" in text and "[spolia], line 2" in text
    assert "nothing is set" in succeed("config")


def test_the_example_of_the_documentation(config):
    page = (ROOT / "docs/configuration.md").read_text()
    block = page[page.index("    # for every command"):page.index("- A key is")]
    path = config("\n".join(line[4:] for line in block.splitlines()))
    said = settings("serve", "--config", path)
    assert (said["port"]["value"], said["reuse"]["value"]) == ("8081", "fusion")
    assert settings("bench", "reuse", "--config", path)["recompute"]["value"] == "0.2"
