r"""One round of a one-gradient learner on a ball or on the whole space, in two passes over memory.

With y_i = x^_{t,i} - centre and the last gradient h as the hint (or h = 0), every base decision is

    x_{t,i} = centre + r_i (y_i - eta_i h),    r_i = min(1, R / |y_i - eta_i h|)

so it is not stored. Its losses, hints and moves follow from the scalars |y_i|^2, <y_i, h> and
<y_i, g> and from inner products of g and h; ``advance`` does that algebra, for dense and sparse
rows, and leaves the projections' scales. What remains is y_i <- s_i (y_i - eta_i g), a single pass
in which the inner products with the next row are taken too.
"""

from __future__ import annotations

import math

from swordplay.kernels.compiled import borrow, compiled, inlined
from swordplay.kernels.ensemble import REFUSED, head_of, rate, verdict
from swordplay.state import (
    ADAPTIVITY,
    AT_ANCHORS,
    AT_DECISION,
    AT_GRADIENT,
    AT_TABLE,
    CORRECTION,
    COUNT,
    DIM,
    ENERGY,
    HINT_KIND,
    IN_NUMBERS,
    IN_STEPS,
    META_STABILITY,
    MIX_STABILITY,
    QUERIES,
    RATE,
    ROUND,
    SHIFT,
    SPENT,
    STEEPEST,
    VARIATION,
)

TILE = 256  # coordinates that stay in the cache while all base learners pass over them


# Rows of the table: one float a base learner.
LOG_PRIOR, TOTALS, WEIGHTS, MOVED, TRAVEL = range(5)
SQUARES = 5  # |y_i|^2
SHRINKS = 6  # r_i
LEANS = 7  # <y_i, h>
DOTS = 8  # <y_i, g>, in units of the row that g is a multiple of
SCALES = 9  # s_i
TABLE = 10


@inlined
def table_of(row, recipe):
    """Return the table of a row."""
    count, at = int(recipe[COUNT]), int(recipe[AT_TABLE])
    return row[at : at + TABLE * count].reshape(TABLE, count)


@inlined
def steps_of(recipe):
    """Return the step sizes."""
    count, at = int(recipe[COUNT]), int(recipe[IN_STEPS])
    return recipe[at : at + count]


@inlined
def advance(
    head, recipe, table, steps, radius, hinted, k, energy, hint_product, surprise, variation
):
    """Take g = k * row in, given <y_i, row> in ``dots``; return False if it is not finite.

    ``energy`` is |g|^2, ``hint_product`` <g, h>, ``surprise`` |g - h|^2, ``variation`` the squared
    change since the last gradient. Afterwards the weights are p_{t+1} and ``scales`` and
    ``shrinks`` are those of round t + 1; the anchors still are those of round t.
    """
    if not (math.isfinite(energy) and math.isfinite(surprise)):
        return False
    count = len(steps)
    head[META_STABILITY] += head[SHIFT]
    head[ADAPTIVITY] += surprise
    head[ENERGY] += energy
    if head[ROUND] > 0:
        head[VARIATION] += variation
    head[SPENT] += head[RATE] * surprise
    head[STEEPEST] = max(head[STEEPEST], energy)
    head[ROUND] += 1.0
    eps = rate(head, recipe)
    head[RATE] = eps

    limit = radius * radius
    strength = recipe[CORRECTION]
    hint_gap = energy - hint_product  # <g, g - h>
    free = energy + surprise + 2.0 * hint_gap if hinted else energy  # |2g - h|^2 or |g|^2
    lean = 1.0 if hinted else 0.0
    best = math.inf
    top = -math.inf
    mixed = 0.0
    for i in range(count):
        eta = steps[i]
        along = k * table[DOTS, i]  # <y, g>
        last_distance = table[MOVED, i]
        mixed += table[WEIGHTS, i] * last_distance
        table[TRAVEL, i] += last_distance
        paid = table[TOTALS, i] + strength * last_distance
        # y' = s (y - eta g), x' = r' (y' - eta M) with M = g or 0
        square = table[SQUARES, i] - 2.0 * eta * along + eta * eta * energy
        next_along = along - eta * energy  # <y', g> while s = 1
        next_square = square - lean * (2.0 * eta * next_along - eta * eta * energy)
        if square <= limit and next_square <= limit and table[SHRINKS, i] == 1.0:
            paid += along - lean * eta * hint_product
            distance = eta * eta * free
            scale = shrink = 1.0
        else:
            r = table[SHRINKS, i]
            paid += r * (along - lean * eta * hint_product)
            scale = radius / math.sqrt(square) if square > limit else 1.0
            next_along *= scale
            square *= scale * scale
            next_square = square - lean * (2.0 * eta * next_along - eta * eta * energy)
            shrink = radius / math.sqrt(next_square) if next_square > limit else 1.0
            # x' - x = a y + b g - c (g - h), and with h = 0, M = 0: a y + b g
            a = shrink * scale - r
            if hinted:
                b = -eta * (shrink * scale + shrink - r)
                c = r * eta
            else:
                b = -eta * shrink * scale
                c = 0.0
            distance = a * a * table[SQUARES, i] + b * b * energy + 2.0 * a * b * along
            distance += c * (c * surprise - 2.0 * (a * (along - table[LEANS, i]) + b * hint_gap))
            distance = max(distance, 0.0)
        table[TOTALS, i] = paid
        best = min(best, paid)
        table[MOVED, i] = distance
        table[SCALES, i] = scale
        table[SHRINKS, i] = shrink
        table[LEANS, i] = next_along
        hint = lean * shrink * (next_along - eta * energy)
        score = table[LOG_PRIOR, i] - eps * (paid + hint + strength * distance)
        table[DOTS, i] = score  # room until the pass over memory takes the next dots
        top = max(top, table[DOTS, i])  # as the row holds it: float32 may round it down
    head[MIX_STABILITY] += mixed
    total = 0.0
    for i in range(count):
        table[TOTALS, i] -= best  # only differences matter
        table[DOTS, i] = math.exp(table[DOTS, i] - top)
        total += table[DOTS, i]
    shift = 0.0
    for i in range(count):
        share = table[DOTS, i] / total
        shift += abs(share - table[WEIGHTS, i])
        table[WEIGHTS, i] = share
    head[SHIFT] = shift * shift
    return True


