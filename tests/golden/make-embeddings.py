"""Vectors of all-MiniLM-L6-v2, computed by sentence-transformers on the CPU.

    python -m venv v && v/bin/pip install torch sentence-transformers && v/bin/python make-embeddings.py FOLDER

FOLDER is what scripts/real-models --find minilm prints. Writes embeddings.json beside this file: the texts, and the
first N_KEPT elements of the vector of each. Last made with sentence-transformers 6.2.0 and torch 2.15.0.
"""
import json
import sys
from pathlib import Path

from sentence_transformers import SentenceTransformer

N_KEPT = 96
TEXTS = ["", "Hello world", "When did the 1973 oil crisis begin?", "Spolia are stones of earlier buildings, set again into new walls.",
         "unbelievably ANTIDISESTABLISHMENTARIANISM", "Füße, naïve café: ÅNGSTRÖM İstanbul", "你好，世界。 日本語のテキスト", "привет мир",
         "[SEP] is a token and [MASK] too", "a\tb\nc\u00a0d\u2003e\u0000f\ufffd\u200bg", "😀 emoji 👍🏽 and math ∑∫√", "x" * 120,
         "The quick brown fox jumps over the lazy dog. " * 3, "word " * 300, "a, b; c! " * 200]

model = SentenceTransformer(sys.argv[1], device="cpu")
vectors = model.encode(TEXTS, batch_size=4)
rows = [{"text": t, "vector": [round(float(x), 8) for x in v[:N_KEPT]]} for t, v in zip(TEXTS, vectors)]
Path(__file__).with_name("embeddings.json").write_text(
    "[\n" + ",\n".join(json.dumps(r, separators=(",", ":")) for r in rows) + "\n]\n")
