"""Policies of chunk reuse, in float64, written from the papers' equations.

A prompt is head, chunks, question: lists of tokens.  A copy is keys and values of tokens computed
elsewhere; keys are kept before rotation and rotated for where they stand, so that a copy is moved
by giving it other positions.  Whatever is computed sees every key at its own position and before.

    blend    CacheBlend (FusionRAG section 2.2.2, eq. 7 to 9): all chunk tokens through the first
             two layers, behind the head; those whose keys and values at the second layer are
             farthest from their copies' are computed again
    fusion   FusionRAG section 3.2: those that the question attends to most in the last layer
    flow     half of them like that; the other half are those that the first half attends to in the
             middle layer
    craft    Cache-Craft sections 3.1 and 3.2: copies that were computed behind other chunks; of
             each, as many tokens as it depended on what has changed, those first that had looked
             most at the chunks before them

A token is (segment, index); segment 0 is the head.
"""
import math
from dataclasses import dataclass

import numpy as np

from .forward import attend, linear, norm, project, rotate, silu

BLEND_LAYER = 1  # the second one


@dataclass
class Copy:
    """Keys before rotation and values of tokens: k, v [L, N, G, D]; pos [N] where they stand."""
    pos: np.ndarray
    k: np.ndarray
    v: np.ndarray

    def at(self, pos):
        return Copy(np.asarray(pos), self.k, self.v)

    def only(self, keep):
        return Copy(self.pos[keep], self.k[:, keep], self.v[:, keep])


def join(*copies):
    return Copy(np.concatenate([c.pos for c in copies]),
                *(np.concatenate(x, axis=1) for x in zip(*((c.k, c.v) for c in copies))))


def compute(model, tokens, pos, past=None):
    """Tokens at positions, over what is there: logits [M, V], their own copy, and attention
    [L, M, H, keys of past and then their own]."""
    c, pos = model.config, np.asarray(pos)
    x, k_new, v_new, seen = model.weight("token_embd.weight")[np.asarray(tokens)], [], [], []
    keys_at = pos if past is None else np.concatenate([past.pos, pos])
    sight = pos[:, None] >= keys_at[None, :]
    for i in range(c.n_layers):
        h = norm(x, model.layer(i, "attn_norm"), c.eps)
        q, k, v = project(model, i, h, np.zeros_like(pos))
        k_new.append(k)
        v_new.append(v)
        if past is not None:
            k, v = np.concatenate([past.k[i], k]), np.concatenate([past.v[i], v])
        mixed, p = attend(rotate(q, pos, c), rotate(k, keys_at, c), v, sight)
        seen.append(p)
        x = x + linear(model, i, "attn_output", mixed.reshape(len(pos), -1))
        h = norm(x, model.layer(i, "ffn_norm"), c.eps)
        h = silu(linear(model, i, "ffn_gate", h)) * linear(model, i, "ffn_up", h)
        x = x + linear(model, i, "ffn_down", h)
    x = norm(x, model.weight("output_norm.weight"), c.eps)
    out = model.weight("output.weight")
    out = model.weight("token_embd.weight") if out is None else out
    return x @ out.T, Copy(pos, np.array(k_new), np.array(v_new)), np.array(seen)


class Prompt:
    """segs: head, chunks, question. Of all tokens in order: tokens, seg, index; start of each."""

    def __init__(self, segs):
        self.segs = segs
        self.tokens = np.concatenate([np.asarray(s) for s in segs])
        self.seg = np.repeat(np.arange(len(segs)), [len(s) for s in segs])
        self.start = np.cumsum([0] + [len(s) for s in segs[:-1]])
        self.pos = np.arange(len(self.tokens))
        self.index = self.pos - self.start[self.seg]
        self.is_chunk = (self.seg > 0) & (self.seg < len(segs) - 1)

    def chunks(self):
        return range(1, len(self.segs) - 1)


