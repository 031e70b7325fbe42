"""What the benchmarks of graph questions share: the test half of MetaQA, how an answer is judged, intervals."""
import math
import re
import string
import zlib


def is_test(question_id: str) -> bool:
    """As train.metaqa.in_test."""
    return zlib.crc32(("metaqa " + question_id).encode()) % 2 == 0


def normalise(text: str) -> str:
    """As SQuAD's exact match: lower case, no punctuation, no articles, single blanks."""
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def is_right(answer: str, wanted: list) -> bool:
    """An answer counts when it is any of the right ones."""
    return normalise(answer) in {normalise(x) for x in wanted}


def contains(answer: str, wanted: list) -> bool:
    """An answer counts when it has the words of any of the right ones, one after another."""
    words = f" {normalise(answer)} "
    return any(f" {normalise(x)} " in words for x in wanted)


def rouge_l(answer: str, wanted: list) -> float:
    """F1 of the longest common subsequence of words, for the best of the right answers."""
    best, a = 0.0, normalise(answer).split()
    for w in (normalise(x).split() for x in wanted):
        row = [0] * (len(w) + 1)
        for x in a:
            before = 0
            for j, y in enumerate(w, 1):
                before, row[j] = row[j], before + 1 if x == y else max(row[j], row[j - 1])
        best = max(best, 2 * row[-1] / (len(a) + len(w)) if a or w else 1.0)
    return best


def wilson(k: int, n: int) -> tuple:
    """95 % interval of a share."""
    z, p = 1.96, k / n
    middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)


def paired(a: list, b: list) -> tuple:
    """Mean of a - b over the same questions, its 95 % interval, and McNemar's exact p; a, b: lists of bool."""
    n, won, lost = len(a), sum(x and not y for x, y in zip(a, b)), sum(y and not x for x, y in zip(a, b))
    mean = (won - lost) / n
    half = 1.96 * math.sqrt(max(0.0, (won + lost) / n - mean * mean) / n)
    p = min(1.0, 2 * sum(math.comb(won + lost, i) for i in range(min(won, lost) + 1)) / 2 ** (won + lost))
    return mean, mean - half, mean + half, p
