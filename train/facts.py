"""What can be said: types of things, relations, and the sentences and questions that state and ask them.

A relation has a noun ("founder"); those listed here have verbs too.  Frames that fit any noun, times lead-ins, plus the
verb sentences give tens of paraphrases a fact.  For each noun some frames are held out (see `allowed`): the test split
uses only those, training and dev only the others.  Every word of a held-out sentence is known from other relations.

`wide` draws further relations from the nouns of nouns.py; they have frames only.
"""
import functools
import random
import zlib
from dataclasses import dataclass, field

from . import nouns

JOBS = "baker pilot nurse lawyer painter singer farmer miner tailor judge dancer sailor teacher printer".split()
PRODUCTS = "lamps boats chairs clocks bicycles shoes pianos tents knives toys carpets engines".split()
LANDMARKS = "bridge market garden tower castle museum harbour temple theatre library".split()
COLOURS = "red blue green white black yellow purple orange brown grey".split()
MATERIALS = "steel wood glass copper leather silver wool clay".split()
MONTHS = "January February March April May June July August September October November December".split()


@dataclass
class Relation:
    name: str
    subject: str
    object: object                      # a type, a list of words, or "year", "date", "number UNIT"
    says: list = field(default_factory=list)   # verb sentences, with {s} and {o}
    asks: list = field(default_factory=list)   # verb questions, with {s}
    noun: str = ""
    head: str = ""                      # last word of the noun: what frames are held out for
    keys: tuple = ()                    # the words that tell the relation in its sentences, for the hints of hints.py

    def __post_init__(self):
        self.noun = self.noun or self.name
        self.head = self.head or self.noun
        self.keys = (self.noun,) + tuple(filter(None, map(_key, self.says + self.asks)))


PLAIN = set("what which where when who how much does was is has have the its for with {s}".split())


def _key(template):
    """The longest word of a verb sentence that can tell its relation."""
    words = [w.strip(".,?").lower() for w in template.split()]
    return max((w for w in words if w not in PLAIN and "{" not in w and len(w) > 2), key=len, default="")


R = Relation
RELATIONS = [
    R("founder", "company", "person", ["{s} was founded by {o}.", "{o} founded {s}."], ["Who founded {s}?"]),
    R("director", "company", "person", ["{s} is led by {o}.", "{o} leads {s}."], ["Who leads {s}?"]),
    R("seat", "company", "town", ["{s} is based in {o}.", "{s} has its main office in {o}."], ["Where is {s} based?"]),
    R("product", "company", PRODUCTS, ["{s} makes {o}.", "{s} sells {o}."], ["What does {s} make?", "What does {s} sell?"]),
    R("supplier", "company", "company", ["{s} buys its parts from {o}.", "{o} supplies {s}."], ["Who supplies {s}?"]),
    R("opening year", "company", "year", ["{s} was opened in {o}.", "{s} has been open since {o}."], ["When was {s} opened?"]),
    R("birthplace", "person", "town", ["{s} was born in {o}.", "{s} comes from {o}."], ["Where was {s} born?"]),
    R("partner", "person", "person", ["{s} is married to {o}.", "{s} lives with {o}."], ["Who is {s} married to?"]),
    R("trade", "person", JOBS, ["{s} works as a {o}.", "{s} is a {o}."], ["What does {s} work as?"]),
    R("employer", "person", "company", ["{s} works for {o}.", "{s} is employed by {o}."], ["Who employs {s}?"]),
    R("rival", "person", "person", ["{s} competes with {o}."], ["Who does {s} compete with?"]),
    R("birth year", "person", "year", ["{s} has lived since {o}."], ["When was {s} born?"]),
    R("mayor", "town", "person", ["{s} is governed by {o}.", "{o} governs {s}."], ["Who governs {s}?"]),
    R("river", "town", "name", ["{s} lies on the river {o}.", "The river {o} runs through {s}."], ["On which river does {s} lie?"]),
    R("landmark", "town", LANDMARKS, ["{s} is famous for its {o}.", "Visitors of {s} like the {o}."], ["What is {s} famous for?"]),
    R("flag colour", "town", COLOURS, ["{s} has a {o} flag."], ["Which flag does {s} have?"]),
    R("market day", "town", MONTHS, ["{s} holds its market in {o}."], ["When does {s} hold its market?"]),
    R("maker", "device", "company", ["{s} is made by {o}.", "{o} makes the {s}."], ["Who makes the {s}?"]),
    R("colour", "device", COLOURS, ["{s} comes in {o}."], ["Which colour does the {s} have?"]),
    R("material", "device", MATERIALS, ["{s} is made of {o}."], ["What is the {s} made of?"]),
    R("weight", "device", "number kilos", ["{s} weighs {o}."], ["How much does the {s} weigh?"]),
    R("price", "device", "number euros", ["{s} costs {o}."], ["How much does the {s} cost?"]),
]
TYPES = ("company", "person", "town", "device")
BY_TYPE = {t: [r for r in RELATIONS if r.subject == t] for t in TYPES}
BY_NAME = {r.name: r for r in RELATIONS}
TYPE_WORDS = {"company": ["company", "firm"], "person": ["person"], "town": ["town", "city"], "device": ["device", "model"]}

