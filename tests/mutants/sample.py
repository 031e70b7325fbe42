"""Makes random one-token bugs in src, and says which share of them the tests notice, by folder.

    python tests/mutants/sample.py [--n 200] [--seed 1] [--folder SUBSTRING] [--jobs 2] [--again] [--report]

A bug is another operator, constant or condition, or a call left out, in a line of src that some test reaches. Which
tests reach a line is known from one run of each in a build with gcov. What a test reached is kept in
build/mutants/reach.json, and is found out again when the test changes, or with --reach; a file of src that has changed
since is left out. --known: no test but those that are known so far.

A bug is built in a copy of the tree; if a call that frees memory is left out, a program that leaks fails. Of the
tests that reach its line --tests run, for about --seconds of CPU: those of its folder and of its file's name first,
then the quickest, until one fails. If none fails, the nearest ASAN_TESTS of the quick ones run with AddressSanitizer,
as in `make asan`; then Python tests that reach the line, or may (fall_back): one, and others for about
--python-seconds. A Python test catches a bug if it fails twice, and passes without the bug. A bug in equivalent.txt
changes nothing that anybody could notice, and is left out. Results are kept in build/mutants/sample.txt while the file
is the same: the command can be stopped and started again; --again retries those that survived, --report only prints.

The share has a 95 % interval (Wilson). Which lines Python tests reach is known of PYTHON_TESTS: all of them take an
hour.
"""
import argparse
import collections
import concurrent.futures
import hashlib
import json
import math
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HOME = ROOT / "build" / "mutants"
REACH, RESULTS = HOME / "reach.json", HOME / "sample.txt"
EQUIVALENT = pathlib.Path(__file__).parent / "equivalent.txt"
PYTHON = str(ROOT / ".venv/bin/python")
# As the build with gcov (Makefile): its objects serve for the bugs, too, so that the tree is built once.
MAKE = ["make", "-s", f"CC={ROOT / 'tests/mutants/cc'}", "BUILD=build/cov", "SIMD="]
# A Python test waits for programs most of the time: a limit of real time, unless it is known how long the test takes.
PYTHON_S = 900
# Those whose lines are found out: one or two for each folder that the program alone uses. They take 5 s to 3 minutes.
PYTHON_TESTS = ["test_json", "test_config", "test_index", "test_graph", "test_program", "test_eval", "test_server",
                "test_server_fields", "test_server_http", "test_ask"]
# Python tests for a bug that no C program has caught, beside those with a word of its path in their name.
FALL_BACK = {"serve": ["test_server"], "server": ["test_server"], "cli": ["test_program"], "cmd": ["test_program"]}
MOST_FALL_BACK = 3
# Folders of tests beside those of the same name.
ALSO = {"compute": "kernel", "doctor": "cmd"}
# Programs that run again with AddressSanitizer, for a bug that no C program has caught, and their seconds without it.
ASAN_TESTS, ASAN_S = 3, 5

# -- which test reaches which line -----------------------------------------------------------------


def command_of(test, build):
    if test.endswith(".py"):
        return [PYTHON, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"tests/{test}"]
    return [str(build / "tests" / test)]


def run_test(test, folder, counters, seconds, errors=subprocess.DEVNULL):
    """Whether it passed, and the seconds of CPU it took, with its programs. What gcov counts goes below `counters`.
    seconds: at most; on the CPU, so that a busy machine has the same tests, but real ones of a Python test. errors: a
    file for stderr."""
    is_python, most = test.endswith(".py"), int(seconds) + 1
    limit = None if is_python else lambda: resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    env = {**os.environ, "SPOLIA_BUILD": str(folder / "build/cov"), "XDG_CACHE_HOME": str(HOME / "cache"),
           "GCOV_PREFIX": str(counters), "LSAN_OPTIONS": "allocator_may_return_null=1"}
    process = subprocess.Popen(command_of(test, folder / "build/cov"), cwd=folder, env=env, stdout=subprocess.DEVNULL,
                               stderr=errors, start_new_session=True, preexec_fn=limit)
    late = threading.Timer(seconds if is_python else 60 + 15 * seconds, os.killpg, (process.pid, signal.SIGKILL))
    late.start()
    _, status, used = os.wait4(process.pid, 0)
    late.cancel()
    process.returncode = status
    try:
        os.killpg(process.pid, signal.SIGKILL)  # servers that a test left
    except ProcessLookupError:
        pass
    return status == 0, used.ru_utime + used.ru_stime


