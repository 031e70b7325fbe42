"""Faults at random, from one seed, over a whole server: allocations that fail, reads, writes and syncs that fail,
hang, are short or find the disk full, files that cannot be opened, looked at, cut or removed, a wall clock that jumps,
kills, restarts and starts amid faults, while clients ask and documents come and go.

    python tests/chaos.py [--seed 1] [--n 10] [--steps 60] [--kinds allocation,read,...,kill,clock] [--build build]
                          [--minutes M] [--hours H] [--one-server] [--each [--only PATH]]

After every step: an answer with status 200 is that of a run without faults; anything else is an error, and only while
there are faults. The text of a document whose deletion was confirmed is in no file. At the end of a seed, without
faults: every call is answered rightly, documents are those that were registered, no block of KV is lost, no thread and
no open file is left over, and the server ends with 0. With --minutes, a seed begins no step after M minutes; with
--hours, no seed begins after H hours; with --one-server, a seed restarts no server. With --each, nothing is random:
the first allocation of a call fails, then the second, until one call needed no more, and so for every kind of call
(--only: whose path has this). A finding prints the seed that repeats its steps; threads may still take turns
differently.
"""
import argparse
import collections
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/support")]
import faults  # noqa: E402
from reference import encoder  # noqa: E402

MOST = {"allocation": 2000, "read": 40, "write": 40, "full": 40, "short": 10, "sync": 20, "hang": 200, "open": 20, "change": 10,
        "stat": 20}
KINDS = [*MOST, "clock", "kill"]


class Finding(AssertionError):
    pass


def check(holds, *what):
    if not holds:
        raise Finding(" ".join(str(x)[:6000] for x in what))


