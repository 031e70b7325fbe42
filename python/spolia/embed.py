"""Vectors of texts, and scores of pairs, by encoders of the BERT family."""
import array
import operator
import os
from typing import Any, Callable, Iterable, Sequence, Union

from ._library import Handle, Keep, ffi, lib, list_of, out, text, utf8, watched

Input = Union[str, Sequence[int]]

_KINDS = {"text": 0, "query": 1, "document": 2}


def _run(o: Any, compute: "Callable[[], int]") -> None:
    """A call with the options `o`; Ctrl-C ends it before its next step."""

    def call(told: Any) -> int:
        o.stop = told
        return compute()

    watched("bool(void *)", lambda user: False, call, end=True)


class Embedder(Handle):
    """Opens an encoder: a folder as sentence-transformers writes it, or a GGUF file of architecture bert.

    Options are the fields of sp_machine_opts (device, cpu) and step_tokens. Any number of threads may use one; they take
    turns.
    """

    def __init__(self, model: "str | os.PathLike[str]", *, threads: int = 0, **options: Any) -> None:
        keep = Keep()
        o = keep.add(ffi.new("sp_embedder_opts *"))
        own = {name: options.pop(name) for name in ("step_tokens",) if name in options}
        keep.fill(ffi.addressof(o, "machine"), {**options, "n_threads": threads}, "an embedder")
        keep.fill(o, {**own, "model": model}, "an embedder")
        super().__init__(out("sp_embedder *", lambda to: lib.sp_embedder_open(o, to)), lib.sp_embedder_close)
        with self.use() as c:
            info = lib.sp_embedder_describe(c)
        self.dimensions, self.max_tokens = int(info.n_embd), int(info.max_tokens)
        self.scores_pairs = bool(info.scores_pairs)
        self.query_prompt, self.document_prompt = text(info.query_prompt), text(info.document_prompt)

    def embed(self, inputs: "Union[str, Iterable[Input]]", *, kind: str = "text", dimensions: int = 0,
              strict: bool = False) -> "list[array.array[float]]":
        """The vectors of texts or lists of token ids; of one text, a list with its vector.

        kind: text, query or document, whose prompt the model wants before them. dimensions: the first ones only, scaled to
        length 1. strict: a text that is too long is an error; else it is cut. Arrays are buffers: numpy takes them as they are.
        """
        if not isinstance(kind, str) or kind not in _KINDS:
            raise ValueError(f"kind {kind!r}: text, query or document")
        all_of_them: "list[Input]" = [inputs] if isinstance(inputs, str) else list_of("inputs", inputs)
        width, keep, n = operator.index(dimensions or self.dimensions), Keep(), len(all_of_them)
        if not 0 < width <= self.dimensions:
            raise ValueError(f"dimensions: {width} is not a number from 1 to {self.dimensions}")
        c_inputs = keep.add(ffi.new("sp_embed_input[]", n))
        for to, one in zip(c_inputs, all_of_them):
            if isinstance(one, str):
                data = one.encode("utf-8")
                to.text, to.n = keep.add(ffi.new("char[]", data)), len(data)
            else:
                ids = list_of("an input that is no text", one)
                to.ids, to.n_ids = keep.add(ffi.new("int32_t[]", ids)), len(ids)
        vectors = [array.array("f", bytes(4 * width)) for _ in range(n)]
        numbers = ffi.new("float[]", n * width)
        o = ffi.new("sp_embed_opts *", {"kind": _KINDS[kind], "dimensions": width, "refuse_long": strict})
        with self.use() as c:
            _run(o, lambda: int(lib.sp_embedder_embed(c, c_inputs, n, o, numbers, ffi.NULL)))
        for i, vector in enumerate(vectors):
            ffi.memmove(ffi.from_buffer(vector), numbers + i * width, 4 * width)
        return vectors

    def score(self, query: str, documents: "Iterable[str]", *, strict: bool = False) -> "list[float]":
        """How well each document answers the query, by a cross-encoder: higher is better.

        strict: a pair that is too long is an error; else the longer text is cut.
        """
        keep, texts, asked = Keep(), [utf8(d) for d in list_of("documents", documents)], utf8(query)
        c_query = keep.add(ffi.new("char[]", asked))
        pairs = keep.add(ffi.new("sp_pair[]", len(texts)))
        for to, data in zip(pairs, texts):
            to.query, to.n_query = c_query, len(asked)
            to.document, to.n_document = keep.add(ffi.new("char[]", data)), len(data)
        scores, o = ffi.new("float[]", len(texts)), ffi.new("sp_embed_opts *", {"refuse_long": strict})
        with self.use() as c:
            _run(o, lambda: int(lib.sp_embedder_score(c, pairs, len(texts), o, scores, ffi.NULL)))
        return list(scores)
