"""Runs every test and closes with one line: N passed, N failed, N skipped.

C tests are cmocka programs below BUILD/tests that print TAP, and some of them again below
BUILD/emulate, with kernels whose instructions the CPU may lack; Python tests are pytest files below
tests/. A program that dies without a verdict counts as one failure.

    python tests/run.py [--build build] [--only SUBSTRING]
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ET

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run_c(program: pathlib.Path, env: dict) -> tuple[int, int, int]:
    started = time.time()
    done = subprocess.run([program], env={**env, "CMOCKA_MESSAGE_OUTPUT": "TAP"}, cwd=ROOT,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    passed = failed = skipped = 0
    for line in done.stdout.splitlines():
        if re.match(r"ok \d+.*# SKIP", line, re.I):
            skipped += 1
        elif re.match(r"ok \d+", line):
            passed += 1
        elif re.match(r"not ok \d+.*# SKIP", line, re.I):
            skipped += 1
        elif re.match(r"not ok \d+", line):
            failed += 1
    if done.returncode != 0 and failed == 0:
        failed += 1
    if failed:
        print(done.stdout)
    name = program.name + " (emulated)" * ("emulate" in program.parts)
    print(f"{'FAIL' if failed else 'ok  '} {name:32} {passed:4} passed {skipped:3} skipped "
          f"{time.time() - started:6.1f} s", flush=True)
    return passed, failed, skipped


def run_python(build: pathlib.Path, env: dict, only: str) -> tuple[int, int, int]:
    report = build / "pytest.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "--no-header", "-p", "no:cacheprovider",
               f"--junitxml={report}", "tests"]
    if only:
        command += ["-k", only]
    subprocess.run(command, cwd=ROOT, env={**env, "SPOLIA_BUILD": str(build)})
    if not report.exists():
        return 0, 1, 0
    total = failed = skipped = 0
    for suite in ET.parse(report).getroot().iter("testsuite"):
        total += int(suite.get("tests"))
        failed += int(suite.get("failures")) + int(suite.get("errors"))
        skipped += int(suite.get("skipped"))
    return total - failed - skipped, failed, skipped


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--only", default="", help="only programs and tests whose name contains this")
    args = parser.parse_args()
    build = (ROOT / args.build).resolve()
    env = {**os.environ, "ASAN_OPTIONS": "detect_leaks=1", "TSAN_OPTIONS": "halt_on_error=1"}

    sums = [0, 0, 0]
    for folder in ("tests/unit", "tests/kernel", "emulate/tests", "tests/property"):
        for program in sorted((build / folder).rglob("*")):
            if program.is_file() and not program.suffix and args.only in program.name:
                sums = [a + b for a, b in zip(sums, run_c(program, env))]
    sums = [a + b for a, b in zip(sums, run_python(build, env, args.only))]
    print(f"{sums[0]} passed, {sums[1]} failed, {sums[2]} skipped")
    return 1 if sums[1] else 0


if __name__ == "__main__":
    sys.exit(main())