class World:
    def __init__(self, args, folder, seed, right, preload, embedding):
        self.args, self.seed, self.right, self.rng = args, seed, right, random.Random(seed)
        self.folder, self.embedding, self.calls = folder, embedding, faults.requests_of(embedding)
        (folder / "store").mkdir()
        self.faults = faults.Faults(folder, preload)
        self.counts = collections.Counter()
        self.ids = {}  # document -> its text, None when it is gone, "?" when nobody can say
        self.noisy, self.changer = False, None
        self.start()
        self.check_put("kept", "Anna Berg")

    def try_start(self):
        program = ROOT / self.args.build / "spolia"
        self.server = faults.Server(program, ROOT / "demo/model.gguf", self.folder / "store", self.faults,
                                    self.embedding)
        return self.server.started

    def start(self):
        check(self.try_start(), "the server does not start", (self.folder / "log").read_text()[-2000:])

    def quiet(self):
        self.faults.set()
        self.faults.jump(0)
        self.noisy = False

    def may_fail(self):
        return self.noisy or threading.current_thread() is self.changer

    def call(self, path, body=None, method=None):
        status, answer = self.server.call(path, body, method)
        self.counts[status] += 1
        if status == 0 or status >= 500:
            check(self.may_fail(), "without faults", path, "is", status, answer, self.server.process.poll(),
                  (self.folder / "log").read_text()[-600:])
            check(self.server.is_alive(), "the server died:", (self.folder / "log").read_text()[-3000:])
        return status, answer

    # -- steps

    def ask(self, k=None):
        k = self.rng.randrange(len(self.calls)) if k is None else k
        path, body = self.calls[k]
        status, answer = self.call(path, body)
        if status == 200:
            right = self.right[k]
            check(faults.essence(answer) == right, "call", k, path, "answers", answer, "and not", right)
        else:
            check(status in (0, 429, 500, 503, 507), "call", k, path, "is", status, answer)

    def check_put(self, name, keeper):
        text = faults.STORY.format(keeper)
        status, answer = self.call("/v1/documents", {"id": name, "title": name.title(), "text": text, "replace": True})
        check(status in (201, 200) or self.may_fail(), status, answer)
        self.ids[name] = text if status in (200, 201) else "?"

    def put(self, name=None):
        name = name or f"d{self.rng.randrange(4)}"
        self.check_put(name, f"Keeper{self.rng.randrange(10**9):09}")

    def upload(self, name=None):
        name = name or self.rng.choice(list(faults.FILES))
        status, answer = faults.upload(self.server, name)
        self.counts[status] += 1
        check(status == 201 or (self.noisy and status in (0, 500, 503)), "a file is", status, answer)
        right = self.args.files[name]
        check(status != 201 or answer == right, name, "is read as", answer, "not", right)

    def get(self, name=None):
        name = name or f"d{self.rng.randrange(4)}"
        status, answer = self.call(f"/v1/documents/{name}")
        known = self.ids.get(name)
        if known != "?" and status in (200, 404):
            check((status == 200) == (known is not None), name, "is", status, "and should be", known)

    def ask_about(self):
        name = f"d{self.rng.randrange(4)}"
        known = self.ids.get(name)
        body = {**faults.ANSWER, "messages": faults.say("Who is the keeper?"), "documents": [{"id": name}]}
        status, answer = self.call("/v1/chat/completions", body)
        if status == 200:
            check(known is not None, name, "was deleted, and is answered from", answer)
        if known is None and not self.noisy:
            check(status != 200, name, "is unknown", answer)

    def delete(self, name=None):
        name = name or f"d{self.rng.randrange(4)}"
        known = self.ids.get(name)
        status, answer = self.call(f"/v1/documents/{name}", method="DELETE")
        if status == 200:
            self.ids[name] = None
            if known not in (None, "?") and answer.get("deleted") and not answer.get("pending"):
                self.check_gone(known)
        elif status == 404:
            check(known in (None, "?"), name, "is registered, and its deletion says 404")
            self.ids[name] = None
        else:
            self.ids[name] = "?"

    def check_gone(self, text):
        word = text[text.index("Keeper"):].split()[0].encode()
        for path in (self.folder / "store").rglob("*"):
            check(not path.is_file() or word not in path.read_bytes(), word, "is in", path, "after its deletion")

    def fault(self):
        kinds = [k for k in self.args.kinds if k != "kill"]
        chosen = self.rng.sample(kinds, self.rng.randint(0, min(2, len(kinds))))
        self.faults.set(self.rng.getrandbits(32), self.rng.choice([5, 200, 3000]),
                        **{k: max(2, self.rng.randrange(MOST[k] // 4, MOST[k] * 2)) for k in chosen if k in MOST})
        self.faults.jump(self.rng.choice([-1, 1]) * self.rng.randrange(10**9) if "clock" in chosen else 0)
        self.noisy = bool(chosen)

    def hang(self):
        """While every call for a file of the store hangs, changes of documents wait, or end with an error after a
        while, and other requests do not."""
        if "hang" not in self.args.kinds:
            return
        self.quiet()
        name, keeper = f"d{self.rng.randrange(4)}", f"Keeper{self.rng.randrange(10**9):09}"
        changes = [lambda: self.delete(name), lambda: self.check_put(name, keeper)]
        free = [k for k, (_, body) in enumerate(self.calls) if "kept" not in str(body)]
        chosen = [self.rng.choice(free) for _ in range(3)]
        self.faults.set(0, 10**9, hang=1)
        found = []

        def change():
            try:
                for x in changes:
                    x()
            except Finding as e:
                found.append(e)

        self.changer = threading.Thread(target=change)
        self.changer.start()
        try:
            for k in chosen:
                self.ask(k)
            check(self.call("/health")[0] in (200, 503), "no health while the disk hangs")
        finally:
            self.quiet()
            self.changer.join()
        if found:
            raise found[0]

    def restart(self):
        hard = "kill" in self.args.kinds and self.rng.random() < 0.7
        if not hard:
            self.quiet()
        code = self.server.stop(signal.SIGKILL if hard else signal.SIGTERM)
        check(hard or code == 0, "the server ends with", code, (self.folder / "log").read_text()[-2000:])
        self.check_log()
        self.quiet()
        if self.rng.random() < 0.4 and self.start_amid_faults():
            return
        self.quiet()
        self.start()

    def start_amid_faults(self):
        """A server that cannot start says so, and ends as it should."""
        self.fault()
        if self.try_start():
            return True
        self.server.process.wait(300)
        self.counts["no start"] += 1
        code, log = self.server.process.returncode, (self.folder / "log").read_text()
        check(self.noisy and code in (1, 2), "a server that cannot start ends with", code, log[-3000:])
        return False

    def check_log(self):
        log = (self.folder / "log").read_text()
        at = log.find("Sanitizer")
        check(at < 0, log[max(0, at - 500):at + 5000])

    def step(self):
        steps = {self.ask: 10, self.put: 2, self.upload: 2, self.get: 2, self.ask_about: 2, self.delete: 2,
                 self.fault: 3, self.hang: 0.5,
                 self.restart: 0 if self.args.one_server else 0.4}
        self.rng.choices(list(steps), list(steps.values()))[0]()
        if not self.server.is_alive():
            raise Finding("the server died: " + (self.folder / "log").read_text()[-3000:])

    def each_allocation(self, ask, before, found):
        """Calls until none of a call's allocations is left to fail; returns how many failed. Nothing fails in
        `before`."""
        n = 0
        while True:
            n += 1
            before()
            self.faults.fail_nth(n)
            self.noisy = True
            try:
                ask()
            except Finding as e:
                found.append(f"allocation {n}: {e}")
                if not self.server.is_alive():
                    raise
            failed = self.faults.has_failed()
            self.faults.fail_nth(0)
            self.noisy = False
            if not failed:
                return n - 1

    def each(self):
        found = []
        asks = [(path + " stream" * body.get("stream", False), lambda k=k: self.ask(k))
                for k, (path, body) in enumerate(self.calls)]
        asks += [(f"upload {name}", lambda name=name: self.upload(name)) for name in faults.FILES]
        asks += [(f"{f.__name__} d0", lambda f=f: f("d0")) for f in (self.put, self.get, self.delete)]
        for what, ask in [a for a in asks if self.args.only in a[0]]:
            before = (lambda: self.put("d0")) if what == "delete d0" else lambda: None
            print(f"{what}: {self.each_allocation(ask, before, found)} allocations", flush=True)
        check(not found, len(found), "findings:\n" + "\n".join(x[:1500] for x in found))

    # -- the end

    def wait(self, holds, *what):
        end = time.time() + 300
        while not holds():
            check(time.time() < end, *what)
            time.sleep(0.1)

    def end(self):
        self.quiet()
        server = self.server
        self.wait(lambda: server.call("/health")[0] == 200, "health is", server.call("/health"))
        for name in [n for n, known in self.ids.items() if known == "?"]:
            status, answer = self.call(f"/v1/documents/{name}", method="DELETE")
            check(status in (200, 404), name, status, answer)
            self.ids[name] = None
        listed = {d["id"] for d in self.call("/v1/documents?limit=100")[1]["data"]}
        listed -= set(faults.FILES)
        check(listed == {n for n, known in self.ids.items() if known}, "listed are", listed, "and not", self.ids)
        for k, (path, body) in enumerate(self.calls):
            status, answer = self.call(path, body)
            good = status == 200 and faults.essence(answer) == self.right[k]
            check(good, "at the end, call", k, path, status, answer)
        self.wait(lambda: server.metric("num_requests_running") == 0, "requests run on")
        lost = lambda: server.metric("kv_blocks") - server.metric("kv_blocks_free") - server.metric("cached_blocks")
        self.wait(lambda: lost() == 0, "blocks are lost:", lost())
        self.wait(lambda: server.tasks() <= self.args.tasks + 2, "threads:", server.tasks(), "of", self.args.tasks)
        self.wait(lambda: server.files() <= self.args.open_files + 8, "open files:", server.files(), "of",
                  self.args.open_files)
        check(server.stop() == 0, "the server ends with", server.process.returncode,
              (self.folder / "log").read_text()[-3000:])
        self.check_log()

    def run(self):
        """The steps taken."""
        if self.args.each:
            self.each()
            self.end()
            return 0
        until = time.time() + 60 * self.args.minutes
        n = 0
        while n < self.args.steps and time.time() < until:
            self.step()
            n += 1
        self.end()
        return n


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--n", type=int, default=10)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--build", default="build")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="of the steps of one seed")
    parser.add_argument("--hours", type=float, default=float("inf"), help="of all seeds: none begins afterwards")
    parser.add_argument("--one-server", action="store_true", help="a seed's server lives to its end")
    parser.add_argument("--each", action="store_true", help="each allocation of each call fails once")
    parser.add_argument("--only", default="", help="with --each: calls with this in their paths")
    args = parser.parse_args()
    args.kinds = args.kinds.split(",")
    if not set(args.kinds) <= set(KINDS):
        parser.error(f"--kinds: some of {','.join(KINDS)}")
    began, n_seeds, n_bad, n_steps = time.time(), 0, 0, 0
    total, n_faults = collections.Counter(), collections.Counter()
    with tempfile.TemporaryDirectory(prefix="spolia-chaos-") as top:
        top = pathlib.Path(top)
        preload = faults.build_preload(top, ROOT)
        embedding = encoder.write_folder(top / "tiny-encoder", longest=32)
        (top / "right").mkdir()
        args.tasks, args.open_files, right, steps = 0, 0, None, args.steps
        args.steps = 0
        first = World(args, top / "right", 0, None, preload, embedding)
        right = faults.right_answers(first.server, first.calls)
        args.files = {name: faults.upload(first.server, name)[1] for name in faults.FILES}
        args.tasks, args.open_files, args.steps = first.server.tasks(), first.server.files(), steps
        first.server.stop()
        for seed in range(args.seed, args.seed + args.n):
            if time.time() - began > 3600 * args.hours:
                break
            n_seeds += 1
            folder = top / str(seed)
            folder.mkdir()
            world = None
            try:
                world = World(args, folder, seed, right, preload, embedding)
                n_steps += world.run()
            except (Finding, subprocess.TimeoutExpired) as e:
                n_bad += 1
                print(f"seed {seed}: {e}", flush=True)
            finally:
                if world:
                    total += world.counts
                    n_faults.update(world.faults.n_failed())
                    if world.server.is_alive():
                        world.server.process.kill()
                        world.server.process.wait()
            shutil.rmtree(folder, ignore_errors=True)
            print(f"seed {seed}: {dict(total)} answers by status so far, {sum(n_faults.values())} faults, "
                  f"{(time.time() - began) / 3600:.3f} hours", flush=True)
    hours = (time.time() - began) / 3600
    print(f"{n_seeds} seeds, {n_steps} steps, {sum(total.values())} calls, faults {dict(n_faults)}: {n_bad} findings, "
          f"{hours:.2f} hours")
    return 1 if n_bad else 0


if __name__ == "__main__":
    sys.exit(main())
