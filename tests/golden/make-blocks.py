"""Random blocks of every element type, decoded by the GGUF project's own Python package.

    python -m venv v && v/bin/pip install gguf==0.19.0 && v/bin/python make-blocks.py

Writes blocks.json beside this file: {"q4_0": {"blocks": hex, "values": hex of float32}, ...}.
"""
import json
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

N_BLOCKS = 3
# where the half-precision scales stand in a block; random bits there would be NaN or huge
SCALES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}
# Types that came later, with a stream of their own, so that the blocks above stay as they were.
LATER = {"Q2_K": [80, 82], "Q3_K": [108], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": []}

rng = np.random.default_rng(20)
golden = {}
for name, scales in [*SCALES.items(), *LATER.items()]:
    if name == next(iter(LATER)):
        rng = np.random.default_rng(21)
    kind = GGMLQuantizationType[name]
    size = GGML_QUANT_SIZES[kind][1]
    blocks = rng.integers(0, 256, (N_BLOCKS, size), np.uint8)
    for at in scales:
        d = rng.standard_normal((N_BLOCKS, 1)).astype("<f2") / 8
        blocks[:, at:at + 2] = d.view(np.uint8)
    if name == "MXFP4":
        blocks[:, 0] = rng.integers(110, 132, N_BLOCKS)  # powers of two
    values = dequantize(blocks, kind).astype("<f4")
    golden[name.lower()] = {"blocks": blocks.tobytes().hex(), "values": values.tobytes().hex()}
Path(__file__).with_name("blocks.json").write_text(json.dumps(golden, indent=0) + "\n")
