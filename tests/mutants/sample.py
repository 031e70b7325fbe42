"""Makes random one-token bugs in src, and says which share of them the tests notice, by folder.

    python tests/mutants/sample.py [--n 200] [--seed 1] [--folder SUBSTRING] [--again] [--report]

A bug is another operator, constant or condition, or a call left out, in a line of src that some test reaches. Which
tests reach a line is known from one run of all of them in a build with gcov (kept in build/mutants/reach.json; --reach
makes it again). A bug is built in a copy of the tree, and the tests that reach its line run, those of its own folder
and the quickest first, until one fails or --seconds are over. A bug in equivalent.txt changes nothing that anybody
could notice, and is left out. Results are kept in build/mutants/sample.txt while the file is the same: the command can
be stopped and started again; --again retries those that survived, --report only prints.
"""
import argparse
import collections
import gzip
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HOME = ROOT / "build" / "mutants"
COPY, REACH, RESULTS = HOME / "sample", HOME / "reach.json", HOME / "sample.txt"
EQUIVALENT = pathlib.Path(__file__).parent / "equivalent.txt"
PYTHON = str(ROOT / ".venv/bin/python")
MAKE = ["make", "-s", f"CC={ROOT / 'tests/mutants/cc'}"]

# -- which test reaches which line -----------------------------------------------------------------


def command_of(test, build):
    if test.endswith(".py"):
        return [PYTHON, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"tests/{test}"]
    return [str(build / "tests" / test)]


