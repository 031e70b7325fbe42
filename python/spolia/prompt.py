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
        pointer = out("sp_prompt *", lambda to: lib.sp_prompt_create_for(engine.c, keep.string(salt), to) if salt is not None
                      else lib.sp_prompt_create(engine.c, to))
        super().__init__(pointer, lib.sp_prompt_destroy, engine)

    def system(self, text: str) -> "Prompt":
        """The system text; before everything else."""
        check(lib.sp_prompt_system(self.c, Keep().string(text)))
        return self

    def chunk(self, text: str, title: Optional[str] = None) -> "Prompt":
        """A passage, whose keys and values are kept and reused."""
        keep = Keep()
        check(lib.sp_prompt_chunk(self.c, ffi.NULL if title is None else keep.string(title), keep.string(text)))
        return self

    def question(self, text: str) -> "Prompt":
        """The question; it ends the prompt."""
        check(lib.sp_prompt_question(self.c, Keep().string(text)))
        return self

    def message(self, role: str, text: str, documents: "Iterable[Document]" = ()) -> "Prompt":
        """One turn. documents: read before the text, each as a chunk of its own."""
        if role not in ROLES:
            raise ValueError(f"unknown role {role!r}; there are {', '.join(ROLES)}")
        check(lib.sp_prompt_begin(self.c, ROLES[role]))
        for d in documents:
            self._document(d)
        if role in ("user", "tool"):
            self.cut(text)
        else:
            self.text(text)
        check(lib.sp_prompt_end(self.c))
        return self

    def answer(self, begun: Optional[str] = None) -> "Prompt":
        """The prompt is complete: the assistant's turn follows. begun: what it has already; the answer continues it."""
        check(lib.sp_prompt_answer(self.c) if begun is None else lib.sp_prompt_continue(self.c, Keep().string(begun)))
        return self

    def text(self, text: str, special: bool = False) -> "Prompt":
        """Plain text; `special`: texts of special tokens are such tokens."""
        check(lib.sp_prompt_text(self.c, Keep().string(text), special))
        return self

    def cut(self, text: str, separator: Optional[str] = None, special: bool = False) -> "Prompt":
        """Plain text in which chunks are found: pieces between separators, and texts that were chunks before."""
        keep = Keep()
        between = ffi.NULL if separator is None else keep.string(separator)
        check(lib.sp_prompt_cut(self.c, keep.string(text), between, special))
        return self

    def fill(self, before: str, after: str) -> "Prompt":
        """The answer is what is missing between two texts. Errors: Unsupported (the model has no tokens for that)."""
        keep = Keep()
        check(lib.sp_prompt_fill(self.c, keep.string(before), keep.string(after)))
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
        return int(lib.sp_prompt_n_tokens(self.c))
