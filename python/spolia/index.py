"""Indexes of documents: one SQLite file, searched by BM25, and by vectors where it has some."""
import contextlib
import os
from typing import Any, Callable, Iterable, Optional, Union

from ._library import Handle, Keep, check, ffi, lib, list_of, out, text, watched
from .account import Hit, read_hit
from .embed import Embedder

Path = Union[str, "os.PathLike[str]"]


class Index(Handle):
    """Opens an index read-only. Any number of threads may search it. "~" in a path is the user's home.

    embedder: the encoder of its vectors (or its path), so that chunks are found by words and by meaning. Without one, or
    in an index without vectors, they are found by words.
    """

    def __init__(self, path: Path, *, embedder: "Optional[Union[Embedder, Path]]" = None) -> None:
        keep = Keep()
        self._embedder = embedder if embedder is None or isinstance(embedder, Embedder) else Embedder(embedder)
        with contextlib.nullcontext(ffi.NULL) if self._embedder is None else self._embedder.use() as encoder:
            super().__init__(out("sp_retriever *", lambda to: lib.sp_retriever_open(keep.path(path), encoder, to)),
                             lib.sp_retriever_close, self._embedder)

    @property
    def vectors(self) -> str:
        """How its vectors are searched: flat, ivf or hnsw; empty: by words alone."""
        with self.use() as c:
            return text(lib.sp_retriever_describe(c).kind)

    @classmethod
    def build(cls, roots: "Union[Path, Iterable[Path]]", path: Path, *,
              progress: Optional[Callable[[str, int, int], object]] = None,
              embedder: "Optional[Union[Embedder, Path]]" = None, **options: Any) -> "Index":
        """Indexes folders and files into `path`, or brings it up to date, with vectors by an encoder, and opens it.

        roots: those of the index; an empty list updates all that it has. Options are the fields of sp_index_opts, such as
        add=True, replace=True, size_words=150. progress(file, done, total) may return False to cancel.
        What it raises, or Ctrl-C, cancels, too: the old index is kept, and finished vectors.
        """
        keep = Keep()
        names = [roots] if isinstance(roots, (str, os.PathLike)) else list_of("roots", roots)
        o = keep.add(ffi.new("sp_index_opts *"))
        keep.fill(o, options, "an index")
        roots_c = keep.paths(names)

        def index(told: Any) -> int:
            o.progress = told
            return int(lib.sp_index_build(roots_c, len(names), keep.path(path), o, ffi.NULL))

        watched("sp_index_progress", lambda file, done, total, user: progress is None or
                progress(text(file), done, total) is not False, index)
        if embedder is not None and not isinstance(embedder, Embedder):
            embedder = Embedder(embedder)
        if embedder is not None:
            e = keep.add(ffi.new("sp_index_embed_opts *"))
            with embedder.use() as encoder:
                def embed(told: Any) -> int:
                    e.progress = told
                    return int(lib.sp_index_embed(keep.path(path), encoder, e, ffi.NULL))

                watched("sp_index_embed_progress", lambda done, total, user: True, embed)
        return cls(path, embedder=embedder)

    @property
    def embedder(self) -> Optional[Embedder]:
        """The encoder of its vectors, if it was opened with one."""
        return self._embedder

    def __len__(self) -> int:
        with self.use() as c:
            return int(lib.sp_retriever_describe(c).n_chunks)

    def search(self, question: str, k: int = 8, *, distinct: bool = False, by: Optional[str] = None,
               files: "Iterable[Path]" = ()) -> "list[Hit]":
        """The k best chunks for a question in plain words, best first. distinct: without near-duplicates of better ones.

        by: words, vectors or hybrid (both, which is the default where there are vectors). files: only chunks of these
        files, and of files in these folders, as the index names them.
        """
        keep, names = Keep(), list_of("files", files)
        hits, q = ffi.new("sp_hits *"), keep.add(ffi.new("sp_retrieve_query *"))
        q.text = keep.string(question)
        keep.fill(q, {"k": k, "by": by, "distinct": distinct, "files": keep.strings(names),
                      "n_files": len(names)}, "a search")
        with self.use() as c:
            check(lib.sp_retriever_search(c, q, hits))
        try:
            return [read_hit(hits.v[i]) for i in range(hits.n)]
        finally:
            lib.sp_hits_fini(hits)
