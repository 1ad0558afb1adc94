"""A base learner to copy: mirror descent with a scale of its own for every coordinate.

A base learner is a regulariser psi; the ensemble calls ``step`` for both lines of Eq. (6), with
``directions`` = eta_i M_t and eta_i g_t, one row for each of the N step sizes.
"""

import numpy as np

from swordplay._types import Array, ArrayLike
from swordplay.domains import Box, Domain


class Scaled:
    r""":math:`\psi(x) = \tfrac12 \sum_j s_j x_j^2` on a box: coordinate j moves by 1/s_j.

    With every s_j at least 1, psi is 1-strongly convex in the Euclidean norm, which Theorem 1 asks
    for.
    """

    def __init__(self, scales: ArrayLike) -> None:
        self.scales = np.asarray(scales, dtype=np.float64)

    def step(self, domain: Domain, anchors: Array, directions: Array) -> Array:
        """Return argmin <direction, x> + D_psi(x, anchor) over the domain, row by row, (N, d)."""
        if not isinstance(domain, Box):
            raise TypeError(f"Scaled(...) lives on Box(low, high), not on {domain!r}.")
        return np.clip(anchors - directions / self.scales, domain.low, domain.high)

    def divergence(self, x: Array, anchor: Array) -> float:
        """Return D_psi(x, anchor) = psi(x) - psi(anchor) - <grad psi(anchor), x - anchor>."""
        return float(0.5 * np.sum(self.scales * (x - anchor) ** 2))

    def __repr__(self) -> str:
        return f"Scaled({self.scales.tolist()})"