@inlined
def decide(row, recipe, table, steps, hinted):
    """Write x_{t+1} = centre + sum p_i r_i (y_i - eta_i h), tile by tile."""
    count, dim = int(recipe[COUNT]), int(recipe[DIM])
    anchors, decision = int(recipe[AT_ANCHORS]), int(recipe[AT_DECISION])
    hint, centre = int(recipe[AT_GRADIENT]), int(recipe[IN_NUMBERS])
    pull = 0.0
    if hinted:
        for i in range(count):
            pull += table[WEIGHTS, i] * table[SHRINKS, i] * steps[i]
    for first in range(0, dim, TILE):
        last = min(dim, first + TILE)
        for j in range(first, last):
            row[decision + j] = recipe[centre + j] - pull * row[hint + j]
        for i in range(count):
            share = table[WEIGHTS, i] * table[SHRINKS, i]
            at = anchors + i * dim
            for j in range(first, last):
                row[decision + j] += share * row[at + j]


@inlined
def move_one(table, steps, block, i, first, end, new, mean):
    """Y <- s (y - eta g) on a tile; add to |y|^2 and to the decision."""
    scale, step = table[SCALES, i], steps[i]
    share = table[WEIGHTS, i] * table[SHRINKS, i]
    anchor = block[i, first:end]
    square = 0.0
    for j in range(end - first):
        y = scale * (anchor[j] - step * new[j])
        anchor[j] = y
        square += y * y
        mean[j] += share * y
    table[SQUARES, i] += square


@inlined
def move_two(table, steps, block, i, first, end, new, mean):
    """``move_one`` for i and i + 1 together: the decision is read and written half as often."""
    scale, step = table[SCALES, i], steps[i]
    scale_2, step_2 = table[SCALES, i + 1], steps[i + 1]
    share = table[WEIGHTS, i] * table[SHRINKS, i]
    share_2 = table[WEIGHTS, i + 1] * table[SHRINKS, i + 1]
    anchor, anchor_2 = block[i, first:end], block[i + 1, first:end]
    square = square_2 = 0.0
    for j in range(end - first):
        y = scale * (anchor[j] - step * new[j])
        z = scale_2 * (anchor_2[j] - step_2 * new[j])
        anchor[j] = y
        anchor_2[j] = z
        square += y * y
        square_2 += z * z
        mean[j] += share * y + share_2 * z
    table[SQUARES, i] += square
    table[SQUARES, i + 1] += square_2


@compiled
def learn(row, recipe, gradient):
    """Take one gradient in; return a verdict: REFUSED (and nothing changed), FINE or LOOK."""
    row, recipe = borrow(row), borrow(recipe)
    head = head_of(row)
    table, steps = table_of(row, recipe), steps_of(recipe)
    count, dim = int(recipe[COUNT]), int(recipe[DIM])
    at = int(recipe[AT_ANCHORS])
    block = row[at : at + count * dim].reshape(count, dim)
    at = int(recipe[AT_GRADIENT])
    last = row[at : at + dim]
    at = int(recipe[AT_DECISION])
    decision = row[at : at + dim]
    at = int(recipe[IN_NUMBERS])
    centre, radius = recipe[at : at + dim], recipe[at + 2 * dim]
    hinted = recipe[HINT_KIND] > 0
    energy = product = variation = 0.0
    for j in range(dim):
        g = float(gradient[j])
        h = last[j]
        energy += g * g
        product += g * h
        variation += (g - h) * (g - h)
    if not (math.isfinite(energy) and math.isfinite(variation)):
        return REFUSED
    for i in range(count):
        along = 0.0
        for j in range(dim):
            along += block[i, j] * gradient[j]
        table[DOTS, i] = along
    if not hinted:
        product = 0.0
    surprise = variation if hinted else energy
    if not advance(
        head, recipe, table, steps, radius, hinted, 1.0, energy, product, surprise, variation
    ):
        return REFUSED
    head[QUERIES] += 1.0
    pull = 0.0
    for i in range(count):
        table[SQUARES, i] = 0.0
        if hinted:
            pull += table[WEIGHTS, i] * table[SHRINKS, i] * steps[i]
    for first in range(0, dim, TILE):
        # Slices, so that every index begins at 0 (see play_dense).
        end = min(dim, first + TILE)
        new, old, middle = gradient[first:end], last[first:end], centre[first:end]
        mean = decision[first:end]
        for j in range(end - first):
            old[j] = new[j]
            mean[j] = middle[j] - pull * new[j]
        for i in range(0, count - 1, 2):
            move_two(table, steps, block, i, first, end, new, mean)
        if count % 2:
            move_one(table, steps, block, count - 1, first, end, new, mean)
    return verdict(head, recipe)
