"""The value and the slope of a linear model's loss, one number at a time."""

from __future__ import annotations

import math

from swordplay.kernels.codes import ABSOLUTE, HUBER, LOGISTIC, PINBALL, SQUARED
from swordplay.kernels.compiled import inlined
from swordplay.kernels.pool_compile import exact, exact_entry


@inlined
def value_and_slope(code, number, y, prediction):
    """Return loss(y, prediction) and its derivative in the prediction (0 at a kink)."""
    residual = prediction - y
    if code == SQUARED:
        return 0.5 * residual * residual, residual
    if code == HUBER:
        size = abs(residual)
        if size <= number:
            return 0.5 * residual * residual, residual
        return number * (size - 0.5 * number), number if residual > 0 else -number
    if code == LOGISTIC:
        margin = y * prediction
        decay = math.exp(-abs(margin))
        value = math.log1p(decay) + max(-margin, 0.0)
        return value, -y * (decay if margin >= 0 else 1.0) / (1.0 + decay)
    if code == ABSOLUTE:
        if residual > 0:
            return residual, 1.0
        return -residual, -1.0 if residual < 0 else 0.0
    if code == PINBALL:
        if residual > 0:
            return (1.0 - number) * residual, 1.0 - number
        return -number * residual, -number if residual < 0 else 0.0
    return math.nan, math.nan


@exact
def paid(loss, number, y, prediction):
    """Return the loss and its slope, computed in the order they are written in."""
    return value_and_slope(loss, number, y, prediction)


@exact_entry
def pay(loss, number, y, predictions, values, slopes):
    """Write many losses and their slopes, to the bit those of a fleet."""
    for t in range(y.shape[0]):
        values[t], slopes[t] = paid(loss, number, y[t], predictions[t])
