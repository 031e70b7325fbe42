"""BM25 over a handful of texts, for the demo's prompts and for similar chunks."""
import collections
import math
import re


class BM25:
    def __init__(self, docs, k1=1.2, b=0.75):
        self.k1, self.b = k1, b
        self.docs = [collections.Counter(re.findall(r"\w+", d.lower())) for d in docs]
        self.len = [sum(d.values()) for d in self.docs]
        self.mean = sum(self.len) / len(docs)
        df = collections.Counter(w for d in self.docs for w in d)
        self.idf = {w: math.log(1 + (len(docs) - n + 0.5) / (n + 0.5)) for w, n in df.items()}

    def top(self, query, k):
        ws = re.findall(r"\w+", query.lower())
        score = lambda d, n: sum(self.idf[w] * d[w] * (self.k1 + 1) / (d[w] + self.k1 * (1 - self.b + self.b * n / self.mean)) for w in ws if w in d)
        return sorted(range(len(self.docs)), key=lambda i: (-score(self.docs[i], self.len[i]), i))[:k]
