"""Self-checks of train/.  `python -m train.check` needs no trained model and takes about half a minute.

Prints one line a check and "N passed, N failed"; exit status 1 if one failed.
"""
import json
import os
import random
import sys
import tempfile

import numpy as np
import torch

from . import batch, config, facts, hints, names, scenes, tokenizer
from .export import gguf_tensors, load, read_gguf, write_gguf, write_hf
from .graft import graft
from .model import Llama, ModelConfig
from .reuse import Runner, pick, prompt_of

torch.manual_seed(0)
TINY = ModelConfig(hidden_size=64, layers=3, heads=4, kv_heads=2, ffn=64, head_dim=16)


class Fixture:
    def __init__(self, folder):
        self.folder, self.path = folder, f"{folder}/tokenizer.json"
        tokenizer.train(self.path, 1024, n=200)
        self.enc = tokenizer.Encoder(self.path)
        self.config = ModelConfig(**{**TINY.__dict__, "vocab_size": self.enc.vocab_size})
        self.model = Llama(self.config).eval()
        graft(self.model, self.enc.tok.get_vocab())
        for b in self.model.blocks:      # every path of the network does something
            torch.nn.init.normal_(b.o, std=0.1)
            torch.nn.init.normal_(b.down, std=0.1)
        rng = random.Random(4)
        self.scenes = [scenes.make_scene(rng, "train", dict(single=1, alias=1, header=1, bridge=1), 6, scenes.Style((1, 2), 0.2)) for _ in range(4)]
        self.packs = [batch.pack(rng, self.enc, s, 5, 0.5) for s in self.scenes]

    def prompt(self, i=0):
        s, e = self.scenes[i], self.enc
        return prompt_of(e(tokenizer.render_system()), e.many([tokenizer.render_chunk(*c) for c in s.chunks]), e(tokenizer.render_question(s.qas[0].question)))


def splits_are_disjoint(f):
    sets = {s: set(sum(names.syllables(s), [])) for s in names.SPLITS}
    assert not (sets["train"] & sets["test"] or sets["train"] & sets["dev"] or sets["dev"] & sets["test"])
    assert all(len(s) > 50 for s in sets.values()) and not set(names.OPEN) & sets["test"]
    for r in facts.RELATIONS:
        for first in (False, True):
            assert not set(facts.allowed(r, "train", first)) & set(facts.allowed(r, "test", first)) and facts.allowed(r, "test", first)
        assert not set(facts.allowed_asks(r, "train")) & set(facts.allowed_asks(r, "test"))


def scenes_are_deterministic(f):
    make = lambda: [scenes.make_scene(random.Random(9), "test", dict(single=1, path=1, alias=1), 8).chunks for _ in range(3)]
    assert make() == make()


def answers_stand_in_their_documents(f):
    rng = random.Random(2)
    for _ in range(100):
        s = scenes.make_scene(rng, "test", dict(single=1, bridge=1, alias=1, header=1, path=1, columns=1, compare=1), 8)
        for q in s.qas:
            text = " ".join(t for d in q.docs for _, t in s.docs[d].chunks).lower()
            if q.kind != "none":
                assert all(w in text for w in q.answer.lower().split()), q


def segments_are_tokenized_alone(f):
    a, b = "[Zorpu]\nZorpu makes lamps.\n\n", "Zorpu (maker: Tote) is listed here.\n\n"
    assert f.enc.decode(f.enc(a) + f.enc(b)) == a + b
    assert f.enc(tokenizer.render_system())[0] == f.enc.tok.token_to_id(tokenizer.START)      # no BOS
    assert f.enc("日本 été 🙂") and f.enc.decode(f.enc("日本 été 🙂")) == "日本 été 🙂"


def mask_keeps_questions_apart(f):
    W = max(len(p.ids) for p in f.packs)
    ids, pos, seg, chunk, _, _ = (torch.from_numpy(x) for x in batch.collate(f.packs, W))
    ok = batch.mask(seg)
    with torch.no_grad():
        a = f.model(ids, pos, ok)
        other = ids.clone()
        other[seg == 2] = 5                   # another second question changes nothing for the first
        b = f.model(other, pos, ok)
        assert torch.allclose(a[(seg == 0) | (seg == 1)], b[(seg == 0) | (seg == 1)], atol=1e-5)
        assert not torch.allclose(a[seg == 2], b[seg == 2], atol=1e-3)
        p = f.packs[0]                        # one question alone, causal, gives the same
        n, one = int((p.seg == 0).sum()), int((p.seg <= 1).sum())
        c = f.model(torch.from_numpy(p.ids[None, :one]), torch.from_numpy(p.pos[None, :one]), torch.ones(1, one, one, dtype=torch.bool).tril())
        assert torch.allclose(c[0, n:], a[0, n:one], atol=1e-4)
        iso = batch.chunk_mask(seg, chunk)
        assert not iso[0, (chunk[0] == 1).nonzero()[0, 0], (chunk[0] == 0).nonzero()[0, 0]]


