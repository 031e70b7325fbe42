"""Fine-tunes SmolLM2 on questions about retrieved paragraphs, under full attention or under block masks.

    python -m train.judge_prompts --gguf SMOLLM2.gguf --data DATA --out prompts.npz
    python -m train.judge fit --gguf SMOLLM2.gguf --prompts prompts.npz --mask full --out DIR      # a stronger judge
    python -m train.judge fit --gguf SMOLLM2.gguf --prompts prompts.npz --mask block --out DIR2
    python -m train.judge export --gguf SMOLLM2.gguf --ckpt DIR/best.pt --out judge.gguf

--mask block: what reuse without recomputation can reach if the model is trained for it (Block-Attention, TurboRAG).
In half of the questions a chunk sees the head and itself, the question sees all, and answers are learned as under full
attention in the other half.  Continuations under block masks follow what the untrained model says under full attention.

Everything lies in DIR: last.pt (weights, optimizer, step; the same command continues), best.pt (the weights that lost
least on questions that are not trained on), log.jsonl.  Embeddings stay as they are.
"""
import argparse
import copy
import json
import math
import os
import random
import time
from contextlib import nullcontext

import gguf
import numpy as np
import torch
import torch.nn.functional as F

from . import batch
from .export import gguf_tensors, read_gguf
from .judge_prompts import Prompts

DEV_CHUNKS = 6
MIXES = {"full": dict(full=1.0), "block": dict(full=0.35, block=0.35, continued=0.3)}      # shares of a step's prompts


