"""A learner against a whole linear stream, without leaving compiled code."""

from __future__ import annotations

import math

import numpy as np

from swordplay.kernels.compiled import compiled, part
from swordplay.kernels.ensemble import (
    asks_mixture,
    head_of,
    learn_one_gradient,
    learn_own_gradients,
    weigh_mixture,
)
from swordplay.kernels.losses import value_and_slope
from swordplay.state import (
    AT_ANCHORS,
    AT_BASES,
    AT_DECISION,
    AT_WEIGHTS,
    COUNT,
    DIM,
    OWN,
    QUERIES,
)


@part
def predict(row, at, features, t, dim):
    """Return <features[t], row[at : at + dim]>."""
    total = 0.0
    for j in range(dim):
        total += features[t, j] * row[at + j]
    return total


@part
def note(row, at, size, t, every, out):
    """Copy ``size`` floats of the row to the record, if this round is recorded."""
    if out.shape[0] > 0 and t % every == 0:
        for k in range(size):
            out[t // every, k] = row[at + k]


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
    count, dim = int(recipe[COUNT]), int(recipe[DIM])
    at = int(recipe[AT_DECISION])
    at_bases = int(recipe[AT_BASES])
    head = head_of(row)
    many = recipe[OWN] > 0
    mixture = asks_mixture(recipe)
    gradient = np.zeros(dim, dtype=row.dtype)
    own = np.zeros(count * dim if many else 0, dtype=row.dtype)
    for t in range(first, last):
        note(row, at, dim, t, every, decisions)
        note(row, int(recipe[AT_WEIGHTS]), count, t, every, weights)
        note(row, at_bases, count * dim, t, every, bases)
        note(row, int(recipe[AT_ANCHORS]), count * dim, t, every, anchors)
        now = t - origin
        y = float(targets[now])
        value, slope = value_and_slope(loss, number, y, predict(row, at, features, now, dim))
        losses[t] = value
        for j in range(dim):
            gradient[j] = slope * features[now, j]
        if not many:
            if not learn_one_gradient(head, row, recipe, gradient, 0):
                return t
            continue
        for i in range(count):
            guess = predict(row, at_bases + i * dim, features, now, dim)
            _, slope = value_and_slope(loss, number, y, guess)
            for j in range(dim):
                own[i * dim + j] = slope * features[now, j]
        if not learn_own_gradients(head, row, recipe, gradient, own):
            return t
        head[QUERIES] += count + 1.0
        if mixture:
            _, slope = value_and_slope(loss, number, y, predict(row, at, features, now, dim))
            energy = 0.0
            for j in range(dim):
                gradient[j] = slope * features[now, j]
                energy += float(gradient[j]) * gradient[j]
            if not math.isfinite(energy):
                return t
            head[QUERIES] += 1.0
        weigh_mixture(head, row, recipe, gradient)
    return last
