"""What all benches share: numbers among their options, servers and stores that end with the bench, and mistakes that end it in a sentence.
"""
import argparse
import contextlib
import json
import math
import os
import pathlib
import shlex
import signal
import sqlite3
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


# -- options ---------------------------------------------------------------------------------------

def count(value: str) -> int:
    """An argument's type: a whole number above 0."""
    with contextlib.suppress(ValueError):
        if int(value) > 0:
            return int(value)
    raise argparse.ArgumentTypeError(f'"{value}" is not a whole number above 0')


def numbers(least, most=math.inf, kind=int):
    """An argument's type: numbers from least to most, with commas between them."""
    def parse(value: str) -> list:
        with contextlib.suppress(ValueError):
            got = [kind(x) for x in value.split(",")]
            if all(least <= x <= most for x in got):
                return got
        to = f" to {most}" if most < math.inf else " on"
        raise argparse.ArgumentTypeError(f'"{value}" is not a list of numbers from {least}{to}, with commas between them')
    return parse


def fill(command: str, **values) -> str:
    """A peer's command with its {placeholders} filled."""
    try:
        return command.format(**values)
    except (KeyError, IndexError, ValueError):
        sys.exit(f"--peer: \"{command}\": placeholders are {', '.join(f'{{{name}}}' for name in values)}")


# -- mistakes --------------------------------------------------------------------------------------

def sentence(e: Exception) -> str:
    """What a user has to know of an error that is not the bench's."""
    if isinstance(e, subprocess.CalledProcessError):
        said = e.stderr.decode(errors="replace") if isinstance(e.stderr, bytes) else e.stderr or ""
        command = shlex.join(map(str, e.cmd)) if isinstance(e.cmd, (list, tuple)) else str(e.cmd)
        return f"{said.strip() or f'exit code {e.returncode}'}: {command}"
    if isinstance(e, json.JSONDecodeError):
        return f"no JSON: {e.doc.strip()[:60] or 'nothing'}"
    if isinstance(e, OSError) and e.strerror:
        return f"{e.filename}: {e.strerror}" if e.filename else e.strerror
    return str(e)


def run(main) -> None:
    """Ends with main's exit code. A file that is not there, a program that fails, an interruption: a sentence, no traceback. SIGTERM, too,
    lets a bench end what it has started."""
    name = pathlib.Path(sys.argv[0]).stem
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(f"{name}: terminated"))
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # who reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except (OSError, subprocess.CalledProcessError, sqlite3.Error, json.JSONDecodeError) as e:
        code = f"{name}: {sentence(e)}"
    except KeyboardInterrupt:
        code = f"{name}: interrupted"
    sys.exit(code)


# -- programs and files ----------------------------------------------------------------------------

class Server:
    """`spolia serve`, or another program that prints its address, for as long as a `with` lasts. Exits where it does not start: the server
    has said why."""

    def __init__(self, command: list, **options):
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True, **options)
        try:
            line = self.process.stdout.readline()
        except BaseException:
            self.stop()
            raise
        if not line.startswith("listening on "):
            self.stop()
            sys.exit(f"{pathlib.Path(sys.argv[0]).stem}: no server: {shlex.join(self.process.args)}")
        self.url = line.split()[-1]

    def stop(self) -> int:
        """The exit code."""
        self.process.terminate()
        code = self.process.wait()
        self.process.stdout.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def lines(path, *fields) -> list:
    """The objects of a file of JSON lines. Exits where one is none, or lacks a field."""
    out = []
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except json.JSONDecodeError as e:
                sys.exit(f"{path}: line {number}: {e.msg}")
            if missing := [x for x in fields if not isinstance(value, dict) or x not in value]:
                sys.exit(f"{path}: line {number}: no field {missing[0]}")
            out.append(value)
    return out


def database(path) -> sqlite3.Connection:
    """An index, to be read."""
    open(path, "rb").close()
    try:
        db = sqlite3.connect(f"{pathlib.Path(path).absolute().as_uri()}?mode=ro", uri=True)
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return db
    except sqlite3.Error as e:
        sys.exit(f"{path}: {e}")
