"""Documents, collections, searches and chats by random valid calls, of several tenants and across restarts, compared with a
model of what must be there. SPOLIA_HISTORIES: how many."""
import json
import os
import random
import urllib.parse

import pytest
from conftest import CPU, EMULATED
from test_server_documents import send

from reference import encoder

N = int(os.environ.get("SPOLIA_HISTORIES", 1 if EMULATED or CPU == "ref" else 4))
STEPS = 60  # between two starts
IDS = ["a", "b 1", "é", "日本", "x%y", "q?z", "precompute", "documents", "#h", '"k"', "a+b"]
NAMES = ["manual", "A.b", "documents"]
TAGS = ["red", "2024", "é"]
WORDS = "harbour keeper boats winter town ferry stone room grey island storm tide bell fish salt wind clock river".split()


def quoted(text):
    return urllib.parse.quote(text, safe="")


class Tenant:
    """The documents of a key and a salt, as they must be: docs[collection or None][id]."""
    def __init__(self, key, salt, mark):
        self.key, self.salt, self.mark, self.docs, self.n = key, salt, mark, {None: {}}, 0

    def call(self, method, path, body=None, **arguments):
        if self.salt and method in ("POST", "PUT"):
            body = {**body, "cache_salt": self.salt}
        elif self.salt:
            arguments["cache_salt"] = self.salt
        status, o = send(self.server, method, f"{path}?{urllib.parse.urlencode(arguments)}", body, self.key)
        text = json.dumps(o)
        assert not any(m in text for m in self.others), "another tenant's text"
        return status, o

    def place(self, r, missing=.1):
        """A collection, an id, its path, and the document or None."""
        c = r.choice(NAMES) if r.random() < missing else r.choice([*self.docs, None])
        there = list(self.docs.get(c, ()))
        i = r.choice(there) if there and r.random() > missing else r.choice(IDS)
        return c, i, f"{self.list_of(c)}/{quoted(i)}", self.docs.get(c, {}).get(i)

    def list_of(self, c):
        return f"/v1/collections/{c}/documents" if c else "/v1/documents"

    def put(self, r):
        c, i, path, old = self.place(r, .5)
        self.n += 1
        text = f"{self.mark} {self.n} " + " ".join(r.choices(WORDS, k=r.choice([3, 12, 50]))) + "."
        d = {"title": r.choice(["", f"{self.mark} title"]), "pinned": r.random() < .2, "tags": r.sample(TAGS, r.randint(0, 2)) if c else []}
        body = {"text": text, **{k: v for k, v in d.items() if v}}
        post = r.random() < .5
        status, o = self.call("POST", self.list_of(c), {**body, "id": i}) if post else self.call("PUT", path, body)
        if c not in self.docs:
            assert status == 404
        elif post and old:
            assert status == 409
        else:
            assert status == 201, o
            self.docs[c][i] = {**d, "text": text, "size": [o[k] for k in ("bytes", "chunks", "tokens")], "read": set(), "ranked": False, "found": 0}
            self.check(o, c, i)

    def check(self, o, c, i):
        d = self.docs[c][i]
        assert (o["id"], o["title"], o["pinned"], o.get("tags", [])) == (i, d["title"], d["pinned"], d["tags"])
        assert [o[k] for k in ("bytes", "chunks", "tokens")] == d["size"]

    def get(self, r):
        c, i, path, d = self.place(r)
        status, o = self.call("GET", path)
        assert status == (200 if d else 404), (path, o)
        if d:
            self.check(o, c, i)

    def pin(self, r):
        c, i, path, d = self.place(r)
        status, o = self.call("PATCH", path, {"pinned": r.random() < .5})
        assert status == (200 if d else 404), (path, o)
        if d:
            d["pinned"] = o["pinned"]
            self.check(o, c, i)

    def delete(self, r):
        c, i, path, d = self.place(r)
        status, o = self.call("DELETE", path)
        assert status == (200 if d else 404), (path, o)
        if d:
            del self.docs[c][i]
            chat = self.chat([{"text": d["text"], **({"title": d["title"]} if d["title"] else {})}])
            assert d["size"][1] > 1 or chat["documents"][0]["missed"] in ("never seen", "edited")

    def make(self, r):
        name = r.choice(NAMES)
        assert self.call("POST", "/v1/collections", {"name": name})[0] == (409 if name in self.docs else 201)
        self.docs.setdefault(name, {})

    def drop(self, r):
        name = r.choice(NAMES)
        if r.random() < .3:
            assert self.call("DELETE", f"/v1/collections/{name}")[0] == (200 if name in self.docs else 404)
            self.docs.pop(name, None)

    def search(self, r):
        c, query, tag = r.choice(list(self.docs)), r.sample(WORDS, 2), r.choice(TAGS)
        ask = {"query": " ".join(query), "top_k": 1000, "by": r.choice(["words", "vectors"]) if c else "words", **({"collection": c} if c else {})}
        status, o = self.call("POST", "/v1/search", ask)
        assert status == 200, o
        for h in o["data"]:
            assert h["text"] in self.docs[c][h["document"]]["text"] and h["title"] == self.docs[c][h["document"]]["title"]
        assert [h["score"] for h in o["data"]] == sorted((h["score"] for h in o["data"]), reverse=True)
        least = {i for i, d in self.docs[c].items() if ask["by"] == "vectors" or set(query) & set(d["text"].rstrip(".").split())}
        assert least <= {h["document"] for h in o["data"]}
        if c:
            some = self.call("POST", "/v1/search", {**ask, "filter": {"tag": tag}})[1]["data"]
            tagged = [h for h in o["data"] if tag in self.docs[c][h["document"]]["tags"]]
            assert sorted((h["document"], h["text"]) for h in some) == sorted((h["document"], h["text"]) for h in tagged)

    def chat(self, documents=None, **more):
        ask = {"messages": [{"role": "user", "content": "What is there?"}], "max_tokens": 1, "citations": True, **more}
        status, o = self.call("POST", "/v1/chat/completions", {**ask, **({"documents": documents} if documents else {})})
        if status != 200:
            return None
        assert sum(s["tokens"] for s in o["spolia"]["segments"]) == o["usage"]["prompt_tokens"]
        return o["spolia"]

    def read(self, r):
        """A chat that names a document: what a chat had before is not computed again, whatever is restarted."""
        c, i, _, d = self.place(r)
        told = self.chat([{"id": f"{c}/{i}" if c else i}])
        assert (told is not None) == (d is not None)
        if d:
            assert " ".join(p["text"] for p in told["documents"]).split() == d["text"].split()
            for p in told["documents"]:
                assert d["ranked"] or p["missed"] == "late" or (p["reused"] > 0) == (p["text"] in d["read"])
                d["read"].add(p["text"])

    def ask(self, r):
        c = r.choice([c for c in self.docs if c] or [None])
        if c is None:
            return
        rerank = r.random() < .2
        told = self.chat(collection={"name": c, "top_k": r.randint(1, 4), "rerank": rerank})
        for d in self.docs[c].values():
            d["ranked"] |= rerank  # some of it was read for that
        for p in told["documents"]:
            d = self.docs[c][p["id"]]
            assert p["text"] in d["text"]
            d["found"] += 1
            d["read"].add(p["text"])

    def all(self, r):
        """Every list, in pages."""
        for c, docs in self.docs.items():
            got, more, limit = [], {}, r.randint(1, 9)
            while more is not None:
                o = self.call("GET", self.list_of(c), limit=limit, **more)[1]
                got += o["data"]
                more = {"after": got[-1]["id"]} if o["has_more"] else None
            assert [o["id"] for o in got] == sorted(docs, key=str.encode)
            for o in got:
                self.check(o, c, o["id"])
        listed = self.call("GET", "/v1/collections")[1]["data"]
        assert [o["name"] for o in listed] == sorted(c for c in self.docs if c)
        for o in listed:
            docs = self.docs[o["name"]].values()
            assert [o["documents"], o["bytes"], o["chunks"]] == [len(docs), sum(d["size"][0] for d in docs), sum(d["size"][1] for d in docs)]
            assert o["embedded"] == o["chunks"] and o["retrieved"] == sum(d["found"] for d in docs)

    CALLS = [put] * 6 + [get, delete, search, read, ask] * 2 + [pin, make, drop, all]


@pytest.mark.parametrize("seed", range(N))
def test_a_history_is_as_its_model(start, tmp_path, seed):
    r = random.Random(seed)
    (tmp_path / "keys").write_text("red\nblue\n")
    tiny = encoder.write_folder(tmp_path / "tiny-encoder", longest=32)
    tenants = [Tenant("red", None, "redmark"), Tenant("blue", None, "bluemark"), Tenant("blue", "red", "saltmark")]
    for _ in range(3):
        s = start("--reuse", "full", "--store", tmp_path / "store", "--embedding", tiny, "--chunk-size", 20, "--idle-copies", 0,
                  "--api-keys", tmp_path / "keys")
        for t in tenants:
            t.server, t.others = s, [x.mark for x in tenants if x is not t]
            t.all(r)
        for _ in range(STEPS):
            t = r.choice(tenants)
            r.choice(t.CALLS)(t, r)
        for t in tenants:
            t.all(r)
        assert s.stop() == 0
