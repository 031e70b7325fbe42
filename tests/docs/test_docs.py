"""The documents name only what exists, and keep the rules of scripts/check-docs."""
import fnmatch
import importlib.machinery
import importlib.util
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMING = ["README.md", "docs/architecture.md", "docs/coverage.md"]              # whose every file and sp_ name is checked
SUFFIX = r"\.(?:c|h|cu|py|md|awk|svg|gguf|jsonl|json)"
BUILT = {"build", "model.gguf", "notes.db", "q05.gguf", "SmolLM2-135M-Instruct.Q4_1.gguf"}     # made by the reader, or examples


def tree() -> set:
    """Every tracked or new file of the checkout, relative to its root."""
    done = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    names = done.stdout.splitlines() if done.returncode == 0 else \
        [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file() and ".git" not in p.parts]
    return {n for n in names if (ROOT / n).is_file()}


FILES = tree()
NAMES = {pathlib.PurePath(name).name for name in FILES}
FOLDERS = {str(parent) for name in FILES for parent in pathlib.PurePath(name).parents}
SOURCE = "\n".join((ROOT / n).read_text(encoding="utf-8", errors="replace") for n in sorted(FILES)
                   if n.startswith(("src/", "include/")) and n.endswith((".c", ".h", ".cu")))
KNOWN_NAMES = set(re.findall(r"\bsp_\w+", SOURCE))


def visible(text: str) -> str:
    """The text without HTML comments and addresses of other sites."""
    return re.sub(r"https?://\S+", "", re.sub(r"<!--.*?-->", "", text, flags=re.S))


def named_paths(text: str) -> set:
    """File and folder names in a text: with a known suffix, or below a folder of the tree, or `folder/`."""
    tops = {f.split("/")[0] for f in FILES if "/" in f} | {f.split("/")[1] for f in FILES if f.startswith("src/")}
    found = set()
    for token in re.findall(r"[\w.*-]+(?:/[\w.*-]+)*/?", visible(text)):
        first = token.split("/")[0]
        if first in BUILT or token.startswith("."):
            continue
        if re.fullmatch(rf"[\w./*-]+{SUFFIX}", token) or ("/" in token and first in tops):
            found.add(token.rstrip("."))
    return found


def path_exists(path: str) -> bool:
    """From the root, src/, docs/ or src/compute/; a bare file name anywhere; NAME in capitals is a placeholder."""
    path = re.sub(r"(?<=_)[A-Z]{3,}(?=\.)", "*", path)
    roots = ("", "src/", "docs/", "src/compute/")
    if path.endswith("/") or not re.search(SUFFIX + "$", path):
        return any(root + path.rstrip("/") in FOLDERS | FILES for root in roots)
    if any(root + path in FILES for root in roots) or "/" not in path and path in NAMES:
        return True
    patterns = [root + path for root in roots if "*" in path]  # a star matches no slash
    return any(fnmatch.fnmatchcase(name, p) for p in patterns for name in FILES if name.count("/") == p.count("/"))


def missing_names(text: str) -> set:
    """sp_ names in a text that no source file has; `sp_` alone, or with a star, is a prefix."""
    return {n for n in re.findall(r"\bsp_\w+", visible(text)) if n not in KNOWN_NAMES}