SAY = ["The {n} of {s} is {o}.", "For {s}, the {n} is {o}.", "{s} gives its {n} as {o}.", "As {n} of {s}, the register lists {o}.",
       "{s} ({n}: {o}) is listed here.", "The {n} listed for {s} is {o}.", "{s}: the {n} is {o}.", "{s} has this {n}: {o}.",
       "In the case of {s}, the {n} is {o}.", "The {n} given for {s} is {o}.", "{s} lists its {n} as {o}.", "As {n}, {s} lists {o}."]
# The object stands before the subject or the relation: a causal model must gather at a later word.  Used where Style.late allows.
SAY_LATE = ["{o} is the {n} of {s}.", "{s} has {o} as {n}.", "The register lists {o} as the {n} of {s}."]
# Further frames, in training only: the more forms a noun is met in, the surer it is read in one where it was never met.
SAY_MORE = ["{s} is listed with the {n} {o}.", "{s} names its {n}: {o}.", "{s} stands in the list with {n} {o}.", "{s} is known for this {n}: {o}.",
            "{s}, {n} {o}, is on file.", "{s} ({n} {o}) is kept in the archive.", "{s} reports the {n} {o}.", "{s} is here with its {n}, {o}.",
            "{s} shows its {n}: {o}.", "{s}: {n} {o}.", "On file for {s}: {n} {o}.", "Read here of {s}: the {n} is {o}."]
LEADS = ["", "", "", "", "According to the register, ", "As is well known, ", "At the time of writing, ", "We note that ",
         "Please note that ", "Our records show that ", "In short, ", "Today "]
ASK = ["{w} is the {n} of {s}?", "Name the {n} of {s}.", "Tell me the {n} of {s}.", "For {s}, {v} is the {n}?",
       "According to the documents, {v} is the {n} of {s}?", "{s} has which {n}?", "Give the {n} of {s}."]
# A relation phrase whose subject is a pronoun, a role or a continued heading: the subject must come first.
SUBJECT_FIRST = tuple(i for i, f in enumerate(SAY) if f.startswith("{s}"))
N_HELD_SAY, N_HELD_ASK = 3, 2


@functools.lru_cache(None)
def _held(head, what, n, keep, count):
    """Indices of the frames of a noun that only the test split uses; frames in `keep` are never all held out."""
    r = random.Random(zlib.crc32(f"{what} {head}".encode()))
    while True:
        held = set(r.sample(range(n), count))
        if not keep or (any(i not in held for i in keep) and any(i in held for i in keep)):
            return held


