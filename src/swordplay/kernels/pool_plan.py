"""Plans: which experts a pool has, where its floats live, and its first state row. NumPy alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from swordplay._types import Array
from swordplay.kernels import pool_layout as at
from swordplay.kernels.pool_layout import CHANGE, LINEAR, LOGISTIC, SQUARE, SQUARED

Four = tuple[float, float, float, float]


class Second(NamedTuple):
    """Four second-order experts on one view."""

    view: int
    forgetting: Four
    cap: Four
    surprise: float = 0.0


VALUES = (
    Second(LINEAR, (0.8, 0.9, 0.95, 0.98), (100.0,) * 4, 25.0),
    Second(CHANGE, (0.9, 0.98, 0.995, 0.999), (1.0, 1.0, 100.0, 100.0)),
    Second(SQUARE, (0.98, 0.995, 0.999, 1.0), (100.0,) * 4),
)
LABELS = (
    Second(LINEAR, (0.9, 0.95, 0.995, 0.998), (1.0, 3.0, 10.0, 10.0)),
    Second(CHANGE, (0.98, 0.98, 0.995, 0.999), (0.1, 1.0, 1.0, 1.0)),
    Second(SQUARE, (0.9, 0.98, 0.998, 0.999), (1.0, 0.1, 10.0, 1.0)),
)
STEPS = tuple(2.0**k for k in (-8, -6, -4, -3, -2, -1, 1, 4))
ADAGRAD: Four = (2.0**-6, 2.0**-4, 2.0**-2, 1.0)


@dataclass(frozen=True)
class PoolConfig:
    """The one default; nothing is set per data set.

    Args:
        loss: SQUARED, HUBER, ABSOLUTE, PINBALL or LOGISTIC of ``pool_layout``.
        param: Huber's delta in units of the target, pinball's quantile.
        second_order: whether second-order experts take part, on views of at most ``widest``
            features; where none does, four AdaGrad experts do.
        last_value: whether the last value is an expert (regression).
    """

    loss: int = SQUARED
    param: float = 1.0
    second_order: bool = True
    widest: int = 56
    last_value: bool = True
    memory: float = 2000.0  # rows behind running means and variances
    clip: float = 7.0  # deviations beyond which a value is winsorised
    decay: float = 0.95  # of the running loss that sets the fast rates
    top_share: float = 1e-4


class Layout(NamedTuple):
    """Everything fixed about a pool: sizes in floats, the names of its experts, its config row."""

    frames: int
    learner: int
    names: tuple[str, ...]
    config: Array


@lru_cache(maxsize=256)
def layout(d: int, plan: PoolConfig) -> Layout:
    """Lay out a pool for d columns."""
    logistic = plan.loss == LOGISTIC
    width = {LINEAR: d + 1, CHANGE: 2 * d + 3 if logistic else d + 2, SQUARE: 2 * d + 1}
    wanted = LABELS if logistic else VALUES
    second = [s for s in wanted if plan.second_order and width[s.view] <= plan.widest]
    diagonal = () if second else ADAGRAD
    quads = len(STEPS) // 4
    basic = 0 if logistic else 1 + plan.last_value

    # Experts: their names, and log2 of the rows that they remember. A step eta on features of mean
    # square 1 / L keeps 1 / (1 + eta) of an error; what never forgets remembers everything.
    names = ["last value", "mean"][2 - basic :]
    spans = [0.0, np.log2(plan.memory)][2 - basic :]
    for kind in ("step", "twin")[: 1 if logistic else 2]:
        names += [f"{kind} {step:g}/L" for step in STEPS]
        spans += [np.log2((1 + step) / step) for step in STEPS]
    names += [f"adagrad {step:g}" for step in diagonal]
    spans += [np.inf for _ in diagonal]
    view_names = {LINEAR: "linear", CHANGE: "change", SQUARE: "square"}
    for s in second:
        for forgetting, cap in zip(s.forgetting, s.cap, strict=True):
            names.append(f"{view_names[s.view]} {forgetting:g}/{cap:g}")
            spans.append(-np.log2(1 - forgetting) if forgetting < 1 else np.inf)
    count = len(names)

    # A learner.
    starts: dict[int, int] = {}
    end = at.HEAD

    def place(name: int, size: int) -> int:
        nonlocal end
        starts[name] = end
        end += size
        return end - size

    place(at.O_TARGET, at.FIELDS)
    place(at.O_FIRST, 4 * quads * (d + 1))
    place(at.O_TWIN, 0 if logistic else 12 * quads)
    place(at.O_DIAGONAL, 8 * (d + 1) if diagonal else 0)
    groups = []
    for s in second:
        n = width[s.view]
        w = place(-1, 4 * n)
        P = place(-1, 2 * n * (n + 1))
        stats = place(-1, at.STATS)
        groups.append([s.view, n, w, P, stats, *s.forgetting, *s.cap, *[s.surprise] * 4])
    place(at.O_HEDGE, 4 * count)
    place(at.O_MIX, 4 * count)
    place(at.O_TOP, at.CANDIDATES)
    place(at.O_HISTORY, 2 * at.HISTORY)
    learner = end

    # The scratch row.
    end = 0
    place(at.W_VIEW, 3 * (2 * d + 4))
    place(at.W_G, 4 * sum(width[s.view] for s in second))
    place(at.W_YV, at.YV * len(second))
    place(at.W_P, count)
    place(at.W_E, count)
    place(at.W_OUT, at.CANDIDATES)
    place(at.W_TMP, 12)
    place(at.W_RAW, 4 * quads)
    place(at.W_DIAGONAL, 4 * (d + 1) + 4 if diagonal else 0)
    work = end

    # The config.
    end = at.CONFIG_HEAD
    tables: dict[int, list[float]] = {
        at.T_STEPS: [*STEPS],
        at.T_HEDGE: [0.125, 0.5, 2.0, 0.0]  # rates over the running loss; the last is the safe one
        + ([1e-4, 1e-2, 1e-3, 1e-3] if logistic else [1e-3, 1e-3, 1e-3, 1e-4]),  # shares
        at.T_MIX: [2.0**-k for k in ((1, 3, 5, 7) if logistic else (4, 6, 8, 10))],
        at.T_DIAGONAL: [*ADAGRAD],
        at.T_GROUP: [number for group in groups for number in group],
        at.T_SPAN: [float(span) for span in spans],
    }
    for name, table in tables.items():
        place(name, len(table))
    config = np.zeros(end)
    for name, table in tables.items():
        config[starts[name] : starts[name] + len(table)] = table
    frames = at.FRAMES_HEAD + at.FIELDS * d
    for name, value in starts.items():
        if name >= 0:
            config[name] = value
    for name, number in {
        at.C_DIM: d,
        at.C_LOSS: plan.loss,
        at.C_PARAM: plan.param,
        at.C_QUADS: quads,
        at.C_GROUPS: len(groups),
        at.C_EXPERTS: count,
        at.C_FRAMES: frames,
        at.C_LEARNER: learner,
        at.C_BASIC: basic,
        at.C_TWINS: not logistic,
        at.C_DIAGONAL: bool(diagonal),
        at.C_TOP_SHARE: plan.top_share,
        at.C_DECAY: plan.decay,
        at.C_MEMORY: plan.memory,
        at.C_CLIP: plan.clip,
        at.C_JOIN: 8 if logistic else 2,
        at.WORK: work,
    }.items():
        config[name] = number
    config.flags.writeable = False
    return Layout(frames, learner, tuple(names), config)


def fresh_frames(lay: Layout) -> Array:
    """Return frames that have seen nothing."""
    d = int(lay.config[at.C_DIM])
    frames = np.zeros(lay.frames)
    frames[at.FRAMES_HEAD :].reshape(at.FIELDS, d)[at.F_BOUND] = lay.config[at.C_CLIP]
    return frames


def fresh_learner(lay: Layout) -> Array:
    """Return a learner that has seen nothing."""
    cfg = lay.config
    learner = np.zeros(lay.learner)
    count = int(cfg[at.C_EXPERTS])
    learner[int(cfg[at.O_TARGET]) + at.F_BOUND] = cfg[at.C_CLIP]
    hedge, mix, top = (int(cfg[k]) for k in (at.O_HEDGE, at.O_MIX, at.O_TOP))
    learner[hedge : hedge + 4 * count] = 1.0 / count
    if cfg[at.C_LOSS] == LOGISTIC:
        learner[mix : mix + 4 * count] = 1.0 / count
    learner[top : top + at.CANDIDATES] = 1.0 / at.CANDIDATES
    for _, n, _, matrix, stats in groups_of(lay):
        packed = learner[matrix : matrix + 2 * n * (n + 1)].reshape(-1, 4)
        packed[diagonal_of(n)] = 1.0
        learner[stats + at.S_TRACE : stats + at.S_TRACE + 4] = n
    return learner


def fresh(lay: Layout, outputs: int = 1) -> Array:
    """Return the state of a pool that has seen nothing."""
    return np.concatenate([fresh_frames(lay), *[fresh_learner(lay)] * outputs])


def groups_of(lay: Layout) -> list[tuple[int, int, int, int, int]]:
    """Return view, size and offsets (weights, matrix, stats) of every second-order block."""
    cfg = lay.config
    start, count = int(cfg[at.T_GROUP]), int(cfg[at.C_GROUPS])
    table = cfg[start : start + count * at.GROUP].reshape(count, at.GROUP)
    return [(int(r[0]), int(r[1]), int(r[2]), int(r[3]), int(r[4])) for r in table]


def diagonal_of(n: int) -> Array:
    """Return where the diagonal lies in a packed triangle."""
    i = np.arange(n)
    return np.asarray(i * n - i * (i - 1) // 2)
