"""The engine: a model, its KV memory, what is cached, and a thread that computes."""
import atexit
import json
import os
import queue
import threading
import weakref
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, Sequence

from ._library import Handle, Keep, beside, check, check_names, ffi, lib, list_of, out, text, utf8
from .account import Answer, Hit, read_answer
from .errors import Canceled, Error
from .embed import Embedder
from .index import Index
from .prompt import Document, Prompt

SYSTEM = "Answer the question from the documents."
_ANSWER_TOKENS = 128
_SAMPLING = frozenset(name for name, _ in ffi.typeof("sp_sampling").fields)
_REUSE = frozenset(name for name, _ in ffi.typeof("sp_reuse_opts").fields) | {"reuse", "quality"}
_FORMS = frozenset(("schema", "texts", "gbnf", "regex"))


def _engine_options() -> "dict[str, tuple[str, str]]":
    """Option -> group of sp_context_opts and field in it. Options are named as the field unless that says too little."""
    named = {("decode", "how"): "decode", ("guard", "share"): "guard", ("guard", "bound"): "guard_bound",
             ("queue", "window"): "order_window"}
    groups = ((name, field.type) for name, field in ffi.typeof("sp_context_opts").fields if name != "reuse")
    return {named.get((group, field), field): (group, field)
            for group, kind in groups if kind.kind == "struct" for field, _ in kind.fields}


_GROUPED = _engine_options()
_OF_C = ("n_stop", "stop_tokens", "n_scored", "scored", "n_bias", "bias", "grammar", "on_", "user", "go_on", "model", "policy",
         "n_threads", "exact_first", "top_logprobs", "citations")  # beginnings of fields for which Python has others, or none


def _plain(struct: str) -> "set[str]":
    return {name for name, field in ffi.typeof(struct).fields if field.type.kind != "struct" and not name.startswith(_OF_C)}


#: What `open` takes, and what a request takes. Another field of C may be the length of an array that Python makes.
_ENGINE = _plain("sp_context_opts") | {n for n in _GROUPED if not n.startswith(_OF_C)} | _plain("sp_reuse_opts") | {
    "reuse", "quality", "threads"}
_REQUEST = _plain("sp_request_opts") | _plain("sp_sampling") | _plain("sp_reuse_opts") | _FORMS | {
    "reuse", "quality", "stop_token_ids"}


@dataclass(frozen=True)
class Parameter:
    """A parameter of a reuse policy, set as in reuse="craft:focus=0"."""

    name: str
    unit: str
    help: str
    least: float
    most: float
    normal: float  #: where none is given


@dataclass(frozen=True)
class Policy:
    """A reuse policy."""

    name: str
    help: str
    exact: bool  #: answers equal those of "off"
    recomputes: bool  #: `recompute` has a meaning for it
    parameters: "tuple[Parameter, ...]" = ()


def policies() -> "list[Policy]":
    """The reuse policies: names for `reuse`, with what each does and its parameters."""
    n = ffi.new("int *")
    p = lib.sp_reuse_policies(n)

    def parameter(a: Any) -> Parameter:
        return Parameter(text(a.name), text(a.unit), text(a.help), a.least, a.most, a.normal)

    return [Policy(text(p[i].name), text(p[i].help), bool(p[i].exact), bool(p[i].recomputes),
                   tuple(parameter(p[i].params[k]) for k in range(p[i].n_params))) for i in range(n[0])]


@dataclass(frozen=True)
class Info:
    """The model and the machine as the engine sees them; blocks are of 16 tokens."""

    arch: str
    tokenizer: str
    kernels: str
    n_ctx: int
    n_threads: int
    n_params: int
    kv_blocks: int
    kv_blocks_free: int
    cached_segments: int


