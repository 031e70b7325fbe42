"""Where a reader would look: targets for a few attention heads, from what the generator knows about its own text.

A tiny model finds out late, by itself, that an answer is bound to its subject by words far apart.  So during training four
heads are told, with a small loss that fades, which token to look at.  The finished model is a plain Llama.

    alias    in a later chunk, the last token of a role ("the Company")     -> the name that an earlier chunk gives it
    bind     the tokens of a stated object                                  -> the last token of its subject
             the last token before an answer                                -> the last token of the subject in the question
    hop      the last token before a two-hop answer                         -> the last token of the thing between
    point    each token before a token of the answer                        -> that token where the documents state it
             ("Not in the documents.": the first token of the prompt)
"""
import re

import numpy as np


def hint_layers(n):
    """The layer whose head 0 is guided, for each kind of hint."""
    return {"alias": n // 3, "bind": n // 2, "hop": 2 * n // 3, "point": n - 1}


def plan(n, alias, bind, bind_q, hop, point, width):
    """For Llama.shared: {layer: {name: (head, targets)}}.  width: tokens of the context, where a question's own keys begin."""
    at, out = hint_layers(n), {}
    own = bind_q + width * (bind_q >= 0)
    for kind, name, target in (("alias", "context alias", alias), ("bind", "context bind", bind), ("bind", "bind", own), ("hop", "hop", hop),
                               ("point", "point", point)):
        out.setdefault(at[kind], {})[name] = (0, target)
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
    """alias, bind: for each context token the token to look at, or -1.  Part 0 is the system segment, chunk i is part i + 1."""
    alias, bind = np.full(n, -1), np.full(n, -1)
    part = 1
    for d in scene.docs:
        for c, s, o in d.links:
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
            to = spans.last(q, sub, s)
            for ch in range(at, at + len(o)):
                t = spans.token(p, ch)
                if to < t:
                    bind[t] = to
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
    return alias, bind


def question_hints(scene, qa, spans, question, answer):
    """For the tokens of question + answer: bind (index in the question), hop and point (index in the context), or -1.
    question, answer: (text, offsets)."""
    nq, n = len(question[1]), len(question[1]) + len(answer[1])
    bind, hop, point = (np.full(n, -1) for _ in range(3))
    q = Spans([0], [question[0]], [question[1]])
    if qa.subject:
        at = q.find(0, qa.subject)
        if at >= 0:
            bind[nq - 1] = q.last(0, at, qa.subject)
    first = [1]
    for d in scene.docs:
        first.append(first[-1] + len(d.chunks))
    if not qa.docs:
        point[nq - 1] = 0 if qa.kind == "none" else -1
        return bind, hop, point
    if qa.kind == "compare":
        return bind, hop, point
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
    return bind, hop, point
