"""Element types of GGUF tensors: what their bytes mean, and simple quantisers.

A type stores `group` consecutive elements of a row in one block, here a NumPy structure:

    q8_0   d, q[32]             w = d q                      q signed
    q4_0   d, q[32] of 4 bits   w = d (q - 8)                nibbles: low ones first, then high ones
    q4_1   d, m, ...            w = d q + m
    q5_0   d, h, q[32]          w = d (q - 16)               bit i of h is bit 4 of q[i]
    q5_1   d, m, h, ...         w = d q + m
    q4_k   256 = 8 x 32         w = d s q - e m              s, m: 6 bits a group of 32
    q5_k   256 = 8 x 32         the same; bit g of h[i] is bit 4 of q[32 g + i]
    q6_k   256 = 16 x 16        w = d s (q - 32)             s signed bytes

blocks_low.py has q2_k, q3_k, iq4_nl, iq4_xs and mxfp4. The quantisers take the plain scale that spans a block's values; they are valid, not optimal.
"""
from dataclasses import dataclass
from typing import Callable

import numpy as np

from . import blocks_low


# -- bits ------------------------------------------------------------------------------------------

def nibbles(b):
    """[n, k] bytes -> [n, 2k] values: the low halves, then the high halves."""
    return np.concatenate([b & 15, b >> 4], axis=1)


def from_nibbles(q):
    low, high = np.split(q.astype(np.uint8), 2, axis=1)
    return low | high << 4


def bits(h):
    """[n] uint32 -> [n, 32], bit i at place i."""
    return (h[:, None] >> np.arange(32, dtype=np.uint32) & 1).astype(np.uint8)


def from_bits(b):
    return (b.astype(np.uint32) << np.arange(32, dtype=np.uint32)).sum(axis=1, dtype=np.uint32)


def six_bits(s):
    """The 12 bytes of scales in q4_k and q5_k -> scales [n, 8] and minima [n, 8].

    Bytes 0-3 hold scales 0-3 and, in their two top bits, the top of scales 4-7; bytes 4-7 do so for
    the minima; bytes 8-11 hold the low nibbles of scales 4-7 and, above them, of minima 4-7."""
    a, b, c = s[:, 0:4], s[:, 4:8], s[:, 8:12]
    scale = np.concatenate([a & 63, (c & 15) | (a >> 6) << 4], axis=1)
    least = np.concatenate([b & 63, (c >> 4) | (b >> 6) << 4], axis=1)
    return scale, least


def from_six_bits(scale, least):
    s0, s1 = np.split(scale.astype(np.uint8), 2, axis=1)
    m0, m1 = np.split(least.astype(np.uint8), 2, axis=1)
    low = (s1 & 15) | (m1 & 15) << 4
    return np.concatenate([s0 | s1 >> 4 << 6, m0 | m1 >> 4 << 6, low], axis=1)


def f32(x):
    return x.astype(np.float32)


# -- plain types -----------------------------------------------------------------------------------

def bf16_decode(b):
    return (b["w"].astype(np.uint32) << 16).view(np.float32)


def bf16_encode(x, out):
    """Nearest, ties to even: adds half of what is dropped, less one if what is kept is even."""
    u = np.ascontiguousarray(x).view(np.uint32)
    out["w"] = (u + 0x7FFF + (u >> 16 & 1)) >> 16


def plain_decode(b):
    return f32(b["w"])


def plain_encode(x, out):
    out["w"] = x


# -- groups of 32 ----------------------------------------------------------------------------------

def divide(x, d):
    """x / d with 0 where d is 0; d has one value a row."""
    return np.divide(x, d[..., None], out=np.zeros_like(x), where=d[..., None] != 0)


def signed_peak(x):
    """The element of largest magnitude of each row, with its sign."""
    return np.take_along_axis(x, np.abs(x).argmax(axis=-1)[..., None], axis=-1)[..., 0]


def q8_0_decode(b):
    return f32(b["d"])[:, None] * b["q"]


def q8_0_encode(x, out):
    d = np.abs(x).max(axis=1) / np.float32(127)
    out["d"] = d
    out["q"] = np.rint(divide(x, d))


def symmetric_decode(b):
    """q4_0 and q5_0."""
    q, half = nibbles(b["q"]), 8
    if "h" in b.dtype.names:
        q, half = q | bits(b["h"]) << 4, 16
    return f32(b["d"])[:, None] * (q.astype(np.int8) - half)


