"""`spolia pull` and -m hf:ORG/REPO against a small hub; and what -m says of what is no model."""
import fcntl
import json
import os
import subprocess
import time

import gguf
import pytest
from conftest import PROGRAM, ROOT, refuse, succeed
from hub import Hub
from test_json import valid

MODEL = (ROOT / "demo/model.gguf").read_bytes()


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """The demo's model in files of 25 tensors, as the `gguf` package writes them: {name: bytes}."""
    folder = tmp_path_factory.mktemp("parts")
    model = gguf.GGUFReader(ROOT / "demo/model.gguf")
    writer = gguf.GGUFWriter(folder / "big-Q8_0.gguf", "llama", split_max_tensors=25)
    for key, field in model.fields.items():
        if not key.startswith(("GGUF.", "general.architecture")):
            writer.add_key_value(key, field.contents(), field.types[0], field.types[-1])
    for t in model.tensors:
        writer.add_tensor(t.name, t.data, raw_dtype=t.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}


@pytest.fixture
def hub(make_model, parts):
    folder = make_model("tiny-llama", "f16", folder=True)
    h = Hub({"org/demo-GGUF": {"README.md": b"# demo", "demo-Q8_0.gguf": MODEL, "demo-Q4_K.gguf": b"small",
                               "mmproj-demo-f16.gguf": b"eyes"},
             "org/one": {"only.gguf": MODEL},
             "org/types": {f"x-{t}.gguf": b"small" for t in ("F16", "Q4_0", "Q4_K_M", "Q8_0")},
             "org/others": {"x-Q3_K_S.gguf": b"small", "x-Q2_K.gguf": b"small"},
             "org/folder": {p.name: p.read_bytes() for p in folder.iterdir()} | {
                 "empty.json": b"", "pytorch_model.bin": b"old" * 100_000, "consolidated.safetensors": b"old", "onnx/config.json": b"{}", "chat_template.jinja": b"x"},
             "org/names": {"gr\u00f6\u00dfe 2.gguf": MODEL},
             "org/nothing": {"README.md": b"text"},
             "org/split": parts | {"big-Q4_0.gguf": MODEL},
             "org/lacks": dict(list(parts.items())[:-1]),
             "org/hostile": {"../../../outside-Q8_0.gguf": MODEL, "/tmp/outside-Q8_0.gguf": MODEL, "a/../b-Q8_0.gguf": MODEL}})
    yield h
    h.stop()


@pytest.fixture
def user(hub, tmp_path, monkeypatch):
    """The user's cache, which is empty."""
    monkeypatch.setenv("HF_ENDPOINT", hub.url + "/")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "spolia/models"


def downloads(hub):
    return [path for server, path, _, _ in hub.seen if server == "bytes"]


# -- what is downloaded ----------------------------------------------------------------------------

def test_a_type_is_downloaded_once_and_answers(hub, user):
    path = succeed("pull", "org/demo-GGUF:Q8_0").strip()
    assert path == str(user / "org/demo-GGUF/c0ffee000000/demo-Q8_0.gguf")
    assert open(path, "rb").read() == MODEL and downloads(hub) == ["/org/demo-GGUF/demo-Q8_0.gguf"]
    hub.seen.clear()
    assert succeed("pull", "hf:org/demo-GGUF:q8_0").strip() == path  # asks the hub, downloads nothing
    assert downloads(hub) == [] and hub.seen
    hub.stop()  # -m needs no hub for what is there
    assert json.loads(succeed("run", "-m", "hf:org/demo-GGUF:Q8_0", "-p", "Boats", "-n", "2", "--json"))["usage"]["prompt_tokens"]
    assert "llama" in succeed("inspect", "hf:org/demo-GGUF:Q8_0")
    assert not list(user.rglob("*.part"))


def test_a_model_is_downloaded_when_it_is_named(hub, user):
    assert json.loads(succeed("run", "-m", "hf:org/one", "-p", "Boats", "-n", "2", "--json"))["usage"]["prompt_tokens"]
    assert downloads(hub) == ["/org/one/only.gguf"]


