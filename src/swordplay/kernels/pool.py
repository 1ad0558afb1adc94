"""The default pool (``pool="auto"`` of the estimators): the loop over rows.

A round::

    x -> frames -> views -> experts' predictions -> hedges and mixers -> safe Hedge -> answer

One float64 row is all that changes, one float64 config row all that does not; ``pool_plan`` makes
both. The pieces are in the ``pool_*`` modules beside this one, a naive twin is in the tests.
"""

from __future__ import annotations

import math

import numpy as np

from swordplay.kernels import pool_frames, pool_reframe
from swordplay.kernels.pool_compile import exact, exact_entry
from swordplay.kernels.pool_first_order import learn_first_order, predict_first_order
from swordplay.kernels.pool_gauge import gauge
from swordplay.kernels.pool_layout import (
    C_DIM,
    C_FRAMES,
    C_LEARNER,
    C_LOSS,
    C_PARAM,
    F_CENTRE,
    F_INVERSE,
    F_N,
    F_SCALE,
    F_VAR,
    FAR,
    FIELDS,
    FRAMES_HEAD,
    H_HIGH,
    H_LAST,
    H_LAST2,
    H_LOW,
    H_PARAM,
    H_ROUND,
    H_SQUARES,
    HUBER,
    HUGE,
    LOGISTIC,
    O_TARGET,
    SETTLED,
    TINY,
    W_TMP,
    W_VIEW,
    WORK,
)
from swordplay.kernels.pool_mixing import (
    learn_mixture_of_labels,
    learn_mixture_of_values,
    predict_mixture,
)
from swordplay.kernels.pool_second_order import learn_second_order, predict_second_order

# What a block's variance must be, relative to the running one, to unmask an outlier.
FEATURE_SLIVER, TARGET_SLIVER = 1e-4, 1e-14
WILD = 50.0  # deviations from the answer to which a wild target is moved


@exact
def ask(learner, cfg, work):
    """Return a learner's answer in its target's frame; the views must be in ``work``."""
    pool_frames.lags(learner, cfg, work)
    k = predict_first_order(learner, cfg, work)
    predict_second_order(learner, cfg, work, k)
    return predict_mixture(learner, cfg, work)


@exact
def tell(learner, cfg, target, weight, work, answer):
    """Let a learner learn its target; ``work`` is as ``ask`` left it.

    Mixing comes first: it needs the predictions as they were made.
    """
    rounds = learner[H_ROUND]
    if cfg[C_LOSS] == LOGISTIC:
        learn_mixture_of_labels(learner, cfg, target, weight, work)
        learn_first_order(learner, cfg, target, weight, work)
        learn_second_order(learner, cfg, target, weight, work)
        learner[H_LAST2] = learner[H_LAST]
        learner[H_LAST] = 2.0 * target - 1.0
        gauge(learner, cfg)
        learner[H_ROUND] = rounds + 1.0
        return
    target = min(max(target, -HUGE), HUGE)
    column = int(cfg[O_TARGET])
    centre, scale = _frame(learner, cfg, target)
    y = (target - centre) / scale
    if abs(y) < TINY:
        y = 0.0  # its square would be none
    if abs(y) > FAR:
        y = math.copysign(FAR, y)
        target = centre + scale * y
    if rounds >= 10.0:
        spread = max(learner[H_SQUARES], learner[column + F_VAR] / (scale * scale))
        width = WILD * math.sqrt(spread)
        if width > 0.0 and abs(y - answer) > width:
            y = answer + math.copysign(width, y - answer)
            target = centre + scale * y
    if rounds > 0.0:
        learn_mixture_of_values(learner, cfg, y, weight, answer, work)
    learn_first_order(learner, cfg, y, weight, work)
    learn_second_order(learner, cfg, y, weight, work)
    learner[H_LAST2] = learner[H_LAST] if rounds > 0.0 else y
    learner[H_LAST] = y
    learner[H_LOW] = min(learner[H_LOW], y) if rounds > 0.0 else y
    learner[H_HIGH] = max(learner[H_HIGH], y) if rounds > 0.0 else y
    gauge(learner, cfg)
    columns = learner[column : column + FIELDS]
    value = work[int(cfg[W_TMP]) : int(cfg[W_TMP]) + 1]
    verdict = work[int(cfg[W_TMP]) + 1 : int(cfg[W_TMP]) + 2]
    value[0] = target
    if pool_frames.observe(columns, 1, value, rounds, cfg, TARGET_SLIVER, verdict):
        if verdict[0] == pool_frames.OUTLIVED:
            pool_reframe.forget(learner, cfg, target)
        pool_reframe.move_target(learner, cfg)
    learner[H_ROUND] = rounds + 1.0


