"""Second-order experts: recursive least squares and its logistic form, with forgetting.

Four share a view and differ in forgetting lambda and cap. With g = P f, v = f'g, and s, c the
implicit slope and curvature of the loss at step v / lambda::

    w' = w - (s / lambda) g,    P' = (P - c g g' / (lambda + c v)) / lambda

P starts as the identity: the ridge. Forgetting stops where the mean diagonal of P would pass its
cap (no wind-up while nothing is learned). For log loss the prediction is moderated by its own
uncertainty, m / sqrt(1 + pi v / 8) (MacKay, 1992): what the shrinkage of the Vovk-Azoury-Warmuth
forecaster becomes there.
"""

from __future__ import annotations

import math

from swordplay.kernels import pool_lanes as lanes
from swordplay.kernels import pool_losses as losses
from swordplay.kernels.pool_compile import exact
from swordplay.kernels.pool_layout import (
    C_DIM,
    C_GROUPS,
    C_LOSS,
    CHANGE,
    G_CAP,
    G_FORGETTING,
    G_SIZE,
    G_STATS,
    G_SURPRISE,
    G_VIEW,
    GROUP,
    H_LAST,
    H_PARAM,
    LOGISTIC,
    S_COUNT,
    S_SQUARES,
    S_TRACE,
    T_GROUP,
    W_G,
    W_P,
    W_TMP,
    W_VIEW,
    W_YV,
    Y_FORGETTING,
    Y_PREDICTION,
    Y_VARIANCE,
    YV,
)
from swordplay.kernels.pool_reframe import matrix, weights

PI_8 = math.pi / 8
SURPRISE_FORGETTING = 0.01


@exact
def predict_second_order(learner, cfg, work, k):
    """Write the predictions of all second-order experts, from the k-th expert on."""
    stride = 2 * int(cfg[C_DIM]) + 4
    logistic = cfg[C_LOSS] == LOGISTIC
    k += int(cfg[W_P])
    table = int(cfg[T_GROUP])
    g = int(cfg[W_G])
    yv = int(cfg[W_YV])
    for _ in range(int(cfg[C_GROUPS])):
        view = int(cfg[table + G_VIEW])
        n = int(cfg[table + G_SIZE])
        at = int(cfg[W_VIEW]) + view * stride
        w = weights(learner, cfg, table)
        P = matrix(learner, cfg, table)
        lanes.quadratic(work[at : at + n], w, P, n, work[g : g + 4 * n], work[yv : yv + 8])
        stats = int(cfg[table + G_STATS])
        for lane in range(4):
            m = work[yv + Y_PREDICTION + lane]
            wound = learner[stats + S_TRACE + lane] / (cfg[table + G_CAP + lane] * n)
            forgetting = min(1.0, max(cfg[table + G_FORGETTING + lane], wound))
            work[yv + Y_FORGETTING + lane] = forgetting
            if logistic:
                v = work[yv + Y_VARIANCE + lane] / forgetting
                work[k] = m / math.sqrt(1.0 + PI_8 * max(v, 0.0))
            elif view == CHANGE:
                work[k] = learner[H_LAST] + m
            else:
                work[k] = m
            k += 1
        g += 4 * n
        yv += YV
        table += GROUP


@exact
def sane(m, v):
    """Return whether an expert's numbers can be gone on with."""
    return v >= 0.0 and v < 1e15 and abs(m) < 1e150


@exact
def learn_second_order(learner, cfg, y, weight, work):
    """Update w and P on weight times the loss; reset a lane whose numbers went wrong.

    Surprise: a residual with e^2 / (1 + v) above 25 times its running mean says that the world has
    changed. That row's forgetting factor is 0.01, so the expert starts almost afresh.
    """
    kind = int(cfg[C_LOSS])
    table = int(cfg[T_GROUP])
    g = int(cfg[W_G])
    yv = int(cfg[W_YV])
    tmp = int(cfg[W_TMP])
    coefficient = work[tmp : tmp + 4]
    root = work[tmp + 4 : tmp + 8]
    inverse = work[tmp + 8 : tmp + 12]
    for _ in range(int(cfg[C_GROUPS])):
        n = int(cfg[table + G_SIZE])
        stats = int(cfg[table + G_STATS])
        goal = y
        if cfg[table + G_VIEW] == CHANGE and kind != LOGISTIC:
            goal = y - learner[H_LAST]
        sick = False
        for lane in range(4):
            m = work[yv + Y_PREDICTION + lane]
            v = work[yv + Y_VARIANCE + lane]
            forgetting = work[yv + Y_FORGETTING + lane]
            if not sane(m, v):
                sick = True
                coefficient[lane] = 0.0
                root[lane] = 0.0
                inverse[lane] = 1.0
                continue
            if kind == LOGISTIC:
                q = 1.0 / (1.0 + math.exp(-min(max(m, -30.0), 30.0)))
                s, c = losses.tame_logistic(goal, m, q, weight * v / forgetting + 1e-12)
            else:
                threshold = cfg[table + G_SURPRISE + lane]
                if threshold > 0.0:
                    u = (goal - m) * (goal - m) / (1.0 + v)
                    usual = learner[stats + S_SQUARES + lane]
                    count = learner[stats + S_COUNT + lane]
                    if count > n and u > threshold * usual:
                        wound = learner[stats + S_TRACE + lane] / (cfg[table + G_CAP + lane] * n)
                        forgetting = min(1.0, max(SURPRISE_FORGETTING, wound))
                        u = threshold * usual
                    count = 0.99 * count + 1.0
                    learner[stats + S_COUNT + lane] = count
                    learner[stats + S_SQUARES + lane] = usual + (u - usual) / count
                s, c = losses.implicit(kind, learner[H_PARAM], goal, m, weight * v / forgetting)
            c *= weight
            coefficient[lane] = -weight * s / forgetting
            root[lane] = math.sqrt(c / ((forgetting + c * v) * forgetting))
            inverse[lane] = 1.0 / forgetting
        w = weights(learner, cfg, table)
        P = matrix(learner, cfg, table)
        trace = learner[stats + S_TRACE : stats + S_TRACE + 4]
        lanes.rank_one(P, w, n, work[g : g + 4 * n], coefficient, root, inverse, trace)
        if sick:
            for lane in range(4):
                m = work[yv + Y_PREDICTION + lane]
                if not sane(m, work[yv + Y_VARIANCE + lane]):
                    lanes.reset_lane(P, n, lane)
                    trace[lane] = n
                    if not abs(m) < 1e150:
                        for i in range(n):
                            w[4 * i + lane] = 0.0
        g += 4 * n
        yv += YV
        table += GROUP
