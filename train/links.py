"""Which tokens join a chunk to an earlier one, whether they are enough, and how many of them each score finds.

    python -m train.links --n 50

The generator knows where its documents bind (hints.py): a role ("the Company") to the name that an earlier chunk gives it, an
object to the subject before it, which may be a role.  Exact match when just these are computed again over Full Reuse; then, for
the r % that a score chooses, how many of the roles and of the objects are among them:

    inter     attention to earlier chunks, under full attention: Cache-Craft's order of tokens (section 3.2.1)
    query     attention of the question in the last layer: FusionRAG's
    flow      half of them by query, then what those attend to in the middle layer
"""
import argparse
import collections
import math

import numpy as np
import torch

from . import hints
from .evaluate import questions, scores, test_style
from .export import add_model_options, open_model
from .reuse import Runner, pick, prompt_of
from .tokenizer import render_chunk, render_question, render_system


def linked(scene, enc):
    """ids of system and chunks, and the slots of roles and of objects."""
    texts = [render_system()] + [render_chunk(*c) for c in scene.chunks]
    coded = enc.tok.encode_batch(texts, add_special_tokens=False)
    parts = [c.ids for c in coded]
    starts = np.cumsum([0] + [len(x) for x in parts])
    alias, bind, _ = hints.context_hints(scene, hints.Spans(starts.tolist(), texts, [c.offsets for c in coded]), int(starts[-1]))
    return parts, *({int(t) for t in np.nonzero(row >= 0)[0]} for row in (alias, bind))


def inter_attention(run, p):
    """[chunk tokens] attention to earlier chunks under full attention, summed over layers and heads."""
    T = len(p.ids)
    pos, x, out = torch.arange(T), run.m.embed[p.ids], torch.zeros(T)
    earlier = (p.chunk[:, None] != p.chunk[None, :]) & (p.chunk[None, :] >= 0)
    for i in range(run.c.layers):
        q, k, v = run.project(i, x)
        x, w = run.layer(i, x, q, k, v, pos, pos, pos[:, None] >= pos[None, :])
        out += (w * earlier).sum((0, 2))
    return out[p.n_system:p.n_context]


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_model_options(ap)
    ap.add_argument("--n", type=int, default=50, help="questions of each kind")
    ap.add_argument("--kinds", nargs="*", default=["alias", "header"])
    ap.add_argument("--rates", type=int, nargs="*", default=[15, 30])
    a = ap.parse_args()
    torch.set_num_threads(1)
    model, enc = open_model(a)
    run, system = Runner(model), enc(render_system())
    means = collections.defaultdict(list)
    with torch.inference_mode():
        for kind, s, qa in questions("test", a.n, 8, test_style(), kinds=a.kinds):
            parts, roles, objects = linked(s, enc)
            p = prompt_of(system, parts[1:], enc(render_question(qa.question)))
            iso, question = run.isolated(p), torch.arange(p.n_context, len(p.ids))
            for name, slots in (("roles", roles), ("objects", objects), ("both", roles | objects)):
                h, K, V, _ = run.sparse(p, torch.cat([torch.tensor(sorted(slots), dtype=torch.long), question]), *iso)
                means[kind, name, "of all tokens"].append(len(slots) / len(p.slots))
                means[kind, name, "exact match"].append(scores(enc.decode(run.decode(p, h, K, V, enc.stop)), [qa.answer])[0])
            by = {"inter": inter_attention(run, p), "query": run.score_query(p, *iso)}
            for r in a.rates:
                count = math.ceil(len(p.slots) * r / 100)
                chosen = {name: pick(score, count) + p.n_system for name, score in by.items()}
                chosen["flow"] = run.flow(p, *iso, by["query"], count)
                for name, slots in chosen.items():
                    for what, links in (("roles", roles), ("objects", objects)):
                        if links:
                            means[kind, f"{name} {r} %", f"of the {what}"].append(len(links & set(slots.tolist())) / len(links))
    for (kind, name, what), v in means.items():
        print(f"{kind:7} {name:12} {what:15} {100 * sum(v) / len(v):4.0f} %")


if __name__ == "__main__":
    main()
