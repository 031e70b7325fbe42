"""Runs every test and closes with what failed, a line each, and one line: N passed, N failed, N skipped.

C tests are cmocka programs below BUILD/tests that print TAP, and some of them again below
BUILD/emulate, with kernels whose instructions the CPU may lack; Python tests are pytest files below
tests/. A program that dies without a verdict counts as one failure.

With --cpus, the tests that the choice of kernels can change, under each SPOLIA_CPU named: the unit
tests that compute, and all Python tests of the program. Sets that the CPU lacks run as the programs
below BUILD/emulate. Kernel and property tests go through all sets by themselves, so they run once as
built and once emulated.

With --under, the C programs alone, each started by this command: those of another machine, by its emulator.

On two cores or more, three jobs run at a time, since some of them wait; what one prints is shown when it has ended:
one lane starts with the C programs, two with the Python files, and whichever is done first takes what is left of the
others'. Ctrl-C ends all.

    python tests/run.py [--build build] [--only SUBSTRING] [--cpus ref,avx2,avxvnni,avx512,vnni,amx]
                        [--under COMMAND [--folders tests/unit,tests/kernel,tests/property]]
"""
import argparse
import collections
import contextlib
import os
import pathlib
import queue
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ET

import cpus

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMPUTING = ("tests/unit/compute", "tests/unit/engine", "tests/unit/serve")
OF_ALL_CPUS = ("tests/kernel", "tests/property")
NOT_COMPUTING = ("tests/reference", "tests/e2e/test_bad_input.py", "tests/e2e/test_tokenizer_vectors.py")


# Python files that take longest: each is a job of its own, and they begin; the others are jobs of so many.
SLOW = [f"tests/e2e/test_{name}.py" for name in (
    "page", "remote_cluster", "remote_s3", "chat_templates", "remote_faults", "bench_python", "eval", "context_memory",
    "pull", "clients")]
FILES_A_JOB = 8
LIMIT_S = 900  # of one C program: what waits longer waits for ever


