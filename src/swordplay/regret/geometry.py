"""Suprema over domains: balls around them, their vertices, and a quadratic over a disk."""

from __future__ import annotations

import math

import numpy as np

from swordplay._types import Array
from swordplay.domains import Ball, Box, Domain, L1Ball, Simplex
from swordplay.streams.linear import LinearStream

CORNERS_DIM = 10  # a box has 2^d corners: up to this d they are all tried


def enclosing_ball(domain: Domain) -> tuple[Array, float, bool]:
    """Return the centre and radius of a ball around a bounded domain, and whether it is it."""
    center, diameter = np.asarray(domain.center, dtype=np.float64), float(domain.diameter)
    if isinstance(domain, Ball):
        return center, domain.radius, True
    if domain.dim == 1:  # an interval; the nearest members to points beyond it are its ends
        low, high = (float(domain.project(center + way * diameter)[0]) for way in (-2, 2))
        return np.array([(low + high) / 2]), (high - low) / 2, True
    if isinstance(domain, Box | L1Ball):
        return center, diameter / 2, False
    if isinstance(domain, Simplex):
        return center, math.sqrt(1 - 1 / domain.dim), False
    return center, diameter, False


def vertex_count(domain: Domain) -> int:
    """Return how many vertices ``predictions_at_vertices`` tries; 0 where it does not."""
    if isinstance(domain, Box) and domain.dim <= CORNERS_DIM:
        return int(2**domain.dim)
    return {Simplex: 1, L1Ball: 2}.get(type(domain), 0) * domain.dim


def predictions_at_vertices(stream: LinearStream, domain: Domain) -> Array | None:
    """Return the predictions (T, vertices) at the vertices of a polytope that has few."""
    rows = stream.features
    if isinstance(domain, Box) and domain.dim <= CORNERS_DIM:
        top = (np.arange(2**domain.dim)[:, None] >> np.arange(domain.dim)) & 1
        return np.asarray(rows @ np.where(top == 1, domain.high, domain.low).T, dtype=np.float64)
    if not isinstance(domain, Simplex | L1Ball):
        return None
    dense = np.asarray(rows.toarray() if stream.sparse else rows, dtype=np.float64)
    if isinstance(domain, Simplex):
        return dense
    return np.concatenate([dense, -dense], axis=1) * domain.radius


def disk_maximum(c1: Array, c2: Array, h1: Array, h2: Array, radius: float) -> Array:
    r"""Return :math:`\max_{|w| \le R} c_1 w_1^2 + 2 h_1 w_1 + c_2 w_2^2 + 2 h_2 w_2`, row by row.

    Needs h >= 0 and max(c) >= 0, so that the maximum is on the circle. The dual of this
    trust-region problem has no gap: with top = max(c) and gap_i = top - c_i it is the minimum over
    nu >= 0 of (top + nu) R^2 + sum h_i^2 / (nu + gap_i). Its stationary point is found by
    bisection; any nu gives an upper bound, so rounding cannot make the value too small, and the
    hard case (h = 0 beside the top) is nu = 0.
    """
    first = c1 >= c2
    top, gap = np.maximum(c1, c2), np.abs(c1 - c2)
    at_top, other = np.where(first, h1, h2), np.where(first, h2, h1)
    low, high = at_top / radius, np.hypot(at_top, other) / radius
    tiny = float(np.finfo(np.float64).tiny)
    for _ in range(60):
        nu = (low + high) / 2
        long = np.hypot(at_top / np.maximum(nu, tiny), other / np.maximum(nu + gap, tiny)) > radius
        low, high = np.where(long, nu, low), np.where(long, high, nu)
    rest = at_top * (at_top / np.maximum(high, tiny)) + other * (
        other / np.maximum(high + gap, tiny)
    )
    return np.asarray((top + high) * radius**2 + rest)