def shared_contexts_equal_the_mask(f):
    W = max(len(p.ids) for p in f.packs)
    ids, pos, seg, _, kind, _ = (torch.from_numpy(x) for x in batch.collate(f.packs, W))
    ids_c, pos_c, pad, ids_q, pos_q, kind_q, first, told, told_q = (torch.from_numpy(x) for x in batch.shared(f.packs, 16))
    with torch.no_grad():
        a = f.model(ids, pos, batch.mask(seg))[kind >= 0]
        h, looks = f.model.shared(ids_c, pos_c, ids_q, pos_q, pad, None, hints.plan(f.config, told, told_q))
    assert torch.allclose(a, h[kind_q >= 0], atol=1e-4)
    assert all(torch.isfinite(v).all() for v in looks.values()) and len(looks["point"]) > 20


def hints_point_at_the_answer(f):
    strip = lambda i: f.enc.decode([int(i)]).strip()
    seen = 0
    for p in f.packs:
        for t in np.nonzero(p.hints[7] > 0)[0]:
            assert strip(p.ids[t + 1]) == strip(p.ids[p.hints[7, t]])
            seen += 1
    assert seen > 20


def positions_are_relative(f):
    p = f.packs[0]
    ids, T = torch.from_numpy(p.ids[None]), len(p.ids)
    ok = torch.ones(1, T, T, dtype=torch.bool).tril()
    with torch.no_grad():
        a, b = (f.model(ids, torch.arange(T)[None] + k, ok) for k in (0, 1000))
    assert torch.allclose(a, b, atol=2e-3)


def recomputing_all_is_full_attention(f):
    run, p = Runner(f.model), f.prompt()
    with torch.no_grad():
        fk, fv, fh = run.full(p)
        iso = run.isolated(p)
        todo = torch.arange(p.n_system, len(p.ids))
        h, K, V, _ = run.sparse(p, todo, *iso)
        assert torch.allclose(h[-1], fh[-1], atol=1e-4) and all(torch.allclose(a, b, atol=1e-4) for a, b in zip(K, fk))
        hb, _, _, _ = run.blend(p, iso, len(p.slots))
        assert torch.allclose(hb[-1], fh[-1], atol=1e-4)
        hr, _, _, _ = run.sparse(p, torch.arange(p.n_context, len(p.ids)), *iso)
        assert not torch.allclose(hr[-1], fh[-1], atol=1e-3)
        first = (p.chunk == 0).nonzero()[:, 0]            # the first chunk stands where it was computed: nothing to repair
        assert all(torch.allclose(a[:, first], b[:, first], atol=1e-4) for a, b in zip(iso[0], fk))
        T = len(p.ids)
        x = f.model(p.ids[None], torch.arange(T)[None], torch.ones(1, T, T, dtype=torch.bool).tril())
        assert torch.allclose(x[0], fh, atol=1e-4)


def picks_break_ties_low(f):
    assert pick(torch.tensor([1.0, 3.0, 3.0, 0.0, 3.0]), 2).tolist() == [1, 2]


def export_round_trip(f):
    ids = f.prompt().ids[None]
    T = ids.shape[1]
    run = lambda m: m.logits(m(ids, torch.arange(T)[None], torch.ones(1, T, T, dtype=torch.bool).tril()))
    with torch.no_grad():
        want = run(f.model)
        for kind, tol in (("f32", 1e-5), ("f16", 0.05), ("q8_0", 1.0)):
            write_gguf(f.model, f.enc, f"{f.folder}/m.gguf", kind)
            got = run(read_gguf(f"{f.folder}/m.gguf"))
            assert (got - want).abs().max() < tol, (kind, (got - want).abs().max())
    text = "[Zorpu]\nZorpu makes 12 lamps.\n\n日本 é" + tokenizer.render_question("Who founded Zorpu?")
    assert tokenizer.Encoder(f"{f.folder}/m.gguf")(text) == f.enc(text)
    write_hf(f.model, f.enc, f"{f.folder}/hf")
    from safetensors.numpy import load_file
    t = load_file(f"{f.folder}/hf/model.safetensors")
    assert len(t) == 2 + 9 * f.config.layers and "lm_head.weight" not in t
    c = json.load(open(f"{f.folder}/hf/config.json"))
    assert c["architectures"] == ["LlamaForCausalLM"] and c["tie_word_embeddings"] and c["head_dim"] == 16
    again = tokenizer.Encoder(f"{f.folder}/hf/tokenizer.json")
    assert again("Who founded Zorpu?") == f.enc("Who founded Zorpu?")


def recipes_make_batches(f):
    for r in config.RECIPES.values():
        for s in r.stages:
            for m in batch.make_step(f.path, 1, 0, s, 4096, 2048, 0.5):
                assert m[1].max() < batch.MAX_POSITION and (m[5] >= 0).any()


CHECKS = [splits_are_disjoint, scenes_are_deterministic, answers_stand_in_their_documents, segments_are_tokenized_alone,
          mask_keeps_questions_apart, shared_contexts_equal_the_mask, hints_point_at_the_answer, positions_are_relative,
          recomputing_all_is_full_attention, picks_break_ties_low, export_round_trip, recipes_make_batches]


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        f = Fixture(folder)
        for c in CHECKS:
            try:
                c(f)
                print("ok    ", c.__name__.replace("_", " "))
            except Exception as e:      # a failed check must not hide the others
                failed += 1
                print("FAILED", c.__name__.replace("_", " "), "--", type(e).__name__, str(e)[:200])
    print(f"{len(CHECKS) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