@exact
def _frame(learner, cfg, target):
    """Return the target's frame, made of the first two different targets if there is none.

    One that was made of a much smaller difference than there is now is made again.
    """
    column = int(cfg[O_TARGET])
    if learner[H_ROUND] == 0.0:
        learner[column + F_CENTRE] = target
    centre = learner[column + F_CENTRE]
    scale = learner[column + F_SCALE]
    distance = abs(target - centre)
    if scale == 0.0:
        # Nothing but zeros was learned so far: any scale is exact.
        scale = distance if distance >= TINY else 1.0
    elif learner[column + F_N] < SETTLED and distance > FAR * scale:
        scale = distance
        pool_reframe.forget(learner, cfg, centre)
    if distance >= TINY and scale == distance:
        learner[column + F_SCALE] = scale
        learner[column + F_INVERSE] = 1.0 / scale
    param = cfg[C_PARAM]
    learner[H_PARAM] = param / scale if cfg[C_LOSS] == HUBER else param
    return centre, scale


@exact
def report(learner, cfg, answer, out, m, outputs):
    """Write the answer in the target's units to out[m], its running error to out[outputs + m]."""
    if cfg[C_LOSS] == LOGISTIC:
        out[m] = answer
        out[outputs + m] = 0.0
        return
    column = int(cfg[O_TARGET])
    scale = learner[column + F_SCALE]
    if scale == 0.0:
        scale = 1.0
    out[m] = learner[column + F_CENTRE] + scale * answer
    out[outputs + m] = scale * math.sqrt(learner[H_SQUARES])


@exact
def learn_row(row, cfg, x, targets, weight, work, out):
    """Predict, then learn, one row; ``out`` takes the predictions and errors of all learners.

    A row of weight 0 is predicted only. A target of NaN is not learned.
    """
    frames = int(cfg[C_FRAMES])
    size = int(cfg[C_LEARNER])
    outputs = (row.shape[0] - frames) // size
    pool_frames.views(row[0:frames], cfg, x, work)
    for m in range(outputs):
        learner = row[frames + m * size : frames + (m + 1) * size]
        answer = ask(learner, cfg, work)
        report(learner, cfg, answer, out, m, outputs)
        if weight > 0.0 and targets[m] == targets[m]:
            tell(learner, cfg, targets[m], weight, work, answer)
    if weight > 0.0:
        observe_row(row, cfg, x, work)


@exact
def observe_row(row, cfg, x, work):
    """Take a row into the frames of its columns; the last thing that happens in a round."""
    d = int(cfg[C_DIM])
    columns = row[FRAMES_HEAD : int(cfg[C_FRAMES])]
    verdicts = work[int(cfg[W_VIEW]) : int(cfg[W_VIEW]) + d]  # nobody needs the views any more
    if pool_frames.observe(columns, d, x, row[0], cfg, FEATURE_SLIVER, verdicts):
        for j in range(d):
            if verdicts[j] != pool_frames.STAYS:
                pool_reframe.move_feature(row, cfg, j)
    row[0] += 1.0


@exact
def predict_row(row, cfg, x, work, out):
    """Predict one row; ``row`` is not changed."""
    frames = int(cfg[C_FRAMES])
    size = int(cfg[C_LEARNER])
    outputs = (row.shape[0] - frames) // size
    pool_frames.views(row[0:frames], cfg, x, work)
    for m in range(outputs):
        learner = row[frames + m * size : frames + (m + 1) * size]
        report(learner, cfg, ask(learner, cfg, work), out, m, outputs)


@exact_entry
def learn(row, cfg, X, Y, weights, out):
    """One prequential pass: out[t] holds what was known before Y[t] was seen.

    Args:
        row: the state, changed in place.
        cfg: the config.
        X: (n, d) features, NaN where missing.
        Y: (n, M) targets; in {0, 1} for log loss.
        weights: (n,), or (0,) where all are 1.
        out: (n, 2 M): predictions, then running root mean squared errors.
    """
    work = np.zeros(int(cfg[WORK]))
    weighted = weights.shape[0] > 0
    for t in range(X.shape[0]):
        weight = weights[t] if weighted else 1.0
        learn_row(row, cfg, X[t], Y[t], weight, work, out[t])


@exact_entry
def predict(row, cfg, X, out):
    """Write to ``out`` what ``learn`` would, without learning."""
    work = np.zeros(int(cfg[WORK]))
    for t in range(X.shape[0]):
        predict_row(row, cfg, X[t], work, out[t])


@exact_entry
def predict_kept(row, cfg, X, work, out):
    """Predict the one row of X for a single target, and keep in ``work`` all that led there."""
    pool_frames.views(row[0 : int(cfg[C_FRAMES])], cfg, X[0], work)
    learner = row[int(cfg[C_FRAMES]) :]
    out[0, 2] = ask(learner, cfg, work)
    report(learner, cfg, out[0, 2], out[0], 0, 1)


@exact_entry
def learn_kept(row, cfg, X, Y, work, out):
    """Learn the row that ``predict_kept`` has just predicted: ``learn`` in half the time."""
    tell(row[int(cfg[C_FRAMES]) :], cfg, Y[0, 0], 1.0, work, out[0, 2])
    observe_row(row, cfg, X[0], work)
