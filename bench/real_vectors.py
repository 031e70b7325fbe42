#!/usr/bin/env python3
"""real_vectors.py -- the vectors of an index (flat, ivf or hnsw) as a file of f32, for bench/vectors.

    spolia index FOLDER -o INDEX --embedding all-MiniLM-L6-v2
    bench/real_vectors.py INDEX vectors.f32
"""
import sqlite3
import sys


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    n = 0
    with sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True) as db, open(sys.argv[2], "wb") as f:
        for (v,) in db.execute("SELECT v FROM vectors ORDER BY chunk"):
            f.write(v)
            n += 1
    print(f"{n} vectors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
