"""Scenes: the documents of one prompt and the questions about them.

A scene is a list of groups; a group is two or more documents that compete (other things, the same relations), so that
matching the relation alone is never enough.  Documents are one or more chunks; chunks of one document stay in order.

  single    a fact stated in one chunk            bridge   "the founder of A" in one chunk, its fact in another
  alias     a name is given a role in an earlier chunk, a later chunk speaks of the role only
  header    the subject, unit or year stands in an earlier chunk, the lines in a later one
  compare   which of two is older, heavier, dearer
  none      the documents do not say it
  path1/2   one or two hops in a small graph, as sentences or as lines `A -rel-> B`
"""
import random
from dataclasses import dataclass, field

from . import facts
from .facts import BY_NAME, BY_TYPE, TYPE_WORDS, ask, capital, new_object, say
from .names import Namer

NOT_STATED = "Not in the documents."
SYSTEM = "Answer the question from the documents."
KINDS = ("single", "bridge", "alias", "header", "compare", "none", "path1", "path2")


@dataclass
class QA:
    kind: str
    question: str
    answer: str
    docs: tuple          # ids of the documents needed
    subject: str = ""    # the thing asked about, as the question names it
    hop: str = ""        # bridge, path2: the thing between, named in the first document
    anchor: str = ""     # header: the word that the number follows
    rel: tuple = ()      # the words that name the relation asked for, the likeliest first
    inner: str = ""      # bridge, path2: the noun of the first hop


@dataclass
class Doc:
    chunks: list         # of (title or None, text)
    about: str = ""
    style: str = "report"
    parent: int = -1     # graph scenes: the document this one hangs from
    links: list = field(default_factory=list)     # (chunk, subject, object, words of the relation): a fact, for hints.py
    names: tuple = ()    # (thing, what its later chunks call it)


@dataclass
class Scene:
    docs: list = field(default_factory=list)
    qas: list = field(default_factory=list)

    @property
    def chunks(self):
        return [c for d in self.docs for c in d.chunks]


@dataclass
class Style:
    """How rich the text of a scene is; the curriculum turns these up."""
    facts: tuple = (1, 2)      # facts per entity
    filler: float = 0.0        # chance of a neutral sentence after a fact
    title: float = 0.5
    sheet: float = 0.15        # share of fact sheets ("Founder: ...") instead of prose
    rivals: tuple = (2, 3)     # competing documents a group
    none: float = 0.6          # chance of a question that the group does not answer
    table: float = 0.0         # chance that a group of single facts is one table
    late: float = 0.0          # share of sentences with the object before the subject or the relation
    mark: float = 0.0          # chance of the marks of a file: its name as title, its title as a Markdown heading
    whole: float = 0.0         # chance that a document of several chunks comes as one
    wide: float = 0.0          # chance that a group's relations come from the wide pool (facts.wide)
    few: float = 0.0           # chance that the names of a scene share a handful of syllables
    more: float = 0.0          # share of sentences in further frames (facts.SAY_MORE); training only
    loose: float = 0.0         # share of sentences about a role that need not begin with it


FILLER = ["The report was read by the board.", "Nothing else is known about this.", "More will follow in the next letter.",
          "The old files were lost in a fire.", "This was confirmed twice.", "The list is kept in the archive.",
          "Details are given on request.", "The matter is closed.", "It was a quiet year.", "The weather was fine."]


