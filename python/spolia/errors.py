"""Exceptions: one class for each error code of include/spolia.h."""


class Error(Exception):
    """What the library refused or could not do; `code` is its sp_err."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class OutOfMemory(Error, MemoryError):
    """SP_E_NOMEM"""


class InputOutputError(Error, OSError):
    """SP_E_IO: a file or folder cannot be read or written."""


class FormatError(Error, ValueError):
    """SP_E_FORMAT: malformed or damaged data."""


class Unsupported(Error):
    """SP_E_UNSUPPORTED"""


class InvalidArgument(Error, ValueError):
    """SP_E_ARG"""


class OverLimit(Error):
    """SP_E_LIMIT"""


class OutOfKV(Error, MemoryError):
    """SP_E_NOKV: the memory for keys and values (kv_bytes) is too small."""


class ContextTooLong(Error, ValueError):
    """SP_E_CONTEXT: the prompt does not fit the context (n_ctx)."""


class NotFound(Error, LookupError):
    """SP_E_NOTFOUND"""


class Canceled(Error):
    """SP_E_CANCELED"""


class AfterFork(Error, RuntimeError):
    """An object of the parent process is used in a forked child."""


_CLASSES: "dict[int, type[Error]]" = {
    -1: OutOfMemory, -2: InputOutputError, -3: FormatError, -4: Unsupported, -5: InvalidArgument,
    -6: OverLimit, -7: OutOfKV, -8: ContextTooLong, -9: NotFound, -10: Canceled,
}


def exception_for(code: int) -> "type[Error]":
    return _CLASSES.get(code, Error)
