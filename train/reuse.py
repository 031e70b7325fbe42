"""Reuse of chunk KV in PyTorch: the independent reference of the engine's policies.  Facts and equations: docs/papers.

A prompt is [system][chunk]...[chunk][question].  Keys are kept before rotation and rotated for the place they are read
at; that is the same as rotating a cached key by the distance it moved.

    full      every token sees all before it
    reuse     chunks computed behind the system segment only; only the question is computed on top
    <policy>  as reuse, but r % of all chunk tokens are computed again, seeing everything before them
    fusion    as query, but each chunk was computed behind the system segment and some other chunks, whose own KV is that of
              `reuse` (FusionRAG, eq. 10): its n most similar ones in the prompt, or the one before it in its document

Selections (r % of the chunk tokens, over all chunks together, ties by the lower position):
    blend     layers 1 and 2 computed for all tokens; the largest squared deviation of K and V at layer 2; those tokens only
              from layer 3 on (in layers 1 and 2 the fresh K and V of all tokens are used)
    query     attention of the question over the reused KV in the last layer, summed over heads and question tokens
    flow      half of them as `query`; these are computed over the reused KV, and what they attend to in the middle layer, summed
              over heads, chooses the rest
    random    uniform
    oracle    the largest relative deviation of K and V from full attention, summed over layers (not possible in an engine)
"""
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from .model import Llama, rope_table, rotate


@dataclass
class Prompt:
    ids: torch.Tensor        # [T] system, chunks, question
    chunk: torch.Tensor      # [T] number of the chunk, -1 for system and question
    n_system: int
    n_context: int           # system and chunks

    @property
    def slots(self):
        return torch.arange(self.n_system, self.n_context)


def prompt_of(system, chunks, question):
    """From lists of ids."""
    ids, chunk = list(system), [-1] * len(system)
    for i, c in enumerate(chunks):
        ids += c
        chunk += [i] * len(c)
    n = len(ids)
    return Prompt(torch.tensor(ids + list(question)), torch.tensor(chunk + [-1] * len(question)), len(system), n)


