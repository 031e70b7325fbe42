"""Muon: momentum whose update is made orthogonal (Newton-Schulz), for the matrices of the blocks; AdamW for the rest."""
import torch


def orthogonal(X, steps=5):
    """About U V^T of each matrix of X [n, rows, cols], rows <= cols."""
    X = X / (X.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(steps):
        A = X @ X.transpose(1, 2)
        B = torch.baddbmm(A, A, A, beta=-4.7750, alpha=2.0315)
        X = torch.baddbmm(X, B, X, beta=3.4445)
    return X


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr, momentum=0.95, weight_decay=0.02):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            stacks = {}
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                m.lerp_(p.grad, 1 - group["momentum"])
                g = p.grad.lerp(m, group["momentum"])
                flip = g.shape[0] > g.shape[1]
                stacks.setdefault(tuple(sorted(g.shape)), []).append((p, flip, g.t() if flip else g))
            for items in stacks.values():
                U = orthogonal(torch.stack([g for _, _, g in items]))
                for (p, flip, _), u in zip(items, U):
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    p.add_(u.t() if flip else u, alpha=-group["lr"] * max(1.0, p.shape[0] / p.shape[1]) ** 0.5)