def run_test(test, folder, build, seconds):
    """Whether it passed, and the seconds it took."""
    started = time.time()
    env = {**os.environ, "SPOLIA_BUILD": str(build), "XDG_CACHE_HOME": str(HOME / "cache")}
    process = subprocess.Popen(command_of(test, build), cwd=folder, env=env, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        passed = process.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        passed = False
    try:
        os.killpg(process.pid, 9)  # servers that a test left
    except ProcessLookupError:
        pass
    process.wait()
    return passed, time.time() - started


def lines_of(objects):
    """Lines of src that were executed since the counters were deleted: {file: [numbers]}."""
    found = collections.defaultdict(set)
    counters = [str(p) for p in objects.rglob("*.gcda")]
    for i in range(0, len(counters), 50):
        shutil.rmtree(HOME / "gcov", ignore_errors=True)
        (HOME / "gcov").mkdir()
        subprocess.run(["gcov", "--json-format", *counters[i:i + 50]], cwd=HOME / "gcov", capture_output=True)
        for report in (HOME / "gcov").glob("*.gz"):
            for file in json.loads(gzip.open(report).read())["files"]:
                name = file["file"]
                if name.startswith("src/") and name.endswith(".c"):
                    found[name] |= {line["line_number"] for line in file["lines"] if line["count"]}
    return {file: sorted(lines) for file, lines in found.items() if lines}


def find_reach(with_python):
    """Runs every test in the build with gcov. The file is written as it grows, and continued."""
    build = ROOT / "build" / "cov"
    reach = json.loads(REACH.read_text()) if REACH.exists() else {}
    tests = sorted(str(p.relative_to(build / "tests")) for p in (build / "tests").rglob("test_*")
                   if p.is_file() and not p.suffix)
    if with_python:
        tests += sorted(str(p.relative_to(ROOT / "tests")) for p in (ROOT / "tests/e2e").glob("test_*.py"))
    for test in tests:
        if test in reach:
            continue
        for counter in (build / "obj").rglob("*.gcda"):
            counter.unlink()
        passed, seconds = run_test(test, ROOT, build, 400)
        lines = lines_of(build / "obj") if passed else {}
        reach[test] = {"passed": passed, "seconds": round(seconds, 2), "lines": lines}
        REACH.write_text(json.dumps(reach))
        print(f"{test:45} {'ok' if passed else 'FAILED'} {seconds:6.1f} s, {sum(map(len, lines.values()))} lines",
              flush=True)
    return reach

# -- bugs ------------------------------------------------------------------------------------------


OPERATORS = {"<=": "<", ">=": ">", "<": "<=", ">": ">=", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+": "-",
             "-": "+", "+=": "-=", "-=": "+=", "++": "--", "--": "++", "*": "+", "/": "*", "&": "|", "|": "&"}
TOKEN = re.compile(r" (<=|>=|==|!=|&&|\|\||\+=|-=|<|>|\+|-|\*|/|&|\|) |(\+\+|--)|\b(\d+)(?![.\w])|\b(true|false)\b")
CONDITION = re.compile(r"\b(?:if|while) \(")
CALL = re.compile(r"^\s+(?:SP_TRY\()?[a-z]\w*(?:(?:->|\.)\w+)*\(.*\);\s*$")
SILENT = re.compile(r"^\s*(?:sp_log\(|SP_UNUSED\(|assert\(|return sp_fail\(|case |enum|#|static const)")


def mask(line):
    """The line with its texts and comments blanked out."""
    line = re.sub(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'', lambda m: "\x00" * len(m[0]), line)
    return re.sub(r"/\*.*?(\*/|$)|//.*", lambda m: " " * len(m[0]), line)


def closing(text, at):
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i
    return -1


def bugs_of(line):
    """Every way to change one thing of the line."""
    if SILENT.match(line):
        return
    text = mask(line)
    for m in TOKEN.finditer(text):
        group = next(i for i in (1, 2, 3, 4) if m[i] is not None)
        was = m[group]
        if group == 3:
            new = str(int(was) + 1) if was == "0" or was[0] != "0" else was  # not of modes of files
        elif group == 4:
            new = "false" if was == "true" else "true"
        else:
            new = OPERATORS[was]
        if new != was:
            yield line[:m.start(group)] + new + line[m.end(group):]
    for m in CONDITION.finditer(text):
        end = closing(text, m.end() - 1)
        if end > 0:
            yield line[:m.end()] + "!(" + line[m.end():end] + ")" + line[end:]
    if CALL.match(text) and text.count("(") == text.count(")"):
        yield re.match(r"\s*", line)[0] + ";"


def folder_of(file):
    parts = file.split("/")
    return "/".join(parts[1:-1][:2] if parts[1] in ("serve", "server") else parts[1:2])


def candidates(reach, only):
    """{folder: [(file, line number)]} of what some test reaches."""
    lines = collections.defaultdict(set)
    for test in reach.values():
        for file, numbers in test["lines"].items():
            if (ROOT / file).exists() and only in file and not re.search("/(simd|x86|arm64)/", file):
                lines[folder_of(file)] |= {(file, n) for n in numbers}
    return {folder: sorted(v) for folder, v in sorted(lines.items())}


def sample(reach, n, seed, only):
    """n bugs, the folders in turn."""
    rng = random.Random(seed)
    places = candidates(reach, only)
    texts = {}
    order = list(places)
    for v in places.values():
        rng.shuffle(v)
    made = 0
    while made < n and any(places.values()):
        for folder in order:
            while places[folder]:
                file, number = places[folder].pop()
                text = texts.setdefault(file, (ROOT / file).read_text().split("\n"))
                found = list(bugs_of(text[number - 1])) if number <= len(text) else []
                if found:
                    yield file, number, rng.choice(found)
                    made += 1
                    break
            if made == n:
                return

# -- trying ----------------------------------------------------------------------------------------


def tests_for(reach, file, number):
    """Those that reach the line: of its folder first, then the quickest."""
    near = f"/{file.split('/')[1]}/"
    found = [(near not in test, r["seconds"], test) for test, r in reach.items() if number in r["lines"].get(file, [])]
    return [test for _, _, test in sorted(found)]


def make(*targets):
    return subprocess.run([*MAKE, *targets], cwd=COPY, capture_output=True, text=True)


def try_bug(reach, bug, args):
    file, number, new = bug
    path = COPY / file
    text = path.read_text()
    lines = text.split("\n")
    lines[number - 1] = new
    path.write_text("\n".join(lines))
    try:
        obj = "build/obj/" + file[:-2] + ".o"
        made = make(obj)
        if made.returncode != 0:
            return "broken"  # the compiler notices it
        left, n_run = args.seconds, 0
        for test in tests_for(reach, file, number):
            if left <= 0:
                break
            target = "build/spolia" if test.endswith(".py") else f"build/tests/{test}"
            if make(target).returncode != 0:
                return "broken"
            passed, took = run_test(test, COPY, COPY / "build", 30 + 5 * reach[test]["seconds"])
            if not passed:
                return f"caught by {test}"
            left -= took
            n_run += 1
        return f"SURVIVED {n_run} tests"
    finally:
        path.write_text(text)


def key_of(bug):
    file, number, new = bug
    lines = (ROOT / file).read_text()
    return hashlib.sha256(repr((file, number, new, lines)).encode()).hexdigest()[:16]


def copy_tree():
    """The sources, and what is built of them: only what a bug changes is compiled."""
    skipped = {".git", ".venv", ".venv-clients", ".venv-chroma", "build", "__pycache__"}
    COPY.mkdir(parents=True, exist_ok=True)
    for old in COPY.iterdir():
        if old.name != "build":
            shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
    shutil.copytree(ROOT, COPY, ignore=lambda folder, names: skipped & set(names) if folder == str(ROOT) else set(),
                    symlinks=True, dirs_exist_ok=True)
    if not (COPY / "build").exists():
        shutil.copytree(ROOT / "build" / "obj", COPY / "build" / "obj")
    if not (COPY / ".venv").exists():
        (COPY / ".venv").symlink_to(ROOT / ".venv")


def report(results):
    by = collections.defaultdict(collections.Counter)
    for file, result in results:
        for folder in (folder_of(file), "all"):
            by[folder][result.split()[0]] += 1
    for folder, c in sorted(by.items(), key=lambda x: (x[0] == "all", x[0])):
        n = c["caught"] + c["SURVIVED"]
        share = f"{c['caught'] / n:5.0%}" if n else "    -"
        print(f"{folder:20} {c['caught']:4} of {n:4} caught {share}; {c['broken']} do not compile, "
              f"{c['equivalent']} change nothing")


def known_results():
    if not RESULTS.exists():
        return {}
    return {r["key"]: r["result"] for r in map(json.loads, RESULTS.read_text().splitlines())}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--folder", default="", help="only files whose path contains this")
    parser.add_argument("--seconds", type=float, default=60, help="of tests for one bug")
    parser.add_argument("--again", action="store_true", help="try those again that survived")
    parser.add_argument("--report", action="store_true", help="only print what is known")
    parser.add_argument("--reach", action="store_true", help="find out again which test reaches which line")
    parser.add_argument("--no-python", action="store_true", help="C programs only")
    args = parser.parse_args()
    HOME.mkdir(parents=True, exist_ok=True)
    if args.reach:
        REACH.unlink(missing_ok=True)
    reach = json.loads(REACH.read_text()) if args.report else find_reach(not args.no_python)
    reach = {test: r for test, r in reach.items() if r["passed"]}
    equivalent = set(EQUIVALENT.read_text().splitlines()) if EQUIVALENT.exists() else set()
    known = known_results()
    if not args.report:
        copy_tree()
    results = []
    for bug in sample(reach, args.n, args.seed, args.folder):
        file, number, new = bug
        key, result = key_of(bug), None
        if f"{file}: {new.strip()}" in equivalent:
            result = "equivalent"
        elif key in known and not (args.again and known[key].startswith("SURVIVED")):
            result = known[key]
        elif not args.report:
            result = try_bug(reach, bug, args)
            with RESULTS.open("a") as f:
                f.write(json.dumps({"key": key, "result": result, "bug": bug}) + "\n")
        if result:
            results.append((file, result))
            if result.startswith("SURVIVED") or not args.report:
                print(f"{result:45} {file}:{number}: {new.strip()}", flush=True)
    report(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
