"""`spolia bench attend --tree`: the operations are those of the allowed pairs."""
import csv

import pytest

from conftest import refuse, succeed


def test_attention_over_trees(tmp_path):
    """A system text and a path of three nodes, 16 tokens each: the operations are those of the allowed pairs."""
    def attend(name, *args):
        succeed("bench", "attend", "--types", "q16", "--heads", "4x2x32", "--rows", "64", "--depths", "0", "--rounds", "1",
                "--csv", tmp_path / name, *args)
        return list(csv.DictReader((tmp_path / name).open()))
    trees, linear = attend("t.csv", "--tree", "1x1")
    assert (trees["spans"], linear["spans"]) == ("1x1", "1")
    for row, pairs in ((trees, 4 * 16 * 17 / 2 + 16 * 16 * (1 + 2 + 3)), (linear, 64 * 65 / 2)):
        assert float(row["seconds"]) * float(row["rate"]) == pytest.approx(4 * 4 * 32 * pairs / 1e9, rel=1e-3)
    assert len(attend("l.csv")) == 1
    refuse("bench", "attend", "--tree", "x", naming=["--tree"], code=2)
