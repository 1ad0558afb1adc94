r"""How much the losses themselves move: gradient variation V_T and function variation V^f_T.

Both are sums over rounds of a supremum over the domain. For a linear model, with phi and psi the
rows of rounds t and t - 1, s = phi + psi and d = phi - psi,

    h phi - k psi = ((h + k) d + (h - k) s) / 2,

so everything depends on the slopes h, k and on |s|, |d|, <s, d> alone. Written so, slow drift
(phi close to psi) loses no digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from swordplay._types import Array
from swordplay.domains import Ball, Domain, Everywhere
from swordplay.losses import Huber, Logistic, Loss, Squared
from swordplay.regret.geometry import (
    disk_maximum,
    enclosing_ball,
    predictions_at_vertices,
    vertex_count,
)
from swordplay.regret.measures import check_domain
from swordplay.streams.functions import QuadraticStream
from swordplay.streams.linear import LinearStream
from swordplay.streams.stream import Stream

WORK = 1 << 22  # numbers in memory at a time


class Measured(float):
    """A number that says whether it is exact or an upper bound, and how it was found.

    >>> value = Measured(1.5, exact=False, how="by hand")
    >>> value + 1, value.exact, value.how
    (2.5, False, 'by hand')
    """

    exact: bool
    how: str

    def __new__(cls, value: float, exact: bool, how: str) -> Measured:
        """Make the number and attach what is known of it."""
        number = super().__new__(cls, value)
        number.exact, number.how = exact, how
        return number

    def __getnewargs__(self) -> tuple[float, bool, str]:  # type: ignore[override]
        return float(self), self.exact, self.how

    def __repr__(self) -> str:
        return f"{float(self)!r} ({'exact' if self.exact else 'upper bound'}: {self.how})"


def gradient_variation(stream: Stream, domain: Domain) -> Measured:
    r"""Return :math:`V_T = \sum_{t=2}^T \sup_{x \in X} \|\nabla f_t(x) - \nabla f_{t-1}(x)\|_2^2`.

    Exact for the squared loss (and Huber's, where no residual on the domain exceeds delta) on a
    ball, on any bounded domain of one dimension, on a simplex, an L1 ball, and a box of up to 10
    dimensions; and for quadratic streams. There, the difference of two gradients is affine,
    A x + b with A of rank 2: over a ball its largest norm is a trust-region problem in the plane of
    the two rows, over a polytope it is at a vertex. Otherwise an upper bound: the largest
    |h phi - k psi|^2 over all slopes h and k that the two rounds can have, which is at a corner of
    their ranges.

    Args:
        stream: a linear or quadratic stream.
        domain: X.

    Returns:
        A number that knows whether it is exact, ``.exact``, and how it was found, ``.how``.

    Reference: Chiang et al., *Online optimization with gradual variations*, COLT 2012.

    >>> from swordplay.streams import instance_one, instance_two
    >>> domain = Ball(dim=1, radius=1.0)
    >>> gradient_variation(instance_two(1000), domain).exact
    True
    >>> [round(gradient_variation(instance_one(T), domain) * T, 3) for T in (100, 1000)]
    [2.294, 2.329]
    """
    check_domain(stream, domain)
    if isinstance(stream, QuadraticStream):
        steps = np.diff(stream.centers, axis=0)
        return Measured(
            4 * stream.scale**2 * float(np.sum(steps**2)), True, "the difference is constant"
        )
    return _sum(stream, domain, _gradient_gaps, "V_T")


def function_variation(stream: Stream, domain: Domain) -> Measured:
    r"""Return :math:`V^f_T = \sum_{t=2}^T \sup_{x \in X} |f_t(x) - f_{t-1}(x)|`.

    Exact for the squared loss (and Huber's, where no residual on the domain exceeds delta) on a
    ball and on any bounded domain of one dimension, and for quadratic streams on the domains that
    know their ``extent``. Otherwise an upper bound, the least of: the values that the two losses
    can take; the steepest slope times the largest change of the residual; for the squared loss, the
    supremum over a ball around the domain.

    Args:
        stream: a linear or quadratic stream.
        domain: X.

    Returns:
        A number that knows whether it is exact, ``.exact``, and how it was found, ``.how``.

    Reference: Besbes, Gur & Zeevi, *Non-stationary stochastic optimization*, Operations Research
    2015.

    >>> from swordplay.streams import QuadraticStream
    >>> stream = QuadraticStream([[0.0], [1.0], [1.0]])
    >>> float(function_variation(stream, Ball(dim=1, radius=1.0)))  # |x - 1|^2 - x^2 at x = -1
    3.0
    """
    check_domain(stream, domain)
    if isinstance(stream, QuadraticStream):
        return _quadratic_function_variation(stream, domain)
    return _sum(stream, domain, _function_gaps, "The function variation")


# ---------------------------------------------------------------- pairs of consecutive rounds


@dataclass(frozen=True)
class _Pairs:
    """Rounds t (now) and t - 1 (before) of a piece of a linear stream."""

    stream: LinearStream
    low: Array  # the least and the largest prediction on the domain, one for each round
    high: Array
    ss: Array  # |s|^2, |d|^2, <s, d>, one for each pair
    dd: Array
    sd: Array
    across: Array  # |d - <s, d>/|s|^2 s|

    @classmethod
    def of(cls, stream: LinearStream, domain: Domain) -> _Pairs:
        rows = stream.features
        s, d = rows[1:] + rows[:-1], rows[1:] - rows[:-1]
        ss, dd, sd = _dot(s, s), _dot(d, d), _dot(s, d)
        along = np.divide(sd, ss, out=np.zeros_like(sd), where=ss > 0)
        rest = d - (s.multiply(along[:, None]).tocsr() if stream.sparse else along[:, None] * s)
        low, high = stream.extent(domain)
        return cls(stream, low, high, ss, dd, sd, np.sqrt(_dot(rest, rest)))

    @property
    def quadratic(self) -> Any:
        """Tell of every pair whether both losses are quadratic on the whole domain."""
        loss, y = self.stream.loss, self.stream.targets
        if isinstance(loss, Squared):
            return np.ones(len(self.ss), dtype=bool)
        if not isinstance(loss, Huber):
            return np.zeros(len(self.ss), dtype=bool)
        near = (self.high - y <= loss.delta) & (y - self.low <= loss.delta)
        return near[1:] & near[:-1]

    def gap(self, now: Array, before: Array) -> Array:
        """Return |now phi - before psi|^2."""
        up, down = now + before, now - before
        square = up**2 * self._beside(self.dd, now) + down**2 * self._beside(self.ss, now)
        return np.asarray((square + 2 * up * down * self._beside(self.sd, now)) / 4)

    @staticmethod
    def _beside(values: Array, like: Array) -> Array:
        return values if like.ndim == 1 else values[:, None]

    def plane(self, center: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Return (a+, a-, b+, b-, c): f_t - f_{t-1} = sum (a w^2 / 2 + b w) + c for squared losses.

        w are the coordinates of x - center along the eigenvectors of A = phi phi' - psi psi'
        = (s d' + d s') / 2. In the plane of s and d, A is |s|/2 times (d_1 + the reflection that
        halves the angle of d), which gives its eigenvalues and eigenvectors without a solver.
        """
        residual = self.stream.targets - np.asarray(self.stream.features @ center)
        more, less = residual[1:] + residual[:-1], residual[1:] - residual[:-1]
        length, reach = np.sqrt(self.ss), np.sqrt(self.dd)
        along = np.divide(self.sd, length, out=np.zeros_like(length), where=length > 0)
        flat, steep = -(length * less + along * more) / 2, -self.across * more / 2
        half = np.arctan2(self.across, along) / 2
        cos, sin = np.cos(half), np.sin(half)
        return (
            length * (along + reach) / 2,
            length * (along - reach) / 2,
            cos * flat + sin * steep,
            cos * steep - sin * flat,
            less * more / 2,
        )


def _pieces(stream: LinearStream, width: int) -> Iterator[LinearStream]:
    """Cut the stream so that every pair of rounds is in one piece, ``width`` numbers a round."""
    size = max(1, WORK // width)
    for a in range(0, len(stream) - 1, size):
        part = slice(a, a + size + 1)
        yield LinearStream(stream.features[part], stream.targets[part], stream.loss)


def _dot(a: Any, b: Any) -> Array:
    if hasattr(a, "multiply"):
        return np.asarray(a.multiply(b).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.einsum("td,td->t", a, b, dtype=np.float64))


_Gaps = Callable[[_Pairs, Domain], tuple[Array, bool, str]]


def _sum(stream: Stream, domain: Domain, gaps: _Gaps, name: str) -> Measured:
    if not isinstance(stream, LinearStream):
        raise TypeError(
            f"{name} takes a supremum over the domain at every round, which cannot be read off "
            f"{type(stream).__name__}: use a LinearStream or a QuadraticStream, or "
            "run.gradient_variation, the variation that a learner observed."
        )
    total, exact = 0.0, True
    hows: set[str] = set()
    for piece in _pieces(stream, max(8, 2 * stream.dim, vertex_count(domain))):
        with np.errstate(invalid="ignore", over="ignore"):
            values, proven, how = gaps(_Pairs.of(piece, domain), domain)
        total += float(np.maximum(values, 0.0).sum())
        exact, hows = exact and proven, hows | {how}
    if math.isnan(total):
        raise ValueError(f"{name} is not defined on {domain!r}: give a bounded domain.")
    return Measured(total, exact, "; ".join(sorted(hows)) or "one round does not vary")


# ---------------------------------------------------------------- one supremum for each pair


def _gradient_gaps(pairs: _Pairs, domain: Domain) -> tuple[Array, bool, str]:
    stream = pairs.stream
    quadratic = pairs.quadratic
    if math.isinf(domain.diameter) or isinstance(domain, Everywhere):
        if isinstance(stream.loss, Squared):
            constant = pairs.gap(-stream.targets[1:], -stream.targets[:-1])
            return np.where(pairs.ss * pairs.dd > 0, np.inf, constant), True, "unbounded domain"
        return _corners(pairs), False, "corners of the slopes' ranges"
    if not quadratic.any():
        return _corners(pairs), False, "corners of the slopes' ranges"

    center, radius, exact = enclosing_ball(domain)
    vertices = None if exact else predictions_at_vertices(stream, domain)
    if vertices is not None:
        slopes = vertices - stream.targets[:, None]
        best = pairs.gap(slopes[1:], slopes[:-1]).max(axis=1)
        exact, how = True, "vertices"
    else:
        up, down, b_up, b_down, _ = pairs.plane(center)
        inside = disk_maximum(up**2, down**2, np.abs(up * b_up), np.abs(down * b_down), radius)
        best, how = inside + b_up**2 + b_down**2, "trust region in the plane of the two rows"
        if not exact:
            best, how = np.minimum(best, _corners(pairs)), "ball around the domain"
    if quadratic.all():
        return best, exact, how
    return np.where(quadratic, best, _corners(pairs)), False, "corners of the slopes' ranges"


def _corners(pairs: _Pairs) -> Array:
    """Return the largest |h phi - k psi|^2 over the ranges of both slopes: a convex function."""
    stream = pairs.stream
    ends = [stream.loss.slope(stream.targets, end) for end in (pairs.low, pairs.high)]
    gaps = [pairs.gap(now[1:], before[:-1]) for now in ends for before in ends]
    return np.asarray(np.max(gaps, axis=0))


def _function_gaps(pairs: _Pairs, domain: Domain) -> tuple[Array, bool, str]:
    quadratic = pairs.quadratic
    rough = _value_ranges(pairs, domain)
    if not quadratic.any() or math.isinf(domain.diameter) or isinstance(domain, Everywhere):
        return rough, False, "ranges of values and slopes"
    center, radius, exact = enclosing_ball(domain)
    up, down, b_up, b_down, c = pairs.plane(center)
    b_up, b_down = np.abs(b_up), np.abs(b_down)
    most = disk_maximum(up, down, b_up, b_down, radius) / 2 + c
    least = -disk_maximum(-up, -down, b_up, b_down, radius) / 2 + c
    best = np.maximum(np.abs(most), np.abs(least))
    how = "trust region in the plane of the two rows"
    if not exact:
        best, how = np.minimum(best, rough), "ball around the domain; ranges of values and slopes"
    if quadratic.all():
        return best, exact, how
    return np.where(quadratic, best, rough), False, "ranges of values and slopes"


def _value_ranges(pairs: _Pairs, domain: Domain) -> Array:
    """Return an upper bound from what the losses can be, and from how fast their argument moves."""
    stream, loss, y = pairs.stream, pairs.stream.loss, pairs.stream.targets
    at_ends = [loss.value(y, end) for end in (pairs.low, pairs.high)]
    most = np.maximum(*at_ends)
    least = loss.value(y, best_predictions(loss, y, pairs.low, pairs.high))
    by_value = np.maximum(most[1:] - least[:-1], most[:-1] - least[1:])

    # f_t(x) = rho(argument_t(x)) with one rho for all rounds and an affine argument.
    rows, offset = stream.features, y
    if isinstance(loss, Logistic):
        rows = rows.multiply(y[:, None]).tocsr() if stream.sparse else y[:, None] * rows
        offset = np.zeros_like(y)
    moved = LinearStream(rows[1:] - rows[:-1], np.diff(offset))
    low, high = moved.extent(domain)
    travel = np.maximum(np.abs(low - moved.targets), np.abs(high - moved.targets))
    steep = np.maximum(*(np.abs(loss.slope(y, end)) for end in (pairs.low, pairs.high)))
    by_slope = np.maximum(steep[1:], steep[:-1]) * travel
    by_slope = np.where(travel > 0, by_slope, 0.0)
    return np.asarray(np.fmin(by_value, by_slope))


def _quadratic_function_variation(stream: QuadraticStream, domain: Domain) -> Measured:
    """Sum the suprema of 2 scale |<x - m, c_{t-1} - c_t>|, m the middle of the two centres."""
    if len(stream) == 1:
        return Measured(0.0, True, "one round does not vary")
    steps = np.diff(stream.centers, axis=0)
    middle = np.einsum("td,td->t", steps, (stream.centers[1:] + stream.centers[:-1]) / 2)
    knows_extent = hasattr(domain, "extent")
    if not knows_extent and domain.dim == 1 and math.isfinite(domain.diameter):
        center, radius, knows_extent = enclosing_ball(domain)
        domain = Ball(1, radius, center)
    low, high = LinearStream(steps, middle).extent(domain)
    reach = np.maximum(np.abs(low - middle), np.abs(high - middle))
    how = "the difference is affine" if knows_extent else "ball around the domain"
    return Measured(2 * stream.scale * float(reach.sum()), knows_extent, how)


def best_predictions(loss: Loss, y: Array, low: Array, high: Array) -> Array:
    """Return the prediction between ``low`` and ``high`` with the least loss."""
    if isinstance(loss, Logistic):
        return np.where(y > 0, high, low)
    return np.clip(y, low, high)