def lines_of(counters):
    """Lines of src that were executed: {file: [numbers]}."""
    found = collections.defaultdict(set)
    made = list(counters.rglob("*.gcda"))
    for counter in made:  # gcov expects the notes of the compiler beside the counters
        notes = pathlib.Path("/", counter.relative_to(counters)).with_suffix(".gcno")
        if notes.exists():
            counter.with_suffix(".gcno").symlink_to(notes)
    for i in range(0, len(made), 50):
        done = subprocess.run(["gcov", "--json-format", "--stdout", *made[i:i + 50]], cwd=counters,
                              capture_output=True, text=True)
        for report in done.stdout.splitlines():
            for file in json.loads(report)["files"]:
                name = file["file"]
                if name.startswith("src/") and name.endswith(".c"):
                    found[name] |= {line["line_number"] for line in file["lines"] if line["count"]}
    return {file: sorted(lines) for file, lines in found.items() if lines}


def reach_of(test, longest):
    most, begun = PYTHON_S if test.endswith(".py") else longest, time.monotonic()
    with tempfile.TemporaryDirectory(dir=HOME) as counters:
        passed, seconds = run_test(test, ROOT, pathlib.Path(counters), most)
        wall = round(time.monotonic() - begun, 2)
        return {"passed": passed, "seconds": round(seconds, 2), "wall": wall, "limit": longest,
                "lines": lines_of(pathlib.Path(counters)) if passed else {}}


def hash_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def source_of(test):
    return ROOT / "tests" / (test if test.endswith(".py") else f"{test}.c")


def is_known(r, source, longest):
    """A test that a lower limit ended is tried again."""
    return r and r["source"] == hash_of(source) and (r["passed"] or r.get("limit", 0) >= longest)


