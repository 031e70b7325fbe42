"""Reading copies from the disk tier against fio's sequential read, in one sitting.

    make build/bench/tiers && python3 bench/tiers.py [--dir DIR] [--mib N] [--rounds N]

Both read around the system's cache (O_DIRECT), alternately; fio with blocks of 1 MiB and 16 in flight,
as many as two readers of the tier keep.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import shared


def fio_rate(folder: Path, mib: int) -> float:
    out = subprocess.run(
        ["fio", "--name=seq", f"--filename={folder}/fio.dat", f"--size={mib}M", "--rw=read", "--bs=1M", "--direct=1",
         "--ioengine=libaio", "--iodepth=16", "--output-format=json"],
        check=True, capture_output=True, text=True).stdout
    return json.loads(out[out.index("{"):])["jobs"][0]["read"]["bw_bytes"] / 1e9


def tier_rates(program: str, folder: Path, mib: int) -> list[float]:
    out = subprocess.run([program, "read", str(folder / "store"), str(mib)], check=True, capture_output=True, text=True)
    return [float(line.split(",")[1]) for line in out.stdout.splitlines()[1:]]


def main() -> int:
    args = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    args.add_argument("--program", default=str(shared.ROOT / "build/bench/tiers"))
    args.add_argument("--dir", help="of the files (the system's temporary folder)")
    args.add_argument("--mib", type=shared.count, default=1024)
    args.add_argument("--rounds", type=shared.count, default=3)
    o = args.parse_args()
    if not shutil.which("fio"):
        print("fio is not installed", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(dir=o.dir) as name:
        folder = Path(name)
        ratios = []
        for _ in range(o.rounds):
            tier, fio = statistics.median(tier_rates(o.program, folder, o.mib)), fio_rate(folder, o.mib)
            ratios.append(tier / fio)
            print(f"tier {tier:.2f} GB/s, fio {fio:.2f} GB/s, ratio {tier / fio:.2f}", flush=True)
        print(f"median ratio {statistics.median(ratios):.2f}")
    return 0


if __name__ == "__main__":
    shared.run(main)
