"""Tenants of a server that tests/chaos.py drives: what each has registered, and the ids that its key gives to texts."""
import collections
import hashlib
import re

WORD = re.compile(r"Keeper\d+")
LEAKS = {"evicted", "damaged", "other model", "other policy", "other system prompt"}  # a reason that tells of a copy


def word_of(text):
    return WORD.search(text).group()


def field(tag, data):
    return tag.encode() + b"\0" + len(data).to_bytes(8, "little") + data


class Tenant:
    """A key, or the only user of a server without keys."""

    def __init__(self, key=None):
        self.key = key
        self.ids = {}  # document -> its text, None when it is gone, "?" when nobody can say
        self.words = collections.defaultdict(set)  # document -> words of the texts that it may have
        self.ending = set()  # words of texts whose deletion may not be over
        self.gone = set()  # words of texts that were registered and are not any more
        self.ahead = set()  # documents whose last text is computed when nobody asks, perhaps not yet
        self.asked = set()  # words of texts whose KV may have been computed
        self.last = None  # the id of an answer

    def began(self, name, word):
        """A registration that may have failed."""
        self.words[name].add(word)

    def registered(self, name, word):
        self.ending |= self.words[name] - {word}
        self.words[name] = {word}

    def deleted(self, name):
        self.ending |= self.words.pop(name, set())

    def ended(self):
        """All deletions."""
        self.ending.clear()

    def all_words(self):
        return self.ending.union(*self.words.values())

    def segment_ids(self, space, tokens):
        """src/kv/segment.c, src/serve/prompt/prompt.c: the ids that tokens have under the key, alone and in a tree."""
        salt = field("no salt", b"")
        if self.key:  # src/server/http/keys.c
            key = hashlib.sha256(self.key.encode()).digest()
            salt = field("salt", hashlib.sha256(b"spolia tenant\0" + key).hexdigest().encode())
        for _ in range(3):  # a node that is short or moves has the id of its id
            space = hashlib.sha256(field("spolia/segment/1", space) + salt + field("tokens", tokens)).digest()
            yield space