def answer(model, p, cached, again):
    """Logits after the last token: of what is cached, the tokens `again` [n] bool (of the whole
    prompt) and whatever is not cached are computed, over the rest. Also what they saw."""
    stale = again[cached.pos]
    fresh = again | ~np.isin(p.pos, cached.pos)
    over = cached.only(~stale)
    logits, _, seen = compute(model, p.tokens[fresh], p.pos[fresh], over)
    return logits[-1], p.pos[fresh], np.concatenate([over.pos, p.pos[fresh]]), seen


def highest(score, among, share):
    """[n] bool: the ceil(share * n) of the tokens `among` with the highest scores; ties: the
    earlier."""
    at = np.flatnonzero(among)
    order = at[np.argsort(-score[at], kind="stable")]
    chosen = np.zeros(len(score), bool)
    chosen[order[:math.ceil(share * len(at))]] = True
    return chosen


# -- chunks computed behind the head alone ---------------------------------------------------------

def plain_copies(model, p):
    """Head and chunks, each chunk behind the head (FusionRAG eq. 5), joined (eq. 6)."""
    _, head, _ = compute(model, p.segs[0], p.pos[p.seg == 0])
    copies = [head]
    for i in p.chunks():
        behind = len(p.segs[0]) + np.arange(len(p.segs[i]))
        copies.append(compute(model, p.segs[i], behind, head)[1].at(p.pos[p.seg == i]))
    return head, join(*copies)


def blend(model, segs, share):
    """Scores [n], chosen [n], logits."""
    p = Prompt(segs)
    head, cached = plain_copies(model, p)
    _, fresh, _ = compute(model, p.tokens[p.is_chunk], p.pos[p.is_chunk], head)
    old = cached.only(p.is_chunk[cached.pos])
    score = np.zeros(len(p.pos))
    score[p.is_chunk] = sum(((a[BLEND_LAYER] - b[BLEND_LAYER]) ** 2).sum((1, 2))
                            for a, b in ((fresh.k, old.k), (fresh.v, old.v)))
    chosen = highest(score, p.is_chunk, share)
    return score, chosen, answer(model, p, cached, chosen)[0]


def fusion(model, segs, share):
    """Scores [n], chosen [n], logits."""
    p = Prompt(segs)
    _, cached = plain_copies(model, p)
    _, _, keys, seen = answer(model, p, cached, np.zeros(len(p.pos), bool))
    score = np.zeros(len(p.pos))
    score[keys] = seen[-1].sum((0, 1))
    chosen = highest(score, p.is_chunk, share)
    return score, chosen, answer(model, p, cached, chosen)[0]


