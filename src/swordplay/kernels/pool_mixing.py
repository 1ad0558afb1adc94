"""Mixing: experts -> eight candidates -> one prediction.

Level 1: four Hedges over the experts (rates relative to the mixture's running loss, one at the
provably safe rate) and four mixers, linear in the experts' predictions (deviations from the first
Hedge for values, logits for labels), learned by implicit gradient steps.

Level 2: Hedge over those eight at the exp-concavity rate eta: 1/(2 B^2) for squared loss with
targets in a range of width B, 1 for log loss. With K = 8 and fixed share a, against any sequence
of candidates with S switches::

    sum loss(p) <= sum loss(candidate) + ((S+1) ln K + S ln(1/a) + T ln(1/(1-a))) / eta
"""

from __future__ import annotations

import math

from swordplay.kernels import pool_lanes as lanes
from swordplay.kernels import pool_losses as losses
from swordplay.kernels.pool_compile import exact
from swordplay.kernels.pool_layout import (
    C_DECAY,
    C_EXPERTS,
    C_LOSS,
    C_TOP_SHARE,
    CANDIDATES,
    EDGE,
    H_COUNT,
    H_HIGH,
    H_LOSS,
    H_LOW,
    H_MIX_NORM,
    H_PARAM,
    H_ROUND,
    H_SPREAD,
    H_SQUARES,
    LOGISTIC,
    LOGIT,
    MOST,
    O_HEDGE,
    O_MIX,
    O_TOP,
    SQUARED,
    T_HEDGE,
    T_MIX,
    W_E,
    W_OUT,
    W_P,
    W_TMP,
)

LN_CANDIDATES = math.log(CANDIDATES)


@exact
def predict_mixture(learner, cfg, work):
    """Clip the experts' predictions, mix them and return the answer.

    Leaves in scratch P: predictions (logistic: logits), E: their deviations from the first Hedge
    (logistic: probabilities), OUT: the candidates.
    """
    N = int(cfg[C_EXPERTS])
    p = work[int(cfg[W_P]) : int(cfg[W_P]) + N]
    e = work[int(cfg[W_E]) : int(cfg[W_E]) + N]
    out = work[int(cfg[W_OUT]) : int(cfg[W_OUT]) + CANDIDATES]
    hedge = learner[int(cfg[O_HEDGE]) : int(cfg[O_HEDGE]) + 4 * N]
    mix = learner[int(cfg[O_MIX]) : int(cfg[O_MIX]) + 4 * N]
    top = int(cfg[O_TOP])
    answer = 0.0
    if cfg[C_LOSS] == LOGISTIC:
        for i in range(N):
            m = p[i]
            m = min(max(m, -LOGIT), LOGIT) if m == m else 0.0
            p[i] = m
            e[i] = 1.0 / (1.0 + math.exp(-m))
        lanes.dot(hedge, e, N, out[0:4])
        lanes.dot(mix, p, N, out[4:8])
        for j in range(4, 8):
            out[j] = 1.0 / (1.0 + math.exp(-min(max(out[j], -LOGIT), LOGIT)))
        for j in range(CANDIDATES):
            out[j] = min(max(out[j], EDGE), 1.0 - EDGE)
            answer += learner[top + j] * out[j]
        return answer
    low = learner[H_LOW]
    high = learner[H_HIGH]
    for i in range(N):
        m = p[i]
        p[i] = min(max(m, low), high) if m == m else 0.0
    lanes.dot(hedge, p, N, out[0:4])
    centre = out[0]
    for i in range(N):
        e[i] = p[i] - centre
    lanes.dot(mix, e, N, out[4:8])
    for j in range(CANDIDATES):
        if j > 3:
            out[j] += centre
        out[j] = min(max(out[j], low), high)
        answer += learner[top + j] * out[j]
    return answer


@exact
def share(values, start, count, total, part):
    """Normalise and mix in the uniform distribution: (1 - part) values / total + part / count."""
    for j in range(start, start + count):
        values[j] = (1.0 - part) * values[j] / total + part / count


@exact
def share_hedges(learner, cfg, totals):
    """Normalise the four Hedges, each with its own share."""
    N = int(cfg[C_EXPERTS])
    o = int(cfg[O_HEDGE])
    for k in range(4):
        part = cfg[int(cfg[T_HEDGE]) + 4 + k]
        factor = (1.0 - part) / totals[k]
        least = part / N
        for i in range(o + k, o + 4 * N, 4):
            learner[i] = learner[i] * factor + least


