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
    SETTLED,
    SQUARE,
    TINY,
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
def observe(columns, count, x, rounds, cfg, sliver, verdicts):
    """Take a row into ``count`` columns; write to ``verdicts`` which leave their frames.

    Mean and variance forget at 1/memory. A value beyond the bound moves them only as far as one at
    the bound would. Each block of 32 rows starts statistics of its own: should a column have moved
    at least 16 times in it, and only within a ``sliver`` of the running variance, then an outlier
    made that variance and the block's replaces it (OUTLIVED). Returns whether any verdict is not
    STAYS.
    """
    means = columns[F_MEAN * count : (F_MEAN + 1) * count]
    variances = columns[F_VAR * count : (F_VAR + 1) * count]
    seen = columns[F_N * count : (F_N + 1) * count]
    block_means = columns[F_BLOCK_MEAN * count : (F_BLOCK_MEAN + 1) * count]
    block_squares = columns[F_BLOCK_SQUARES * count : (F_BLOCK_SQUARES + 1) * count]
    centres = columns[F_CENTRE * count : (F_CENTRE + 1) * count]
    scales = columns[F_SCALE * count : (F_SCALE + 1) * count]
    last = columns[F_LAST * count : (F_LAST + 1) * count]
    moves = columns[F_MOVES * count : (F_MOVES + 1) * count]
    bounds = columns[F_BOUND * count : (F_BOUND + 1) * count]
    memory = cfg[C_MEMORY]
    place = rounds - BLOCK * math.floor(rounds / BLOCK)
    part = 1.0 / (place + 1.0)
    leave = False
    for j in range(count):
        verdicts[j] = STAYS
        value = x[j]
        if value != value:
            continue
        value = min(max(value, -HUGE), HUGE)
        moved = 1.0 if value != last[j] else 0.0
        last[j] = value
        n = seen[j]
        if n == 0.0:
            means[j] = value
            centres[j] = value
            block_means[j] = value
            seen[j] = 1.0
            continue
        if place == 0.0:
            block_means[j] = value
            block_squares[j] = 0.0
            moves[j] = moved
        else:
            moves[j] += moved
            delta = value - block_means[j]
            block_means[j] += delta * part
            block_squares[j] += delta * (value - block_means[j])
        mean = means[j]
        var = variances[j]
        delta = value - mean
        if var == 0.0 and delta == 0.0:
            continue  # constant so far: the column starts when it first moves
        bound = bounds[j]
        if n >= SETTLED and delta * delta > bound * bound * var:
            delta = math.copysign(bound * math.sqrt(var), delta)
        n = min(n + 1.0, memory)
        a = 1.0 / n
        mean += a * delta
        var = (1.0 - a) * (var + a * delta * delta)
        verdict = MOVES
        if place == BLOCK - 1.0:
            # A sparse column has a small deviation because it rarely moves: count the bound in
            # deviations of the moves.
            goal = cfg[C_CLIP] * math.sqrt(BLOCK / max(moves[j], 0.25))
            bounds[j] += 0.25 * (goal - bound)
            block_var = block_squares[j] / (BLOCK - 1.0)
            if block_var > 0.0 and block_var < sliver * var and moves[j] >= BLOCK / 2:
                mean = block_means[j]
                var = block_var
                n = 1.0 * BLOCK
                verdict = OUTLIVED
        seen[j] = n
        means[j] = mean
        variances[j] = var
        scale = scales[j]
        shift = mean - centres[j]
        s2 = scale * scale
        # A first frame waits until it means something: log loss, unlike squared loss, has a scale.
        if (shift * shift > 0.25 * s2 or var > 2.25 * s2 or var * 2.25 < s2) and (
            var > TINY * TINY and (scale > 0.0 or n >= cfg[C_JOIN])
        ):
            verdicts[j] = verdict
            leave = True
    return leave
