"""The forward pass of Llama, Mistral, Qwen2 and Qwen3, in float64, written from the formulas.

    x_0     = embed[tokens]
    h       = norm(x);  q, k, v = W_q h + b_q, W_k h + b_k, W_v h + b_v     heads of D elements
    q, k    = rot(norm_q(q), p), rot(norm_k(k), p)                          norms: qwen3
    x      += W_o softmax(q k^T / sqrt(D) + mask) v                         H / G queries a key head
    h       = norm(x);  x += W_down (silu(W_gate h) * (W_up h))
    logits  = W_out norm(x)                                                 W_out = embed if tied

Letters for shapes: M tokens, E width, H query heads, G key/value heads, D head, V vocabulary,
S spans, L layers.

Whether token i may look at token j is a matrix, `sight` [M, M], and positions are free. So one
function covers a causal prompt, segments that do not see each other, trees of relation paths, and
a chunk that was computed at one place and stands at another: attention depends on differences of
positions only.
"""
from dataclasses import dataclass

import numpy as np

from .blocks import round_to


@dataclass
class Result:
    logits: np.ndarray       # [M, V]
    mass: np.ndarray | None  # [L, M, H, S] share of attention that each span got


def forward(model, tokens, positions=None, sight=None, spans=None, kv="f64"):
    """Logits after every token.

    positions  [M]; 0, 1, 2 ... if not given
    sight      [M, M] bool, i may look at j; everything up to itself by position if not given
    spans      [M] span that each token belongs to as a key: asks for the mass of spans
    kv         type that keys (rotated) and values are stored in, which rounds them
    """
    c = model.config
    tokens = np.asarray(tokens)
    positions = np.arange(len(tokens)) if positions is None else np.asarray(positions)
    sight = causal(positions) if sight is None else np.asarray(sight, bool)
    if c.window:
        sight = sight & (positions[:, None] - positions[None, :] < c.window)

    x = model.weight("token_embd.weight")[tokens]
    mass = []
    for i in range(c.n_layers):
        h = norm(x, model.layer(i, "attn_norm"), c.eps)
        q, k, v = project(model, i, h, positions)
        mixed, p = attend(q, store_keys(kv, k), store_values(kv, v), sight)
        x = x + linear(model, i, "attn_output", mixed.reshape(len(tokens), -1))
        h = norm(x, model.layer(i, "ffn_norm"), c.eps)
        h = silu(linear(model, i, "ffn_gate", h)) * linear(model, i, "ffn_up", h)
        x = x + linear(model, i, "ffn_down", h)
        if spans is not None:
            mass.append(span_mass(p, np.asarray(spans)))

    x = norm(x, model.weight("output_norm.weight"), c.eps)
    out = model.weight("output.weight")
    out = model.weight("token_embd.weight") if out is None else out
    return Result(x @ out.T, np.array(mass) if mass else None)


# -- the parts of a layer ---------------------------------------------------------------------------

def norm(x, w, eps):
    """RMSNorm over the last axis."""
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def silu(x):
    return x / (1 + np.exp(-x))


def linear(model, i, part, x):
    y = x @ model.layer(i, part).T
    bias = model.layer(i, part, "bias")
    return y if bias is None else y + bias


def project(model, i, h, positions):
    """Queries [M, H, D], keys and values [M, G, D]; queries and keys rotated to their positions."""
    c = model.config
    q = linear(model, i, "attn_q", h).reshape(-1, c.n_heads, c.head)
    k = linear(model, i, "attn_k", h).reshape(-1, c.n_kv_heads, c.head)
    v = linear(model, i, "attn_v", h).reshape(-1, c.n_kv_heads, c.head)
    if model.layer(i, "attn_q_norm") is not None:
        q = norm(q, model.layer(i, "attn_q_norm"), c.eps)
        k = norm(k, model.layer(i, "attn_k_norm"), c.eps)
    return rotate(q, positions, c), rotate(k, positions, c), v


def rotate(x, positions, c):
    """RoPE: the pair (a, b) number i of a head at position p turns by the angle p * freq[i]."""
    n = 2 * len(c.freq)
    angle = positions[:, None, None] * c.freq
    cos, sin = np.cos(angle), np.sin(angle)
    pairs = np.s_[..., 0:n:2], np.s_[..., 1:n:2]
    if not c.adjacent:
        pairs = np.s_[..., 0:n // 2], np.s_[..., n // 2:n]
    a, b = x[pairs[0]], x[pairs[1]]
    y = x.copy()
    y[pairs[0]] = a * cos - b * sin
    y[pairs[1]] = a * sin + b * cos
    return y


def store_keys(kind, k):
    if kind == "q16":
        return in_words(k, np.sqrt((k * k).sum(-1, keepdims=True)) / 32700)
    return k if kind == "f64" else round_to(kind, k)


def store_values(kind, v):
    if kind == "q16":
        return in_words(v, np.abs(v).max(-1, keepdims=True) / 32767)
    return v if kind == "f64" else round_to(kind, v)


def in_words(x, scale):
    """Integers of 16 bits times a scale for each head of a token."""
    return np.rint(np.divide(x, scale, out=np.zeros_like(x), where=scale > 0)) * scale


# -- attention -------------------------------------------------------------------------------------

def causal(positions):
    """Everything at an earlier position, and itself."""
    return positions[:, None] >= positions[None, :]


def attend(q, k, v, sight):
    """q [M, H, D], k, v [N, G, D], sight [M, N] -> output [M, H, D], probabilities [M, H, N].
    Query head h reads key/value head h / (H / G)."""
    repeat = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, repeat, axis=1), np.repeat(v, repeat, axis=1)
    score = np.einsum("mhd,nhd->mhn", q, k) / np.sqrt(q.shape[-1])
    score = np.where(sight[:, None, :], score, -np.inf)
    p = np.exp(score - score.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    return np.einsum("mhn,nhd->mhd", p, v), p


def span_mass(p, spans):
    """Probabilities [M, H, N], span of each key [N] -> [M, H, S]."""
    return np.stack([p[..., spans == s].sum(-1) for s in range(spans.max() + 1)], axis=-1)


# -- what tests compare ----------------------------------------------------------------------------

def nmse(got, want):
    """Squared error relative to the squared size of what was wanted."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    return ((got - want) ** 2).sum() / (want ** 2).sum()


def log_softmax(logits):
    logits = logits - logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def perplexity(logits, tokens):
    """exp of the mean negative log-probability of tokens[1:], each after those before it."""
    after = log_softmax(logits[:-1])[np.arange(len(tokens) - 1), tokens[1:]]
    return np.exp(-after.mean())
