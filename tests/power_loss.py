"""Power is lost at a random moment while a server with a store and registered documents works.

    python tests/power_loss.py [--n 20] [--seed 1] [--steps 40] [--cuts 8] [--build build]

For each seed a server runs under tests/support/power.c, which logs every change of its files: documents are
registered, replaced and deleted, and chats fill the store. Then, for `cuts` random moments, tests/support/power.py
makes the folder that a loss of power at that moment may leave. In it: no byte of a document whose deletion had been
confirmed; and a server opens it, has every document whose registration had been confirmed and none whose deletion had
been, and answers every call as one does that has never lost anything. After a regular end, copies that were in the
store are there, too.
"""
import argparse
import collections
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/support")]
import faults  # noqa: E402
import power  # noqa: E402

NAMES = ["d0", "d1", "d2", "d3"]
KEEPERS = ["Keeper271828182", "Keeper314159265", "Keeper161803398"]
CHAT = {**faults.ANSWER, "messages": faults.say("What is in the harbour?")}
CALLS = [{**CHAT, "documents": [faults.BOATS]}, {**CHAT, "documents": [faults.BOATS, faults.HARBOUR]},
         {**CHAT, "documents": [faults.HARBOUR]}, CHAT]


class Finding(AssertionError):
    pass


def check(holds, *what):
    if not holds:
        raise Finding(" ".join(str(x)[:800] for x in what))


class Environment:
    """What faults.Server takes for its environment."""

    def __init__(self, **variables):
        self.variables = variables

    def env(self, below):
        return {k: str(v) for k, v in self.variables.items()}


def text_of(name, keeper):
    return f"{faults.STORY.format(keeper)} This is about {name}, where the piers are made of stone."


def body_of(name, keeper):
    return {"id": name, "title": name.title(), "text": text_of(name, keeper), "replace": True}


def ask_about(name):
    return {**faults.ANSWER, "messages": faults.say("Who is the keeper?"), "documents": [{"id": name}]}


def open_server(args, folder, environment):
    (folder / "store").mkdir(parents=True, exist_ok=True)
    server = faults.Server(ROOT / args.build / "spolia", ROOT / "demo/model.gguf", folder / "store", environment,
                           more=["--store-max", "2M", "--kv-memory", "4", "--documents",
                                 folder / "store/documents.db"])
    check(server.started, "the server does not start:", (folder / "log").read_text()[-2000:])
    return server


def right_answers(args, folder):
    """Of a server that loses nothing: {(name, keeper) or a call's number: essence}"""
    server = open_server(args, folder, Environment())
    right = {}
    for k, body in enumerate(CALLS):
        right[k] = faults.essence(server.call("/v1/chat/completions", body)[1])
    for name in NAMES:
        for keeper in KEEPERS:
            check(server.call("/v1/documents", body_of(name, keeper))[0] in (200, 201), "no registration")
            right[name, keeper] = faults.essence(server.call("/v1/chat/completions", ask_about(name))[1])
    server.stop()
    return right


