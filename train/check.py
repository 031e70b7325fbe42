"""Self-checks of train/.  `python -m train.check` needs no trained model and takes about half a minute.

Prints one line a check and "N passed, N failed"; exit status 1 if one failed.
"""
import argparse
import json
import os
import random
import sys
import tempfile

import gguf
import numpy as np
import torch

from . import batch, config, facts, graphs, hints, judge, judge_prompts, metaqa, names, scenes, tokenizer, trees
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
    ids_c, pos_c, pad, ids_q, pos_q, kind_q, first, told, told_q, _ = (torch.from_numpy(x) for x in batch.shared(f.packs, 16))
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
        for kind, tol in (("f32", 1e-5), ("f16", 0.1), ("q8_0", 1.0)):
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


PATHS = [trees.Path(("Alice", "Titanic", "Tragedy"), ("like", "has_type"), (False, False)),
         trees.Path(("Alice", "Titanic", "Romance"), ("like", "has_type"), (False, False)),
         trees.Path(("Bob", "Alice", "24"), ("knows", "age"), (True, False))]


def tree_text_is_that_of_the_engine(f):
    text = lambda i, style: "".join(s.text for s in trees.segments(PATHS[i], style))
    assert text(0, "arrows") == "Alice -like-> Titanic -has_type-> Tragedy" and text(2, "arrows") == "Bob <-knows- Alice -age-> 24"
    assert text(0, "sentences") == "Alice like Titanic. Titanic has type Tragedy." and text(2, "sentences") == "Bob is knows of Alice. Alice age 24."
    nodes = trees.build(PATHS, "arrows")
    assert [(n.segment.text, n.parent, n.depth) for n in nodes] == [
        ("Alice", -1, 0), (" -like->", 0, 1), (" Titanic", 1, 2), (" -has_type->", 2, 3), (" Tragedy", 3, 4), (" Romance", 3, 4),
        ("Bob", -1, 0), (" <-knows-", 6, 1), (" Alice", 7, 2), (" -age->", 8, 3), (" 24", 9, 4)]
    assert [trees.readable(x) for x in ("starred_actors", "http://x/y#bornIn", "a/b/", "release year")] == ["starred actors", "born in", "b", "release year"]
    for style in trees.STYLES:
        whole = "".join(n.segment.text for n in trees.lines(PATHS, style))
        assert sum(f.enc.many([n.segment.text for n in trees.lines(PATHS, style)]), []) == f.enc(whole)
        assert whole.startswith("[Alice]\nAlice ") and whole.count("\n\n") == 2


def graph_packs(f, layout, n=4):
    rng = random.Random(f"packs {layout}")
    tasks = [graphs.invented(rng, "train", scenes.Style()) for _ in range(n)]
    return tasks, [graphs.pack(rng, f.enc, t, trees.STYLES[i % 2], layout, 0.5) for i, t in enumerate(tasks)]


def tree_mask_is_the_ancestors(f):
    for layout in ("exact", "shifted"):
        for task, p, style in zip(*graph_packs(f, layout), trees.STYLES * 2):
            nodes = trees.build(task.paths, style)
            of = [-1] * len(f.enc(tokenizer.render_system())) + [i for i, x in enumerate(f.enc.many([n.segment.text for n in nodes])) for _ in x]

            def above(a, b):
                while b >= 0 and a != b:
                    b = nodes[b].parent
                return a == b

            ok = batch.sight(torch.from_numpy(p.end)[None])[0]
            want = [[j <= i and (of[j] < 0 or (of[i] >= 0 and above(of[j], of[i]))) for j in range(len(of))] for i in range(len(of))]
            assert ok.tolist() == want


def tree_positions(f):
    """exact: a token's position is the number of tokens it sees before it, and the question begins after all; shifted: consecutive."""
    for layout in ("exact", "shifted"):
        for p in graph_packs(f, layout)[1]:
            n, ok = len(p.end), batch.sight(torch.from_numpy(p.end)[None])[0]
            if layout == "exact":
                assert (ok.sum(1) - 1).tolist() == p.pos[:n].tolist()
            assert p.pos[n] == p.pos[:n].max() + 1 and (np.diff(p.pos[:n]) > 0).all() == (layout == "shifted")


