"""The Llama architecture, small: RMSNorm, rotary positions (rotate-half), grouped-query attention, SwiGLU, tied embeddings.

The attention mask is an argument: `ok[b, i, j]` says whether token i may look at token j.  A causal prompt, several
questions that share one context, chunks that do not see each other and trees of relation paths are the same code with
another mask (see batch.py).  Positions are an argument too, so that they need not be consecutive.

Letters for shapes: B sequences, T tokens, D hidden, H query heads, G key/value heads, d head size, F feed-forward, V vocabulary.
"""
import json
import math
from dataclasses import asdict, dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class ModelConfig:
    vocab_size: int = 1536
    hidden_size: int = 128
    layers: int = 5
    heads: int = 4
    kv_heads: int = 2
    ffn: int = 256
    head_dim: int = 32
    rope_theta: float = 10000.0
    eps: float = 1e-5
    max_positions: int = 4096

    def save(self, path):
        with open(path, "w") as f:
            json.dump(asdict(self), f, indent=1)


def rope_table(pos, head_dim, theta):
    """cos, sin [..., d] for positions [...]; angles in float32 whatever the model's type."""
    inv = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float32, device=pos.device) / head_dim)
    angle = pos.float().unsqueeze(-1) * inv
    angle = torch.cat([angle, angle], -1)
    return angle.cos(), angle.sin()


def rotate(x, cos, sin):
    """Rotate-half, as in Hugging Face's Llama: dimension i is paired with i + d/2."""
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class Layer(nn.Module):
    def __init__(self, c: ModelConfig, depth_scale: float):
        super().__init__()
        q, kv = c.heads * c.head_dim, c.kv_heads * c.head_dim
        self.c = c
        self.norm_attn = nn.Parameter(torch.ones(c.hidden_size))
        self.norm_ffn = nn.Parameter(torch.ones(c.hidden_size))

        def matrix(rows, cols, scale=1.0):
            return nn.Parameter(torch.randn(rows, cols) * scale / math.sqrt(cols))

        self.q, self.k, self.v = matrix(q, c.hidden_size), matrix(kv, c.hidden_size), matrix(kv, c.hidden_size)
        self.o = matrix(c.hidden_size, q, depth_scale)
        self.gate, self.up = matrix(c.ffn, c.hidden_size), matrix(c.ffn, c.hidden_size)
        self.down = matrix(c.hidden_size, c.ffn, depth_scale)

    def project(self, x):
        """Queries [B,H,T,d], keys and values [B,G,T,d] of hidden states [B,T,D], before rotation."""
        c = self.c
        B, T, _ = x.shape
        y = F.linear(F.rms_norm(x, (c.hidden_size,), self.norm_attn, c.eps), torch.cat([self.q, self.k, self.v]))
        y = y.view(B, T, c.heads + 2 * c.kv_heads, c.head_dim).transpose(1, 2)
        return y.split([c.heads, c.kv_heads, c.kv_heads], 1)

    def attend(self, q, k, v, mask):
        """Attention of rotated q [B,H,T,d] over k, v [B,G,S,d]; mask [B,1,T,S], True or 0 where it may look."""
        B, H, T, d = q.shape
        rep = H // k.shape[1]
        if rep > 1:
            k, v = k.repeat_interleave(rep, 1), v.repeat_interleave(rep, 1)
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return F.linear(o.transpose(1, 2).reshape(B, T, H * d), self.o)

    def feed(self, x):
        h = F.rms_norm(x, (self.c.hidden_size,), self.norm_ffn, self.c.eps)
        gate, up = F.linear(h, torch.cat([self.gate, self.up])).chunk(2, -1)
        return F.linear(F.silu(gate) * up, self.down)

    def shared(self, x, cos, sin, B, C, M, S, spread, gather, pad, ok, hints=None):
        """As forward for rows x [N,D], the tokens of B contexts and of their M questions each, without padding.  spread
        [B*C + B*M*S] takes the rows to their padded places (C tokens a context, S a question), gather brings them back.
        A question sees its context and itself.  pad [B,1,1,C]: 0, or -inf at the context's padding; ok: the context's
        mask [B,1,C,C], None for causal.  hints: {name: (head, targets)}, see hints.py; returns x and [(name, -log attention)]."""
        c = self.c
        H, G, d = c.heads, c.kv_heads, c.head_dim
        rep, n = H // G, B * C
        y = F.linear(F.rms_norm(x, (c.hidden_size,), self.norm_attn, c.eps), torch.cat([self.q, self.k, self.v])).view(-1, H + 2 * G, d)
        qk, v = y.split([H + G, G], 1)
        y = torch.cat([rotate(qk, cos, sin), v], 1).index_select(0, spread)
        of_context, of_questions = y.split([n, B * M * S])           # split, not slices: their gradients need no zeros
        qc, kc, vc = of_context.view(B, C, -1, d).transpose(1, 2).split([H, G, G], 1)
        a = F.scaled_dot_product_attention(qc, kc.repeat_interleave(rep, 1), vc.repeat_interleave(rep, 1), attn_mask=ok, is_causal=ok is None)
        own = lambda t, r: t.reshape(B, M, S, G, r, d).permute(0, 3, 4, 1, 2, 5)           # [B,G,r,M,S,d]
        q, ko, vo = (own(t, r) for t, r in zip(of_questions.split([H, G, G], 1), (rep, 1, 1)))
        q = q.reshape(B, G, rep * M * S, d) * d ** -0.5
        far = (q @ kc.transpose(2, 3) + pad).view(B, G, rep, M, S, C)
        near = q.view(B, G, rep, M, S, d) @ ko.transpose(4, 5)
        near = near.masked_fill(torch.ones(S, S, dtype=torch.bool, device=x.device).triu(1), -math.inf)
        both = torch.cat([far, near], -1)
        told = [(n_, _told(n_, h, t, qc, kc, both, ok)) for n_, (h, t) in (hints or {}).items()]
        far, near = both.softmax(-1).split([C, S], -1)
        o = (far.reshape(B, G, rep * M * S, C) @ vc).view(B, G, rep, M, S, d) + near @ vo
        o = torch.cat([a.transpose(1, 2).reshape(n, H * d), o.permute(0, 3, 4, 1, 2, 5).reshape(B * M * S, H * d)])
        x = x + F.linear(o.index_select(0, gather), self.o)
        return x + self.feed(x), told

    def forward(self, x, cos, sin, mask):
        q, k, v = self.project(x)
        x = x + self.attend(rotate(q, cos, sin), rotate(k, cos, sin), v, mask)
        return x + self.feed(x)