@pytest.mark.parametrize("name", NAMING)
def test_every_file_that_is_named_exists(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert len(named_paths(text)) >= 8
    assert {p for p in named_paths(text) if not path_exists(p)} == set()


@pytest.mark.parametrize("name", NAMING)
def test_every_function_that_is_named_exists(name):
    assert missing_names((ROOT / name).read_text(encoding="utf-8")) == set()


def test_missing_files_and_names_are_found():
    text = "See `kv/no_such_file.c`, `kv/plan.h`, `nowhere.c`, tests/no_such_folder/ and `sp_no_such_call`, `sp_plan`."
    assert {p for p in named_paths(text) if not path_exists(p)} == {"kv/no_such_file.c", "nowhere.c",
                                                                    "tests/no_such_folder/"}
    assert missing_names(text) == {"sp_no_such_call"}


def anchors(text: str) -> set:
    """GitHub's anchors of a document's headings."""
    return {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in re.findall(r"^#+ (.*)$", text, re.M)}


def dead_links(path: pathlib.Path, text: str) -> list:
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", visible(text)):
        name, _, anchor = target.partition("#")
        there = path if not name else (path.parent / name).resolve()
        if not there.exists() or (anchor and anchor not in anchors(there.read_text(encoding="utf-8"))):
            dead.append(target)
    return dead


def documents() -> list:
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("path", documents(), ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    assert dead_links(path, path.read_text(encoding="utf-8")) == []


def test_dead_links_are_found():
    path = ROOT / "README.md"
    assert dead_links(path, "[a](docs/no-such.md) [b](docs/architecture.md#no-such) [c](docs/architecture.md#glossary)") \
        == ["docs/no-such.md", "docs/architecture.md#no-such"]


def check_docs():
    loader = importlib.machinery.SourceFileLoader("check_docs", str(ROOT / "scripts/check-docs"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def test_documents_keep_the_rules():
    check = check_docs()
    found = [f for p in documents() for f in check.check_markdown(p.relative_to(ROOT), p.read_text(encoding="utf-8"))]
    assert found == []


@pytest.mark.parametrize("text, what", [
    ("x" * 120, "120 columns"),
    ("| a | " + "y" * 61 + " |", "cell of 61"),
    ("What stands there.", '"stands"'),
    ("This is as\ngood as new.", '"as good as"'),
    ("Copies are computed\nagain here.", '"computed again"'),
    ("- The chunk behind the head.", '"behind"'),
])
def test_breaches_are_found(text, what):
    found = check_docs().check_markdown("doc.md", text + "\n")
    assert len(found) == 1 and what in found[0]


@pytest.mark.parametrize("text", [
    "x" * 119,
    "| a | " + "y" * 60 + " |",
    "The kernels are behind an interface.",
    "A table with `a | b` in code.",
    "As code:\n\n    what stands here is not prose\n",
    "The variable `stands` is code.",
])
def test_good_text_passes(text):
    assert check_docs().check_markdown("doc.md", text + "\n") == []


def listed(path, macro):
    """The names of a list such as SP_REUSE_POLICIES(X)."""
    text = (ROOT / path).read_text(encoding="utf-8").split(f"#define {macro}(X)")[1]
    return re.findall(r"X\((\w+)\)", re.split(r"(?<!\\)\n", text)[0])


def table_of(page, section):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8").split(f"## {section}\n" if section else "\n", 1)[1]
    return re.findall(r"^\| (.*?) \|", text.split("\n## ")[0], re.M)


def test_every_policy_is_described():
    """The table of choosing-a-policy.md has the policies of the library's one list, in its order, and their parameters."""
    policies = listed("src/reuse/parts.h", "SP_REUSE_POLICIES")
    named = [re.sub(r"`(\w+)`.*", r"\1", cell) for cell in table_of("choosing-a-policy.md", "The policies") if cell[0] == "`"]
    assert [n for n in named if ":" not in n] == policies and len(policies) > 9
    declared = re.findall(r'\{"(\w+)", "\w*",\s+"', "".join(p.read_text(encoding="utf-8") for p in (ROOT / "src/reuse").rglob("*.c")))
    assert sorted(n.split(":")[1].strip("`") for n in named if ":" in n) == sorted(declared) and len(declared) > 2


def test_policies_that_documents_name_exist():
    """What follows --reuse, --evict and their like in documents, examples and scripts."""
    known = {"reuse": listed("src/reuse/parts.h", "SP_REUSE_POLICIES"), "evict": listed("src/cache/evict.h", "SP_EVICT_POLICIES")}
    assert len(known["evict"]) > 6
    known["evict"] += ["belady"]  # of the simulator
    seen = {"reuse": 0, "evict": 0}
    files = [*documents(), *(ROOT / "bench").glob("*.*"), *(ROOT / "scripts").iterdir(), *(ROOT / "examples").iterdir()]
    for path in filter(pathlib.Path.is_file, files):
        for option, name in re.findall(r"--(?:host-|store-)?(reuse|evict)[ =]`?([a-z0-9]+)", path.read_text(encoding="utf-8")):
            assert name in known[option], f"{path}: --{option} {name}"
            seen[option] += 1
    assert seen["reuse"] > 20 and seen["evict"] > 3


def test_every_reason_of_a_miss_is_described():
    """`missed` of documents.md and of json.md is what the library can say."""
    names = (ROOT / "src/serve/request/account.c").read_text(encoding="utf-8").split("miss_name(", 1)[1].split("};")[0]
    reasons = re.findall(r'\] = "(.*?)"', names)
    assert len(reasons) > 10 and reasons[0] == ""
    table = [cell.strip("`") for cell in table_of("documents.md", "Explanations")]
    assert set(reasons[1:]) <= set(table)
    listed_there = re.search(r'"missed": \{"enum": \[(.*?)\]', (ROOT / "docs/json.md").read_text(encoding="utf-8"), re.S)[1]
    assert sorted(re.findall(r'"(.*?)"', listed_there)) == sorted(reasons)


def test_every_route_is_described():
    """The tables of paths in server.md and documents.md have the paths that the server has, and no other."""
    text = (ROOT / "src/server/routes.c").read_text(encoding="utf-8").split("const srv_route srv_routes[]")[1]
    routes = {(method, path) for method, path in re.findall(r'\{"([A-Z]+)", "(/[^"]*)"', text)}
    assert len(routes) > 30
    described = set()
    for page, section in (("server.md", "Paths"), ("documents.md", None)):
        for cell in table_of(page, section):
            methods = "GET"
            for method, path in re.findall(r"`(?:([A-Z]+) )?(/[^`?]*)", cell):
                methods = method or methods
                described.add((methods, re.sub(r"(?<=/)(ID|NAME|FILE)(/.*)?$", "", path)))
    below = {p for _, p in routes if p.endswith("/")}
    unknown = {(m, p) for m, p in described if (m, p) not in routes}
    assert not unknown, f"described, but no route: {unknown}"
    missing = {(m, p) for m, p in routes if (m, p) not in described}
    assert not missing, f"not described in server.md or documents.md: {missing}"
    assert "/v1/documents/" in below


def test_the_header_of_loading_names_its_files():
    """Every file that the calls from sp_request_load pass is in the list of load.h, by name or by a folder of it."""
    said = (ROOT / "src/serve/request/load.h").read_text(encoding="utf-8").split("*/")[0]
    loader = importlib.machinery.SourceFileLoader("road", str(ROOT / "scripts/road"))
    road = importlib.util.module_from_spec(importlib.util.spec_from_loader("road", loader))
    loader.exec_module(road)
    passed, _ = road.road("sp_request_load")
    folders = ("cache/", "engine/offload/", "store/aio/")
    assert all(f in said for f in folders) and len(passed) > 20
    others = [f for f in passed if not f.startswith(folders) and f not in ("store/files.c", "store/files.h")]  # of offload
    assert [f for f in others if f not in said] == [] and len(others) <= 12
    assert [f for f in re.findall(r"\b(?:serve|store)/[\w/]+\.[ch]\b", said) if not (ROOT / "src" / f).is_file()] == []
    assert {"store/host/tier.c", "store/disk/read.c"} <= set(re.findall(r"store/\w+/\w+\.c", said))  # through a table


def test_the_page_of_the_c_library_is_current():
    done = subprocess.run(["python3", "scripts/api-page", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    named = set(re.findall(r"\b(sp_\w+)\(", (ROOT / "docs" / "c-library.md").read_text()))
    for header in (ROOT / "include").glob("*.h"):
        declared = re.findall(r"^SP_API [^;]*?\b(sp_\w+)\(", header.read_text(), re.M)
        assert set(declared) <= named, f"{header.name}: {sorted(set(declared) - named)}"


@pytest.mark.parametrize("path", [p for p in documents() if p.name not in ("coverage.md", "CHANGELOG.md")],
                         ids=lambda p: str(p.relative_to(ROOT)))
def test_rows_of_the_papers_are_named_in_coverage_alone(path):
    assert re.findall(r"\brows? [A-Z]\d+", path.read_text(encoding="utf-8")) == []


def test_rows_of_the_papers_are_not_named_in_the_source():
    assert re.findall(r".*\(rows?[ \n*]+[A-Z]\d.*", SOURCE) == []


def test_every_listed_bug_applies_to_the_source():
    done = subprocess.run(["python3", "tests/mutants/run.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
