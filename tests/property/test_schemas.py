"""Grammars of random JSON schemas accept exactly what the `jsonschema` package does, and what they generate is valid.

Exact within the form that docs/server.md describes: properties in the order of the schema (here: sorted), undeclared
ones only where the schema allows them by name, numbers without exponents. SPOLIA_SCHEMAS is how many schemas.
"""
import json
import os
import pathlib
import random
import subprocess

import jsonschema
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOOL = ROOT / os.environ.get("SPOLIA_BUILD", "build") / "tests/support/schema_texts"
N = int(os.environ.get("SPOLIA_SCHEMAS", 300))
NAMES = ["a", "ab", "b", "x1", "é"]
WORDS = ["", "a", "ab", "abc", "x1", "aab", "b1", "é", "a\"b", "zzzz", "12"]
PATTERNS = ["^a", "b$", "^[a-z]+$", "[0-9]", "^(ab|a)*$", "^.{1,2}$", "^x[0-9]$"]


class Grammars:
    def __init__(self):
        if not TOOL.exists():
            pytest.skip(f"{TOOL} is not built")
        self.tool = subprocess.Popen([TOOL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, schema, texts=(), generate=0):
        self.tool.stdin.write(json.dumps({"schema": schema, "texts": list(texts), "generate": generate}) + "\n")
        self.tool.stdin.flush()
        return json.loads(self.tool.stdout.readline())


@pytest.fixture(scope="module")
def grammars():
    g = Grammars()
    yield g
    g.tool.stdin.close()
    assert g.tool.wait() == 0


def text(value):
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def valid(schema, value):
    return jsonschema.Draft202012Validator(schema).is_valid(value)


# -- random schemas -----------------------------------------------------------------------------------------

def some(r, chance=0.5):
    return r.random() < chance


def integer(r):
    s = {"type": "integer"}
    lo, hi = sorted((r.choice([0, 1, r.randint(-1500, 1500)]), r.randint(-1500, 1500)))
    if some(r):
        s[r.choice(["minimum", "exclusiveMinimum"])] = r.choice([lo, lo, lo + 0.5])
    if some(r):
        s[r.choice(["maximum", "exclusiveMaximum"])] = hi + r.choice([0, 2, 0.5])
    if some(r, 0.3):
        s["multipleOf"] = r.choice([1, 2, 3, 5, 7, 10, 12, 100, 250])
    return s


def number(r):
    s = {"type": "number"}
    lo, hi = sorted(r.choice([0, 1, -1, 0.5, -0.25, 9.75, round(r.uniform(-30, 30), 2)]) for _ in range(2))
    if some(r):
        s[r.choice(["minimum", "exclusiveMinimum"])] = lo
    if some(r):
        s[r.choice(["maximum", "exclusiveMaximum"])] = hi + r.choice([0, 0.125])
    return s


def string(r):
    s = {"type": "string"}
    if some(r, 0.4):
        s["minLength"] = r.randint(0, 3)
    if some(r, 0.4):
        s["maxLength"] = r.randint(1, 4)
    if some(r, 0.4):
        s["pattern"] = r.choice(PATTERNS)
    return s


def values(r):
    pool = ["a", "ab", "x", 1, 2, 30, None, True, False, 0.1, -2.5, [1, "a"], {"a": 1}]
    s = {"enum": r.sample(pool, r.randint(1, 6))}
    if some(r, 0.3):
        s.update(r.choice([{"type": "string"}, {"minimum": 2}, {"pattern": "^a"}, {"type": ["null", "integer"]}]))
    return s if some(r, 0.8) else {"const": s["enum"][0]}


def array(r, depth):
    s = {"type": "array", "items": schema(r, depth - 1)}
    if some(r, 0.3):
        s["prefixItems"] = [schema(r, 0) for _ in range(r.randint(1, 3))]
        if some(r, 0.4):
            s["items"] = False
    elif some(r, 0.3):
        s["items"] = r.choice([{"enum": ["a", "b", "c"]}, {"type": "boolean"}, {"enum": [1, 2]}])
        s["uniqueItems"] = True
    if some(r, 0.4):
        s["minItems"] = r.randint(0, 2)
    if some(r, 0.4):
        s["maxItems"] = r.randint(1, 4)
    return s


def object_(r, depth):
    names = sorted(r.sample(NAMES, r.randint(0, 4)))
    s = {"type": "object", "properties": {n: schema(r, depth - 1) for n in names}, "additionalProperties": False}
    s["required"] = [n for n in names if some(r, 0.4)]
    if some(r, 0.3):
        s["additionalProperties"] = schema(r, 0)
    if some(r, 0.25):
        s["patternProperties"] = {p: schema(r, 0) for p in r.sample(PATTERNS, r.randint(1, 2))}
    if some(r, 0.25):
        s["minProperties"] = r.randint(0, len(s["required"]) + 1)
    if some(r, 0.25):
        s["maxProperties"] = r.randint(1, 4)
    return s


def all_of(r, depth):
    kind = r.choice([integer, number, string, lambda r: array(r, depth - 1), lambda r: object_(r, depth - 1)])
    s = {"allOf": [kind(r) for _ in range(r.randint(1, 2))]}
    if some(r, 0.4):
        s.update(kind(r))
    for part in [s, *s["allOf"]]: # undeclared names only where all parts allow them
        part.pop("patternProperties", None)
    return s


def schema(r, depth):
    simple = [integer, number, string, values, lambda r: {"type": "boolean"}, lambda r: {"type": "null"}]
    nested = [lambda r: array(r, depth), lambda r: object_(r, depth), lambda r: all_of(r, depth),
              lambda r: {"anyOf": [schema(r, depth - 1) for _ in range(2)]},
              lambda r: {"type": ["integer", "string"], "minimum": 3, "maxLength": 2}]
    s = r.choice(simple + (nested * 2 if depth > 0 else []))(r)
    if some(r, 0.1):
        s["title"] = s["x-order"] = "t"
    return s


# -- random values -------------------------------------------------------------------------------------------

def value(r, depth=2):
    kinds = [lambda: r.choice([0, 1, 2, -1, 10, 100, 250, 1500, r.randint(-2000, 2000)]),
             lambda: r.choice([0.5, -0.25, 9.75, 0.1, 1.5, round(r.uniform(-35, 35), r.randint(1, 4))]),
             lambda: r.choice(WORDS), lambda: r.choice([None, True, False])]
    if depth > 0:
        kinds += [lambda: [value(r, depth - 1) for _ in range(r.randint(0, 4))],
                  lambda: {n: value(r, depth - 1) for n in r.sample(NAMES + ["zz", "ab1"], r.randint(0, 4))}]
    return r.choice(kinds)()


def near(r, v):
    """A value like a valid one: most mistakes are small."""
    if isinstance(v, bool) or v is None:
        return r.choice([True, False, None])
    if isinstance(v, (int, float)):
        return r.choice([v + 1, v - 1, v * 10, -v, v + 0.5, v])
    if isinstance(v, str):
        return r.choice([v + "a", v[:-1], v + "é", v[::-1], "b" + v])
    if isinstance(v, list):
        return r.choice([v[:-1], v + [r.choice([1, "a", True])], [near(r, i) for i in v], v + v[:1]])
    return r.choice([{k: near(r, i) for k, i in v.items()}, {k: i for k, i in v.items() if some(r)},
                     {**v, r.choice(NAMES): r.choice([1, "a", None])}])


def in_order(s, v, root=None):
    """Whether the canonical form has no other order for v: free names come after declared ones."""
    return "additionalProperties" not in json.dumps(s).replace('"additionalProperties": false', "") \
        and "patternProperties" not in json.dumps(s) or not has_object(v)


def has_object(v):
    return isinstance(v, dict) and bool(v) or isinstance(v, list) and any(has_object(i) for i in v)


def plain(v):
    """Whether v is written as the grammar writes numbers: few digits, no exponent."""
    if isinstance(v, float):
        return v != int(v) and "e" not in repr(v) and len(repr(v)) < 12
    if isinstance(v, int):
        return abs(v) < 10**15
    if isinstance(v, dict):
        return all(plain(i) for i in v.values())
    return all(plain(i) for i in v) if isinstance(v, list) else True


def test_random_schemas(grammars):
    accepted = refused = made = bad_schemas = 0
    for number_ in range(N):
        r = random.Random(number_)
        s = schema(r, 2)
        first = grammars.ask(s, generate=12)
        if "error" in first:
            bad_schemas += 1
            known = ("no value is valid", "minProperties: a grammar cannot", "more than 256 alternatives",
                     "allOf of patternProperties", "uniqueItems of values")
            assert any(k in first["error"] for k in known), (number_, s, first)
            if "no value is valid" in first["error"]:
                for _ in range(40):
                    v = value(r)
                    assert not valid(s, v) or not plain(v), (number_, s, v, first)
            continue
        made += len(first["made"])
        samples = []
        for t in first["made"]:
            assert not t.startswith("DEAD END"), (number_, s, t)
            v = json.loads(t)
            assert valid(s, v), (number_, s, t)
            samples.append(v)
        candidates = samples + [near(r, v) for v in samples for _ in range(2)] + [value(r) for _ in range(25)]
        candidates = [v for v in candidates if plain(v) and in_order(s, v)]
        answer = grammars.ask(s, [text(v) for v in candidates])["accepted"]
        for v, ok in zip(candidates, answer):
            assert ok == valid(s, v), (number_, s, text(v), "accepted" if ok else "refused")
            accepted += ok
            refused += not ok
    print(f"{N} schemas, {bad_schemas} without values or refused; {made} texts made, {accepted} accepted, {refused} refused")
    assert bad_schemas < N / 4 and accepted > N and refused > N
