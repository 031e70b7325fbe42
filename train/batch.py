"""Scenes to tensors.

One sequence is one context with several questions, all of which start at the position after the context:

    [system][chunk]...[chunk] [question 1][answer 1] [question 2][answer 2] ...

A question sees the context and itself (`mask`).  About ten answers a context are learned for one reading of it.
Loss falls on the answers only.  In some prompts the positions jump before a chunk, so that a chunk works anywhere.
"""
import random

import numpy as np
import torch

from . import graphs, hints, scenes
from .packed import KIND_ID, KINDS, Packed  # noqa: F401
from .tokenizer import Encoder, render_answer, render_chunk, render_question, render_system

MAX_POSITION = 2048


def choose(rng, qas, n):
    """n questions, the kinds in turn, so that rare kinds are not drowned."""
    by = {}
    for q in rng.sample(qas, len(qas)):
        by.setdefault(q.kind, []).append(q)
    out = []
    while by and len(out) < n:
        for k in list(by):
            out.append(by[k].pop())
            if not by[k]:
                del by[k]
    return out[:n]


def pack(rng, enc, scene, n_questions, gaps):
    qas = choose(rng, scene.qas, n_questions)
    chunks = scene.chunks
    texts = [render_system()] + [render_chunk(*c) for c in chunks]
    for q in qas:
        texts += [render_question(q.question), render_answer(q.answer)]
    coded = enc.tok.encode_batch(texts, add_special_tokens=False)
    parts = [c.ids for c in coded]
    n = len(chunks) + 1
    spans = hints.Spans(np.cumsum([0] + [len(p) for p in parts[:n - 1]]).tolist(), texts[:n], [c.offsets for c in coded[:n]])
    ids, pos, seg, chunk, kind, first = [], [], [], [], [], []
    at = 0
    jump = rng.choice([4, 16, 64, 200]) if rng.random() < gaps else 0
    for i, p in enumerate(parts[:n]):
        if jump and i:
            at += rng.randrange(jump)
        ids += p
        pos += range(at, at + len(p))
        chunk += [i - 1] * len(p)
        at += len(p)
    seg, kind, first = [0] * len(ids), [-1] * len(ids), [False] * len(ids)
    told = [np.full((8, len(ids)), -1)]
    told[0][:3] = hints.context_hints(scene, spans, len(ids))
    for j, q in enumerate(qas):
        a, b = parts[n + 2 * j], parts[n + 2 * j + 1]
        ids += a + b
        pos += range(at, at + len(a) + len(b))
        seg += [j + 1] * (len(a) + len(b))
        chunk += [-1] * (len(a) + len(b))
        kind += [-1] * len(a) + [KIND_ID[q.kind]] * len(b)
        first += [False] * len(a) + [True] + [False] * (len(b) - 1)
        told.append(np.full((8, len(a) + len(b)), -1))
        told[-1][3:] = hints.question_hints(scene, q, spans, *((texts[i], coded[i].offsets) for i in (n + 2 * j, n + 2 * j + 1)))
    return Packed(*(np.array(x) for x in (ids, pos, seg, chunk, kind, first)), np.concatenate(told, 1))


_ENC = {}


