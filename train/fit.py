"""Training.  `python -m train.fit --recipe cpu --out DIR` starts or continues a run; everything lies in DIR.

    DIR/tokenizer.json   made if missing        DIR/last.pt    weights, optimizer, stage; written every few minutes
    DIR/log.jsonl        one line a report      DIR/curve.svg  loss and accuracy by kind, drawn at the end

Steps depend on (seed, step, stage) only.  The stage of step s is what was known `--ahead` steps earlier, so a run is the
same with one process and with many.
"""
import argparse
import collections
import concurrent.futures
import ctypes
import json
import multiprocessing
import os
import shutil
import signal
import time
from contextlib import nullcontext

import torch
import torch.nn.functional as F

from . import batch, curve, hints, tokenizer
from .config import RECIPES
from .export import load, read_gguf
from .graft import graft
from .model import Llama
from .muon import Muon


def keep_memory():
    """glibc returns big blocks to the system at once and takes them again as fresh zero pages, in every operation of a step:
    a seventh of the time on a CPU.  Tell it to keep them."""
    try:
        libc = ctypes.CDLL("libc.so.6")
        for what, value in ((-3, 32 << 20), (-1, 2**31 - 1), (-2, 64 << 20)):      # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, M_TOP_PAD
            libc.mallopt(what, value)
    except (OSError, AttributeError):
        pass                                                                       # another C library: only slower


def learning_rate(recipe, step, done):
    """Factor of the peak rates: warm-up, flat, linear fall."""
    return min(1.0, (step + 1) / recipe.warmup) * min(1.0, max(0.02, (1 - done) / recipe.decay))


