"""Rare changes of a pool's shape, in NumPy: new columns, new classes."""

from __future__ import annotations

import numpy as np

from swordplay._types import Array
from swordplay.kernels import pool_layout as at
from swordplay.kernels.pool_layout import CHANGE, LINEAR, LOGISTIC
from swordplay.kernels.pool_plan import (
    Layout,
    diagonal_of,
    fresh_frames,
    fresh_learner,
    groups_of,
)


def widen(row: Array, old: Layout, new: Layout) -> Array:
    """Return the state for more columns: the first ones are the old ones, the others were 0."""
    outputs = (row.size - old.frames) // old.learner
    learners = row[old.frames :].reshape(outputs, old.learner)
    d, more = int(old.config[at.C_DIM]), int(new.config[at.C_DIM])
    frames = fresh_frames(new)
    frames[0] = row[0]
    fields = frames[at.FRAMES_HEAD :].reshape(at.FIELDS, more)
    fields[:, :d] = row[at.FRAMES_HEAD : old.frames].reshape(at.FIELDS, d)
    if row[0] > 0:
        fields[at.F_N, d:] = 1.0
    return np.concatenate([frames, *[_widen_learner(learner, old, new) for learner in learners]])


def _widen_learner(source: Array, old: Layout, new: Layout) -> Array:
    target = fresh_learner(new)
    a, b = old.config, new.config
    d, more = int(a[at.C_DIM]), int(b[at.C_DIM])
    logistic = a[at.C_LOSS] == LOGISTIC
    target[: at.HEAD] = source[: at.HEAD]
    for name, size in (
        (at.O_TARGET, at.FIELDS),
        (at.O_TWIN, 12 * int(a[at.C_QUADS]) if a[at.C_TWINS] else 0),
        (at.O_TOP, at.CANDIDATES),
        (at.O_HISTORY, 2 * at.HISTORY),
    ):
        target[int(b[name]) : int(b[name]) + size] = source[int(a[name]) : int(a[name]) + size]
    blocks = [(at.O_FIRST, int(a[at.C_QUADS]))]
    blocks += [(at.O_DIAGONAL, 2)] if a[at.C_DIAGONAL] and b[at.C_DIAGONAL] else []
    for name, count in blocks:
        for k in range(count):
            have = int(a[name]) + 4 * (d + 1) * k
            give = int(b[name]) + 4 * (more + 1) * k
            target[give : give + 4 * (d + 1)] = source[have : have + 4 * (d + 1)]

    views = {group[0]: group for group in groups_of(old)}
    for view, n, w, P, stats in groups_of(new):
        if view not in views:
            continue
        _, m, w0, P0, stats0 = views[view]
        keep = np.arange(m)  # where the old features went: [1, z, ...]
        if view != LINEAR:
            keep[1 + d :] += more - d
        if view == CHANGE and logistic:
            keep[1 + 2 * d :] += more - d
        target[w : w + 4 * n].reshape(n, 4)[keep] = source[w0 : w0 + 4 * m].reshape(m, 4)
        i, j = np.triu_indices(m)
        big_i, big_j = keep[i], keep[j]
        packed = big_i * n - big_i * (big_i - 1) // 2 + big_j - big_i
        matrices = target[P : P + 2 * n * (n + 1)].reshape(-1, 4)
        matrices[packed] = source[P0 : P0 + 2 * m * (m + 1)].reshape(-1, 4)
        target[stats : stats + at.STATS] = source[stats0 : stats0 + at.STATS]
        target[stats : stats + 4] = matrices[diagonal_of(n)].sum(axis=0)

    count = len(new.names)
    place = {name: k for k, name in enumerate(old.names)}
    both = [(k, place[name]) for k, name in enumerate(new.names) if name in place]
    to, back = (np.array(side) for side in zip(*both, strict=True))
    for name in (at.O_HEDGE, at.O_MIX):
        mine = target[int(b[name]) : int(b[name]) + 4 * count].reshape(count, 4)
        theirs = source[int(a[name]) : int(a[name]) + 4 * len(old.names)].reshape(-1, 4)
        if name == at.O_MIX:
            mine[:] = 0.0
        mine[to] = theirs[back]
        if name == at.O_HEDGE:
            mine /= mine.sum(axis=0)
    return target


def mirror(learner: Array, lay: Layout) -> Array:
    """Return the learner of the opposite label: it says 1 - p, now and ever after."""
    cfg = lay.config
    d = int(cfg[at.C_DIM])
    out = learner.copy()
    out[[at.H_LAST, at.H_LAST2]] *= -1
    first = int(cfg[at.O_FIRST])
    out[first : first + 4 * int(cfg[at.C_QUADS]) * (d + 1)] *= -1
    if cfg[at.C_DIAGONAL]:
        start = int(cfg[at.O_DIAGONAL])
        out[start : start + 4 * (d + 1)] *= -1
    for view, n, w, P, _ in groups_of(lay):
        sign = np.ones(n)
        if view == CHANGE:
            sign[-2:] = -1.0  # the last labels, themselves mirrored
        out[w : w + 4 * n] *= -np.repeat(sign, 4)
        i, j = np.triu_indices(n)
        out[P : P + 2 * n * (n + 1)] *= np.repeat(sign[i] * sign[j], 4)
    return out


def newcomer(lay: Layout, rounds: float) -> Array:
    """Return the learner of a label that was absent for so many rows: its odds begin at 1/rows."""
    cfg = lay.config
    d = int(cfg[at.C_DIM])
    learner = fresh_learner(lay)
    prior = -min(np.log1p(rounds), 8.0)
    blocks = [(int(cfg[at.O_FIRST]) + 4 * k * (d + 1)) for k in range(int(cfg[at.C_QUADS]))]
    blocks += [int(cfg[at.O_DIAGONAL])] if cfg[at.C_DIAGONAL] else []
    blocks += [w for _, _, w, _, _ in groups_of(lay)]
    for start in blocks:
        learner[start : start + 4] = prior  # the intercept
    learner[[at.H_LAST, at.H_LAST2]] = -1.0
    return learner
