"""The random model of the tests in C (tests/support/tiny_model.h), drawn here from the same seed."""
import numpy as np

from .model import Config

F = np.float32


class Tiny:
    """As reference.model.Model: config, weight(name), layer(i, part). n_embd is heads * head."""

    def __init__(self, seed, n_layers=3, n_heads=4, n_kv_heads=2, head=32, n_ff=96, n_vocab=101):
        self.state, e, kv = seed, n_heads * head, n_kv_heads * head
        self.floats(head // 2, 0, 0)  # the frequencies pass by the generator
        freq = F(10000) ** (F(-2) * np.arange(head // 2, dtype=F) / F(head))
        self.config = Config("llama", n_layers, e, n_heads, n_kv_heads, head, 1e-5, 0, False,
                             freq.astype(np.float64))
        self.weights = {"token_embd.weight": self.matrix(n_vocab, e),
                        "output.weight": self.matrix(n_vocab, e),
                        "output_norm.weight": self.floats(e, 1, 0.3)}
        for i in range(n_layers):
            def put(part, x):
                self.weights[f"blk.{i}.{part}.weight"] = x
            put("attn_norm", self.floats(e, 1, 0.3))
            put("ffn_norm", self.floats(e, 1, 0.3))
            for part, rows, cols in (("attn_q", e, e), ("attn_k", kv, e), ("attn_v", kv, e),
                                     ("attn_output", e, e), ("ffn_gate", n_ff, e),
                                     ("ffn_up", n_ff, e), ("ffn_down", e, n_ff)):
                put(part, self.matrix(rows, cols))

    def floats(self, n, mean, scale):
        drawn = np.empty(n, np.uint32)
        for i in range(n):
            self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2 ** 64
            drawn[i] = self.state >> 33
        x = F(mean) + F(scale) * (drawn.astype(F) * F(2 ** -30) - F(1))
        return x.astype(np.float64)

    def matrix(self, rows, cols):
        return self.floats(rows * cols, 0, F(1.7) / np.sqrt(F(cols))).reshape(rows, cols)

    def weight(self, name):
        return self.weights.get(name)

    def layer(self, i, part, kind="weight"):
        return self.weight(f"blk.{i}.{part}.{kind}")
