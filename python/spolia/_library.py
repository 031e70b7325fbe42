"""The shared library: where it is, its declarations, its errors, and memory that C borrows from Python.

The declarations are include/spolia.h itself, preprocessed when the package is built, so nothing here repeats the layout of
a structure. A new field of an option structure is usable by its name at once (`fill`).
"""
import contextlib
import operator
import os
import threading
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, TypeVar

import cffi

from .errors import AfterFork, exception_for

_HERE = Path(__file__).resolve().parent

ffi = cffi.FFI()
ffi.cdef((_HERE / "spolia.cdef").read_text(encoding="utf-8"))

_LIBRARY = os.environ.get("SPOLIA_LIBRARY") or str(_HERE / "libspolia.so")
lib: Any = ffi.dlopen(_LIBRARY)

version = bytes(ffi.string(lib.sp_version())).decode()

#: Fields of the option structures that are paths: "~" in them is the user's home.
_PATHS = frozenset(("model", "store", "profile", "packs", "context_dir"))

#: Fields that Python names otherwise.
_CALLED = {"policy": "reuse", "n_threads": "threads"}

T = TypeVar("T")

_forks = 0  # between this process and the one that imported the package


def _forked() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def check(code: int) -> None:
    """Raises the exception of a code that is not SP_OK, with the library's explanation."""
    if code != 0:
        # The detail belongs to this thread: nothing of the library is called in between.
        detail = text(lib.sp_error_detail())
        raise exception_for(code)(detail or text(lib.sp_error_text(code)), code)


def text(pointer: Any) -> str:
    """A C string; NULL is empty. Bytes that are no UTF-8 become replacement characters."""
    return "" if pointer == ffi.NULL else bytes(ffi.string(pointer)).decode("utf-8", "replace")


def out(kind: str, call: Callable[[Any], int]) -> Any:
    """What a function hands over through its last parameter, a pointer to `kind`."""
    holder = ffi.new(f"{kind} *")
    check(call(holder))
    return holder[0]


def utf8(value: "str | os.PathLike[str]") -> bytes:
    """Errors: TypeError: it is no text."""
    given = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(given, str):
        raise TypeError(f"{given!r} is not a text")
    return given.encode("utf-8")


def list_of(name: str, given: "Iterable[Any]") -> "list[Any]":
    """A text or a mapping can be iterated, too, but is not a list of them."""
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise TypeError(f"{name} is a list, not {type(given).__name__}")
    return list(given)


def check_names(given: "Iterable[str]", known: "Iterable[str]", what: str) -> None:
    """Errors: TypeError names an option that is not known, and lists those that are."""
    for name in given:
        if name not in known:
            raise TypeError(f"{what} has no option {name!r}; there are {', '.join(sorted(known))}")


def watched(kind: str, tell: Callable[..., bool], call: Callable[[Any], int], *, end: bool = False) -> None:
    """A call of C with a callback that can end it, by returning `end`. What the callback raises ends it, too, and is raised
    here: Ctrl-C, for one, which Python notices in the callback only."""
    raised: "list[BaseException]" = []
    told = ffi.callback(kind, tell, error=end, onerror=lambda kind, error, trace: raised.append(error))
    code = call(told)
    if raised:
        raise raised[0]
    check(code)


def beside(call: Callable[[], None], stop: Callable[[], object]) -> None:
    """A call of C whose callbacks run on the engine's thread, where Python notices no Ctrl-C: a thread of its own makes the
    call, and this one waits in Python; Ctrl-C stops the call, and is raised once it has ended."""
    raised: "list[BaseException]" = []
    ended = threading.Event()

    def run() -> None:
        try:
            call()
        except BaseException as e:
            raised.append(e)
        finally:
            ended.set()

    threading.Thread(target=run).start()
    try:
        ended.wait()
    except BaseException:
        stop()
        ended.wait()
        raise
    if raised:
        raise raised[0]


class Keep:
    """Memory that C borrows: it lives as long as this object."""

    def __init__(self) -> None:
        self._all: list[Any] = []

    def string(self, value: "str | os.PathLike[str]") -> Any:
        """A NUL-terminated copy. A text with NUL inside is refused: C would read its beginning only."""
        return self._bytes(utf8(value))

    def path(self, value: "str | os.PathLike[str]") -> Any:
        """The name of a file, which need not be UTF-8. "~" is the user's home."""
        return self._bytes(os.fsencode(os.path.expanduser(value)))

    def _bytes(self, data: bytes) -> Any:
        if b"\0" in data:
            raise ValueError("text contains a NUL character")
        return self.add(ffi.new("char[]", data))

    def strings(self, values: "list[str]") -> Any:
        return self.add(ffi.new("char *[]", [self.string(v) for v in values])) if values else ffi.NULL

    def paths(self, values: "list[Any]") -> Any:
        return self.add(ffi.new("char *[]", [self.path(v) for v in values])) if values else ffi.NULL

    def add(self, data: Any) -> Any:
        self._all.append(data)
        return data

    def fill(self, struct: Any, values: Mapping[str, Any], what: str) -> None:
        """Sets fields by name; None leaves the default. Errors: TypeError names an unknown field, and one whose value is
        of another type."""
        fields = dict(ffi.typeof(struct).item.fields)
        check_names(values, fields, what)
        for name, value in values.items():
            if value is None:
                continue
            wanted = _kind_of(fields[name].type)
            if isinstance(value, (str, os.PathLike)) and wanted == "a text":
                value = self.path(value) if name in _PATHS else self.string(value)
            try:
                setattr(struct, name, operator.index(value) if wanted == "a whole number" else value)
            except TypeError as e:
                raise TypeError(f"{_CALLED.get(name, name)}: {value!r} is not {wanted}") from e
            except OverflowError as e:
                raise OverflowError(f"{_CALLED.get(name, name)}: {value!r} is too large or too small") from e


