"""Prequential loss beside its baselines, and a history of constant size for the charts.

Every row is predicted by the state just before it is learned; that prediction's loss counts. All of
it is part of a model's state: a replayed log rebuilds it to the last bit. A point of the history
holds the mean losses of the rows since the point before, so that a change and the recovery from it
show as they were.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from swordplay import losses
from swordplay._types import Array
from swordplay.service.models import BUCKETS, Model, Spec
from swordplay.state import StateError

FORMAT = 2  # of what is stored; 1 kept points of another kind
POINTS = 96  # of the history; when full, neighbours merge
HORIZON = 500.0  # rows behind a recent mean
FIRST_STRIDE = 16  # rows between two points, at first
MOST = 2**53  # rows that can be counted
COLUMNS = ("rows", "loss", "baseline_1", "baseline_2", "memory", "drift")
MEMORY, DRIFT = COLUMNS.index("memory"), COLUMNS.index("drift")
RATIO = 1e9  # a model without loss would be infinitely better
BASELINES = {
    "regression": ("last value", "running mean"),
    "classification": ("last label", "commonest label"),
}
LOSS_NAMES = {"classification": "error rate"}


def loss_of(spec: Spec) -> Any:
    """Return the loss a regression is judged by."""
    return {
        "squared": losses.Squared(),
        "huber": losses.Huber(delta=spec.delta),
        "absolute": losses.Absolute(),
        "pinball": losses.Pinball(spec.quantile),
    }[spec.loss]


class Monitor:
    """What is known about how well a model does."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.rows = 0
        self.totals = np.zeros(4)  # loss of the model and of two baselines; log loss
        self.recent = np.zeros(4)  # exponentially weighted, and their weight
        self.since = np.zeros(4)  # losses since the last point of the history, and rows
        self.last: Any = None
        self.sum = 0.0
        self.counts: dict[Any, int] = {}
        self.stride = FIRST_STRIDE
        self.history: Array = np.zeros((0, len(COLUMNS) + BUCKETS), dtype=np.float32)

    def copy(self) -> Monitor:
        """Return a twin; the history is replaced, never written to, so twins may share it."""
        twin = copy.copy(self)
        twin.totals, twin.recent = self.totals.copy(), self.recent.copy()
        twin.since = self.since.copy()
        twin.counts = dict(self.counts)
        return twin

    def learn(self, y: Any, outcome: Array, model: Model) -> Array:
        """Take in what ``model.learn`` returned for ``y``; return each row's loss."""
        n = len(y)
        if self.spec.task == "classification":
            rows = np.column_stack([outcome[:, 1], *self._naive_labels(y)])
            sure = np.clip(outcome[:, 0], 1e-6, 1.0)
            extra = -np.log(sure)
        else:
            loss = loss_of(self.spec)
            columns = (outcome[:, 0], *self._naive_values(np.asarray(y)))
            rows = np.column_stack([loss.value(y, column) for column in columns])
            extra = np.zeros(n)
        before = self.rows
        self.rows += n
        sums = rows.sum(axis=0)
        self.totals += [*sums, extra.sum()]
        self.since += [*sums, n]
        fading = np.exp(-np.arange(n - 1, -1, -1) / HORIZON)
        self.recent *= np.exp(-n / HORIZON)
        self.recent += [*(rows * fading[:, None]).sum(axis=0), fading.sum()]
        if before // self.stride != self.rows // self.stride:
            self._gauge(model)
        return np.asarray(extra if self.spec.task == "classification" else rows[:, 0])

    def _naive_values(self, y: Array) -> tuple[Array, Array]:
        known = self.rows + np.arange(len(y))
        sums = np.concatenate([[self.sum], self.sum + np.cumsum(y)])
        last = np.concatenate([[0.0 if self.last is None else self.last], y[:-1]])
        self.last, self.sum = float(y[-1]), float(sums[-1])
        return last, sums[:-1] / np.maximum(known, 1)

    def _naive_labels(self, y: Any) -> tuple[Array, Array]:
        wrong = np.zeros((2, len(y)))
        for t, label in enumerate(y):
            common = max(self.counts, key=self.counts.__getitem__, default=None)
            wrong[:, t] = (label != self.last, label != common)
            self.last = label
            self.counts[label] = self.counts.get(label, 0) + 1
        return wrong[0], wrong[1]

    def _gauge(self, model: Model) -> None:
        memory, drift, heat = model.gauge()
        point = [self.rows, *(self.since[:3] / self.since[3]), memory, drift, *heat]
        self.since = np.zeros(4)
        limit = float(np.finfo(np.float32).max)
        fits = np.clip(np.array(point, dtype=np.float64), -limit, limit).astype(np.float32)
        history = self.history
        if len(history) == POINTS:
            history, self.stride = _merged(history, self.stride)
        self.history = np.vstack([history, fits[None]])

    # ---- what people see

    def summary(self) -> dict[str, Any]:
        """Return rows learned, and losses overall and of late."""
        names = ("model", *BASELINES[self.spec.task])
        kind = LOSS_NAMES.get(self.spec.task, f"{self.spec.loss} loss")
        told: dict[str, Any] = {"rows": self.rows, "loss": kind}
        if self.rows:
            overall, recent = self.totals[:3] / self.rows, self.recent[:3] / self.recent[3]
            told["overall"] = dict(zip(names, overall.tolist(), strict=True))
            told["recent"] = dict(zip(names, recent.tolist(), strict=True))
            if self.spec.task == "classification":
                told["log_loss"] = float(self.totals[3] / self.rows)
        return told

    def ratio(self) -> float | None:
        """Return how many times the better baseline's recent loss is the model's."""
        if not self.rows:
            return None
        own, *naive = (float(loss) for loss in self.recent[:3])
        best = min(naive)
        if own <= 0.0:
            return RATIO if best > 0.0 else 1.0
        return min(best / own, RATIO)

    def curves(self, bands: list[int] | None) -> dict[str, Any]:
        """Return the history, a list a column; the heat map a list a memory length.

        ``bands`` are the buckets that can have weight; None: any, so those between what was seen.
        """
        table = self.history.T.astype(float)
        curves: dict[str, Any] = {name: table[k].tolist() for k, name in enumerate(COLUMNS)}
        heat, top = table[len(COLUMNS) :], BUCKETS - 1
        if bands is None:
            seen = np.flatnonzero(heat.any(axis=1))
            shown = list(range(seen[0], seen[-1] + 1)) if len(seen) else []
        else:
            shown = bands
        curves["heat"] = heat[shown].round(4).tolist()
        curves["memories"] = [None if bands and band == top else 2**band for band in shown]
        return curves

    # ---- state

    def as_json(self) -> dict[str, Any]:
        """Return everything, for JSON: floats come back to the bit."""
        return {
            "format": FORMAT,
            "rows": self.rows,
            "totals": self.totals.tolist(),
            "recent": self.recent.tolist(),
            "since": self.since.tolist(),
            "last": self.last,
            "sum": self.sum,
            "counts": [[label, count] for label, count in self.counts.items()],
            "stride": self.stride,
            "history": self.history.astype(float).tolist(),
        }

    @classmethod
    def from_json(cls, spec: Spec, given: dict[str, Any]) -> Monitor:
        """Return what ``as_json`` described; wrong shapes raise ValueError."""
        if given.get("format", 1) != FORMAT:
            raise StateError(
                f"What is stored has format {given.get('format', 1)}; this version of swordplay "
                f"reads format {FORMAT} alone."
            )
        one = cls(spec)
        one.rows, one.stride = int(given["rows"]), int(given["stride"])
        one.totals = np.array(given["totals"], dtype=float).reshape(4)
        one.recent = np.array(given["recent"], dtype=float).reshape(4)
        one.since = np.array(given["since"], dtype=float).reshape(4)
        one.last, one.sum = given["last"], float(given["sum"])
        one.counts = {label: int(count) for label, count in given["counts"]}
        width = len(COLUMNS) + BUCKETS
        history = np.array(given["history"], dtype=np.float32).reshape(-1, width)
        numbers = (one.totals, one.recent, one.since, [one.sum], history)
        if len(history) > POINTS or not 1 <= one.stride <= MOST or not 0 <= one.rows <= MOST:
            raise ValueError("the history is too long")
        if not all(np.isfinite(part).all() for part in numbers):
            raise ValueError("the metrics hold numbers that are not finite")
        if (np.diff(history[:, 0], prepend=0) < 0).any() or not 0 <= one.since[3] <= one.rows:
            raise ValueError("the history does not go forward")
        one.history = history
        return one


def _merged(history: Array, stride: int) -> tuple[Array, int]:
    """Return at most half the points, each about all rows since the one before, and their stride.

    Losses and weights are means over those rows. Of the drift the highest stays: a change must not
    vanish from the charts because time goes by.
    """
    table = history.astype(float)
    rows = table[:, 0]
    weights = np.maximum(np.diff(rows, prepend=0.0), 1.0)[:, None]
    first = np.arange(len(rows))
    while len(first) > POINTS // 2:  # more than once where requests are longer than the stride
        stride *= 2
        ends = np.flatnonzero(np.diff(rows // stride, prepend=0.0) > 0)
        first = np.unique([0, *(ends[ends < len(rows) - 1] + 1)])
    last = np.append(first[1:], len(rows)) - 1
    merged = np.add.reduceat(table * weights, first) / np.add.reduceat(weights, first)
    merged[:, [0, MEMORY]] = table[last][:, [0, MEMORY]]
    merged[:, DRIFT] = np.maximum.reduceat(table[:, DRIFT], first)
    return merged.astype(np.float32), stride