class Runner:
    def __init__(self, model: Llama):
        self.m, self.c = model, model.c

    def rot(self, x, pos):
        """x [heads,T,d] rotated for positions [T]."""
        cos, sin = rope_table(pos, self.c.head_dim, self.c.rope_theta)
        return rotate(x, cos, sin)

    def layer(self, i, x, q, K, V, q_pos, k_pos, ok):
        """Layer i for x [A,D] with its queries q [H,A,d] over unrotated K, V [G,S,d]; the new x and the weights [H,A,S]."""
        b, rep = self.m.blocks[i], self.c.heads // self.c.kv_heads
        k, v = self.rot(K, k_pos).repeat_interleave(rep, 0), V.repeat_interleave(rep, 0)
        w = (self.rot(q, q_pos) @ k.transpose(1, 2) / math.sqrt(self.c.head_dim)).masked_fill(~ok, -math.inf).softmax(-1)
        x = x + F.linear((w @ v).transpose(0, 1).reshape(x.shape[0], -1), b.o)
        return x + b.feed(x), w

    def project(self, i, x):
        q, k, v = self.m.blocks[i].project(x[None])
        return q[0], k[0], v[0]

    def final(self, x):
        return F.rms_norm(x, (self.c.hidden_size,), self.m.norm, self.c.eps)

    def dense(self, ids, pos, ok):
        """All tokens under a mask: K, V per layer and the final hidden states."""
        x, Ks, Vs = self.m.embed[ids], [], []
        for i in range(self.c.layers):
            q, k, v = self.project(i, x)
            Ks.append(k)
            Vs.append(v)
            x, _ = self.layer(i, x, q, k, v, pos, pos, ok)
        return Ks, Vs, self.final(x)

    def full(self, p):
        T = len(p.ids)
        return self.dense(p.ids, torch.arange(T), torch.ones(T, T, dtype=torch.bool).tril())

    def isolated(self, p):
        """K, V of system and chunks, each chunk behind the system only; no entries for the question (zeros)."""
        T, ns = len(p.ids), p.n_system
        at = torch.arange(T)
        for i in range(int(p.chunk.max()) + 1):
            w = (p.chunk == i).nonzero()[:, 0]
            at[w] = torch.arange(ns, ns + len(w))
        same = p.chunk[:, None] == p.chunk[None, :]
        ok = torch.ones(T, T, dtype=torch.bool).tril() & (same | (torch.arange(T)[None, :] < ns))
        Ks, Vs, _ = self.dense(p.ids[:p.n_context], at[:p.n_context], ok[:p.n_context, :p.n_context])
        pad = lambda k: F.pad(k, (0, 0, 0, T - p.n_context))
        return [pad(k) for k in Ks], [pad(v) for v in Vs]

    def fused(self, p, iso, near):
        """K, V as `isolated`, but chunk c sees the chunks near[c] too, in the order given, right before it."""
        Ks, Vs = ([x.clone() for x in xs] for xs in iso)
        for c, others in enumerate(near):
            own = (p.chunk == c).nonzero()[:, 0]
            at = torch.cat([torch.arange(p.n_system), *((p.chunk == o).nonzero()[:, 0] for o in others), own])
            todo = torch.arange(len(at) - len(own), len(at))
            _, Kn, Vn, _ = self.sparse(Prompt(p.ids[at], p.chunk[at], p.n_system, len(at)), todo, *([x[:, at] for x in xs] for xs in iso))
            for old, new in zip(Ks + Vs, Kn + Vn):
                old[:, own] = new[:, todo]
        return Ks, Vs

    def sparse(self, p, todo, Ks, Vs, probe=-1):
        """Computes the tokens `todo` (sorted slots, the question among them) over cached K, V; rows of todo replace the
        cache.  Returns final hidden states of todo, K, V after, and the attention of layer `probe` [H,A,T]."""
        T = len(p.ids)
        pos = torch.arange(T)
        ok = todo[:, None] >= pos[None, :]
        x, Kn, Vn, ws = self.m.embed[p.ids[todo]], [], [], []
        for i in range(self.c.layers):
            q, k, v = self.project(i, x)
            K, V = Ks[i].clone(), Vs[i].clone()
            K[:, todo], V[:, todo] = k, v
            Kn.append(K)
            Vn.append(V)
            x, w = self.layer(i, x, q, K, V, todo, pos, ok)
            ws.append(w)
        return self.final(x), Kn, Vn, ws[probe]

    # ---- selections: scores of the chunk tokens

    def score_query(self, p, Ks, Vs):
        _, _, _, w = self.sparse(p, torch.arange(p.n_context, len(p.ids)), Ks, Vs)
        return w.sum((0, 1))[p.n_system:p.n_context]

    def flow(self, p, Ks, Vs, by_question, count):
        """`count` slots of the chunks, half of them the best of by_question [chunk tokens], the others what those look at."""
        first = pick(by_question, math.ceil(count / 2))
        _, _, _, w = self.sparse(p, first + p.n_system, Ks, Vs, self.c.layers // 2)
        score = w.sum((0, 1))[p.n_system:p.n_context]
        score[first] = math.inf
        return pick(score, count) + p.n_system

    def score_oracle(self, p, full, iso):
        s = 0.0
        for i in range(self.c.layers):
            for a, b in ((full[0][i], iso[0][i]), (full[1][i], iso[1][i])):
                d = (a - b)[:, p.n_system:p.n_context].pow(2).sum((0, 2))
                s = s + d / a[:, p.n_system:p.n_context].pow(2).sum((0, 2)).mean()
        return s

    def blend(self, p, iso, count):
        """CacheBlend: final hidden states of the question, K, V after, and the slots that were chosen."""
        T = len(p.ids)
        pos = torch.arange(T)
        causal = pos[:, None] >= pos[None, :]
        x, Kn, Vn, todo = self.m.embed[p.ids], [], [], pos
        for i in range(self.c.layers):
            q, k, v = self.project(i, x)
            K, V = iso[0][i].clone(), iso[1][i].clone()
            K[:, todo], V[:, todo] = k, v
            Kn.append(K)
            Vn.append(V)
            if i == 1:
                s = slice(p.n_system, p.n_context)
                dev = ((K - iso[0][1])[:, s].pow(2) + (V - iso[1][1])[:, s].pow(2)).sum((0, 2))
                todo = torch.cat([pick(dev, count) + p.n_system, torch.arange(p.n_context, T)])
                x, q = x[todo], q[:, todo]
            x, _ = self.layer(i, x, q, K, V, todo, pos, causal[todo])
        return self.final(x)[-(T - p.n_context):], Kn, Vn, todo[:count]

    # ---- decoding

    def decode(self, p, hidden, Ks, Vs, stop, most=16):
        """Greedy continuation after the last token's final hidden state; ids without the stop token."""
        out, T = [], len(p.ids)
        h, K, V = hidden[-1:], list(Ks), list(Vs)
        while True:
            nxt = int(self.m.logits(h)[0].argmax())
            if nxt == stop or len(out) >= most:
                return out
            out.append(nxt)
            pos = torch.tensor([T + len(out) - 1])
            x = self.m.embed[torch.tensor([nxt])]
            for i in range(self.c.layers):
                q, k, v = self.project(i, x)
                K[i], V[i] = torch.cat([K[i], k], 1), torch.cat([V[i], v], 1)
                n = K[i].shape[1]
                x, _ = self.layer(i, x, q, K[i], V[i], pos, torch.arange(n), torch.ones(1, n, dtype=torch.bool))
            h = self.final(x)


def pick(scores, count):
    """Indices of the `count` highest scores, ascending; ties by the lower index."""
    return torch.sort(scores, descending=True, stable=True).indices[:count].sort().values


POLICIES = ("blend", "query", "flow", "random", "oracle")


def answers(run: Runner, p: Prompt, stop, rates=(5, 15, 30, 50), policies=POLICIES, gen=None, chosen=None, near=None):
    """{(policy, rate): (answer ids, logits at the first answer position)}; ("full", 100) and ("reuse", 0) among them.
    chosen: a dict that takes the recomputed slots of each (policy, rate).
    near: {name: the chunks that each chunk saw}, for rows of fusion, at rate 0 too."""
    out = {}
    fk, fv, fh = run.full(p)

    def put(key, h, K, V):
        out[key] = (run.decode(p, h, K, V, stop), run.m.logits(h[-1]))

    put(("full", 100), fh, fk, fv)
    if not rates:
        return out
    iso = run.isolated(p)
    question = torch.arange(p.n_context, len(p.ids))
    h, K, V, w = run.sparse(p, question, *iso)
    put(("reuse", 0), h, K, V)
    n = len(p.slots)
    scores = {"query": w.sum((0, 1))[p.n_system:p.n_context], "random": torch.rand(n, generator=gen),
              "oracle": run.score_oracle(p, (fk, fv), iso)}
    for r in rates:
        count = math.ceil(n * r / 100)
        for name in policies:
            if name == "blend":
                h, K, V, slots = run.blend(p, iso, count)
            else:
                slots = run.flow(p, *iso, scores["query"], count) if name == "flow" else pick(scores[name], count) + p.n_system
                h, K, V, _ = run.sparse(p, torch.cat([slots, question]), *iso)
            put((name, r), h, K, V)
            if chosen is not None:
                chosen[name, r] = slots.tolist()
    for name, others in (near or {}).items():
        kv = run.fused(p, iso, others)
        h, K, V, w = run.sparse(p, question, *kv)
        put((name, 0), h, K, V)
        for r in rates:
            slots = pick(w.sum((0, 1))[p.n_system:p.n_context], math.ceil(n * r / 100)) + p.n_system
            h, K, V, _ = run.sparse(p, torch.cat([slots, question]), *kv)
            put((name, r), h, K, V)
    return out
