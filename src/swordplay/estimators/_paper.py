"""The paper's learners behind the estimators: G and L found by doubling, the horizon too.

Columns and target are standardised by their running mean and variance; the learner plays linear
models in a ball of radius 10 around zero. Whenever a gradient is longer than G, or a row curves
its loss more than L, the constant becomes twice what was seen and a new learner starts at the
present decision: log2 of the range of G and L restarts in all, each at most doubling the constants
that the theorems speak of.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import swordplay as sp
from swordplay._types import Array
from swordplay.state import StateError

RADIUS = 10.0
KINDS: dict[str, Any] = {
    "sword++": sp.SwordPP,
    "oegd": sp.OEGD,
    "ogd": sp.OGD,
    "ader++": lambda domain, facts, **more: sp.Ader(domain, facts, surrogate=True, **more),
}
ROUGH = ("absolute", "pinball")  # not smooth: OGD and Ader++ only
_HEAD = 5  # target's mean, variance and rows; G; L


class Paper:
    """One learner of the paper per target, over shared scaling; an engine like ``Pool``."""

    def __init__(
        self,
        dim: int,
        loss: str = "squared",
        param: float = 1.0,
        kind: str = "sword++",
        outputs: int = 1,
    ) -> None:
        if loss in ROUGH and kind in ("sword++", "oegd"):
            raise ValueError(
                f'pool="{kind}" needs a smooth loss; for loss="{loss}" use pool="auto", "ogd" or '
                '"ader++".'
            )
        self.dim, self.loss, self.param, self.kind = dim, loss, param, kind
        self._scaling = np.zeros(1 + 2 * dim)  # rows, means, variances
        self._targets = np.zeros((outputs, _HEAD))
        self._learners: list[Any] = [None] * outputs

    @property
    def outputs(self) -> int:
        """How many targets are predicted."""
        return len(self._learners)

    @property
    def rounds(self) -> int:
        """How many rows were learned."""
        return int(self._scaling[0])

    # ---- one row

    def _features(self, x: Array) -> Array:
        mean, var = self._scaling[1 : 1 + self.dim], self._scaling[1 + self.dim :]
        scale = np.where(var > 0, 1.0 / np.sqrt(np.where(var > 0, var, 1.0)), 0.0)
        z = (np.clip(np.where(np.isnan(x), mean, x), -1e100, 1e100) - mean) * scale
        return np.concatenate([[1.0], np.clip(z, -7.0, 7.0)])

    def _answer(self, m: int, f: Array) -> tuple[float, float]:
        """Return the linear prediction in the target's frame, and in its units."""
        learner = self._learners[m]
        raw = 0.0 if learner is None else float(learner.decide() @ f)
        if self.loss == "logistic":
            return raw, 1.0 / (1.0 + math.exp(-min(max(raw, -30.0), 30.0)))
        mean, var = self._targets[m, :2]
        return raw, mean + (math.sqrt(var) if var > 0 else 1.0) * raw

    def _tell(self, m: int, f: Array, target: float, raw: float, weight: float) -> None:
        head = self._targets[m]
        if self.loss == "logistic":
            slope = 1.0 / (1.0 + math.exp(-min(max(raw, -30.0), 30.0))) - target
            curvature = 0.25
        else:
            target = min(max(target, -1e100), 1e100)
            scale = math.sqrt(head[1]) if head[1] > 0 else 1.0
            delta = self.param / scale if self.loss == "huber" else self.param
            residual = raw - (target - head[0]) / scale
            slope, curvature = _slope(self.loss, delta, min(max(residual, -50.0), 50.0)), 1.0
            head[2] = min(head[2] + 1.0, 2000.0)
            if head[2] == 1.0:
                head[0] = target
            _follow(head[0:1], head[1:2], np.array([target]), head[2])
        gradient = weight * slope * f
        length = float(np.sqrt(gradient @ gradient))
        steep = weight * curvature * float(f @ f)
        learner = self._learners[m]
        if learner is None or length > head[3] or steep > head[4]:
            if length > head[3]:
                head[3] = 2.0 * length
            if steep > head[4]:
                head[4] = 2.0 * steep
            start = None if learner is None else learner.decide()
            learner = self._learners[m] = self._build(m, start)
        learner.learn(gradient)

    def _build(self, m: int, start: Array | None) -> Any:
        _, _, _, lipschitz, smoothness = self._targets[m]
        rough = self.loss in ROUGH
        facts = sp.Assumptions(max(lipschitz, 1e-12), None if rough else max(smoothness, 1e-12))
        more = {} if start is None else {"start": start}
        return KINDS[self.kind](sp.Ball(self.dim + 1, RADIUS), facts, **more)

    # ---- many rows

    def learn(self, X: Array, Y: Array, weights: Array | None = None) -> Array:
        """Predict, then learn, row after row; return predictions and running errors, (n, 2 M)."""
        out = np.empty((len(X), 2 * self.outputs))
        for t, x in enumerate(X):
            weight = 1.0 if weights is None else float(weights[t])
            f = self._features(x)
            for m in range(self.outputs):
                raw, out[t, m] = self._answer(m, f)
                out[t, self.outputs + m] = math.sqrt(self._targets[m, 1])
                if weight > 0:
                    self._tell(m, f, float(Y[t, m]), raw, weight)
            if weight > 0:
                self._scaling[0] += 1.0
                n = min(self._scaling[0], 2000.0)
                mean, var = self._scaling[1 : 1 + self.dim], self._scaling[1 + self.dim :]
                x = np.clip(np.where(np.isnan(x), mean, x), -1e100, 1e100)
                if n == 1.0:
                    mean[:] = x
                _follow(mean, var, x, n)
        return out

    def predict(self, X: Array) -> Array:
        """Return what ``learn`` would, without learning."""
        out = np.empty((len(X), 2 * self.outputs))
        for t, x in enumerate(X):
            f = self._features(x)
            for m in range(self.outputs):
                out[t, m] = self._answer(m, f)[1]
                out[t, self.outputs + m] = math.sqrt(self._targets[m, 1])
        return out

    def widen(self, dim: int) -> None:
        """Make room for new columns; the learners start again at the decision they had."""
        more = np.zeros(dim - self.dim)
        mean, var = self._scaling[1 : 1 + self.dim], self._scaling[1 + self.dim :]
        self._scaling = np.concatenate([self._scaling[:1], mean, more, var, more])
        self.dim = dim
        for m, learner in enumerate(self._learners):
            if learner is not None:
                self._learners[m] = self._build(m, np.concatenate([learner.decide(), more]))

    def add_label(self) -> None:
        """Append the learner of a label that was never seen before."""
        self._targets = np.vstack([self._targets, np.zeros(_HEAD)])
        self._learners.append(None)

    def split_labels(self) -> None:
        """Turn the learner of label 1 against label 0 into one learner a label: [0, 1]."""
        self._targets = np.vstack([self._targets[0], self._targets])
        learner = self._learners[0]
        opposite = None if learner is None else self._build(0, -learner.decide())
        self._learners = [opposite, learner]

    # ---- looking inside

    @property
    def names(self) -> tuple[str, ...]:
        """The base learners of the first target."""
        learner = self._learners[0]
        sizes = [] if learner is None else learner.step_sizes
        return tuple(f"step {size:.3g}" for size in sizes)

    def weights(self, m: int) -> Array:
        """Return the weight of every base learner."""
        learner = self._learners[m]
        return np.empty(0) if learner is None else np.asarray(learner.weights, dtype=float)

    def memory(self, m: int) -> float:
        """Return the weighted geometric mean of 1 / (step x L), in rows."""
        learner = self._learners[m]
        if learner is None:
            return 1.0
        steps = np.asarray(learner.step_sizes) * max(self._targets[m, 4], 1e-12)
        spans = np.minimum(np.log2(1.0 + 1.0 / steps), np.log2(self.rounds + 1.0))
        return float(2.0 ** (self.weights(m) @ spans / self.weights(m).sum()))

    def drift(self, m: int) -> float:
        """Return 0: these learners keep no trace."""
        return 0.0

    def history(self, m: int) -> tuple[Array, Array, Array]:
        """Return an empty trace."""
        return np.empty(0), np.empty(0), np.empty(0)

    # ---- state

    @property
    def row(self) -> Array:
        """The whole state, as one row."""
        rows = [np.empty(0) if one is None else one._row for one in self._learners]
        return np.concatenate([self._scaling, self._targets.ravel(), *rows])

    def header(self) -> dict[str, Any]:
        """Return what ``restore`` needs beside the row."""
        sizes = [0 if one is None else one._row.size for one in self._learners]
        return {"dim": self.dim, "outputs": self.outputs, "sizes": sizes}

    def restore(self, header: dict[str, Any], row: Array) -> None:
        """Take over a saved state."""
        self.dim, outputs = int(header["dim"]), int(header["outputs"])
        sizes = [int(size) for size in header["sizes"]]
        at = 1 + 2 * self.dim
        if len(sizes) != outputs or row.size != at + _HEAD * outputs + sum(sizes):
            raise StateError(f"The state holds {row.size} floats, which do not fit its header.")
        self._scaling = row[:at].copy()
        self._targets = row[at : at + _HEAD * outputs].reshape(outputs, _HEAD).copy()
        at += _HEAD * outputs
        self._learners = []
        for m, size in enumerate(sizes):
            learner = None
            if size:
                learner = self._build(m, None)
                learner._adopt(row[at : at + size].copy())
            self._learners.append(learner)
            at += size

    def __getstate__(self) -> dict[str, Any]:
        made = (self.dim, self.loss, self.param, self.kind, self.outputs)
        return {"made": made, "header": self.header(), "row": self.row}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.dim, self.loss, self.param, self.kind, _ = saved["made"]
        self.restore(saved["header"], np.array(saved["row"]))


def _slope(loss: str, param: float, residual: float) -> float:
    """Return the slope of the loss at prediction - target."""
    if loss == "squared":
        return residual
    if loss == "huber":
        return min(max(residual, -param), param)
    if loss == "absolute":
        return float(np.sign(residual))
    return 1.0 - param if residual > 0 else -param if residual < 0 else 0.0


def _follow(mean: Array, var: Array, x: Array, n: float) -> None:
    """Move running means and variances, in place, towards the n-th value."""
    delta = x - mean
    mean += delta / n
    var[:] = (1.0 - 1.0 / n) * (var + delta * delta / n)
