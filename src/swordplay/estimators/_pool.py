"""The default pool as an object: one state row, grown where new columns or outputs appear."""

from __future__ import annotations

from typing import Any

import numpy as np

from swordplay._types import Array
from swordplay.kernels import pool, pool_grow, pool_plan
from swordplay.kernels import pool_layout as at
from swordplay.state import StateError

LOSSES = {
    "squared": at.SQUARED,
    "huber": at.HUBER,
    "absolute": at.ABSOLUTE,
    "pinball": at.PINBALL,
    "logistic": at.LOGISTIC,
}
POOLS = ("auto", "first-order")
_NONE = np.empty(0)


class Pool:
    """A pool of experts for ``dim`` columns and ``outputs`` targets.

    Args:
        dim: number of columns.
        loss: one of ``LOSSES``.
        param: Huber's delta, pinball's quantile.
        kind: "auto", or "first-order" for no second-order experts.
        last_value: whether the last value is an expert.
        outputs: number of targets.
    """

    def __init__(
        self,
        dim: int,
        loss: str = "squared",
        param: float = 1.0,
        kind: str = "auto",
        last_value: bool = True,
        outputs: int = 1,
    ) -> None:
        self.plan = pool_plan.PoolConfig(
            loss=LOSSES[loss],
            param=float(param),
            second_order=kind == "auto",
            last_value=last_value,
        )
        self.dim = dim
        self.layout = pool_plan.layout(dim, self.plan)
        self.row = pool_plan.fresh(self.layout, outputs)

    @property
    def outputs(self) -> int:
        """How many targets are predicted."""
        return (self.row.size - self.layout.frames) // self.layout.learner

    @property
    def rounds(self) -> int:
        """How many rows were learned."""
        return int(self.row[0])

    def learner(self, m: int) -> Array:
        """Return a view of the state of output ``m``."""
        start = self.layout.frames + m * self.layout.learner
        view: Array = self.row[start : start + self.layout.learner]
        return view

    def learn(self, X: Array, Y: Array, weights: Array | None = None) -> Array:
        """Predict, then learn, row after row; return predictions and running errors, (n, 2 M)."""
        out = np.empty((len(X), 2 * self.outputs))
        pool.learn(self.row, self.layout.config, X, Y, _NONE if weights is None else weights, out)
        return out

    def predict(self, X: Array) -> Array:
        """Return what ``learn`` would, without learning."""
        out = np.empty((len(X), 2 * self.outputs))
        pool.predict(self.row, self.layout.config, X, out)
        return out

    def widen(self, dim: int) -> None:
        """Make room for new columns after the present ones."""
        new = pool_plan.layout(dim, self.plan)
        self.row = pool_grow.widen(self.row, self.layout, new)
        self.dim, self.layout = dim, new

    def add_label(self) -> None:
        """Append the learner of a label that was never seen before."""
        self.row = np.concatenate([self.row, pool_grow.newcomer(self.layout, self.rounds)])

    def split_labels(self) -> None:
        """Turn the learner of label 1 against label 0 into one learner a label: [0, 1]."""
        opposite = pool_grow.mirror(self.learner(0), self.layout)
        frames = self.layout.frames
        self.row = np.concatenate([self.row[:frames], opposite, self.row[frames:]])

    # ---- looking inside

    @property
    def names(self) -> tuple[str, ...]:
        """The experts."""
        return self.layout.names

    def weights(self, m: int) -> Array:
        """Return the share of every expert in the answer of output ``m``: they add up to 1."""
        cfg, learner, count = self.layout.config, self.learner(m), len(self.names)
        top = learner[int(cfg[at.O_TOP]) :][: at.CANDIDATES]
        share: Array = np.zeros(count)
        for block, name in enumerate((at.O_HEDGE, at.O_MIX)):
            table = np.abs(learner[int(cfg[name]) :][: 4 * count].reshape(count, 4))
            total = table.sum(axis=0)
            table = np.where(total > 0, table / np.where(total > 0, total, 1.0), 1.0 / count)
            share += table @ top[4 * block : 4 * block + 4]
        return np.asarray(share / share.sum())

    def memory(self, m: int) -> float:
        """Return the weighted geometric mean of the experts' memories, in rows."""
        cfg, learner = self.layout.config, self.learner(m)
        longest = np.log2(learner[at.H_ROUND] + 1.0)
        spans = np.minimum(cfg[int(cfg[at.T_SPAN]) :][: len(self.names)], longest)
        return float(2.0 ** (self.weights(m) @ spans))

    def drift(self, m: int) -> float:
        """Return by how many octaves the memory was shorter than usual when last gauged."""
        return max(0.0, float(self.learner(m)[at.H_DRIFT]))

    def history(self, m: int) -> tuple[Array, Array, Array]:
        """Return the trace of the gauge: rows, memory (rows), drift (octaves)."""
        cfg, learner = self.layout.config, self.learner(m)
        kept = int(learner[at.H_KEPT])
        trace = learner[int(cfg[at.O_HISTORY]) :][: 2 * kept].reshape(kept, 2)
        stride = at.GAUGE_EVERY * max(1.0, learner[at.H_STRIDE])
        rows = stride * np.arange(1, kept + 1)
        return rows, 2.0 ** trace[:, 0], np.maximum(trace[:, 1], 0.0)

    # ---- state

    def header(self) -> dict[str, Any]:
        """Return what ``restore`` needs beside the row."""
        return {"dim": self.dim, "outputs": self.outputs}

    def restore(self, header: dict[str, Any], row: Array) -> None:
        """Take over a saved state."""
        dim, outputs = int(header["dim"]), int(header["outputs"])
        layout = pool_plan.layout(dim, self.plan)
        if row.size != layout.frames + outputs * layout.learner:
            raise StateError(
                f"The state holds {row.size} floats; a pool of {dim} columns and {outputs} "
                f"outputs needs {layout.frames + outputs * layout.learner}."
            )
        self.dim, self.layout, self.row = dim, layout, row

    def __getstate__(self) -> dict[str, Any]:
        # the layout is made again: its config must be the very array that kernels know
        return {name: value for name, value in vars(self).items() if name != "layout"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.layout = pool_plan.layout(self.dim, self.plan)
        self.row = np.array(self.row)  # never a read-only map of a file
