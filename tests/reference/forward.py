"""The forward pass of Llama, Mistral, Qwen2, Qwen3 and Gemma 3, in float64, written from the formulas.

    x_0     = embed[tokens]
    h       = norm(x);  q, k, v = W_q h + b_q, W_k h + b_k, W_v h + b_v     heads of D elements
    q, k    = rot(norm_q(q), p), rot(norm_k(k), p)                          norms: qwen3, gemma3
    x      += W_o softmax(q k^T / sqrt(D) + mask) v                         H / G queries a key head
    h       = norm(x);  x += W_down (silu(W_gate h) * (W_up h))
    logits  = W_out norm(x)                                                 W_out = embed if tied

Gemma 3: x_0 = sqrt(E) embed[tokens]; GELU instead of silu; what attention and the feed-forward add to x
is normed before it is added; five of six layers have a window and rotary frequencies of their own.

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
    near = sight & (positions[:, None] - positions[None, :] < c.window) if c.window else sight

    x = model.weight("token_embd.weight")[tokens] * c.embed_scale
    mass = []
    for i in range(c.n_layers):
        h = norm(x, model.layer(i, "attn_norm"), c.eps)
        q, k, v = project(model, i, h, positions)
        mixed, p = attend(q, store_keys(kv, k), store_values(kv, v),
                          near if not c.local or c.local[i] else sight)
        h = linear(model, i, "attn_output", mixed.reshape(len(tokens), -1))
        x = x + normed(model, i, "post_attention_norm", h)
        h = norm(x, model.layer(i, "ffn_norm"), c.eps)
        h = (gelu if c.gelu else silu)(linear(model, i, "ffn_gate", h)) * linear(model, i, "ffn_up", h)
        x = x + normed(model, i, "post_ffw_norm", linear(model, i, "ffn_down", h))
        if spans is not None:
            mass.append(span_mass(p, np.asarray(spans)))

    x = norm(x, model.weight("output_norm.weight"), c.eps)
    out = model.weight("output.weight")
    out = model.weight("token_embd.weight") if out is None else out
    logits = x @ out.T
    if c.cap:
        logits = c.cap * np.tanh(logits / c.cap)
    return Result(logits, np.array(mass) if mass else None)


# -- the parts of a layer ---------------------------------------------------------------------------

def norm(x, w, eps):
    """RMSNorm over the last axis."""
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def normed(model, i, part, h):
    """h after the norm of that name, where the architecture has norms after."""
    return norm(h, model.layer(i, part), model.config.eps) if model.config.norms_after else h


def silu(x):
    return x / (1 + np.exp(-x))


def gelu(x):
    """The tanh form."""
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


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
    freq = c.local_freq if c.local and c.local[i] else c.freq
    return rotate(q, positions, c, freq), rotate(k, positions, c, freq), v


def rotate(x, positions, c, freq=None):
    """RoPE: the pair (a, b) number i of a head at position p turns by the angle p * freq[i]."""
    freq = c.freq if freq is None else freq
    n = 2 * len(freq)
    angle = positions[:, None, None] * freq
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
    q, k, v = (x.swapaxes(0, 1) for x in (q, k, v))
    score = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])
    score = np.where(sight, score, -np.inf)
    p = np.exp(score - score.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    return (p @ v).swapaxes(0, 1), p.swapaxes(0, 1)


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
