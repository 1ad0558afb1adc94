"""A one-gradient learner on a ball or on the whole space, against dense rows: the hottest loop."""

from __future__ import annotations

import numpy as np

from swordplay.kernels.ball import (
    DOTS,
    SCALES,
    SHRINKS,
    SQUARES,
    WEIGHTS,
    advance,
    decide,
    steps_of,
    table_of,
)
from swordplay.kernels.compiled import borrow, compiled, inlined
from swordplay.kernels.ensemble import head_of
from swordplay.kernels.losses import value_and_slope
from swordplay.state import (
    AT_ANCHORS,
    AT_DECISION,
    AT_GRADIENT,
    COUNT,
    DIM,
    HINT_KIND,
    IN_NUMBERS,
    QUERIES,
)


@inlined
def note(row, recipe, table, steps, hinted, t, every, decisions, weights, bases, anchors):
    """Record round t, if anybody asked."""
    count, dim = int(recipe[COUNT]), int(recipe[DIM])
    k = t // every
    centre, first, hint = int(recipe[IN_NUMBERS]), int(recipe[AT_ANCHORS]), int(recipe[AT_GRADIENT])
    if decisions.shape[0] > 0:
        decide(row, recipe, table, steps, hinted)
        at = int(recipe[AT_DECISION])
        for j in range(dim):
            decisions[k, j] = row[at + j]
    if weights.shape[0] > 0:
        for i in range(count):
            weights[k, i] = table[WEIGHTS, i]
    if bases.shape[0] > 0:
        for i in range(count):
            step = steps[i] if hinted else 0.0
            for j in range(dim):
                away = table[SHRINKS, i] * (row[first + i * dim + j] - step * row[hint + j])
                bases[k, i * dim + j] = recipe[centre + j] + away
    if anchors.shape[0] > 0:
        for i in range(count):
            for j in range(dim):
                anchors[k, i * dim + j] = recipe[centre + j] + row[first + i * dim + j]


@compiled
def play_dense(
    row,
    recipe,
    features,
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

    Row 0 of ``features`` is that of round ``origin``. Records that nobody asked for have no rows.
    """
    row, recipe = borrow(row), borrow(recipe)
    head = head_of(row)
    table, steps = table_of(row, recipe), steps_of(recipe)
    count, dim = int(recipe[COUNT]), int(recipe[DIM])
    at, at_last = int(recipe[AT_ANCHORS]), int(recipe[AT_GRADIENT])
    block = row[at : at + count * dim].reshape(count, dim)
    centre = int(recipe[IN_NUMBERS])
    radius = recipe[centre + 2 * dim]
    hinted = recipe[HINT_KIND] > 0
    recorded = decisions.shape[0] + weights.shape[0] + bases.shape[0] + anchors.shape[0] > 0
    middle = np.zeros(dim, dtype=row.dtype)
    off_centre = False
    for j in range(dim):
        middle[j] = recipe[centre + j]
        off_centre = off_centre or middle[j] != 0.0
    hint = row[at_last : at_last + dim]
    # Indices that begin at 0 spare the compiler a look at negative ones, in every loop.
    features, targets = features[first - origin :], targets[first - origin :]
    losses = losses[first:last]
    rounds = last - first
    reached = last

    # <x_first, features_first>, before the loop that always knows the next row's
    prediction = 0.0
    overlap = 0.0
    for j in range(dim):
        overlap += features[0, j] * hint[j]
    for i in range(count):
        along = 0.0
        for j in range(dim):
            along += block[i, j] * features[0, j]
        table[DOTS, i] = along
        step = steps[i] if hinted else 0.0
        prediction += table[WEIGHTS, i] * table[SHRINKS, i] * (along - step * overlap)

    for now in range(rounds):
        if recorded and (first + now) % every == 0:
            t = first + now
            note(row, recipe, table, steps, hinted, t, every, decisions, weights, bases, anchors)
        if off_centre:
            for j in range(dim):
                prediction += middle[j] * features[now, j]
        losses[now], k = value_and_slope(loss, number, float(targets[now]), prediction)

        following = now + 1 if now + 1 < rounds else now
        norm = product = variation = overlap = 0.0
        for j in range(dim):
            x = float(features[now, j])
            g = k * x
            h = hint[j]
            norm += x * x
            product += g * h
            variation += (g - h) * (g - h)
            overlap += x * features[following, j]
        energy = k * k * norm
        if not hinted:
            product = 0.0
        surprise = variation if hinted else energy
        if not advance(
            head, recipe, table, steps, radius, hinted, k, energy, product, surprise, variation
        ):
            reached = first + now
            break
        head[QUERIES] += 1.0
        for j in range(dim):
            hint[j] = k * features[now, j]

        prediction = 0.0
        for i in range(count):
            scale = table[SCALES, i]
            step = steps[i] * k
            square = along = 0.0
            for j in range(dim):
                y = scale * (block[i, j] - step * features[now, j])
                block[i, j] = y
                square += y * y
                along += y * features[following, j]
            table[SQUARES, i] = square
            table[DOTS, i] = along
            lean = step if hinted else 0.0
            prediction += table[WEIGHTS, i] * table[SHRINKS, i] * (along - lean * overlap)
    decide(row, recipe, table, steps, hinted)
    return reached