def make_step(enc_path, seed, step, stage, step_tokens, micro_tokens, gaps, round_to=16):
    """The micro-batches of one optimizer step: tuples of arrays.  Depends on its arguments only, so it can run in any process."""
    enc = _ENC.get(enc_path) or _ENC.setdefault(enc_path, Encoder(enc_path))
    rng = random.Random(seed * 1_000_003 + step)
    packs, total = [], 0
    while total < step_tokens:
        if stage.graph and rng.random() < stage.graph.share:
            p = graphs.make_pack(rng, enc, stage.graph, gaps)
        else:
            scene = scenes.make_scene(rng, "train", stage.weights, rng.randint(*stage.chunks), stage.style)
            p = pack(rng, enc, scene, stage.questions, gaps)
        if p.pos[-1] < MAX_POSITION and p.first.any():
            packs.append(p)
            total += len(p.ids)
    packs.sort(key=lambda p: (p.end is not None, int(p.seg[-1]), int((p.seg == 0).sum())))      # alike in mask, number of questions, length
    out = []
    while packs:
        n = max(1, min(len(packs), micro_tokens // len(packs[-1].ids)))
        out.append(shared(packs[-n:], round_to))
        del packs[-n:]
    return out


def shared(packs, round_to=1):
    """For Llama.shared: ids, pos, pad [B,C] of the contexts; ids, pos, kind, first [B,M,S] of the questions; the
    rows of hints.CONTEXT [3,B,C] and hints.QUESTION [5,B,M,S]; end [B,C] for `sight`, empty when all contexts are causal."""
    B, up = len(packs), lambda x: -(-x // round_to) * round_to
    lens = [int((p.seg == 0).sum()) for p in packs]
    runs = [np.bincount(p.seg)[1:] for p in packs]
    C, M, S = up(max(lens)), max(len(r) for r in runs), max(int(r.max()) for r in runs)
    ids, pos, pad = np.zeros((B, C), np.int64), np.zeros((B, C), np.int64), np.ones((B, C), bool)
    ids_q, pos_q, first = np.zeros((B, M, S), np.int64), np.zeros((B, M, S), np.int64), np.zeros((B, M, S), bool)
    kind, told_q, told = np.full((B, M, S), -1, np.int64), np.full((5, B, M, S), -1, np.int64), np.full((3, B, C), -1, np.int64)
    trees = any(p.end is not None for p in packs)
    end = np.tile(np.arange(1, C + 1), (B, 1)) if trees else np.zeros((0, 0), np.int64)      # padding is seen by itself only
    for b, (p, n, run) in enumerate(zip(packs, lens, runs)):
        if trees:
            end[b, :n] = n if p.end is None else p.end
        ids[b, :n], pos[b, :n], pad[b, :n] = p.ids[:n], p.pos[:n], False
        told[:, b, :n] = p.hints[:3, :n]
        for j, k in enumerate(run):
            for to, of in ((ids_q, p.ids), (pos_q, p.pos), (kind, p.kind), (first, p.first)):
                to[b, j, :k] = of[n:n + k]
            told_q[:, b, j, :k] = p.hints[3:, n:n + k]
            n += k
    return ids, pos, pad, ids_q, pos_q, kind, first, told, told_q, end


def collate(packs, width):
    B = len(packs)
    ids, pos = np.zeros((B, width), np.int64), np.zeros((B, width), np.int64)
    seg, chunk, kind = (np.full((B, width), -1, np.int64) for _ in range(3))
    first = np.zeros((B, width), bool)
    for b, p in enumerate(packs):
        n = len(p.ids)
        ids[b, :n], pos[b, :n], seg[b, :n], chunk[b, :n], kind[b, :n], first[b, :n] = p.ids, p.pos, p.seg, p.chunk, p.kind, p.first
    return ids, pos, seg, chunk, kind, first


def sight(end):
    """ok [B,C,C] of contexts with trees: token i sees j when j is not later and i is before end[j], the end of j's subtree."""
    i = torch.arange(end.shape[1], device=end.device)
    return (i[:, None] >= i[None, :]) & (i[:, None] < end[:, None, :])


def mask(seg):
    """ok [B,T,T]: causal; the context sees itself, a question sees the context and itself.  Padding sees itself (no empty rows)."""
    T = seg.shape[1]
    i = torch.arange(T, device=seg.device)
    q, k = seg[:, :, None], seg[:, None, :]
    return (i[:, None] >= i[None, :]) & ((k == 0) | (q == k)) & ((q >= 0) | (i[:, None] == i[None, :]))


def chunk_mask(seg, chunk):
    """As mask, but a chunk sees the system segment and itself only: what Full Reuse computes."""
    q, k = chunk[:, :, None], chunk[:, None, :]
    context = (seg[:, :, None] == 0) & (q >= 0)
    return mask(seg) & (~context | (k == q) | (k < 0))
