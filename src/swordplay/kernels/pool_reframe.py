"""Re-expression: a column gets a new frame and every learner goes on predicting the same.

Old z = a z' + b, with a = scale' / scale and b = (centre' - centre) / scale. A linear prediction
w.f is kept by w' = T w, and with it P' = T P T', where f = T' f'. T is made of one *stretch*
(theta_j *= a) and a few *shears* (theta_target += b theta_source).
"""

from __future__ import annotations

import math

from swordplay.kernels import pool_lanes as lanes
from swordplay.kernels.pool_compile import exact
from swordplay.kernels.pool_layout import (
    C_DIAGONAL,
    C_DIM,
    C_FRAMES,
    C_GROUPS,
    C_LEARNER,
    C_LOSS,
    C_QUADS,
    C_TWINS,
    CHANGE,
    F_CENTRE,
    F_INVERSE,
    F_LAST,
    F_MEAN,
    F_SCALE,
    F_VAR,
    FAR,
    FRAMES_HEAD,
    G_CAP,
    G_MATRIX,
    G_SIZE,
    G_STATS,
    G_VIEW,
    G_WEIGHTS,
    GROUP,
    H_COUNT,
    H_HIGH,
    H_LAST,
    H_LAST2,
    H_LOSS,
    H_LOW,
    H_MIX_NORM,
    H_SPREAD,
    H_SQUARES,
    HUBER,
    LOGISTIC,
    MOST,
    O_DIAGONAL,
    O_FIRST,
    O_HEDGE,
    O_MIX,
    O_TARGET,
    O_TOP,
    O_TWIN,
    S_SQUARES,
    S_TRACE,
    SQUARE,
    SQUARED,
    T_GROUP,
)


@exact
def matrix(learner, cfg, table):
    """Return the packed matrices of a block of second-order experts."""
    n = int(cfg[table + G_SIZE])
    start = int(cfg[table + G_MATRIX])
    return learner[start : start + 2 * n * (n + 1)]


@exact
def weights(learner, cfg, table):
    """Return the weights of a block of second-order experts."""
    start = int(cfg[table + G_WEIGHTS])
    return learner[start : start + 4 * int(cfg[table + G_SIZE])]


@exact
def move_feature(row, cfg, j):
    """Give column j the frame of its running mean and variance; re-express every learner."""
    d = int(cfg[C_DIM])
    at = FRAMES_HEAD + j
    old_centre = row[at + F_CENTRE * d]
    old_scale = row[at + F_SCALE * d]
    centre = row[at + F_MEAN * d]
    scale = math.sqrt(row[at + F_VAR * d])
    row[at + F_CENTRE * d] = centre
    row[at + F_SCALE * d] = scale
    row[at + F_INVERSE * d] = 1.0 / scale
    if old_scale == 0.0:
        return  # z was 0 until now: nobody holds anything
    a = scale / old_scale
    b = (centre - old_centre) / old_scale
    size = int(cfg[C_LEARNER])
    start = int(cfg[C_FRAMES])
    while start < row.shape[0]:
        learner = row[start : start + size]
        if far(a, b):
            forget(learner, cfg, learner[int(cfg[O_TARGET]) + F_LAST])
        else:
            express_feature(learner, cfg, j, a, b)
        start += size


@exact
def far(a, b):
    """Tell whether a frame has jumped so far that nothing can be re-expressed in it."""
    return not (1.0 / FAR < a < FAR and abs(b) < FAR)


@exact
def express_feature(learner, cfg, j, a, b):
    """Re-express one learner: z_j = a z_j' + b."""
    d = int(cfg[C_DIM])
    n1 = d + 1
    none = learner[0:0]
    logistic = cfg[C_LOSS] == LOGISTIC
    slack = 1.0 if logistic else 4.0
    first = int(cfg[O_FIRST])
    for quad in range(int(cfg[C_QUADS])):
        w = learner[first + quad * 4 * n1 : first + (quad + 1) * 4 * n1]
        lanes.shear(w, none, n1, 1 + j, 0, b)
        lanes.stretch(w, none, n1, 1 + j, a)
    if cfg[C_DIAGONAL] > 0.0:
        o = int(cfg[O_DIAGONAL])
        lanes.shear(learner[o : o + 4 * n1], none, n1, 1 + j, 0, b)
        lanes.stretch(learner[o : o + 4 * n1], none, n1, 1 + j, a)
        for k in range(4 * (1 + j), 4 * (2 + j)):
            learner[o + 4 * n1 + k] /= a * a
    table = int(cfg[T_GROUP])
    for _ in range(int(cfg[C_GROUPS])):
        view = int(cfg[table + G_VIEW])
        n = int(cfg[table + G_SIZE])
        w = weights(learner, cfg, table)
        P = matrix(learner, cfg, table)
        caps = cfg[table + G_CAP : table + G_CAP + 4]
        if view == SQUARE:
            # z^2 - 1 = a^2 (z'^2 - 1) + 2ab z' + a^2 + b^2 - 1
            lanes.shear(w, P, n, 1 + d + j, 0, a * a + b * b - 1.0)
            lanes.shear(w, P, n, 1 + j, 0, b)
            lanes.shear(w, P, n, 1 + d + j, 1 + j, 2.0 * b)
            lanes.stretch(w, P, n, 1 + j, a)
            lanes.stretch(w, P, n, 1 + d + j, a * a)
        else:
            if view != CHANGE or logistic:  # for values, CHANGE holds dz alone: no centre
                lanes.shear(w, P, n, 1 + j, 0, b)
            lanes.stretch(w, P, n, 1 + j, a)
        lanes.ceiling(P, n, 1 + j, caps, slack)
        if view == SQUARE or (view == CHANGE and logistic):
            if view == CHANGE:
                lanes.stretch(w, P, n, 1 + d + j, a)
            lanes.ceiling(P, n, 1 + d + j, caps, slack)
        stats = int(cfg[table + G_STATS])
        lanes.retrace(P, n, learner[stats + S_TRACE : stats + S_TRACE + 4])
        table += GROUP