class Trainer:
    def __init__(self, args):
        self.a, self.r = args, RECIPES[args.recipe]
        for name in ("tokens", "lr_muon", "lr_adam", "lr_embed", "step_tokens", "decay"):
            if getattr(args, name, None):
                setattr(self.r, name, getattr(args, name))
        for stage in self.r.stages:
            if stage.graph:
                stage.graph.records, stage.graph.others = args.metaqa, args.varied
        os.makedirs(args.out, exist_ok=True)
        self.enc_path = f"{args.out}/tokenizer.json"
        if args.init and not os.path.exists(self.enc_path):
            if args.init.endswith(".gguf"):
                tokenizer.Encoder(args.init).tok.save(self.enc_path)
            else:
                shutil.copyfile(os.path.join(os.path.dirname(args.init), "tokenizer.json"), self.enc_path)
        if not os.path.exists(self.enc_path):
            tokenizer.train(self.enc_path, self.r.vocab, args.seed)
        enc = tokenizer.Encoder(self.enc_path)
        self.r.model.vocab_size = enc.vocab_size
        self.device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
        torch.manual_seed(args.seed)
        self.model = Llama(self.r.model)
        if args.init:
            self.model.load_state_dict((read_gguf if args.init.endswith(".gguf") else load)(args.init).state_dict())
        elif self.r.graft:
            graft(self.model, enc.tok.get_vocab(), args.seed)
        self.model.to(self.device)
        mats = self.model.matrices()
        ids = {id(p) for p in mats} | {id(self.model.embed)}
        self.muon = Muon(mats, self.r.lr_muon)
        self.adam = torch.optim.AdamW([dict(params=[self.model.embed], peak=self.r.lr_embed),
                                       dict(params=[p for p in self.model.parameters() if id(p) not in ids], peak=self.r.lr_adam)],
                                      lr=1e-3, betas=(0.9, 0.98), weight_decay=0.0)
        self.step, self.tokens, self.stage, self.stage_step, self.seconds = 0, 0, 0, 0, 0.0
        self.ema = {}
        self.run = torch.compile(self.model.shared, dynamic=True) if args.compile else self.model.shared
        self.log = open(f"{args.out}/log.jsonl", "a")
        self.acc = collections.defaultdict(lambda: [0, 0, 0, 0])    # kind: first right, first seen, tokens right, tokens seen
        self.loss = [0.0, 0]
        self.looks = collections.defaultdict(list)      # attention that the guided heads pay to their targets
        if os.path.exists(f"{args.out}/last.pt"):
            self.load(f"{args.out}/last.pt")

    # ---- state

    def save(self, name="last.pt"):
        path = f"{self.a.out}/{name}"
        torch.save(dict(model=self.model.state_dict(), muon=self.muon.state_dict(), adam=self.adam.state_dict(), config=self.r.model,
                        step=self.step, tokens=self.tokens, stage=self.stage, stage_step=self.stage_step, ema=self.ema,
                        seconds=self.seconds, seed=self.a.seed), path + ".new")
        os.replace(path + ".new", path)

    def load(self, path):
        d = torch.load(path, map_location=self.device, weights_only=False)
        self.model.load_state_dict(d["model"])
        self.muon.load_state_dict(d["muon"])
        self.adam.load_state_dict(d["adam"])
        for k in ("step", "tokens", "stage", "stage_step", "ema", "seconds"):
            setattr(self, k, d[k])
        print(f"continuing at step {self.step}, {self.tokens / 1e6:.2f} M tokens, stage {self.stage}", flush=True)

    # ---- one step

    def forward_backward(self, arrays, scale):
        ids, pos, pad, ids_q, pos_q, kind, first, told, told_q, end = (torch.from_numpy(x).to(self.device, non_blocking=True) for x in arrays)
        cuda = self.device == "cuda"
        with torch.autocast("cuda", torch.bfloat16) if cuda else nullcontext():
            h, looks = self.run(ids, pos, ids_q, pos_q, pad, batch.sight(end) if end.numel() else None, hints.plan(self.r.model, told, told_q))
            want = (kind[..., 1:] >= 0).nonzero(as_tuple=True)      # answers only: hidden states elsewhere meet no vocabulary
            logits = self.model.logits(h[:, :, :-1][want])
        target, k, f = ids_q[..., 1:][want], kind[..., 1:][want], first[..., 1:][want]
        ce = F.cross_entropy(logits.float(), target, reduction="none")
        loss = ce.sum() * scale
        share = scale * len(target)              # of this micro-batch in the step
        for name, x in looks.items():
            if len(x):
                loss = loss + x.mean() * (share * self.hint)
                self.looks[name].append(float(x.detach().neg().exp().mean()))
        loss.backward()
        return ce.detach().sum(), len(target), (logits.detach().argmax(-1) == target, k, f)

    def optimize(self, micros):
        answers = sum(int((m[5] >= 0).sum()) for m in micros)
        self.muon.zero_grad(set_to_none=True)
        self.adam.zero_grad(set_to_none=True)
        self.hint = self.r.hint * max(0.1, 1 - self.done() / self.r.hint_until)
        results = [self.forward_backward(m, 1.0 / answers) for m in micros]
        lr = learning_rate(self.r, self.step, self.done())
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for g in self.muon.param_groups:
            g["lr"] = self.r.lr_muon * lr
        for g in self.adam.param_groups:
            g["lr"] = g["peak"] * lr
        self.muon.step()
        self.adam.step()
        self.step += 1
        self.tokens += sum(int((~m[2]).sum()) + int((m[4] > 0).sum()) for m in micros)
        self.count(results, answers)

    def count(self, results, answers):
        self.loss[0] += float(sum(x[0] for x in results))
        self.loss[1] += answers
        right, kind, first = (torch.cat([x[2][i] for x in results]).cpu() for i in range(3))
        for i, k in enumerate(batch.KINDS):
            s = kind == i
            f = s & first
            nf = int(f.sum())
            if nf:
                a = self.acc[k]
                n = (int((right & f).sum()), nf, int((right & s).sum()), int(s.sum()))
                for j in range(4):
                    a[j] += n[j]
                w = min(0.5, nf / 400)      # about the last 400 answers of the kind
                self.ema[k] = (1 - w) * self.ema.get(k, 0.0) + w * n[0] / nf

    def done(self):
        """Share of the budget that is spent: of tokens or, with --minutes, of time if that is more."""
        return max(self.tokens / self.r.tokens, self.seconds / (60 * self.a.minutes) if self.a.minutes else 0)

    def advance(self):
        st = self.r.stages[self.stage]
        if self.stage + 1 >= len(self.r.stages) or self.step - self.stage_step < 60:
            return
        passed = all(self.ema.get(k, 0) >= v for k, v in st.gate.items())
        if passed or self.done() > st.most:
            self.stage, self.stage_step = self.stage + 1, self.step
            self.say(f"stage {self.stage} ({'gate passed' if passed else 'share of budget spent'})")
            self.save(f"stage{self.stage}.pt")

    # ---- reports

    def say(self, text):
        print(f"{self.seconds:7.0f}s step {self.step:6d} {self.tokens / 1e6:8.2f}M  {text}", flush=True)

    def report(self):
        line = dict(step=self.step, tokens=self.tokens, seconds=round(self.seconds, 1), stage=self.stage, loss=round(self.loss[0] / max(1, self.loss[1]), 4),
                    first={k: round(a[0] / a[1], 4) for k, a in self.acc.items() if a[1]},
                    token={k: round(a[2] / a[3], 4) for k, a in self.acc.items() if a[3]},
                    hints={k: round(sum(v) / len(v), 4) for k, v in self.looks.items()})
        self.log.write(json.dumps(line) + "\n")
        self.log.flush()
        speed = self.tokens / max(1e-9, self.seconds)
        self.say(f"st {self.stage} {speed:6.0f}/s loss {line['loss']:.3f}  " + " ".join(
            f"{k} {line['first'][k]:.2f}" for k in batch.KINDS if k in line["first"])
                 + "  | " + " ".join(f"{k} {v:.2f}" for k, v in line["hints"].items()))
        self.looks.clear()
        self.acc.clear()
        self.loss = [0.0, 0]

    def steps(self):
        """Micro-batches of each step, made `ahead` steps early, in other processes when there are any."""
        a = self.a
        job = lambda s: (self.enc_path, a.seed, s, self.r.stages[self.stage], self.r.step_tokens, self.r.micro_tokens, self.r.gaps)
        pool = concurrent.futures.ProcessPoolExecutor(a.workers, multiprocessing.get_context("spawn")) if a.workers else None
        queue = collections.deque()
        nxt = self.step
        try:
            while True:
                while len(queue) <= a.ahead:
                    queue.append(pool.submit(batch.make_step, *job(nxt)) if pool else job(nxt))
                    nxt += 1
                j = queue.popleft()
                yield j.result() if pool else batch.make_step(*j)
        finally:
            if pool:
                pool.shutdown(wait=False, cancel_futures=True)

    def fit(self):
        self.say(f"{self.model.n_params() / 1e6:.2f} M parameters, vocabulary {self.r.model.vocab_size}, {self.device}, recipe {self.r.name}")
        last_log = last_save = t = time.time()
        stop = []
        signal.signal(signal.SIGTERM, lambda *_: stop.append(1))      # finish the step, save, leave
        signal.signal(signal.SIGINT, lambda *_: stop.append(1))
        for micros in self.steps():
            self.optimize(micros)
            now = time.time()
            self.seconds += min(now - t, 60)      # no step takes a minute: more is a pause of the process, which does not count
            t = now
            self.advance()
            if now - last_log > self.a.log_every:
                self.report()
                last_log = now
            if now - last_save > self.a.save_every:
                self.save()
                last_save = now
            if self.done() >= 1 or stop:
                break
        self.report()
        self.save()
        curve.draw(f"{self.a.out}/log.jsonl", f"{self.a.out}/curve.svg")


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--recipe", choices=list(RECIPES), default="cpu")
    ap.add_argument("--out", default="/tmp/spolia-train")
    ap.add_argument("--init", metavar="CKPT", help="begin with the weights and the tokenizer of a GGUF file, or of another run's checkpoint")
    ap.add_argument("--metaqa", default="", metavar="FILE", help="recipe graph: records of train.metaqa")
    ap.add_argument("--varied", default="", metavar="FILE", help="recipe graph-varied: records of train.varied")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--device", default="")
    ap.add_argument("--threads", type=int, default=0, help="CPU threads (0: PyTorch's choice)")
    ap.add_argument("--workers", type=int, default=0, help="processes that make data (0: in the training process)")
    ap.add_argument("--ahead", type=int, default=8, help="steps whose data is made early")
    ap.add_argument("--compile", action="store_true")
    ap.add_argument("--log-every", type=float, default=20)
    ap.add_argument("--save-every", type=float, default=180)
    for name in ("tokens", "lr_muon", "lr_adam", "lr_embed", "decay"):
        ap.add_argument("--" + name.replace("_", "-"), type=float, help="in place of the recipe's")
    ap.add_argument("--step-tokens", type=int)
    ap.add_argument("--minutes", type=float, default=0, help="end after this time, or after the recipe's tokens if they are fewer")
    a = ap.parse_args()
    keep_memory()
    if a.threads:
        torch.set_num_threads(a.threads)
    Trainer(a).fit()


if __name__ == "__main__":
    main()