def flow(model, segs, share):
    """Scores [n] of the second half, infinite for the first; chosen [n], logits."""
    p = Prompt(segs)
    _, cached = plain_copies(model, p)
    _, half, _ = fusion(model, segs, share / 2)
    over = cached.only(~half[cached.pos])
    _, _, seen = compute(model, p.tokens[half], p.pos[half], over)
    score = np.zeros(len(p.pos))
    score[over.pos] = seen[model.config.n_layers // 2].sum((0, 1))[:len(over.pos)]
    score[half] = np.inf
    chosen = highest(score, p.is_chunk, share)
    return score, chosen, answer(model, p, cached, chosen)[0]


# -- Cache-Craft -----------------------------------------------------------------------------------

@dataclass
class Measured:
    """Of a chunk: attention of its tokens to each chunk before it and to itself, sums over tokens,
    means over layers and heads; [index] by token, to all chunks before."""
    inter: dict   # by segment
    intra: float
    prior: np.ndarray


def measure(p, i, rows, keys, seen):
    """What the computed rows of chunk i saw of the chunks up to it."""
    own = p.seg[rows] == i
    mass = seen[:, own].mean((0, 2))  # [own rows, keys]
    inter = {j: mass[:, p.seg[keys] == j].sum() for j in p.chunks() if j < i}
    prior = np.zeros(len(p.segs[i]))
    for j in inter:
        prior[p.index[rows][own]] += mass[:, p.seg[keys] == j].sum(1)
    return Measured(inter, mass[:, p.seg[keys] == i].sum(), prior)


def cci(p, i, m):
    """Eq. 9 to 11: the sigmoid of outer over inner attention, each by pair of tokens."""
    n = len(p.segs[i])
    a = sum(mass / (n * len(p.segs[j])) for j, mass in m.inter.items())
    return 1 / (1 + math.exp(-a / (m.intra / n ** 2)))


def beta(before, inter, now):
    """Eq. 6 to 8. before, now: names of the chunks in front, in order; inter: by name."""
    if not before:
        return 1.0 if not now else 0.0
    common = [x for x in before if x in now]
    share = sum(inter[x] for x in common) / sum(inter[x] for x in before)
    pairs = [(x, y) for n, x in enumerate(common) for y in common[n + 1:]]
    turned = sum(now.index(x) > now.index(y) for x, y in pairs)
    return share * (1 - (turned / len(pairs) if pairs else 0))


def counts(weight, n, alpha=0.0, share=0.0):
    """Tokens of each chunk: ceil(CFO n) with CFO = min(1, alpha weight) (eq. 12); or, without
    alpha, with the alpha for which they are ceil(share * all) together, by largest remainders;
    all at a share of 1."""
    weight, n = np.asarray(weight, float), np.asarray(n)
    if share >= 1:
        return n
    if alpha:
        return np.ceil(np.minimum(1, alpha * weight) * n).astype(int)
    target = min(math.ceil(share * n.sum()), n[weight > 0].sum())
    full = np.zeros(len(n), bool)  # those that alpha takes whole
    while True:
        free = ~full & (weight > 0)
        left = target - n[full].sum()
        alpha = left / (weight * n)[free].sum() if free.any() else 0
        if not (free & (alpha * weight >= 1)).any():
            break
        full |= free & (alpha * weight >= 1)
    want = np.where(full, 1, alpha * weight) * n
    out = np.floor(want + 1e-9).astype(int)
    for i in np.argsort(-(want - out), kind="stable")[:target - out.sum()]:
        out[i] += 1
    return out


def craft_cold(model, segs):
    """Nothing known: the whole prompt; a copy of each chunk, what was measured of it, its CCI."""
    p = Prompt(segs)
    logits, copy, seen = compute(model, p.tokens, p.pos)
    measured = {i: measure(p, i, p.pos, p.pos, seen) for i in p.chunks()}
    return logits[-1], copy, measured, {i: cci(p, i, measured[i]) for i in p.chunks()}


def craft_again(model, first, names, now, alpha=0.0, share=0.0):
    """The prompt `now` over the copies that the prompt `first` has left. names: chunk by chunk,
    which one of `first` it is (its segment there), or 0 if it is new."""
    p, old = Prompt(now), Prompt(first)
    _, copy, measured, impact = craft_cold(model, first)
    known = [i for i in p.chunks() if names[i - 1]]
    betas, weight = {}, {}
    for i in known:
        was = names[i - 1]
        inter = measured[was].inter
        betas[i] = beta(list(inter), inter, list(names[:i - 1]))
        weight[i] = impact[was] * (1 - betas[i])
    n_of = counts([weight[i] for i in known], [len(now[i]) for i in known], alpha, share)
    again = np.zeros(len(p.pos), bool)
    for i, n in zip(known, n_of):
        order = np.argsort(-measured[names[i - 1]].prior, kind="stable")
        again[p.start[i] + order[:n]] = True
    cached = join(copy.only(old.seg == 0),
                  *(copy.only(old.seg == names[i - 1]).at(p.pos[p.seg == i]) for i in known))
    logits, rows, keys, seen = answer(model, p, cached, again)
    watched = {i: measure(p, i, rows, keys, seen) for i in p.chunks() if (p.seg[rows] == i).any()}
    return betas, weight, again, watched, logits