def trees_equal_the_dense_mask(f):
    for layout in ("exact", "shifted"):
        packs = graph_packs(f, layout)[1] + f.packs[:1]      # with a causal context in the same batch
        ids, pos, pad, ids_q, pos_q, kind_q, _, told, told_q, end = (torch.from_numpy(x) for x in batch.shared(packs, 16))
        with torch.no_grad():
            h, looks = f.model.shared(ids, pos, ids_q, pos_q, pad, batch.sight(end), hints.plan(f.config, told, told_q))
            for b, p in enumerate(packs):
                seg, c = torch.from_numpy(p.seg), int((p.seg == 0).sum())
                ok = batch.mask(seg[None])[0]
                if p.end is not None:
                    ok[:c, :c] = batch.sight(torch.from_numpy(p.end)[None])[0]
                want = f.model(torch.from_numpy(p.ids)[None], torch.from_numpy(p.pos)[None], ok[None])[0]
                assert torch.allclose(want[p.kind >= 0], h[b][kind_q[b] >= 0], atol=1e-4)
        assert all(torch.isfinite(v).all() for v in looks.values())
        for p in packs[:-1]:
            for t in np.nonzero(p.hints[7] > 0)[0]:
                assert f.enc.decode([int(p.ids[t + 1])]).strip() == f.enc.decode([int(p.ids[p.hints[7, t]])]).strip()


def exact_nodes_are_the_same_alone(f):
    """In the layout exact, a node's hidden states do not depend on its siblings nor on other trees; in shifted they do."""
    def states(paths, layout):
        p = graphs.pack(random.Random(0), f.enc, graphs.Task(paths, []), "arrows", layout)
        with torch.no_grad():
            h = f.model(torch.from_numpy(p.ids)[None], torch.from_numpy(p.pos)[None], batch.sight(torch.from_numpy(p.end)[None]))[0]
        nodes, at, out = trees.build(paths, "arrows"), len(f.enc(tokenizer.render_system())), {}
        for n, x in zip(nodes, f.enc.many([n.segment.text for n in nodes])):
            out[n.key] = h[at:at + len(x)]
            at += len(x)
        return out

    for layout, same in (("exact", True), ("shifted", False)):
        alone, company = states([PATHS[1]], layout), states([PATHS[2], PATHS[0], PATHS[1]], layout)
        assert all(torch.allclose(x, company[k], atol=1e-5) for k, x in alone.items()) == same


def metaqa_keeps_its_halves_apart(f):
    films = [(f"Film {i}", f"Person {i % 7}", str(1990 + i % 5)) for i in range(40)]
    with open(f"{f.folder}/triples.tsv", "w") as out:
        for film, person, year in films:
            out.write(f"{film}\tdirected_by\t{person}\n{film}\trelease_year\t{year}\n")
    g = metaqa.Graph(f"{f.folder}/triples.tsv")
    asked = [dict(id=f"q{i}", question=f"who directed {x}", answers=[p], topic_entity=x, hops=1) for i, (x, p, _) in enumerate(films[:20])]
    asked += [dict(id=f"r{i}", question=f"{x} shares its director with", answers=sorted(g.follow(x, (("directed_by", False), ("directed_by", True)))),
                   topic_entity=x, hops=2) for i, (x, _, _) in enumerate(films[:20])]
    asked += [dict(id=f"s{i}", question=f"when did films by the director of {x} come out", topic_entity=x, hops=3, answers=sorted(
        g.follow(x, (("directed_by", False), ("directed_by", True), ("release_year", False))))) for i, (x, _, _) in enumerate(films[:20])]
    told = metaqa.templates(g, asked)
    assert told[(("directed_by", False),)] == ["who directed {s}"] and {len(p) for p in told} == {1, 2, 3}
    made = [r for _, r in zip(range(20), metaqa.make_train(g, asked, 20, 1))]
    assert not {r["entity"] for r in made} & {q["topic_entity"] for q in asked if metaqa.in_test(q["id"])}
    assert all(graphs.golds_of([graphs.path_from(p) for p in r["paths"]], q) for r in made for q in r["questions"])
    for r in metaqa.make_test(g, asked, 5, 1):
        q, paths = r["questions"][0], [graphs.path_from(p) for p in r["paths"]]
        assert metaqa.in_test(q["id"]) and paths == list(dict.fromkeys(paths)) and graphs.golds_of(paths, q), r
        assert not any(a != b and a.nodes == b.nodes[:len(a.nodes)] and a.relations == b.relations[:len(a.relations)] for a in paths for b in paths)


