"""Starting weights with attention heads that training would otherwise take most of its tokens to find.

Layer 0 gets heads that look back one, two and three tokens and write what stood there into a subspace of its own;
layer 1 gets a head that looks for a place whose preceding token is the present one, and copies what stands there; the
heads that hints.py guides start with values that pass on what they see.  The rest stays random, blocks start as doing
nothing else, and training moves all of it.

    x = token  + e              e: a direction that all tokens share, so that a head can attend by position alone
    layer 0:   head i  q = k = e times fast rotations, peak at distance i + 1;  v = A x;  writes into P_i
    layer 1:   head 0  q = A x,  k = P_0 (what stood before), on the slow rotations only;  v = C x, writes C^T
    last:      head 0  v = C x,  writes C^T: pointing at a token is saying it
"""
import math

import torch

from . import names
from .hints import guided

PEAK = 45.0               # logit of the looked-for distance in layer 0
MATCH = 20.0              # logit of an equal token in layer 1
SHARE = 0.8               # common part of the embeddings of "word" and " word"
NAMES = 0.45              # part of the embedding of a name piece that all name pieces share


def _ortho(rows, cols, gen):
    return torch.linalg.qr(torch.randn(cols, rows, generator=gen))[0].t().contiguous()


@torch.no_grad()
def graft(model, vocab, seed=1):
    """vocab: token string -> id, to tie the embeddings of "word" and " word"."""
    g = torch.Generator().manual_seed(seed)
    c = model.c
    D, d, rep = c.hidden_size, c.head_dim, c.heads // c.kv_heads
    theta = c.rope_theta ** (-torch.arange(0, d, 2).float() / d)

    for b in model.blocks:      # every block starts as doing nothing
        b.o.zero_()
        b.down.zero_()

    # embeddings: unit vectors off e, plus a share of e
    e = torch.nn.functional.normalize(torch.randn(D, generator=g), dim=0)
    E = torch.randn(c.vocab_size, D, generator=g)
    root = {}
    for t, i in vocab.items():
        if i < c.vocab_size:
            key = t.lstrip("Ġ")
            if key and key != t or key in root:
                base = root.setdefault(key, torch.randn(D, generator=g))
                E[i] = math.sqrt(SHARE) * base + math.sqrt(1 - SHARE) * E[i]
    for t, i in vocab.items():      # the bare forms, once every root is known
        if t in root and i < c.vocab_size:
            E[i] = math.sqrt(SHARE) * root[t] + math.sqrt(1 - SHARE) * torch.randn(D, generator=g)
    n = torch.nn.functional.normalize(torch.randn(D, generator=g), dim=0)
    n = torch.nn.functional.normalize(n - e * (e @ n), dim=0)
    E -= torch.outer(E @ e, e)
    E -= torch.outer(E @ n, n)
    E = torch.nn.functional.normalize(E, dim=1)
    pieces = set(names.OPEN) | set(names.CODAS)
    for t, i in vocab.items():
        if t.lstrip("Ġ").lower() in pieces and not (t[0] == "Ġ" and t[1:2].islower()):
            E[i] = math.sqrt(1 - NAMES ** 2) * E[i] + NAMES * n
    model.embed.copy_(E + 0.7 * e)
    norm = math.sqrt(1 + 0.49)
    const, content = 0.7 / norm * math.sqrt(D), 1 / norm * math.sqrt(D)      # parts of a normalised token along e and off it

    off = torch.eye(D) - torch.outer(e, e) - torch.outer(n, n)
    A = _ortho(d, D, g) @ off
    write = _ortho(min(3, c.heads) * d, D, g) @ off                          # rows: the subspaces P_0, P_1, P_2
    first = model.blocks[0]
    nf = 6
    amp = math.sqrt(PEAK * math.sqrt(d) / nf) / const
    for h in range(min(3, c.heads - 1)):
        kv = h // rep
        dist = h + 1.0
        q, k = torch.zeros(d), torch.zeros(d)
        k[:nf] = amp
        q[:nf] = amp * torch.cos(-theta[:nf] * dist)
        q[d // 2:d // 2 + nf] = amp * torch.sin(-theta[:nf] * dist)
        first.q[h * d:(h + 1) * d] = torch.outer(q, e)
        first.k[kv * d:(kv + 1) * d] = torch.outer(k, e)
        first.v[kv * d:(kv + 1) * d] = A
        strength = (1.0, 0.7, 0.5)[h] * math.sqrt(d) / (content * math.sqrt(d / D)) / math.sqrt(d)
        first.o[:, h * d:(h + 1) * d] = write[h * d:(h + 1) * d].t() * strength

    if c.layers < 3:
        return
    second = model.blocks[1]
    slow = list(range(d // 2 - d // 4, d // 2))     # the slower half of the rotations: 100 tokens hardly turn them
    dims = slow + [i + d // 2 for i in slow]
    mix = _ortho(len(dims), d, g) * math.sqrt(d / len(dims))
    seen = content * math.sqrt(d / D)                                        # norm of A x
    for h in range(min(rep, 1)):
        q, k = torch.zeros(d, D), torch.zeros(d, D)
        q[dims] = mix @ A
        k[dims] = mix @ write[:d]
        s = math.sqrt(MATCH * math.sqrt(d)) / seen
        second.q[h * d:(h + 1) * d] = q * s
        second.k[:d] = k * s
        C = _ortho(d, D, g) @ off
        second.v[:d] = C
        second.o[:, h * d:(h + 1) * d] = C.t() * (0.8 / seen)

    # the guided heads pass on all they see; point says it
    for name, (layer, head) in guided(c.layers, c.heads).items():
        b = model.blocks[layer]
        at, kv = slice(head * d, head * d + d), slice(head // rep * d, head // rep * d + d)
        if name != "inner" or rep == 1:      # inner has the values of rel
            C = _ortho(d, D, g) @ off
            b.v[kv] = C
        b.o[:, at] = C.t() * (1.5 / seen) if name == "point" else _ortho(d, D, g).t() * (1.0 / seen)
