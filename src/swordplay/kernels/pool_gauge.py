"""How far back the pool is looking: the weighted mean of log2 of its experts' memories."""

from __future__ import annotations

import math

from swordplay.kernels.pool_compile import exact
from swordplay.kernels.pool_layout import (
    C_EXPERTS,
    GAUGE_EVERY,
    H_DRIFT,
    H_GAUGED,
    H_KEPT,
    H_MEMORY,
    H_ROUND,
    H_STRIDE,
    H_USUAL,
    HISTORY,
    O_HEDGE,
    O_HISTORY,
    O_MIX,
    O_TOP,
    T_SPAN,
)


@exact
def memory(learner, cfg):
    """Return sum_i u_i log2(memory_i), u the share of expert i in the answer.

    A Hedge shares out its candidate's weight as its own weights say, a mixer by |coefficient|.
    """
    N = int(cfg[C_EXPERTS])
    longest = math.log2(learner[H_ROUND] + 1.0)
    top = int(cfg[O_TOP])
    answer = 0.0
    for block in range(2):
        o = int(cfg[O_HEDGE]) if block == 0 else int(cfg[O_MIX])
        for k in range(4):
            total = 1e-300
            mean = 0.0
            for i in range(N):
                u = abs(learner[o + 4 * i + k])
                total += u
                mean += u * min(cfg[int(cfg[T_SPAN]) + i], longest)
            answer += learner[top + 4 * block + k] * mean / total
    return answer


@exact
def gauge(learner, cfg):
    """Every 16 rows: compare the memory with what is usual, and keep a trace of constant size."""
    if (learner[H_ROUND] + 1.0) % GAUGE_EVERY != 0.0:
        return
    now = memory(learner, cfg)
    learner[H_MEMORY] = now
    if learner[H_GAUGED] == 0.0:
        learner[H_USUAL] = now
        learner[H_STRIDE] = 1.0
    learner[H_DRIFT] = learner[H_USUAL] - now
    learner[H_GAUGED] += 1.0
    learner[H_USUAL] += (now - learner[H_USUAL]) / min(learner[H_GAUGED], 64.0)
    if learner[H_GAUGED] % learner[H_STRIDE] != 0.0:
        return
    o = int(cfg[O_HISTORY])
    # Within the trace, whatever a file that somebody made says.
    kept = int(min(learner[H_KEPT], float(HISTORY))) if learner[H_KEPT] > 0.0 else 0
    if kept == HISTORY:  # keep every second
        for k in range(HISTORY // 2):
            learner[o + 2 * k] = learner[o + 4 * k + 2]
            learner[o + 2 * k + 1] = learner[o + 4 * k + 3]
        kept = HISTORY // 2
        learner[H_STRIDE] *= 2.0
        if learner[H_GAUGED] % learner[H_STRIDE] != 0.0:
            learner[H_KEPT] = kept
            return
    learner[o + 2 * kept] = now
    learner[o + 2 * kept + 1] = learner[H_DRIFT]
    learner[H_KEPT] = kept + 1
