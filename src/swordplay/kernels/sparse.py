r"""A one-gradient learner on a ball or on the whole space, against sparse rows.

A round costs N times the nonzeros of its row, not N d: anchors are kept as y_i = sigma_i z_i, so
that a projection is one multiplication, and |y_i|^2 is kept by the algebra of ``advance``. Every
REFRESH * d nonzeros both are computed anew, so that rounding does not build up. The
anchors lie feature by feature, so that a nonzero touches one place in memory and not N.
"""

from __future__ import annotations

import numpy as np

from swordplay.kernels.ball import (
    DOTS,
    LEANS,
    SCALES,
    SHRINKS,
    SQUARES,
    WEIGHTS,
    advance,
    decide,
    note,
    steps_of,
    table_of,
)
from swordplay.kernels.compiled import compiled, part
from swordplay.kernels.ensemble import head_of
from swordplay.kernels.losses import value_and_slope
from swordplay.state import (
    AT_ANCHORS,
    AT_GRADIENT,
    COUNT,
    DIM,
    HINT_KIND,
    IN_NUMBERS,
    QUERIES,
)

REFRESH = 20  # a refresh takes about a twentieth of the time between two
SMALLEST = 1e-150  # of sigma, before z would overflow


@part
def spread(row, recipe, block, sigma):
    """Copy the anchors of the row to the block, feature by feature."""
    count, dim, at = int(recipe[COUNT]), int(recipe[DIM]), int(recipe[AT_ANCHORS])
    sigma[:] = 1.0
    for j in range(dim):
        for i in range(count):
            block[j * count + i] = row[at + i * dim + j]


@part
def gather(row, recipe, table, block, sigma):
    """Copy the anchors of the block to the row, and measure them anew."""
    count, dim, at = int(recipe[COUNT]), int(recipe[DIM]), int(recipe[AT_ANCHORS])
    table[SQUARES, :] = 0.0
    for j in range(dim):
        for i in range(count):
            y = sigma[i] * block[j * count + i]
            row[at + i * dim + j] = y
            table[SQUARES, i] += y * y


@compiled
def play_sparse(
    row,
    recipe,
    values,
    columns,
    starts,
    targets,
    loss,
    number,
    origin,
    first,
    last,
    losses,
    every,
    decisions,
    weights,
    bases,
    anchors,
):
    """Play rounds first..last-1; return the round whose gradient was not finite, or ``last``.

    Row t - origin of the CSR matrix is that of round t.
    """
    head = head_of(row)
    table, steps = table_of(row, recipe), steps_of(recipe)
    count, dim = int(recipe[COUNT]), int(recipe[DIM])
    at_last, centre = int(recipe[AT_GRADIENT]), int(recipe[IN_NUMBERS])
    radius = recipe[centre + 2 * dim]
    hinted = recipe[HINT_KIND] > 0
    recorded = decisions.shape[0] + weights.shape[0] + bases.shape[0] + anchors.shape[0] > 0
    hint = row[at_last : at_last + dim]
    block = np.empty(count * dim)
    sigma = np.empty(count)
    spread(row, recipe, block, sigma)
    seen = np.full(dim, -1, dtype=np.int64)  # the last round in which a column was nonzero
    old_first, old_last = 0, 0  # the hint's nonzeros, once it is the gradient of a sparse row
    dense_hint = True
    work = 0.0
    reached = last

    for t in range(first, last):
        now = t - origin
        if recorded and t % every == 0:
            gather(row, recipe, table, block, sigma)
            note(row, recipe, table, steps, hinted, t, every, decisions, weights, bases, anchors)
        begin, end = starts[now], starts[now + 1]

        # <x_t, row>, with x_t = centre + sum p_i r_i (y_i - eta_i h)
        for i in range(count):
            table[DOTS, i] = 0.0
        norm = overlap = middle = 0.0
        for k in range(begin, end):
            j, x = columns[k], float(values[k])
            seen[j] = t
            norm += x * x
            overlap += x * hint[j]
            middle += x * recipe[centre + j]
            at = j * count
            for i in range(count):
                table[DOTS, i] += x * block[at + i]
        prediction = middle
        for i in range(count):
            table[DOTS, i] *= sigma[i]
            step = steps[i] if hinted else 0.0
            away = table[SHRINKS, i] * (table[DOTS, i] - step * overlap)
            prediction += table[WEIGHTS, i] * away
        losses[t], slope = value_and_slope(loss, number, float(targets[now]), prediction)

        energy = slope * slope * norm
        variation = 0.0
        for k in range(begin, end):
            gap = slope * values[k] - hint[columns[k]]
            variation += gap * gap
        if dense_hint:
            for j in range(dim):
                if seen[j] != t:
                    variation += hint[j] * hint[j]
        else:
            for k in range(old_first, old_last):
                if seen[columns[k]] != t:
                    variation += hint[columns[k]] * hint[columns[k]]
        product = slope * overlap if hinted else 0.0
        surprise = variation if hinted else energy
        if not advance(
            head, recipe, table, steps, radius, hinted, slope, energy, product, surprise, variation
        ):
            reached = t
            break
        head[QUERIES] += 1.0

        if dense_hint:
            hint[:] = 0.0
            dense_hint = False
        else:
            for k in range(old_first, old_last):
                hint[columns[k]] = 0.0
        for k in range(begin, end):
            hint[columns[k]] = slope * values[k]
        old_first, old_last = begin, end

        # y <- s (y - eta g) and |y|^2 with it; dots hold nothing any more, and take the steps
        smallest = 1.0
        for i in range(count):
            step = steps[i]
            along = table[LEANS, i] / table[SCALES, i] + step * energy  # <y, g> before the step
            square = table[SQUARES, i] - 2.0 * step * along + step * step * energy
            table[SQUARES, i] = max(square, 0.0) * table[SCALES, i] * table[SCALES, i]
            table[DOTS, i] = step * slope / sigma[i]
            sigma[i] *= table[SCALES, i]
            smallest = min(smallest, sigma[i])
        for k in range(begin, end):
            x = float(values[k])
            at = columns[k] * count
            for i in range(count):
                block[at + i] -= table[DOTS, i] * x
        work += end - begin + 1
        if smallest < SMALLEST or work > REFRESH * dim:
            gather(row, recipe, table, block, sigma)
            spread(row, recipe, block, sigma)
            work = 0.0
    gather(row, recipe, table, block, sigma)
    decide(row, recipe, table, steps, hinted)
    return reached
