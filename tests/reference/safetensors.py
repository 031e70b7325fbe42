"""Safetensors files, alone or in shards: reader and writer.

    u64 length of the header, header in JSON, data
    {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [from, to]}, "__metadata__": {...}}

Offsets count from the end of the header. Shards: model-00001-of-00002.safetensors ..., and
model.safetensors.index.json with {"weight_map": {name: file}}.
"""
import json
import math
import mmap
import struct
from pathlib import Path

from .blocks import TYPES
from .gguf import Tensor
from .gguf_writer import write_data

NAMES = {"F32": "f32", "F16": "f16", "BF16": "bf16"}
DTYPES = {name: dtype for dtype, name in NAMES.items()}


def read(path):
    """One file -> tensors by name."""
    with Path(path).open("rb") as f:
        data = memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ))
    base = 8 + struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(bytes(data[8:base])).items():
        if name == "__metadata__" or entry["dtype"] not in NAMES:  # such as numbers of positions
            continue
        kind, shape = NAMES[entry["dtype"]], tuple(entry["shape"])
        start, end = (base + i for i in entry["data_offsets"])
        if end > len(data) or end - start != TYPES[kind].n_bytes(math.prod(shape)):
            raise ValueError(f"{path}: {name} has the wrong size")
        tensors[name] = Tensor(name, kind, shape, start, data[start:end])
    return tensors


def read_folder(folder):
    """Every tensor of a model folder, sharded or not."""
    folder = Path(folder)
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return read(folder / "model.safetensors")
    files = {}
    weight_map = json.loads(index.read_text())["weight_map"]
    for file in sorted(set(weight_map.values())):
        files[file] = read(folder / file)
    return {name: files[file][name] for name, file in weight_map.items()}


def write(path, sources, progress=lambda n: None):
    """Writes Sources (gguf_writer.py) of types f32, f16, bf16 into one file."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for s in sources:
        header[s.name] = {"dtype": DTYPES[s.type], "shape": list(s.shape),
                          "data_offsets": [offset, offset + s.n_bytes]}
        offset += s.n_bytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text = text.ljust((len(text) + 7) // 8 * 8)
    with Path(path).open("wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for s in sources:
            write_data(f, s, progress)


def write_folder(folder, sources, n_shards=1, progress=lambda n: None):
    """model.safetensors, or n_shards files of about equal size and their index."""
    folder = Path(folder)
    if n_shards == 1:
        write(folder / "model.safetensors", sources, progress)
        return
    total = sum(s.n_bytes for s in sources)
    shards, done = [[] for _ in range(n_shards)], 0
    for s in sources:
        shards[min(n_shards - 1, done * n_shards // total)].append(s)
        done += s.n_bytes
    weight_map = {}
    for i, shard in enumerate(shards):
        file = f"model-{i + 1:05}-of-{n_shards:05}.safetensors"
        write(folder / file, shard, progress)
        weight_map |= {s.name: file for s in shard}
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")
