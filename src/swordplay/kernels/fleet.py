"""Many keyed learners: rows of a batch, grouped by key, each taken to the state row of its key.

A block is an array of state rows, one learner each; ``order`` lists the batch's rows, those of one
key together and in their order. Whatever order keys come in and on whatever thread, a key's rows
meet the very arithmetic of a learner of its own: ``ball.learn``, ``ensemble.learn`` or the default
pool's ``learn_row``. Answers and losses are compiled ``exact``, in the order they are written in.
"""

from __future__ import annotations

import math

import numpy as np

from swordplay.kernels.calls import learn_at
from swordplay.kernels.compiled import compiled
from swordplay.kernels.ensemble import LOOK, REFUSED
from swordplay.kernels.losses import paid, value_and_slope
from swordplay.kernels.pool import learn_row, predict_row
from swordplay.kernels.pool_compile import exact, exact_entry
from swordplay.kernels.pool_layout import C_FRAMES, H_DRIFT, WORK
from swordplay.state import AT_DECISION

# What is counted of every key, beside its state.
LEARNED, SKIPPED, LOSS, RECENT, PEAK, PEAK_ROW = range(6)
STATS = 6
RECENT_SHARE = 0.01  # of the newest loss in the recent mean, once a hundred were seen
SEASONED = 100.0  # rows before which nothing is usual, so that nothing can drift from it

EMPTY = -1  # an id that nobody has
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: neighbours land far apart


@compiled
def group(slots, low, size, order):
    """Write to ``order`` the rows sorted by slot; equal slots keep their order.

    Slots lie in low..low + size - 1.
    """
    starts = np.zeros(size + 1, dtype=np.int64)
    for t in range(slots.shape[0]):
        starts[slots[t] - low + 1] += 1
    for k in range(size):
        starts[k + 1] += starts[k]
    for t in range(slots.shape[0]):
        k = slots[t] - low
        order[starts[k]] = t
        starts[k] += 1


@exact
def place_of(key, shift):
    """Return where in a table of 2^(64 - shift) places the search for a key begins."""
    return np.int64((np.uint64(key) * _SPREAD) >> np.uint64(shift))


@compiled
def look_up(names, ids, shift, keys, first, last, out):
    """Write the ids of keys[first:last], EMPTY where one is new; return how many are."""
    mask = ids.shape[0] - 1
    unknown = 0
    for t in range(first, last):
        place = place_of(keys[t], shift)
        while ids[place] != EMPTY and names[place] != keys[t]:
            place = (place + 1) & mask
        out[t] = ids[place]
        unknown += ids[place] == EMPTY
    return unknown


@compiled
def enter(names, ids, shift, keys, count, out):
    """Give the keys whose id is EMPTY the next ids; return how many keys there are now."""
    mask = ids.shape[0] - 1
    for t in range(keys.shape[0]):
        if out[t] != EMPTY:
            continue
        place = place_of(keys[t], shift)
        while ids[place] != EMPTY and names[place] != keys[t]:
            place = (place + 1) & mask
        if ids[place] == EMPTY:
            names[place] = keys[t]
            ids[place] = count
            count += 1
        out[t] = ids[place]
    return count


@exact
def answer(row, at, X, t):
    """Return <x_t, features>, one product after the other."""
    total = 0.0
    for j in range(X.shape[1]):
        total += row[at + j] * X[t, j]
    return total


@exact
def count(stats, value):
    """Take one loss into a key's figures; one that overflows is left out, or it stayed for good."""
    stats[LEARNED] += 1.0
    if not math.isfinite(stats[LOSS] + value):
        return
    stats[LOSS] += value
    stats[RECENT] += (value - stats[RECENT]) * max(1.0 / stats[LEARNED], RECENT_SHARE)


@exact
def mark(stats, drift):
    """Keep the largest drift of a key, and after how many of its rows it was seen."""
    if stats[LEARNED] > SEASONED and drift > stats[PEAK]:
        stats[PEAK], stats[PEAK_ROW] = drift, stats[LEARNED]


