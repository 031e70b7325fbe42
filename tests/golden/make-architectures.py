"""Logits of the small random models of every architecture, computed by Hugging Face's transformers in
float64.

    python -m venv v && v/bin/pip install numpy==2.2.6 torch transformers && v/bin/python make-architectures.py

Writes architectures.json beside this file: {case: {config, tensors, logits}}. The weights come from the
names of the tensors, so none is kept. Last made with transformers 5.23.0 and torch 2.15.0.
"""
import json
import sys
import tempfile
from pathlib import Path

import torch
from safetensors import safe_open
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from reference.architectures import CASES, ROWS, SMALL, TOKENS, write_folder  # noqa: E402


def describe(model_type, changes):
    """What transformers saves of such a model: its configuration and the shapes of its tensors."""
    with tempfile.TemporaryDirectory() as folder:
        config = CONFIG_MAPPING[model_type](**{**SMALL, **changes})
        AutoModelForCausalLM.from_config(config).save_pretrained(folder)
        file = safe_open(f"{folder}/model.safetensors", "pt")
        shapes = {name: list(file.get_slice(name).get_shape()) for name in file.keys()}
        return json.loads(Path(folder, "config.json").read_text()), shapes


def logits(config, shapes):
    with tempfile.TemporaryDirectory() as folder:
        write_folder(folder, config, shapes)
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float64, attn_implementation="eager",
            **({"experts_implementation": "eager"} if "num_experts_per_tok" in config else {}))
        with torch.no_grad():
            out = model.eval()(torch.tensor(TOKENS)[None]).logits[0]
    return [[round(x, 6) for x in out[row].tolist()] for row in ROWS]


golden = {}
for name, (model_type, changes) in CASES.items():
    config, shapes = describe(model_type, changes)
    golden[name] = {"config": config, "tensors": shapes, "logits": logits(config, shapes)}
lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(case)}" for name, case in golden.items())
(HERE / "architectures.json").write_text("{\n" + lines + "\n}\n")
