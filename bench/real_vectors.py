#!/usr/bin/env python3
"""real_vectors.py -- the vectors of an index (flat, ivf or hnsw) as a file of f32, for bench/vectors.

    spolia index FOLDER -o INDEX --embedding all-MiniLM-L6-v2
    bench/real_vectors.py INDEX vectors.f32
"""
import argparse
import contextlib
import sys

import shared


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index")
    parser.add_argument("output")
    args = parser.parse_args()
    with contextlib.closing(shared.database(args.index)) as db:
        n = db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'vectors'").fetchone()[0] and \
            db.execute("SELECT count(*) FROM vectors").fetchone()[0]
        if not n:
            sys.exit(f"real_vectors: {args.index}: it has no vectors (spolia index --embedding)")
        with open(args.output, "wb") as f:
            f.writelines(v for (v,) in db.execute("SELECT v FROM vectors ORDER BY chunk"))
    print(f"{n} vectors")


if __name__ == "__main__":
    shared.run(main)