class Stream(Handle):
    """A running request: iterate over pieces of its text, then read `answer`. Any thread may cancel it."""

    def __init__(self, engine: "Engine", prompt: Prompt, sources: "Sequence[Hit]", options: "Mapping[str, Any]") -> None:
        self._sources = tuple(sources)
        self._answer: Optional[Answer] = None
        self._failed: Optional[Exception] = None
        self._pieces: "queue.SimpleQueue[Optional[str]]" = queue.SimpleQueue()
        self._done = threading.Event()
        self._keep = Keep()
        o = _request_options(self._keep, engine, options)
        if not isinstance(prompt, Prompt):
            raise TypeError(f"a prompt is a Prompt, which engine.prompt() makes, not {type(prompt).__name__}")
        _hand_over(self._keep, o, self._pieces, self._done)
        pieces, done, keep = self._pieces, self._done, self._keep

        def destroy(request: Any, keep: Keep = keep) -> None:  # keeps alive what the request borrows
            lib.sp_request_destroy(request)
            done.set()
            pieces.put(None)

        with engine.use() as context, prompt.use() as p:
            super().__init__(out("sp_request *", lambda to: lib.sp_request_submit(context, p, o, to)), destroy, engine)

    def __iter__(self) -> "Iterator[str]":
        self.check_process()
        while self._answer is None and (piece := self._next()) is not None:
            yield piece
        self._pieces.put(None)  # for another iterator
        self._finish()

    def _next(self) -> Optional[str]:
        try:
            return self._pieces.get()
        except KeyboardInterrupt:  # its traceback may keep the request alive for long
            self.cancel()
            raise

    def cancel(self) -> None:
        """Ends the request soon; its answer is what was generated until then."""
        self.check_process()
        with self._live.lock:
            if not self.closed:
                lib.sp_request_cancel(self._live.pointer)

    @property
    def answer(self) -> Answer:
        """Waits for the end. Errors: that of the request; Canceled when the engine was closed meanwhile."""
        self.check_process()
        self._done.wait()
        return self._finish()

    def _finish(self) -> Answer:
        self._done.wait()
        with self._live.lock:
            if self._failed is not None:
                raise self._failed
            if self._answer is None:
                if self.closed:
                    raise Canceled("the request was closed before its answer was read")
                try:
                    self._answer = read_answer(lib.sp_request_result(self._live.pointer), self._sources)
                except Error as e:
                    self._failed = e
                    raise
                finally:
                    self.close()
            return self._answer


def _complete(stream: Stream) -> Answer:
    """Its answer. Ctrl-C ends the request: the traceback would keep it alive."""
    with stream:
        return stream.answer


def _search(index: "Index | str | os.PathLike[str] | None", question: str, k: int,
            embedder: "Embedder | str | os.PathLike[str] | None") -> "list[Hit]":
    if index is None:
        return []
    if isinstance(index, Index):
        if embedder is not None and embedder is not index.embedder:
            raise ValueError("an Index has the embedder that it was opened with: give it to Index(), or the path of the index")
        return index.search(question, k, distinct=True)
    with Index(index, embedder=embedder) as opened:
        return opened.search(question, k, distinct=True)


def _request_options(keep: Keep, engine: "Engine", options: "Mapping[str, Any]") -> Any:
    """sp_request_opts of options by name: of a request, of sampling, of the reuse policy."""
    check_names(options, _REQUEST, "a request")
    o = keep.add(ffi.new("sp_request_opts *"))
    o.sampling = lib.sp_sampling_default()
    plain = dict(options)
    stop = plain.pop("stop", None)
    words = [] if stop is None else [stop] if isinstance(stop, str) else list_of("stop", stop)
    o.stop, o.n_stop = keep.strings(words), len(words)
    stop_ids = plain.pop("stop_token_ids", None)
    ids = [] if stop_ids is None else list_of("stop_token_ids", stop_ids)
    o.stop_tokens, o.n_stop_tokens = keep.add(ffi.new("int32_t[]", ids)), len(ids)
    forms = {name: form for name in list(plain) if name in _FORMS and (form := plain.pop(name)) is not None}
    if forms:
        o.grammar = _compile(keep, forms)
    reuse = {name: plain.pop(name) for name in list(plain) if name in _REUSE}
    if reuse:
        o.reuse = keep.add(ffi.new("sp_reuse_opts *"))
        keep.fill(o.reuse, engine.reuse_of(reuse), "a reuse policy")
    keep.fill(ffi.addressof(o, "sampling"), {n: plain.pop(n) for n in list(plain) if n in _SAMPLING}, "sampling")
    keep.fill(o, plain, "a request")
    return o