def collate(prompts, device, round_to=64):
    """ids, pos [B,T], the masks' seg and chunk [B,T] (batch.py), want [B,T]: the next token is learned."""
    T = -(-max(len(p.ids) for p in prompts) // round_to) * round_to
    ids = np.zeros((len(prompts), T), np.int64)
    seg, chunk = np.full_like(ids, -1), np.full_like(ids, -1)
    want = np.zeros(ids.shape, bool)
    for b, p in enumerate(prompts):
        n = len(p.ids)
        ids[b, :n], chunk[b, :n] = p.ids, p.chunk
        seg[b, :p.asked], seg[b, p.asked:n] = 0, 1
        want[b, n - p.learned - 1:n - 1] = True
    ids, seg, chunk, want = (torch.from_numpy(x).to(device) for x in (ids, seg, chunk, want))
    return ids, torch.arange(T, device=device).expand(len(prompts), T), seg, chunk, want


def amp(device):
    return torch.autocast("cuda", torch.bfloat16) if device == "cuda" else nullcontext()


def logits_of(model, part, block, device):
    """Logits [N,V] of the N learned tokens, and those tokens [N]."""
    ids, pos, seg, chunk, want = part
    with amp(device):
        h = model(ids, pos, batch.chunk_mask(seg, chunk) if block else batch.mask(seg))
        logits = model.logits(h[want])
    return logits.float(), ids[:, 1:][want[:, :-1]]


def parts_of(prompts, micro_tokens):
    """Micro-batches of prompts that are alike in length."""
    prompts = sorted(prompts, key=lambda p: len(p.ids))
    while prompts:
        n = max(1, micro_tokens // len(prompts[-1].ids))
        yield prompts[-n:]
        del prompts[-n:]


class Trainer:
    def __init__(self, a):
        self.a, self.device = a, a.device or ("cuda" if torch.cuda.is_available() else "cpu")
        os.makedirs(a.out, exist_ok=True)
        torch.manual_seed(a.seed)
        self.prompts = Prompts(a.prompts)
        self.model = read_gguf(a.gguf).to(self.device)
        self.model.embed.requires_grad_(False)
        self.teacher = copy.deepcopy(self.model).requires_grad_(False) if a.mask == "block" else None
        mats = self.model.matrices()
        ids = {id(p) for p in mats}
        norms = [p for p in self.model.parameters() if p.requires_grad and id(p) not in ids]
        self.adam = torch.optim.AdamW([dict(params=mats, weight_decay=0.01), dict(params=norms, weight_decay=0.0)], lr=a.lr, betas=(0.9, 0.95))
        self.step, self.tokens, self.seconds, self.best = 0, 0, 0.0, math.inf
        rng = random.Random(0)
        held = rng.sample(self.prompts.dev, min(a.held, len(self.prompts.dev)))
        self.dev = [self.prompts.question(rng, x, DEV_CHUNKS) for x in held]
        self.log = open(f"{a.out}/log.jsonl", "a")
        if os.path.exists(f"{a.out}/last.pt"):
            d = torch.load(f"{a.out}/last.pt", map_location=self.device, weights_only=True)
            self.model.load_state_dict(d["model"])
            self.adam.load_state_dict(d["adam"])
            self.step, self.tokens, self.seconds, self.best = (d[k] for k in ("step", "tokens", "seconds", "best"))

    def save(self, name, **state):
        path = f"{self.a.out}/{name}"
        torch.save(dict(model=self.model.state_dict(), **state), path + ".new")
        os.replace(path + ".new", path)

    def save_last(self):
        self.save("last.pt", adam=self.adam.state_dict(), step=self.step, tokens=self.tokens, seconds=self.seconds, best=self.best)

    def of_step(self):
        """The prompts of a step by mode; depends on seed and step only."""
        rng = random.Random(self.a.seed * 1_000_003 + self.step)
        out = {}
        for mode, share in MIXES[self.a.mask].items():
            n = round(share * self.a.batch)
            make = (lambda: self.prompts.continuation(rng)) if mode == "continued" else lambda: self.prompts.question(rng, rng.choice(self.prompts.train))
            out[mode] = [make() for _ in range(n)]
        return out

    def optimize(self):
        by_mode, losses = self.of_step(), {}
        for mode, prompts in by_mode.items():
            n_learned = sum(p.learned for p in prompts)
            for part in parts_of(prompts, self.a.micro_tokens):
                x = collate(part, self.device)
                logits, target = logits_of(self.model, x, mode != "full", self.device)
                if mode == "continued":
                    with torch.no_grad():
                        wanted = logits_of(self.teacher, x, False, self.device)[0].log_softmax(-1)
                    loss = F.kl_div(logits.log_softmax(-1), wanted, reduction="sum", log_target=True) / n_learned
                else:
                    loss = F.cross_entropy(logits, target, reduction="sum") / n_learned
                (loss * len(prompts) / self.a.batch).backward()
                losses[mode] = losses.get(mode, 0.0) + loss.detach()
                self.tokens += sum(len(p.ids) for p in part)
        rate = min(1.0, (self.step + 1) / self.a.warmup) * 0.5 * (1 + math.cos(math.pi * min(1.0, self.done())))
        for g in self.adam.param_groups:
            g["lr"] = self.a.lr * max(rate, 0.01)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        self.step += 1
        return {k: float(v) for k, v in losses.items()}

    def done(self):
        return max(self.step / self.a.steps, self.seconds / (60 * self.a.minutes) if self.a.minutes else 0)

    @torch.no_grad()
    def measure(self):
        """Nats a token of the answers to the held questions, under full attention and under block masks."""
        out = {}
        for name, block in (("full", False), ("block", True)):
            total, n = 0.0, 0
            for part in parts_of(list(self.dev), self.a.micro_tokens):
                logits, target = logits_of(self.model, collate(part, self.device), block, self.device)
                total += float(F.cross_entropy(logits, target, reduction="sum"))
                n += len(target)
            out[name] = total / n
        return out

    def report(self, losses):
        held = self.measure()
        score = held["full"] if self.a.mask == "full" else (held["full"] + held["block"]) / 2
        line = dict(step=self.step, tokens=self.tokens, seconds=round(self.seconds, 1), loss=losses, held=held)
        self.log.write(json.dumps(line) + "\n")
        self.log.flush()
        print(f"{self.seconds:6.0f}s step {self.step:5d} {self.tokens / 1e6:6.1f} M tokens  "
              + " ".join(f"{k} {v:.3f}" for k, v in losses.items()) + f"  held: full {held['full']:.3f} block {held['block']:.3f}", flush=True)
        if score < self.best:
            self.best = score
            self.save("best.pt")

    def fit(self):
        if self.step == 0:
            self.report({})
        t = saved = time.time()
        while self.done() < 1:
            losses = self.optimize()
            now = time.time()
            self.seconds += min(now - t, 60)
            t = now
            if self.step % self.a.every == 0 or self.done() >= 1:
                self.report(losses)
                t = time.time()      # measuring is not training
            if now - saved > 120:
                self.save_last()
                saved = now
        self.save_last()


def export(a):
    """The GGUF file again, with the trained matrices as Q8_0; everything else is the file's."""
    source, model = gguf.GGUFReader(a.gguf), read_gguf(a.gguf)
    model.load_state_dict(torch.load(a.ckpt, map_location="cpu", weights_only=True)["model"])
    w = gguf.GGUFWriter(a.out, "llama")
    for key, field in source.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        value = gguf.LlamaFileType.MOSTLY_Q8_0 if key == "general.file_type" else field.contents()
        w.add_key_value(key, value, field.types[0], field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None)
    raw = {t.name: t for t in source.tensors}
    for name, x in gguf_tensors(model):
        if name == "token_embd.weight":
            w.add_tensor(name, raw[name].data, raw_dtype=raw[name].tensor_type)
            continue
        x = np.ascontiguousarray(x.detach().float().numpy())
        kind = gguf.GGMLQuantizationType.Q8_0 if x.ndim == 2 else gguf.GGMLQuantizationType.F32
        w.add_tensor(name, gguf.quants.quantize(x, kind), raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    print(f"{a.out}: {os.path.getsize(a.out) / 1e6:.0f} MB")


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    sub = ap.add_subparsers(dest="what", required=True)
    fit = sub.add_parser("fit")
    fit.add_argument("--gguf", required=True, help="SmolLM2's weights")
    fit.add_argument("--prompts", required=True)
    fit.add_argument("--mask", choices=list(MIXES), required=True)
    fit.add_argument("--out", required=True)
    fit.add_argument("--steps", type=int, default=300)
    fit.add_argument("--minutes", type=float, default=0, help="end after this time, or after --steps if that is earlier")
    fit.add_argument("--batch", type=int, default=64, help="prompts in a step")
    fit.add_argument("--micro-tokens", type=int, default=32768)
    fit.add_argument("--lr", type=float, default=1e-4)
    fit.add_argument("--warmup", type=int, default=20)
    fit.add_argument("--held", type=int, default=192, help="questions of a report, none of which is trained on")
    fit.add_argument("--every", type=int, default=25, help="steps between reports")
    fit.add_argument("--seed", type=int, default=1)
    fit.add_argument("--device", default="")
    out = sub.add_parser("export")
    for name in ("--gguf", "--ckpt", "--out"):
        out.add_argument(name, required=True)
    a = ap.parse_args()
    {"fit": lambda a: Trainer(a).fit(), "export": export}[a.what](a)


if __name__ == "__main__":
    main()
