"""What the published models predict, in float64 with exact keys and values (tests/reference).

    scripts/real-models && .venv/bin/python tests/golden/make-real-models.py TEXT

Writes real-models.json beside this file. For each model: 640 tokens of TEXT, the negative log-likelihood of each but the
first, the five most likely tokens after some of them, and what follows two beginnings greedily. The greedy tokens are
proposed by the program (built before) from the file as float32 and kept only if float64 chooses the same. Last made from
docs/how-it-works.md; takes minutes and 6 GB of memory.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))
from reference.forward import forward, log_softmax  # noqa: E402
from reference.gguf_writer import write_as_floats  # noqa: E402
from reference.model import load  # noqa: E402

N = 640  # beyond Gemma's window of 512
ROWS = range(0, N, 79)
MODELS = ("smollm2", "gemma3-270m")
PROMPTS = ("A server that keeps what a language model has computed for a document",
           "The history of printing begins in East Asia, where")


def program(*args):
    done = subprocess.run([ROOT / "build/spolia", *map(str, args)], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def path_of(name):
    done = subprocess.run([ROOT / "scripts/real-models", "--find", name], stdout=subprocess.PIPE, text=True, check=True)
    return Path(done.stdout.strip())


def greedy(floats, model, ids, text):
    made = program("run", "-m", floats, "-p", text, "-n", 64, "--json", "-ctk", "f32", "-ctv", "f32", "--no-pack-cache")["tokens"]
    best = forward(model, ids + made).logits[len(ids) - 1:-1].argmax(-1)
    assert best.tolist() == made, f"float64 chooses otherwise: {best.tolist()}, {made}"
    return made


def golden(path, text):
    model = load(path)
    ids = program("tokenize", "-m", path, "-f", text, "--json")["tokens"][:N]
    after = log_softmax(forward(model, ids).logits)
    nll = -after[np.arange(N - 1), ids[1:]]
    top = {str(row): [[int(i), round(after[row, i], 5)] for i in np.argsort(-after[row])[:5]] for row in ROWS}
    begun = []
    with tempfile.TemporaryDirectory() as folder:
        floats = Path(folder) / "f32.gguf"
        write_as_floats(floats, path)
        for prompt in PROMPTS:
            tokens = program("tokenize", "-m", path, "-p", prompt, "--json")["tokens"]
            begun.append({"text": prompt, "tokens": greedy(floats, model, tokens, prompt)})
    return {"ids": ids, "nll": [round(x, 5) for x in nll], "top": top, "greedy": begun}


made = {name: golden(path_of(name), sys.argv[1]) for name in MODELS}
(HERE / "real-models.json").write_text(json.dumps(made) + "\n")
