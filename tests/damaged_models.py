"""Damaged model files: whatever a GGUF file or a folder holds, the program computes it or refuses it in one line.

    python tests/damaged_models.py [--n 500] [--seed 1] [--build build]

Each file is one of tests/golden's small random models, as GGUF or as a folder, or one of every weight type, in which
bits, bytes, numbers or lengths are changed; two of three changes are in the part that describes the tensors. A file
is named by its seed, so `--seed 17 --n 1` repeats one. Built with sanitizers, their reports are findings, too.
"""
import argparse
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from reference import random_model, to_gguf  # noqa: E402
from reference.architectures import NOT_GGUF, draw, write_folder  # noqa: E402

TYPES = ("q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs", "mxfp4")
NUMBERS = (0, 1, 2, 3, 7, 31, 32, 255, 65535, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**48, 2**63 - 1, 2**63, 2**64 - 1)
SANITIZERS = {"ASAN_OPTIONS": "exitcode=99:allocator_may_return_null=1:detect_leaks=1",
              "UBSAN_OPTIONS": "exitcode=99:halt_on_error=1:print_stacktrace=1"}


# -- changes ---------------------------------------------------------------------------------------

def flip_bits(data, at, rng):
    for _ in range(rng.randint(1, 8)):
        data[min(at + rng.randrange(64), len(data) - 1)] ^= 1 << rng.randrange(8)


def set_bytes(data, at, rng):
    n = rng.randint(1, 16)
    data[at:at + n] = rng.randbytes(len(data[at:at + n]))


def set_number(data, at, rng):
    size = rng.choice((1, 2, 4, 8))
    at -= at % size
    data[at:at + size] = struct.pack("<Q", rng.choice(NUMBERS))[:size]


def cut_off(data, at, rng):
    del data[at:]


def remove(data, at, rng):
    del data[at:at + rng.choice((1, 4, 8, 32, 1000))]


def insert(data, at, rng):
    data[at:at] = rng.randbytes(rng.choice((1, 4, 8, 32, 1000)))


def repeat(data, at, rng):
    data[at:at] = data[at:at + rng.choice((8, 64, 512))]


CHANGES = (flip_bits, flip_bits, set_bytes, set_number, set_number, set_number, cut_off, remove, insert, repeat)


def damage(path, rng):
    """Changes a file; the part that describes it is in its first bytes. What was done, for the reader."""
    data = bytearray(path.read_bytes())
    described = min(len(data), 3 << 10)
    done = []
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        change = rng.choice(CHANGES)
        at = rng.randrange(described if rng.random() < 2 / 3 else len(data)) if data else 0
        change(data, at, rng)
        done.append(f"{change.__name__} at {at}")
    path.write_bytes(data)
    return ", ".join(done)


# -- files -----------------------------------------------------------------------------------------

class Models:
    """Whole models, each written once: copies of them are damaged."""

    def __init__(self, home):
        self.home = home
        self.golden = json.loads((ROOT / "tests/golden/architectures.json").read_text())
        self.names = [(name, kind) for name in self.golden for kind in ("folder", "gguf")
                      if kind == "folder" or self.golden[name]["config"]["model_type"] not in NOT_GGUF]
        self.names += [(kind, "type") for kind in TYPES] * 3

    def whole(self, name, kind):
        path = self.home / f"{name}.{kind}"
        if path.exists():
            return path
        if kind == "type":
            random_model.write_gguf(path, random_model.PRESETS["tiny-wide"], name)
            return path
        config, shapes = self.golden[name]["config"], self.golden[name]["tensors"]
        if kind == "folder":
            write_folder(path, config, shapes)
        else:
            to_gguf.write(path, config, draw(config, shapes))
        return path

    def damaged(self, to, rng):
        """A damaged model at `to`; what was done."""
        name, kind = rng.choice(self.names)
        whole = self.whole(name, kind)
        if kind != "folder":
            shutil.copy(whole, to)
            return f"{name} ({kind}): {damage(to, rng)}"
        shutil.copytree(whole, to)
        part = rng.choice(sorted(path for path in to.iterdir()))
        return f"{name}/{part.name}: {damage(part, rng)}"


def finding(program, path):
    """Runs the program on a file: (whether it was computed, what is wrong or None)."""
    env = {**os.environ, **SANITIZERS, "XDG_CACHE_HOME": str(path.parent / "cache")}
    command = [program, "logits", "-m", path, "--tokens", "1,2,3,4,5", "-c", "64", "-t", "1"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=env, timeout=300)
    except subprocess.TimeoutExpired:
        return False, "no end in 300 seconds"
    said = done.stderr.strip()
    if "Sanitizer" in said or "runtime error" in said or done.returncode not in (0, 1):
        return False, f"exit code {done.returncode}: {said[:2000]}"
    if done.returncode == 1 and not (said.splitlines()[-1:] or [""])[0].startswith("spolia: "):
        return False, f"refused without a line: {said[:500]}"
    return done.returncode == 0, None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=500, help="files")
    parser.add_argument("--seed", type=int, default=1, help="of the first file")
    parser.add_argument("--build", default="build", help="folder of the program")
    given = parser.parse_args()
    results = Counter()
    with tempfile.TemporaryDirectory(prefix="spolia-damaged-") as folder:
        home = Path(folder)
        models = Models(home)
        for seed in range(given.seed, given.seed + given.n):
            path = home / "model.gguf"
            done = models.damaged(path, random.Random(seed))
            computed, wrong = finding(ROOT / given.build / "spolia", path)
            results["finding" if wrong else "computed" if computed else "refused"] += 1
            if wrong:
                print(f"seed {seed}, {done}: {wrong}", flush=True)
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    print(f"{given.n} files: {results['refused']} refused, {results['computed']} computed, {results['finding']} findings")
    return 1 if results["finding"] else 0


if __name__ == "__main__":
    sys.exit(main())
