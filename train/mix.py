"""Weights between two models: SHARE of those of a run, the rest of those that it began with.

    python -m train.mix --gguf demo/graph/model.gguf --ckpt DIR/run/last.pt --share 0.5 --out model.gguf

A short run on new data gains there and loses elsewhere; between the two the gain is kept and less is lost.
"""
import argparse
import os

from .export import load, read_gguf, write_gguf
from .tokenizer import Encoder


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--gguf", required=True, help="what the run began with")
    ap.add_argument("--ckpt", required=True)
    ap.add_argument("--share", type=float, default=0.5)
    ap.add_argument("--type", default="q8_0")
    ap.add_argument("--out", required=True)
    a = ap.parse_args()
    enc = Encoder(os.path.join(os.path.dirname(a.ckpt), "tokenizer.json"))
    model, run = read_gguf(a.gguf), load(a.ckpt).state_dict()
    model.load_state_dict({k: (1 - a.share) * v + a.share * run[k].float() for k, v in model.state_dict().items()})
    write_gguf(model, enc, a.out, a.type)


if __name__ == "__main__":
    main()
