r"""A one-gradient learner on a ball or on the whole space, against sparse rows.

A round costs N times the nonzeros of its row, not N d: anchors are kept as y_i = sigma_i z_i, so
that a projection is one multiplication, and |y_i|^2 is kept by the algebra of ``advance``. Every
REFRESH * d nonzeros both are computed anew, so that rounding does not build up.

What is left is waiting for memory. The anchors lie feature by feature, so that a nonzero touches
one place and not N; two rows are compared by merging their columns, not through an array of d; and
the places of the next row are touched before they are needed.
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
    steps_of,
    table_of,
)
from swordplay.kernels.ball_stream import note
from swordplay.kernels.compiled import borrow, compiled, part
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


@part
def write_hint(hint, values, columns, begin, end, slope):
    """Write slope * row to the place of the last gradient."""
    hint[:] = 0.0
    for k in range(begin, end):
        hint[columns[k]] = slope * values[k]


@part
def merge(values, columns, begin, end, old_begin, old_end, shared):
    """Compare two rows, without branches that the processor would have to guess.

    The entries that share a column are noted in pairs. Returned are their number, the inner product
    of the rows, and the sums of squares of what only the new and only the old row has.
    """
    pairs = 0
    product = only_new = only_old = 0.0
    k, o = begin, old_begin
    while k < end and o < old_end:
        new, old = columns[k], columns[o]
        x, z = float(values[k]), float(values[o])
        if new == old:
            shared[pairs, 0], shared[pairs, 1] = x, z
            pairs += 1
            product += x * z
        only_new += x * x * (new < old)
        only_old += z * z * (old < new)
        k += new <= old
        o += old <= new
    for rest in range(k, end):
        only_new += values[rest] * values[rest]
    for rest in range(o, old_end):
        only_old += values[rest] * values[rest]
    return pairs, product, only_new, only_old


@part
def merge_dense(values, columns, begin, end, hint, shared):
    """Compare the first row with a hint that may have any coordinates, as ``merge`` does."""
    product = only_old = 0.0
    for j in range(len(hint)):
        only_old += hint[j] * hint[j]
    for k in range(begin, end):
        x, z = float(values[k]), float(hint[columns[k]])
        shared[k - begin, 0], shared[k - begin, 1] = x, z
        product += x * z
        only_old -= z * z
    return end - begin, product, 0.0, max(only_old, 0.0)


@compiled
def play_sparse(
    row,
    recipe,
    values,
    columns,
    starts,
    block,
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

    Row t - origin of the CSR matrix is that of round t; its columns are in order. ``block`` is room
    for N d floats (NumPy asks the system for large pages, compiled code cannot).
    """
    row, recipe = borrow(row), borrow(recipe)
    head = head_of(row)
    table, steps = table_of(row, recipe), steps_of(recipe)
    count, dim = int(recipe[COUNT]), int(recipe[DIM])
    at_last, centre = int(recipe[AT_GRADIENT]), int(recipe[IN_NUMBERS])
    radius = recipe[centre + 2 * dim]
    hinted = recipe[HINT_KIND] > 0
    recorded = decisions.shape[0] + weights.shape[0] + bases.shape[0] + anchors.shape[0] > 0
    off_centre = False
    for j in range(dim):
        off_centre = off_centre or recipe[centre + j] != 0.0
    hint = row[at_last : at_last + dim]
    sigma = np.empty(count)
    spread(row, recipe, block, sigma)
    old_begin, old_end, old_slope = 0, 0, 1.0  # the row whose multiple the hint is
    longest = 0
    for now in range(last - first):
        longest = max(longest, int(starts[first - origin + now + 1] - starts[first - origin + now]))
    shared = np.empty((longest, 2))
    dense_hint = True
    work = 0.0
    warm = 0.0
    reached = last

    for t in range(first, last):
        now = t - origin
        begin, end = int(starts[now]), int(starts[now + 1])
        if recorded and t % every == 0:
            gather(row, recipe, table, block, sigma)
            if not dense_hint:
                write_hint(hint, values, columns, old_begin, old_end, old_slope)
            note(row, recipe, table, steps, hinted, t, every, decisions, weights, bases, anchors)

        # <x_t, row>, with x_t = centre + sum p_i r_i (y_i - eta_i h)
        for i in range(count):
            table[DOTS, i] = 0.0
        norm = prediction = 0.0
        for k in range(begin, end):
            j, x = columns[k], float(values[k])
            norm += x * x
            if off_centre:
                prediction += x * recipe[centre + j]
            at = j * count
            for i in range(count):
                table[DOTS, i] += x * block[at + i]
        if dense_hint:
            pairs, overlap, only_new, only_old = merge_dense(
                values, columns, begin, end, hint, shared
            )
        else:
            pairs, overlap, only_new, only_old = merge(
                values, columns, begin, end, old_begin, old_end, shared
            )
        overlap *= old_slope
        for i in range(count):
            table[DOTS, i] *= sigma[i]
            step = steps[i] if hinted else 0.0
            away = table[SHRINKS, i] * (table[DOTS, i] - step * overlap)
            prediction += table[WEIGHTS, i] * away
        losses[t], slope = value_and_slope(loss, number, float(targets[now]), prediction)

        energy = slope * slope * norm
        variation = slope * slope * only_new + old_slope * old_slope * only_old
        for k in range(pairs):
            gap = slope * shared[k, 0] - old_slope * shared[k, 1]
            variation += gap * gap
        product = slope * overlap if hinted else 0.0
        surprise = variation if hinted else energy
        if not advance(
            head, recipe, table, steps, radius, hinted, slope, energy, product, surprise, variation
        ):
            reached = t
            break
        head[QUERIES] += 1.0
        dense_hint = False
        old_begin, old_end, old_slope = begin, end, slope
        if t + 1 < last:
            for k in range(end, int(starts[now + 2])):
                warm += block[columns[k] * count]

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
    if not dense_hint:
        write_hint(hint, values, columns, old_begin, old_end, old_slope)
    decide(row, recipe, table, steps, hinted)
    block[0] = warm  # means nothing, but a sum that nobody reads would not be computed at all
    return reached