def symmetric_encode(x, out):
    half = 16 if "h" in out.dtype.names else 8
    d = signed_peak(x) / -half
    put_codes(np.clip(np.rint(divide(x, d)) + half, 0, 2 * half - 1), out)
    out["d"] = d


def affine_decode(b):
    """q4_1 and q5_1."""
    q = nibbles(b["q"])
    if "h" in b.dtype.names:
        q = q | bits(b["h"]) << 4
    return f32(b["d"])[:, None] * q + f32(b["m"])[:, None]


def affine_encode(x, out):
    top = 31 if "h" in out.dtype.names else 15
    least = x.min(axis=1)
    d = (x.max(axis=1) - least) / top
    put_codes(np.clip(np.rint(divide(x - least[:, None], d)), 0, top), out)
    out["d"], out["m"] = d, least


def put_codes(q, out):
    q = q.astype(np.uint8)
    out["q"] = from_nibbles(q & 15)
    if "h" in out.dtype.names:
        out["h"] = from_bits(q >> 4)


# -- groups of 256 ---------------------------------------------------------------------------------

def k_decode(b):
    """q4_k and q5_k."""
    n = len(b)
    q = nibbles(b["q"].reshape(n * 4, 32)).reshape(n, 8, 32)
    if "h" in b.dtype.names:
        q = q | (b["h"][:, None, :] >> np.arange(8, dtype=np.uint8)[:, None] & 1) << 4
    scale, least = six_bits(b["s"])
    step = f32(b["d"])[:, None] * scale
    base = f32(b["e"])[:, None] * least
    return (step[:, :, None] * q - base[:, :, None]).reshape(n, 256)


def k_encode(x, out):
    n, top = len(x), 31 if "h" in out.dtype.names else 15
    x = x.reshape(n, 8, 32)
    base = np.maximum(-x.min(axis=2), 0)
    step = (x.max(axis=2) + base) / top
    d, e = step.max(axis=1) / 63, base.max(axis=1) / 63
    scale, least = np.rint(divide(step, d)), np.rint(divide(base, e))
    out["d"], out["e"], out["s"] = d, e, from_six_bits(scale, least)
    step, base = d[:, None] * scale, e[:, None] * least
    put_k_codes(np.clip(np.rint(divide(x + base[:, :, None], step)), 0, top), out)


def put_k_codes(q, out):
    """q [n, 8, 32]"""
    q = q.astype(np.uint8)
    out["q"] = from_nibbles((q & 15).reshape(len(q) * 4, 64)).reshape(len(q), 128)
    if "h" in out.dtype.names:
        out["h"] = (q >> 4 << np.arange(8, dtype=np.uint8)[:, None]).sum(axis=1, dtype=np.uint8)


def q6_k_decode(b):
    n = len(b)
    low = nibbles(b["q"].reshape(n * 2, 64)).reshape(n, 2, 4, 32)
    high = b["h"].reshape(n, 2, 1, 32) >> (2 * np.arange(4, dtype=np.uint8))[:, None] & 3
    q = (low | high << 4).astype(np.int8) - 32
    step = f32(b["d"])[:, None] * b["s"]
    return (step[:, :, None] * q.reshape(n, 16, 16)).reshape(n, 256)


def q6_k_encode(x, out):
    n = len(x)
    x = x.reshape(n, 16, 16)
    step = signed_peak(x) / -32
    d = np.abs(step).max(axis=1) / 127
    scale = np.rint(divide(step, d))
    out["d"], out["s"] = d, scale
    q = np.clip(np.rint(divide(x, d[:, None] * scale)) + 32, 0, 63).astype(np.uint8)
    q = q.reshape(n, 2, 4, 32)
    out["q"] = from_nibbles((q & 15).reshape(n * 2, 128)).reshape(n, 128)
    high = q >> 4 << (2 * np.arange(4, dtype=np.uint8))[:, None]
    out["h"] = high.sum(axis=2, dtype=np.uint8).reshape(n, 64)


# -- the table -------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Type:
    name: str
    id: int              # its number in GGUF files
    group: int           # elements in a block
    layout: np.dtype     # of a block
    to_f32: Callable     # blocks [n] -> float32 [n, group] (or [n])
    from_f32: Callable   # float32 [n, group], blocks [n] to fill in

    @property
    def block_bytes(self):
        return self.layout.itemsize

    def n_bytes(self, n):
        assert n % self.group == 0, f"{n} elements are not whole blocks of {self.name}"
        return n // self.group * self.block_bytes

    def decode(self, data, shape):
        """Bytes -> float32 array of that shape."""
        return self.to_f32(np.frombuffer(data, self.layout)).reshape(shape)

    def encode(self, x):
        """Floats, whole blocks -> bytes as an array."""
        x = np.asarray(x, np.float32).reshape(-1, self.group) if self.group > 1 else \
            np.asarray(x, np.float32).ravel()
        out = np.zeros(len(x), self.layout)
        self.from_f32(x, out)
        return out.view(np.uint8)


