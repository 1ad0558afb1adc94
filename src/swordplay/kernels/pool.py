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
    F_SCALE,
    F_VAR,
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
    column = int(cfg[O_TARGET])
    target = min(max(target, -HUGE), HUGE)
    y = _enter_frame(learner, cfg, target, answer)
    seen = target
    if learner[H_PARAM] < 0.0:  # a wild target was moved
        learner[H_PARAM] = -learner[H_PARAM]
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
    verdict = pool_frames.observe(columns, 1, 0, seen, rounds, cfg, TARGET_SLIVER)
    if verdict == pool_frames.OUTLIVED:
        pool_reframe.forget(learner, cfg, seen)
    if verdict != pool_frames.STAYS:
        pool_reframe.move_target(learner, cfg)
    learner[H_ROUND] = rounds + 1.0