def _kind_of(c: Any) -> str:
    """What a field of this C type takes, for people."""
    if c.kind == "pointer" and c.item.cname == "char":
        return "a text"
    if c.kind == "primitive":
        return "True or False" if c.cname == "_Bool" else "a number" if c.cname in ("float", "double") else "a whole number"
    return f"a {c.cname}"


class Live:
    """A pointer of the library and how to destroy it, once, in whatever order objects go, and in no call that uses it.

    A forked child has none of the library's threads, and locks as they were: there, it is neither used nor destroyed."""

    def __init__(self, pointer: Any, destroy: Callable[[Any], None]) -> None:
        self.pointer: Optional[Any] = pointer
        self.children: "set[Live]" = set()
        self._born = _forks
        self.lock = threading.RLock()  # held by calls that must not see it destroyed
        self._unused = threading.Condition(self.lock)
        self._n_uses = 0  # calls that have the pointer
        self.closing = False
        self._destroy = destroy

    @property
    def inherited(self) -> bool:
        return self._born != _forks

    def begin_use(self) -> "Optional[Any]":
        """The pointer, which stays valid until end_use; None when it is closed."""
        with self.lock:
            if self.closing:
                return None
            self._n_uses += 1
            return self.pointer

    def end_use(self) -> None:
        with self.lock:
            self._n_uses -= 1
            self._unused.notify_all()

    def close(self) -> None:
        """Waits for the calls that use it, then frees what was opened from it, and itself."""
        if self.inherited:
            return
        with self.lock:
            self.closing = True
            while self._n_uses:
                self._unused.wait()
            while self.children:
                self.children.pop().close()
            pointer, self.pointer = self.pointer, None
            if pointer is not None:
                self._destroy(pointer)


class Handle:
    """An object of the library, destroyed by close(), by `with`, when its owner is closed, or when nobody refers to it."""

    def __init__(self, pointer: Any, destroy: Callable[[Any], None], owner: "Optional[Handle]" = None) -> None:
        self._live, self._owner = Live(pointer, destroy), owner
        if owner is not None:
            owner._live.children.add(self._live)

    def check_process(self) -> None:
        """Errors: AfterFork in a child of the process that made it."""
        if self._live.inherited:
            name = type(self).__name__.lower()
            raise AfterFork(f"this {name} belongs to the parent process: a forked child has no thread that computes; "
                            f"open what it needs in the child, or start it with multiprocessing's \"spawn\"")

    @contextlib.contextmanager
    def use(self) -> "Iterator[Any]":
        """The pointer, for one call of the library: close() in another thread waits for its end."""
        self.check_process()
        pointer = self._live.begin_use()
        if pointer is None:
            raise ValueError(f"this {type(self).__name__.lower()} is closed")
        try:
            yield pointer
        finally:
            self._live.end_use()

    @property
    def c(self) -> Any:
        """The pointer, for a caller whose threads do not close it meanwhile."""
        with self.use() as pointer:
            return pointer

    @property
    def closed(self) -> bool:
        return self._live.closing

    def close(self) -> None:
        """Frees it, and what was opened from it, once calls of other threads have returned. May be called again."""
        self._live.close()
        if self._owner is not None:
            self._owner._live.children.discard(self._live)

    def __reduce__(self) -> Any:
        name = type(self).__name__
        raise TypeError(f"{name}: an object of this process, which cannot be pickled; make one in each process")

    def __copy__(self: T) -> T:  # there is one pointer, and the end of a twin would destroy it
        return self

    def __deepcopy__(self: T, memo: object) -> T:
        return self

    def __enter__(self: T) -> T:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_live"):
            self.close()


_log_callback: Optional[Any] = None


def set_log(sink: Optional[Callable[[int, str], None]], level: int = 2) -> None:
    """Log lines go to sink(level, line): 1 errors, 2 warnings, 3 information, 4 debugging; None turns logging off.

    Call it before anything else of the package; lines may come from other threads.
    """
    global _log_callback
    if sink is None:
        lib.sp_log_set(level, ffi.NULL, ffi.NULL)
        _log_callback = None
        return
    if not callable(sink):
        raise TypeError(f"sink: {sink!r} is not a function")
    call = sink
    _log_callback = ffi.callback("sp_log_sink", lambda how, line, user: call(int(how), text(line)))
    lib.sp_log_set(level, _log_callback, ffi.NULL)