def table():
    def t(name, number, group, fields, decode, encode):
        return Type(name, number, group, np.dtype(fields), decode, encode)

    d, m, e, h = ("d", "<f2"), ("m", "<f2"), ("e", "<f2"), ("h", "<u4")
    k = [d, e, ("s", "u1", 12)]
    return [
        t("f32", 0, 1, [("w", "<f4")], plain_decode, plain_encode),
        t("f16", 1, 1, [("w", "<f2")], plain_decode, plain_encode),
        t("bf16", 30, 1, [("w", "<u2")], bf16_decode, bf16_encode),
        t("q8_0", 8, 32, [d, ("q", "i1", 32)], q8_0_decode, q8_0_encode),
        t("q4_0", 2, 32, [d, ("q", "u1", 16)], symmetric_decode, symmetric_encode),
        t("q4_1", 3, 32, [d, m, ("q", "u1", 16)], affine_decode, affine_encode),
        t("q5_0", 6, 32, [d, h, ("q", "u1", 16)], symmetric_decode, symmetric_encode),
        t("q5_1", 7, 32, [d, m, h, ("q", "u1", 16)], affine_decode, affine_encode),
        t("q4_k", 12, 256, [*k, ("q", "u1", 128)], k_decode, k_encode),
        t("q5_k", 13, 256, [*k, ("h", "u1", 32), ("q", "u1", 128)], k_decode, k_encode),
        t("q6_k", 14, 256, [("q", "u1", 128), ("h", "u1", 64), ("s", "i1", 16), d],
          q6_k_decode, q6_k_encode),
        *blocks_low.rows(t, d, e),
    ]


TYPES = {t.name: t for t in table()}
LOW = ("q2_k", "q3_k", "iq4_nl", "iq4_xs", "mxfp4")
BY_ID = {t.id: t for t in TYPES.values()}


def round_to(name, x):
    """x as it comes back from storage in that type; groups run along the last axis."""
    assert np.shape(x)[-1] % TYPES[name].group == 0, f"rows are not whole blocks of {name}"
    return TYPES[name].decode(TYPES[name].encode(x).tobytes(), np.shape(x)).astype(x.dtype)


# -- random blocks ---------------------------------------------------------------------------------

def random_blocks(name, rng, n, std):
    """Bytes of n random elements with mean 0 and that standard deviation, without quantising any
    floats: codes are random bits, scales are chosen to fit. For models of real size."""
    kind = TYPES[name]
    if kind.group == 1 or name in LOW:
        return kind.encode(rng.standard_normal(n, np.float32) * np.float32(std))
    n = n // kind.group
    out = np.frombuffer(bytearray(rng.bytes(n * kind.block_bytes)), kind.layout)
    sign = rng.integers(0, 2, n) * 2 - 1
    if name == "q8_0":
        out["q"] = np.maximum(out["q"], -127)  # no quantiser writes -128
        out["d"] = sign * std / spread(255)
    elif name in ("q4_0", "q5_0"):
        out["d"] = sign * std / spread(32 if "h" in out.dtype.names else 16)
    elif name in ("q4_1", "q5_1"):
        codes = 32 if "h" in out.dtype.names else 16
        out["d"] = std / spread(codes)
        out["m"] = -(codes - 1) / 2 * out["d"]
    elif name in ("q4_k", "q5_k"):
        codes = 32 if "h" in out.dtype.names else 16
        scale = rng.integers(32, 64, (n, 8), np.uint8)
        out["s"] = from_six_bits(scale, scale)
        out["d"] = std / (spread(codes) * 48.4)  # 48.4: root mean square of the scales
        out["e"] = (codes - 1) / 2 * out["d"]
    else:
        out["s"] = rng.integers(64, 128, (n, 16)) * (rng.integers(0, 2, (n, 16)) * 2 - 1)
        out["d"] = std / (spread(64) * 97.3)
    return out.view(np.uint8)


def spread(n):
    """Standard deviation of n equally likely consecutive integers."""
    return np.sqrt((n * n - 1) / 12)
