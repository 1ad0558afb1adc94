"""Losses of one number: their value and their implicit (proximal) step.

An implicit step of size a from m goes to the m' that minimises loss(m') + (m' - m)^2 / (2a), so
m' = m - a s with s the slope *at m'*. It cannot overshoot, whatever a is.
"""

from __future__ import annotations

import math

from swordplay.kernels.pool_compile import exact
from swordplay.kernels.pool_layout import ABSOLUTE, HUBER, SQUARED


@exact
def value(kind, param, y, p):
    """Return the loss of prediction p; not for log loss."""
    r = p - y
    if kind == SQUARED:
        return r * r
    r_abs = abs(r)
    if kind == HUBER:
        return 0.5 * r * r if r_abs <= param else param * (r_abs - 0.5 * param)
    if kind == ABSOLUTE:
        return r_abs
    return max(-param * r, (1.0 - param) * r)  # pinball


@exact
def implicit(kind, param, y, m, a):
    """Return slope and curvature of an implicit step of size a from m.

    SQUARED means r^2 / 2 here (the factor only renames steps). The curvature is the secant
    (s(m) - s(m')) / (m - m') for Huber's loss; for absolute and pinball loss, which have none, that
    of the quadratic through both kinks (weight 1/|r|), as in iteratively reweighted least squares.
    """
    r = m - y
    if kind == SQUARED:
        return r / (1.0 + a), 1.0
    if kind == HUBER:
        s = r / (1.0 + a)
        if abs(s) <= param:
            return s, min(1.0, param / max(abs(r), 1e-12))
        return math.copysign(param, r), param / abs(r)
    if kind == ABSOLUTE:
        return max(-1.0, min(1.0, r / max(a, 1e-300))), 1.0 / max(abs(r), 0.05)
    s = r / max(a, 1e-300)
    s = max(-param, min(1.0 - param, s))
    return s, abs(s) / max(abs(r), 0.05)


@exact
def implicit_logistic(y, m, q, a):
    """Return slope and secant curvature of an implicit step for log loss, y in {0, 1}.

    q is sigmoid(m). Newton's method solves m' = m - a (sigmoid(m') - y) inside its bracket: one
    step without any exponential where a is small, hardly ever more than four.
    """
    h = q * (1.0 - q)
    s = q - y
    step = -a * s / (1.0 + a * h)
    if abs(step) < 0.03:
        return s / (1.0 + a * h), h
    low = m if y > 0.5 else m - a
    high = m + a if y > 0.5 else m
    z = min(max(m + step, low), high)
    last = high - low
    for _ in range(20):
        p = 1.0 / (1.0 + math.exp(-z))
        excess = z - m + a * (p - y)
        if excess > 0.0:
            high = z
        else:
            low = z
        before = z
        z -= excess / (1.0 + a * p * (1.0 - p))
        # Where the sigmoid is flat Newton may swing for ever: halve the bracket instead.
        if not (z > low and z < high) or abs(z - before) > 0.5 * last:
            z = 0.5 * (low + high)
        last = abs(z - before)
        if last < 0.01:
            break
    p = 1.0 / (1.0 + math.exp(-z))
    d = z - m
    h = (p - q) / d if abs(d) > 1e-6 else h
    return -d / a, max(h, 1e-8)


@exact
def tame_logistic(y, m, q, a):
    """Return slope and curvature like ``implicit_logistic``, but shrug at what contradicts wildly.

    Newton's method without a safeguard: where a label contradicts a confident prediction and the
    step is long, it swings from one flat end of the sigmoid to the other and comes to rest near m
    after four steps. Such a row teaches next to nothing. Second-order experts gain by that where
    labels are noisy (exact steps: 13 % more log loss on a rotating hyperplane with 5 % noise) and
    lose little elsewhere; first-order experts and mixers do better with exact steps.
    """
    h = q * (1.0 - q)
    s = q - y
    step = -a * s / (1.0 + a * h)
    if abs(step) < 0.03:
        return s / (1.0 + a * h), h
    low = m if y > 0.5 else m - a
    high = m + a if y > 0.5 else m
    z = min(max(m + step, low), high)
    for _ in range(3):
        p = 1.0 / (1.0 + math.exp(-z))
        change = (z - m + a * (p - y)) / (1.0 + a * p * (1.0 - p))
        z = min(max(z - change, low), high)
        if abs(change) < 0.01:
            break
    p = 1.0 / (1.0 + math.exp(-z))
    d = z - m
    h = (p - q) / d if abs(d) > 1e-6 else h
    return -d / a, max(h, 1e-8)
