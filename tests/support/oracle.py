"""What an answer must be whose reuse is approximate: a server without faults is asked the same, and once it reused the
same copies, text and probabilities are equal. How a copy was made is said by the account: its kind and `origin`.

    full     all copies are plain: one answer for a prompt, whatever is cached
    fusion   what is computed for a prompt is a plain copy, too; fused copies are made here from the same texts
    craft    copies depend on all earlier prompts with the same system text: a Line has one of its own, and few asks
"""
import itertools
import time

import faults
from findings import check
from variants import KEYS

CHAT = "/v1/chat/completions"
TIERS = "host", "disk", "remote"
NEAR = 1e-4  # of logarithms of probabilities
WAIT = 120  # seconds for a precompute


def chunks(answer):
    return [s for s in answer["spolia"]["segments"] if s["kind"] == "chunk"]


def decision(answer):
    """What the answer depends on besides its prompt, if copies are plain or fused: fused ones. The first chunk is exact
    otherwise: no token of it is computed again."""
    return [(s["copy"], s["origin"]) if s["copy"] == "fused" else None for s in answer["spolia"]["segments"]]


def craft_decision(answer):
    keys = "copy", "origin", "patched", "tokens", "reused", "recomputed"
    return answer["spolia"]["dropped_tokens"], [[s[k] for k in keys] for s in chunks(answer)]


def inline(body, texts, answer):
    """The same prompt without registered documents; None if nobody can say."""
    documents = body.get("documents") or [{"id": d["id"]} for d in answer["spolia"]["documents"]]
    named = [d["id"] for d in documents if "id" in d and "type" not in d]
    if any(texts.get(name) in (None, "?") for name in named):
        return None
    documents = [{"title": d["id"].title(), "text": texts[d["id"]]} if d.get("id") in named else d for d in documents]
    return {**{k: v for k, v in body.items() if k != "collection"}, "documents": documents}


def wait_for(call, path, body, seconds, **more):
    """(status, state) of a precompute, once it has ended or after so many seconds."""
    end = time.time() + seconds
    status, state = call(path, body, **more)
    while status in (200, 202) and state["status"] not in ("done", "failed") and time.time() < end:
        time.sleep(0.005)
        status, state = call(path, **more)
    return status, state