def _compile(keep: Keep, forms: "Mapping[str, Any]") -> Any:
    """The grammar of an answer's form; it is destroyed when nobody keeps it."""
    o = ffi.new("sp_grammar_opts *")
    given = dict(forms)
    schema, texts = given.pop("schema", None), given.pop("texts", None)
    if schema is not None:
        given["schema"] = schema if isinstance(schema, str) else json.dumps(schema)
    if texts is not None:
        texts = list_of("texts", texts)
        o.texts, o.n_texts = keep.strings(texts), len(texts)
        if not texts:
            raise ValueError("texts is empty: no answer is possible")
    keep.fill(o, given, "a grammar")
    grammar = out("sp_grammar *", lambda to: lib.sp_grammar_compile(o, to))
    return keep.add(ffi.gc(grammar, lib.sp_grammar_destroy))


def _hand_over(keep: Keep, o: Any, pieces: "queue.SimpleQueue[Optional[str]]", done: threading.Event) -> None:
    """Callbacks on the engine's thread: they pass texts on, and refer to no object of the package."""

    def on_text(data: Any, n: int, user: Any) -> bool:
        pieces.put(bytes(ffi.buffer(data, n)).decode("utf-8", "replace"))
        return True

    def on_done(user: Any) -> None:
        done.set()
        pieces.put(None)

    o.on_text = keep.add(ffi.callback("sp_text_fn", on_text, error=False))
    o.on_done = keep.add(ffi.callback("sp_done_fn", on_done))