@exact
def learn_mixture_of_labels(learner, cfg, y, weight, work):
    """Log loss: Hedge at rate 1 is Bayes' rule; mixers are logistic regressions on logits.

    A weight below 1 is a power of the likelihood; one above 1 counts as 1 here.
    """
    N = int(cfg[C_EXPERTS])
    p = work[int(cfg[W_P]) : int(cfg[W_P]) + N]
    e = work[int(cfg[W_E]) : int(cfg[W_E]) + N]
    out = work[int(cfg[W_OUT]) : int(cfg[W_OUT]) + CANDIDATES]
    tmp = int(cfg[W_TMP])
    c = work[tmp : tmp + 4]
    totals = work[tmp + 4 : tmp + 8]
    top = int(cfg[O_TOP])
    total = 0.0
    for j in range(CANDIDATES):
        likelihood = out[j] if y > 0.5 else 1.0 - out[j]
        if weight < 1.0:
            likelihood = likelihood**weight
        learner[top + j] *= likelihood
        total += learner[top + j]
    share(learner, top, CANDIDATES, total, cfg[C_TOP_SHARE])
    hedge = int(cfg[O_HEDGE])
    norm2 = 0.0
    for k in range(4):
        totals[k] = 0.0
    for i in range(N):
        w = max(e[i] if y > 0.5 else 1.0 - e[i], EDGE)
        if weight < 1.0:
            w = w**weight
        norm2 += p[i] * p[i]
        o = hedge + 4 * i  # rates 1, 1, 1/2, 2
        w0 = learner[o] * w
        w1 = learner[o + 1] * w
        w2 = learner[o + 2] * math.sqrt(w)
        w3 = learner[o + 3] * (w * w)
        learner[o] = w0
        learner[o + 1] = w1
        learner[o + 2] = w2
        learner[o + 3] = w3
        totals[0] += w0
        totals[1] += w1
        totals[2] += w2
        totals[3] += w3
    share_hedges(learner, cfg, totals)
    count = min(learner[H_ROUND], 1000.0) + 1.0
    learner[H_MIX_NORM] += (norm2 - learner[H_MIX_NORM]) / count
    for k in range(4):
        eta = 4.0 * min(weight, 1.0) * cfg[int(cfg[T_MIX]) + k] / (learner[H_MIX_NORM] + 1e-12)
        m = math.log(out[4 + k] / (1.0 - out[4 + k]))
        s, _ = losses.implicit_logistic(y, m, out[4 + k], eta * norm2 + 1e-12)
        c[k] = -s * eta
    lanes.add(learner[int(cfg[O_MIX]) : int(cfg[O_MIX]) + 4 * N], p, N, c)


@exact
def learn_mixture_of_values(learner, cfg, y, weight, answer, work):
    """Learn all mixing weights from a target; E is overwritten by the experts' losses.

    A weight below 1 scales the losses; one above 1 counts as 1 here, or rates would be unsafe.
    """
    N = int(cfg[C_EXPERTS])
    kind = int(cfg[C_LOSS])
    param = learner[H_PARAM]
    weight = min(weight, 1.0)
    p = work[int(cfg[W_P]) : int(cfg[W_P]) + N]
    e = work[int(cfg[W_E]) : int(cfg[W_E]) + N]
    tmp = int(cfg[W_TMP])
    c = work[tmp : tmp + 4]
    start = work[tmp + 4 : tmp + 8]
    error = y - answer
    learner[H_COUNT] = cfg[C_DECAY] * learner[H_COUNT] + 1.0
    learner[H_SQUARES] += (error * error - learner[H_SQUARES]) / learner[H_COUNT]
    loss = losses.value(kind, param, y, answer)
    learner[H_LOSS] += (loss - learner[H_LOSS]) / learner[H_COUNT]
    width = max(learner[H_HIGH], y) - min(learner[H_LOW], y)
    if not (width > 0.0 and learner[H_LOSS] > 0.0):
        return
    safe = weight * _learn_top(learner, cfg, y, weight, width, work)
    # the mixers: implicit steps on deviations from the first Hedge
    centre = p[0] - e[0]
    mix = learner[int(cfg[O_MIX]) : int(cfg[O_MIX]) + 4 * N]
    lanes.dot(mix, e, N, start)
    norm2 = 0.0
    for i in range(N):
        norm2 += e[i] * e[i]
    count = min(learner[H_ROUND], 1000.0) + 1.0
    learner[H_MIX_NORM] += (norm2 - learner[H_MIX_NORM]) / count
    if learner[H_MIX_NORM] > 1e-12 * learner[H_SQUARES]:
        for k in range(4):
            eta = weight * cfg[int(cfg[T_MIX]) + k] / learner[H_MIX_NORM]
            s, _ = losses.implicit(kind, param, y, centre + start[k], eta * norm2)
            c[k] = -s * eta
        lanes.add(mix, e, N, c)
    least = 1e300
    for i in range(N):
        e[i] = losses.value(kind, param, y, p[i])
        least = min(least, e[i])
    _learn_hedges(
        learner, cfg, weight * cfg[int(cfg[T_HEDGE])] / learner[H_LOSS], safe, least, work
    )


