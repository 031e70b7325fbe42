"""Invented names.  A name is two (at times three) syllables: consonant, vowel and often a closing consonant.

A closed syllable ("bak") belongs to one split, by a hash of its letters; open ones ("ba") are for training only.  Names of
the dev and test splits are built from closed syllables of their own, so no training text has any of their syllables in a
name.  The tokenizer knows the open syllables and single letters, hence the tokens of a held-out syllable ("bak" = "ba" +
"k") are tokens that training has seen, each with and without a letter behind it.
"""
import random
import zlib

ONSETS = "b d f g h k l m n p r s t v z".split()
VOWELS = "a e i o u".split()
CODAS = "l n r s t k m".split()
OPEN = [o + v for o in ONSETS for v in VOWELS]
SPLITS = ("train", "dev", "test")


def split_of(syllable):
    h = zlib.crc32(("syllable " + syllable).encode()) % 20
    return "train" if h < 12 else "dev" if h < 15 else "test"


def syllables(split):
    """(open, closed) syllables of a split."""
    return OPEN if split == "train" else [], [s for s in (o + c for o in OPEN for c in CODAS) if split_of(s) == split]


_TABLE = {s: syllables(s) for s in SPLITS}


class Namer:
    """Draws names that no two things of one scene share.  few: from a handful of syllables, so that many names begin alike;
    the held-out splits have few closed syllables, training would else meet such names too seldom."""

    def __init__(self, rng: random.Random, split: str, few=False):
        self.rng = rng
        self.open, self.closed = _TABLE[split]
        if few and split == "train":
            self.open, self.closed = rng.sample(self.open, 8), rng.sample(self.closed, rng.randint(16, 60))
        self.used = set()

    def __call__(self):
        r = self.rng
        while True:
            n = 3 if r.random() < 0.12 else 2
            name = "".join(r.choice(self.closed if not self.open or r.random() < 0.7 else self.open) for _ in range(n)).capitalize()
            if name not in self.used:
                self.used.add(name)
                return name
