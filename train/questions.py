"""The questions of train.evaluate as files that `spolia eval` reads: the same prompts through the engine.

    python -m train.questions --split test --n 25 --out DIR
    spolia eval -m demo/model.gguf --docs DIR/docs.jsonl --questions DIR/questions.jsonl --out DIR/eval

docs.jsonl holds the chunks of all prompts, and what each follows in its document; questions.jsonl names those of each
prompt in their order.
"""
import argparse
import json
import pathlib

from . import scenes
from .evaluate import questions, test_style


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--split", choices=("train", "dev", "test"), default="test")
    ap.add_argument("--n", type=int, default=25, help="questions of each kind")
    ap.add_argument("--chunks", type=int, default=8)
    ap.add_argument("--seed", type=int, default=7)
    ap.add_argument("--kinds", nargs="*", default=list(scenes.KINDS))
    ap.add_argument("--out", required=True, help="folder")
    a = ap.parse_args()
    out = pathlib.Path(a.out)
    out.mkdir(parents=True, exist_ok=True)
    with open(out / "docs.jsonl", "w") as docs, open(out / "questions.jsonl", "w") as asked:
        for i, (kind, scene, qa) in enumerate(questions(a.split, a.n, a.chunks, test_style(), a.seed, a.kinds)):
            ids = [f"{i:04}-{k}" for k in range(len(scene.chunks))]
            first = [k == 0 for d in scene.docs for k in range(len(d.chunks))]
            for k, (title, text) in enumerate(scene.chunks):
                follows = {} if first[k] else dict(follows=ids[k - 1])
                docs.write(json.dumps(dict(id=ids[k], title=title or "", text=text, **follows)) + "\n")
            asked.write(json.dumps(dict(id=f"{i:04}", kind=kind, question=qa.question, answers=[qa.answer], context_doc_ids=ids)) + "\n")


if __name__ == "__main__":
    main()
