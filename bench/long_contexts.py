"""Questions of the demo among 8,000 to 32,000 tokens: its documents, copies of them about other names, and its model with
slower rotations (RoPE's base times FACTOR^(32/30), as NTK-aware scaling does), which was trained on 2,048 positions.

    python3 bench/long_contexts.py OUT [FACTOR]      writes OUT/docs and OUT/model.gguf
    build/spolia index OUT/docs -o OUT/docs.db
    build/spolia profile --decode -m OUT/model.gguf -i OUT/docs.db --questions demo/questions.jsonl --depth 8000 -k 40 \
        -c 9000 --most 8 -n 8 --compare sparse:10% --compare sparse:10%,refine=1
"""
import argparse
import pathlib
import random
import re
import struct

import shared

DEMO = shared.ROOT / "demo"
COPIES, HEAD, CONTEXT = 16, 32, 40960
NAME = re.compile(r"\b[A-Z][a-z]{3,}\b")


def patch(data, key, kind, form, change):
    """Changes a number of a GGUF file's header."""
    name = struct.pack("<Q", len(key)) + key.encode()
    at = data.index(name) + len(name)
    assert struct.unpack_from("<I", data, at)[0] == kind, key
    struct.pack_into(form, data, at + 4, change(struct.unpack_from(form, data, at + 4)[0]))


def stretch(out, factor):
    data = bytearray((DEMO / "model.gguf").read_bytes())
    patch(data, "llama.context_length", 4, "<I", lambda _: CONTEXT)
    patch(data, "llama.rope.freq_base", 6, "<f", lambda base: base * factor ** (HEAD / (HEAD - 2)))
    (out / "model.gguf").write_bytes(data)


def rename(rng, names):
    """Other names for the names, of the same pieces."""
    def one():
        first, second = rng.choice(names), rng.choice(names)
        return first[:len(first) // 2] + second[len(second) // 2:].lower()
    return {name: one() for name in names}


def multiply(out):
    texts = {path.relative_to(DEMO / "docs"): path.read_text() for path in sorted((DEMO / "docs").rglob("*")) if path.is_file()}
    words = {w for text in texts.values() for w in re.findall(r"\b[a-z]{4,}\b", text)}
    names = sorted({n for text in texts.values() for n in NAME.findall(text) if n.lower() not in words})
    rng = random.Random(1)
    for copy in range(COPIES):
        other = rename(rng, names) if copy else {}
        for path, text in texts.items():
            to = out / "docs" / f"{copy:02d}" / path
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_text(NAME.sub(lambda m: other.get(m.group(0), m.group(0)), text))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT", type=pathlib.Path, help="folder")
    parser.add_argument("factor", metavar="FACTOR", type=float, nargs="?", default=16)
    args = parser.parse_args()
    if args.factor <= 0:
        parser.error("FACTOR is above 0")
    args.out.mkdir(parents=True, exist_ok=True)
    stretch(args.out, args.factor)
    multiply(args.out)


if __name__ == "__main__":
    shared.run(main)
