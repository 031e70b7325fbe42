"""Scores of two small random cross-encoders, computed by sentence-transformers on the CPU.

    python -m venv v && v/bin/pip install torch sentence-transformers && v/bin/python make-cross-encoders.py

Writes cross-encoders.json beside this file: for each family the pairs and their scores, before and after the sigmoid.
The weights are those of tests/reference/encoder.py (write_cross_encoder). Last made with sentence-transformers 6.2.0,
transformers 5.23.0 and torch 2.15.0.
"""
import json
import sys
import tempfile
from pathlib import Path

import torch
from sentence_transformers import CrossEncoder

sys.path.insert(0, str(Path(__file__).parents[1]))
from reference import encoder  # noqa: E402

PAIRS = [["the river", "Building a WALL of stones"], ["key value", "a b c d e " * 20], ["a b c d e " * 20, "the wall"],
         ["stone " * 40, "old wall " * 40], ["old cache", "unbuildable rivers, new keys!"], ["a", "b"], ["1", "zzz 文"]]

rows = []
for family in ("bert", "xlm-roberta"):
    with tempfile.TemporaryDirectory() as folder:
        model = CrossEncoder(str(encoder.write_cross_encoder(folder, family)), device="cpu")
        raw = model.predict(PAIRS, batch_size=3, activation_fn=torch.nn.Identity())
        rows += [{"family": family, "pair": p, "raw": round(float(x), 7), "score": round(float(y), 7)}
                 for p, x, y in zip(PAIRS, raw, model.predict(PAIRS))]
Path(__file__).with_name("cross-encoders.json").write_text(
    "[\n" + ",\n".join(json.dumps(r, separators=(",", ":"), ensure_ascii=False) for r in rows) + "\n]\n")
