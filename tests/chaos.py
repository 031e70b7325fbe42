"""Faults at random, from one seed, over a whole server: allocations that fail, reads, writes and syncs that fail,
hang, are short or find the disk full, files that cannot be opened, looked at, cut or removed, a wall clock that jumps,
kills, restarts and starts amid faults, while clients ask and documents come and go.

    python tests/chaos.py [--seed 1] [--n 10] [--steps 60] [--kinds allocation,read,...,kill,clock] [--build build]
                          [--variant NAME] [--minutes M] [--hours H] [--one-server]
    python tests/chaos.py --each [KIND] [--then "fail on"|die] [--only NAME] [--variant NAME] [--build build]

After every step: an answer with status 200 is that of a run without faults, or, where the policy makes it depend on
what is cached, that of a server without faults that reuses the same copies (support/oracle.py), if that can be found
out, and its counts add up; anything else is an error, and only while there are faults. Of a document whose
deletion was confirmed, neither text nor tokens nor the ids of its segments are in a file or in what replicas share. At
the end of a seed, without faults: every call is answered rightly, documents are those that were registered, all
deletions end, no block of KV is lost, no thread and no open file is left over, and the server ends with 0. With
--minutes, a seed begins no step after M minutes; with --hours, no seed begins after H hours; with --one-server, a seed
restarts no server. With --each, nothing is random: the first allocation (or read, write, ...) of a scene fails, then
the second, until the scene needed no more, and so for every scene: a call, an upload, a change of a document, the end
and the start of a server, `cache gc` (--only: whose name has this). With --then, all calls of the kind after it fail,
too, or the server is killed there and started again. A finding prints the seed that repeats its steps, and the last
steps, faults and calls; threads may still take turns differently.
"""
import argparse
import collections
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/support")]
import faults  # noqa: E402
from findings import Finding  # noqa: E402
from reference import encoder  # noqa: E402
from variants import VARIANTS, available, table  # noqa: E402
from world import MOST, Norm, World  # noqa: E402

KINDS = [*MOST, "clock", "kill", "remote"]


class Campaign:
    """Seeds, and their sums."""

    def __init__(self, args, top):
        self.args, self.top, self.norms = args, top, {}
        self.began, self.n_seeds, self.n_bad, self.n_steps = time.time(), collections.Counter(), 0, 0
        self.answers, self.faults, self.seen = collections.Counter(), collections.Counter(), collections.Counter()
        self.compared = collections.Counter()
        args.preload = faults.build_preload(top, ROOT)
        args.embedding = encoder.write_folder(top / "tiny-encoder", longest=32)

    def hours(self):
        return (time.time() - self.began) / 3600

    def norm(self, variant):
        if variant not in self.norms:
            self.norms[variant] = Norm(self.args, self.top / f"norm-{variant}", variant)
        return self.norms[variant]

    def drive(self, seed):
        variant = self.args.variant or random.Random(f"variant {seed}").choice(available())
        folder, world = self.top / str(seed), None
        folder.mkdir()
        self.n_seeds[variant] += 1
        try:
            norm = self.norm(variant)
            world = World(self.args, folder, seed, variant, norm)
            self.n_steps += world.run()
        except (Finding, subprocess.TimeoutExpired) as e:
            self.n_bad += 1
            print(f"seed {seed}, {variant}: {e}\n{world and world.trail}", flush=True)
        finally:
            if world:
                self.add(world)
                world.close()
        shutil.rmtree(folder, ignore_errors=True)
        print(f"seed {seed}, {variant}: {dict(self.answers)} answers by status so far, {sum(self.faults.values())} "
              f"faults, {self.hours():.3f} hours", flush=True)

    def close(self):
        for norm in self.norms.values():
            if norm.oracle:
                norm.oracle.stop()

    def add(self, world):
        self.answers += world.counts
        self.faults.update(world.faults.n_failed())
        self.faults.update({"remote": world.shared.n_faults} if world.shared else {})
        self.seen += world.traces.seen
        self.compared += world.compared.counts

    def run(self):
        for seed in range(self.args.seed, self.args.seed + self.args.n):
            if self.hours() > self.args.hours:
                break
            self.drive(seed)
        print(f"{sum(self.n_seeds.values())} seeds {dict(self.n_seeds)}, {self.n_steps} steps, "
              f"{sum(self.answers.values())} calls, faults {dict(self.faults)}, copies seen before their deletion "
              f"{dict(self.seen)}, approximate answers {dict(self.compared)}: {self.n_bad} findings, "
              f"{self.hours():.2f} hours")
        return 1 if self.n_bad else 0


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], epilog="variants:\n" + table(),
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--n", type=int, default=10)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--variant", choices=VARIANTS, help="the kind of server; without it, each seed draws one")
    parser.add_argument("--build", default="build")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="of the steps of one seed")
    parser.add_argument("--hours", type=float, default=float("inf"), help="of all seeds: none begins afterwards")
    parser.add_argument("--one-server", action="store_true", help="a seed's server lives to its end")
    parser.add_argument("--each", nargs="?", const="allocation", choices=[k for k in faults.KINDS if k != "hang"],
                        help="each allocation of each scene fails once, or each call of this kind")
    parser.add_argument("--then", choices=faults.AFTER_NTH, default="go on",
                        help="with --each: those after it fail, too, until the scene ends; or the server is killed")
    parser.add_argument("--only", default="", help="with --each: scenes with this in their names")
    args = parser.parse_args()
    args.kinds = args.kinds.split(",")
    if not set(args.kinds) <= set(KINDS):
        parser.error(f"--kinds: some of {','.join(KINDS)}")
    if args.each:
        args.variant = args.variant or "prefix"
    return args


def main():
    args = options()
    with tempfile.TemporaryDirectory(prefix="spolia-chaos-") as top:
        campaign = Campaign(args, pathlib.Path(top))
        try:
            return campaign.run()
        finally:
            campaign.close()


if __name__ == "__main__":
    sys.exit(main())