def is_near(a, b):
    """Equal, but for the rounding of probabilities."""
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) <= NEAR
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(is_near(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(is_near, a, b))
    return a == b


def filler(n):
    return {"title": f"Fill {n}", "text": f"Stone {n} is in wall {n}. " * 10}


class Oracle:
    """A server of a variant, without faults. Its memory holds little, its store all."""

    def __init__(self, program, model, folder, preload, variant):
        (folder / "oracle/store").mkdir(parents=True)
        (folder / "oracle/keys").write_text("\n".join(key or "" for key in variant.keys))
        self.memory = 4 if "craft" in variant.policy else 2 if variant.sparse else 1  # MiB
        more = f"--kv-memory {self.memory} " + (KEYS if variant.keys != (None,) else "")
        self.server = faults.Server(program, model, folder / "oracle/store", faults.Faults(folder / "oracle", preload),
                                    None, f"{variant.policy} {more}".format(folder=folder / "oracle").split())
        assert self.server.started
        self.salts = itertools.count()
        self.texts = {key: {} for key in variant.keys}  # of registered documents
        self.ahead = {key: set() for key in variant.keys}  # those with a fused copy

    def salt(self):
        return {"cache_salt": f"salt {next(self.salts)}"}

    def ask(self, body, key=None, **more):
        status, answer = self.server.call(CHAT, {**body, **more}, key=key)
        assert status == 200, (body, answer)
        return answer

    def fill_memory(self, body, key=None):
        """The copies of others are on disk afterwards."""
        for n in range(8 * self.memory):
            self.ask({**body, "documents": [filler(n)]}, key)

    def try_all(self, body, wanted, key, **salt):
        """When copies may be new, when they are in memory, and when they are on disk. None: never as wanted."""
        for are_stored in (False, False, True):
            if are_stored:
                self.fill_memory(body, key)
            answer = self.ask(body, key, **salt)
            if decision(answer) == wanted:
                return answer
        return None

    def mirror(self, texts, names, key):
        """Registers these texts and no others; of the rest no copies are fused."""
        mine = self.texts[key]
        for name in [n for n in mine if mine[n] != texts.get(n) or n in self.ahead[key]]:
            assert self.server.call(f"/v1/documents/{name}", method="DELETE", key=key)[0] == 200
            mine.pop(name)
        self.ahead[key] = set(names)
        for name in texts.keys() - mine.keys():
            body = {"title": name.title(), "text": texts[name]}
            assert self.server.call(f"/v1/documents/{name}", body, "PUT", key=key)[0] in (200, 201)
            mine[name] = texts[name]

    def fuse(self, name, body, key):
        system = {"system": m["content"] for m in body["messages"] if m["role"] == "system"}
        path = f"/v1/documents/{name}/precompute"
        status, state = wait_for(self.server.call, path, {"fuse": 1, **system}, WAIT, key=key)
        assert status in (200, 202) and state["status"] == "done", state

    def stop(self):
        assert self.server.stop() == 0, "the server without faults ends with an error"


class Comparison:
    """Of the answers of one seed."""

    def __init__(self, oracle, variant, counts, log):
        self.oracle, self.variant, self.counts, self.log = oracle, variant, counts, log
        self.begin()

    def n_unkept(self):
        """Copies that the server has computed, and lacked the memory to keep. Their chunks are computed again, with
        the answer, and see all before them."""
        return self.log.read_text(errors="replace").count("not kept: ") if self.log.exists() else 0

    def begin(self):
        """Before a call."""
        self.n_before = self.n_unkept()

    def equal(self, body, answer, right):
        self.counts["equal" if right else "of other copies"] += 1
        self.counts.update({s["from"] for s in chunks(answer) if right and s["from"] in TIERS})
        same = not right or is_near(faults.essence(answer), faults.essence(right))
        check(same, body, "answers", answer, "and not", right)

    def check(self, body, answer, tenant):
        """A chat about documents. Of several choices the account says what the first one reused."""
        if not self.oracle or "craft" in self.variant.policy or len(answer["choices"]) > 1:
            return
        if self.n_unkept() != self.n_before:
            self.counts["unkept"] += 1
            return
        body, wanted = inline(body, tenant.ids, answer), decision(answer)
        if not body:
            return
        if faults.lacked_summaries(answer):
            body = faults.fully(body)
        names = [d["id"] for d in answer["spolia"]["documents"] if d.get("copy") == "fused"]
        if not names:
            self.equal(body, answer, self.oracle.try_all(body, wanted, tenant.key, **self.oracle.salt()))
            return
        self.counts["fused"] += 1
        known = {name: text for name, text in tenant.ids.items() if text not in (None, "?")}
        self.oracle.mirror(known, names, tenant.key)
        for name in names:
            self.oracle.fuse(name, body, tenant.key)
        self.equal(body, answer, self.oracle.try_all(body, wanted, tenant.key))


class Line:
    """Prompts with a system text of their own, in craft, so that it is known what their copies were computed after."""

    def __init__(self, rng, name):
        self.rng, self.n_left = rng, 4
        self.system = {"role": "system", "content": f"Notes of day {name}."}
        self.documents = [faults.BOATS, faults.HARBOUR, *(self.document(what) for what in ("Ship", "Mill", "Cart"))]

    def document(self, what):
        places = self.rng.sample(["port", "hill", "gate", "quay", "town"], 2)
        return {"title": f"{what}s", "text": " ".join(f"{what} {i} is near {self.rng.choice(places)} "
                                                      f"{self.rng.randrange(20)}." for i in range(1, 9))}

    def body(self):
        question = self.rng.choice(["What is near port 4?", "Who is near hill 7?", "When was the harbour built?"])
        return {**faults.ANSWER, **faults.TOLD, "messages": [self.system, {"role": "user", "content": question}],
                "documents": self.rng.sample(self.documents, self.rng.randint(2, 4))}

    def step(self, call, compared):
        """Asks both servers. A line ends when they did not do the same: then it is not known what copies are like."""
        body = self.body()
        status, answer = call(CHAT, body)
        self.n_left -= 1
        if status != 200:
            self.n_left = 0
            return
        if self.n_left < 2 and any(s["from"] in TIERS for s in chunks(answer)):
            compared.oracle.fill_memory({**body, "messages": faults.say("Which wall?")})  # there they are whole, too
        right = compared.oracle.ask(body)
        if craft_decision(answer) != craft_decision(right):
            self.n_left, right = 0, None
            if not any(s["copy"] for s in chunks(answer)):
                right = compared.oracle.ask(body, **compared.oracle.salt())
        compared.equal(body, answer, right)


class Lines:
    """Two at a time, of one seed."""

    def __init__(self, rng, seed):
        self.rng, self.name, self.open = rng, str(seed), []

    def step(self, call, compared):
        """An ask of a new line, or of one that has begun."""
        self.open = [line for line in self.open if line.n_left]
        if len(self.open) < 2:
            self.name += "."
            self.open.append(Line(self.rng, self.name))
        self.rng.choice(self.open).step(call, compared)
