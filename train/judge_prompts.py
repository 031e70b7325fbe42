"""Prompts of real questions for train/judge.py: a file of tokenized pieces, of which each step composes its own.

    python -m train.judge_prompts --gguf SMOLLM2.gguf --data DATA --out prompts.npz

Questions are the tuning halves of SQuAD, HotpotQA, 2WikiMultihopQA, MuSiQue and MultiHop-RAG (bench/split_questions.py),
without the articles of SQuAD that are reported.  Two kinds of prompts:

    question      some paragraphs, among them those that answer it; the answer is learned
    continuation  some paragraphs, one of them cut off; what follows it is learned, so that any text teaches something

A prompt has the layout of src/serve/prompt/prompt.h: head, chunks, the question, each tokenized on its own.
"""
import argparse
import json
import pathlib
import random
import re
import sys
import zlib
from dataclasses import dataclass

import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import split_questions  # noqa: E402
from tables import SYSTEM  # noqa: E402

from .bm25 import BM25

SETS = ("squad_v1", "hotpotqa", "2wiki", "musique", "multihop_rag")
REPORTED = ("Super_Bowl_50", "Nikola_Tesla", "Martin_Luther", "Doctor_Who", "Packet_switching", "Oxygen")
WORDS = 150          # of a chunk at most
N_SHOTS = 4
N_FOUND = 12         # paragraphs by BM25 that stand beside those that answer
DEV = 8              # one of so many questions is not trained on: of SQuAD whole articles
CONTINUED = 96       # tokens of a continuation at most
START, STOP = "<|im_start|>", "<|im_end|>"


@dataclass
class Prompt:
    ids: np.ndarray       # [T]
    chunk: np.ndarray     # [T] number of the chunk; -1: the head, the question and what is learned
    asked: int            # tokens before the question
    learned: int          # the last so many tokens are learned


# -- from text -------------------------------------------------------------------------------------

def encoder(gguf_path):
    """SmolLM2's tokenizer from a GGUF file: single digits, then GPT-2's words."""
    import gguf
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    fields = gguf.GGUFReader(gguf_path).fields
    if fields["tokenizer.ggml.pre"].contents() != "smollm":
        sys.exit(f"judge_prompts: {gguf_path}: tokenizer.ggml.pre is not smollm")
    tokens, merges = (fields[f"tokenizer.ggml.{k}"].contents() for k in ("tokens", "merges"))
    tok = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=[tuple(m.split(" ")) for m in merges]))
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens([START, STOP])
    return tok


def head(shots):
    examples = "".join(f"\n\nQuestion: {q}\nAnswer:\n\n{a}" for q, a in shots)
    return f"{START}system\n{SYSTEM}{examples}{STOP}\n{START}user\n"


def question(text):
    return f"Question: {text}\nAnswer:{STOP}\n{START}assistant\n"


def answer(text):
    return f"{text}{STOP}"


def pieces_of(text):
    """A paragraph in pieces of whole sentences, of WORDS words at most unless a sentence is longer."""
    out, n = [[]], 0
    for sentence in re.split(r"(?<=[.!?]) +", text):
        words = len(sentence.split())
        if n and n + words > WORDS:
            out.append([])
            n = 0
        out[-1].append(sentence)
        n += words
    return [" ".join(p) for p in out]


def is_dev(name, q):
    return zlib.crc32((q["doc_ids"][0].rsplit("-", 1)[0] if name == "squad_v1" else q["id"]).encode()) % DEV == 0


def questions_of(data, name):
    """Tuning questions, the solved examples first; the documents that reported questions need."""
    lines = (data / name / "questions.dev.jsonl").read_text().splitlines(keepends=True)
    tune, report = ([json.loads(line) for line in half] for half in split_questions.split(lines))
    held = {i for q in report for i in (*q.get("doc_ids", ()), *q.get("context_doc_ids", ()))} if name != "squad_v1" else set()
    return tune, held


class Pieces:
    """Tokenized texts one after another."""

    def __init__(self, tok):
        self.tok, self.ids, self.ends = tok, [], [0]

    def add(self, texts):
        """Numbers of the texts."""
        first = len(self.ends) - 1
        for e in self.tok.encode_batch(texts, add_special_tokens=False):
            self.ids += e.ids
            self.ends.append(len(self.ids))
        return list(range(first, len(self.ends) - 1))


