"""Scaling: every column is seen through a frame, z = (x - centre) / scale.

Running mean and variance wander with the column; its frame stays put until they have left it by
half a deviation or by a factor of 1.5. Then the frame jumps and every learner is re-expressed
(``pool_reframe``), so that no prediction changes: learners live on standardised columns, yet their
coordinates never drift under them.
"""

from __future__ import annotations

import math

from swordplay.kernels.pool_compile import exact
from swordplay.kernels.pool_layout import (
    BLOCK,
    C_CLIP,
    C_DIM,
    C_GROUPS,
    C_JOIN,
    C_LOSS,
    C_MEMORY,
    CHANGE,
    F_BLOCK_MEAN,
    F_BLOCK_SQUARES,
    F_BOUND,
    F_CENTRE,
    F_INVERSE,
    F_LAST,
    F_MEAN,
    F_MOVES,
    F_N,
    F_SCALE,
    F_VAR,
    FRAMES_HEAD,
    H_LAST,
    H_LAST2,
    HUGE,
    LOGISTIC,
    SQUARE,
    W_VIEW,
)

# What `observe` has to say about a column.
STAYS, MOVES, OUTLIVED = range(3)


@exact
def views(frames, cfg, x, work):
    """Write what the experts look at: [1, z], then CHANGE and SQUARE, 2d + 4 floats apart.

    CHANGE is [1, dz, ...] for values and [1, z, dz, ...] for labels (``lags`` adds the rest);
    SQUARE is [1, z, z^2 - 1] with z cut at 3. A missing value (NaN) reads as the column's mean.
    """
    d = int(cfg[C_DIM])
    at = FRAMES_HEAD
    mean = frames[at + F_MEAN * d : at + F_MEAN * d + d]
    centre = frames[at + F_CENTRE * d : at + F_CENTRE * d + d]
    inverse = frames[at + F_INVERSE * d : at + F_INVERSE * d + d]  # 0 without a frame: z = 0
    seen = frames[at + F_N * d : at + F_N * d + d]
    bound = frames[at + F_BOUND * d : at + F_BOUND * d + d]
    last = frames[at + F_LAST * d : at + F_LAST * d + d]
    linear = int(cfg[W_VIEW])
    change = linear + CHANGE * (2 * d + 4)
    square = linear + SQUARE * (2 * d + 4)
    z = work[linear + 1 : linear + 1 + d]
    work[linear] = 1.0
    missing = False
    for j in range(d):
        clip = bound[j] + 50.0 / (seen[j] + 1e-3)
        value = (min(max(x[j], -HUGE), HUGE) - centre[j]) * inverse[j]
        missing |= x[j] != x[j]
        z[j] = min(max(value, -clip), clip)
    if missing:
        for j in range(d):
            if x[j] != x[j]:
                z[j] = (mean[j] - centre[j]) * inverse[j]
    if int(cfg[C_GROUPS]) == 0:
        return
    logistic = cfg[C_LOSS] == LOGISTIC
    work[change] = 1.0
    work[square] = 1.0
    for j in range(d):
        clip = bound[j] + 50.0 / (seen[j] + 1e-3)
        dz = z[j] - min(max((last[j] - centre[j]) * inverse[j], -clip), clip)
        if logistic:
            work[change + 1 + j] = z[j]
            work[change + 1 + d + j] = dz
        else:
            work[change + 1 + j] = dz
        q = min(max(z[j], -3.0), 3.0)
        work[square + 1 + j] = q
        work[square + 1 + d + j] = q * q - 1.0


@exact
def lags(learner, cfg, work):
    """End the CHANGE view with the learner's own past: the last change, or the last two labels."""
    d = int(cfg[C_DIM])
    change = int(cfg[W_VIEW]) + CHANGE * (2 * d + 4)
    if cfg[C_LOSS] == LOGISTIC:
        work[change + 1 + 2 * d] = learner[H_LAST]
        work[change + 2 + 2 * d] = learner[H_LAST2]
    else:
        dy = learner[H_LAST] - learner[H_LAST2]
        work[change + 1 + d] = min(max(dy, -cfg[C_CLIP]), cfg[C_CLIP])


@exact
def observe(columns, count, j, x, rounds, cfg, sliver):
    """Take x into column j of ``count``; return whether the column leaves its frame.

    Mean and variance forget at 1/memory. A value beyond the bound moves them only as far as one at
    the bound would. Each block of 32 rows starts statistics of its own: should a column have moved
    at least 16 times in it, and only within a ``sliver`` of the running variance, then an outlier
    made that variance and the block's replaces it (OUTLIVED).
    """
    if x != x:
        return STAYS
    x = min(max(x, -HUGE), HUGE)
    moved = 1.0 if x != columns[F_LAST * count + j] else 0.0
    columns[F_LAST * count + j] = x
    n = columns[F_N * count + j]
    if n == 0.0:
        columns[F_MEAN * count + j] = x
        columns[F_CENTRE * count + j] = x
        columns[F_BLOCK_MEAN * count + j] = x
        columns[F_N * count + j] = 1.0
        return STAYS
    mean = columns[F_MEAN * count + j]
    var = columns[F_VAR * count + j]
    place = rounds - BLOCK * math.floor(rounds / BLOCK)
    if place == 0.0:
        columns[F_BLOCK_MEAN * count + j] = x
        columns[F_BLOCK_SQUARES * count + j] = 0.0
        columns[F_MOVES * count + j] = moved
    else:
        columns[F_MOVES * count + j] += moved
        delta = x - columns[F_BLOCK_MEAN * count + j]
        columns[F_BLOCK_MEAN * count + j] += delta / (place + 1.0)
        columns[F_BLOCK_SQUARES * count + j] += delta * (x - columns[F_BLOCK_MEAN * count + j])
    delta = x - mean
    if var == 0.0 and delta == 0.0:
        return STAYS  # constant so far: the column starts when it first moves
    bound = columns[F_BOUND * count + j]
    if n >= 5.0 and delta * delta > bound * bound * var:
        delta = math.copysign(bound * math.sqrt(var), delta)
    n = min(n + 1.0, cfg[C_MEMORY])
    mean += delta / n
    var = (1.0 - 1.0 / n) * (var + delta * delta / n)
    answer = MOVES
    if place == BLOCK - 1.0:
        moves = columns[F_MOVES * count + j]
        # A sparse column has a small deviation because it rarely moves: count the bound in
        # deviations of the moves.
        goal = cfg[C_CLIP] * math.sqrt(BLOCK / max(moves, 0.25))
        columns[F_BOUND * count + j] += 0.25 * (goal - bound)
        block_var = columns[F_BLOCK_SQUARES * count + j] / (BLOCK - 1.0)
        if block_var > 0.0 and block_var < sliver * var and moves >= BLOCK / 2:
            mean = columns[F_BLOCK_MEAN * count + j]
            var = block_var
            n = 1.0 * BLOCK
            answer = OUTLIVED
    columns[F_N * count + j] = n
    columns[F_MEAN * count + j] = mean
    columns[F_VAR * count + j] = var
    scale = columns[F_SCALE * count + j]
    shift = mean - columns[F_CENTRE * count + j]
    s2 = scale * scale
    # A first frame waits until it means something: log loss, unlike squared loss, has a scale.
    if (shift * shift > 0.25 * s2 or var > 2.25 * s2 or var * 2.25 < s2) and (
        var > 1e-280 and (scale > 0.0 or n >= cfg[C_JOIN])
    ):
        return answer
    return STAYS