class Run:
    """A server at work, and what it confirmed when."""

    def __init__(self, args, seed, folder, preload, right):
        self.args, self.rng, self.folder, self.right = args, random.Random(seed), folder, right
        self.store, self.log = folder / "store", folder / "changes"
        folder.mkdir()
        self.log.touch()
        self.server = open_server(args, folder, Environment(LD_PRELOAD=preload, SPOLIA_POWER_LOG=self.log,
                                                            SPOLIA_POWER_DIR=self.store))
        self.events = []  # (began, confirmed, name, keeper or None): sizes of the log

    def change(self, method, name, keeper):
        began = self.log.stat().st_size
        if keeper:
            status, answer = self.server.call("/v1/documents", body_of(name, keeper))
        else:
            status, answer = self.server.call(f"/v1/documents/{name}", method="DELETE")
            check(status == 404 or answer.get("deleted"), name, status, answer)
        check(status in (200, 201, 404), method, name, status, answer)
        self.events.append((began, self.log.stat().st_size, name, keeper))

    def ask(self):
        k = self.rng.randrange(len(CALLS))
        status, answer = self.server.call("/v1/chat/completions", CALLS[k])
        check(status == 200 and faults.essence(answer) == self.right[k], "call", k, status, answer)

    def work(self):
        for _ in range(self.args.steps):
            what = self.rng.random()
            name = self.rng.choice(NAMES)
            if what < 0.35:
                self.change("PUT", name, self.rng.choice(KEEPERS))
            elif what < 0.6:
                self.change("DELETE", name, None)
            elif what < 0.8:
                self.server.call("/v1/chat/completions", ask_about(name))
            else:
                self.ask()
        self.clean = self.rng.random() < 0.5
        code = self.server.stop(signal.SIGTERM if self.clean else signal.SIGKILL)
        check(not self.clean or code == 0, "the server ends with", code)
        self.records = power.read_log(self.log)
        check(len(self.records) > self.args.steps, "nothing was logged")

    def promised(self, end):
        """{name: what it may be when the log had `end` bytes}: keepers, or None for not registered."""
        may = {name: {None} for name in NAMES}
        for began, confirmed, name, keeper in self.events:
            if confirmed <= end:
                may[name] = {keeper}
            elif began < end:
                may[name] = may[name] | {keeper}
        return may

    def moments(self):
        """Random ones, some of them just after something was confirmed; the end, if that was regular."""
        ends = [r.end for r in self.records]
        chosen = [self.rng.choice(ends) for _ in range(self.args.cuts // 2)]
        chosen += [self.rng.choice(self.events)[1] for _ in range(self.args.cuts - len(chosen))]
        return chosen + [ends[-1]] * self.clean


def check_gone(folder, may):
    """Nobody's words but those that may be there."""
    for path in (p for p in folder.rglob("*") if p.is_file()):
        data = path.read_bytes()
        for name, keepers in may.items():
            for keeper in KEEPERS:
                gone = keeper not in keepers and text_of(name, keeper).encode() in data
                check(not gone, f"the text of {name} with {keeper} is in {path.name}, which may be {keepers}")


def from_disk(server, right):
    """How many documents of the calls came from the store; the answers are right."""
    n = 0
    for k, body in enumerate(CALLS):
        status, answer = server.call("/v1/chat/completions", body)
        check(status == 200 and faults.essence(answer) == right[k], "call", k, status, answer)
        n += sum(d["from"] == "disk" for d in answer["spolia"]["documents"])
    return n


def check_store(run, counts, n):
    """After a regular end all that the server had written was synced: nothing was lost."""
    server = open_server(run.args, run.folder, Environment())
    try:
        wanted = from_disk(server, run.right)
        check(n == wanted, n, "documents are loaded from the store, and without a loss", wanted)
        counts["whole stores"] += 1
    finally:
        server.process.kill()
        server.process.wait()


def check_moment(run, folder, end, counts):
    may = run.promised(end)
    power.leave(run.records, end, run.rng, run.store, folder / "store")
    check_gone(folder / "store", may)
    server = open_server(run.args, folder, Environment())
    try:
        for name, keepers in may.items():
            status, answer = server.call("/v1/chat/completions", ask_about(name))
            is_there = status == 200
            check(is_there or status == 404 or status == 400, name, status, answer)
            check(is_there or None in keepers, name, "is lost; it should be", keepers, answer)
            right = [run.right[name, k] for k in keepers if k]
            check(not is_there or faults.essence(answer) in right, name, "answers", answer, "and may be", keepers)
            counts["there" if is_there else "not there"] += 1
        n = from_disk(server, run.right)
        counts["loaded"] += n
        check(server.stop() == 0, "the server ends with", server.process.returncode)
    finally:
        if server.is_alive():
            server.process.kill()
            server.process.wait()
    if run.clean and end == run.records[-1].end:
        check_store(run, counts, n)


def one_seed(args, seed, top, preload, right, counts):
    run = Run(args, seed, top / str(seed), preload, right)
    try:
        run.work()
    finally:
        if run.server.is_alive():
            run.server.process.kill()
            run.server.process.wait()
    for i, end in enumerate(run.moments()):
        try:
            check_moment(run, top / f"{seed}-{i}", end, counts)
        except Finding as e:
            raise Finding(f"moment {i}, {end} bytes of the log: {e}") from e
        counts["moments"] += 1
        shutil.rmtree(top / f"{seed}-{i}", ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--n", type=int, default=20)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--cuts", type=int, default=8)
    parser.add_argument("--build", default="build")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for what a finding leaves")
    args = parser.parse_args()
    os.environ["SPOLIA_CONFIG"] = ""
    counts, n_bad = collections.Counter(), 0
    with tempfile.TemporaryDirectory(prefix="spolia-power-") as top:
        top = pathlib.Path(top)
        preload, right = power.build_preload(top, ROOT), right_answers(args, top / "right")
        for seed in range(args.seed, args.seed + args.n):
            try:
                one_seed(args, seed, top, preload, right, counts)
            except (Finding, subprocess.TimeoutExpired) as e:
                n_bad += 1
                print(f"seed {seed}: {e}", flush=True)
                if args.keep:
                    shutil.copytree(top, args.keep / str(seed))
            shutil.rmtree(top / str(seed), ignore_errors=True)
    print(f"{args.n} seeds, {counts['moments']} losses of power, {dict(counts)}: {n_bad} findings")
    return 1 if n_bad else 0


if __name__ == "__main__":
    sys.exit(main())
