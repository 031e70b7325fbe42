"""The kinds of servers that tests/chaos.py drives."""
import typing

from support.shared import can_share



class Variant(typing.NamedTuple):
    what: str  # a line of --help
    policy: str  # options that answers depend on
    rest: str = ""  # others; {folder}: one whose files do not fail
    exact: bool = True  # an answer depends on nothing but its request
    anywhere: bool = False  # copies of chunks serve at any position, and can be computed ahead
    shares: str = ""  # copies, with a second server, through one of support/shared.py
    collects: bool = False  # documents in a collection
    keys: tuple = (None,)  # of tenants, in {folder}/keys
    sparse: bool = False  # answers read a part of long prompts
    waits: bool = False  # for a disk that hangs: what requests read is in a file that fails, too
    keeps: bool = True  # copies that were just used are still there

    @property
    def mixes(self):
        """Documents are fused: not where it is checked who had what computed."""
        return self.anywhere and len(self.keys) == 1

    @property
    def options(self):
        return f"{self.policy} {self.rest}"


SMALL = "--kv-memory 1 --host-memory 400K --store-max 2M"
AWAY = "--kv-memory 1 --context-memory 600K --context-dir {folder}/store --host-memory 400K"
SPARSE = "--decode sparse:160,depth=0"
IDLE = "--idle-copies 0.3"
KEYS = "--api-keys {folder}/keys"
TWO = ("red-key", "blue-key")
FULL = {"policy": "--reuse full", "anywhere": True}
VARIANTS = {
    "prefix": Variant("exact reuse, a store", "--reuse prefix"),
    "small": Variant("exact reuse in q8_0; memory, host tier and disk hold a few copies each",
                     "--reuse prefix -ctk q8_0", SMALL),
    "context": Variant("exact reuse in f16; a file, which fails, too, has what --context-memory does not hold",
                       "--reuse prefix -ctk f16", AWAY, waits=True),
    "fused": Variant("copies fused with their neighbours, a collection, idle copies, as small", "--reuse fusion",
                     f"{IDLE} {SMALL}", exact=False, anywhere=True, collects=True),
    "craft": Variant("Cache-Craft, two copies of a chunk, as small", "--reuse craft --max-variants 2", SMALL,
                     exact=False, anywhere=True),
    "tenants": Variant("full reuse, a collection, two API keys with documents of the same names and texts",
                       rest=KEYS, collects=True, keys=TWO, **FULL),
    "sparse": Variant("exact reuse in f16, sparse decoding, as small", f"--reuse prefix -ctk f16 {SPARSE}", SMALL,
                      sparse=True),
    "redis": Variant("full reuse, copies in a Redis that is killed, stopped, full or read-only, and a second server",
                     rest="--load-timeout 500", shares="redis", **FULL),
    "sparse-context": Variant("as context, sparse decoding", f"--reuse prefix -ctk f16 {SPARSE}", AWAY, sparse=True,
                              waits=True),
    "sparse-fused": Variant("as fused, in f16, sparse decoding", f"--reuse fusion -ctk f16 {SPARSE}",
                            f"{IDLE} {SMALL.replace('memory 1', 'memory 2')}", exact=False, anywhere=True,
                            collects=True, sparse=True),
    "tenants-small": Variant("as tenants, and small", rest=f"{KEYS} {SMALL}", collects=True, keys=TWO, keeps=False,
                             **FULL),
    "tenants-redis": Variant("as tenants and redis, the tiers above it small",
                             rest=f"--load-timeout 500 {KEYS} {SMALL}", shares="redis", keys=TWO, keeps=False, **FULL),
    "objects": Variant("full reuse, copies in an object store that is killed, stopped, answers errors or refuses the "
                       "key, and a second server; the tiers above it small", rest=f"--load-timeout 2000 {SMALL}",
                       shares="objects", **FULL),
}


def available():
    """Those that can be had here."""
    return [name for name, v in VARIANTS.items() if not v.shares or can_share(v.shares)]


def table():
    return "\n".join(f"  {name:14} {v.what}" for name, v in VARIANTS.items())
