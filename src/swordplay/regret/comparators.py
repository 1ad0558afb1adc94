"""Whom to be compared with: the best fixed decision, and the minimiser of every round."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from swordplay._types import Array
from swordplay.domains import BuiltIn, Domain
from swordplay.kernels import comparators as kernels
from swordplay.losses import Absolute, Huber, Logistic, Pinball, Squared
from swordplay.regret.measures import check_domain
from swordplay.regret.solvers import Smooth, minimise, quadratic
from swordplay.regret.variation import best_predictions
from swordplay.streams.functions import QuadraticStream
from swordplay.streams.linear import LinearStream
from swordplay.streams.stream import Stream

TOLERANCE = 1e-10  # of best_fixed, in units of the loss of the domain's centre
HESSIAN_DIM = 256  # up to this d, a d x d matrix is cheap


def best_fixed(stream: Stream, domain: Domain, *, tolerance: float = TOLERANCE) -> Array:
    r"""Return the best fixed decision in hindsight, :math:`\arg\min_{x \in X} \sum_t f_t(x)`.

    Quadratic streams: the projected mean. Squared loss: least squares where it is inside the
    domain, else the Gram matrix's quadratic over it. Huber, logistic: projected Newton. Absolute,
    pinball: the method of multipliers, whose multipliers bound the error. Anything else, and long
    rows: accelerated projected gradient. The cumulative loss is within ``tolerance`` of the least
    one, in units of the loss of the domain's centre; a warning says where not even 1e-6 (or
    ``tolerance``, if that is more) is certain.

    Args:
        stream: any stream.
        domain: X.
        tolerance: what the loss may exceed the least one by; more is quicker.

    Returns:
        (d,), a member of the domain.

    Reference: Beck & Teboulle, *A fast iterative shrinkage-thresholding algorithm*, 2009;
    Rockafellar, *Augmented Lagrangians and applications of the proximal point algorithm*, 1976.

    >>> import swordplay as sp
    >>> stream = sp.streams.abrupt_drift(horizon=2000, dim=2, every=500, seed=0)
    >>> best_fixed(stream, sp.Ball(dim=2, radius=1.0)).round(3)
    array([0.213, 0.051])
    """
    x, gap, scale = nearly_best(stream, domain, tolerance)
    if gap > max(1e-6, tolerance) * scale:
        warnings.warn(
            f"best_fixed could certify its decision only to a loss of {gap:.3g} above the least "
            f"(the domain's centre loses {scale:.3g}): the losses may not be smooth, or have no "
            "minimiser on this domain.",
            stacklevel=2,
        )
    return x


def minimizers(stream: Stream, domain: Domain) -> Array:
    r"""Return :math:`x^*_t \in \arg\min_{x \in X} f_t(x)` for every t: the worst-case comparators.

    A linear model's loss has many minimisers; the one nearest to the last round's is taken (in the
    first round, to the domain's centre), which keeps the path short. It is the projection of the
    last one onto {x in X : <phi_t, x> = p}, with p the best prediction that the domain allows: a
    closed form on a ball, elsewhere proj(u + s phi_t) with s found by bisection.

    Args:
        stream: any stream.
        domain: X.

    Returns:
        (T, d), members of the domain.

    Reference: Yang, Zhang, Jin & Yi, *Tracking slowly moving clairvoyant*, ICML 2016 (whose
    comparators these are).

    >>> import swordplay as sp
    >>> stream = sp.streams.instance_two(6)
    >>> minimizers(stream, sp.Ball(dim=1, radius=1.0)).ravel()
    array([ 1.,  1.,  1., -1., -1., -1.])
    """
    check_domain(stream, domain)
    start = np.asarray(domain.center, dtype=np.float64)
    if isinstance(stream, QuadraticStream):
        return np.asarray(domain.project(stream.centers))
    if isinstance(stream, LinearStream):
        return _linear_minimizers(stream, domain, start)
    out = np.empty((len(stream), start.size))
    for t in range(len(stream)):
        problem = Smooth(lambda x: 0.0, lambda x, t=t: stream.gradient(t, x))  # type: ignore[misc]
        scale = abs(float(stream.value(t, start)))
        start, _ = minimise(problem, domain, start, max(TOLERANCE * scale, 1e-300))
        out[t] = start
    return out


# ---------------------------------------------------------------- the best fixed decision


def nearly_best(
    stream: Stream, domain: Domain, relative: float = TOLERANCE
) -> tuple[Array, float, float]:
    """Return ``best_fixed``, how far above the least its loss may be, and the centre's loss."""
    check_domain(stream, domain)
    start = np.asarray(domain.center, dtype=np.float64)
    if isinstance(stream, QuadraticStream):
        return np.asarray(domain.project(stream.centers.mean(axis=0))), 0.0, 0.0
    scale = float(np.abs(stream.values(start)).sum())
    tolerance = max(relative * scale, 1e-300)
    if not isinstance(stream, LinearStream):
        x, gap = minimise(
            Smooth(lambda x: 0.0, lambda x: _total_gradient(stream, x)), domain, start, tolerance
        )
    else:
        x, gap = _linear(stream, domain, start, tolerance)
    return x, gap, scale


def _total_gradient(stream: Stream, x: Array) -> Array:
    total = np.zeros_like(x)
    for t in range(len(stream)):
        total += stream.gradient(t, x)
    return total


def _linear(
    stream: LinearStream, domain: Domain, start: Array, tolerance: float
) -> tuple[Array, float]:
    loss, y = stream.loss, stream.targets
    rows = stream.features if stream.features.dtype == np.float64 else stream.features.astype(float)
    gram: Array | None = None
    steepest: float | None = None  # the largest eigenvalue; left to backtracking for long rows
    if stream.dim <= HESSIAN_DIM:
        product = rows.T @ rows
        gram = np.asarray(product.toarray() if stream.sparse else product)
        steepest = float(np.linalg.eigvalsh(gram)[-1])
    if not stream.norms().any():
        return start, 0.0

    def problem(value: _Of, slope: _Of, bend: _Of, smoothness: float) -> Smooth:
        """Return F(x) = sum rho_t(<phi_t, x>) from rho_t and its first two derivatives."""

        def hessian(x: Array) -> Array:
            weights = bend(rows @ x)[:, None]
            if stream.sparse:
                return np.asarray((rows.T @ rows.multiply(weights)).toarray())
            return np.asarray(rows.T @ (weights * rows))

        return Smooth(
            lambda x: float(value(rows @ x).sum()),
            lambda x: np.asarray(rows.T @ slope(rows @ x)),
            None if steepest is None else smoothness * steepest,
            None if gram is None else hessian,
        )

    if isinstance(loss, Absolute | Pinball):
        return _kinked(stream, rows, problem, domain, start, tolerance)
    x = start
    if isinstance(loss, Squared | Huber):
        # Where no residual of the least-squares solution exceeds delta, Huber's loss has the same
        # gradient there; it is convex, so it has its minimum there too.
        half_square = Squared()
        least_squares = problem(
            lambda p: half_square.value(y, p), lambda p: p - y, np.ones_like, 1.0
        )
        if gram is not None:
            least_squares = replace(least_squares, hessian=lambda x: gram)
            x = quadratic(gram, np.asarray(rows.T @ y), domain, x, 0.01 * tolerance)
        x, gap = minimise(least_squares, domain, x, tolerance)
        if isinstance(loss, Squared) or np.abs(rows @ x - y).max() <= loss.delta:
            return x, gap
    elif not isinstance(loss, Logistic):
        raise TypeError(f"No solver knows {loss!r}: use a FunctionStream with its gradients.")

    def bend(p: Array) -> Array:
        steep = np.abs(loss.slope(y, p))
        return steep * (1 - steep) if isinstance(loss, Logistic) else 1.0 * (steep < loss.number)

    exactly = problem(lambda p: loss.value(y, p), lambda p: loss.slope(y, p), bend, loss.smoothness)
    return minimise(exactly, domain, x, tolerance)


_Of = Callable[[Array], Array]


def _kinked(
    stream: LinearStream,
    rows: Any,
    problem: Callable[[_Of, _Of, _Of, float], Smooth],
    domain: Domain,
    start: Array,
    tolerance: float,
) -> tuple[Array, float]:
    r"""Minimise a loss :math:`\rho(r) = \max_{a \le s \le b} s r` by the method of multipliers.

    Each turn minimises the smooth :math:`\max_s s r - \tfrac\mu2 (s - \lambda)^2`, at most rho,
    and makes its slopes the next lambda. What that lower bound leaves of rho at x is the error.
    """
    loss, y = stream.loss, stream.targets
    a, b = (-1.0, 1.0) if isinstance(loss, Absolute) else (-loss.number, 1.0 - loss.number)
    x, gap = start, math.inf
    mu = float(np.abs(rows @ x - y).mean())
    multipliers = np.zeros(len(y))
    best = x
    for _ in range(60):
        if mu == 0:  # a perfect fit
            return x, 0.0

        def slope(p: Array, old: Array = multipliers, mu: float = mu) -> Array:
            return np.clip(old + (p - y) / mu, a, b)

        def value(p: Array, old: Array = multipliers, mu: float = mu) -> Array:
            s = np.clip(old + (p - y) / mu, a, b)
            return np.asarray(s * (p - y) - mu / 2 * (s - old) ** 2)

        def bend(p: Array, old: Array = multipliers, mu: float = mu) -> Array:
            s = old + (p - y) / mu
            return ((a < s) & (s < b)) / mu

        x, rest = minimise(problem(value, slope, bend, 1 / mu), domain, x, 0.1 * tolerance)
        p = rows @ x
        left = float((loss.value(y, p) - value(p)).sum()) + rest
        if left < gap:
            best, gap = x, left
        if gap <= tolerance:
            break
        multipliers, mu = slope(p), 0.3 * mu
    return best, gap


# ---------------------------------------------------------------- the minimiser of every round


def _linear_minimizers(stream: LinearStream, domain: Domain, start: Array) -> Array:
    rows = np.asarray(stream.features.toarray() if stream.sparse else stream.features, np.float64)
    dense = LinearStream(rows, stream.targets, stream.loss)
    goals = best_predictions(stream.loss, stream.targets, *dense.extent(domain))
    goals = np.where(dense.norms() > 0, goals, 0.0)
    if not np.isfinite(goals).all():
        raise ValueError(f"{stream.loss!r} has no minimiser on {domain!r}: bound the domain.")
    out = np.empty_like(rows)
    if isinstance(domain, BuiltIn):
        kernels.follow(domain.code, domain.numbers, rows, goals, start, out)
        return out
    u = start
    for t, (row, goal) in enumerate(zip(rows, goals, strict=True)):
        u = out[t] = nearest_with_prediction(domain, row, float(goal), u)
    return out


def nearest_with_prediction(domain: Domain, row: Array, goal: float, u: Array) -> Array:
    """Project u onto {x in the domain : <row, x> = goal}, by projections onto the domain alone.

    A goal out of reach is replaced by the nearest prediction in reach, to a relative 1e-6 of D. The
    compiled ``kernels.comparators.follow`` does the same on the domains that it knows.
    """
    here, square = float(row @ u), float(row @ row)
    slack = 1e-15 * (abs(goal) + float(np.abs(row * u).sum()))
    if square == 0 or abs(goal - here) <= slack:
        return u
    side = math.copysign(1.0, goal - here)
    # How far the prediction is still on the near side of the goal, for a step s along the row.
    reach = 1e6 * _length(domain, u) / math.sqrt(square)
    first, step = 0.0, min(abs(goal - here) / square, reach)
    far = np.asarray(domain.project(u + side * step * row), dtype=np.float64)
    while side * (goal - row @ far) > slack and step < reach:
        first, step = step, min(2 * step, reach)
        far = np.asarray(domain.project(u + side * step * row), dtype=np.float64)
    if side * (goal - row @ far) >= 0:
        return far
    for _ in range(60):
        if abs(goal - row @ far) <= slack:
            return far
        half = (first + step) / 2
        middle = np.asarray(domain.project(u + side * half * row), dtype=np.float64)
        if side * (goal - row @ middle) > 0:
            first = half
        else:
            step, far = half, middle
    return far


def _length(domain: Domain, u: Array) -> float:
    return float(domain.diameter) if math.isfinite(domain.diameter) else 1 + float(abs(u).max())
