"""What the benches over the Python package share: an engine from options, requests with their whole account, prompts of synthetic
chunks with an exact number of tokens.

The package is that of `make python`, in the folder SPOLIA_BUILD (build).
"""
import argparse
import os
import pathlib
import random
import re
import statistics
import sys

from shared import ROOT, count, numbers  # noqa: F401

sys.path.insert(0, str(ROOT / os.environ.get("SPOLIA_BUILD", "build") / "python"))

try:
    import spolia
    from spolia._library import Handle, Keep, check, ffi, lib, out, text
except ImportError as e:
    sys.exit(f"{e}: run this with .venv/bin/python, after `make python`")

SYSTEM = "Answer the question from the documents."


# -- options ---------------------------------------------------------------------------------------

def parser(doc: str, **defaults) -> argparse.ArgumentParser:
    """A parser with the options of an engine; the first paragraph of doc is its help."""
    p = argparse.ArgumentParser(description=doc.split("\n\n")[0])
    p.add_argument("-m", "--model", required=True)
    p.add_argument("-t", "--threads", type=int, default=0, help="0: all")
    p.add_argument("-c", "--context", type=int, default=0, dest="n_ctx", help="tokens; 0: as trained, at most 8,192")
    p.add_argument("-b", "--batch", type=int, default=0, dest="n_batch", help="tokens of a step; 0: 256")
    p.add_argument("--kv-memory", type=float, default=0, metavar="MIB", help="0: 1,024")
    p.add_argument("--kv-type", "-ctk")
    p.add_argument("--evict", help="replacement policy")
    p.add_argument("--queue-order", dest="order")
    p.add_argument("--queue-window", type=int, default=0, dest="order_window")
    p.add_argument("--queue-wait", type=int, default=0, dest="wait_ms", metavar="MS")
    p.add_argument("--keep-chunks", type=int, default=0, metavar="N", help="of a prompt; 0: all")
    p.add_argument("-s", "--seed", type=int, default=1)
    p.set_defaults(**defaults)
    return p


def open_engine(args: argparse.Namespace, **options) -> "spolia.Engine":
    """The engine of a parser's options; exits with the reason if there is none. The guard is off: it would compute between requests."""
    try:
        return spolia.open(args.model, threads=args.threads, n_ctx=args.n_ctx, n_batch=args.n_batch, guard=0, **{
            "kv_bytes": int(args.kv_memory * (1 << 20)), "kv_type": args.kv_type, "evict": args.evict, "order": args.order,
            "order_window": args.order_window, "wait_ms": args.wait_ms, "keep_chunks": args.keep_chunks, **options})
    except (spolia.Error, TypeError) as e:
        sys.exit(f"{pathlib.Path(sys.argv[0]).stem}: {e}")


def info(engine):
    """sp_context_info."""
    return lib.sp_context_describe(engine.c)


def policies() -> list:
    """sp_reuse_info of all reuse policies, by attributes; texts are Python's."""
    n = ffi.new("int *")
    p = lib.sp_reuse_policies(n)
    return [argparse.Namespace(name=text(p[i].name), own_statistics=p[i].own_statistics) for i in range(n[0])]


# -- requests --------------------------------------------------------------------------------------

class Request(Handle):
    """A submitted request. on_token(ids and logprobs, n): called for each token of the answer."""

    def __init__(self, engine, prompt, on_token=None, top_logprobs=0, **options):
        keep = Keep()
        o = spolia.engine._request_options(keep, engine, {"ignore_end": True, **options})
        o.top_logprobs = top_logprobs
        if on_token:
            o.on_token = keep.add(ffi.callback("sp_token_fn", lambda v, n, user: on_token(v, n)))
        try:
            pointer = out("sp_request *", lambda to: lib.sp_request_submit(engine.c, prompt.c, o, to))
        except spolia.Error as e:
            sys.exit(f"{pathlib.Path(sys.argv[0]).stem}: {e}")

        def destroy(request, keep=keep):
            lib.sp_request_destroy(request)
        super().__init__(pointer, destroy, engine)

    @property
    def result(self):
        """sp_result of a finished request; exits with the reason of one that failed."""
        r = lib.sp_request_result(self.c)
        if r.err:
            sys.exit(text(r.detail) or text(lib.sp_error_text(r.err)))
        return r


def ask(engine, prompt, **options) -> Request:
    """A finished request."""
    r = Request(engine, prompt, **options)
    lib.sp_request_wait(r.c, -1)
    r.result
    return r


def prompt_of(engine, chunks, question=None, system=SYSTEM):
    """chunks: texts, or pairs of title and text."""
    p = engine.prompt().system(system)
    for c in chunks:
        p.chunk(c) if isinstance(c, str) else p.chunk(c[1], c[0])
    return p if question is None else p.question(question)


# -- synthetic texts -------------------------------------------------------------------------------

class Words:
    """Texts of words of the model's vocabulary; the same seed gives the same texts."""

    def __init__(self, engine, seed: int):
        self.engine, self.random = engine, random.Random(seed)
        vocab, n, words = lib.sp_context_vocab(engine.c), info(engine).n_vocab, []
        for _ in range(1 << 15):
            piece = self._piece(vocab, self.random.randrange(n))
            if re.fullmatch(" [a-z]{2,10}", piece):
                words.append(piece[1:])
            if len(words) == 2048:
                break
        self.words = words or [chr(c) for c in range(ord("a"), ord("z") + 1)]
        with prompt_of(engine, []) as p:
            self.n_head = len(p)  #: tokens before the first chunk

    @staticmethod
    def _piece(vocab, token: int) -> str:
        piece, n = ffi.new("char **"), ffi.new("size_t *")
        check(lib.sp_vocab_piece(vocab, token, piece, n))
        try:
            return bytes(ffi.buffer(piece[0], n[0])).decode("utf-8", "replace")
        finally:
            lib.sp_buffer_free(piece[0])

    def _count(self, kind: str, words: list, end: str = "") -> int:
        given = " ".join(words) + end
        with prompt_of(self.engine, [given] if kind == "chunk" else [], given if kind == "question" else None) as p:
            return len(p) - self.n_head

    def text(self, kind: str, n_tokens: int) -> str:
        """A new "chunk" or "question" of n_tokens, with what the format of the prompt adds to it. Exits if there is none."""
        words = self.random.choices(self.words, k=n_tokens)
        low, high = 0, n_tokens  # low words fit; more than high do not
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._count(kind, words[:middle]) <= n_tokens else (low, middle - 1)
        words, end = words[:low], ""
        have = self._count(kind, words)
        for _ in range(256):  # single letters fill what is left
            if have >= n_tokens:
                break
            more = end + self.random.choice(" abcdefghijklmnopqrstuvwxyz") + self.random.choice("abcdefghijklmnopqrstuvwxyz")
            now = self._count(kind, words, more)
            if have < now <= n_tokens:
                have, end = now, more
        if have != n_tokens:
            sys.exit(f"found no {kind} of exactly {n_tokens} tokens")
        return " ".join(words) + end

    def chunks(self, n: int, n_tokens: int) -> list:
        return [self.text("chunk", n_tokens) for _ in range(n)]


def quantile(values: list, q: float) -> float:
    """Linear between the two nearest."""
    v = sorted(values)
    at = q * (len(v) - 1)
    i = int(at)
    return v[i] + (at - i) * (v[min(i + 1, len(v) - 1)] - v[i])


median = statistics.median
