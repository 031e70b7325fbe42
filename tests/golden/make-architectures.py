"""Logits of the small random models of every architecture, computed by Hugging Face's transformers in
float64.

    python -m venv v && v/bin/pip install numpy==2.2.6 torch transformers gguf && v/bin/python make-architectures.py

Writes architectures.json beside this file: {case: {config, tensors, logits}}. The weights come from the
names of the tensors, so none is kept. Last made with transformers 5.23.0, ministral3, ernie4_5_moe, glm4_moe and
models of several media with 5.24.0, and torch 2.15.0.

    v/bin/python make-architectures.py --random 40 ../../build/spolia

holds the program to transformers on 40 random configurations of each model_type, as folders and as GGUF files,
and writes nothing.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, AutoModelForImageTextToText

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from reference import to_gguf  # noqa: E402
from reference.architectures import (CASES, MEDIA, NOT_GGUF, ROWS, SMALL, TOKENS, draw, random_changes,  # noqa: E402
                                     write_folder)


def class_of(model_type):
    media = model_type in {of for of, _, _ in MEDIA.values()}
    return AutoModelForImageTextToText if media else AutoModelForCausalLM


def describe(model_type, changes, others=None):
    """What transformers saves of such a model: its configuration and the shapes of its tensors. With others, those of
    the whole, the changes are to its text_config."""
    with tempfile.TemporaryDirectory() as folder:
        numbers = {**SMALL, **changes}
        config = CONFIG_MAPPING[model_type](**({**others, "text_config": numbers} if others else numbers))
        class_of(model_type).from_config(config).save_pretrained(folder)
        file = safe_open(f"{folder}/model.safetensors", "pt")
        shapes = {name: list(file.get_slice(name).get_shape()) for name in file.keys()}
        return json.loads(Path(folder, "config.json").read_text()), shapes


def logits(config, shapes):
    with tempfile.TemporaryDirectory() as folder:
        write_folder(folder, config, shapes)
        model = class_of(config["model_type"]).from_pretrained(
            folder, dtype=torch.float64, attn_implementation="eager",
            **({"experts_implementation": "eager"} if {"num_experts_per_tok", "moe_k"} & config.keys() else {}))
        with torch.no_grad():
            out = model.eval()(torch.tensor(TOKENS)[None]).logits[0]
    return [[round(x, 6) for x in out[row].tolist()] for row in ROWS]


# -- random configurations -------------------------------------------------------------------------

def measured(program, model):
    """The program's logits, or its error message."""
    raw = f"{model}.logits"
    done = subprocess.run([program, "logits", "-m", model, "--tokens", ",".join(map(str, TOKENS)), "--raw", raw,
                           "-ctk", "f32", "-ctv", "f32"], capture_output=True, text=True)
    return np.fromfile(raw, "<f4").reshape(len(TOKENS), -1)[list(ROWS)] if done.returncode == 0 else done.stderr


def compare(program, model_type, seed):
    """What is wrong with one configuration: lines."""
    fields = CONFIG_MAPPING[model_type]().to_dict()
    config, shapes = describe(model_type, random_changes(model_type, fields, seed))
    want = np.array(logits(config, shapes))
    with tempfile.TemporaryDirectory() as folder:
        write_folder(f"{folder}/hf", config, shapes)
        models = [f"{folder}/hf"]
        if model_type not in NOT_GGUF:
            to_gguf.write(f"{folder}/model.gguf", config, draw(config, shapes))
            models.append(f"{folder}/model.gguf")
        for model in models:
            got = measured(program, model)
            off = got if isinstance(got, str) else np.abs(got - want).max()
            if isinstance(off, str) or not off < 1e-4 * max(1, np.abs(want).max() / 10):
                yield f"{model_type} {seed} {Path(model).name}: {off}"


def hold(program, n):
    n_wrong = 0
    for model_type in sorted({m for m, _ in CASES.values()}):
        for seed in range(n):
            for line in compare(program, model_type, seed):
                print(line, flush=True)
                n_wrong += 1
    sys.exit(n_wrong > 0)


if sys.argv[1:2] == ["--random"]:
    hold(Path(sys.argv[3]).resolve(), int(sys.argv[2]))

golden = {}
for name, (model_type, changes) in CASES.items():
    config, shapes = describe(model_type, changes)
    golden[name] = {"config": config, "tensors": shapes, "logits": logits(config, shapes)}
for name, (model_type, changes, others) in MEDIA.items():
    config, shapes = describe(model_type, changes, others)
    golden[name] = {"config": config, "tensors": shapes, "logits": logits(config, shapes)}
for model_type in sorted({m for m, _ in CASES.values()}):
    fields = CONFIG_MAPPING[model_type]().to_dict()
    config, shapes = describe(model_type, random_changes(model_type, fields, 1))
    golden[f"random-{model_type}"] = {"config": config, "tensors": shapes, "logits": logits(config, shapes)}
lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(case)}" for name, case in golden.items())
(HERE / "architectures.json").write_text("{\n" + lines + "\n}\n")