def test_each_model_that_is_compared_is_downloaded(hub, user, tmp_path):
    out = tmp_path / "speed.csv"
    succeed("bench", "prefill", "-m", "hf:org/one", "-m", "hf:org/demo-GGUF:Q8_0", "--sizes", "5", "--rounds", "1",
            "--csv", out)
    assert all(name in out.read_text() for name in ("only.gguf", "demo-Q8_0.gguf"))


def test_one_of_several_types_is_chosen_or_asked_for(hub, user):
    assert succeed("pull", "org/types").endswith("/x-Q4_K_M.gguf\n")
    refuse("pull", "-q", "org/types:Q4_K", naming=["no file of type Q4_K"])  # another one than Q4_K_M
    refuse("pull", "-q", "org/others", naming=["choose one of its types", "x-Q3_K_S.gguf", "x-Q2_K.gguf"])


def test_folders_of_safetensors(hub, user):
    said = subprocess.run([PROGRAM, "pull", "org/folder"], capture_output=True, text=True)
    path = said.stdout.strip()
    n_bytes = sum(p.stat().st_size for p in os.scandir(path))
    assert said.stderr.startswith(f"spolia: org/folder from {hub.url}: {n_bytes / 1024:.0f} KiB\n"), said.stderr
    assert {p.rsplit("/", 1)[1] for p in downloads(hub)} | {"empty.json"} == {p.name for p in os.scandir(path)}
    assert {"config.json", "chat_template.jinja"} <= set(os.listdir(path))
    assert not {"pytorch_model.bin", "consolidated.safetensors", "onnx"} & set(os.listdir(path))
    succeed("logits", "-m", "hf:org/folder", "--tokens", "1,2,3", "--json")


def test_models_in_several_files(hub, user):
    parts = sorted(p for p in hub.repos["org/split"] if "-of-" in p)
    assert len(parts) > 2
    path = succeed("pull", "org/split:Q8_0").strip()
    assert path == str(user / "org/split/c0ffee000000" / parts[0])
    assert sorted(p.rsplit("/", 1)[1] for p in downloads(hub)) == parts
    whole = succeed("logits", "-m", ROOT / "demo/model.gguf", "--tokens", "1,2,3", "--json")
    assert succeed("logits", "-m", "hf:org/split:Q8_0", "--tokens", "1,2,3", "--json") == whole
    tensors = json.loads(succeed("inspect", path, "--json"))["tensors"]
    assert {t["file"] for t in tensors} == set(parts)
    refuse("run", "-m", path.replace("00001-of", "00002-of"), "-p", "x", naming=["file 2 of a model", "name the first"])
    os.unlink(path.replace("00001-of", "00003-of"))
    refuse("run", "-m", path, "-p", "x", naming=["-00003-of-", "No such file"])


def test_a_new_revision_downloads_what_changed(hub, user):
    old = succeed("pull", "org/folder").strip()
    hub.seen.clear()
    hub.commit = "beef" + 36 * "0"
    hub.repos["org/folder"]["generation_config.json"] = b"{}"
    begun = user / "org/folder" / hub.commit[:12]  # a pull that ended before it entered what it has
    begun.mkdir()
    os.link(f"{old}/config.json", begun / "config.json")
    new = succeed("pull", "org/folder").strip()
    assert new != old and downloads(hub) == ["/org/folder/generation_config.json"]
    assert set(os.listdir(old)) | {"generation_config.json"} == set(os.listdir(new))


@pytest.mark.parametrize("damage,said", [
    (lambda text: text[:40], "line"), (lambda text: text.replace('"version": 1', '"version": 2'), "another version"),
    (lambda text: json.dumps({**json.loads(text), "names": []}), "damaged"), (lambda text: None, "directory")])
def test_a_damaged_list_of_models_stays_as_it_is(hub, user, damage, said):
    path = succeed("pull", "org/one").strip()
    listed = user / "org/one/pulled.json"
    changed = damage(listed.read_text())
    listed.unlink()
    if changed is None:
        listed.mkdir()
    else:
        listed.write_text(changed)
    for command in (("pull", "org/one"), ("inspect", "hf:org/one")):
        refuse(*command, naming=[str(listed), said])
    assert os.path.exists(path) and (changed is None or listed.read_text() == changed)
    listed.rmdir() if changed is None else listed.unlink()
    hub.seen.clear()
    assert succeed("pull", "org/one").strip() == path and sorted(p.name for p in listed.parent.iterdir()) == ["c0ffee000000", "pulled.json"]


