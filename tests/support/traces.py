"""What a text leaves where copies are stored: its word, the tokens of its word, and the ids of its segments."""
import collections
import contextlib
import hashlib

MAGIC, PAGE = b"SPOLIAKV", 4096  # src/store/record.c
SIZE, SPACE, ID = slice(16, 24), slice(64, 96), slice(96, 128)
NOTES, BELOW = 8, 16


def digits_of(server):
    """The token of each digit, as it is stored."""
    tokens = server.call("/tokenize", {"content": "Keeper0123456789"})[1]["tokens"][-10:]
    return {str(i): t.to_bytes(4, "little") for i, t in enumerate(tokens)}


def headers(data):
    """Those of the copies in a file."""
    for at in range(0, len(data), PAGE):
        if data.startswith(MAGIC, at):
            yield data[at:at + int.from_bytes(data[at:][SIZE], "little")]


def number(header, at):
    return int.from_bytes(header[at:at + 4], "little")


def is_whole(header):
    """Not one that is being written, or whose write failed."""
    return hashlib.sha256(header[:-32]).digest() == header[-32:]


def tokens_of(header):
    n, before, layers, flags = (number(header, at) for at in (24, 32, 40, 44))
    more = flags & (NOTES | BELOW)
    below = number(header, 136) if more else 0
    at = (144 if more else 128) + 16 * layers * (2 if flags & NOTES else 1) + 32 * (before + below)
    return header[at:at + 4 * n]


class Traces:
    """Of words like Keeper123, each in one text of one or more tenants."""

    def __init__(self, folder, shared, digits, tenants):
        self.folder, self.shared, self.digits, self.tenants = folder, shared, digits, tenants
        self.ids = collections.defaultdict(set)  # of a word and a tenant
        self.seen = collections.Counter()  # where there were some before the deletion

    def tokens(self, word):
        return b"".join(self.digits[c] for c in word if c.isdigit())

    def files(self):
        for path in self.folder.rglob("*"):
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):  # the server may delete one meanwhile
                yield path, path.read_bytes()

    def owner(self, header):
        """The tenant whose key gives this id to the tokens, or None."""
        tokens = tokens_of(header)
        return next((t for t in self.tenants if header[ID] in t.segment_ids(header[SPACE], tokens)), None)

    def strange(self):
        """Ids of copies that belong to no tenant."""
        return {h[ID].hex() for _, data in self.files() for h in headers(data) if is_whole(h) and not self.owner(h)}

    def learn(self, word, tenant):
        """Before the tenant's text is deleted: which segments are its own. Returns ids that belong to no tenant."""
        tokens, strange = self.tokens(word), set()
        for _, data in self.files():
            for h in headers(data) if tokens in data else []:
                owner = self.owner(h) if is_whole(h) else tenant
                if tokens in h and owner is tenant:
                    self.ids[word, tenant].add(h[ID])
                strange |= set() if owner else {h[ID].hex()}
        self.seen["files"] += bool(self.ids[word, tenant])
        if self.shared and self.shared.answers():
            self.seen["shared"] += bool(self.shared.find([tokens]))

    def find(self, word, tenant, shared):
        """Where they are. shared: another tenant has the text, so only ids can tell."""
        patterns = [*self.ids[word, tenant], *([] if shared else [word.encode(), self.tokens(word)])]
        found = [str(path) for path, data in self.files() if any(p in data for p in patterns)]
        return found + (self.shared.find(patterns) if self.shared and self.shared.answers() else [])
