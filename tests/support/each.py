"""tests/chaos.py --each: every call of a kind that a scene makes fails once: an allocation, or a call for a file."""
import signal
import time

import faults
from findings import Finding, check

SETTLES_S, MOST_S = 0.05, 1  # what is written in the background has begun by then; what is tried again goes on


def wait_for_writes(world):
    """Until no call of the kind is made any more: copies are written after the answer."""
    last, until = None, time.time() + MOST_S
    while last != world.faults.progress() and time.time() < until:
        last = world.faults.progress()
        time.sleep(SETTLES_S)


def each_call(world, scene, found):
    """Plays a scene until none of its calls is left to fail; returns how many failed. Nothing fails in `before`."""
    n = 0
    while True:
        n += 1
        scene.before()
        kind = world.args.each
        world.faults.fail_nth(n, kind, world.args.then)
        world.noisy = True
        try:
            scene.play()
        except Finding as e:
            found.append(f"{scene.name}: {kind} {n}: {e}")
            print(found[-1][:1500], flush=True)
            if not world.server.is_alive() and not world.may_die():
                raise
        if kind != "allocation":
            wait_for_writes(world)
        failed = world.faults.has_failed()
        world.faults.fail_nth(0)
        if world.faults.killed() == world.server.process.pid:
            world.server.process.wait()
            world.start()
        world.noisy = False
        if not failed:
            return n - 1


class Scene:
    def __init__(self, name, play, before=lambda: None):
        self.name, self.play, self.before = name, play, before


def calls(world):
    """Those whose answers are known; a full memory has let go of the copies that they read."""
    before = world.fill_memory if world.args.each != "allocation" and world.variant.rest else lambda: None
    return [Scene(f"{path} {k}" + " stream" * body.get("stream", False), lambda k=k: world.ask(k), before)
            for k, (path, body) in enumerate(world.calls)]


def changes(world):
    """Of a document, and of one of a collection. One that is put replaces one for which nothing is left to erase: else
    it would need more calls each time."""
    uploads = [(name, lambda name=name: world.upload(name)) for name in faults.FILES]
    scenes = [Scene(f"upload {name}", play, before=play) for name, play in uploads]
    for name in ["d0", "c0"][:1 + world.variant.collects]:
        def put(name=name):
            world.put(name)

        def ask(name=name):
            world.ask_about(name, alone=True) if name == "d0" else world.ask_collection()

        def known(put=put, ask=ask):
            put()
            ask()

        scenes += [Scene(f"put {name}", put, put), Scene(f"get {name}", lambda name=name: world.get(name), put),
                   Scene(f"ask {name}", ask, put), Scene(f"delete {name}", lambda name=name: world.delete(name), known)]
    return scenes


def ends(world):
    """What a server does before it listens and when it ends, and what is done to its store meanwhile."""
    def know():
        world.put("d0")
        world.ask_about("d0", alone=True)

    def stop():
        know()
        world.stop(hard=world.rng.random() < 0.5)

    def check_code(what, *right):
        code, log = world.server.process.wait(300), (world.folder / "log").read_text()
        check(code in right or (world.may_die() and code == -signal.SIGKILL), what, code, log[-3000:])

    def end():
        world.server.process.terminate()
        check_code("the server ends with", 0, 1)
        world.faults.fail_nth(0)
        world.start()

    def start():
        if world.try_start():
            return
        check_code("a server that cannot start ends with", 1, 2)
        world.faults.fail_nth(0)
        world.start()

    def trim():
        world.cache("gc", "--budget", "50K", "--store", world.folder / "store")
        if world.shared:
            world.cache("gc", "--remote", world.shared.url)
        world.faults.fail_nth(0)
        world.start()

    return [Scene("end", end, know), Scene("start", start, stop), Scene("gc", trim, stop)]


def each(world):
    found = []
    scenes = calls(world) + changes(world) + ends(world)
    for scene in [s for s in scenes if world.args.only in s.name]:
        print(f"{scene.name}: {each_call(world, scene, found)} calls of {world.args.each}", flush=True)
    check(not found, len(found), "findings:\n" + "\n".join(x[:1500] for x in found))
