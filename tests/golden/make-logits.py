"""Logits of the small random models, computed by Hugging Face's transformers in float64.

    python -m venv v && v/bin/pip install numpy==2.2.6 torch transformers && v/bin/python make-logits.py

Writes logits.json beside this file: {preset: the first logits after the last of 40 tokens}. The
models come from seeds, so none is kept. Last made with transformers 5.23.0 and torch 2.15.0.
"""
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from reference.random_model import PRESETS, TINY, write_folder  # noqa: E402

TOKENS = np.random.default_rng(0).integers(0, 299, 40)
N_LOGITS = 48

golden = {}
for name in TINY:
    with tempfile.TemporaryDirectory() as folder:
        write_folder(folder, PRESETS[name])
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
        with torch.no_grad():
            logits = model(torch.tensor(TOKENS)[None]).logits[0, -1, :N_LOGITS]
    golden[name] = [round(x, 6) for x in logits.tolist()]
(HERE / "logits.json").write_text(json.dumps(golden, indent=0) + "\n")
