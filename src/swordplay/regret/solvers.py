r"""Convex minimisation over a domain that can project: how the best fixed decision is found.

Every solver ends by a test that bounds its error. For the gradient mapping G = L (y - x), with
x = proj(y - grad F(y) / L) and L no less than the curvature between y and x, convexity gives

    F(x) - min F <= |G| D + |G|^2 / (2 L),   D the diameter of the domain,

and the solvers go on until that is below the tolerance that they were given.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from swordplay._types import Array
from swordplay.domains import BuiltIn, Domain
from swordplay.kernels import comparators as kernels


@dataclass(frozen=True)
class Smooth:
    """A convex F with a Lipschitz gradient; ``hessian`` where second derivatives are cheap."""

    value: Callable[[Array], float]
    gradient: Callable[[Array], Array]
    curvature: float | None = None
    """The largest second derivative; found by backtracking where it is None."""
    hessian: Callable[[Array], Array] | None = None


def minimise(
    problem: Smooth, domain: Domain, start: Array, tolerance: float
) -> tuple[Array, float]:
    """Return (x, gap) with F(x) - min F <= gap; gap <= tolerance unless that is out of reach."""
    if problem.hessian is not None and problem.curvature is not None:
        return _newton(problem, domain, start, tolerance)
    return _accelerated(problem, domain, start, tolerance)


def quadratic(
    hessian: Array, linear: Array, domain: Domain, start: Array, tolerance: float = 0.0
) -> Array:
    """Return argmin <x, H x>/2 - <q, x> over the domain, H positive semi-definite."""
    solution = np.linalg.lstsq(hessian, linear, rcond=None)[0]
    inside = domain.project(solution)
    if np.abs(inside - solution).max() <= 1e-13 * max(1.0, np.abs(solution).max()):
        return np.asarray(inside)
    curvature = float(np.linalg.eigvalsh(hessian)[-1])
    if not curvature > 0:
        return start
    if isinstance(domain, BuiltIn):
        scale = 1.0 + float(np.abs(inside).max())
        still = max(tolerance / curvature / _span(domain, inside), 1e-16 * scale)
        # A nudge up: the largest eigenvalue must not be rounded below the true one.
        x, _ = kernels.quadratic_minimum(
            domain.code,
            domain.numbers,
            np.ascontiguousarray(hessian),
            np.ascontiguousarray(linear),
            np.ascontiguousarray(inside, dtype=np.float64),
            curvature * (1 + 1e-9),
            still,
            100_000,
        )
        return np.asarray(x)
    problem = Smooth(
        lambda x: float(x @ (hessian @ x) / 2 - linear @ x),
        lambda x: hessian @ x - linear,
        curvature * (1 + 1e-9),
    )
    return _accelerated(problem, domain, inside, tolerance)[0]


def _span(domain: Domain, x: Array) -> float:
    """Return D; on an unbounded domain, a length of the size of x in its place."""
    if math.isfinite(domain.diameter):
        return float(domain.diameter)
    return 1.0 + float(np.linalg.norm(x - domain.center))


def _gap(step: Array, curvature: float, span: float) -> float:
    mapping = curvature * float(np.linalg.norm(step))
    return mapping * span + mapping**2 / (2 * curvature)


def _newton(problem: Smooth, domain: Domain, start: Array, tolerance: float) -> tuple[Array, float]:
    """Regularised projected Newton: minimise the quadratic model over the domain, damp, repeat."""
    assert problem.hessian is not None
    assert problem.curvature is not None
    x, value, gradient = start, problem.value(start), problem.gradient(start)
    curvature = max(problem.curvature, 1e-300)
    damping, eye = 1e-10 * curvature, np.eye(start.size)
    best, gap = x, math.inf
    for _ in range(200):
        # The test: one projected gradient step, whose end is also a better point.
        tested = domain.project(x - gradient / curvature)
        test = _gap(x - tested, curvature, _span(domain, x))
        if test < gap:
            best, gap = tested, test
        if gap <= tolerance:
            break
        hessian = problem.hessian(x)
        for _ in range(60):
            damped = hessian + damping * eye
            new = quadratic(damped, damped @ x - gradient, domain, x, tolerance * 1e-2)
            step = new - x
            promised = -float(gradient @ step + step @ (damped @ step) / 2)
            new_value = problem.value(new)
            # Near the minimum the last digits of the value are noise.
            if new_value <= value - 0.1 * promised + 1e-14 * abs(value):
                break
            damping = 4 * damping
            if damping > 4 * curvature:  # rounding alone stands in the way
                return best, gap
        x, value, gradient = new, new_value, problem.gradient(new)
        damping = max(damping / 10, 1e-14 * curvature)
    return best, gap


def _accelerated(
    problem: Smooth, domain: Domain, start: Array, tolerance: float, most: int = 20_000
) -> tuple[Array, float]:
    """FISTA with backtracking and gradient restarts; every point it asks about is in the domain."""
    x = y = np.asarray(domain.project(start), dtype=np.float64)
    gradient = problem.gradient(y)
    known = problem.curvature
    curvature = known or max(float(np.linalg.norm(gradient)), 1e-12) / _span(domain, x)
    best, gap, momentum = x, math.inf, 1.0
    for _ in range(most):
        for _ in range(100):
            new = np.asarray(domain.project(y - gradient / curvature), dtype=np.float64)
            step = new - y
            # By convexity this bounds F(new) - F(y) - <grad F(y), step>. Near the minimum gradients
            # still tell; values agree to their last digit.
            if known or 2 * (problem.gradient(new) - gradient) @ step <= curvature * (step @ step):
                break
            curvature *= 2
        test = _gap(step, curvature, _span(domain, y))
        if not known:  # beside a kink the curvature has no end, and a step is lost in rounding
            test += curvature * 1e-16 * float(np.linalg.norm(y)) * _span(domain, y)
        if test < gap:
            best, gap = new, test
        if gap <= tolerance or np.abs(step).max() <= 1e-16 * (1 + np.abs(new).max()):
            break
        following = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        speed = (momentum - 1) / following
        if float((y - new) @ (new - x)) > 0:
            following, speed = 1.0, 0.0
        y = np.asarray(domain.project(new + speed * (new - x)), dtype=np.float64)
        x, momentum, gradient = new, following, problem.gradient(y)
        if not known:
            curvature *= 0.9
    return best, gap
