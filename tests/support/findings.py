"""What tests/chaos.py finds, and what came before it."""
import collections
import json
import threading


class Finding(AssertionError):
    pass


def check(holds, *what):
    if not holds:
        raise Finding(" ".join(str(x)[:6000] for x in what))


def at_once(*functions):
    """Runs each in a thread, and raises what one of them has found."""
    found = []

    def run(function):
        try:
            function()
        except Finding as e:
            found.append(e)

    threads = [threading.Thread(target=run, args=(f,)) for f in functions]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if found:
        raise found[0]


class Trail:
    """The last steps, faults and calls."""

    def __init__(self, most=40):
        self.lines = collections.deque(maxlen=most)

    def step(self, function):
        self.lines.append(f"step {function.__name__}")

    def faults(self, what):
        self.lines.append(f"  faults {what or 'end'}")

    def call(self, method, path, body, status, answer):
        said = "" if status in (200, 201) else str(answer)[:150]
        sent = "" if body is None else json.dumps(body)[:1000]
        self.lines.append(f"  {method or ('GET' if body is None else 'POST')} {path} {sent} -> {status} {said}")

    def __str__(self):
        return "\n".join(["before it:", *self.lines])
