"""Runs every test and closes with what failed, a line each, and one line: N passed, N failed, N skipped.

C tests are cmocka programs below BUILD/tests that print TAP, and some of them again below
BUILD/emulate, with kernels whose instructions the CPU may lack; Python tests are pytest files below
tests/. A program that dies without a verdict counts as one failure.

With --cpus, the tests that the choice of kernels can change, under each SPOLIA_CPU named: the unit
tests that compute, and all Python tests of the program. Sets that the CPU lacks run as the programs
below BUILD/emulate. Kernel and property tests go through all sets by themselves, so they run once as
built and once emulated.

With --under, the C programs alone, each started by this command: those of another machine, by its emulator.

    python tests/run.py [--build build] [--only SUBSTRING] [--cpus ref,avx2,avxvnni,avx512,vnni,amx]
                        [--under COMMAND [--folders tests/unit,tests/kernel,tests/property]]
"""
import argparse
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time
import xml.etree.ElementTree as ET

import cpus

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMPUTING = ("tests/unit/compute", "tests/unit/engine", "tests/unit/serve")
OF_ALL_CPUS = ("tests/kernel", "tests/property")
NOT_COMPUTING = ("tests/reference", "tests/e2e/test_bad_input.py", "tests/e2e/test_tokenizer_vectors.py")


LIMIT_S = 900 # of one program: what waits longer waits for ever


def output_of(command: list, env: dict) -> tuple[str, int]:
    """What the program prints, and its exit code; a program that does not end is killed and has failed."""
    try:
        done = subprocess.run(command, env=env, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=LIMIT_S)
        return done.stdout, done.returncode
    except subprocess.TimeoutExpired as e:
        return f"{(e.stdout or b'').decode(errors='replace')}\nkilled after {LIMIT_S} s\n", -1


def run_c(program: pathlib.Path, env: dict, how: str, under: list = ()) -> tuple[int, int, int, list]:
    """Tests passed, failed, skipped, and a line about each that failed."""
    started = time.time()
    printed, code = output_of([*under, program], {**env, "CMOCKA_MESSAGE_OUTPUT": "TAP"})
    passed = failed = skipped = 0
    lines = []
    for line in printed.splitlines():
        if re.match(r"ok \d+.*# SKIP", line, re.I):
            skipped += 1
        elif re.match(r"ok \d+", line):
            passed += 1
        elif re.match(r"not ok \d+.*# SKIP", line, re.I):
            skipped += 1
        elif re.match(r"not ok \d+", line):
            failed += 1
            lines.append(f"{program.name}{how}: {line}")
    if code != 0 and failed == 0:
        failed += 1
        lines.append(f"{program.name}{how}: exit code {code}: {' '.join(printed.splitlines()[-1:])[:200]}")
    if failed:
        print(printed)
    print(f"{'FAIL' if failed else 'ok  '} {program.name + how:42} {passed:4} passed {skipped:3} skipped "
          f"{time.time() - started:6.1f} s", flush=True)
    return passed, failed, skipped, lines


def run_folders(build: pathlib.Path, folders: tuple, env: dict, only: str, how: str = "", under: list = ()):
    """Counts of every program in the folders, one by one."""
    for folder in folders:
        for program in sorted((build / folder).rglob("*")):
            if program.is_file() and not program.suffix and only in program.name:
                yield run_c(program, env, how, under)


def what_failed(suite: ET.Element):
    """A line about each test that failed: where, and the first line of why."""
    for case in suite.iter("testcase"):
        for why in [*case.iter("failure"), *case.iter("error")]:
            said = (why.get("message") or why.text or "").strip().split("\n")[0]
            yield f"{case.get('classname')}::{case.get('name')}: {said[:200]}"


def run_python(build: pathlib.Path, env: dict, only: str, but: tuple = ()) -> tuple[int, int, int, list]:
    report = build / "pytest.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "--no-header", "-p", "no:cacheprovider",
               f"--junitxml={report}", "tests", *(f"--ignore={path}" for path in but)]
    if only:
        command += ["-k", only]
    code = subprocess.run(command, cwd=ROOT, env={**env, "SPOLIA_BUILD": str(build)}).returncode
    if not report.exists():
        return 0, 1, 0, [f"pytest ended with {code} and without a report"]
    total = failed = skipped = 0
    lines = []
    for suite in ET.parse(report).getroot().iter("testsuite"):
        total += int(suite.get("tests"))
        failed += int(suite.get("failures")) + int(suite.get("errors"))
        skipped += int(suite.get("skipped"))
        lines += what_failed(suite)
    return total - failed - skipped, failed, skipped, lines


def everything(build: pathlib.Path, env: dict, only: str):
    yield from run_folders(build, ("tests/unit", "tests/kernel"), env, only)
    yield from run_folders(build / "emulate", ("tests/kernel",), env, only, " (emulated)")
    yield from run_folders(build, ("tests/property", "tests/fuzz"), env, only)
    yield run_python(build, env, only)


def on_each_cpu(build: pathlib.Path, env: dict, only: str, names: list):
    yield from run_folders(build, OF_ALL_CPUS, env, only)
    yield from run_folders(build / "emulate", OF_ALL_CPUS, env, only, " (emulated)")
    for name in names:
        emulated = not cpus.runs_here(name)
        if emulated and not cpus.emulation_runs_here():
            print(f"{name}: left out; neither it nor its emulation runs on this CPU")
            yield 0, 0, 1, []
            continue
        where = build / "emulate" if emulated else build
        how = f" ({name}{', emulated' * emulated})"
        on = {**env, "SPOLIA_CPU": name, **({"SPOLIA_EMULATED": "1"} if emulated else {})}
        yield from run_folders(where, COMPUTING, on, only, how)
        print(f"python{how}", flush=True)
        yield run_python(where, on, only, NOT_COMPUTING)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--only", default="", help="only programs and tests whose name contains this")
    parser.add_argument("--cpus", default="", help="the tests that kernels can change, on each of these")
    parser.add_argument("--under", default="", help="the C programs alone, started by this command: an emulator")
    parser.add_argument("--folders", default="tests/unit,tests/kernel,tests/property", help="with --under: of these")
    args = parser.parse_args()
    names = [name for name in args.cpus.split(",") if name]
    if not set(names) <= set(cpus.NEEDS):
        parser.error(f"--cpus: one or more of {','.join(cpus.NEEDS)}")
    build = (ROOT / args.build).resolve()
    beside = ROOT.parent / "shared" / "data"
    if "SPOLIA_DATA" not in os.environ and beside.is_dir():
        os.environ["SPOLIA_DATA"] = str(beside)
    cache = str(build / "test-cache")  # not the user's
    env = {**os.environ, "XDG_CACHE_HOME": cache, "ASAN_OPTIONS": "detect_leaks=1", "TSAN_OPTIONS": "halt_on_error=1"}

    sums = [0, 0, 0, []]
    if args.under:
        under = shlex.split(args.under)
        counts = run_folders(build, tuple(args.folders.split(",")), env, args.only, under=under)
    elif names:
        counts = on_each_cpu(build, env, args.only, names)
    else:
        counts = everything(build, env, args.only)
    for count in counts:
        sums = [a + b for a, b in zip(sums, count)]
    print("".join(f"FAILED {line}\n" for line in sums[3]), end="")
    print(f"{sums[0]} passed, {sums[1]} failed, {sums[2]} skipped")
    return 1 if sums[1] else 0


if __name__ == "__main__":
    sys.exit(main())
