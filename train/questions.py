"""The questions of train.evaluate as files that `spolia eval` reads: the same prompts through the engine.

    python -m train.questions --split test --n 25 --out DIR
    spolia eval -m demo/model.gguf --docs DIR/docs.jsonl --questions DIR/questions.jsonl --out DIR/eval

docs.jsonl holds the chunks of all prompts, questions.jsonl names those of each prompt in their order.  The neighbour of
a chunk is the one before it in its prompt, its similar ones are drawn from all prompts, as in a corpus.
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
            for name, (title, text) in zip(ids, scene.chunks):
                docs.write(json.dumps(dict(id=name, title=title or "", text=text)) + "\n")
            asked.write(json.dumps(dict(id=f"{i:04}", kind=kind, question=qa.question, answers=[qa.answer], context_doc_ids=ids)) + "\n")


if __name__ == "__main__":
    main()
