#!/usr/bin/env python3
"""Writes triples for `--similar graph` by rule: which names each chunk of an index has.

    bench/names.py INDEX.db -o names.tsv
    spolia graph import names.tsv -o INDEX.db

A name is the title of a chunk's document, or a run of words with capitals (two at least, or one inside a sentence);
"of" and the like may join two runs, which then are names, too, if they have two words.
Each becomes (chunk ID, names, NAME) with the chunk, FILE#ID, as its source. No model reads anything, so this is what
a graph of entities can do without one; `spolia graph extract` asks a model.
"""
import argparse
import pathlib
import re

import shared

WORD = r"[A-Z][\w&'’.-]*\w"
NAME = re.compile(rf"{WORD}(?:\s+(?:(?:of|the|and|for|de)\s+)?{WORD})*")
JOINED = re.compile(r" (?:of|the|and|for|de) ")
BEGINS = re.compile(r"(?:^|[.!?:;\n\"“(])\s*$")             # what is before the first word of a sentence


def names_of(title, text):
    """Names in a chunk, each once."""
    found = {title.strip()} if title.strip() else set()
    for match in NAME.finditer(text):
        name = re.sub(r"^(?:The|A|An|In|On|At|By|For|From|With|As|This|These|It)\s+", "", " ".join(match[0].split()))
        if " " in name or (name == match[0] and not BEGINS.search(text[:match.start()])):
            found.add(name)
        found.update(part for part in JOINED.split(name) if " " in part)
    return sorted(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", type=pathlib.Path)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    given = parser.parse_args()
    rows = shared.database(given.index).execute("SELECT id, file, title, text FROM hits")
    lines = [f"chunk {i}\tnames\t{name}\t{file}#{i}\n" for i, file, title, text in rows
             for name in names_of(title.replace("\t", " "), text)]
    given.output.write_text("".join(lines))
    print(f"{given.output}: {len(lines)} triples")


if __name__ == "__main__":
    shared.run(main)