def _told(name, head, target, qc, kc, both, ok):
    """-log of the attention that a head pays to its targets, rows with a target only."""
    if name.startswith("context"):                     # target [B,C]
        (_, H, C, d), G = qc.shape, kc.shape[1]
        s = (qc[:, head] @ kc[:, head * G // H].transpose(1, 2)).float() * d ** -0.5
        s = s.masked_fill(torch.ones(C, C, dtype=torch.bool, device=s.device).triu(1) if ok is None else ~ok[:, 0], -math.inf)
    else:                                              # target [B,M,S] into the context, then the question itself
        rep = both.shape[2]
        s = both[:, head // rep, head % rep].float()
    rows = target >= 0
    return -s[rows].log_softmax(-1).gather(1, target[rows].unsqueeze(1)).squeeze(1)


class Llama(nn.Module):
    def __init__(self, c: ModelConfig):
        super().__init__()
        self.c = c
        scale = 1 / math.sqrt(2 * c.layers)
        self.embed = nn.Parameter(torch.randn(c.vocab_size, c.hidden_size) / math.sqrt(c.hidden_size))
        self.blocks = nn.ModuleList([Layer(c, scale) for _ in range(c.layers)])
        self.norm = nn.Parameter(torch.ones(c.hidden_size))

    def forward(self, ids, pos, ok):
        """Final hidden states [B,T,D] of ids [B,T] at positions pos [B,T] under the mask ok [B,T,T] (bool)."""
        cos, sin = rope_table(pos, self.c.head_dim, self.c.rope_theta)
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        mask = ok.unsqueeze(1)
        x = F.embedding(ids, self.embed)
        if torch.is_autocast_enabled(x.device.type):
            x, cos, sin = x.bfloat16(), cos.bfloat16(), sin.bfloat16()
        for b in self.blocks:
            x = b(x, cos, sin, mask)
        return F.rms_norm(x, (self.c.hidden_size,), self.norm, self.c.eps)

    def shared(self, ids, pos, ids_q, pos_q, pad, ok=None, hints=None):
        """Final hidden states [B,M,S,D] of questions ids_q [B,M,S] about contexts ids [B,C]: what forward gives with one
        long row a context and the mask of batch.mask, for a third of the attention.  pad [B,C]: True at padding.
        hints: {layer: {name: (head, targets)}}; then also returns {name: -log attention of the rows with a target}."""
        (B, C), (_, M, S) = ids.shape, ids_q.shape
        gather = torch.cat([~pad.reshape(-1), (ids_q > 0).reshape(-1)]).nonzero().squeeze(1)
        spread = torch.zeros(B * C + B * M * S, dtype=torch.long, device=ids.device).index_copy(0, gather, torch.arange(len(gather), device=ids.device))
        cos, sin = rope_table(torch.cat([pos.reshape(-1), pos_q.reshape(-1)])[gather], self.c.head_dim, self.c.rope_theta)
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        x = F.embedding(torch.cat([ids.reshape(-1), ids_q.reshape(-1)])[gather], self.embed)
        bias = torch.zeros(B, 1, 1, C, device=x.device).masked_fill(pad[:, None, None], -math.inf)
        if torch.is_autocast_enabled(x.device.type):
            x, cos, sin, bias = x.bfloat16(), cos.bfloat16(), sin.bfloat16(), bias.bfloat16()
        told = {}
        for i, b in enumerate(self.blocks):
            x, t = b.shared(x, cos, sin, B, C, M, S, spread, gather, bias, None if ok is None else ok.unsqueeze(1), (hints or {}).get(i))
            told.update(t)
        x = F.rms_norm(x[spread[B * C:]].view(B, M, S, -1), (self.c.hidden_size,), self.norm, self.c.eps)
        return x if hints is None else (x, told)

    def logits(self, h):
        return F.linear(h, self.embed.to(h.dtype))

    def matrices(self):
        """The weights of the blocks, those that Muon trains."""
        return [p for b in self.blocks for p in (b.q, b.k, b.v, b.o, b.gate, b.up, b.down)]

    def n_params(self):
        return sum(p.numel() for p in self.parameters())
