"""What each policy chooses and answers, as JSON lines, for tests of the engine: same prompts, same selections, same logits.

    python -m train.golden --gguf demo/model.gguf --n 1 --out reuse.jsonl

A line is one prompt: {"system": ids, "chunks": [ids], "question": ids, "kind", "answer", "results": [{"policy", "rate",
"slots": recomputed positions in the prompt, "ids": the greedy answer, "logits": at the first answer position}]}.  Weights are
those of the GGUF file, arithmetic is f32, KV is f32.
"""
import argparse
import dataclasses
import json

import torch

from .evaluate import questions, test_style
from .export import add_model_options, open_model
from .reuse import Runner, answers, prompt_of
from .tokenizer import render_chunk, render_question, render_system


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_model_options(ap)
    ap.add_argument("--n", type=int, default=1, help="prompts of each kind")
    ap.add_argument("--chunks", type=int, default=6)
    ap.add_argument("--rates", type=int, nargs="*", default=[15, 50])
    ap.add_argument("--out", required=True)
    a = ap.parse_args()
    torch.set_num_threads(1)
    model, enc = open_model(a)
    run = Runner(model)
    with open(a.out, "w") as f, torch.inference_mode():
        for kind, s, qa in questions("test", a.n, a.chunks, dataclasses.replace(test_style(), whole=0.25), seed=3):
            system, chunks, question = enc(render_system()), enc.many([render_chunk(*c) for c in s.chunks]), enc(render_question(qa.question))
            chosen = {}
            got = answers(run, prompt_of(system, chunks, question), enc.stop, a.rates, gen=torch.Generator().manual_seed(1), chosen=chosen)
            results = [dict(policy=p, rate=r, slots=chosen.get((p, r), []), ids=ids, text=enc.decode(ids), logits=[round(x, 5) for x in logits.tolist()])
                       for (p, r), (ids, logits) in got.items()]
            f.write(json.dumps(dict(kind=kind, system=system, chunks=chunks, question=question, answer=qa.answer, results=results)) + "\n")


if __name__ == "__main__":
    main()