_open: "weakref.WeakSet[Engine]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Ends the engines while their threads can still call Python. Later, such a call would never return, and close()
    would wait for its thread without end."""
    for engine in list(_open):
        engine.close()


class Engine(Handle):
    """Opens a model: a GGUF file or a Hugging Face folder.

    quality: exact, balanced or fast, as `spolia calibrate` found for the model; or reuse: the default policy of requests,
    "NAME" or "NAME:key=value,key=value" (`policies()` lists names and parameters), recompute its share. store: a
    folder in which copies of chunks outlive the process. All other fields of sp_context_opts and its groups are
    options under their names: n_ctx, kv_bytes, kv_type, max_requests, evict, guard, salt, device, cpu, ... Any number
    of threads may use one engine; requests that run at the same time are computed together.
    """

    def __init__(self, model: "str | os.PathLike[str]", *, threads: int = 0, **options: Any) -> None:
        check_names(options, _ENGINE, "an engine")
        keep = Keep()
        o = keep.add(ffi.new("sp_context_opts *"))
        reuse = {name: options.pop(name) for name in list(options) if name in _REUSE}
        self._model = os.path.expanduser(model)
        self._reuse: "dict[str, Any]" = {}
        self._reuse = self.reuse_of(reuse)
        keep.fill(ffi.addressof(o, "reuse"), self._reuse, "a reuse policy")
        options["n_threads"] = threads
        for name in [name for name in options if name in _GROUPED]:
            group, field = _GROUPED[name]
            keep.fill(ffi.addressof(o, group), {field: options.pop(name)}, "an engine")
        keep.fill(o, {**options, "model": model}, "an engine")
        super().__init__(out("sp_context *", lambda to: lib.sp_context_open(o, to)), _close_context)
        with self.use() as c:
            check(lib.sp_context_start(c))
        _open.add(self)

    def reuse_of(self, options: "Mapping[str, Any]") -> "dict[str, Any]":
        """Fields of sp_reuse_opts: those of the engine, changed by options; `reuse` is the policy's short name, and
        `quality` sets all of them."""
        fields = {("policy" if name == "reuse" else name): value for name, value in options.items()}
        quality = fields.pop("quality", None)
        if quality is None:
            return {**self._reuse, **fields}
        if "policy" in fields or "recompute" in fields:
            raise ValueError("quality excludes reuse and recompute")
        return {**self._quality(quality), **fields}

    def _quality(self, name: str) -> "dict[str, Any]":
        """Fields of sp_reuse_opts for exact, balanced or fast, as calibrated for the model."""
        o, keep = ffi.new("sp_calibration *"), Keep()
        check(lib.sp_calibration_of_quality(keep.string(name), keep.path(self._model), o))
        return {"policy": text(o.policy), "recompute": o.recompute, "exact_first": True}

    def prompt(self, salt: Optional[str] = None) -> Prompt:
        """An empty prompt. What is cached under one salt is never found under another."""
        return Prompt(self, salt)

    def submit(self, prompt: Prompt, *, sources: "Sequence[Hit]" = (), max_tokens: Optional[int] = _ANSWER_TOKENS,
               stop: "str | Sequence[str]" = (), stop_token_ids: "Sequence[int]" = (),
               schema: "str | Mapping[str, Any] | None" = None, texts: "Optional[Sequence[str]]" = None,
               gbnf: Optional[str] = None, regex: Optional[str] = None, **options: Any) -> Stream:
        """Starts a request. max_tokens 0 only computes and caches the prompt; None is 128.

        stop: the answer ends before the first of these texts; stop_token_ids: each ends it as an end token does.
        At most one of schema (a JSON Schema), texts (one of them), gbnf (a grammar of llama.cpp) and regex (the whole
        answer matches) is the form of the answer. options: quality, reuse, recompute, temperature, top_p, seed and the other fields
        of sp_sampling, sp_reuse_opts and sp_request_opts."""
        return Stream(self, prompt, sources, {
            "max_tokens": _ANSWER_TOKENS if max_tokens is None else max_tokens, "stop": stop, "stop_token_ids": stop_token_ids, "schema": schema, "texts": texts,
            "gbnf": gbnf, "regex": regex, **options})

    def generate(self, prompt: Prompt, **options: Any) -> Answer:
        """The complete answer to a prompt; options as for submit."""
        return _complete(self.submit(prompt, **options))

    def stream(self, question: str, *, index: "Index | str | os.PathLike[str] | None" = None,
               documents: "Iterable[Document]" = (), k: int = 8, system: str = SYSTEM, salt: Optional[str] = None,
               embedder: "Embedder | str | os.PathLike[str] | None" = None, **options: Any) -> Stream:
        """Asks a question over documents, and over the k chunks that an index (or the file of one) finds for it.

        embedder: the encoder of the file's vectors: chunks are found by words and by meaning. An Index has its own.
        Chunks of the index that do not fit the context are left out, those that fit the question least first; the
        answer's sources are those that were read.
        """
        if not question:
            raise ValueError("the question is empty")
        hits = sorted(_search(index, question, k, embedder), key=lambda h: h.id)
        given = list_of("documents", documents)

        def build(chosen: "Sequence[Hit]") -> Prompt:
            p = Prompt(self, salt).system(system)
            for d in given:
                p._document(d)
            for h in chosen:
                p.chunk(h.text, h.title)
            return p.question(question)

        wanted = options.get("max_tokens")
        wanted = _ANSWER_TOKENS if wanted is None else wanted
        prompt, read = self._fit(build, hits, wanted.__index__() if hasattr(wanted, "__index__") else 0)
        with prompt:
            return self.submit(prompt, sources=read, **options)

    def _fit(self, build: "Callable[[Sequence[Hit]], Prompt]", hits: "Sequence[Hit]",
             answer_tokens: int) -> "tuple[Prompt, list[Hit]]":
        """Leaves out the hits that fit the question least until prompt and answer fit the context, as `spolia ask` does.
        A question that the context cannot hold leaves out nothing: it is refused when it is submitted."""
        n_ctx = self.info.n_ctx
        room, left, prompt = n_ctx - min(answer_tokens, n_ctx // 4), list(hits), build(hits)
        if left and len(prompt) > room:
            with build(()) as alone:
                if len(alone) + (answer_tokens > 0) > n_ctx:
                    return prompt, left
        while left and len(prompt) > room:
            prompt.close()
            left.remove(min(reversed(left), key=lambda h: h.score))
            prompt = build(left)
        return prompt, left

    def ask(self, question: str, **options: Any) -> Answer:
        """As stream, complete."""
        return _complete(self.stream(question, **options))

    def stream_completion(self, text: str, *, suffix: Optional[str] = None, salt: Optional[str] = None,
                          **options: Any) -> Stream:
        """Continues a plain text, in which texts that were documents before are found. suffix: the answer is what is
        missing between both texts. Errors: Unsupported (the model has no tokens to fill in the middle)."""
        with Prompt(self, salt) as p:
            return self.submit(p.cut(text, special=True) if suffix is None else p.fill(text, suffix), **options)

    def complete(self, text: str, **options: Any) -> Answer:
        """As stream_completion, complete."""
        return _complete(self.stream_completion(text, **options))

    def stream_chat(self, messages: "Sequence[Mapping[str, Any]]", *, documents: "Iterable[Document]" = (),
                    salt: Optional[str] = None, **options: Any) -> Stream:
        """A conversation: messages with "role" and "content"; documents are read before the last turn of the user.
        Texts that were documents before are found again in messages, wherever they are."""
        messages = list_of("messages", messages)
        if not messages:
            raise ValueError("messages is empty")
        for i, m in enumerate(messages):
            if not isinstance(m, Mapping):
                raise ValueError(f"messages[{i}] is not a mapping with role and content")
        last = max((i for i, m in enumerate(messages) if m.get("role") == "user"), default=-1)
        given = list_of("documents", documents)
        if given and last < 0:
            raise ValueError("documents need a message of the user")
        with Prompt(self, salt) as p:
            for i, m in enumerate(messages):
                content = m.get("content")
                if not isinstance(content, str):
                    raise ValueError(f"messages[{i}].content is not a text")
                p.message(str(m.get("role")), content, given if i == last else ())
            return self.submit(p.answer(), **options)

    def chat(self, messages: "Sequence[Mapping[str, Any]]", **options: Any) -> Answer:
        """As stream_chat, complete."""
        return _complete(self.stream_chat(messages, **options))

    def tokenize(self, string: str, special: bool = False) -> "list[int]":
        """Token ids of a text. special: begins with BOS if the model wants one, and recognises special tokens."""
        data = utf8(string)
        ids, n = ffi.new("int32_t **"), ffi.new("size_t *")
        with self.use() as c:
            check(lib.sp_vocab_encode(lib.sp_context_vocab(c), data, len(data), special, ids, n))
        try:
            return [ids[0][i] for i in range(n[0])]
        finally:
            lib.sp_buffer_free(ids[0])

    def logits(self, text: "str | Sequence[int]", *, last: bool = False) -> Any:
        """The scores of the next token after each token of a text, or of token ids: a numpy array [tokens, vocabulary] of
        float32. last: of the last token alone, [vocabulary]. The text is computed in full, and nothing of it is kept."""
        import numpy as np

        ids = self.tokenize(text, special=True) if isinstance(text, str) else list(text)
        rows: "list[Any]" = []
        failed: "list[BaseException]" = []
        stopped = threading.Event()

        def take(position: int, values: Any, n: int, user: Any) -> int:
            if stopped.is_set():
                return int(lib.SP_E_CANCELED)
            if not last or position == len(ids) - 1:
                rows.append(np.frombuffer(ffi.buffer(values, n * 4), dtype=np.float32).copy())
            return 0

        def refuse(kind: Any, error: BaseException, trace: Any) -> int:
            failed.append(error)
            return -1

        def score() -> None:
            call = ffi.callback("sp_logits_fn", take, onerror=refuse)
            with self.use() as c:
                code = lib.sp_tokens_score(c, ffi.new("int32_t[]", ids), len(ids), 0, call, ffi.NULL)
            if failed:
                raise failed[0]
            check(code)

        beside(score, stopped.set)
        return rows[0] if last else np.stack(rows)

    def forget(self) -> None:
        """Drops all cached keys and values that no running request uses."""
        with self.use() as c:
            lib.sp_context_forget(c)

    @property
    def info(self) -> Info:
        with self.use() as c:
            i = lib.sp_context_describe(c)
            return Info(arch=text(i.arch), tokenizer=text(i.tokenizer), kernels=text(i.kernels), n_ctx=i.n_ctx,
                        n_threads=i.n_threads, n_params=i.n_params, kv_blocks=i.kv_blocks, kv_blocks_free=i.kv_blocks_free,
                        cached_segments=i.cached_segments)


def _close_context(c: Any) -> None:
    lib.sp_context_stop(c)
    lib.sp_context_close(c)


def open(model: "str | os.PathLike[str]", **options: Any) -> Engine:
    """Engine(model, ...)."""
    return Engine(model, **options)


__all__ = ["Engine", "Info", "Policy", "Stream", "open", "policies"]
