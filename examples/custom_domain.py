"""A domain of your own: weights over five forecasters, none of them above 40 %.

A domain needs five members: dim, diameter, center, project and contains. The fifth forecaster is
the good one in the first half of the game and the first one in the second half.
"""

import numpy as np

import swordplay as sp


class CappedSimplex:
    """{x : 0 <= x_j <= cap, sum_j x_j = 1}."""

    def __init__(self, dim, cap):
        self.dim, self.cap = dim, cap
        self.diameter = np.sqrt(2 * cap)  # |x|^2 <= cap, and <x, y> >= 0; it may be too large
        self.center = np.full(dim, 1 / dim)

    def project(self, x):
        """x - tau clipped to [0, cap], with tau such that the sum is 1; row by row."""
        x = np.asarray(x)
        low = x.min(axis=-1, keepdims=True) - self.cap  # here the sum is dim * cap >= 1
        high = x.max(axis=-1, keepdims=True)  # here it is 0
        for _ in range(60):
            tau = (low + high) / 2
            over = np.clip(x - tau, 0, self.cap).sum(axis=-1, keepdims=True) > 1
            low, high = np.where(over, tau, low), np.where(over, high, tau)
        return np.clip(x - tau, 0, self.cap)

    def contains(self, x, tolerance=1e-9):
        return bool(np.abs(x - self.project(x)).max() <= tolerance)


rounds = 2000
rng = np.random.default_rng(0)
truth = np.sin(np.arange(rounds) / 20)
errors = rng.normal(0, 0.8, (rounds, 5))
errors[: rounds // 2, 4] /= 8
errors[rounds // 2 :, 0] /= 8

domain = CappedSimplex(dim=5, cap=0.4)
stream = sp.LinearStream(truth[:, None] + errors, truth, sp.Huber(delta=1.0))
learner = sp.SwordPP(domain, stream.assumptions(domain))
run = sp.play(learner, stream, record="decisions")

print("weights after the first half:", run.decisions[rounds // 2].round(2))
print("weights after the second half:", run.decisions[-1].round(2))
print(f"loss of the weights: {run.cumulative_loss:.1f}")
print(f"loss of the plain mean: {stream.values(domain.center).sum():.1f}")
