"""Folders with weights of 8-bit floats (quantization_config "fp8"): the same logits, bit for bit, as a folder with each
weight times its scale as BF16, which is what transformers computes without kernels for 8 bits."""
import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import PROGRAM, refuse, succeed

from reference.architectures import TOKENS, draw, write_arrays

GOLDEN = json.loads((Path(__file__).parent.parent / "golden/architectures.json").read_text())
ASKED = ("--tokens", ",".join(map(str, TOKENS)), "-ctk", "f32", "-ctv", "f32")
CODES = np.array([(-1) ** (c >> 7) * ((8 + (c & 7)) * 2.0 ** ((c >> 3 & 15) - 10) if c >> 3 & 15 else (c & 7) * 2.0 ** -9)
                  for c in range(256)], np.float32)  # E4M3; 127 and 255 are not numbers


def logits(tmp_path, model, *more):
    succeed("logits", "-m", model, *ASKED, *more, "--raw", tmp_path / "raw")
    return (tmp_path / "raw").read_bytes()


def bf16(x):
    """Rounded to nearest even, as the upper halves of float32."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def is_weight(name, x, ends):
    return x.ndim == 2 and name.endswith(ends) and "vision" not in name


def packed(case, block=None, scale_type=np.float32, ends=("proj.weight",)):
    """config, tensors with FP8 weights, their types, and the same tensors with BF16 weights."""
    rng, golden = np.random.default_rng(5), GOLDEN[case]
    small, types, plain = {}, {}, {}
    for name, x in draw(golden["config"], golden["tensors"]).items():
        small[name] = plain[name] = x
        if not is_weight(name, x, ends):
            continue
        codes = rng.integers(0, 127, x.shape).astype(np.uint8) | (rng.integers(0, 2, x.shape) << 7).astype(np.uint8)
        rows, columns = block or x.shape
        scales = rng.uniform(0.001, 0.004, (-(-x.shape[0] // rows), -(-x.shape[1] // columns))).astype(np.float32)
        if scale_type is np.uint16:
            scales = (bf16(scales).astype(np.uint32) << 16).view(np.float32)
        every = np.repeat(np.repeat(scales, rows, 0), columns, 1)[:x.shape[0], :x.shape[1]]
        small[name], types[name] = codes, "F8_E4M3"
        stored = scales if scale_type is np.float32 else bf16(scales)
        small[f"{name}_scale_inv"] = stored if block else stored.reshape(())
        plain[name] = bf16(CODES[codes] * every)
    config = {**golden["config"], "quantization_config": {
        "quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": list(block) if block else None,
        "modules_to_not_convert": ["lm_head"]}}
    return config, small, types, plain


@pytest.mark.parametrize("case,block,scale_type", [
    ("qwen3", (16, 16), np.float32), ("llama", None, np.uint16), ("qwen3", (7, 9), np.uint16), ("phi3", (16, 8), np.float32),
    ("qwen3moe", (10, 16), np.float32), ("mistral3-media", None, np.float32), ("gemma3", (128, 128), np.float32)])
def test_each_weight_is_times_its_scale(case, block, scale_type, tmp_path):
    config, small, types, plain = packed(case, block, scale_type)
    assert len(types) >= 16
    write_arrays(tmp_path / "small", config, small, types)
    write_arrays(tmp_path / "plain", GOLDEN[case]["config"], plain)
    for kernels in ((), ("--cpu", "ref")):
        assert logits(tmp_path, tmp_path / "small", *kernels) == logits(tmp_path, tmp_path / "plain", *kernels)


@pytest.mark.parametrize("case", ["llama-bias", "llama"])
def test_the_embedding_may_be_the_output_matrix(case, tmp_path):
    """Then it is packed, and read in place, too."""
    config, small, types, plain = packed(case, ends=("embed_tokens.weight", "lm_head.weight"))
    assert len(types) == (1 if GOLDEN[case]["config"]["tie_word_embeddings"] else 2)
    write_arrays(tmp_path / "small", config, small, types)
    write_arrays(tmp_path / "plain", GOLDEN[case]["config"], plain)
    assert logits(tmp_path, tmp_path / "small") == logits(tmp_path, tmp_path / "plain")


def test_scales_of_inputs_change_nothing(tmp_path):
    """The published Ministral 3 has them; inputs are not rounded here."""
    config, small, types, _ = packed("llama")
    write_arrays(tmp_path / "model", config, small, types)
    more = {name.replace("weight", "activation_scale"): np.array(0.5, np.float32) for name in types}
    write_arrays(tmp_path / "more", config, {**small, **more}, types)
    assert logits(tmp_path, tmp_path / "model") == logits(tmp_path, tmp_path / "more")


ONE = "model.layers.1.mlp.up_proj.weight"


@pytest.mark.parametrize("change,named", [
    (lambda c, t, y: t.pop(f"{ONE}_scale_inv"), [f"{ONE}_scale_inv: is missing"]),
    (lambda c, t, y: t.update({f"{ONE}_scale_inv": np.ones((3, 1), np.float32)}), [f"{ONE}_scale_inv", "asks for 3 x 2"]),
    (lambda c, t, y: t.update({f"{ONE}_scale_inv": np.ones(6, np.float32)}), [f"{ONE}_scale_inv", "asks for 3 x 2"]),
    (lambda c, t, y: t.update({f"{ONE}_scale_inv": np.ones((3, 2), np.uint8)}), [f"{ONE}_scale_inv", "scales of type U8"]),
    (lambda c, t, y: t[ONE].__setitem__((5, 7), 127), [ONE, "row 5", "not a number"]),
    (lambda c, t, y: y.update({ONE: "F8_E5M2"}), [ONE, "its type F8_E5M2 is not supported"]),
    (lambda c, t, y: c["quantization_config"].update(fmt="e5m2"), ["config.json", "quantization_config.fmt"]),
    (lambda c, t, y: c["quantization_config"].update(weight_block_size=[16]), ["config.json", "weight_block_size"]),
    (lambda c, t, y: c["quantization_config"].update(weight_block_size=[16, 0]), ["config.json", "weight_block_size"]),
    (lambda c, t, y: c["quantization_config"].update(weight_block_size=None), ["asks for 1 x 1"]),
    (lambda c, t, y: c["quantization_config"].update(quant_method="fbgemm_fp8"), ["config.json", "fbgemm_fp8"]),
    (lambda c, t, y: c.pop("quantization_config"), ["its type F8_E4M3 is not supported"]),
    (lambda c, t, y: t.update({f"{ONE}_scale": np.ones(1, np.float32)}), [f"{ONE}_scale: is not supported"])])
def test_what_does_not_fit_is_refused(change, named, tmp_path):
    config, small, types, _ = packed("qwen3", (16, 16))
    change(config, small, types)
    write_arrays(tmp_path / "model", config, small, types)
    refuse("logits", "-m", tmp_path / "model", "--tokens", "1", "--json", naming=named)


def peak(model):
    """MiB of the program's memory, read until it ends: what wait4() says begins with the memory of who started it."""
    process, most = subprocess.Popen([PROGRAM, "logits", "-m", model, *ASKED, "--json"], stdout=subprocess.DEVNULL), 0
    while process.poll() is None:
        found = re.search(r"Name:\s+spolia\n(?s:.*)VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
        most = max(most, int(found[1]) if found else 0)
    assert process.returncode == 0
    return most / 1024


def test_memory_that_weights_were_packed_from_is_freed(tmp_path):
    """As it goes, so that they are not in memory twice."""
    config, small, types, _ = packed("qwen3", (16, 16))
    write_arrays(tmp_path / "small", config, small, types)
    config |= {"hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 24,
               "layer_types": ["full_attention"] * 24}
    sizes = {32: 512, 48: 2048}
    tensors = {}
    for layer in range(24):
        for name, x in small.items():
            if ".layers.0." in name and name in types:
                few = "k_proj" in name or "v_proj" in name
                shape = [x.shape[0] if few else sizes.get(x.shape[0], x.shape[0]), sizes.get(x.shape[1], x.shape[1])]
                tensors[name.replace(".0.", f".{layer}.")] = np.full(shape, 8, np.uint8)
                tensors[name.replace(".0.", f".{layer}.") + "_scale_inv"] = np.full([n // 16 for n in shape], 0.002, np.float32)
            elif ".layers.0." in name and not name.endswith("_scale_inv"):
                tensors[name.replace(".0.", f".{layer}.")] = np.ones([sizes.get(n, n) for n in x.shape], np.float32)
    for name, x in small.items():
        if ".layers." not in name:
            tensors[name] = np.ones([x.shape[0], 512][:x.ndim] if x.ndim == 2 else [512], np.float32)
    types = {name: "F8_E4M3" for name, x in tensors.items() if x.dtype == np.uint8}
    n = sum(tensors[name].nbytes for name in types) / 2**20
    write_arrays(tmp_path / "large", config, tensors, types)
    assert n > 70
    assert peak(tmp_path / "large") < peak(tmp_path / "small") + n + 2 * n * 1.5  # the file's pages, and BF16; 2 * n more else
