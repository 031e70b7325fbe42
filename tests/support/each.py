"""tests/chaos.py --each: every allocation of a call fails once."""
import faults
from findings import Finding, check


def each_allocation(world, ask, before, found):
    """Calls until none of a call's allocations is left to fail; returns how many failed. Nothing fails in `before`."""
    n = 0
    while True:
        n += 1
        before()
        world.faults.fail_nth(n)
        world.noisy = True
        try:
            ask()
        except Finding as e:
            found.append(f"allocation {n}: {e}")
            print(found[-1][:1500], flush=True)
            if not world.server.is_alive():
                raise
        failed = world.faults.has_failed()
        world.faults.fail_nth(0)
        world.noisy = False
        if not failed:
            return n - 1


def each(world):
    found = []
    asks = [(path + " stream" * body.get("stream", False), lambda k=k: world.ask(k))
            for k, (path, body) in enumerate(world.calls)]
    asks += [(f"upload {name}", lambda name=name: world.upload(name)) for name in faults.FILES]
    asks += [(f"{f.__name__} d0", lambda f=f: f("d0")) for f in (world.put, world.get, world.delete)]
    for what, ask in [a for a in asks if world.args.only in a[0]]:
        before = (lambda: world.put("d0")) if what == "delete d0" else lambda: None
        print(f"{what}: {each_allocation(world, ask, before, found)} allocations", flush=True)
    check(not found, len(found), "findings:\n" + "\n".join(x[:1500] for x in found))
