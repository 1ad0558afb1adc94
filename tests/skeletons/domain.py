"""A domain to copy: the part of a ball where no coordinate is negative."""

import numpy as np

from swordplay._types import Array, ArrayLike


class PositiveBall:
    r"""The set :math:`\{x \ge 0 : \|x\|_2 \le R\}`."""

    def __init__(self, dim: int, radius: float = 1.0) -> None:
        self.dim = dim
        self.radius = float(radius)

    @property
    def diameter(self) -> float:
        """D: the largest distance between two members; the bounds hold if it is too large."""
        return self.radius * float(np.sqrt(min(self.dim, 2)))

    @property
    def center(self) -> Array:
        """Any member: learners start there."""
        return np.zeros(self.dim)

    def project(self, x: ArrayLike) -> Array:
        """Return the nearest member to ``x`` (d,), or to every row of ``x`` (N, d)."""
        positive = np.maximum(x, 0.0)
        length = np.linalg.norm(positive, axis=-1, keepdims=True)
        return np.asarray(positive * (self.radius / np.maximum(length, self.radius)))

    def contains(self, x: ArrayLike, tolerance: float = 1e-9) -> bool:
        """Tell whether ``x``, or every row of it, is a member up to ``tolerance``."""
        x = np.asarray(x)
        return bool(np.all(np.abs(x - self.project(x)) <= tolerance))

    def extent(self, rows: ArrayLike) -> tuple[Array, Array]:
        """Return min and max over the domain of <row, x>, for every row.

        Not required: it makes ``stream.assumptions(domain)`` exact.
        """
        rows = np.asarray(rows)
        low = -self.radius * np.linalg.norm(np.minimum(rows, 0.0), axis=-1)
        high = self.radius * np.linalg.norm(np.maximum(rows, 0.0), axis=-1)
        return low, high

    def sample(self, rng: np.random.Generator, size: int | None = None) -> Array:
        """Draw members. Not required: tests use it."""
        drawn = np.abs(rng.standard_normal((1 if size is None else size, self.dim)))
        drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
        drawn *= self.radius * rng.random((len(drawn), 1)) ** (1.0 / self.dim)
        return drawn[0] if size is None else drawn

    def __repr__(self) -> str:
        return f"PositiveBall(dim={self.dim}, radius={self.radius})"
