"""The engine against PyTorch on the same tokens: largest difference of logits, and how often the first choice agrees.

    python -m train.compare --engine build/spolia --gguf demo/model.gguf
"""
import argparse
import json
import random
import subprocess
import tempfile

import numpy as np
import torch

from .export import read_gguf
from .generate import generate
from .tokenizer import Encoder, render_chunk, render_question, render_system


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--engine", default="build/spolia")
    ap.add_argument("--gguf", default="demo/model.gguf")
    ap.add_argument("--n", type=int, default=8, help="prompts")
    a = ap.parse_args()
    torch.set_num_threads(1)
    enc, model = Encoder(a.gguf), read_gguf(a.gguf)
    worst = nmse = 0.0
    same = total = tokens_same = 0
    for s in generate("test", a.n, 8, 3):
        text = render_system() + "".join(render_chunk(*c) for c in s.chunks) + render_question(random.Random(1).choice(s.qas).question)
        ids = enc(text)
        theirs = json.loads(subprocess.run([a.engine, "tokenize", "-m", a.gguf, "-p", text, "--json"], check=True, capture_output=True, text=True).stdout)["tokens"]
        tokens_same += theirs == ids
        with tempfile.NamedTemporaryFile() as f:
            subprocess.run([a.engine, "logits", "-m", a.gguf, "--tokens", ",".join(map(str, ids)), "--raw", f.name, "-ctk", "f32", "-t", "1"],
                           check=True, capture_output=True)
            got = np.fromfile(f.name, np.float32).reshape(len(ids), -1)
        T = len(ids)
        with torch.inference_mode():
            want = model.logits(model(torch.tensor([ids]), torch.arange(T)[None], torch.ones(1, T, T, dtype=torch.bool).tril()))[0].numpy()
        worst = max(worst, float(np.abs(got - want).max()))
        nmse = max(nmse, float(((got - want) ** 2).sum() / (want ** 2).sum()))
        same += int((got.argmax(1) == want.argmax(1)).sum())
        total += T
    print(f"{a.n} prompts, {total} tokens: same tokens {tokens_same} of {a.n}, logits differ by {worst:.4f} at most (NMSE {nmse:.2e}), "
          f"first choice agrees at {same} of {total}")


if __name__ == "__main__":
    main()
