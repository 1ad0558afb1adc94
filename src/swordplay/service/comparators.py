"""Regret on a recent window: the model against linear models that saw the window beforehand."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from swordplay import losses, regret
from swordplay._types import Array, ArrayLike
from swordplay.domains import Ball
from swordplay.service.models import Spec
from swordplay.service.monitor import loss_of
from swordplay.service.state import Record
from swordplay.streams.linear import LinearStream

SEGMENTS = 4
RADIUS = 10.0  # of the comparators, in standard deviations of target and features
LEAST = 32  # rows worth comparing on
EACH = 2  # rows a feature that every piece should have: fewer would fit anything
SLOW = 256  # rows of a window whose comparators are no least squares
WIDEST = 64  # features
SECONDS = 1.5  # of a processor, for one measurement: the same on a busy machine
TOLERANCE = 1e-5  # of the comparators' losses; the last digits would take most of the time


FEW = (
    f"Fewer than {LEAST} recent rows, or fewer than {EACH * SEGMENTS} a feature: too few to "
    "compare on."
)
WIDE = f"Comparing takes too long with more than {WIDEST} features."
LONG = f"Comparing took longer than {SECONDS} s; a smaller window would take less."
FLAT = "The recent labels are all the same, or too small or too large to compare on."
# One model for each class against the rest, each its best, are not the best for the log loss of
# the shares that come of them together; and their pieces would end at different rows.
MANY = "With more than two classes there is no comparator whose best is known."


class _Timed(Ball):
    """A ball that is there for some seconds of work: every solver projects at each of its steps."""

    def __init__(self, dim: int, seconds: float) -> None:
        super().__init__(dim, RADIUS)
        self._end = time.thread_time() + seconds

    def project(self, x: ArrayLike) -> Array:
        """Return the nearest member, or raise TimeoutError."""
        if time.thread_time() > self._end:
            raise TimeoutError
        return super().project(x)


def regret_on(spec: Spec, data: list[bytes], window: int) -> dict[str, Any] | str:
    """Return losses and regret on the last rows of a log, or why there is nothing to compare.

    The comparators are linear in standardised features with an intercept: the best fixed one, and
    the best one of at most four pieces. They know the window; the model did not.
    """
    if not data:
        return FEW
    records = [Record.from_bytes(one) for one in data]
    width = records[-1].X.shape[1]
    if width > WIDEST:
        return WIDE
    records = [one for one in records if one.X.shape[1] == width]
    if spec.task == "classification" or spec.loss != "squared":
        window = min(window, SLOW)
    X = np.concatenate([one.X for one in records])[-window:]
    own = np.concatenate([one.losses for one in records])[-window:]
    labels = [label for one in records for label in one.y][-window:]
    if len(X) < LEAST or width + 1 > len(X) // (EACH * SEGMENTS):
        return FEW
    if spec.task == "classification" and len(set(labels)) > 2:
        return MANY
    y, loss, scale = _targets(spec, labels)
    if y is None:
        return FLAT
    stream = LinearStream(_standardised(X), y, loss)
    domain = _Timed(width + 1, SECONDS)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            fixed = regret.best_fixed(stream, domain, tolerance=TOLERANCE)
            pieces = regret.best_piecewise(stream, domain, SEGMENTS, tolerance=TOLERANCE)
    except TimeoutError:
        return LONG
    best = _total(stream, np.tile(fixed, (len(y), 1))) * scale
    piecewise = min(best, _total(stream, pieces) * scale)
    mine = float(own.sum())
    return {
        "rows": len(y),
        "loss": "log loss" if spec.task == "classification" else f"{spec.loss} loss",
        "model": mine,
        "best_fixed": best,
        "best_piecewise": piecewise,
        "segments": SEGMENTS,
        "regret_fixed": mine - best,
        "regret_piecewise": mine - piecewise,
    }


def _targets(spec: Spec, labels: list[Any]) -> tuple[Array | None, Any, float]:
    """Return targets for a linear stream, their loss, and what a loss of 1 there is worth here."""
    if spec.task == "classification":
        known = sorted(set(labels))
        if len(known) != 2:
            return None, None, 1.0
        return np.where(np.array(labels) == known[1], 1.0, -1.0), losses.Logistic(), 1.0
    y = np.array(labels, dtype=float)
    centre, spread = float(y.mean()), float(y.std())
    if not 1e-100 < spread < 1e100:
        return None, None, 1.0
    if spec.loss == "squared":
        return (y - centre) / spread, losses.Squared(), spread * spread
    if spec.loss == "huber":
        return (y - centre) / spread, losses.Huber(delta=spec.delta / spread), spread * spread
    return (y - centre) / spread, loss_of(spec), spread


def _standardised(X: Array) -> Array:
    X = np.where(np.isnan(X), 0.0, X)
    spread = X.std(axis=0)
    Z = (X - X.mean(axis=0)) / np.where((spread > 1e-100) & (spread < 1e100), spread, np.inf)
    return np.column_stack([np.ones(len(Z)), Z])


def _total(stream: LinearStream, decisions: Array) -> float:
    predictions = (np.asarray(stream.features) * decisions).sum(axis=1)
    return float(np.sum(stream.loss.value(np.asarray(stream.targets), predictions)))
