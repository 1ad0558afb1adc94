r"""Prediction intervals that keep their coverage while the world drifts.

Scores s_t = \|y_t - p_t\| / e_t, with e_t the pool's running root mean squared error, are compared
with a radius q_t, which plays the pinball loss at level c (the coverage) with online gradient
descent at a constant step eta:

.. math::
    q_{t+1} = q_t + \eta (c - 1[s_t \le q_t])

This is adaptive conformal inference. Summing it up, whatever the targets are, the realised coverage
of T rows differs from c by \|q_{T+1} - q_1\| / (eta T): a telescope, not an assumption.

Reference:
    I. Gibbs and E. Candès, Adaptive conformal inference under distribution shift, NeurIPS 2021.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import swordplay as sp
from swordplay._types import Array

STEP = 0.05  # in units of the running error; a thousand rows bound the coverage's error by 2 points
LARGEST = 1000.0


class Conformal:
    """The radius of the interval, in units of the running error.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> tracker = Conformal(0.9)
    >>> errors = rng.normal(size=5000)
    >>> widths = tracker.learn(errors, np.zeros(5000), np.ones(5000))
    >>> round(float(np.mean(np.abs(errors) <= widths)), 2)
    0.9
    """

    def __init__(self, coverage: float) -> None:
        if not 0.0 < coverage < 1.0:
            raise ValueError(f"coverage must lie between 0 and 1, not {coverage!r}.")
        self.coverage = float(coverage)
        self._learner = sp.OGD(
            sp.Box([0.0], [LARGEST]),
            sp.Assumptions(lipschitz=1.0, horizon=1_000_000),
            start=[2.0],
            step_sizes=[STEP],
        )

    def learn(self, targets: Array, predictions: Array, errors: Array) -> Array:
        """Return the half widths that stood before each target was seen, and learn them all."""
        misses = np.abs(targets - predictions)
        # where nothing was ever missed, no width is zero enough: any miss is as bad as can be
        safe = np.where(errors > 0, errors, 1.0)
        scores = np.where(errors > 0, misses / safe, np.where(misses > 0, LARGEST, 0.0))
        scores = np.minimum(scores, LARGEST)
        stream = sp.LinearStream(np.ones((len(scores), 1)), scores, sp.Pinball(self.coverage))
        run = sp.play(self._learner, stream, record=("decisions",))
        assert run.decisions is not None
        return np.asarray(run.decisions[:, 0] * errors)

    def width(self, errors: Array) -> Array:
        """Return the half widths for running errors."""
        return np.asarray(float(self._learner.decide()[0]) * errors)

    @property
    def row(self) -> Array:
        """The state."""
        return self._learner._row

    def restore(self, row: Array) -> None:
        """Take over a saved state."""
        self._learner._adopt(row.copy())

    def __getstate__(self) -> dict[str, Any]:
        return {"coverage": self.coverage, "state": self._learner.to_bytes()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.coverage = state["coverage"]
        learner = sp.from_bytes(state["state"])
        assert isinstance(learner, sp.OGD)
        self._learner = learner