@exact
def _learn_top(learner, cfg, y, weight, width, work):
    """Hedge over the candidates; return the safe rate.

    Squared loss is 1/(2 B^2)-exp-concave. The others are not exp-concave: their rate comes from
    the variance of the candidates' losses under the weights, sqrt(ln K / sum of variances).
    """
    kind = int(cfg[C_LOSS])
    out = work[int(cfg[W_OUT]) : int(cfg[W_OUT]) + CANDIDATES]
    top = int(cfg[O_TOP])
    least = 1e300
    mean = 0.0
    second = 0.0
    for j in range(CANDIDATES):
        loss = losses.value(kind, learner[H_PARAM], y, out[j])
        out[j] = loss
        least = min(least, loss)
        mean += learner[top + j] * loss
        second += learner[top + j] * loss * loss
    if kind == SQUARED:
        safe = 0.5 / (width * width)
    else:
        gain = second - mean * mean
        if gain > 0.0:
            learner[H_SPREAD] = min(learner[H_SPREAD] + gain, MOST)
        safe = min(1.0 / width, math.sqrt(LN_CANDIDATES / (learner[H_SPREAD] + 1e-300)))
    total = 0.0
    for j in range(CANDIDATES):
        learner[top + j] *= math.exp(-weight * safe * (out[j] - least))
        total += learner[top + j]
    share(learner, top, CANDIDATES, total, cfg[C_TOP_SHARE])
    return safe


@exact
def gentle_exp(x):
    """Return exp(x): on [-1/2, 0], which squared loss never leaves here, by Taylor to 3e-10."""
    if x <= -0.5:
        return math.exp(x)
    y = 1.0 / 5040.0 + x * (1.0 / 40320.0 + x * (1.0 / 362880.0))
    y = 1.0 / 24.0 + x * (1.0 / 120.0 + x * (1.0 / 720.0 + x * y))
    return 1.0 + x * (1.0 + x * (0.5 + x * (1.0 / 6.0 + x * y)))


@exact
def _learn_hedges(learner, cfg, fast, safe, least, work):
    """Hedges at rates fast, 4 fast and 16 fast (powers of one exponential), and safe."""
    N = int(cfg[C_EXPERTS])
    e = work[int(cfg[W_E]) : int(cfg[W_E]) + N]
    totals = work[int(cfg[W_TMP]) + 4 : int(cfg[W_TMP]) + 8]
    hedge = int(cfg[O_HEDGE])
    for k in range(4):
        totals[k] = 0.0
    for i in range(N):
        loss = e[i] - least
        w = math.exp(max(-fast * loss, -40.0))  # keeps w^16 out of the subnormal numbers
        w4 = w * w
        w4 = w4 * w4
        slow = gentle_exp(-safe * loss)
        o = hedge + 4 * i
        w0 = learner[o] * w
        w1 = learner[o + 1] * w4
        w2 = learner[o + 2] * (w4 * w4 * w4 * w4)
        w3 = learner[o + 3] * slow
        learner[o] = w0
        learner[o + 1] = w1
        learner[o + 2] = w2
        learner[o + 3] = w3
        totals[0] += w0
        totals[1] += w1
        totals[2] += w2
        totals[3] += w3
    share_hedges(learner, cfg, totals)
