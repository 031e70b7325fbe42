"""A server that tests/chaos.py drives: the steps of its clients and faults, and what is checked after each."""
import collections
import json
import pathlib
import random
import signal
import subprocess
import threading
import time

import faults
from each import each
from findings import Finding, Trail, at_once, check
from oracle import CHAT, Comparison, Lines, Oracle, filler, wait_for
from shared import SHARED
from tenants import LEAKS, WORD, Tenant, word_of
from traces import Traces, digits_of
from variants import VARIANTS

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MOST = {"allocation": 2000, "read": 40, "write": 40, "full": 40, "short": 10, "sync": 20, "hang": 200, "open": 20,
        "change": 10, "stat": 20}
COLLECTED = ["c0", "c1"]  # documents of a collection


class World:
    """A server of a variant. `norm`: what one without faults is like; None while that is found out."""

    def __init__(self, args, folder, seed, variant, norm=None):
        self.args, self.rng, self.variant, self.norm = args, random.Random(seed), VARIANTS[variant], norm
        self.folder, self.calls = folder, faults.requests_of(args.embedding)
        self.calls += faults.long_requests() if self.variant.sparse or self.variant.waits else []
        self.shared = SHARED[self.variant.shares](folder) if self.variant.shares else None
        self.env = self.shared.env if self.shared else {}
        self.faults = faults.Faults(folder, args.preload, self.env)
        self.counts, self.trail = collections.Counter(), Trail()
        self.faults.tell = self.trail.faults
        self.compared = Comparison(norm and norm.oracle, self.variant, collections.Counter(), folder / "log")
        self.lines = Lines(self.rng, seed)
        self.tenants = [Tenant(key) for key in self.variant.keys]
        self.tenant = self.tenants[0]
        self.noisy, self.changer, self.n_pending = False, None, 0
        self.options = self.variant.options.format(folder=folder).split()
        (folder / "keys").write_text("\n".join(t.key or "" for t in self.tenants))
        self.options += ["--remote", self.shared.url] if self.shared else []
        self.start()
        self.peer = self.start_peer() if self.shared else None
        self.traces = Traces(folder / "store", self.shared, norm and norm.digits, self.tenants)
        self.names, self.lists = [f"d{i}" for i in range(4)], ["/v1/documents?limit=100"]
        if self.variant.collects:
            self.names, self.lists = [*self.names, *COLLECTED], [*self.lists, "/v1/collections/box/documents"]
        for tenant in self.tenants[::-1]:
            self.turn(tenant)
            made = not self.variant.collects or self.call("/v1/collections", {"name": "box"})[0] == 201
            check(made, "no collection")
            self.check_put("kept", "Anna Berg")

    @property
    def ids(self):
        return self.tenant.ids

    def turn(self, tenant):
        """The steps that follow are this tenant's."""
        self.tenant = tenant
        self.server.key = tenant.key

    def others(self):
        return [t for t in self.tenants if t is not self.tenant]

    def server_of(self, folder, controls):
        (folder / "store").mkdir(exist_ok=True)
        return faults.Server(ROOT / self.args.build / "spolia", ROOT / "demo/model.gguf", folder / "store", controls,
                             self.args.embedding, self.options)

    def try_start(self):
        self.server = self.server_of(self.folder, self.faults)
        self.server.key = self.tenant.key
        for tenant in self.tenants:
            tenant.last = None  # a server has no accounts of an earlier one's answers
        return self.server.started

    def start_peer(self):
        """The second server, without faults of its own."""
        folder = self.folder / "peer"
        folder.mkdir()
        peer = self.server_of(folder, faults.Faults(folder, self.args.preload, self.env))
        peer.key = self.tenant.key
        check(peer.started, "the second server does not start", (folder / "log").read_text()[-2000:])
        return peer

    def start(self):
        check(self.try_start(), "the server does not start", (self.folder / "log").read_text()[-2000:])

    def quiet(self):
        self.faults.set()
        self.faults.jump(0)
        self.noisy = False
        if self.shared:
            self.shared.end()

    def may_fail(self, path, answer=None):
        """A deletion fails until the server has found the shared store again, which a busy machine may stop for half a
        second. At the end of a seed none may be left."""
        busy = any(words in str(answer) for words in ("the store does not answer", "no answer in time"))
        late = self.shared and (self.shared.n_faults or self.faults.n_failed()["network"] or busy)
        waits = late and path.startswith("/v1/documents")
        return self.noisy or waits or threading.current_thread() is self.changer

    def may_die(self):
        return self.noisy and self.args.then == "die"

    def call(self, path, body=None, method=None, tenant=None):
        self.compared.begin()
        status, answer = self.server.call(path, body, method, key=(tenant or self.tenant).key)
        self.counts[status] += 1
        self.trail.call(method, path, body, status, answer)
        if status == 0 or status >= 500:
            check(self.may_fail(path, answer), "without faults", path, "is", status, answer, self.server.process.poll(),
                  (self.folder / "log").read_text()[-600:])
            check(self.may_die() or self.server.is_alive(), "the server died:", self.server.process.poll(), (self.folder / "log").read_text()[-3000:])
        return status, answer

    # -- steps

    def ask(self, k=None):
        k = self.rng.randrange(len(self.calls)) if k is None else k
        path, body = self.calls[k]
        status, answer = self.call(path, body)
        check(status in (0, 200, 429, 500, 503, 507), "call", k, path, "is", status, answer)
        if status == 200:
            self.check_answer(k, answer)

    def check_answer(self, k, answer):
        (path, body), right = self.calls[k], self.norm.right[k]
        if faults.lacked_summaries(answer):
            check(self.noisy, "call", k, path, "lacked memory without faults", answer)
            right = self.norm.full[k]
        # a read of the file of contexts that fails is repeated with full attention
        exact = self.variant.exact and not (self.variant.sparse and self.variant.waits and self.noisy)
        check(not exact or faults.essence(answer) == right, "call", k, path, "answers", answer, "and not",
              right)
        wrong = faults.miscounted(answer)
        check(not wrong, "call", k, path, "counts", wrong, answer)
        if not exact and path == CHAT and isinstance(answer, dict):
            self.compared.check(body, answer, self.tenant)

    def ask_peer(self):
        """The second server knows none of the registered documents, and nothing fails there but what is shared."""
        if not self.peer:
            return
        k = self.rng.choice([k for k, (_, body) in enumerate(self.calls) if "kept" not in str(body)])
        path, body = self.calls[k]
        status, answer = self.peer.call(path, body, key=self.tenant.key)
        self.counts[status] += 1
        check(status == 200, "the second server: call", k, path, "is", status, answer)
        self.check_answer(k, answer)

    def name(self):
        """Of a document, mostly of one that is registered."""
        names = self.names
        known = [n for n in names if self.ids.get(n)]
        return self.rng.choice(known if known and self.rng.random() < 0.9 else names)

    def path(self, name):
        return f"/v1/documents/{name}" if name[0] != "c" else f"/v1/collections/box/documents/{name}"

    def check_put(self, name, keeper):
        text, ahead = faults.STORY.format(keeper), self.variant.anywhere and self.rng.random() < 0.5
        body = {"title": name.title(), "text": text, **({"precompute": self.precompute(name)} if ahead else {})}
        self.tenant.began(name, keeper)
        if ahead or name in COLLECTED or name in self.tenant.ahead:  # computed when nobody asks
            self.tenant.asked.add(keeper)
        (self.tenant.ahead.add if ahead else self.tenant.ahead.discard)(name)
        status, answer = self.call(self.path(name), body, "PUT")
        check(status in (201, 200) or self.may_fail("/v1/documents", answer), status, answer)
        self.forget(name)
        self.ids[name] = text if status in (200, 201) else "?"
        if status in (200, 201):
            self.tenant.registered(name, keeper)

    def precompute(self, name):
        """There is one right answer from `kept`, so it is not fused."""
        system = self.rng.choice([{}, {"system": faults.SYSTEM["content"]}])
        return {"fuse": 1, **system} if self.variant.mixes and name != "kept" else True

    def forget(self, name):
        """Its text is not registered any more; returns the word of the text."""
        known = self.ids.get(name)
        self.ids[name] = None
        if known in (None, "?") or "Keeper" not in known:
            return None
        self.tenant.gone.add(word_of(known))
        return word_of(known)

    def keeper(self):
        return f"Keeper{self.rng.randrange(10**9):09}"

    def put(self, name=None):
        name = name or self.rng.choice(self.names)
        self.check_put(name, self.keeper())

    def upload(self, name=None):
        name = name or self.rng.choice(list(faults.FILES))
        status, answer = faults.upload(self.server, name)
        self.counts[status] += 1
        may_fail = self.may_fail("/v1/documents", answer) and status in (0, 500, 503)
        check(status == 201 or may_fail, "a file is", status, answer)
        right = self.norm.files[name]
        check(status != 201 or answer == right, name, "is read as", answer, "not", right)

    def get(self, name=None):
        name = name or self.name()
        status, answer = self.call(self.path(name))
        known = self.ids.get(name)
        if known != "?" and status in (200, 404):
            check((status == 200) == (known is not None), name, "is", status, "and should be", known)
        new = self.is_new(name) and self.variant.keys != (None,)
        check(status != 200 or not new or not any(answer["copies"].values()), name, "was never computed:", answer)

    def is_new(self, name):
        """Whether it is known that the tenant never had its text computed."""
        return self.ids.get(name) not in (None, "?") and not self.tenant.words[name] & self.tenant.asked

    def list(self):
        """The documents that are registered, and no other's."""
        listed = set()
        for path in self.lists:
            status, answer = self.call(path)
            if status != 200:
                return
            listed |= {d["id"] for d in answer["data"]}
        for name in {*listed, *self.ids} - {*faults.FILES, *(n for n, known in self.ids.items() if known == "?")}:
            check((name in listed) == bool(self.ids.get(name)), name, "is", self.ids.get(name), "and listed", listed)

    def list_copies(self, parent=""):
        """None of a text that another tenant has, or whose deletion was confirmed."""
        status, answer = self.call("/v1/copies?limit=1000" + parent)
        for copy in answer["data"] if status == 200 else []:
            found = set(WORD.findall(copy["text"])) - self.tenant.all_words()
            check(not found, found, "have copies", copy)
            if copy["below"]:
                self.list_copies(f"&parent={copy['name']}")

    def explain(self):
        """Of another tenant's request nothing is said."""
        for tenant in self.others():
            if tenant.last:
                status, answer = self.call(f"/v1/requests/{tenant.last}/explain")
                check(status != 200, "another tenant's request is explained:", answer)

    def ask_about(self, *names, alone=False, messages=None):
        """Of documents in any order, so that copies are computed after copies; alone: without a tree, which would
        make it a prompt of the policy `prefix`."""
        names = sorted(set(names or (self.name(), self.name())) - set(COLLECTED))
        others = [faults.BOATS, faults.HARBOUR, {"id": "kept"}, *([] if alone else [faults.tree(self.rng)])]
        others = self.rng.sample(others, self.rng.randint(0, 3))
        if self.variant.anywhere and len(names) == 1 and not alone and self.rng.random() < 0.5:
            others = [filler(0), *others[:1]]  # long enough to be loaded from a disk
        documents = [*({"id": name} for name in names), *others]
        self.rng.shuffle(documents)
        messages = messages or self.say("Who is the keeper?")
        body = {**faults.ANSWER, **faults.TOLD, "messages": messages, "documents": documents}
        new = [name for name in names if self.is_new(name)]
        self.asks_about(*names)
        status, answer = self.call("/v1/chat/completions", body)
        missing = [name for name in names if self.ids.get(name) is None]
        check(status != 200 or not missing, missing, "are deleted or unknown, and are answered from", answer)
        if status == 200:
            wrong = faults.miscounted(answer)
            check(not wrong, "the counts", wrong, answer)
            self.tenant.last = answer["id"]
            told = [d for d in answer["spolia"]["documents"]
                    if d.get("id") in new and (d["reused"] or d["missed"] in LEAKS)]
            check(not told or not self.others(), "this tenant never asked about", told)
            self.compared.check(body, answer, self.tenant)
        return answer if status == 200 else None

    def say(self, text):
        """What is computed ahead is for one of two system texts."""
        return faults.say(text)[self.variant.mixes and self.rng.randrange(2):]

    def asks_about(self, *names):
        for name in names:
            self.tenant.asked |= self.tenant.words[name]

    def ask_fused(self):
        """About a document whose fused copy has just been asked for."""
        name, messages = self.name(), self.say("Who is the keeper?")
        system = {"system": m["content"] for m in messages if m["role"] == "system"}
        path = f"/v1/documents/{name}/precompute"
        self.tenant.asked |= self.tenant.words[name]
        wait_for(self.call, path, {"fuse": 1, **system}, self.rng.choice([0, 0.5]))
        self.ask_about(name, "kept", messages=messages)

    def ask_line(self):
        if self.rng.random() < 0.5:
            self.fill_memory()
        self.lines.step(self.call, self.compared)

    def fill_memory(self):
        """Copies of others leave it, if it is small."""
        for n in range(5):
            self.call(CHAT, {**faults.ANSWER, "messages": self.say("Which wall?"), "documents": [filler(n)]})

    def ask_collection(self):
        """Only passages of documents that are registered are found."""
        if not self.variant.collects:
            return
        self.asks_about(*COLLECTED)
        messages = self.say("Who is the keeper of the lighthouse?")
        body = {**faults.ANSWER, **faults.TOLD, "messages": messages, "collection": "box"}
        status, answer = self.call("/v1/chat/completions", body)
        if status == 200:
            wrong = faults.miscounted(answer)
            check(not wrong, "the counts", wrong, answer)
            found = [d["id"] for d in answer["spolia"]["documents"] if self.ids.get(d["id"]) is None]
            check(not found, found, "are deleted or unknown, and are answered from", answer)

    def crowd(self):
        """Several ask at once, and a document that they ask about is deleted meanwhile."""
        name = self.name()
        self.put(name)
        self.asks_about(name)
        document = {"id": name} if name not in COLLECTED else {"text": "Nobody is the keeper."}
        bodies = [{**faults.ANSWER, "messages": faults.say("Who is the keeper?"), "max_tokens": 20,
                   "documents": self.rng.sample([document, faults.BOATS, faults.HARBOUR, faults.tree(self.rng)], 3)} for _ in range(4)]
        asks = [lambda b=b: self.call("/v1/chat/completions", b) for b in bodies]
        at_once(*asks, lambda: self.delete(name))

    def twins(self):
        """Two tenants register the same; one deletes it, perhaps while the other asks, who keeps document and copies."""
        if not self.others():
            return
        name, keeper, me, other = self.rng.choice(self.names[:4]), self.keeper(), self.tenant, self.others()[0]
        steady = self.rng.random() < 0.5
        if steady:
            self.quiet()
        for tenant in (other, me):
            self.turn(tenant)
            self.check_put(name, keeper)
            if steady or self.rng.random() < 0.7:
                self.ask_about(name, alone=True)
        self.twin_ends(name, me, other)
        self.turn(other)
        self.get(name)
        self.list_copies()
        answer = self.ask_about(name, alone=True)
        steady = steady and other.ids[name] != "?"
        check(not steady or answer, name, "cannot be asked about after another tenant's deletion")
        lost = steady and self.variant.keeps and [d for d in answer["spolia"]["documents"] if d.get("id") == name and not d["reused"]]
        check(not lost, "another tenant's deletion took", lost)

    def twin_ends(self, name, me, other):
        self.turn(me)
        body = {**faults.ANSWER, "messages": faults.say("Who is the keeper?"), "documents": [{"id": name}]}
        asks = [lambda: self.call("/v1/chat/completions", body, tenant=other)] * self.rng.randint(0, 2)
        answers, other.asked = [], other.asked | other.words[name]
        at_once(*[lambda ask=ask: answers.append(ask()) for ask in asks], lambda: self.delete(name))
        check(other.ids[name] == "?" or all(s in (0, 200, 500, 503) for s, _ in answers), "the other's", answers)

    def delete(self, name=None):
        name = name or self.name()
        known = self.ids.get(name)
        if known not in (None, "?"):
            strange = self.traces.learn(word_of(known), self.tenant)
            check(not strange, "copies of no tenant:", strange)
        status, answer = self.call(self.path(name), method="DELETE")
        if status in (200, 202):
            check(known is not None, name, "is deleted, and was not registered", answer)
            word = self.forget(name)
            self.tenant.deleted(name)
            if answer["deleted"]:
                self.tenant.ended()
            if word and answer["deleted"]:
                self.check_gone(word)
        elif status == 404:
            check(known in (None, "?"), name, "is registered, and its deletion says 404")
            self.ids[name] = None
            self.tenant.deleted(name)
        else:
            self.forget(name)  # at the end, when all deletions have ended
            self.ids[name] = "?"

    def check_gone(self, word):
        shared = any(word in t.all_words() for t in self.others())
        found = self.traces.find(word, self.tenant, shared)
        check(not found, word, "is in", found, "after its deletion")

    def fault(self):
        self.quiet()
        kinds = [k for k in self.args.kinds if k not in ("kill", "remote")]
        chosen = self.rng.sample(kinds, self.rng.randint(0, min(2, len(kinds))))
        self.faults.set(self.rng.getrandbits(32), self.rng.choice([5, 50, 500]),
                        **{k: max(2, self.rng.randrange(MOST[k] // 4, MOST[k] * 2)) for k in chosen if k in MOST})
        self.faults.jump(self.rng.choice([-1, 1]) * self.rng.randrange(10**9) if "clock" in chosen else 0)
        self.noisy = bool(chosen)
        if self.shared and "remote" in self.args.kinds and self.rng.random() < 0.5:
            self.shared.begin(self.rng.choice(self.shared.faults))

    def hang(self):
        """While every call for a file of the store hangs, changes of documents wait, or end with an error after a
        while, and other requests do not; with a file of contexts, which they read, they may wait, too."""
        if "hang" not in self.args.kinds:
            return
        self.quiet()
        name, keeper = f"d{self.rng.randrange(4)}", self.keeper()
        changes = [lambda: self.delete(name), lambda: self.check_put(name, keeper)]
        free = [k for k, (_, body) in enumerate(self.calls) if "kept" not in str(body)]
        chosen = [self.rng.choice(free) for _ in range(3)]
        self.faults.set(0, 10**9, hang=1)
        ends = threading.Timer(2, self.faults.set)
        found = []

        def change():
            try:
                for x in changes:
                    x()
            except Finding as e:
                found.append(e)

        self.changer = threading.Thread(target=change)
        self.changer.start()
        if self.variant.waits:
            ends.start()
        try:
            for k in chosen:
                self.ask(k)
            check(self.call("/health")[0] in (200, 503), "no health while the disk hangs")
        finally:
            ends.cancel()
            self.quiet()
            self.changer.join()
        if found:
            raise found[0]
        self.changer = threading.current_thread()  # until what hung has ended
        self.end_deletions()
        self.changer = None

    def bad_reads(self):
        """Many reads fail of what long prompts have in the file of contexts."""
        if not self.variant.waits or "read" not in self.args.kinds:
            return
        self.quiet()
        long = [k for k, call in enumerate(self.calls) if call in faults.long_requests()]
        self.faults.set(self.rng.getrandbits(32), read=self.rng.choice([2, 5, 20]))
        self.noisy = True
        for k in self.rng.sample(long, 3):
            self.ask(k)
        self.quiet()

    def outage(self):
        """The shared store fails before a document is deleted, perhaps by a server that has just started."""
        if not self.shared or "remote" not in self.args.kinds:
            return
        self.quiet()
        name = self.name()
        self.put(name)
        self.ask_about(name, self.name())
        self.shared.begin(self.rng.choice(self.shared.refusing))
        if self.rng.random() < 0.5 and not self.args.one_server:
            self.stop()
            self.start()
        self.delete(name)
        self.quiet()
        self.delete(name)

    def restart(self):
        hard = "kill" in self.args.kinds and self.rng.random() < 0.7
        if not hard:
            self.quiet()
        self.stop(hard)
        self.quiet()
        if self.rng.random() < 0.5:
            self.gc()
        if self.rng.random() < 0.4 and self.start_amid_faults():
            return
        self.quiet()
        self.start()

    def stop(self, hard=True):
        code = self.server.stop(signal.SIGKILL if hard else signal.SIGTERM)
        check(hard or code == 0, "the server ends with", code, (self.folder / "log").read_text()[-2000:])
        self.check_log()

    def cache(self, *words, seconds=300):
        """(exit code, output, what it says) of `spolia cache`; no code if it was killed after so many seconds."""
        command = [ROOT / self.args.build / "spolia", "cache", *words]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds,
                                  env=self.faults.env(self.folder / "store"))
        except subprocess.TimeoutExpired:
            check(seconds < 300, *words, "does not end")
            return None, "", ""
        ended = done.returncode in (0, 1) or (self.may_die() and done.returncode == -signal.SIGKILL)
        check("Sanitizer" not in done.stderr and ended, *words, done.returncode, done.stderr[-5000:])
        return done.returncode, done.stdout, done.stderr

    def gc(self):
        """Of the store of a server that was stopped or killed; perhaps amid faults, perhaps killed itself."""
        killed = "kill" in self.args.kinds and self.rng.random() < 0.3
        if self.rng.random() < 0.5:
            self.fault()
        budget = self.rng.choice(["50K", "400K", "1500K"])
        code, answer, said = self.cache("gc", "--json", "--budget", budget, "--store", self.folder / "store",
                                seconds=self.rng.random() / 20 if killed else 300)
        self.counts["gc", code] += 1
        check(code != 1 or self.noisy, "cache gc without faults:", said)
        left = json.loads(answer) if code == 0 else None
        fits = left and left["file_bytes"] <= left["budget"]
        check(not left or fits or not left["copies"] or self.noisy, "cache gc left", left, said)
        self.quiet()

    def gc_beside(self):
        """The store of a server that runs is left alone; of a shared store what no index names may go meanwhile."""
        code, _, said = self.cache("gc", "--budget", "1", "--store", self.folder / "store")
        check(code == 1 and (self.noisy or "another process" in said), "cache gc beside a server is", code, said)
        if self.shared:
            code, _, said = self.cache("gc", "--remote", self.shared.url)
            check(code == 0 or self.noisy or self.shared.fault, "cache gc of the shared store is", code, said)

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
        if len(self.tenants) > 1:
            self.turn(self.rng.choice(self.tenants))
        steps = {self.ask: 10, self.put: 3, self.upload: 2, self.get: 2, self.ask_about: 6, self.delete: 2,
                 self.fault: 3, self.hang: 0.5, self.ask_peer: 3, self.outage: 1,
                 self.ask_collection: 2, self.crowd: 1, self.list: 1, self.list_copies: 1, self.explain: 1,
                 self.gc_beside: 0.5, self.bad_reads: 2 * self.variant.waits,
                 self.fill_memory: 4 * self.variant.anywhere, self.ask_fused: 4 * self.variant.mixes,
                 self.ask_line: 16 * (self.variant.policy.startswith("--reuse craft")),
                 self.twins: 3 * (len(self.tenants) > 1),
                 self.restart: 0 if self.args.one_server else 0.4}
        step = self.rng.choices(list(steps), list(steps.values()))[0]
        self.trail.step(step)
        step()
        if not self.server.is_alive():
            raise Finding(f"the server died: {self.server.process.poll()} " + (self.folder / "log").read_text()[-3000:])

    # -- the end

    def wait(self, holds, *what):
        end = time.time() + 300
        while not holds():
            check(time.time() < end, *what)
            time.sleep(0.1)

    def has_deleted_all(self):
        """A deletion also ends those of the same tenant that were not over."""
        self.tenant.began("last", "Keeper000000000")
        self.call("/v1/documents/last", {"text": faults.STORY.format("Keeper000000000")}, "PUT")
        status, answer = self.call("/v1/documents/last", method="DELETE")
        self.n_pending += status == 202  # after 10 seconds
        check(self.n_pending < 4, "a deletion does not end", answer)
        return status == 200 and answer["deleted"]

    def end_deletions(self):
        self.n_pending = 0
        self.wait(self.has_deleted_all, "deletions fail")
        self.tenant.deleted("last")
        self.tenant.ended()

    def end_documents(self):
        for name in [n for n, known in self.ids.items() if known == "?"]:
            self.wait(lambda: self.call(self.path(name), method="DELETE")[0] in (200, 202, 404),  # noqa: B023
                      name, "cannot be deleted")
            self.ids[name] = None
            self.tenant.deleted(name)
        self.end_deletions()
        listed = {d["id"] for path in self.lists for d in self.call(path)[1]["data"]} - set(faults.FILES)
        check(listed == {n for n, known in self.ids.items() if known}, "listed are", listed, "and not", self.ids)

    def check_kept(self, server):
        """Nothing is lost or left over."""
        self.wait(lambda: server.metric("num_requests_running") == 0, "requests run on")
        self.wait(lambda: server.held_blocks() == self.norm.held, "blocks are lost:", server.held_blocks(), "are held")
        self.wait(lambda: server.tasks() <= self.norm.tasks + 2, "threads:", server.tasks(), "of", self.norm.tasks)
        self.wait(lambda: server.files() <= self.norm.open_files + 8, "open files:", server.files(), "of",
                  self.norm.open_files)
        log = server.folder.parent / "log"
        check(server.stop() == 0, "the server ends with", server.process.returncode, log.read_text()[-3000:])

    def end(self):
        self.quiet()
        self.wait(lambda: self.server.call("/health")[0] == 200, "health is", self.server.call("/health"))
        for tenant in self.tenants:
            self.turn(tenant)
            self.end_documents()
            self.list_copies()
            self.check_calls()
        for server in [self.server, *([self.peer] if self.peer else [])]:
            self.check_kept(server)
        self.check_log()
        self.check_store()
        for tenant in self.tenants:
            self.tenant = tenant
            for word in tenant.gone:
                self.check_gone(word)

    def check_calls(self):
        for k, (path, body) in enumerate(self.calls):
            status, answer = self.call(path, body)
            check(status == 200, "at the end, call", k, path, "is", status, answer)
            self.check_answer(k, answer)

    def check_store(self):
        """What failed was not stored, or is not used."""
        done = subprocess.run([ROOT / self.args.build / "spolia", "cache", "verify", "--store", self.folder / "store"],
                              capture_output=True, text=True, timeout=300)
        check(done.returncode == 0, "cache verify:", done.stdout, done.stderr)
        strange = self.traces.strange()
        check(not strange, "copies of no tenant:", strange)

    def close(self):
        for server in [self.server, self.peer]:
            if server and server.is_alive():
                server.process.kill()
                server.process.wait()
        if self.shared:
            self.shared.stop()

    def run(self):
        """The steps taken."""
        if self.args.each:
            each(self)
            self.end()
            return 0
        until = time.time() + 60 * self.args.minutes
        n = 0
        while n < self.args.steps and time.time() < until:
            self.step()
            n += 1
        self.end()
        return n


class Norm:
    """What a server of a variant is like without faults."""

    def __init__(self, args, folder, variant):
        folder.mkdir()
        world = World(args, folder, 0, variant)
        self.digits = digits_of(world.server)
        self.right = faults.right_answers(world.server, world.calls, world.variant.exact)
        if world.variant.sparse:
            fully = [(path, faults.fully(body) if path == CHAT else body) for path, body in world.calls]
            self.full = faults.right_answers(world.server, fully, world.variant.exact)
        self.files = {name: faults.upload(world.server, name)[1] for name in faults.FILES}
        check(not world.variant.sparse or world.server.metric("sparse_tokens_total"), "nothing is decoded sparsely")
        self.held = world.server.held_blocks()
        self.tasks, self.open_files = world.server.tasks(), world.server.files()
        world.server.stop()
        world.close()
        self.oracle = None
        if world.variant.anywhere:
            self.oracle = Oracle(ROOT / args.build / "spolia", ROOT / "demo/model.gguf", folder, args.preload,
                                 world.variant)
