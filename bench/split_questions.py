#!/usr/bin/env python3
"""Splits question files into a half to tune on and a half to report.

    bench/split_questions.py DATA OUT [SET ...] [--stream N] [--small]

DATA/SET/questions.dev.jsonl becomes OUT/SET.tune.jsonl and OUT/SET.report.jsonl. The split is fixed: lines are
shuffled with seed 7 and cut in the middle. Nothing that is tuned may look at the report half.

--stream N also writes OUT/SET.HALF.stream.jsonl: N questions about each of the four documents that have most (articles
of SQuAD, conversations of MT-RAG), in turn, as so many users would ask them.

Questions of DragonBall get a `kind`: how much of the documents an answer needs. A conversation becomes a question for
each of its turns, which begins with the turns before it; first turns come first.

--small also writes OUT/small: a few questions of each set whose licence allows shipping, their documents, and four
solved examples of the tuning half; bench/questions has them (its README names sources and licences).
"""
import argparse
import collections
import itertools
import json
import pathlib
import random

import shared

SETS = ["squad_v1", "hotpotqa", "2wiki", "musique", "multihop_rag", "dragonball_en", "mtrag_un"]
NEEDS = {"Factual": "one chunk", "Multi-hop Reasoning": "several of a document", "Summarization": "a whole document",
         "Multi-document Information Integration": "two documents", "Multi-document Comparison": "two documents",
         "Multi-document Time Sequence": "two documents", "Unanswerable": "none", "Irrelevant Unsolvable": "none"}


def turns(line):
    """The questions of a conversation, each after what was said before it; other lines as they are, with their kind."""
    value = json.loads(line)
    said = [turn["text"] for turn in value.get("history", [])]
    if "history" not in value:
        need = NEEDS.get(str(value.get("type")).removesuffix(" Question"))
        return [json.dumps(value | {"kind": need}, ensure_ascii=False) + "\n" if need else line]
    asked, answers = [*said[::2], value["question"]], [*said[1::2], value["answers"][0]]
    out = []
    for i, answer in enumerate(answers):
        before = "".join(f"{q}\nAnswer: {a}\n\nQuestion: " for q, a in zip(asked[:i], answers[:i]))
        out.append({"id": f"{value['conversation']}-{i + 1}", "question": before + asked[i], "answers": [answer],
                    "kind": "a later turn" if i else "a first turn", "doc_ids": [value["conversation"]]})
    return [json.dumps(turn, ensure_ascii=False) + "\n" for turn in out]


def split(lines):
    """Both halves; the first one is for tuning."""
    lines = [line for line in lines if line.strip()]
    random.Random(7).shuffle(lines)
    halves = lines[: len(lines) // 2], lines[len(lines) // 2 :]
    first_turns_first = lambda line: json.loads(line).get("kind") == "a later turn"
    return tuple(sorted([turn for line in half for turn in turns(line)], key=first_turns_first) for half in halves)


def stream(name, lines, n):
    """Questions about the documents of the set `name` that have most, in turn."""
    by_document = collections.defaultdict(list)
    for line in lines:
        document = (json.loads(line).get("doc_ids") or [""])[0]
        by_document[document.rsplit("-", 1)[0] if name == "squad_v1" else document].append(line)   # ARTICLE-PARAGRAPH
    largest = sorted(by_document, key=lambda document: (-len(by_document[document]), document))[:4]
    return [line for i in range(n) for document in largest for line in by_document[document][i : i + 1]]


# Questions of the report half: a stream about two short articles, whose paragraphs are the corpus; or the first ones.
SMALL = {"squad_v1": 60, "hotpotqa": 12, "2wiki": 12, "musique": 5}
ARTICLES = ("squad_v1-Packet_switching", "squad_v1-Oxygen")
N_EXAMPLES = 4


def only(line, *fields):
    """A JSON line with some of its fields."""
    value = json.loads(line)
    return {field: value[field] for field in fields if field in value}


def small(name, tune, report, docs):
    """Questions, documents and examples of a set, cut down to SMALL."""
    if name == "squad_v1":
        by_article = [[line for line in report if json.loads(line)["doc_ids"][0].startswith(a)] for a in ARTICLES]
        asked = [line for pair in itertools.zip_longest(*by_article) for line in pair if line][: SMALL[name]]
        kept = [line for line in docs if json.loads(line)["id"].startswith(ARTICLES)]
    else:
        asked = [line for line in report if json.loads(line).get("context_doc_ids")][: SMALL[name]]
        known = {i for line in asked for i in json.loads(line)["context_doc_ids"]}
        kept = [line for line in docs if json.loads(line)["id"] in known]
    return {"questions": [only(line, "id", "question", "answers", "doc_ids", "context_doc_ids") for line in asked],
            "docs": [only(line, "id", "title", "text") for line in kept],
            "examples": [only(line, "id", "question", "answers") for line in tune[:N_EXAMPLES]]}


def write_small(folder, name, parts):
    folder.mkdir(exist_ok=True)
    for part, lines in parts.items():
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        (folder / f"{name}.{part}.jsonl").write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("sets", nargs="*", default=SETS)
    parser.add_argument("--stream", type=int, default=0, metavar="N")
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for name in given.sets:
        lines = (given.data / name / "questions.dev.jsonl").read_text().splitlines(keepends=True)
        tune, report = split(lines)
        if given.small and name in SMALL:
            docs = (given.data / name / "docs.jsonl").read_text().splitlines(keepends=True)
            write_small(given.out / "small", name, small(name, tune, report, docs))
        for half, part in zip(("tune", "report"), (tune, report)):
            (given.out / f"{name}.{half}.jsonl").write_text("".join(part))
            print(f"{name}.{half}.jsonl: {len(part)} questions")
            if given.stream:
                (given.out / f"{name}.{half}.stream.jsonl").write_text("".join(stream(name, part, given.stream)))


if __name__ == "__main__":
    shared.run(main)