def find_reach(with_python, jobs, longest):
    """Runs every test that reach.json does not know. The file is written as it grows."""
    reach = json.loads(REACH.read_text()) if REACH.exists() else {}
    built = ROOT / "build/cov/tests"
    tests = sorted(str(p.relative_to(built)) for p in built.rglob("test_*") if p.is_file() and not p.suffix)
    if with_python:
        tests += [f"e2e/{name}.py" for name in PYTHON_TESTS]
    missing = [t for t in tests if source_of(t).exists() and not is_known(reach.get(t), source_of(t), longest)]
    turns = collections.Counter()
    for test in list(missing):
        folder = test.rsplit("/", 1)[0]
        turns[folder] += 1
        missing[missing.index(test)] = (turns[folder], test)
    missing = [test for _, test in sorted(missing)]  # the folders in turn, so that a part of the map is useful, too
    sources = {str(p.relative_to(ROOT)): hash_of(p) for p in (ROOT / "src").rglob("*.c")} if missing else {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        running = {pool.submit(reach_of, test, longest): test for test in missing}
        for done in concurrent.futures.as_completed(running):
            test, r = running[done], done.result()
            r["files"] = {file: sources[file] for file in r["lines"]}
            reach[test] = {**r, "source": hash_of(source_of(test))}
            REACH.with_suffix(".new").write_text(json.dumps(reach))
            REACH.with_suffix(".new").replace(REACH)
            print(f"{test:45} {'ok' if r['passed'] else 'FAILED'} {r['seconds']:6.1f} s, "
                  f"{sum(map(len, r['lines'].values()))} lines", flush=True)
    return reach


def without_changed(reach):
    """Tests that passed, without the lines of files that have changed since."""
    now, changed = {}, set()
    for r in reach.values():
        for file, was in r["files"].items():
            if file not in now:
                now[file] = hash_of(ROOT / file) if (ROOT / file).exists() else None
            if now[file] != was:
                changed.add(file)
    if changed:
        print(f"{len(changed)} files have changed since and are left out (--reach: finds out again)")
    return {test: {**r, "lines": {f: lines for f, lines in r["lines"].items() if f not in changed}}
            for test, r in reach.items() if r["passed"]}

# -- bugs ------------------------------------------------------------------------------------------


OPERATORS = {"<=": "<", ">=": ">", "<": "<=", ">": ">=", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+": "-",
             "-": "+", "+=": "-=", "-=": "+=", "++": "--", "--": "++", "*": "+", "/": "*", "&": "|", "|": "&"}
TOKEN = re.compile(r" (<=|>=|==|!=|&&|\|\||\+=|-=|<|>|\+|-|\*|/|&|\|) |(\+\+|--)|\b(\d+)(?![.\w])|\b(true|false)\b")
CONDITION = re.compile(r"\b(?:if|while) \(")
CALL = re.compile(r"^\s+(?:SP_TRY\()?[a-z]\w*(?:(?:->|\.)\w+)*\(.*\);\s*$")
FREES = re.compile(r"^(?:\w+_)?(?:free|fini|destroy|close|drop|decref)\w*\(")  # if it is left out, memory leaks
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
    return file.split("/")[1]


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


def words_of(path):
    words = set(re.findall("[a-z0-9]+", path)) - {"src", "tests", "unit", "e2e", "test", "c", "py"}
    return {w.rstrip("s") for w in words}


def tests_for(reach, file, number, most, seconds):
    """C programs that reach the line: of its folder first, then of its file's name, then the quickest; for about
    `seconds` of CPU together."""
    folder, words, taken, spent = folder_of(file), words_of(file.split("/", 2)[2]), [], 0
    near = {folder, ALSO.get(folder)}
    found = [(not near & set(test.split("/")), not words & words_of(test), r["seconds"], test)
             for test, r in reach.items() if number in r["lines"].get(file, []) and not test.endswith(".py")]
    for _, _, cost, test in sorted(found):
        if len(taken) < most and (not taken or spent + cost <= seconds):
            taken.append(test)
            spent += cost
    return taken


def fall_back(reach, file, number, seconds):
    """Python tests that reach the line, the quickest first, for about `seconds`; then those of which that is not known,
    whose name has a word of the file's path, most words first, and those of its folder."""
    words, found, spent = words_of(file), [], 0
    known = {test for test in reach if test.endswith(".py")}
    for test in sorted(known, key=lambda test: reach[test]["wall"]):
        if number in reach[test]["lines"].get(file, []) and (not found or spent + reach[test]["wall"] <= seconds):
            found.append(test)
            spent += reach[test]["wall"]
    named = [(-len(words & words_of(p.name)), p.stat().st_size, p.stem) for p in (ROOT / "tests/e2e").glob("test_*.py")]
    others = [f"e2e/{stem}.py" for shared, _, stem in sorted(named) if shared]
    others += [f"e2e/{stem}.py" for stem in FALL_BACK.get(folder_of(file), [])]
    return (found + [test for test in dict.fromkeys(others) if test not in known])[:MOST_FALL_BACK]


ASAN = "-fsanitize=address"
passing, pass_lock = {}, threading.Lock()


def time_without_bug(test, reach):
    """Seconds that a Python test takes with the program as it is; None if it fails then: it says nothing of bugs."""
    with pass_lock:
        if test not in passing and test in reach:
            passing[test] = reach[test]["wall"]
        if test not in passing:
            begun = time.monotonic()
            with tempfile.TemporaryDirectory(dir=HOME) as counters:
                passed, _ = run_test(test, ROOT, pathlib.Path(counters), PYTHON_S)
            passing[test] = time.monotonic() - begun if passed else None
            if not passed:
                print(f"{test} fails without a bug, and is left out", flush=True)
        return passing[test]


class Tree:
    """A copy of the sources, and of what is built of them: only what a bug changes is compiled."""

    def __init__(self, number):
        self.top = HOME / f"tree{number}"
        self.top.mkdir(parents=True, exist_ok=True)
        skipped = {".git", ".venv", ".venv-clients", ".venv-chroma", "build", "__pycache__"}
        for old in self.top.iterdir():
            if old.name != "build":
                shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
        shutil.copytree(ROOT, self.top, symlinks=True, dirs_exist_ok=True,
                        ignore=lambda folder, names: skipped & set(names) if folder == str(ROOT) else set())
        shutil.rmtree(self.top / "build", ignore_errors=True)
        shutil.copytree(ROOT / "build/cov", self.top / "build/cov",
                        ignore=lambda _, names: {n for n in names if n.endswith((".gcno", ".gcda"))})
        (self.top / ".venv").symlink_to(ROOT / ".venv")

    def make(self, target, check=""):
        """check: "-fsanitize=leak": a program that leaks memory fails; "-fsanitize=address": also of the objects."""
        how = [f"OPT=-O1 {check}" if check == ASAN else "OPT=-O1", f"LDFLAGS=--coverage {check}"]
        return subprocess.run([*MAKE, *how, target], cwd=self.top, capture_output=True, text=True).returncode == 0

    def passes(self, test, seconds, errors=subprocess.DEVNULL):
        with tempfile.TemporaryDirectory(dir=HOME) as counters:
            return run_test(test, self.top, pathlib.Path(counters), seconds, errors)[0]

    def is_reported(self, test, seconds):
        """Whether the program, linked with AddressSanitizer, reports an error of memory."""
        with tempfile.TemporaryFile("w+", dir=HOME) as errors:
            if not self.make(f"build/cov/tests/{test}", ASAN) or self.passes(test, seconds, errors):
                return False
            errors.seek(0)
            return bool(re.search("ERROR: (Address|Leak)Sanitizer", errors.read()))

    def asan_reports(self, file, text, tests, reach):
        """The first of the programs that AddressSanitizer finds the bug with, and nothing without it. Only the object
        of the bug is compiled with it; memory that any object allocates is watched."""
        obj, path = self.object_of(file), self.top / file
        with_bug = path.read_text()
        for test in tests:
            for is_bug in (True, False):
                path.write_text(with_bug if is_bug else text)
                obj.unlink()
                if not self.make(str(obj.relative_to(self.top)), ASAN):
                    break
                if self.is_reported(test, 15 + 10 * reach[test]["seconds"]) != is_bug:
                    break
            else:
                path.write_text(with_bug)
                return test
        path.write_text(with_bug)
        return None

    def object_of(self, file):
        return self.top / "build/cov/obj" / f"{file[:-2]}.o"

    def run_c_tests(self, tests, leaks, reach):
        for test in tests:
            if not self.make(f"build/cov/tests/{test}", "-fsanitize=leak" if leaks else ""):
                return "broken"
            if not self.passes(test, 5 + 3 * reach[test]["seconds"]):
                return f"caught by {test}"
        return None

    def run_python_tests(self, tests, reach):
        for test in tests:
            seconds = time_without_bug(test, reach)
            if seconds is None:
                continue
            if not self.make("build/cov/spolia"):
                return "broken"
            most = 60 + 3 * seconds
            if not self.passes(test, most) and not self.passes(test, most):
                return f"caught by {test}"
        return None

    def run_tests(self, reach, file, number, text, leaks, args):
        """text: of the file without the bug."""
        in_c = tests_for(reach, file, number, args.tests, args.seconds)
        result = self.run_c_tests(in_c, leaks, reach)
        if result:
            return result
        obj, was = self.object_of(file), self.object_of(file).read_bytes()
        quick = [t for t in in_c if reach[t]["seconds"] <= ASAN_S]
        by = self.asan_reports(file, text, quick[:ASAN_TESTS], reach)
        if by:
            return f"caught by {by} with AddressSanitizer"
        obj.write_bytes(was)
        in_python = [] if args.no_python else fall_back(reach, file, number, args.python_seconds)
        return self.run_python_tests(in_python, reach) or f"SURVIVED {len(in_c) + len(in_python)} tests"

    def try_bug(self, reach, bug, args):
        file, number, new = bug
        path = self.top / file
        obj = self.object_of(file)
        text, times, was = path.read_text(), path.stat(), obj.read_bytes()
        lines = text.split("\n")
        lines[number - 1] = new
        path.write_text("\n".join(lines))
        try:
            if not self.make(str(obj.relative_to(self.top))):
                return "broken"  # the compiler notices it
            leaks = new.strip() == ";" and bool(FREES.match(text.split("\n")[number - 1].strip()))
            return self.run_tests(reach, file, number, text, leaks, args)
        finally:
            path.write_text(text)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            obj.write_bytes(was)  # newer than the library, which takes it


def name_of(bug):
    """As equivalent.txt has it: the line with the bug; for a call that is left out, "without", the call, and which one
    it is if there are several."""
    file, number, new = bug
    if new.strip() != ";":
        return f"{file}: {new.strip()}"
    lines = [line.strip() for line in (ROOT / file).read_text().split("\n")]
    was = lines[number - 1]
    which = f" ({lines[:number].count(was)} of {lines.count(was)})" if lines.count(was) > 1 else ""
    return f"{file}: without {was}{which}"


def key_of(bug):
    file, number, new = bug
    lines = (ROOT / file).read_text()
    return hashlib.sha256(repr((file, number, new, lines)).encode()).hexdigest()[:16]


def interval(k, n):
    """95 % of a share of k in n (Wilson)."""
    z, p = 1.96, k / n
    middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)


