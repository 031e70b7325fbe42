#!/usr/bin/env python3
"""embed.py -- tokens a second of `spolia embed` and of ONNX Runtime on the same texts and threads, in turns.

    bench/embed.py --model FOLDER --onnx FILE [--rounds 5] [--threads 2] [--texts 400] [--peer COMMAND] TEXTS.jsonl

FILE has inputs ids and mask [texts, tokens] and the rows of the last layer as output. TEXTS.jsonl has objects with
"text". COMMAND is one more that takes part: it gets a file with a text a line and the threads as its last arguments and
prints {"tokens": N, "seconds": S}. ONNX Runtime gets texts sorted by length, 32 at a time, padded to the longest, as sentence-transformers does.
Both times include tokens, pooling and normalization, not loading. Needs onnxruntime, tokenizers and numpy.
"""
import argparse
import json
import pathlib
import shlex
import statistics
import subprocess
import tempfile
import time

import numpy as np

import shared
from shared import ROOT



class Onnx:
    def __init__(self, file: str, folder: pathlib.Path, threads: int) -> None:
        try:
            import onnxruntime
            from tokenizers import Tokenizer
        except ImportError as e:
            raise SystemExit(f"embed: {e}: pip install onnxruntime tokenizers") from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"])
        self.tokenizer.enable_padding()

    def run(self, texts: list, batch: int = 32) -> tuple:
        started = time.perf_counter()
        out, tokens = [None] * len(texts), 0
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        for at in range(0, len(order), batch):
            some = order[at:at + batch]
            encoded = self.tokenizer.encode_batch([texts[i] for i in some])
            ids = np.array([e.ids for e in encoded], dtype=np.int64)
            mask = np.array([e.attention_mask for e in encoded], dtype=np.int64)
            rows = self.session.run(None, {"ids": ids, "mask": mask})[0]
            mean = (rows * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
            for i, v in zip(some, mean / np.linalg.norm(mean, axis=1, keepdims=True)):
                out[i] = v
            tokens += int(mask.sum())
        return np.array(out), tokens, time.perf_counter() - started


def ours(program: str, model: pathlib.Path, texts: list, threads: int) -> tuple:
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as f:
        f.write("\n".join(texts) + "\n")
        f.flush()
        done = json.loads(subprocess.run([program, "embed", "-m", model, "-f", f.name, "-t", str(threads), "--json"],
                                         stdout=subprocess.PIPE, check=True).stdout)
    return np.array([d["embedding"] for d in done["data"]]), done["tokens"], done["seconds"]


def other(command: str, texts: list, threads: int) -> tuple:
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as f:
        f.write("\n".join(texts) + "\n")
        f.flush()
        done = json.loads(subprocess.run([*shlex.split(command), f.name, str(threads)], stdout=subprocess.PIPE, check=True).stdout)
    return done["tokens"], done["seconds"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default=str(ROOT / "build/spolia"))
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--onnx", required=True)
    parser.add_argument("--rounds", type=shared.count, default=5)
    parser.add_argument("--threads", type=shared.count, default=2)
    parser.add_argument("--peer", metavar="COMMAND")
    parser.add_argument("--texts", type=shared.count, default=400)
    parser.add_argument("file", type=pathlib.Path)
    args = parser.parse_args()
    texts = [" ".join(line["text"].split()) for line in shared.lines(args.file, "text")][:args.texts]
    onnx = Onnx(args.onnx, args.model, args.threads)
    ratios, peers = [], []
    for i in range(args.rounds + 1):
        a, n_a, s_a = ours(args.program, args.model, texts, args.threads)
        b, n_b, s_b = onnx.run(texts)
        if i == 0:  # warm; both must compute the same
            print(f"{len(texts)} texts, {n_a} tokens; largest difference {np.abs(a - b).max():.1e}")
            assert n_a == n_b
            continue
        ratios.append((n_a / s_a) / (n_b / s_b))
        print(f"round {i}: spolia {n_a / s_a:.0f} tokens/s, onnxruntime {n_b / s_b:.0f}, ratio {ratios[-1]:.2f}", flush=True)
        if args.peer:
            n, s = other(args.peer, texts, args.threads)
            peers.append((n_a / s_a) / (n / s))
            print(f"round {i}: peer {n / s:.0f} tokens/s of {n}, ratio {peers[-1]:.2f}", flush=True)
    print(f"median ratio {statistics.median(ratios):.2f}")
    if peers:
        print(f"median ratio to the peer {statistics.median(peers):.2f}")


if __name__ == "__main__":
    shared.run(main)