@exact_entry
def learn_rows(block, stats, recipe, address, loss, number, order, slots, first, X, y, out):
    """Predict, then learn, the rows ``order``; return how many ended in the verdict LOOK.

    ``address`` is that of the learner's kernel (``calls.address_of_learn``).
    A row whose features or target are not finite, or whose gradient overflows, is not learned; its
    key counts it as skipped.
    """
    at, dim = int(recipe[AT_DECISION]), X.shape[1]
    gradient = np.zeros(dim, dtype=block.dtype)
    looks = 0
    for k in range(order.shape[0]):
        t = order[k]
        slot = slots[t] - first
        row = block[slot]
        prediction = answer(row, at, X, t)
        out[t] = prediction if math.isfinite(prediction) else math.nan
        if not (math.isfinite(prediction) and math.isfinite(y[t])):
            stats[slot, SKIPPED] += 1.0
            continue
        value, slope = paid(loss, number, y[t], prediction)
        for j in range(dim):
            gradient[j] = slope * X[t, j]
        verdict = learn_at(address, row, recipe, gradient)
        if verdict == REFUSED:
            stats[slot, SKIPPED] += 1.0
            continue
        looks += verdict == LOOK
        count(stats[slot], value)
        if stats[slot, LOSS] > 0.0:  # recent loss over usual
            mark(stats[slot], stats[slot, RECENT] * stats[slot, LEARNED] / stats[slot, LOSS])
    return looks


@exact_entry
def predict_rows(block, recipe, order, slots, first, X, out):
    """Predict the rows ``order``; nothing changes."""
    at = int(recipe[AT_DECISION])
    for k in range(order.shape[0]):
        t = order[k]
        prediction = answer(block[slots[t] - first], at, X, t)
        out[t] = prediction if math.isfinite(prediction) else math.nan


@exact
def bounded(X, t):
    """Tell whether no feature is infinite; NaN is a missing value."""
    for j in range(X.shape[1]):  # noqa: SIM110 - compiled
        if math.isinf(X[t, j]):
            return False
    return True


@exact
def pool_loss(loss, number, labels, y, prediction):
    """Return the loss of a pool's answer; that of labels is a probability."""
    if labels:
        return -math.log(prediction) if y > 0.5 else -math.log1p(-prediction)
    value, _ = value_and_slope(loss, number, y, prediction)
    return value


@exact_entry
def learn_pool_rows(block, stats, cfg, labels, loss, number, order, slots, first, X, y, out):
    """``learn_rows`` for the default pool; a missing feature is no obstacle."""
    work = np.zeros(int(cfg[WORK]))
    two = np.zeros(2)
    target = np.zeros(1)
    for k in range(order.shape[0]):
        t = order[k]
        slot = slots[t] - first
        if not bounded(X, t):
            out[t] = math.nan
            stats[slot, SKIPPED] += 1.0
            continue
        target[0] = y[t]
        taken = math.isfinite(y[t])
        learn_row(block[slot], cfg, X[t], target, 1.0 if taken else 0.0, work, two)
        out[t] = two[0]
        if taken:
            count(stats[slot], pool_loss(loss, number, labels, y[t], two[0]))
            mark(stats[slot], block[slot, int(cfg[C_FRAMES]) + H_DRIFT])
        else:
            stats[slot, SKIPPED] += 1.0
    return 0


@exact_entry
def predict_pool_rows(block, cfg, order, slots, first, X, out):
    """``predict_rows`` for the default pool."""
    work = np.zeros(int(cfg[WORK]))
    two = np.zeros(2)
    for k in range(order.shape[0]):
        t = order[k]
        if bounded(X, t):
            predict_row(block[slots[t] - first], cfg, X[t], work, two)
            out[t] = two[0]
        else:
            out[t] = math.nan