@exact
def move_target(learner, cfg):
    """Give the target the frame of its running mean and variance; re-express the learner."""
    at = int(cfg[O_TARGET])
    old_centre = learner[at + F_CENTRE]
    old_scale = learner[at + F_SCALE]
    centre = learner[at + F_MEAN]
    scale = math.sqrt(learner[at + F_VAR])
    learner[at + F_CENTRE] = centre
    learner[at + F_SCALE] = scale
    learner[at + F_INVERSE] = 1.0 / scale
    if old_scale == 0.0:
        old_scale = 1.0
    a = scale / old_scale
    b = (centre - old_centre) / old_scale
    if far(a, b):
        forget(learner, cfg, learner[at + F_LAST])
    else:
        express_target(learner, cfg, a, b)


@exact
def express_target(learner, cfg, a, b):
    """Re-express the learner: y = a y' + b, so w' = w / a and the intercept loses b / a."""
    d = int(cfg[C_DIM])
    n1 = d + 1
    ia = 1.0 / a
    quads = int(cfg[C_QUADS])
    first = int(cfg[O_FIRST])
    for quad in range(quads):
        w = learner[first + quad * 4 * n1 : first + (quad + 1) * 4 * n1]
        for k in range(4 * n1):
            w[k] *= ia
        for lane in range(4):
            w[lane] -= b * ia
    kind = int(cfg[C_LOSS])
    if cfg[C_DIAGONAL] > 0.0:
        o = int(cfg[O_DIAGONAL])
        curvature = ia * ia if kind in (SQUARED, HUBER) else 1.0
        for k in range(4 * n1):
            learner[o + k] *= ia
            learner[o + 4 * n1 + k] *= curvature
        for lane in range(4):
            learner[o + lane] -= b * ia
    table = int(cfg[T_GROUP])
    for _ in range(int(cfg[C_GROUPS])):
        view = int(cfg[table + G_VIEW])
        n = int(cfg[table + G_SIZE])
        w = weights(learner, cfg, table)
        P = matrix(learner, cfg, table)
        stats = int(cfg[table + G_STATS])
        if view == CHANGE:  # predicts a change from changes: no centre
            lanes.stretch(w, P, n, 1 + d, a)
            lanes.ceiling(P, n, 1 + d, cfg[table + G_CAP : table + G_CAP + 4], 4.0)
        for k in range(4 * n):
            w[k] *= ia
        for lane in range(4):
            if view != CHANGE:
                w[lane] -= b * ia
            learner[stats + S_SQUARES + lane] *= ia * ia
        lanes.retrace(P, n, learner[stats + S_TRACE : stats + S_TRACE + 4])
        table += GROUP
    if cfg[C_TWINS] > 0.0:
        t = int(cfg[O_TWIN])
        for i in range(4 * quads):
            learner[t + i] *= ia * ia
            learner[t + 4 * quads + i] *= ia * ia
            learner[t + 8 * quads + i] *= ia
    for k in (H_LAST, H_LAST2, H_LOW, H_HIGH):
        learner[k] = (learner[k] - b) * ia
    learner[H_SQUARES] *= ia * ia
    learner[H_MIX_NORM] *= ia * ia
    power = ia * ia if kind in (SQUARED, HUBER) else ia
    learner[H_LOSS] *= power
    if learner[H_SPREAD] > 0.0:  # 0 for squared loss, whose power may overflow
        learner[H_SPREAD] = min(learner[H_SPREAD] * (power * power), MOST)


@exact
def forget(learner, cfg, y):
    """Start again: the scale was made by an outlier, and all that was learned is noise.

    ``y`` is the newest target, in its own units; it is read through the frame as it is.
    """
    for k in range(int(cfg[O_FIRST]), int(cfg[O_HEDGE])):
        learner[k] = 0.0
    table = int(cfg[T_GROUP])
    for _ in range(int(cfg[C_GROUPS])):
        n = int(cfg[table + G_SIZE])
        for lane in range(4):
            lanes.reset_lane(matrix(learner, cfg, table), n, lane)
            learner[int(cfg[table + G_STATS]) + S_TRACE + lane] = n
        table += GROUP
    for k in range(int(cfg[O_MIX]), int(cfg[O_TOP])):
        learner[k] = 0.0
    target = int(cfg[O_TARGET])
    y = (y - learner[target + F_CENTRE]) * learner[target + F_INVERSE]
    for k in (H_LAST, H_LAST2, H_LOW, H_HIGH):
        learner[k] = y
    for k in (H_SQUARES, H_LOSS, H_COUNT, H_MIX_NORM, H_SPREAD):
        learner[k] = 0.0
