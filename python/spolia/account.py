"""What the library says of a request: answer, tokens, times, and where each segment came from."""
from dataclasses import dataclass, field
from typing import Any

from ._library import text
from .errors import exception_for

_FINISH = ("", "stop", "length", "canceled", "error")


@dataclass(frozen=True)
class Segment:
    """One segment of a prompt; n_* are tokens."""

    kind: str  #: "system", "chunk", "question", "text", "node"
    n_tokens: int
    n_reused: int  #: from a cached copy as it was
    n_recomputed: int  #: in a cached copy, but computed for this prompt
    source: str  #: where the copy was: "memory", "disk", ...; "" when there was none
    missed: str  #: why there was none: "never seen", "edited", "evicted", ...


@dataclass(frozen=True)
class Account:
    """Tokens and times of a request. n_prompt = n_reused + n_computed."""

    n_prompt: int
    n_reused: int
    n_computed: int
    n_recomputed: int
    n_dropped: int  #: of these, in the first layers only (craft)
    n_generated: int
    queue_ms: float
    ttft_ms: float  #: from submission to the first token
    decode_ms: float  #: after the first token
    segments: "tuple[Segment, ...]" = field(repr=False)

    @property
    def chunks_reused(self) -> int:
        return sum(s.kind == "chunk" and bool(s.source) for s in self.segments)

    @property
    def n_chunks(self) -> int:
        return sum(s.kind == "chunk" for s in self.segments)


@dataclass(frozen=True)
class Hit:
    """A chunk that search found."""

    id: int
    score: float  #: BM25, higher is better
    file: str
    title: str
    text: str
    first_line: int  #: in the file, from 1; 0: its format has no lines
    last_line: int
    page: int  #: of a PDF, from 1; 0 in other formats
    root: str


@dataclass(frozen=True)
class Answer:
    text: str
    finish: str  #: "stop", "length" or "canceled"
    tokens: "tuple[int, ...]" = field(repr=False)
    account: Account
    sources: "tuple[Hit, ...]" = field(default=(), repr=False)

    def __str__(self) -> str:
        return self.text


def read_answer(result: Any, sources: "tuple[Hit, ...]") -> Answer:
    """The answer of a finished request (sp_result). Errors: that of the request."""
    finish = _FINISH[int(result.finish)]
    if finish == "error":
        detail = text(result.detail)
        raise exception_for(int(result.err))(detail or "the request failed", int(result.err))
    account = Account(
        n_prompt=result.n_prompt, n_reused=result.n_reused, n_computed=result.n_computed,
        n_recomputed=result.n_recomputed, n_dropped=result.n_dropped, n_generated=result.n_generated, queue_ms=result.queue_us / 1e3,
        ttft_ms=result.ttft_us / 1e3, decode_ms=result.decode_us / 1e3,
        segments=tuple(_segment(result.segments[i]) for i in range(result.n_segments)))
    tokens = tuple(result.tokens[i] for i in range(result.n_generated))
    return Answer(text=text(result.text), finish=finish, tokens=tokens, account=account, sources=sources)


def _segment(s: Any) -> Segment:
    return Segment(kind=text(s.kind), n_tokens=s.n_tokens, n_reused=s.n_reused, n_recomputed=s.n_recomputed,
                   source=text(getattr(s, "from")), missed=text(s.missed))


def read_hit(h: Any) -> Hit:
    return Hit(id=h.id, score=h.score, file=text(h.file), title=text(h.title), text=text(h.text),
               first_line=h.first_line, last_line=h.last_line, page=h.page, root=text(h.root))


__all__ = ["Account", "Answer", "Hit", "Segment"]