def judge_prompts_of(f):
    """Pieces of 5 to 12 tokens: heads 0 and 1, documents 2 to 9, a question and an answer; 12: what continuations ask."""
    rng = np.random.default_rng(3)
    sizes = [5, 7, 9, 8, 12, 9, 11, 9, 10, 12, 6, 5, 5]
    about = dict(heads=[[0, 1]], items=[[0, False, [4], [2, 3, 5, 6, 7], 10, 11]], plain=[[2, 3, 4, 5, 6, 7, 8, 9]], follow=12)
    path = f"{f.folder}/prompts.npz"
    np.savez(path, ids=rng.integers(0, f.config.vocab_size, sum(sizes)).astype(np.uint16), ends=np.cumsum([0] + sizes),
             about=np.frombuffer(json.dumps(about).encode(), np.uint8))
    return judge_prompts.Prompts(path)


def judge_prompts_are_made_of_pieces(f):
    made = judge_prompts_of(f)
    for seed in range(20):
        rng = random.Random(seed)
        p = made.question(rng, made.train[0])
        chunks = [tuple(p.ids[p.chunk == c]) for c in range(p.chunk.max() + 1)]
        assert tuple(made.piece(4)) in chunks and len(set(chunks)) == len(chunks) >= 4
        assert (p.ids[p.asked:] == np.concatenate([made.piece(10), made.piece(11)])).all() and p.learned == 5
        c = made.continuation(rng)
        rest = c.ids[-c.learned:]
        assert any((made.piece(n)[-c.learned:] == rest).all() for n in range(2, 10)) and (c.ids[c.asked:-c.learned] == made.piece(12)).all()


def block_masks_hide_the_other_chunks(f):
    made = judge_prompts_of(f)
    p = made.question(random.Random(5), made.train[0], 5)
    ids, pos, seg, chunk, want = judge.collate([p], "cpu")
    assert want.sum() == p.learned and (ids[:, 1:][want[:, :-1]].numpy() == p.ids[-p.learned:]).all()
    run = lambda i, x, ok: f.model(i, x, ok)[0]
    with torch.no_grad():
        block, full = run(ids, pos, batch.chunk_mask(seg, chunk)), run(ids, pos, batch.mask(seg))
        head = (chunk[0] < 0) & (seg[0] == 0)
        for c in range(5):
            only = (head | (chunk[0] == c)).nonzero()[:, 0]
            T = len(only)
            alone = run(ids[:, only], pos[:, only], torch.ones(1, T, T, dtype=torch.bool).tril())
            assert torch.allclose(alone, block[only], atol=1e-4)
        last = (chunk[0] == 4).nonzero()[-1, 0]
        assert not torch.allclose(block[last], full[last], atol=1e-2) and not torch.allclose(block[want[0]], full[want[0]], atol=1e-2)


def judge_export_changes_the_matrices_alone(f):
    write_gguf(f.model, f.enc, f"{f.folder}/a.gguf", "q8_0")
    other = read_gguf(f"{f.folder}/a.gguf")
    for b in other.blocks:
        b.up.data *= 1.5
    torch.save(dict(model=other.state_dict()), f"{f.folder}/best.pt")
    judge.export(argparse.Namespace(gguf=f"{f.folder}/a.gguf", ckpt=f"{f.folder}/best.pt", out=f"{f.folder}/b.gguf"))
    a, b = (gguf.GGUFReader(f"{f.folder}/{x}.gguf") for x in "ab")
    said = lambda r: {k: v.contents() for k, v in r.fields.items() if not k.startswith("GGUF.")}
    assert said(a) == said(b)
    was, now = (read_gguf(f"{f.folder}/{x}.gguf") for x in "ab")
    for (name, x), (_, y) in zip(gguf_tensors(was), gguf_tensors(now)):
        assert torch.allclose(x * (1.5 if "ffn_up" in name else 1), y, atol=2e-2), name


CHECKS = [splits_are_disjoint, scenes_are_deterministic, answers_stand_in_their_documents, segments_are_tokenized_alone,
          mask_keeps_questions_apart, shared_contexts_equal_the_mask, hints_point_at_the_answer, positions_are_relative,
          recomputing_all_is_full_attention, picks_break_ties_low, export_round_trip, recipes_make_batches,
          tree_text_is_that_of_the_engine, tree_mask_is_the_ancestors, tree_positions, trees_equal_the_dense_mask, exact_nodes_are_the_same_alone,
          metaqa_keeps_its_halves_apart, judge_prompts_are_made_of_pieces, block_masks_hide_the_other_chunks, judge_export_changes_the_matrices_alone]


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
