"""One training sequence as arrays: a context and several questions about it."""
from dataclasses import dataclass

import numpy as np

from . import scenes

# tree1, tree2: path1, path2 asked over paths; hop1 .. hop3: questions over MetaQA (graphs.py); varied1, varied2: any of them, varied
KINDS = list(scenes.KINDS) + ["tree1", "tree2", "hop1", "hop2", "hop3", "varied1", "varied2"]
KIND_ID = {k: i for i, k in enumerate(KINDS)}


@dataclass
class Packed:
    """One sequence.  seg: 0 context, 1.. questions; chunk: -1 system or question, else the chunk's number."""
    ids: np.ndarray
    pos: np.ndarray
    seg: np.ndarray
    chunk: np.ndarray
    kind: np.ndarray     # of the answer that this token belongs to, else -1
    first: np.ndarray    # True at the first token of an answer
    hints: np.ndarray = None    # [8, T] the rows of hints.CONTEXT, then those of hints.QUESTION; -1 for none
    end: np.ndarray = None      # trees: for each context token, the index at which the tokens that see it end; None: causal