def collect(data, tok):
    pieces, items, plain = Pieces(tok), [], []
    heads = {name: pieces.add([head([])]) for name in SETS}
    for s, name in enumerate(SETS):
        docs = [json.loads(line) for line in (data / name / "docs.jsonl").open()]
        tune, held = questions_of(data, name)
        if name == "squad_v1":
            held = {d["id"] for d in docs if d["id"].split("-", 1)[1].rsplit("-", 1)[0] in REPORTED}
        shots, tune = tune[:N_SHOTS], tune[N_SHOTS:]
        heads[name] += pieces.add([head([(q["question"], q["answers"][0]) for q in shots])])
        texts = [(d["id"], f"[{d['title']}]\n" if d.get("title") else "", p) for d in docs for p in pieces_of(d["text"])]
        numbers = pieces.add([f"{title}{text}\n\n" for _, title, text in texts])
        of_doc = {}
        for (doc, _, _), n in zip(texts, numbers):
            of_doc.setdefault(doc, []).append(n)
        plain.append([n for (doc, _, _), n in zip(texts, numbers) if doc not in held and pieces.ends[n + 1] - pieces.ends[n] > 60])
        search = BM25([t[1] + t[2] for t in texts]) if name in ("squad_v1", "multihop_rag") else None
        tune = [q for q in tune if q.get("answers") and q.get("doc_ids") and not q.get("unanswerable") and not held & set(q["doc_ids"])]
        for q in tune:
            need = [n for d in q["doc_ids"] for n in of_doc.get(d, [])]
            text = {n: t for d in q["doc_ids"] for n, t in zip(of_doc.get(d, []), pieces_of(next(x["text"] for x in docs if x["id"] == d)))}
            if name == "squad_v1":       # of a long paragraph the piece that has the answer
                need = [n for n in need if q["answers"][0] in text[n]][:1]
            if not need:
                continue
            found = [numbers[k] for k in search.top(q["question"], N_FOUND)] if search else [n for d in q["context_doc_ids"] for n in of_doc.get(d, [])]
            asked, said = pieces.add([question(q["question"]), answer(q["answers"][0])])
            items.append((s, is_dev(name, q), need, [n for n in found if n not in need], asked, said))
        print(f"{name}: {sum(x[0] == s for x in items)} questions, {sum(x[0] == s and x[1] for x in items)} of them held out, {len(plain[-1])} pieces to continue", flush=True)
    follow = pieces.add([question("How does the passage that is cut off continue?")])[0]
    return pieces, heads, items, plain, follow


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--gguf", required=True)
    ap.add_argument("--data", required=True, type=pathlib.Path)
    ap.add_argument("--out", required=True)
    a = ap.parse_args()
    pieces, heads, items, plain, follow = collect(a.data, encoder(a.gguf))
    about = dict(heads=[heads[name] for name in SETS], items=items, plain=plain, follow=follow)
    np.savez_compressed(a.out, ids=np.array(pieces.ids, np.uint16), ends=np.array(pieces.ends, np.int64),
                        about=np.frombuffer(json.dumps(about).encode(), np.uint8))
    print(f"{a.out}: {len(pieces.ids) / 1e6:.1f} M tokens, {len(items)} questions")


# -- from pieces -----------------------------------------------------------------------------------

class Prompts:
    """Composes prompts; the same for the same generator of random numbers."""

    def __init__(self, path):
        f = np.load(path)
        about = json.loads(f["about"].tobytes())
        self.ids, self.ends = f["ids"].astype(np.int64), f["ends"]
        self.heads, self.plain, self.follow = about["heads"], about["plain"], about["follow"]
        self.train = [x for x in about["items"] if not x[1]]
        self.dev = [x for x in about["items"] if x[1]]

    def piece(self, n):
        return self.ids[self.ends[n]:self.ends[n + 1]]

    def compose(self, head, chunks, asked, learned):
        parts = [self.piece(head), *chunks, asked, learned]
        number = [-1, *range(len(chunks)), -1, -1]
        before = sum(map(len, parts[:-2]))
        return Prompt(np.concatenate(parts), np.repeat(number, [len(p) for p in parts]), before, len(learned))

    def question(self, rng, item, n_chunks=None):
        """The paragraphs that answer and others, in any order."""
        s, _, need, found, asked, said = item
        n = max(len(need), n_chunks or rng.randint(4, 9))
        chunks = need + rng.sample(found, min(len(found), n - len(need)))
        rng.shuffle(chunks)
        return self.compose(rng.choice(self.heads[s]), [self.piece(c) for c in chunks], self.piece(asked), self.piece(said))

    def continuation(self, rng):
        """A set's paragraphs, one of them cut off, anywhere among the others."""
        s = rng.randrange(len(self.plain))
        numbers = rng.sample(self.plain[s], rng.randint(3, 7))
        chunks = [self.piece(n) for n in numbers]
        k = rng.randrange(len(chunks))
        at = rng.randint(len(chunks[k]) // 3, len(chunks[k]) * 3 // 4)
        rest, chunks[k] = chunks[k][at:at + CONTINUED], chunks[k][:at]
        return self.compose(rng.choice(self.heads[s]), chunks, self.piece(self.follow), rest)


if __name__ == "__main__":
    main()
