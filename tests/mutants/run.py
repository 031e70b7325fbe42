"""Applies bugs to a copy of the tree, one after another, and says which the tests notice.

    python tests/mutants/run.py [--only SUBSTRING] [--list FILE] [--cc "ccache gcc"] [--check]

A line of the list is `name | file | text | text of the bug | programs`, with \\| for a bar and ⏎ for the end of a line.
For each the copy gets the bug, the programs (below build/tests, or Python files below tests) are built and run, and
the file gets its text back. A bug is caught when a program fails or takes longer than --seconds, and passes without
it. The last line counts; the exit code is 1 when one survived. Results are kept in build/mutants/results.txt and are
not run again while the file, the bug and the programs are the same. --check applies nothing, and fails if a bug no
longer fits the tree.
"""
import argparse
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
COPY = ROOT / "build" / "mutants" / "tree"
RESULTS = ROOT / "build" / "mutants" / "results.txt"


def read_list(path):
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            parts = (x.strip().replace("\\|", "|").replace("⏎", "\n") for x in re.split(r"(?<!\\)\|", line))
            name, file, old, new, programs = parts
            yield name, file, old, new, programs.split()


def source_of(program):
    """A C program by its path below build/tests, a Python file by its own, with `::name` of one test."""
    return program.split("::")[0] if ".py" in program else f"{program}.c"


def key_of(file, old, new, programs):
    h = hashlib.sha256(repr((old, new, programs)).encode())
    h.update((ROOT / file).read_bytes())
    for p in programs:
        h.update((ROOT / "tests" / source_of(p)).read_bytes())
    return h.hexdigest()[:16]


def copy_tree():
    """Sources, and what is built of them: only what a bug changes is compiled."""
    skipped = {".git", ".venv", ".venv-clients", ".venv-chroma", "build", "__pycache__"}
    shutil.rmtree(COPY, ignore_errors=True)
    shutil.copytree(ROOT, COPY, ignore=lambda folder, names: skipped & set(names) if folder == str(ROOT) else set(),
                    symlinks=True)
    shutil.copytree(ROOT / "build" / "obj", COPY / "build" / "obj")
    shutil.copy2(ROOT / "build" / "libspolia.a", COPY / "build")
    for venv in (".venv", ".venv-chroma"):  # servers that a test starts: it is skipped without them
        if (ROOT / venv).exists():
            (COPY / venv).symlink_to(ROOT / venv)


def what_is_stale(file, old, programs):
    """Why the bug no longer applies to the tree, or None."""
    found = (ROOT / file).read_text().count(old) if (ROOT / file).exists() else 0
    if found != 1:
        return f"the text occurs {found} times in {file}"
    absent = [p for p in programs if not (ROOT / "tests" / source_of(p)).exists()]
    return f"there is no test {absent[0]}" if absent else None


def check_list(path):
    """Prints the bugs that no longer apply to the tree; the number of them."""
    stale = [(name, why) for name, file, old, _, programs in read_list(path)
             if (why := what_is_stale(file, old, programs))]
    for name, why in stale:
        print(f"{name}: {why}")
    return len(stale)


def build(programs, cc):
    targets = {"build/spolia" if ".py" in p else f"build/tests/{p}" for p in programs}
    targets |= {"python" for p in programs if "test_python" in p}
    return subprocess.run(["make", "-s", f"CC={cc}", *targets], cwd=COPY, capture_output=True, text=True)


def run_tests(programs, seconds):
    """The first program that fails, or None."""
    for p in programs:
        python = [ROOT / ".venv/bin/python", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"tests/{p}"]
        command = python if ".py" in p else [COPY / "build" / "tests" / p]
        try:
            done = subprocess.run(command, cwd=COPY, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  env={**os.environ, "SPOLIA_BUILD": str(COPY / "build")}, timeout=seconds)
        except subprocess.TimeoutExpired:
            return p
        if done.returncode != 0:
            return p
    return None


def is_sound(program, args):
    """Whether a program passes without a bug; asked once of each."""
    if program not in args.sound:
        args.sound[program] = build([program], args.cc).returncode == 0 and not run_tests([program], args.seconds)
    return args.sound[program]


def try_bug(file, old, new, programs, args):
    path = COPY / file
    text = path.read_text()
    if text.count(old) != 1:
        return f"broken: the text occurs {text.count(old)} times in {file}"
    path.write_text(text.replace(old, new))
    try:
        made = build(programs, args.cc)
        if made.returncode != 0:
            return "broken: " + made.stderr.strip().splitlines()[-1][:200]
        by = run_tests(programs, args.seconds)
    finally:
        path.write_text(text)
    if by and not is_sound(by, args):
        return f"broken: {by} fails without the bug"
    return f"caught by {by}" if by else "SURVIVED"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--list", type=pathlib.Path, default=ROOT / "tests/mutants/list.txt")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--check", action="store_true", help="only say which bugs no longer apply to the tree")
    args = parser.parse_args()
    args.sound = {}
    if args.check:
        return 1 if check_list(args.list) else 0
    copy_tree()
    known = dict(line.split(" ", 1) for line in RESULTS.read_text().splitlines()) if RESULTS.exists() else {}
    counts = {"caught": 0, "SURVIVED": 0, "broken": 0}
    for name, file, old, new, programs in read_list(args.list):
        if args.only not in name:
            continue
        key = key_of(file, old, new, programs)
        result = known.get(key) or try_bug(file, old, new, programs, args)
        counts[re.split(r"[ :]", result)[0]] += 1
        print(f"{name:32} {result}", flush=True)
        if not result.startswith("broken") and key not in known:
            with RESULTS.open("a") as f:
                f.write(f"{key} {result}\n")
    print(f"{counts['caught']} caught, {counts['SURVIVED']} survived, {counts['broken']} broken")
    return 1 if counts["SURVIVED"] or counts["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