def report(results):
    by = collections.defaultdict(collections.Counter)
    for file, result in results:
        for folder in (folder_of(file), "all"):
            by[folder][result.split()[0]] += 1
    for folder, c in sorted(by.items(), key=lambda x: (x[0] == "all", x[0])):
        n = c["caught"] + c["SURVIVED"]
        low, high = interval(c["caught"], n) if n else (0, 1)
        share = f"{c['caught'] / n:5.0%} ({low:.0%} to {high:.0%})" if n else "    -"
        print(f"{folder:20} {c['caught']:4} of {n:4} caught {share}; {c['broken']} do not compile, "
              f"{c['equivalent']} change nothing")


def known_results():
    if not RESULTS.exists():
        return {}
    return {r["key"]: r["result"] for r in map(json.loads, RESULTS.read_text().splitlines())}


def try_all(reach, bugs, known, args):
    """[(file, result)] of the bugs, and a line for each as it ends."""
    equivalent = set(EQUIVALENT.read_text().splitlines()) if EQUIVALENT.exists() else set()
    trees, lock, results = [], threading.Lock(), []

    def one(bug):
        file, number, new = bug
        result = known.get(key_of(bug))
        if name_of(bug) in equivalent:
            result = "equivalent"
        elif not args.report and (result is None or (args.again and result.startswith("SURVIVED"))):
            with lock:
                tree = trees.pop()
            try:
                result = tree.try_bug(reach, bug, args)
            finally:
                trees.append(tree)
            with lock, RESULTS.open("a") as f:
                f.write(json.dumps({"key": key_of(bug), "result": result, "bug": bug}) + "\n")
        if result:
            results.append((file, result))
            if result.startswith("SURVIVED") or not args.report:
                print(f"{result:45} {file}:{number}: {new.strip()}", flush=True)

    if not args.report:
        trees += [Tree(i) for i in range(args.jobs)]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for done in [pool.submit(one, bug) for bug in bugs]:
            done.result()
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--folder", default="", help="only files whose path contains this")
    parser.add_argument("--tests", type=int, default=15, help="for one bug: the nearest of those that reach its line")
    parser.add_argument("--seconds", type=float, default=120, help="of CPU for the C tests of one bug")
    parser.add_argument("--jobs", type=int, default=2, help="tests, and bugs, at a time")
    parser.add_argument("--again", action="store_true", help="try those again that survived")
    parser.add_argument("--report", action="store_true", help="only print what is known")
    parser.add_argument("--reach", action="store_true", help="find out again which test reaches which line")
    parser.add_argument("--longest", type=float, default=30, help="seconds of CPU of a C program that is mapped")
    parser.add_argument("--known", action="store_true", help="no tests but those whose lines are known")
    parser.add_argument("--no-python", action="store_true", help="C programs only")
    parser.add_argument("--python-seconds", type=float, default=150, help="for Python tests that reach the line")
    args = parser.parse_args()
    HOME.mkdir(parents=True, exist_ok=True)
    if args.reach:
        REACH.unlink(missing_ok=True)
    if args.report or args.known:
        reach = json.loads(REACH.read_text())
    else:
        reach = find_reach(not args.no_python, args.jobs, args.longest)
    reach = {test: r for test, r in without_changed(reach).items() if not (args.no_python and test.endswith(".py"))}
    report(try_all(reach, sample(reach, args.n, args.seed, args.folder), known_results(), args))
    return 0


if __name__ == "__main__":
    sys.exit(main())
