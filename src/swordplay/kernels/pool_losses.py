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
    r = p - y
    if kind == SQUARED:
        return r * r
    r_abs = abs(r)
    if kind == HUBER:
        return 0.5 * r * r if r_abs <= param else param * (r_abs - 0.5 * param)
    if kind == ABSOLUTE:
        return r_abs
    return max(-param * r, (1.0 - param) * r)  # pinball; logistic never comes here


@exact
def implicit(kind, param, y, m, a):
    """Slope s at the implicit step: m' = m - a s minimises loss(m') + (m' - m)^2 / (2a).  Returns (s, curvature).

    SQUARED means the loss 1/2 r^2 here (the factor only renames steps).  The curvature is the secant
    (s(m) - s(m')) / (m - m') for Huber and logistic; for absolute and pinball loss, which have none, that of the
    quadratic through both kinks (weight 1/|r|), as in iteratively reweighted least squares."""
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
    """Implicit step for log loss, y in {0, 1}, q = sigmoid(m).  Newton on m' = m - a (sigmoid(m') - y) inside its bracket.

    One step without any exponential when a is small; never more than four.  Returns (slope, secant curvature)."""
    h = q * (1.0 - q)
    s = q - y
    step = -a * s / (1.0 + a * h)
    if abs(step) < 0.03:
        return s / (1.0 + a * h), h
    low = m if y > 0.5 else m - a
    high = m + a if y > 0.5 else m
    z = min(max(m + step, low), high)
    p = q
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
