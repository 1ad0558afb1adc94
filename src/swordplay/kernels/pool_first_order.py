"""First-order experts: the last value, the running mean, implicit gradient steps, AdaGrad.

An implicit learner with step eta goes to w' = w - eta s f with s the slope at w': on its own loss,
so it never overshoots and needs no bound on gradients. The steps are multiples of 1/L, L the
running mean of |f|^2. For values each has a *twin* that adds rho times its last residual, rho the
running correlation of neighbouring residuals.
"""

from __future__ import annotations

import math

from swordplay.kernels import pool_lanes as lanes
from swordplay.kernels import pool_losses as losses
from swordplay.kernels.pool_compile import exact
from swordplay.kernels.pool_layout import (
    C_BASIC,
    C_DIAGONAL,
    C_DIM,
    C_LOSS,
    C_QUADS,
    C_TWINS,
    F_CENTRE,
    F_INVERSE,
    F_MEAN,
    H_LAST,
    H_NORM,
    H_PARAM,
    H_ROUND,
    LOGISTIC,
    O_DIAGONAL,
    O_FIRST,
    O_TARGET,
    O_TWIN,
    T_DIAGONAL,
    T_STEPS,
    W_DIAGONAL,
    W_P,
    W_RAW,
    W_TMP,
    W_VIEW,
)

TWIN_DECAY = 0.99


@exact
def predict_first_order(learner, cfg, work):
    """Write the predictions of all first-order experts; return how many there are."""
    n = int(cfg[C_DIM]) + 1
    quads = int(cfg[C_QUADS])
    p = int(cfg[W_P])
    k = p
    if cfg[C_LOSS] != LOGISTIC:
        target = int(cfg[O_TARGET])
        inverse = learner[target + F_INVERSE]
        mean = learner[target + F_MEAN] - learner[target + F_CENTRE]
        if cfg[C_BASIC] == 2.0:
            work[k] = learner[H_LAST]
            k += 1
        work[k] = mean * (inverse if inverse > 0.0 else 1.0)
        k += 1
    f = work[int(cfg[W_VIEW]) : int(cfg[W_VIEW]) + n]
    raw = int(cfg[W_RAW])  # kept apart: predictions are clipped in place later
    o = int(cfg[O_FIRST])
    first = k
    for quad in range(quads):
        lanes.dot(learner[o : o + 4 * n], f, n, work[raw + 4 * quad : raw + 4 * quad + 4])
        o += 4 * n
    for i in range(4 * quads):
        work[k] = work[raw + i]
        k += 1
    if cfg[C_TWINS] > 0.0:
        t = int(cfg[O_TWIN])
        for i in range(4 * quads):
            rho = learner[t + i] / (learner[t + 4 * quads + i] + 1e-300)
            work[k] = work[first + i] + min(max(rho, -1.0), 1.0) * learner[t + 8 * quads + i]
            k += 1
    if cfg[C_DIAGONAL] > 0.0:
        o = int(cfg[O_DIAGONAL])
        raw = int(cfg[W_DIAGONAL])
        lanes.dot(learner[o : o + 4 * n], f, n, work[raw : raw + 4])
        for lane in range(4):
            work[k] = work[raw + lane]
            k += 1
    return k - p


@exact
def learn_first_order(learner, cfg, y, weight, work):
    """Take the implicit steps on weight times the loss."""
    n = int(cfg[C_DIM]) + 1
    quads = int(cfg[C_QUADS])
    kind = int(cfg[C_LOSS])
    param = learner[H_PARAM]
    f = work[int(cfg[W_VIEW]) : int(cfg[W_VIEW]) + n]
    tmp = int(cfg[W_TMP])
    c = work[tmp : tmp + 4]
    norm2 = 0.0
    for j in range(n):
        norm2 += f[j] * f[j]
    learner[H_NORM] += (norm2 - learner[H_NORM]) / (min(learner[H_ROUND], 1000.0) + 1.0)
    o = int(cfg[O_FIRST])
    raw = int(cfg[W_RAW])
    twin = int(cfg[O_TWIN])
    p = int(cfg[W_P])  # logistic: the clipped logits; the steps are the first experts
    for i in range(4 * quads):
        eta = weight * cfg[int(cfg[T_STEPS]) + i] / learner[H_NORM]
        if kind == LOGISTIC:
            eta *= 4.0  # log loss is 1/4-smooth in the logit
            m = work[p + i]
            s, _ = losses.implicit_logistic(y, m, 1.0 / (1.0 + math.exp(-m)), eta * norm2)
        else:
            m = work[raw + i]
            s, _ = losses.implicit(kind, param, y, m, eta * norm2)
            if cfg[C_TWINS] > 0.0:
                t = twin + i
                now = y - m
                before = learner[t + 8 * quads]
                learner[t] = TWIN_DECAY * learner[t] + before * now
                xx = TWIN_DECAY * learner[t + 4 * quads] + before * before
                learner[t + 4 * quads] = xx
                learner[t + 8 * quads] = now
        c[i % 4] = -s * eta
        if i % 4 == 3:
            lanes.add(learner[o : o + 4 * n], f, n, c)
            o += 4 * n
    if cfg[C_DIAGONAL] > 0.0:
        _learn_diagonal(learner, cfg, y, weight, work, f)


@exact
def _learn_diagonal(learner, cfg, y, weight, work, f):
    """Take implicit AdaGrad's step: w_i -= step s f_i / sqrt(G_i), G_i = sum of (s f_i)^2."""
    n = f.shape[0]
    kind = int(cfg[C_LOSS])
    param = learner[H_PARAM]
    o = int(cfg[O_DIAGONAL])
    w = learner[o : o + 4 * n]
    G = learner[o + 4 * n : o + 8 * n]
    base = int(cfg[W_DIAGONAL])
    D = work[base + 4 : base + 4 + 4 * n]
    tmp = int(cfg[W_TMP])
    s4 = work[tmp : tmp + 4]
    a4 = work[tmp + 4 : tmp + 8]
    for lane in range(4):
        m = work[base + lane]
        if kind == LOGISTIC:
            s4[lane] = weight * (1.0 / (1.0 + math.exp(-min(max(m, -30.0), 30.0))) - y)
        else:
            s, _ = losses.implicit(kind, param, y, m, 0.0)
            s4[lane] = weight * s
    lanes.adagrad(G, D, f, n, s4, a4)
    for lane in range(4):
        m = work[base + lane]
        step = weight * cfg[int(cfg[T_DIAGONAL]) + lane]
        if kind == LOGISTIC:
            q = 1.0 / (1.0 + math.exp(-min(max(m, -30.0), 30.0)))
            s, _ = losses.implicit_logistic(y, m, q, step * a4[lane] + 1e-12)
        else:
            s, _ = losses.implicit(kind, param, y, m, step * a4[lane])
        s4[lane] = -s * step
    for i in range(n):
        for lane in range(4):
            w[4 * i + lane] += s4[lane] * D[4 * i + lane] * f[i]
