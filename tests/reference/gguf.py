"""GGUF files, versions 2 and 3: reader. Little-endian throughout.

    magic "GGUF", u32 version, u64 tensors, u64 pairs
    pairs:    string key, u32 type, value            string: u64 length, bytes
    tensors:  string name, u32 dimensions, u64 sizes fastest first, u32 type, u64 offset
    padding to general.alignment (32), then the data; offsets count from there
"""
import math
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .blocks import BY_ID, TYPES

STRING, ARRAY = 8, 9
SCALARS = {0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?",
           10: "<u8", 11: "<i8", 12: "<f8"}


@dataclass
class Tensor:
    name: str
    type: str
    shape: tuple[int, ...]  # slowest first: [outputs, inputs]
    offset: int             # in the file
    data: memoryview

    def decode(self):
        return TYPES[self.type].decode(self.data, self.shape)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        if self.at + n > len(self.data):
            raise ValueError(f"ends inside the header, at byte {self.at}")
        self.at += n
        return self.data[self.at - n:self.at]

    def number(self, kind):
        return np.frombuffer(self.take(np.dtype(kind).itemsize), kind)[0].item()

    def text(self):
        return bytes(self.take(self.number("<u8"))).decode("utf-8", "surrogateescape")

    def value(self, kind):
        if kind == STRING:
            return self.text()
        if kind != ARRAY:
            return self.number(SCALARS[kind])
        kind, n = self.number("<u4"), self.number("<u8")
        if kind in (STRING, ARRAY):
            return [self.value(kind) for _ in range(n)]
        return np.frombuffer(self.take(n * np.dtype(SCALARS[kind]).itemsize), SCALARS[kind])


@dataclass
class File:
    version: int
    metadata: dict
    tensors: dict[str, Tensor]


def read(path):
    with Path(path).open("rb") as f:
        data = memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ))
    r = Reader(data)
    magic, version = struct.unpack("<4sI", r.take(8))
    if magic != b"GGUF" or version not in (2, 3):
        raise ValueError(f"{path}: not a GGUF file of version 2 or 3")
    n_tensors, n_pairs = r.number("<u8"), r.number("<u8")
    metadata = {}
    for _ in range(n_pairs):
        key = r.text()
        metadata[key] = r.value(r.number("<u4"))

    directory = []
    for _ in range(n_tensors):
        name, n_dims = r.text(), r.number("<u4")
        shape = tuple(r.number("<u8") for _ in range(n_dims))[::-1]
        directory.append((name, shape, BY_ID[r.number("<u4")], r.number("<u8")))
    align = metadata.get("general.alignment", 32)
    base = (r.at + align - 1) // align * align
    tensors = {}
    for name, shape, kind, offset in directory:
        n, start = kind.n_bytes(math.prod(shape)), base + offset
        if start + n > len(data):
            raise ValueError(f"{path}: {name} ends beyond the file")
        tensors[name] = Tensor(name, kind.name, shape, start, data[start:start + n])
    return File(version, metadata, tensors)
