"""Euclidean projections and mirror steps, on slices of flat arrays (no views, no allocation)."""

from __future__ import annotations

import math

from swordplay.kernels.codes import BALL, BOX, EVERYWHERE, L1_BALL, SIMPLEX
from swordplay.kernels.compiled import compiled, part

# The smallest coordinate that multiplicative weights may keep: a coordinate that underflowed to 0
# could never come back. It moves a decision by less than the rounding of any other coordinate.
FLOOR = 1e-30


@part
def _below(value, top):
    """Return value - top, where value <= top.

    ``min`` changes nothing, but keeps the compiler from making value - (top + tau) out of
    (value - top) - tau: a large value would lose all its digits.
    """
    return min(value - top, 0.0)


@part
def _threshold(row, start, dim, radius, top, absolute):
    """Return tau - top, where sum_j max(v_j - tau, 0) = radius and v_j = row_j or its size.

    Michelot's iteration: tau rises from the mean over the survivors until no survivor falls below
    it. Everything is measured from the largest v_j, so that large inputs lose no digits.
    """
    tau = -math.inf
    survivors = dim + 1
    while True:
        total = 0.0
        count = 0
        for j in range(dim):
            v = row[start + j]
            if absolute and v < 0:
                v = -v
            v = _below(v, top)
            if v > tau:
                total += v
                count += 1
        if count >= survivors:  # not ==: rounding can bring back one that sits exactly at tau
            return tau
        survivors = count
        tau = (total - radius) / count


@part
def project(code, numbers, n0, row, start, dim):
    """Project row[start : start + dim] onto the domain, in place."""
    if code == EVERYWHERE:
        return
    radius = numbers[n0 + 2 * dim]
    if code == BALL:
        square = 0.0
        for j in range(dim):
            away = row[start + j] - numbers[n0 + j]
            square += away * away
        if square > radius * radius:
            if square < math.inf:
                scale = radius / math.sqrt(square)
            else:  # the square overflowed: measure in units of the largest coordinate
                top = 0.0
                for j in range(dim):
                    top = max(top, abs(row[start + j] - numbers[n0 + j]))
                square = 0.0
                for j in range(dim):
                    away = (row[start + j] - numbers[n0 + j]) / top
                    square += away * away
                scale = radius / math.sqrt(square) / top
            for j in range(dim):
                row[start + j] = numbers[n0 + j] + scale * (row[start + j] - numbers[n0 + j])
    elif code == BOX:
        for j in range(dim):
            row[start + j] = min(max(row[start + j], numbers[n0 + j]), numbers[n0 + dim + j])
    elif code == SIMPLEX:
        top = row[start]
        for j in range(1, dim):
            top = max(top, row[start + j])
        tau = _threshold(row, start, dim, radius, top, False)
        for j in range(dim):
            row[start + j] = max(_below(row[start + j], top) - tau, 0.0)
    elif code == L1_BALL:
        total = 0.0
        top = 0.0
        for j in range(dim):
            size = abs(row[start + j])
            total += size
            top = max(top, size)
        if total > radius:
            tau = _threshold(row, start, dim, radius, top, True)
            for j in range(dim):
                size = max(_below(abs(row[start + j]), top) - tau, 0.0)
                row[start + j] = size if row[start + j] >= 0 else -size


@part
def euclidean_step(code, numbers, n0, row, source, target, dim, step, vector, v0):
    """Write argmin <step * v, x> + |x - source|^2 / 2 over the domain to ``target``."""
    for j in range(dim):
        row[target + j] = row[source + j] - step * vector[v0 + j]
    project(code, numbers, n0, row, target, dim)


@part
def entropic_step(row, source, target, dim, step, vector, v0):
    """Write argmin <step * v, x> + KL(x, source) over the simplex to ``target``."""
    top = -math.inf
    for j in range(dim):
        top = max(top, math.log(row[source + j]) - step * vector[v0 + j])
    total = 0.0
    for j in range(dim):
        grown = math.exp(math.log(row[source + j]) - step * vector[v0 + j] - top)
        row[target + j] = max(grown, FLOOR)
        total += row[target + j]
    for j in range(dim):
        row[target + j] = max(row[target + j] / total, FLOOR)


@compiled
def project_rows(code, numbers, block):
    """Project every row of a block, in place."""
    flat = block.reshape(-1)
    dim = block.shape[1]
    for i in range(block.shape[0]):
        project(code, numbers, 0, flat, i * dim, dim)


@compiled
def entropic_rows(anchors, directions, out):
    """Take one entropic step from every row of ``anchors`` along the row of ``directions``."""
    dim = anchors.shape[1]
    flat = out.reshape(-1)
    flat[:] = anchors.reshape(-1)
    steps = directions.reshape(-1)
    for i in range(anchors.shape[0]):
        entropic_step(flat, i * dim, i * dim, dim, 1.0, steps, i * dim)