def send(process: subprocess.Popen, number: int):
    """A signal, to a process and all that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


class Lanes:
    """Runs jobs, functions of these lanes that give counts: three at a time, from both ends of their list."""

    def __init__(self, jobs: list):
        self.jobs = collections.deque(jobs)
        self.lock = threading.Lock() # of the jobs, of what runs, and of what is printed
        self.running: set[subprocess.Popen] = set()
        self.stopped = False

    def counts(self):
        """Of every job, as each ends."""
        done = queue.SimpleQueue()
        lanes = [threading.Thread(target=self.work, args=(take, done), daemon=True)
                 for take in (self.jobs.popleft, self.jobs.pop, self.jobs.pop)[:3 if os.cpu_count() > 1 else 1]]
        for lane in lanes:
            lane.start()
        left = len(lanes)
        while left:
            if isinstance(count := done.get(), BaseException):
                raise count
            left -= count is None
            if count:
                yield count

    def work(self, take, done):
        try:
            while job := self.next(take):
                done.put(job(self))
            done.put(None)
        except BaseException as e: # noqa: BLE001 -- raised again where the counts are read
            done.put(e)

    def next(self, take):
        with self.lock:
            return take() if self.jobs and not self.stopped else None

    def output_of(self, command: list, env: dict, limit: float | None = None) -> tuple[str, int]:
        """What a command prints, and its exit code; one that does not end in time is killed and has failed."""
        with tempfile.TemporaryFile() as printed:  # not a pipe: what the command leaves behind would keep it open
            with self.lock:
                if self.stopped:
                    return "not started\n", -1
                process = subprocess.Popen(
                    [str(word) for word in command], env=env, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=printed,
                    stderr=subprocess.STDOUT, start_new_session=True)  # Ctrl-C is passed on once, by stop()
                self.running.add(process)
            try:
                code, late = process.wait(limit), ""
            except subprocess.TimeoutExpired:
                send(process, signal.SIGKILL)
                code, late = process.wait() and -1, f"\nkilled after {limit} s\n"
            finally:
                with self.lock:
                    self.running.remove(process)
            printed.seek(0)
            return printed.read().decode(errors="replace") + late, code

    def stop(self):
        """Interrupts what runs, and waits for it: pytest then ends the servers that its tests have started. A second
        interrupt, and half a minute, kill what is left."""
        with self.lock:
            self.stopped = True
            for process in self.running:
                send(process, signal.SIGINT)
        end = time.monotonic() + 30
        with contextlib.suppress(KeyboardInterrupt):
            while self.running and time.monotonic() < end:
                time.sleep(0.1)
        with self.lock:
            for process in self.running:
                send(process, signal.SIGKILL)

    def show(self, name: str, counts: tuple, began: float, more: str = ""):
        passed, failed, skipped, _ = counts
        with self.lock:
            if self.stopped:
                return
            print(f"{more}{'FAIL' if failed else 'ok  '} {name:42} {passed:4} passed {skipped:3} skipped "
                  f"{time.monotonic() - began:6.1f} s", flush=True)


def run_c(lanes: Lanes, program: pathlib.Path, env: dict, how: str, under: list = ()) -> tuple[int, int, int, list]:
    """Tests passed, failed, skipped, and a line about each that failed."""
    began = time.monotonic()
    printed, code = lanes.output_of([*under, program], {**env, "CMOCKA_MESSAGE_OUTPUT": "TAP"}, LIMIT_S)
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
    counts = passed, failed, skipped, lines
    skips = "".join(line + "\n" for line in printed.splitlines() if line.startswith("skipped: "))
    lanes.show(program.name + how, counts, began, printed + "\n" if failed else skips)
    return counts


def c_jobs(build: pathlib.Path, folders: tuple, env: dict, only: str, how: str = "", under: list = ()) -> list:
    """One a program of the folders."""
    return [lambda lanes, program=program: run_c(lanes, program, env, how, under)
            for folder in folders for program in sorted((build / folder).rglob("*"))
            if program.is_file() and not program.suffix and only in program.name]


def what_failed(suite: ET.Element):
    """A line about each test that failed: where, and the first line of why."""
    for case in suite.iter("testcase"):
        for why in [*case.iter("failure"), *case.iter("error")]:
            said = (why.get("message") or why.text or "").strip().split("\n")[0]
            yield f"{case.get('classname')}::{case.get('name')}: {said[:200]}"


def read_report(report: pathlib.Path, code: int) -> tuple[int, int, int, list]:
    if not report.exists():
        return 0, 1, 0, [f"pytest ended with {code} and without a report ({report.stem})"]
    total = failed = skipped = 0
    lines = []
    for suite in ET.parse(report).getroot().iter("testsuite"):
        total += int(suite.get("tests"))
        failed += int(suite.get("failures")) + int(suite.get("errors"))
        skipped += int(suite.get("skipped"))
        lines += what_failed(suite)
    if code not in (0, 1, 5) and not failed:  # 5: no test has the name that was asked for
        failed, lines = 1, [f"pytest ended with {code} ({report.stem})"]
    return total - failed - skipped, failed, skipped, lines


def run_python(lanes: Lanes, build: pathlib.Path, files: list, env: dict, only: str, how: str) -> tuple:
    """As run_c, of Python files; build/pytest has their reports."""
    began = time.monotonic()
    name = pathlib.Path(files[0]).stem + (f" ... {pathlib.Path(files[-1]).stem}" if files[1:] else "") + how
    report = build / "pytest" / f"{pathlib.Path(files[0]).stem}{how.replace(' ', '-')}.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "--no-header", "-p", "no:cacheprovider",
               f"--junitxml={report}", *files, *(["-k", only] if only else [])]
    # Plugins that the packages of other tests bring are loaded for seconds, and used by none.
    own = {"SPOLIA_BUILD": str(build), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    printed, code = lanes.output_of(command, {**env, **own})
    counts = read_report(report, code)
    skips = "".join(line + "\n" for line in printed.splitlines() if line.startswith("SKIPPED"))
    lanes.show(name, counts, began, printed if counts[1] else skips)
    return counts


def python_jobs(build: pathlib.Path, env: dict, only: str, how: str = "", but: tuple = ()) -> list:
    """Of all Python files; the last one is to begin."""
    files = sorted(str(f.relative_to(ROOT)) for f in (ROOT / "tests").rglob("test_*.py"))
    files = [f for f in files if not f.startswith(but)]
    others = [f for f in files if f not in SLOW]
    groups = [[f] for f in SLOW if f in files]
    groups += [others[i:i + FILES_A_JOB] for i in range(0, len(others), FILES_A_JOB)]
    return [lambda lanes, group=group: run_python(lanes, build, group, env, only, how)
            for group in reversed([files] if only else groups)]


def everything(build: pathlib.Path, env: dict, only: str) -> list:
    return [*c_jobs(build, ("tests/unit", "tests/kernel"), env, only),
            *c_jobs(build / "emulate", ("tests/kernel",), env, only, " (emulated)"),
            *c_jobs(build, ("tests/property", "tests/fuzz"), env, only), *python_jobs(build, env, only)]


def left_out(name: str):
    print(f"{name}: left out; neither it nor its emulation runs on this CPU")
    return 0, 0, 1, []


def on_each_cpu(build: pathlib.Path, env: dict, only: str, names: list) -> list:
    jobs = [*c_jobs(build, OF_ALL_CPUS, env, only), *c_jobs(build / "emulate", OF_ALL_CPUS, env, only, " (emulated)")]
    python = []
    for name in names:
        emulated = not cpus.runs_here(name)
        if emulated and not cpus.emulation_runs_here():
            jobs.append(lambda lanes, name=name: left_out(name))
            continue
        where = build / "emulate" if emulated else build
        how = f" ({name}{', emulated' * emulated})"
        on = {**env, "SPOLIA_CPU": name, **({"SPOLIA_EMULATED": "1"} if emulated else {})}
        jobs += c_jobs(where, COMPUTING, on, only, how)
        python += python_jobs(where, on, only, how, NOT_COMPUTING)
    return jobs + python


def interrupted(number, frame):
    raise KeyboardInterrupt


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
    home = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    os.environ.setdefault("SPOLIA_MODELS", str(home / "spolia" / "models"))  # published ones that were fetched
    cache = str(build / "test-cache")  # not the user's
    null = "allocator_may_return_null=1"  # as malloc: tests ask for more than there is
    env = {**os.environ, "XDG_CACHE_HOME": cache, "ASAN_OPTIONS": f"detect_leaks=1:{null}",
           "TSAN_OPTIONS": f"halt_on_error=1:{null}"}

    if args.under:
        env["SPOLIA_UNDER"] = args.under  # a program cannot start itself again: the system would not use the emulator
        jobs = c_jobs(build, tuple(args.folders.split(",")), env, args.only, under=shlex.split(args.under))
    elif names:
        jobs = on_each_cpu(build, env, args.only, names)
    else:
        jobs = everything(build, env, args.only)
    sums = [0, 0, 0, []]
    lanes = Lanes(jobs)
    for number in (signal.SIGINT, signal.SIGTERM): # ignored in the background otherwise, also by the tests
        signal.signal(number, interrupted)
    try:
        for count in lanes.counts():
            sums = [a + b for a, b in zip(sums, count)]
    except BaseException as e:
        lanes.stop()
        if not isinstance(e, KeyboardInterrupt):
            raise
        print("interrupted")
        return 130
    print("".join(f"FAILED {line}\n" for line in sums[3]), end="")
    print(f"{sums[0]} passed, {sums[1]} failed, {sums[2]} skipped")
    return 1 if sums[1] else 0


if __name__ == "__main__":
    sys.exit(main())
