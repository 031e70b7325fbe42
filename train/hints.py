"""Where a reader would look: targets for a few attention heads, from what the generator knows about its own text.

A tiny model finds out late, by itself, that an answer is bound to its subject by words far apart.  So during training six
heads are told, with a small loss that fades, which token to look at.  The finished model is a plain Llama.

    rel      the tokens of a stated object                                  -> the last token of its relation ("founder")
             the last token before an answer                                -> the last token of the relation in the question
    inner    the last token before a two-hop answer                         -> the last token of the first hop's relation there
    alias    in a later chunk, the last token of a role ("the Company")     -> the name that an earlier chunk gives it
    bind     the tokens of a stated object                                  -> the last token of its subject
             the last token before an answer                                -> the last token of the subject in the question
    hop      the last token before a two-hop answer                         -> the last token of the thing between
    point    each token before a token of the answer                        -> that token where the documents state it
             ("Not in the documents.": the first token of the prompt)
"""
import re

import numpy as np


CONTEXT = ("alias", "bind", "rel")                          # rows of context_hints
QUESTION = ("bind", "rel", "inner", "hop", "point")         # rows of question_hints; the first three lie within the question


def guided(layers, heads):
    """The layer and head that is guided, for each kind of hint."""
    third = layers // 3
    return {"rel": (third, heads - 2), "inner": (third, heads - 1), "alias": (third, 0), "bind": (layers // 2, 0), "hop": (2 * layers // 3, 0),
            "point": (layers - 1, 0)}


def plan(config, context, question):
    """For Llama.shared: {layer: {name: (head, targets)}}, from context [3,B,C] and question [5,B,M,S]."""
    at, out, width = guided(config.layers, config.heads), {}, context.shape[-1]
    for kind, target in zip(CONTEXT, context):
        out.setdefault(at[kind][0], {})["context " + kind] = (at[kind][1], target)
    for i, (kind, target) in enumerate(zip(QUESTION, question)):
        if i < 3:
            target = target + width * (target >= 0)         # where a question's own keys begin
        out.setdefault(at[kind][0], {})[kind] = (at[kind][1], target)
    return out


class Spans:
    """Character spans of texts that were tokenized one by one, as token indices in the joined sequence."""

    def __init__(self, starts, texts, offsets):
        self.starts, self.texts, self.offsets = starts, texts, offsets
        self.lower = [t.lower() for t in texts]

    def find(self, part, word, after=0, before=None):
        """First occurrence of a word or phrase in part from `after` on, or the last one that ends before `before`."""
        text, word = self.lower[part], word.lower()
        hit, at = -1, after
        while True:
            at = text.find(word, at)
            if at < 0 or (before is not None and at + len(word) > before):
                return hit
            end = at + len(word)
            if not (at and text[at - 1].isalnum()) and not (end < len(text) and text[end].isalnum()):
                hit = at
                if before is None:
                    return hit
            at += 1

    def token(self, part, char):
        """Index of the token that covers a character."""
        for i, (a, b) in enumerate(self.offsets[part]):
            if a <= char < b:
                return self.starts[part] + i
        return -1

    def last(self, part, at, word):
        return self.token(part, at + len(word) - 1)


def context_hints(scene, spans, n):
    """Rows of CONTEXT: for each context token the token to look at, or -1.  Part 0 is the system segment, chunk i is part i + 1."""
    alias, bind, rel = np.full((3, n), -1)
    part = 1
    for d in scene.docs:
        for c, s, o, keys in d.links:
            p = part + c
            at = spans.find(p, o)
            if at < 0:
                continue
            q, sub = p, spans.find(p, s, before=at)
            while sub < 0 and q > part:        # a header: the subject stands in an earlier chunk of the document
                q -= 1
                sub = spans.find(q, s)
            if sub < 0:
                continue
            to, key = spans.last(q, sub, s), relation(spans, p, at, keys)
            for t in {spans.token(p, ch) for ch in range(at, at + len(o))}:
                if to < t:
                    bind[t] = to
                if 0 <= key < t:
                    rel[t] = key
        if d.names:
            e, a = d.names
            at = spans.find(part, e)
            to = spans.last(part, at, e)
            one = len(d.chunks) == 1                   # all in one chunk: the uses stand behind the name
            for c in range(0 if one else 1, len(d.chunks)):
                at = spans.find(part + c, a, after=at + len(e) if one else 0)
                while at >= 0:
                    alias[spans.last(part + c, at, a)] = to
                    at = spans.find(part + c, a, after=at + 1)
        part += len(d.chunks)
    return alias, bind, rel


def relation(spans, part, at, keys):
    """The last token of the words that tell the relation of the object at character `at`: they stand before it in its sentence."""
    text = spans.lower[part]
    begin = max(text.rfind(". ", 0, at), text.rfind("\n", 0, at), 0)
    for k in keys:
        hit = spans.find(part, k, after=begin, before=at)
        if hit >= 0:
            return spans.last(part, hit, k)
    return -1


def question_relations(q, qa):
    """rel, inner: the last tokens of the relation that is asked for and of that between subject and hop."""
    inner = -1
    if qa.inner:
        phrase = f"the {qa.inner} of {qa.subject}".lower()
        at = q.lower[0].find(phrase)
        if at < 0:
            return -1, -1
        inner = q.last(0, at + 4, qa.inner)
        q = Spans(q.starts, [q.lower[0].replace(phrase, "#" * len(phrase))], q.offsets)      # the noun may be asked for twice
    for k in qa.rel:
        hit = q.find(0, k)
        if hit >= 0:
            return q.last(0, hit, k), inner
    return -1, inner


def question_hints(scene, qa, spans, question, answer):
    """Rows of QUESTION for the tokens of question + answer: bind, rel, inner (indices in the question), hop and point (in the
    context), or -1.  question, answer: (text, offsets)."""
    nq, n = len(question[1]), len(question[1]) + len(answer[1])
    out = np.full((5, n), -1)
    bind, rel, inner, hop, point = out
    q = Spans([0], [question[0]], [question[1]])
    if qa.subject:
        at = q.find(0, qa.subject)
        if at >= 0:
            bind[nq - 1] = q.last(0, at, qa.subject)
    if qa.rel:
        rel[nq - 1], inner[nq - 1] = question_relations(q, qa)
    first = [1]
    for d in scene.docs:
        first.append(first[-1] + len(d.chunks))
    if not qa.docs:
        point[nq - 1] = 0 if qa.kind == "none" else -1
        return out
    if qa.kind == "compare":
        return out
    if qa.hop:
        at = spans.find(first[qa.docs[0]], qa.hop)
        if at >= 0:
            hop[nq - 1] = spans.last(first[qa.docs[0]], at, qa.hop)
    parts = range(first[qa.docs[-1]], first[qa.docs[-1] + 1])
    pieces = [(0, qa.answer)]
    if qa.anchor:                              # "41 tons": the number from a line, the unit from the header
        number, unit = qa.answer.split(" ", 1)
        pieces = [(0, number), (len(number) + 1, unit)]
    for begin, piece in pieces:
        for p in reversed(parts):
            at = 0
            if qa.anchor and begin == 0:
                at = spans.find(p, qa.anchor)
                if at < 0:
                    continue
            at = spans.find(p, piece, after=at)
            if at >= 0:
                for j, (a, b) in enumerate(answer[1]):
                    # the token's first character that is not a blank
                    c = a + (answer[0][a] == " ")
                    if begin <= c < begin + len(piece):
                        point[nq - 1 + j] = spans.token(p, at + c - begin)
                break
    return out