def test_two_pulls_at_once_both_enter_what_they_have(hub, user):
    hub.meanwhile = lambda: succeed("pull", "-q", "org/demo-GGUF:Q4_K")
    path = succeed("pull", "org/demo-GGUF:Q8_0").strip()
    listed = json.loads((user / "org/demo-GGUF/pulled.json").read_text())
    assert listed["names"] == {t: f"c0ffee000000/demo-{t}.gguf" for t in ("Q4_K", "Q8_0")} and len(listed["files"]) == 2
    assert path.endswith(listed["names"]["Q8_0"])


def test_a_pull_waits_while_another_enters_what_it_has(hub, user):
    folder = user / "org/one"
    folder.mkdir(parents=True)
    lock = os.open(folder, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    pull = subprocess.Popen([PROGRAM, "pull", "-q", "org/one"], stdout=subprocess.PIPE)
    try:
        while not (folder / "c0ffee000000/only.gguf").exists():
            time.sleep(0.01)
        time.sleep(0.3)
        assert pull.poll() is None and not (folder / "pulled.json").exists()
        (folder / "pulled.json").write_text('{"version": 1, "names": {"Q4_0": "x"}, "files": {}}')
    finally:
        os.close(lock)
    assert pull.wait(60) == 0
    assert json.loads((folder / "pulled.json").read_text())["names"] == {"": "c0ffee000000/only.gguf", "Q4_0": "x"}


def test_json(hub, user):
    assert valid("pull", json.loads(succeed("pull", "--json", "org/one"))) == {
        "model": "org/one", "type": "", "path": str(user / "org/one/c0ffee000000/only.gguf")}


# -- what goes wrong on the way --------------------------------------------------------------------

def test_a_download_that_breaks_off_continues(hub, user):
    hub.cut = [100_000, 200_000, 0]
    path = succeed("pull", "org/one").strip()
    assert open(path, "rb").read() == MODEL
    ranges = [r for server, _, _, r in hub.seen if server == "bytes"]
    assert ranges == [None, "bytes=100000-", "bytes=300000-", "bytes=300000-"]
    assert os.stat(path).st_mode & 0o777 == 0o644
    open(path, "wb").write(b"cut short by somebody")
    hub.cut = 7 * [1000]  # as long as each brings something
    assert open(succeed("pull", "org/one").strip(), "rb").read() == MODEL


def test_the_next_command_continues(hub, user):
    hub.cut = [500_000] + 5 * [0]
    said = refuse("pull", "-q", "org/one", naming=["only.gguf", "the same command resumes"])
    assert "488 KiB of 1.1 MiB" in said
    (part,) = user.rglob("*.part")
    assert part.read_bytes() == MODEL[:500_000]
    assert refuse("pull", "-q", "org/nothing") and part.exists()
    path = succeed("pull", "org/one").strip()
    assert open(path, "rb").read() == MODEL and hub.seen[-1][3] == "bytes=500000-"


def test_a_hub_without_ranges_starts_over(hub, user):
    hub.cut, hub.ranges = [100_000], False
    assert open(succeed("pull", "org/one").strip(), "rb").read() == MODEL


def test_a_part_that_is_too_long_or_wrong(hub, user):
    folder = user / "org/one/c0ffee000000"
    folder.mkdir(parents=True)
    (folder / "only.gguf.part").write_bytes(MODEL + b"more")
    assert open(succeed("pull", "org/one").strip(), "rb").read() == MODEL
    (folder / "only.gguf").unlink()
    (folder / "only.gguf.part").write_bytes(b"x" * 1000)
    hub.statuses = [416]  # the file is shorter there
    assert open(succeed("pull", "org/one").strip(), "rb").read() == MODEL
    (folder / "only.gguf").unlink()
    (folder / "only.gguf.part").write_bytes(b"x" * 1000)
    refuse("pull", "-q", "org/one", naming=["only.gguf", "SHA-256", "deleted"])
    assert list(folder.iterdir()) == []
    assert open(succeed("pull", "org/one").strip(), "rb").read() == MODEL


def test_a_busy_hub_is_asked_again(hub, user):
    hub.statuses = [503, 418]
    refuse("pull", "-q", "org/one", naming=["status 418: try later"])
    hub.statuses = [503, 429]
    assert open(succeed("pull", "org/one").strip(), "rb").read() == MODEL


def test_other_bytes_are_refused(hub, user):
    hub.lie["only.gguf"] = MODEL[:-1] + bytes([MODEL[-1] ^ 1])
    refuse("pull", "-q", "org/one", naming=["SHA-256", "deleted"])
    hub.lie["only.gguf"] = MODEL + 9_000_000 * b"?"
    refuse("pull", "-q", "org/one", naming=["more than"])
    hub.lie = {"config.json": b"{}" + hub.repos["org/folder"]["config.json"][2:]}
    for lfs in ({}, {"lfs": None}):  # both say that it is not kept apart
        hub.listed["config.json"] = lfs
        refuse("pull", "-q", "org/folder", naming=["config.json", "Git id"])
    assert not list(user.rglob("*.gguf")) and not list(user.rglob("config.json"))


def test_a_hub_that_says_less(hub, user):
    hub.listed["only.gguf"] = {"lfs": {"size": len(MODEL)}, "blobId": 40 * "0"}  # no hash; the id is that of a pointer
    assert open(succeed("pull", "org/one").strip(), "rb").read() == MODEL
    hub.answer = b"{}"
    refuse("pull", "-q", "org/types", naming=["field sha is missing"])
    hub.answer = json.dumps({"sha": hub.commit}).encode()
    refuse("pull", "-q", "org/types", naming=["field siblings is missing"])


def test_names_of_any_letters(hub, user):
    assert open(succeed("pull", "org/names").strip(), "rb").read() == MODEL
    assert downloads(hub) == ["/org/names/gr%C3%B6%C3%9Fe%202.gguf"]


def test_two_at_a_time(hub, user):
    hub.cut, hub.statuses = [1000], [None] + 50 * [503]
    first = subprocess.Popen([PROGRAM, "pull", "-q", "org/one"], stdout=subprocess.PIPE)
    while not list(user.rglob("*.part")):
        time.sleep(0.01)
    refuse("pull", "-q", "org/one", naming=["another process"])
    hub.statuses = []
    assert first.wait(300) == 0


def test_an_interrupted_download_is_kept(hub, user):
    hub.cut, hub.statuses = [500_000], [None] + 50 * [503]
    first = subprocess.Popen([PROGRAM, "pull", "-q", "org/one"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while len(downloads(hub)) < 2:
        time.sleep(0.01)
    first.send_signal(2)
    said = first.communicate(timeout=300)[1]
    assert first.returncode == 1 and "interrupted at" in said and "resumes there" in said
    hub.statuses = []
    succeed("pull", "org/one")


# -- who may, and what there is --------------------------------------------------------------------

def test_tokens_go_to_the_hub_alone(hub, user, monkeypatch):
    hub.token = "secret"
    refuse("pull", "-q", "org/one", naming=["401", "set HF_TOKEN to a token", "gated"])
    monkeypatch.setenv("HF_TOKEN", "wrong")
    refuse("pull", "-q", "org/one", naming=["401", "as the user of HF_TOKEN"])
    monkeypatch.setenv("HF_TOKEN", "secret")
    hub.seen.clear()
    succeed("pull", "org/one")
    assert {(server, said) for server, _, said, _ in hub.seen} == {("api", "Bearer secret"), ("bytes", None)}
    hub.refusal = 403  # as to a user who has not accepted the terms
    refuse("pull", "-q", "org/types", naming=["status 403", "accept its terms"])


@pytest.mark.parametrize("name, naming", [
    ("org/missing", ["org/missing", "404"]), ("org/nothing", ["neither", "GGUF"]),
    ("org/demo-GGUF:Q3_K", ["Q3_K", "demo-Q8_0.gguf", "demo-Q4_K.gguf"]), ("org/folder:Q8_0", ["no GGUF", ":Q8_0"]),
    ("org/lacks", ["the hub lacks some"]), ("org/hostile", ["neither"])])
def test_what_the_hub_has_not(hub, user, name, naming):
    said = refuse("pull", "-q", name, naming=naming)
    assert "mmproj" not in said and "//org" not in said and not user.exists()
    refuse("run", "-m", "hf:" + name, "-p", "x", naming=naming)


@pytest.mark.parametrize("name", ["one", "org/one/two", "../one", "org/..", "/etc/passwd", "org/one:", "org/o ne", "org/"])
def test_names_that_are_none(user, name):
    refuse("pull", name, naming=["ORG/REPO"], code=2)


def test_a_hub_that_is_none(hub, user, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    refuse("pull", "-q", "org/one", naming=["http://127.0.0.1:1"])
    monkeypatch.setenv("HF_ENDPOINT", "ftp://x")
    refuse("pull", "-q", "org/one", naming=["HF_ENDPOINT"])
    monkeypatch.setenv("HF_ENDPOINT", "")  # as if it were not there
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    refuse("pull", "-q", "org/one", naming=["https://huggingface.co: ", "127.0.0.1"])


# -- what -m takes ---------------------------------------------------------------------------------

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + 64 * "a" + "\nsize 7\n"


def test_pointers_of_git_lfs(tmp_path):
    (tmp_path / "m.gguf").write_text(POINTER)
    refuse("run", "-m", tmp_path / "m.gguf", "-p", "x", naming=["m.gguf", "Git LFS", "git lfs pull", "spolia pull"])
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_text(POINTER)
    refuse("run", "-m", folder, "-p", "x", naming=["model.safetensors", "Git LFS"])


def test_files_that_are_cut_short(tmp_path, make_model):
    for n in (40, 100_000, len(MODEL) - 1):
        (tmp_path / "m.gguf").write_bytes(MODEL[:n])
        refuse("run", "-m", tmp_path / "m.gguf", "-p", "x", naming=["m.gguf", "cut short"])


@pytest.mark.parametrize("given, naming", [
    ("https://huggingface.co/org/name", ["not a URL", "hf:org/name"]),
    ("https://huggingface.co/org/name/blob/main/x.gguf", ["not a URL", "hf:org/name"]),
    ("https://huggingface.co/org/name?not-for-all", ["not a URL", "try -m hf:org/name"]),
    ("http://host", ["not a URL", "hf:ORG/REPO"]), ("org/name", ["no such file", "-m hf:org/name"]),
    ("missing.gguf", ["missing.gguf", "no such file", "spolia pull"]), ("hf:name", ["hf:ORG/REPO"]),
    ("hf:", ["hf:ORG/REPO"])])
def test_what_is_no_model(given, naming):
    refuse("run", "-m", given, "-p", "x", naming=naming)


def test_errors_are_json_where_it_is_asked_for(hub, user):
    for command in (["pull", "org/missing"], ["run", "-m", "hf:org/missing", "-p", "x"]):
        said = json.loads(refuse_json(*command, "--json"))["error"]["message"]
        assert "404" in said


def refuse_json(*command):
    done = subprocess.run([PROGRAM, *command], capture_output=True, text=True)
    assert done.returncode == 1
    return done.stdout


def test_a_folder_of_gguf_files(tmp_path):
    for name in ("z-00002-of-00002.gguf", "z.gguf", "y-00002-of-00002.gguf", "x.gguf", "mmproj-x.gguf", "x-00002-of-00002.gguf"):
        (tmp_path / name).write_bytes(MODEL)  # the first by name that is a model
    refuse("run", "-m", tmp_path, "-p", "x", naming=[f"-m {tmp_path}/x.gguf"])
    (tmp_path / "config.json").write_text("{}")
    refuse("run", "-m", tmp_path, "-p", "x", naming=["config.json: "])  # a model in its own right
    refuse("run", "-m", tmp_path / "x.gguf/y", "-p", "x", naming=["no such file", "spolia pull"])