class Builder:
    def __init__(self, rng: random.Random, split: str, style: Style):
        self.rng, self.split, self.style = rng, split, style
        self.name = Namer(rng, split, bool(style.few) and rng.random() < style.few)
        self.pool = []           # the relations that the present group draws from
        self.scene = Scene()

    # ---- text

    def heading(self, default):
        r = self.rng
        if r.random() >= self.style.title:
            return None
        return default.lower() + ".txt" if r.random() < self.style.mark else default

    def marked(self, title, text):
        """A Markdown file repeats its title as a heading."""
        return f"# {title}\n\n{text}" if title and title[0].isupper() and self.rng.random() < 2 * self.style.mark else text

    def document(self, chunks, about, style, links, names=()):
        """A document of several chunks, or of one when Style.whole says so."""
        chunks[0] = (chunks[0][0], self.marked(*chunks[0]))
        if self.rng.random() < self.style.whole:
            chunks = [(chunks[0][0], "\n\n".join(t for _, t in chunks))]
            links = [(0, *x[1:]) for x in links]
        return Doc(chunks, about, style, links=links, names=names)

    def prose(self, pairs, s):
        """Sentences about s; later ones may say "it" or "she" inside the same chunk."""
        r, out = self.rng, []
        for i, (rel, o) in enumerate(pairs):
            out.append(say(r, self.split, rel, s, o, late_share=self.style.late, more=self.style.more))
            if r.random() < self.style.filler:
                out.append(r.choice(FILLER))
        return " ".join(out)

    def sheet(self, pairs, s):
        mark = self.rng.choice(["", "- ", "* "])
        return "\n".join([f"Name: {s}"] + [f"{mark}{capital(rel.noun)}: {o}" for rel, o in pairs])

    def entity_doc(self, s, pairs, style=None):
        r = self.rng
        style = style or ("sheet" if r.random() < self.style.sheet else "report")
        text = self.sheet(pairs, s) if style == "sheet" else self.prose(pairs, s)
        if style == "report" and r.random() < self.style.filler:
            kind = r.random()
            if kind < 0.3:
                text = f"Dear reader,\n{text}\nWith kind regards"
                style = "letter"
            elif kind < 0.5:
                text = f"Notice. {text}"
                style = "notice"
        title = self.heading(s)
        return Doc([(title, self.marked(title, text))], s, style, links=[(0, s, o, rel.keys) for rel, o in pairs])

    def table_doc(self, told, typ):
        """One chunk with a row for each thing."""
        rels = [rel for rel, _ in told[0][1]]
        lines = [["Name"] + [capital(rel.noun) for rel in rels], ["---"] * (len(rels) + 1)]
        lines += [[s] + [dict((x.name, o) for x, o in pairs)[rel.name] for rel in rels] for s, pairs in told]
        return Doc([(self.heading(capital(typ)), "\n".join("| " + " | ".join(x) + " |" for x in lines))], typ, "table",
                   links=[(0, s, o, ()) for s, pairs in told for _, o in pairs])

    def add(self, docs):
        """Adds documents to the scene; returns their ids."""
        ids = []
        for d in docs:
            ids.append(len(self.scene.docs))
            self.scene.docs.append(d)
        return ids

    def qa(self, kind, question, answer, docs, subject="", hop="", anchor="", rel=(), inner=""):
        self.scene.qas.append(QA(kind, question, answer, tuple(docs), subject, hop, anchor, rel, inner))

    def chance(self, share):
        """Draws nothing where the share is none, so that a style without it makes the scenes that it made before."""
        return bool(share) and self.rng.random() < share

    def is_wide(self):
        return self.chance(self.style.wide)

    def relations(self, typ, n):
        self.pool = facts.wide(self.rng, typ) if self.is_wide() else BY_TYPE[typ]
        return self.rng.sample(self.pool, min(n, len(self.pool)))

    def pairs(self, rels):
        """Each relation once, in any order, with a new object.  In wide scenes no two are the same word."""
        r, out = self.rng, []
        for rel in r.sample(rels, len(rels)):
            o = new_object(r, self.name, rel)
            while self.style.wide and any(o == x for _, x in out):
                o = new_object(r, self.name, rel)
            out.append((rel, o))
        return out

    # ---- groups

    def group_single(self, room):
        r = self.rng
        typ = r.choice(facts.TYPES)
        rels = self.relations(typ, r.randint(*self.style.facts))
        docs, told = [], []
        for _ in range(min(room, r.randint(*self.style.rivals))):
            s = self.name()
            pairs = self.pairs(rels)
            docs.append(self.entity_doc(s, pairs))
            told.append((s, pairs))
        ids = self.add([self.table_doc(told, typ)]) * len(told) if r.random() < self.style.table else self.add(docs)
        for i, (s, pairs) in zip(ids, told):
            for rel, o in pairs:
                self.qa("single", ask(r, self.split, rel, s), o, [i], s, rel=rel.keys)
            other = [x for x in self.pool if x not in rels]
            if other and r.random() < self.style.none:
                x = r.choice(other)
                self.qa("none", ask(r, self.split, x, s), NOT_STATED, [], s, rel=x.keys)
        if r.random() < self.style.none:
            s = self.name()
            x = r.choice(rels)
            self.qa("none", ask(r, self.split, x, s), NOT_STATED, [], s, rel=x.keys)

    def group_compare(self, room):
        r = self.rng
        typ, rel, most, least = r.choice([("device", "weight", "heavier", "lighter"), ("device", "price", "dearer", "cheaper"),
                                          ("company", "opening year", "younger", "older"), ("person", "birth year", "younger", "older")])
        rel = BY_NAME[rel]
        docs, told = [], []
        extra = [x for x in self.relations(typ, r.randint(*self.style.facts)) if x is not rel][:1]
        for _ in range(min(room, r.randint(*self.style.rivals))):
            s, o = self.name(), new_object(r, self.name, rel)
            docs.append(self.entity_doc(s, [(rel, o)] + [(x, new_object(r, self.name, x)) for x in extra]))
            told.append((s, o, int(o.split()[0])))
        ids = self.add(docs)
        pairs = [(a, b) for a in range(len(told)) for b in range(len(told)) if a != b and told[a][2] != told[b][2]]
        for a, b in r.sample(pairs, min(2, len(pairs))):
            w = r.random() < 0.5
            big, small = (a, b) if told[a][2] > told[b][2] else (b, a)
            q = r.choice(["Which is {w}, {a} or {b}?", "Of {a} and {b}, which is {w}?"])
            self.qa("compare", q.format(w=most if w else least, a=told[a][0], b=told[b][0]), told[big if w else small][0], [ids[a], ids[b]])
        for i, (s, o, _) in zip(ids, told):
            self.qa("single", ask(r, self.split, rel, s), o, [i], s, rel=rel.keys)

    def group_bridge(self, room):
        """Pairs of documents: one names B as the rel of A, the other tells about B."""
        r = self.rng
        if self.is_wide():
            first = r.choice(facts.wide(r, r.choice(facts.TYPES), things=True))
        else:
            first = r.choice([x for x in facts.RELATIONS if x.object in ("person", "town", "company")])
        rels = self.relations(first.object, r.randint(*self.style.facts))
        docs, told = [], []
        for _ in range(max(1, min(room, r.choice([4, 4, 6])) // 2)):
            a, b = self.name(), self.name()
            pairs = self.pairs(rels)
            docs += [self.entity_doc(a, [(first, b)]), self.entity_doc(b, pairs)]
            told.append((a, b, pairs))
        ids = self.add(docs)
        for k, (a, b, pairs) in enumerate(told):
            i, j = ids[2 * k], ids[2 * k + 1]
            self.qa("single", ask(r, self.split, first, a), b, [i], a, rel=first.keys)
            for rel, o in pairs:
                self.qa("bridge", ask(r, self.split, rel, f"the {first.noun} of {a}"), o, [i, j], a, hop=b, rel=rel.keys, inner=first.noun)
                if r.random() < 0.3:
                    self.qa("single", ask(r, self.split, rel, b), o, [j], b, rel=rel.keys)

    ALIASES = {"company": ["the Company", "the Seller", "the Buyer", "the Agency", "the Lender", "the Carrier"],
               "person": ["the Author", "the Witness", "the Client", "the Captain", "the Editor", "the Patient"],
               "town": ["the Town", "the Capital", "the Port", "the Colony"], "device": ["the Device", "the Unit", "the Machine"]}
    NAMED = {"train": ["Here {a} means {e}.", "Below, {a} stands for {e}.", "The name of {a} is {e}.", "In this file, {a} is {e}.",
                       "By {a} we mean {e}.", "In all that follows, {a} is {e}."],
             "test": ["In this file, {a} means {e}.", "Below, {a} is {e}.", "Here {a} stands for {e}."]}

    def group_alias(self, room):
        """Documents of two or three chunks; the later ones know the thing by its role only.  Half of the groups use
        one role for all documents, so that the role says nothing without the chunk before."""
        r = self.rng
        typ = r.choice(facts.TYPES)
        n = max(2, min(room // 2, self.style.rivals[1]))
        same = r.random() < 0.5
        names = [r.choice(self.ALIASES[typ])] * n if same else r.sample(self.ALIASES[typ], min(n, len(self.ALIASES[typ])))
        frames = self.NAMED["test" if self.split == "test" else "train"]
        rels = self.relations(typ, r.randint(*self.style.facts))
        head = [x for x in self.relations(typ, 2) if x not in rels][:1] if r.random() < 0.4 else []
        docs, told = [], []
        for alias in names:
            e = self.name()
            intro = [capital(r.choice(frames).format(e=e, a=alias))]
            hp = [(x, new_object(r, self.name, x)) for x in head]
            intro += [say(r, self.split, x, e, o) for x, o in hp]
            pairs = self.pairs(rels)
            uses = [say(r, self.split, rel, alias, o, subject_first=not self.chance(self.style.loose), more=self.style.more) for rel, o in pairs]
            title = self.heading(r.choice(["Contract", "Report", "File", "Letter"]))
            cut = [" ".join(uses)] if len(uses) < 2 or r.random() < 0.7 else [uses[0], " ".join(uses[1:])]
            where = [1] * len(uses) if len(cut) == 1 else [1] + [2] * (len(uses) - 1)
            links = [(c, alias, o, x.keys) for c, (x, o) in zip(where, pairs)] + [(0, e, o, x.keys) for x, o in hp]
            docs.append(self.document([(title, " ".join(intro))] + [(title, u) for u in cut], e, "alias", links, (e, alias)))
            told.append((e, alias, hp, pairs))
        for i, (e, alias, hp, pairs) in zip(self.add(docs), told):
            for rel, o in pairs:
                self.qa("alias", ask(r, self.split, rel, e), o, [i], e, rel=rel.keys)
                if not same and r.random() < 0.1:
                    self.qa("single", ask(r, self.split, rel, alias), o, [i], alias, rel=rel.keys)
            for rel, o in hp:
                self.qa("single", ask(r, self.split, rel, e), o, [i], e, rel=rel.keys)

    UNITS = "tons kilos euros dollars pounds boxes barrels litres".split()
    GOODS = "rope sugar salt coal wine wheat paper cloth tea oil".split()
    HEADERS = {"train": ["{w} of {e}. All amounts are in {u}.", "This is the {l} of {e}. Amounts are given in {u}.",
                         "{w} of {e}, in {u}.", "The {l} of {e} counts everything in {u}."],
               "test": ["This is the {l} of {e}, in {u}.", "{w} of {e}. Amounts are given in {u}."]}
    HEADER_ASK = {"train": ["How much {g} is in the {l} of {e}?", "What is the amount of {g} in the {l} of {e}?", "Give the amount of {g} for {e}."],
                  "test": ["How much {g} is listed for {e}?", "Tell me the amount of {g} in the {l} of {e}."]}

    def group_header(self, room):
        """A list whose owner and unit stand in the chunk before its lines."""
        r = self.rng
        s = "test" if self.split == "test" else "train"
        n = max(2, min(room // 2, self.style.rivals[1]))
        units = r.sample(self.UNITS, n)
        goods = r.sample(self.GOODS, 1 + r.randint(*self.style.facts))
        what = r.choice(["list", "stock", "order"])
        docs, told = [], []
        for u in units:
            e = self.name()
            lines = [(g, str(r.randrange(10, 100))) for g in r.sample(goods, len(goods))]
            mark, sep = r.choice(["", "- "]), r.choice([": ", " "])
            body = "\n".join(f"{mark}{g}{sep}{x}" for g, x in lines) if r.random() < 0.6 else ", ".join(f"{g} {x}" for g, x in lines) + "."
            title = self.heading(what.capitalize())
            head = r.choice(self.HEADERS[s]).format(w=what.capitalize(), l=what, e=e, u=u)
            docs.append(self.document([(title, head), (title, body)], e, "header", [(1, e, x, (g,)) for g, x in lines]))
            told.append((e, u, lines))
        for i, (e, u, lines) in zip(self.add(docs), told):
            for g, x in lines:
                self.qa("header", r.choice(self.HEADER_ASK[s]).format(g=g, l=what, e=e), f"{x} {u}", [i], e, anchor=g, rel=(g,))

    COLUMNS = {"train": ["List of {l}. Each line gives {c}.", "This list of {l} has the columns {c}."], "test": ["This is a list of {l}. Its columns are {c}."]}

    def group_columns(self, room):
        """Lines of words whose meaning (the column names) stands in the chunk before; two lists in different orders."""
        r = self.rng
        typ = r.choice(("company", "person", "town"))
        docs, told = [], []
        rels = self.relations(typ, 2)
        for k in range(2):
            rs = rels if k == 0 else rels[::-1]
            rows = [(self.name(), [new_object(r, self.name, rel) for rel in rs]) for _ in range(r.randint(*self.style.rivals))]
            intro = r.choice(self.COLUMNS["test" if self.split == "test" else "train"])
            title = self.heading("List")
            docs.append(Doc([(title, intro.format(l={"company": "firms", "person": "people", "town": "towns"}[typ], c="name, " + ", ".join(x.noun for x in rs))),
                             (title, "\n".join(", ".join([s] + o) for s, o in rows))], typ, "columns",
                            links=[(1, s, x, ()) for s, o in rows for x in o]))
            told += [(k, s, rel, x) for s, o in rows for rel, x in zip(rs, o)]
        ids = self.add(docs)
        for k, s, rel, x in told:
            self.qa("header", ask(r, self.split, rel, s), x, [ids[k]], s, rel=rel.keys)

    def group_path(self, room):
        """A small graph, one document a head entity, parents before children."""
        r = self.rng
        arrows = r.random() < 0.5
        if self.is_wide():
            typed = {t: facts.wide(r, t, things=True) for t in ("company", "person", "town")}
        else:
            typed = {t: [x for x in BY_TYPE[t] if x.object in facts.TYPES] for t in ("company", "person", "town")}
        frontier = [(self.name(), r.choice(["company", "person"]), -1)]
        edges, docs, base = [], [], len(self.scene.docs)
        for _ in range(max(2, min(room, r.randint(3, 5)))):
            if not frontier:
                break
            s, typ, parent = frontier.pop(r.randrange(len(frontier)))
            me = base + len(docs)
            lines, links = [], []
            for rel in r.sample(typed[typ], min(len(typed[typ]), r.choice([1, 2, 2]))):
                o = self.name()
                lines.append(f"{s} -{rel.noun}-> {o}" if arrows else say(r, self.split, rel, s, o))
                edges.append((s, rel, o, me))
                links.append((0, s, o, rel.keys))
                frontier.append((o, rel.object, me))
            docs.append(Doc([(self.heading(s), ("\n" if arrows else " ").join(lines))], s, "path", parent, links=links))
        self.add(docs)
        for s, rel, o, i in edges:
            self.qa("path1", ask(r, self.split, rel, s), o, [i], s, rel=rel.keys)
            for s2, rel2, o2, j in edges:
                if s2 == o:
                    self.qa("path2", ask(r, self.split, rel2, f"the {rel.noun} of {s}"), o2, [i, j], s, hop=o, rel=rel2.keys, inner=rel.noun)


SIZE = {"single": 2, "compare": 2, "bridge": 4, "alias": 4, "header": 4, "columns": 4, "path": 3}


def make_scene(rng, split, weights, n_chunks, style=None):
    """A scene of about n_chunks chunks, groups drawn by weights {group: weight}."""
    b = Builder(rng, split, style or Style())
    kinds, w = list(weights), list(weights.values())
    while True:
        room = n_chunks - len(b.scene.chunks)
        if room < 1 or (b.scene.docs and room < 2):
            break
        k = rng.choices(kinds, w)[0]
        if SIZE[k] > room:
            if b.scene.docs or n_chunks >= 4:
                k = "single" if room < 4 or "single" in weights else k
            if SIZE[k] > room and b.scene.docs:
                break
        getattr(b, "group_" + k)(max(room, SIZE[k]))
    shuffle_docs(rng, b.scene)
    return b.scene


def shuffle_docs(rng, scene):
    """Any order of documents, but the documents of a graph stay as they are among themselves, parents first."""
    order = list(range(len(scene.docs)))
    rng.shuffle(order)
    graph = iter(sorted(d for d in order if scene.docs[d].style == "path"))
    order = [next(graph) if scene.docs[d].style == "path" else d for d in order]
    at = {d: i for i, d in enumerate(order)}
    scene.docs = [scene.docs[d] for d in order]
    for d in scene.docs:
        d.parent = at[d.parent] if d.parent >= 0 else -1
    for q in scene.qas:
        q.docs = tuple(at[d] for d in q.docs)
