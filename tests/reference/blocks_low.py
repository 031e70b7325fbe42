"""Element types of two to four bits that came after those of blocks.py, which lists them.

    q2_k    256 = 16 x 16       w = d s q - e m             s, m: four bits, low and high of a byte; q: two bits
    q3_k    256 = 16 x 16       w = d (s - 32) (q - 4)      s: six bits; q: two bits, and one in h
    iq4_nl  32                  w = d level[q]
    iq4_xs  256 = 8 x 32        w = d (s - 32) level[q]     s: six bits
    mxfp4   32                  w = 2 ^ (e - 128) step[q]   step: twice the values of E2M1
"""
import numpy as np

LEVELS = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32)
STEPS = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.float32)


def f32(x):
    return x.astype(np.float32)


def divide(x, d):
    return np.divide(x, d[..., None], out=np.zeros_like(x), where=d[..., None] != 0)


def signed_peak(x):
    return np.take_along_axis(x, np.abs(x).argmax(axis=-1)[..., None], axis=-1)[..., 0]


def nearest(x, table):
    """The codes whose table values are nearest."""
    return np.abs(x[..., None] - table).argmin(axis=-1).astype(np.uint8)


def from_two_bits(b):
    """[n, 64] bytes -> [n, 256]: bits 2k, 2k + 1 of a run of 32 bytes are its elements 32 k .. 32 k + 31."""
    b = b.reshape(len(b), 2, 1, 32)
    return (b >> (2 * np.arange(4, dtype=np.uint8))[:, None] & 3).reshape(len(b), 256)


def to_two_bits(q):
    q = q.astype(np.uint8).reshape(len(q), 2, 4, 32)
    return (q << (2 * np.arange(4, dtype=np.uint8))[:, None]).sum(axis=2, dtype=np.uint8).reshape(len(q), 64)


def q2_k_decode(b):
    n = len(b)
    q = from_two_bits(b["q"]).reshape(n, 16, 16)
    step, base = f32(b["d"])[:, None] * (b["s"] & 15), f32(b["e"])[:, None] * (b["s"] >> 4)
    return (step[:, :, None] * q - base[:, :, None]).reshape(n, 256)


def q2_k_encode(x, out):
    x = x.reshape(len(x), 16, 16)
    base = np.maximum(-x.min(axis=2), 0)
    step = (x.max(axis=2) + base) / 3
    out["d"], out["e"] = step.max(axis=1) / 15, base.max(axis=1) / 15
    d, e = f32(out["d"]), f32(out["e"])
    scale, least = np.rint(divide(step, d)), np.rint(divide(base, e))
    out["s"] = scale.astype(np.uint8) | least.astype(np.uint8) << 4
    q = divide(x + (e[:, None] * least)[:, :, None], d[:, None] * scale)
    out["q"] = to_two_bits(np.clip(np.rint(q), 0, 3).reshape(len(x), 256))


def q3_k_scales(s):
    low = np.concatenate([s[:, :8] & 15, s[:, :8] >> 4], axis=1)
    high = np.concatenate([s[:, 8:] >> 2 * k & 3 for k in range(4)], axis=1)
    return (low | high << 4).astype(np.float32) - 32


def q3_k_decode(b):
    n = len(b)
    high = (b["h"][:, None, :] >> np.arange(8, dtype=np.uint8)[:, None] & 1).reshape(n, 256)
    q = f32(from_two_bits(b["q"]) | high << 2) - 4
    step = f32(b["d"])[:, None] * q3_k_scales(b["s"])
    return (step[:, :, None] * q.reshape(n, 16, 16)).reshape(n, 256)


def q3_k_encode(x, out):
    n = len(x)
    x = x.reshape(n, 16, 16)
    step = signed_peak(x) / -4
    out["d"] = np.abs(step).max(axis=1) / 31
    scale = np.rint(divide(step, f32(out["d"])))
    s = (scale + 32).astype(np.uint8)
    out["s"][:, :8] = (s[:, :8] & 15) | (s[:, 8:] & 15) << 4
    out["s"][:, 8:] = sum((s[:, 4 * k:4 * k + 4] >> 4) << 2 * k for k in range(4))
    q = np.clip(np.rint(divide(x, f32(out["d"])[:, None] * scale)), -4, 3).reshape(n, 256) + 4
    q = q.astype(np.uint8)
    out["q"] = to_two_bits(q & 3)
    out["h"] = ((q >> 2).reshape(n, 8, 32) << np.arange(8, dtype=np.uint8)[:, None]).sum(axis=1, dtype=np.uint8)


def nibbles(b):
    return np.concatenate([b & 15, b >> 4], axis=-1)


def from_nibbles(q):
    low, high = np.split(q, 2, axis=-1)
    return low | high << 4


def iq4_nl_decode(b):
    return f32(b["d"])[:, None] * LEVELS[nibbles(b["q"])]


def iq4_nl_encode(x, out):
    out["d"] = signed_peak(x) / -127
    out["q"] = from_nibbles(nearest(divide(x, f32(out["d"])), LEVELS))


def iq4_xs_decode(b):
    n = len(b)
    low = np.stack([b["l"] & 15, b["l"] >> 4], axis=2).reshape(n, 8)
    high = b["s"][:, None] >> (2 * np.arange(8, dtype=np.uint16)) & 3
    step = f32(b["d"])[:, None] * (f32(low) + f32(high) * 16 - 32)
    return (step[:, :, None] * LEVELS[nibbles(b["q"].reshape(n, 8, 16))]).reshape(n, 256)


def iq4_xs_encode(x, out):
    n = len(x)
    x = x.reshape(n, 8, 32)
    step = signed_peak(x) / -127
    out["d"] = np.abs(step).max(axis=1) / 31
    scale = np.rint(divide(step, f32(out["d"])))
    s = (scale + 32).astype(np.uint16)
    out["l"] = (s[:, 0::2] & 15) | (s[:, 1::2] & 15) << 4
    out["s"] = (s >> 4 << 2 * np.arange(8, dtype=np.uint16)).sum(axis=1)
    q = nearest(divide(x, f32(out["d"])[:, None] * scale), LEVELS)
    out["q"] = from_nibbles(q).reshape(n, 128)


def mxfp4_decode(b):
    return np.ldexp(np.float32(1), b["e"].astype(np.int32) - 128)[:, None] * STEPS[nibbles(b["q"])]


def mxfp4_encode(x, out):
    peak = np.abs(x).max(axis=1)
    k = np.ceil(np.log2(np.where(peak > 0, peak / 6, 1))).astype(np.int32)
    out["e"] = k + 127
    out["q"] = from_nibbles(nearest(np.ldexp(x, 1 - k[:, None]), STEPS))


def rows(t, d, e):
    """The rows of the table of blocks.py; t makes one, d and e are f16 fields."""
    return [
        t("q2_k", 10, 256, [("s", "u1", 16), ("q", "u1", 64), d, e], q2_k_decode, q2_k_encode),
        t("q3_k", 11, 256, [("h", "u1", 32), ("q", "u1", 64), ("s", "u1", 12), d], q3_k_decode, q3_k_encode),
        t("iq4_nl", 20, 32, [d, ("q", "u1", 16)], iq4_nl_decode, iq4_nl_encode),
        t("iq4_xs", 23, 256, [d, ("s", "<u2"), ("l", "u1", 4), ("q", "u1", 128)], iq4_xs_decode, iq4_xs_encode),
        t("mxfp4", 39, 32, [("e", "u1"), ("q", "u1", 16)], mxfp4_decode, mxfp4_encode),
    ]
