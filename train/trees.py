"""Relation paths as text and as dependency trees.  The same as src/retrieve/graph/tree.c: the engine must render the text of the training.

A path is a list of segments: entity, relation, entity, ...  Each segment but the first begins with a blank, and each is tokenized
alone.  Three styles, of which the training has the first two:

    arrows       "A -rel-> B <-rel- C"           segments "A", " -rel->", " B", " <-rel-", " C"
    sentences    "A rel B. B is rel of C."       segments "A", " rel", " B.", " B is rel of", " C."
    triplets     "(A, rel, B) (C, rel, B)"       segments "(A", ", rel", ", B)"; each triple once, a path of its own

A tree merges paths by common segments and lists its nodes in pre-order.  A token sees the nodes above its own, its own node up to
itself, and the system prompt; trees do not see each other; the question sees everything.  Three layouts of a prompt:

    exact     positions count tokens from the root, and every tree begins right after the system prompt, so that a node's KV is the
              same wherever its tree is used and whatever its siblings are.  The question begins after the largest position
              of all trees: every key is before it, as in training, and no tree's KV depends on that choice
    shifted   positions count all tokens in pre-order, one tree after another; the question follows
    linear    no tree: each path is a line "text\\n" of the chunk of its root, "[root]\\n" before the lines; causal mask
"""
import re
from dataclasses import dataclass
from typing import NamedTuple

STYLES = ("arrows", "sentences")
ALL_STYLES = STYLES + ("triplets",)
LAYOUTS = ("exact", "shifted", "linear")


class Path(NamedTuple):
    """nodes[0] relations[0] nodes[1] ...; inverse[i]: the triple is (nodes[i + 1], relations[i], nodes[i])."""
    nodes: tuple
    relations: tuple
    inverse: tuple


class Segment(NamedTuple):
    text: str
    mark: int        # index of the last character of its name or of its relation's words, without "by" and the like
    subject: int     # the same for a name before the relation ("B is rel of"), or -1


@dataclass
class Node:
    """parent: index, -1 for a root; key: the nodes, relations and directions from the root to here."""
    segment: Segment
    parent: int
    depth: int
    key: tuple


def readable(relation):
    """As sp_name_readable: the last component of a path or IRI, '_' and '-' as blanks, "bornIn" as "born in"."""
    s = re.split(r"[/#]", relation.rstrip("/#") or relation)[-1]
    s = re.sub(r"[_-]", " ", s)
    return re.sub(r"(?<=[a-z])[A-Z]", lambda m: " " + m.group().lower(), s)


def _bare(relation):
    return re.sub(r"[_ ](by|of|in|to|for|with)$", "", relation)


def triplets(paths):
    """The triples of the paths as paths of one hop, each once, in the order in which the paths have them."""
    out = {}
    for p in paths:
        for i, (rel, inverse) in enumerate(zip(p.relations, p.inverse)):
            ends = p.nodes[i:i + 2]
            out[Path(ends[::-1] if inverse else ends, (rel,), (False,))] = True
    return list(out)


def segments(path, style):
    if style == "triplets":
        a, rel, b = "(" + path.nodes[0], ", " + readable(path.relations[0]), ", " + path.nodes[1] + ")"
        return [Segment(a, len(a) - 1, -1), Segment(rel, len(rel) - 1, -1), Segment(b, len(b) - 2, -1)]
    out = [Segment(path.nodes[0], len(path.nodes[0]) - 1, -1)]
    for i, (rel, inverse) in enumerate(zip(path.relations, path.inverse)):
        if style == "arrows":
            head = " <-" if inverse else " -"
            out.append(Segment(head + rel + ("-" if inverse else "->"), len(head + _bare(rel)) - 1, -1))
        else:
            head = (" " + path.nodes[i] if i else "") + (" is " if inverse else " ")
            out.append(Segment(head + readable(rel) + (" of" if inverse else ""), len(head + _bare(readable(rel))) - 1, len(path.nodes[i]) if i else -1))
        out.append(Segment(" " + path.nodes[i + 1] + ("" if style == "arrows" else "."), len(path.nodes[i + 1]), -1))
    return out


def build(paths, style):
    """The nodes of all trees in pre-order; trees and children keep the order in which the paths give them."""
    root = ({}, None)
    for p in triplets(paths) if style == "triplets" else paths:
        at = root
        for i, s in enumerate(segments(p, style)):
            h = i // 2
            key = (p.nodes[:h + 1], p.relations[:h + i % 2], p.inverse[:h + i % 2])
            at = at[0].setdefault(s.text, ({}, (s, key)))
    out = []

    def walk(children, parent, depth):
        for below, (segment, key) in children.values():
            out.append(Node(segment, parent, depth, key))
            walk(below, len(out) - 1, depth + 1)

    walk(root[0], -1, 0)
    return out


def lines(paths, style):
    """The linear layout as nodes: each path is a chain of its own, its last segment with the line break; a chunk a root."""
    out = []
    for i, p in enumerate(paths):
        if i == 0 or p.nodes[0] != paths[i - 1].nodes[0]:
            out.append(Node(Segment(f"[{p.nodes[0]}]\n", -1, -1), -1, 0, ()))
        last = i + 1 == len(paths) or paths[i + 1].nodes[0] != p.nodes[0]
        parent, chain = -1, segments(p, style)
        for j, s in enumerate(chain):
            if j + 1 == len(chain):
                s = s._replace(text=s.text + ("\n\n" if last else "\n"))
            h = j // 2
            out.append(Node(s, parent, j, (p.nodes[:h + 1], p.relations[:h + j % 2], p.inverse[:h + j % 2])))
            parent = len(out) - 1
    return out


def ends(nodes, lengths, begin):
    """For each node, the token index where its subtree ends; node i has lengths[i] tokens, the first node begins at `begin`."""
    after = [begin]
    for n in lengths:
        after.append(after[-1] + n)
    end = after[1:]
    for i in range(len(nodes) - 1, -1, -1):
        if nodes[i].parent >= 0:
            end[nodes[i].parent] = max(end[nodes[i].parent], end[i])
    return end


def positions(nodes, lengths, begin):
    """Of the first token of each node in the layout `exact`."""
    out = []
    for i, node in enumerate(nodes):
        out.append(begin if node.parent < 0 else out[node.parent] + lengths[node.parent])
    return out
