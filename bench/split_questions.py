#!/usr/bin/env python3
"""Splits question files into a half to tune on and a half to report.

    bench/split_questions.py DATA OUT [SET ...] [--stream N]

DATA/SET/questions.dev.jsonl becomes OUT/SET.tune.jsonl and OUT/SET.report.jsonl. The split is fixed: lines are
shuffled with seed 7 and cut in the middle. Nothing that is tuned may look at the report half.

--stream N also writes OUT/SET.HALF.stream.jsonl: N questions about each of the four documents that have most (names
of chunks end in a number), in turn, as four users would ask them.
"""
import argparse
import collections
import json
import pathlib
import random

SETS = ["squad_v1", "hotpotqa", "2wiki", "musique", "multihop_rag"]


def split(lines):
    """Both halves; the first one is for tuning."""
    lines = [line for line in lines if line.strip()]
    random.Random(7).shuffle(lines)
    return lines[: len(lines) // 2], lines[len(lines) // 2 :]


def stream(lines, n):
    """Questions about the four largest documents, in turn."""
    by_document = collections.defaultdict(list)
    for line in lines:
        names = json.loads(line).get("doc_ids") or [""]
        by_document[names[0].rsplit("-", 1)[0]].append(line)
    largest = sorted(by_document, key=lambda name: (-len(by_document[name]), name))[:4]
    return [line for i in range(n) for name in largest for line in by_document[name][i : i + 1]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("sets", nargs="*", default=SETS)
    parser.add_argument("--stream", type=int, default=0, metavar="N")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for name in given.sets:
        lines = (given.data / name / "questions.dev.jsonl").read_text().splitlines(keepends=True)
        for half, part in zip(("tune", "report"), split(lines)):
            (given.out / f"{name}.{half}.jsonl").write_text("".join(part))
            print(f"{name}.{half}.jsonl: {len(part)} questions")
            if given.stream:
                (given.out / f"{name}.{half}.stream.jsonl").write_text("".join(stream(part, given.stream)))


if __name__ == "__main__":
    main()
