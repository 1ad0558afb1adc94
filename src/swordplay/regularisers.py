"""The base learner's geometry: one mirror step, used for both lines of optimistic OMD, Eq. (6).

x_t and x-hat_{t+1} are both argmin <direction, x> + D_psi(x, x-hat_t), with direction eta M_t and
eta grad f_t(x_t). A base learner of your own is an object with ``step`` (see :class:`Regulariser`).
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from swordplay._types import Array
from swordplay.domains import Domain, Simplex
from swordplay.kernels import projections


@runtime_checkable
class Regulariser(Protocol):
    """What the ensemble asks of a base learner."""

    def step(self, domain: Domain, anchors: Array, directions: Array) -> Array:
        """Return argmin <direction, x> + D_psi(x, anchor) over the domain, row by row, (N, d)."""

    def divergence(self, x: Array, anchor: Array) -> float:
        """Return D_psi(x, anchor)."""


class Euclidean:
    r""":math:`\psi(x) = \tfrac12\|x\|_2^2`: optimistic online gradient descent."""

    def step(self, domain: Domain, anchors: Array, directions: Array) -> Array:
        """Return the projection of anchor - direction."""
        return np.asarray(domain.project(anchors - directions))

    def divergence(self, x: Array, anchor: Array) -> float:
        """Return half the squared distance."""
        return float(0.5 * np.sum((x - anchor) ** 2))

    def __repr__(self) -> str:
        return "Euclidean()"


class NegativeEntropy:
    r""":math:`\psi(x) = \sum_j x_j \ln x_j` on the simplex: multiplicative weights.

    No coordinate falls below 1e-30, so that each can come back; that moves a decision by less than
    rounding does, and Theorem 1 holds up to it.
    """

    def step(self, domain: Domain, anchors: Array, directions: Array) -> Array:
        """Return anchor * exp(-direction), normalised."""
        if not isinstance(domain, Simplex):
            raise TypeError(f"NegativeEntropy() lives on Simplex(dim), not on {domain!r}.")
        out = np.empty_like(anchors)
        projections.entropic_rows(
            np.ascontiguousarray(anchors), np.ascontiguousarray(directions), out
        )
        return out

    def divergence(self, x: Array, anchor: Array) -> float:
        """Return the Kullback-Leibler divergence."""
        inside = x > 0
        return float(np.sum(x[inside] * np.log(x[inside] / anchor[inside])))

    def __repr__(self) -> str:
        return "NegativeEntropy()"
