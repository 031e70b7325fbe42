"""Indexes of documents: one SQLite file, searched by BM25."""
import os
import threading
from typing import Any, Callable, Iterable, Optional, Union

from ._library import Handle, Keep, check, ffi, lib, out, text
from .account import Hit, read_hit

Path = Union[str, "os.PathLike[str]"]


class Index(Handle):
    """Opens an index read-only. Any number of threads may search it; they take turns. "~" in a path is the user's home."""

    def __init__(self, path: Path) -> None:
        keep = Keep()
        super().__init__(out("sp_index *", lambda to: lib.sp_index_open(keep.path(path), to)), lib.sp_index_close)
        self._turn = threading.Lock()

    @classmethod
    def build(cls, roots: "Union[Path, Iterable[Path]]", path: Path, *,
              progress: Optional[Callable[[str, int, int], object]] = None, **options: Any) -> "Index":
        """Indexes folders and files into `path`, or brings it up to date, and opens it.

        roots: those of the index; an empty list updates all that it has. Options are the fields of sp_index_opts, such as
        add=True, replace=True, size_words=150. progress(file, done, total) may return False to cancel.
        """
        keep = Keep()
        names = [roots] if isinstance(roots, (str, os.PathLike)) else list(roots)
        o = keep.add(ffi.new("sp_index_opts *"))
        keep.fill(o, options, "an index")
        if progress is not None:
            tell = progress
            o.progress = keep.add(ffi.callback(
                "sp_index_progress", lambda f, done, total, user: tell(text(f), done, total) is not False, error=False))
        check(lib.sp_index_build(keep.strings([os.path.expanduser(os.fspath(n)) for n in names]), len(names), keep.path(path), o, ffi.NULL))
        return cls(path)

    def __len__(self) -> int:
        return int(lib.sp_index_n_chunks(self.c))

    def search(self, question: str, k: int = 8, *, distinct: bool = False) -> "list[Hit]":
        """The k best chunks for a question in plain words, best first. distinct: without near-duplicates of better ones."""
        self.check_process()
        keep = Keep()
        hits = ffi.new("sp_hits *")
        with self._turn:
            check(lib.sp_index_search(self.c, keep.string(question), 4 * k if distinct else k, hits))
        try:
            if distinct:
                check(lib.sp_hits_distinct(hits, k, ffi.NULL))
            return [read_hit(hits.v[i]) for i in range(hits.n)]
        finally:
            lib.sp_hits_fini(hits)
