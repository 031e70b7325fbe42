"""Prompts: segments that are tokenized, cached and reused each by itself."""
from typing import TYPE_CHECKING, Any, Iterable, Mapping, Optional, Union

from ._library import Handle, Keep, check, ffi, lib, out

if TYPE_CHECKING:
    from .engine import Engine

ROLES = {"system": 0, "developer": 0, "user": 1, "assistant": 2, "tool": 3}
#: A text, or a mapping with "text" (or "content") and perhaps "title".
Document = Union[str, Mapping[str, Any]]


class Prompt(Handle):
    """system, then chunk for each document, then question; or message for each turn, then answer.

    A prompt belongs to one thread at a time. salt: what is cached for one salt is never found by another.
    """

    def __init__(self, engine: "Engine", salt: Optional[str] = None) -> None:
        keep = Keep()
        with engine.use() as c:
            pointer = out("sp_prompt *", lambda to: lib.sp_prompt_create_for(c, keep.string(salt), to) if salt is not None
                          else lib.sp_prompt_create(c, to))
            super().__init__(pointer, lib.sp_prompt_destroy, engine)

    def system(self, text: str) -> "Prompt":
        """The system text; before everything else."""
        with self.use() as c:
            check(lib.sp_prompt_system(c, Keep().string(text)))
        return self

    def chunk(self, text: str, title: Optional[str] = None) -> "Prompt":
        """A passage, whose keys and values are kept and reused."""
        keep = Keep()
        with self.use() as c:
            check(lib.sp_prompt_chunk(c, ffi.NULL if title is None else keep.string(title), keep.string(text)))
        return self

    def question(self, text: str) -> "Prompt":
        """The question; it ends the prompt."""
        with self.use() as c:
            check(lib.sp_prompt_question(c, Keep().string(text)))
        return self

    def message(self, role: str, text: str, documents: "Iterable[Document]" = ()) -> "Prompt":
        """One turn. documents: read before the text, each as a chunk of its own."""
        if role not in ROLES:
            raise ValueError(f"unknown role {role!r}; there are {', '.join(ROLES)}")
        with self.use() as c:
            check(lib.sp_prompt_begin(c, ROLES[role]))
        for d in documents:
            self._document(d)
        if role in ("user", "tool"):
            self.cut(text)
        else:
            self.text(text)
        with self.use() as c:
            check(lib.sp_prompt_end(c))
        return self

    def answer(self, begun: Optional[str] = None) -> "Prompt":
        """The prompt is complete: the assistant's turn follows. begun: what it has already; the answer continues it."""
        with self.use() as c:
            check(lib.sp_prompt_answer(c) if begun is None else lib.sp_prompt_continue(c, Keep().string(begun)))
        return self

    def text(self, text: str, special: bool = False) -> "Prompt":
        """Plain text; `special`: texts of special tokens are such tokens."""
        with self.use() as c:
            check(lib.sp_prompt_text(c, Keep().string(text), special))
        return self

    def cut(self, text: str, separator: Optional[str] = None, special: bool = False) -> "Prompt":
        """Plain text in which chunks are found: pieces between separators, and texts that were chunks before."""
        keep = Keep()
        between = ffi.NULL if separator is None else keep.string(separator)
        with self.use() as c:
            check(lib.sp_prompt_cut(c, keep.string(text), between, special))
        return self

    def fill(self, before: str, after: str) -> "Prompt":
        """The answer is what is missing between two texts. Errors: Unsupported (the model has no tokens for that)."""
        keep = Keep()
        with self.use() as c:
            check(lib.sp_prompt_fill(c, keep.string(before), keep.string(after)))
        return self

    def _document(self, d: "Document") -> None:
        if isinstance(d, str):
            self.chunk(d)
        elif isinstance(d, Mapping):
            body = d.get("text", d.get("content", d.get("page_content")))
            if not isinstance(body, str):
                raise ValueError("a document is a text, or has a field 'text'")
            self.chunk(body, d.get("title"))
        else:
            raise ValueError(f"a document is a text or a mapping, not {type(d).__name__}")

    def __len__(self) -> int:
        """Tokens."""
        with self.use() as c:
            return int(lib.sp_prompt_n_tokens(c))
