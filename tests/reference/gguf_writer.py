"""GGUF files: writer, one pass, tensors streamed. The format is described in gguf.py.

    write(path, {"general.architecture": "llama", ...}, [Source(name, type, shape, chunks), ...])

A value's GGUF type follows from its Python type: bool, int (u32, or u64 when it needs it), float
(f32), str, lists of these (ints: i32), NumPy arrays and scalars (theirs).
"""
import math
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterable

import numpy as np

from .blocks import TYPES
from .gguf import ARRAY, SCALARS, STRING, read

NUMBER_OF = {np.dtype(code): number for number, code in SCALARS.items()}
ALIGN = 32


@dataclass
class Source:
    """A tensor to be written. chunks() gives its bytes in order, in pieces of any size."""
    name: str
    type: str
    shape: tuple[int, ...]  # slowest first
    chunks: Callable[[], Iterable]

    @property
    def n_bytes(self):
        return TYPES[self.type].n_bytes(math.prod(self.shape))


def from_array(name, kind, x):
    return Source(name, kind, x.shape, lambda: [TYPES[kind].encode(x)])


def write_as_floats(to, path):
    """A copy of a file in which every tensor is float32."""
    def source(t):
        return Source(t.name, "f32", t.shape, lambda: [TYPES["f32"].encode(t.decode())])
    file = read(path)
    write(to, file.metadata, [source(t) for t in file.tensors.values()])


def text(s):
    s = s.encode("utf-8", "surrogateescape")
    return struct.pack("<Q", len(s)) + s


def scalar(x):
    """A value -> its NumPy form, which names the GGUF type."""
    if isinstance(x, bool):
        return np.bool_(x)
    if isinstance(x, int):
        return np.uint32(x) if 0 <= x < 1 << 32 else np.uint64(x) if x > 0 else np.int32(x)
    return np.float32(x) if isinstance(x, float) else x


def value(x):
    """u32 type and the bytes of a value."""
    if isinstance(x, str):
        return struct.pack("<I", STRING) + text(x)
    if isinstance(x, (list, tuple)):
        if all(isinstance(s, str) for s in x):
            return struct.pack("<IIQ", ARRAY, STRING, len(x)) + b"".join(map(text, x))
        x = np.array(x, np.int32 if all(isinstance(i, int) for i in x) else np.float32)
    if isinstance(x, np.ndarray):
        return struct.pack("<IIQ", ARRAY, NUMBER_OF[x.dtype], x.size) + x.tobytes()
    x = scalar(x)
    return struct.pack("<I", NUMBER_OF[x.dtype]) + x.tobytes()


def header(metadata, sources, version):
    parts = [struct.pack("<4sIQQ", b"GGUF", version, len(sources), len(metadata))]
    parts += [text(key) + value(x) for key, x in metadata.items()]
    offset = 0
    for s in sources:
        parts.append(text(s.name) + struct.pack("<I", len(s.shape)))
        parts.append(struct.pack(f"<{len(s.shape)}Q", *s.shape[::-1]))
        parts.append(struct.pack("<IQ", TYPES[s.type].id, offset))
        offset += padded(s.n_bytes)
    head = b"".join(parts)
    return head.ljust(padded(len(head)), b"\0")


def padded(n):
    return (n + ALIGN - 1) // ALIGN * ALIGN


def write_data(f, source, progress):
    """Writes the bytes of one tensor; they must be as many as its shape says."""
    written = 0
    for chunk in source.chunks():
        written += f.write(memoryview(chunk).cast("B"))
        progress(len(chunk))
    assert written == source.n_bytes, f"{source.name}: {written} bytes, not {source.n_bytes}"


def write(path, metadata, sources, version=3, progress=lambda n: None):
    """The file appears under its name when it is whole. progress(n) after every n bytes of data."""
    path = Path(path)
    part = path.with_name(path.name + ".part")
    with part.open("wb") as f:
        f.write(header(metadata, sources, version))
        for s in sources:
            write_data(f, s, progress)
            f.write(bytes(padded(s.n_bytes) - s.n_bytes))
    os.replace(part, path)