def allowed(rel, split, subject_first=False):
    """Statement templates of a relation in a split."""
    held = _held(rel.head, "say", len(SAY), SUBJECT_FIRST, N_HELD_SAY)
    pick = SUBJECT_FIRST if subject_first else range(len(SAY))
    out = [SAY[i] for i in pick if (i in held) == (split == "test")]
    if split != "test":
        out += [t for t in rel.says if t.index("{s}") < t.index("{o}") and (not subject_first or t.startswith("{s}"))] * 2
    return out


def late(rel):
    return SAY_LATE + [t for t in rel.says if t.index("{o}") < t.index("{s}")]


def allowed_asks(rel, split):
    held = _held(rel.head, "ask", len(ASK), None, N_HELD_ASK)
    out = [a for i, a in enumerate(ASK) if (i in held) == (split == "test")]
    return out if split == "test" else out + rel.asks * 2


_SAYS = {(r.name, s, f): allowed(r, s, f) for r in RELATIONS for s in ("train", "dev", "test") for f in (False, True)}
_LATE = {r.name: late(r) for r in RELATIONS}
_ASKS = {(r.name, s): allowed_asks(r, s) for r in RELATIONS for s in ("train", "dev", "test")}

WIDE = nouns.pools(PRODUCTS, MATERIALS, MONTHS)
for _r in RELATIONS:
    if " " not in _r.noun:
        WIDE[_r.subject].append((_r.noun, _r.object))


def wide(rng, typ, things=False):
    """Three to six relations of a type that are easily confused: some share a noun, some the word before it.
    things: only those whose object is a thing with facts of its own."""
    pool = [x for x in WIDE[typ] if x[1] in TYPES[:3]] if things else WIDE[typ]
    words = ["", ""] + rng.sample(nouns.MODIFIERS, 2)
    out = {}
    for head, o in rng.sample(pool, 3):
        for w in rng.sample(words, rng.choice((1, 1, 2))):
            noun = f"{w} {head}".strip()
            out[noun] = Relation(noun, typ, o, head=head)
            for s in ("train", "dev", "test"):
                if (noun, s, True) not in _SAYS:
                    _SAYS[noun, s, False], _SAYS[noun, s, True] = (allowed(out[noun], s, f) for f in (False, True))
                    _ASKS[noun, s] = allowed_asks(out[noun], s)
            _LATE.setdefault(noun, SAY_LATE)
    return list(out.values())


def capital(text):
    return text[0].upper() + text[1:]


def new_object(rng, namer, rel):
    o = rel.object
    if isinstance(o, list):
        return rng.choice(o)
    if o == "year":
        return str(rng.randrange(1900, 2000))
    if o.startswith("number "):
        return f"{rng.randrange(10, 100)} {o[7:]}"
    return namer()


def say(rng, split, rel, s, o, lead=0.35, subject_first=False, late_share=0.0, more=0.0):
    """One sentence that states rel(s) = o.  more: share of the frames of SAY_MORE."""
    if more and split == "train" and rng.random() < more:
        t = rng.choice(SAY_MORE)
    elif late_share and not subject_first and rng.random() < late_share:
        t = rng.choice(_LATE[rel.name])
    else:
        t = rng.choice(_SAYS[rel.name, split, subject_first])
    t = t.format(s=s, o=o, n=rel.noun)
    if rng.random() < lead:
        head = rng.choice(LEADS)
        if head:
            return head + (t[0].lower() + t[1:] if t.startswith(("The ", "As ", "For ", "In the ", "Visitors ", "On ", "Read ")) else t)
    return capital(t)


def ask(rng, split, rel, s):
    who = rel.object in TYPES[:2] if isinstance(rel.object, str) else False
    w = "Who" if who and rel.object == "person" else "What"
    return capital(rng.choice(_ASKS[rel.name, split]).format(s=s, n=rel.noun, w=w, v=w.lower()))
