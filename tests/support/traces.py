"""What a text leaves where copies are stored: its word, the tokens of its word, and the ids of its segments."""
import collections

MAGIC, PAGE, SIZE, ID = b"SPOLIAKV", 4096, slice(16, 24), slice(96, 128)  # src/store/record.c
FIND = """
local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local expires = redis.call('TTL', key) >= 0 -- what was being written when a server was lost
  local all = expires and '' or key .. redis.call('DUMP', key)
  for _, hex in ipairs(ARGV) do
    local bytes = hex:gsub('%x%x', function(x) return string.char(tonumber(x, 16)) end)
    if all:find(bytes, 1, true) or all:find(hex, 1, true) then found[#found + 1] = key end
  end
end
return table.concat(found, ' ')
"""


def digits_of(server):
    """The token of each digit, as it is stored."""
    tokens = server.call("/tokenize", {"content": "Keeper0123456789"})[1]["tokens"][-10:]
    return {str(i): t.to_bytes(4, "little") for i, t in enumerate(tokens)}


def headers(data):
    """Those of the copies in a file."""
    for at in range(0, len(data), PAGE):
        if data.startswith(MAGIC, at):
            yield data[at:at + int.from_bytes(data[at:][SIZE], "little")]


class Traces:
    """Of words like Keeper123, each in one text."""

    def __init__(self, folder, shared, digits):
        self.folder, self.shared, self.digits = folder, shared, digits
        self.ids = collections.defaultdict(set)
        self.seen = collections.Counter()  # where there were some before the deletion

    def tokens(self, word):
        return b"".join(self.digits[c] for c in word if c.isdigit())

    def files(self):
        for path in self.folder.rglob("*"):
            if path.is_file():
                yield path, path.read_bytes()

    def learn(self, word):
        """Before the text is deleted: which segments are its own."""
        tokens = self.tokens(word)
        for _, data in self.files():
            if tokens in data:
                self.ids[word] |= {h[ID] for h in headers(data) if tokens in h}
        self.seen["files"] += bool(self.ids[word])
        if self.redis_answers():
            self.seen["redis"] += bool(self.find_shared([tokens]))

    def find(self, word):
        """Where they are."""
        patterns = [word.encode(), self.tokens(word), *self.ids[word]]
        found = [str(path) for path, data in self.files() if any(p in data for p in patterns)]
        return found + (self.find_shared(patterns) if self.redis_answers() else [])

    def redis_answers(self):
        return self.shared and self.shared.answers()

    def find_shared(self, patterns):
        return self.shared.redis.do("EVAL", FIND, "0", *(p.hex() for p in patterns)).split()
